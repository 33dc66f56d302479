/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/chunks.h"

#include "args.h"
#include "base/mem.h"
#include "ops/softmax.h"
#include "tensor/view.h"

enum { ALIGN = 256, PIECES = 4 };

cla_chunk cla_chunk_of_heads(const cla_problem *p, const cla_chunk_sizes *s, int64_t b, int64_t hk) {
    cla_chunk c = {.b0 = b,
                   .nb = cla_min(p->ragged ? 1 : s->batches, p->B - b), /* sequences one at a time */
                   .hk0 = hk,
                   .nk = cla_min(s->heads, p->Hk - hk),
                   .N = p->N,
                   .M = p->M};
    if (p->ragged) {
        const cla_batch *x = &p->batches[b];
        c.N = x->queries, c.M = x->keys, c.q_row = x->q_row, c.k_row = x->k_row;
    }
    return c;
}

void cla_chunk_cut(const cla_problem *p, const cla_chunk_sizes *s, cla_chunk *c) {
    c->nm = cla_min(s->members, p->group - c->m0);
    c->n = cla_min(s->queries, c->N - c->i0);
}

void cla_chunk_ends(const cla_problem *p, const cla_chunk_sizes *s, cla_chunk ends[2]) {
    const int64_t batches = p->ragged ? 1 : s->batches;
    ends[0] = (cla_chunk){.nb = batches, .nk = s->heads, .nm = s->members, .n = s->queries, .M = p->M};
    ends[1] = cla_chunk_of_heads(p, s, (p->B - 1) / batches * batches, (p->Hk - 1) / s->heads * s->heads);
    ends[1].m0 = (p->group - 1) / s->members * s->members;
    ends[1].i0 = cla_max(0, ends[1].N - 1) / s->queries * s->queries;
    cla_chunk_cut(p, s, &ends[1]);
}

static void measure(const cla_problem *p, cla_chunks *c) {
    const int64_t size = (int64_t)clattn_dtype_size(p->dtype), heads = c->of.batches * c->of.heads;
    const int64_t rows = heads * c->of.members * c->of.queries;
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
    c->of.members = p->group;
    c->of.queries = p->N;
    c->columns = p->Dv;
    c->of.heads = even(p->Hk, most);
    c->of.batches = most >= p->Hk ? even(p->B, most / p->Hk) : 1;
}

/* Of a single key head: all columns of V if they take no more than half of the room, then rows. */
static void part_of_head(const cla_problem *p, int64_t size, int64_t room, cla_chunks *c) {
    const int64_t column = p->M * size, row = column + size;
    room -= c->blocks * (int64_t)sizeof(int32_t);
    c->of.batches = c->of.heads = 1;
    c->columns = p->Dv == 0 ? 0 : even(p->Dv, room / 2 / column);
    room -= c->columns * column;
    c->of.members = room / row >= p->N ? even(p->group, room / row / p->N) : 1;
    c->of.queries = even(p->N, room / row);
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

/* ---- the backward pass ---- */

bool cla_gradients_by_scores(const cla_problem *p) {
    return cla_present(&p->d_q) || cla_present(&p->d_k) || cla_present(&p->d_bias) || cla_present(&p->d_sinks);
}

static void measure_gradients(const cla_problem *p, cla_gradient_chunks *c) {
    const int64_t size = (int64_t)clattn_dtype_size(p->dtype), flag = (int64_t)sizeof(int32_t);
    const int64_t key_heads = c->of.batches * c->of.heads, heads = key_heads * c->of.members,
                  rows = heads * c->of.queries;
    const int64_t flags = heads * cla_ceil_div(c->of.queries, CLA_SOFTMAX_KEYS) * flag;
    const bool q = cla_present(&p->d_k), o = cla_present(&p->d_v), k = cla_present(&p->d_q);
    const int64_t bytes[CLA_PIECES] = {[CLA_PIECE_S] = rows * p->M * size,
                                       [CLA_PIECE_G] = cla_gradients_by_scores(p) ? rows * p->M * size : 0,
                                       [CLA_PIECE_ROWS] = rows * CLA_ROW_NUMBERS * size,
                                       [CLA_PIECE_Q] = q ? rows * p->D * size : 0,
                                       [CLA_PIECE_Q_FLAGS] = q ? flags : 0,
                                       [CLA_PIECE_O] = o ? rows * p->Dv * size : 0,
                                       [CLA_PIECE_O_FLAGS] = o ? flags : 0,
                                       [CLA_PIECE_K] = k ? key_heads * p->M * p->D * size : 0,
                                       [CLA_PIECE_K_FLAGS] =
                                           k ? key_heads * cla_ceil_div(p->M, CLA_SOFTMAX_KEYS) * flag : 0};
    for (int i = 0; i < CLA_PIECES; i++)
        c->bytes[i] = cla_round_up(bytes[i], ALIGN);
}

cla_gradient_chunks cla_gradient_chunks_choose(const cla_problem *p, int64_t limit) {
    cla_gradient_chunks c = {.of = {1, 1, 1, 1}};
    measure_gradients(p, &c);
    int64_t row = 0, keys = c.bytes[CLA_PIECE_K] + c.bytes[CLA_PIECE_K_FLAGS], rows, head;
    const int64_t size = (int64_t)clattn_dtype_size(p->dtype), room = limit - CLA_PIECES * ALIGN;
    row = size * (p->M * (c.bytes[CLA_PIECE_G] ? 2 : 1) + CLA_ROW_NUMBERS + (c.bytes[CLA_PIECE_Q] ? p->D : 0) +
                  (c.bytes[CLA_PIECE_O] ? p->Dv : 0)) +
          2 * (int64_t)sizeof(int32_t); /* flags are fewer than rows */
    const bool fits =
        cla_mul(p->group, p->N, &rows) && cla_mul(rows, row, &head) && cla_add(head, keys, &head) && head <= room;
    if (fits) {
        c.of.members = p->group;
        c.of.queries = p->N;
        c.of.heads = even(p->Hk, room / head);
        c.of.batches = room / head >= p->Hk ? even(p->B, room / head / p->Hk) : 1;
    } else {
        const int64_t most = (room - keys) / row;
        c.of.members = most >= p->N ? even(p->group, most / p->N) : 1;
        c.of.queries = even(p->N, most);
    }
    measure_gradients(p, &c);
    return c;
}

int64_t cla_gradient_chunks_bytes(const cla_gradient_chunks *c) {
    int64_t all = 0;
    for (int i = 0; i < CLA_PIECES; i++)
        all += c->bytes[i];
    return all;
}
