/* SPDX-License-Identifier: Apache-2.0 */
/* The same bits: run after run, and with batch_invariant whatever a sequence is computed with (semantics.md, R10; case
 * D08). Every algorithm on every device. */
#include "algo_checks.h"

enum { D = 40, DV = 24, HEADS = 2 }; /* HEADS: of the sequence that is compared, with a key head each */

/* A batch on host arrays: sequence 0 is always the same, as long as its seed, lengths and first heads are. */
typedef struct {
    clattn_dtype dtype;
    int64_t B, H, N, M;             /* H a multiple of HEADS: later heads are others */
    int64_t queries, keys;          /* of sequence 0; the others' follow from the seed */
    bool causal, window, bias, cap; /* and ALiBi with cap */
    bool ragged, weights;
    float scale; /* of the inputs: large ones raise the maximum more often */
} batch;

typedef struct {
    void *q, *k, *v, *bias, *o, *lse, *weights;
    int64_t *key_lengths, *query_lengths, *cu_queries, *cu_keys, *offsets;
    clattn_attention_args args;
} arrays;

static int64_t length_of(int64_t b, int64_t first, int64_t most) {
    oracle_random random = {(uint64_t)(7 * b + 1)};
    return b == 0 ? first : 1 + oracle_below(&random, most);
}

/* Rows of (b, h, i): the numbers are the same in every batch that has them. */
static void fill(const batch *x, void *to, int64_t heads, int64_t rows, int64_t width, uint64_t seed) {
    double *row = malloc((size_t)width * sizeof *row);
    for (int64_t n = 0; n < x->B * heads * rows; n++) {
        const int64_t b = n / (heads * rows), h = n / rows % heads, i = n % rows;
        oracle_random random = {seed + (uint64_t)(b * 1000003 + h * 10007 + i) * 977};
        for (int64_t d = 0; d < width; d++)
            row[d] = x->scale * oracle_normal(&random);
        SUCCEEDS(clattn_convert((char *)to + (size_t)(n * width) * clattn_dtype_size(x->dtype), x->dtype, row,
                                CLATTN_F64, (size_t)width));
    }
    free(row);
}

static void *zeros(int64_t count) { return calloc((size_t)(count > 0 ? count : 1), 8); }

/* The rows of a dense [B, heads, rows, width] array one after another, as sequences of those lengths. */
static void pack(const batch *x, char *a, int64_t heads, int64_t rows, int64_t width, const int64_t *cu) {
    const size_t row = (size_t)width * clattn_dtype_size(x->dtype);
    const int64_t total = cu[x->B];
    char *to = malloc((size_t)(heads * total + 1) * row);
    for (int64_t b = 0; b < x->B; b++)
        for (int64_t h = 0; h < heads; h++)
            memcpy(to + (size_t)(h * total + cu[b]) * row, a + (size_t)((b * heads + h) * rows) * row,
                   (size_t)(cu[b + 1] - cu[b]) * row);
    memcpy(a, to, (size_t)(heads * total) * row);
    free(to);
}

static void make_lengths(const batch *x, arrays *a) {
    a->cu_queries[0] = a->cu_keys[0] = 0;
    for (int64_t b = 0; b < x->B; b++) {
        a->query_lengths[b] = length_of(b, x->queries, x->N);
        a->key_lengths[b] = length_of(b + 1000 * (b > 0), x->keys, x->M);
        a->cu_queries[b + 1] = a->cu_queries[b] + a->query_lengths[b];
        a->cu_keys[b + 1] = a->cu_keys[b] + a->key_lengths[b];
        a->offsets[b] = a->key_lengths[b] - a->query_lengths[b];
    }
}

