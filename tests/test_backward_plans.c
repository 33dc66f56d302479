/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of the backward pass on every algorithm: other tensors, sequences, seeds and offsets; splits within
 * max_workspace; what a sequence is computed with; what the profile knows. */
#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { Q, K, V, O, STATE, D_O, D_Q, D_K, D_V, TENSORS };
enum { D = 20, DV = 12, ROOM = 64 }; /* ROOM: most numbers before a tensor in its buffer */

/* A call on host arrays, f32 and dense, and after `place` the same on buffers. */
typedef struct {
    float *data[TENSORS];
    clattn_buffer *buffers[TENSORS];
    clattn_attention_backward_args args, bound;
} training;

static clattn_tensor *tensor_of(clattn_attention_backward_args *a, int i) {
    clattn_tensor *const all[TENSORS] = {&a->forward.q, &a->forward.k, &a->forward.v, &a->forward.o, &a->forward.state,
                                         &a->d_o,       &a->d_q,       &a->d_k,       &a->d_v};
    return all[i];
}

static int64_t count_of(training *t, int i) { return clattn_tensor_elements(tensor_of(&t->args, i)); }

static training *start(int64_t B, int64_t H, int64_t Hk, int64_t N, int64_t M, uint64_t seed) {
    const int64_t shapes[TENSORS][4] = {{B, H, N, D},  {B, Hk, M, D}, {B, Hk, M, DV}, {B, H, N, DV}, {B, H, N, 2},
                                        {B, H, N, DV}, {B, H, N, D},  {B, Hk, M, D},  {B, Hk, M, DV}};
    training *t = calloc(1, sizeof *t);
    oracle_random random = {seed};
    cr_assert(t);
    for (int i = 0; i < TENSORS; i++) {
        *tensor_of(&t->args, i) = clattn_tensor_host(NULL, CLATTN_F32, 4, shapes[i]);
        const int64_t count = count_of(t, i);
        t->data[i] = calloc((size_t)count + 1, sizeof(float));
        cr_assert(t->data[i]);
        tensor_of(&t->args, i)->host = t->data[i];
        for (int64_t x = 0; x < count; x++)
            t->data[i][x] = (float)oracle_normal(&random);
    }
    return t;
}

/* Both passes, the second by an algorithm. */
static void run(clattn_context *context, training *t, const char *algorithm) {
    SUCCEEDS(clattn_attention(context, &t->args.forward));
    t->args.algorithm = algorithm;
    SUCCEEDS(clattn_attention_backward(context, &t->args));
}

/* Into buffers, each from another number on. */
static void place(clattn_context *context, training *t, int64_t first) {
    t->bound = t->args;
    for (int i = 0; i < TENSORS; i++) {
        const size_t bytes = (size_t)count_of(t, i) * sizeof(float);
        clattn_tensor *x = tensor_of(&t->bound, i);
        x->host = NULL;
        x->offset = (first + 4 * i) % ROOM;
        SUCCEEDS(clattn_buffer_create(context, bytes + ROOM * sizeof(float), &t->buffers[i]));
        SUCCEEDS(clattn_buffer_upload(t->buffers[i], (size_t)x->offset * sizeof(float), t->data[i], bytes));
        x->buffer = t->buffers[i];
    }
}

/* Whether the gradients in the buffers are those in the arrays, bit for bit. */
static void expect_same(training *t, const char *what) {
    for (int i = D_Q; i < TENSORS; i++) {
        const size_t bytes = (size_t)count_of(t, i) * sizeof(float);
        float *got = malloc(bytes);
        SUCCEEDS(
            clattn_buffer_download(t->buffers[i], (size_t)tensor_of(&t->bound, i)->offset * sizeof(float), got, bytes));
        cr_expect_arr_eq(got, t->data[i], bytes, "%s: gradient %d", what, i - D_Q);
        free(got);
    }
}

