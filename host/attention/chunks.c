/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/chunks.h"

#include "base/mem.h"
#include "ops/softmax.h"

enum { ALIGN = 256, PIECES = 4 };

static void measure(const cla_problem *p, cla_chunks *c) {
    const int64_t size = (int64_t)clattn_dtype_size(p->dtype), heads = c->batches * c->heads;
    const int64_t rows = heads * c->members * c->queries;
    c->scores = cla_round_up(rows * p->M * size, ALIGN);
    c->values = cla_round_up(heads * p->M * c->columns * size, ALIGN);
    c->sums = cla_round_up(rows * size, ALIGN);
    c->flags = cla_round_up(heads * c->blocks * (int64_t)sizeof(int32_t), ALIGN);
}

/* Of count things at most `most` at a time, in chunks as even as can be. */
static int64_t even(int64_t count, int64_t most) {
    most = cla_max(1, cla_min(count, most));
    return cla_ceil_div(count, cla_ceil_div(count, most));
}

static void whole_heads(const cla_problem *p, int64_t most, cla_chunks *c) {
    c->members = p->group;
    c->queries = p->N;
    c->columns = p->Dv;
    c->heads = even(p->Hk, most);
    c->batches = most >= p->Hk ? even(p->B, most / p->Hk) : 1;
}

/* Of a single key head: all columns of V if they take no more than half of the room, then rows. */
static void part_of_head(const cla_problem *p, int64_t size, int64_t room, cla_chunks *c) {
    const int64_t column = p->M * size, row = column + size;
    room -= c->blocks * (int64_t)sizeof(int32_t);
    c->batches = c->heads = 1;
    c->columns = p->Dv == 0 ? 0 : even(p->Dv, room / 2 / column);
    room -= c->columns * column;
    c->members = room / row >= p->N ? even(p->group, room / row / p->N) : 1;
    c->queries = even(p->N, room / row);
}

cla_chunks cla_chunks_choose(const cla_problem *p, int64_t limit) {
    cla_chunks c = {.blocks = cla_ceil_div(p->M, CLA_SOFTMAX_KEYS)};
    const int64_t size = (int64_t)clattn_dtype_size(p->dtype), room = limit - PIECES * ALIGN;
    int64_t rows, scores, values, head;
    const bool fits = cla_mul(p->group, p->N, &rows) && cla_mul(rows, (p->M + 1) * size, &scores) &&
                      cla_mul(p->Dv, p->M * size, &values) && cla_add(scores, values, &head) &&
                      cla_add(head, c.blocks * (int64_t)sizeof(int32_t), &head) && head <= room;
    if (fits)
        whole_heads(p, room / head, &c);
    else
        part_of_head(p, size, room, &c);
    measure(p, &c);
    return c;
}

int64_t cla_chunks_bytes(const cla_chunks *c) { return c->scores + c->values + c->sums + c->flags; }