static void make_args(const batch *x, arrays *a) {
    static float slopes[64];
    const int64_t N = x->ragged ? a->cu_queries[x->B] : x->N, M = x->ragged ? a->cu_keys[x->B] : x->M;
    const int64_t B = x->ragged ? 1 : x->B, q[] = {B, x->H, N, D}, k[] = {B, x->H, M, D}, v[] = {B, x->H, M, DV};
    const int64_t o[] = {B, x->H, N, DV}, w[] = {B, x->H, N, M};
    a->args = (clattn_attention_args){.q = clattn_tensor_host(a->q, x->dtype, 4, q),
                                      .k = clattn_tensor_host(a->k, x->dtype, 4, k),
                                      .v = clattn_tensor_host(a->v, x->dtype, 4, v),
                                      .o = clattn_tensor_host(a->o, x->dtype, 4, o),
                                      .lse = clattn_tensor_host(a->lse, x->dtype, 3, o),
                                      .causal = x->causal,
                                      .align = CLATTN_ALIGN_OFFSET,
                                      .offsets = a->offsets,
                                      .has_window = x->window,
                                      .window_left = 50,
                                      .window_right = 9,
                                      .softcap = x->cap ? 3 : 0,
                                      .batch_invariant = true};
    for (int i = 0; i < 64; i++)
        slopes[i] = 1 / (float)(i + 2);
    a->args.alibi_slopes = x->cap ? slopes : NULL;
    if (x->bias)
        a->args.bias = clattn_tensor_host(a->bias, x->dtype, 4, w);
    if (x->weights)
        a->args.weights = clattn_tensor_host(a->weights, x->dtype, 4, w);
    if (x->ragged) {
        a->args.sequences = x->B;
        a->args.cu_queries = a->cu_queries;
        a->args.cu_keys = a->cu_keys;
    } else {
        a->args.query_lengths = a->query_lengths;
        a->args.key_lengths = a->key_lengths;
    }
}

static void make(const batch *x, arrays *a) {
    const int64_t heads = x->B * x->H, scores = x->bias || x->weights ? heads * x->N * x->M : 0;
    *a = (arrays){.q = zeros(heads * x->N * D),
                  .k = zeros(heads * x->M * D),
                  .v = zeros(heads * x->M * DV),
                  .bias = zeros(scores),
                  .o = zeros(heads * x->N * DV),
                  .lse = zeros(heads * x->N),
                  .weights = zeros(scores),
                  .key_lengths = zeros(x->B),
                  .query_lengths = zeros(x->B),
                  .cu_queries = zeros(x->B + 1),
                  .cu_keys = zeros(x->B + 1),
                  .offsets = zeros(x->B)};
    make_lengths(x, a);
    fill(x, a->q, x->H, x->N, D, 11);
    fill(x, a->k, x->H, x->M, D, 12);
    fill(x, a->v, x->H, x->M, DV, 13);
    if (x->bias) /* [N, M] of each head; rows are filled from their first key on */
        fill(x, a->bias, x->H, x->N, x->M, 14);
    if (x->ragged) {
        pack(x, a->q, x->H, x->N, D, a->cu_queries);
        pack(x, a->k, x->H, x->M, D, a->cu_keys);
        pack(x, a->v, x->H, x->M, DV, a->cu_keys);
    }
    make_args(x, a);
}

static void discard(arrays *a) {
    void *const all[] = {a->q,       a->k,       a->v,           a->bias,          a->o,
                         a->lse,     a->weights, a->key_lengths, a->query_lengths, a->cu_queries,
                         a->cu_keys, a->offsets};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* ---- comparison ---- */

/* Row (0, h, i) of an array [B, H, rows, width] of sums. */
static const char *row_of(const batch *x, const arrays *a, const void *array, int64_t h, int64_t i, int64_t width) {
    const int64_t rows = x->ragged ? a->cu_queries[x->B] : x->N;
    return (const char *)array + (size_t)((h * rows + i) * width) * clattn_dtype_size(x->dtype);
}

/* The queries of sequence 0 of y are those of x from `first` on. */
static void expect_same_bits(const char *algorithm, const batch *x, const arrays *a, const batch *y, const arrays *b,
                             int64_t first) {
    const size_t size = clattn_dtype_size(x->dtype);
    int wrong = 0;
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t i = 0; i < y->queries; i++) {
            const int64_t row = first + i;
            bool same = memcmp(row_of(x, a, a->o, h, row, DV), row_of(y, b, b->o, h, i, DV), DV * size) == 0;
            same = same && memcmp(row_of(x, a, a->lse, h, row, 1), row_of(y, b, b->lse, h, i, 1), size) == 0;
            if (x->weights)
                same = same && memcmp(row_of(x, a, a->weights, h, row, x->M), row_of(y, b, b->weights, h, i, y->M),
                                      (size_t)x->keys * size) == 0;
            wrong += !same;
        }
    cr_expect_eq(wrong, 0,
                 "%s %s: %d of %d rows differ between B %d H %d N %d M %d and B %d H %d N %d M %d "
                 "(causal %d window %d bias %d cap %d ragged %d weights %d)",
                 algorithm, clattn_dtype_name(x->dtype), wrong, (int)(HEADS * y->queries), (int)x->B, (int)x->H,
                 (int)x->N, (int)x->M, (int)y->B, (int)y->H, (int)y->N, (int)y->M, x->causal, x->window, x->bias,
                 x->cap, x->ragged, x->weights);
}