static void stop(training *t) {
    for (int i = 0; i < TENSORS; i++) {
        clattn_buffer_destroy(t->buffers[i]);
        free(t->data[i]);
    }
    free(t);
}

/* ---- rebinding ---- */

/* Each step has tensors, a seed and an offset of its own; sequences: rows behind the last one stay as they are. */
static void steps(const oracle_runner *r, bool sequences) {
    static const int64_t queries[] = {0, 30, 37, 90}, keys[] = {0, 11, 100, 150};
    training *t[2];
    for (int i = 0; i < 2; i++) {
        t[i] = start(sequences ? 1 : 2, 4, 2, 97, 160, 5 + (uint64_t)i);
        clattn_attention_args *f = &t[i]->args.forward;
        f->sequences = sequences ? 3 : 0;
        f->cu_queries = sequences ? queries : NULL;
        f->cu_keys = sequences ? keys : NULL;
        f->causal = true;
        f->align = CLATTN_ALIGN_BOTTOM_RIGHT;
        f->dropout = 0.25;
        f->dropout_seed = (uint64_t)i;
        f->dropout_offset = 3 * (uint64_t)i;
        t[i]->args.algorithm = r->algorithm;
        SUCCEEDS(clattn_attention(r->context, f));
        place(r->context, t[i], i);
        run(r->context, t[i], r->algorithm);
    }
    clattn_plan *plan = NULL;
    SUCCEEDS(clattn_backward_plan_create(r->context, &t[0]->bound, &plan));
    for (int i = 0; i < 2; i++) {
        SUCCEEDS(clattn_backward_plan_execute(plan, i == 0 ? NULL : &t[i]->bound));
        expect_same(t[i], r->algorithm);
    }
    clattn_plan_destroy(plan);
    stop(t[0]);
    stop(t[1]);
}

Test(backward_plans, take_other_tensors_seeds_and_offsets, .timeout = 600) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_backward_open(runners);
    for (size_t r = 0; r < n; r++)
        for (int sequences = 0; sequences < 2; sequences++)
            steps(&runners[r], sequences == 1);
    oracle_close(runners, n);
}

/* ---- splits of the keys ---- */

static clattn_context *open_device(bool profile) {
    const clattn_context_options options = {.profile = profile};
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", &options, &context) != CLATTN_OK)
        cr_skip_test("there is no OpenCL device");
    return context;
}