/* Whether the runner's algorithm took it; any failure but a refusal is the test's. */
static bool ran(const oracle_runner *r, arrays *a) {
    bool applies = false;
    const char *reason = NULL;
    size_t index = 0;
    while (strcmp(clattn_algorithm_name(index), r->algorithm) != 0)
        index++;
    a->args.algorithm = r->algorithm;
    SUCCEEDS(clattn_algorithm_applies(r->context, &a->args, index, &applies, &reason));
    if (applies)
        SUCCEEDS(clattn_attention(r->context, &a->args));
    return applies;
}

/* Sequence 0 alone against sequence 0 in other company. */
static void compare(const oracle_runner *r, const batch *alone, const batch *others, int count) {
    arrays a, b;
    make(alone, &a);
    if (ran(r, &a))
        for (int i = 0; i < count; i++) {
            make(&others[i], &b);
            if (ran(r, &b))
                expect_same_bits(r->algorithm, alone, &a, &others[i], &b, 0);
            discard(&b);
        }
    discard(&a);
}

static void on_each_runner(void (*check)(const oracle_runner *, clattn_dtype)) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    for (size_t i = 0; i < count; i++) {
        check(&runners[i], CLATTN_F32);
        if (runners[i].has_f64)
            check(&runners[i], CLATTN_F64);
    }
    oracle_close(runners, count);
}

/* ---- the same call ---- */

static void twenty_runs(const oracle_runner *r, clattn_dtype dtype) {
    const batch x = {.dtype = dtype, .B = 2, .H = HEADS, .N = 5, .M = 1300, .queries = 4, .keys = 1300, .scale = 1};
    const size_t size = clattn_dtype_size(dtype), o = (size_t)(2 * HEADS * 5 * DV) * size, lse = 2 * HEADS * 5 * size;
    arrays a;
    make(&x, &a);
    for (int invariant = 0; invariant < 2; invariant++) {
        a.args.batch_invariant = invariant;
        if (!ran(r, &a))
            continue;
        void *first = malloc(o + lse);
        memcpy(first, a.o, o);
        memcpy((char *)first + o, a.lse, lse);
        for (int run = 0; run < 20; run++) {
            memset(a.o, 0x55, o);
            memset(a.lse, 0x55, lse);
            SUCCEEDS(clattn_attention(r->context, &a.args));
            cr_expect(memcmp(first, a.o, o) == 0 && memcmp((char *)first + o, a.lse, lse) == 0,
                      "%s %s: run %d gives other bits", r->algorithm, clattn_dtype_name(dtype), run);
        }
        free(first);
    }
    discard(&a);
}

Test(determinism, the_same_call_gives_the_same_bits_20_times) { on_each_runner(twenty_runs); }

/* ---- D08: batch mates ---- */

static void with_mates(const oracle_runner *r, clattn_dtype dtype) {
    static const struct {
        int64_t queries, keys;
        bool causal, window, bias, cap;
        float scale;
    } kinds[] = {
        {1, 700, false, false, false, false, 1}, {3, 77, true, false, false, false, 4},
        {50, 130, true, false, false, false, 4}, {70, 600, false, true, false, false, 2},
        {5, 300, true, false, true, false, 3},   {20, 200, false, true, false, true, 3},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const batch alone = {.dtype = dtype,
                             .B = 1,
                             .H = HEADS,
                             .N = kinds[i].queries,
                             .M = kinds[i].keys,
                             .queries = kinds[i].queries,
                             .keys = kinds[i].keys,
                             .causal = kinds[i].causal,
                             .window = kinds[i].window,
                             .bias = kinds[i].bias,
                             .cap = kinds[i].cap,
                             .scale = kinds[i].scale};
        batch others[3] = {alone, alone, alone};
        const int64_t sizes[3][4] = {{2, HEADS, 0, 0}, {7, 4 * HEADS, 100, 1100}, {33, HEADS, 3, 70}};
        for (int x = 0; x < 3; x++) {
            others[x].B = sizes[x][0];
            others[x].H = sizes[x][1];
            others[x].N += sizes[x][2];
            others[x].M += sizes[x][3];
        }
        compare(r, &alone, others, kinds[i].bias ? 2 : 3);
    }
}

Test(determinism, D08_a_sequence_is_the_same_alone_and_in_any_batch) { on_each_runner(with_mates); }

static void among_sequences(const oracle_runner *r, clattn_dtype dtype) {
    for (int64_t queries = 1; queries < 100; queries += 48) {
        const batch alone = {.dtype = dtype,
                             .B = 1,
                             .H = HEADS,
                             .N = queries,
                             .M = 555,
                             .queries = queries,
                             .keys = 555,
                             .causal = true,
                             .ragged = true,
                             .scale = 3};
        batch others[2] = {alone, alone};
        others[0].B = 2, others[0].N = 200;
        others[1].B = 9, others[1].N = 120, others[1].M = 800, others[1].H = 3 * HEADS;
        compare(r, &alone, others, 2);
    }
}

Test(determinism, D08_a_sequence_is_the_same_alone_and_among_others_one_after_another) {
    on_each_runner(among_sequences);
}

static void with_weights(const oracle_runner *r, clattn_dtype dtype) {
    const batch alone = {
        .dtype = dtype, .B = 1, .H = HEADS, .N = 9, .M = 600, .queries = 9, .keys = 600, .weights = true, .scale = 2};
    batch others[2] = {alone, alone};
    others[0].B = 3, others[0].N = 33, others[0].M = 1500;
    others[1].H = 2 * HEADS;
    compare(r, &alone, others, 2);
}

Test(determinism, D08_weights_are_the_same_alone_and_in_any_batch) { on_each_runner(with_weights); }

/* ---- other queries of the sequence ---- */

/* Queries `first` .. `first` + n of a prompt of 700, against the keys up to the last of them. */
static void a_step(const oracle_runner *r, const batch *prompt, const arrays *whole, int64_t first, int64_t n) {
    batch step = *prompt;
    arrays a;
    const size_t row = D * clattn_dtype_size(prompt->dtype);
    step.N = step.queries = n;
    step.M = step.keys = first + n;
    make(&step, &a);
    for (int64_t h = 0; h < HEADS; h++)
        memcpy((char *)a.q + (size_t)(h * n) * row, (char *)whole->q + (size_t)(h * prompt->N + first) * row,
               (size_t)n * row);
    if (ran(r, &a))
        expect_same_bits(r->algorithm, prompt, whole, &step, &a, first);
    discard(&a);
}

static void steps(const oracle_runner *r, clattn_dtype dtype) {
    const batch prompt = {.dtype = dtype,
                          .B = 1,
                          .H = HEADS,
                          .N = 700,
                          .M = 700,
                          .queries = 700,
                          .keys = 700,
                          .causal = true,
                          .scale = 2};
    arrays a;
    if (strcmp(r->algorithm, "blas") == 0 || strcmp(r->algorithm, "materialised") == 0)
        return; /* not promised by the libraries that do their products */
    make(&prompt, &a);
    if (ran(r, &a)) {
        for (int64_t first = 3; first < 700; first += 60)
            a_step(r, &prompt, &a, first, 1);
        a_step(r, &prompt, &a, 500, 9);
        a_step(r, &prompt, &a, 77, 130);
    }
    discard(&a);
}

Test(determinism, a_step_of_decoding_and_a_chunk_are_the_rows_of_the_whole_prompt) { on_each_runner(steps); }

/* ---- the choice of algorithm ---- */

Test(determinism, batch_invariant_lets_no_size_choose_the_algorithm) {
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create(NULL, NULL, &context));
    const char *name = NULL;
    for (int64_t n = 1; n <= 64; n *= 4)
        for (int64_t B = 1; B <= 4; B += 3) {
            const batch x = {
                .dtype = CLATTN_F32, .B = B, .H = HEADS, .N = n, .M = 20 * n, .queries = n, .keys = 20 * n, .scale = 1};
            arrays a;
            clattn_plan *plan = NULL;
            clattn_plan_info info;
            clattn_buffer *buffer = NULL;
            make(&x, &a);
            const int64_t apart = B * HEADS * 20 * n * D;
            SUCCEEDS(clattn_buffer_create(context, (size_t)(5 * apart) * 4, &buffer));
            clattn_tensor *const tensors[] = {&a.args.q, &a.args.k, &a.args.v, &a.args.o, &a.args.lse};
            for (int i = 0; i < 5; i++) {
                tensors[i]->host = NULL;
                tensors[i]->buffer = buffer;
                tensors[i]->offset = i * apart;
            }
            SUCCEEDS(clattn_plan_create(context, &a.args, &plan));
            SUCCEEDS(clattn_plan_info_get(plan, &info));
            cr_expect(!name || strcmp(name, info.algorithm) == 0, "N %d B %d takes %s, others %s", (int)n, (int)B,
                      info.algorithm, name);
            name = info.algorithm;
            clattn_plan_destroy(plan);
            clattn_buffer_destroy(buffer);
            discard(&a);
        }
    clattn_context_destroy(context);
}