/* A plan within so much scratch (0: any) gives the same gradients; returns what it takes, and its explanation. */
static size_t within(clattn_context *context, training *t, size_t bytes, char text[4000]) {
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    t->bound.forward.max_workspace = bytes;
    SUCCEEDS(clattn_backward_plan_create(context, &t->bound, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    snprintf(text, 4000, "%s", clattn_plan_explain(plan));
    SUCCEEDS(clattn_backward_plan_execute(plan, NULL));
    for (int i = D_Q; i < TENSORS; i++) {
        const int64_t count = count_of(t, i);
        float *got = malloc((size_t)count * sizeof *got);
        double largest = 0;
        SUCCEEDS(clattn_buffer_download(t->buffers[i], (size_t)tensor_of(&t->bound, i)->offset * sizeof *got, got,
                                        (size_t)count * sizeof *got));
        for (int64_t x = 0; x < count; x++)
            largest = fmax(largest, fabs((double)t->data[i][x]));
        for (int64_t x = 0; x < count; x++)
            cr_assert_float_eq(got[x], t->data[i][x], oracle_floor(CLATTN_F32, largest), "%zu: gradient %d", bytes,
                               i - D_Q);
        free(got);
    }
    clattn_plan_destroy(plan);
    return info.workspace_bytes;
}

Test(backward_plans, splits_are_as_many_as_there_is_room_for, .timeout = 600) {
    enum { N = 150 };
    char text[4000];
    clattn_plan *plan = NULL;
    clattn_context *context = open_device(false);
    training *t = start(1, 1, 1, N, 1000, 1);
    run(context, t, "fused_lanes");
    place(context, t, 1);
    for (size_t bytes = within(context, t, 0, text); !strstr(text, " 1 split(s)");
         bytes = within(context, t, bytes - 1, text))
        cr_expect_eq(within(context, t, bytes, text), bytes);
    const size_t least = within(context, t, 0, text) ? (N * sizeof(float) + 255) / 256 * 256 : 0;
    cr_expect_eq(within(context, t, least, text), least, "%s", text);
    t->bound.forward.max_workspace = least - 1;
    FAILS(clattn_backward_plan_create(context, &t->bound, &plan), CLATTN_E_LIMIT, "workspace: ");
    stop(t);
    clattn_context_destroy(context);
}

/* ---- batch mates ---- */

static void copy_rows(training *to, const training *from, int i, int64_t at) {
    memcpy(to->data[i], from->data[i] + at, (size_t)count_of(to, i) * sizeof(float));
}

Test(backward_plans, batch_invariant_gradients_are_those_of_a_sequence_and_group_alone, .timeout = 600) {
    enum { B = 3, H = 4, HK = 2, N = 90, M = 300, KEYS = 170 };
    const int64_t lengths[B] = {M, KEYS, 40}, length[] = {KEYS};
    clattn_context *context = open_device(false);
    training *all = start(B, H, HK, N, M, 1), *one = start(1, H / HK, 1, N, KEYS, 2);
    const int64_t queries = (1 * H + 2) * N, keys = (1 * HK + 1) * M; /* rows before: of batch 1, key head 1 */
    const int64_t at[TENSORS] = {queries * D,  keys * D,    keys * DV, queries * DV, queries * 2,
                                 queries * DV, queries * D, keys * D,  keys * DV};
    copy_rows(one, all, Q, at[Q]);
    copy_rows(one, all, K, at[K]);
    copy_rows(one, all, V, at[V]);
    copy_rows(one, all, D_O, at[D_O]);
    all->args.forward.key_lengths = lengths;
    one->args.forward.key_lengths = length;
    all->args.forward.batch_invariant = one->args.forward.batch_invariant = true;
    run(context, all, "fused_lanes");
    run(context, one, "fused_lanes");
    for (int i = D_Q; i < TENSORS; i++)
        cr_expect_arr_eq(one->data[i], all->data[i] + at[i], (size_t)count_of(one, i) * sizeof(float), "gradient %d",
                         i - D_Q);
    stop(all);
    stop(one);
    clattn_context_destroy(context);
}

/* ---- the profile ---- */

Test(backward_plans, the_profile_knows_what_each_kernel_costs, .timeout = 600) {
    enum { H = 3, N = 60, M = 300 };
    static float bias[M], d_bias[M], sinks[H], d_sinks[H];
    const int64_t columns[] = {1, M}, heads[] = {H};
    clattn_profile_entry entries[64];
    size_t count = 0;
    bool found = false;
    clattn_context *context = open_device(true);
    training *t = start(1, H, 1, N, M, 1);
    t->args.forward.bias = clattn_tensor_host(bias, CLATTN_F32, 2, columns);
    t->args.d_bias = clattn_tensor_host(d_bias, CLATTN_F32, 2, columns);
    t->args.forward.sinks = clattn_tensor_host(sinks, CLATTN_F32, 1, heads);
    t->args.d_sinks = clattn_tensor_host(d_sinks, CLATTN_F32, 1, heads);
    run(context, t, "fused_lanes");
    SUCCEEDS(clattn_context_profile(context, entries, 64, &count));
    for (size_t i = 0; i < count; i++) {
        cr_expect_gt(entries[i].moved_bytes, 0, "%s", entries[i].name);
        if (strcmp(entries[i].name, "attention_lanes_backward") != 0)
            continue;
        found = true;
        cr_expect_eq(entries[i].operations, 2.0 * H * N * M * (3 * D + 2 * DV), "%g", entries[i].operations);
    }
    cr_expect(found);
    stop(t);
    clattn_context_destroy(context);
}
