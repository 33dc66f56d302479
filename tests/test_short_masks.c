/* SPDX-License-Identifier: Apache-2.0 */
/* Masks with fewer columns than keys: the same bits as the wide mask whose further columns exclude, on every algorithm;
 * without the option, an error. */
#include "oracle.h"
#include "testing.h"
#include <math.h>

enum { B = 2, H = 4, HK = 2, N = 5, M = 9, D = 8, COLUMNS = 6 };
enum { INPUTS = B * H * N * D, KEYS = B * HK * M * D, SCORES = B * H * N * M };

/* One kind of mask, of one of these shapes. */
typedef enum kind { KEEP = 0, DROP, BIAS, KINDS } kind;
static const int64_t shapes[][4] = {
    {B, H, N, COLUMNS}, {1, 1, 1, COLUMNS}, {B, 1, N, COLUMNS}, {1, H, N, 1}, {1, 1, N, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct problem {
    clattn_dtype dtype;
    double q[INPUTS], k[KEYS], v[KEYS], o[INPUTS], lse[B * H * N], weights[SCORES]; /* of dtype, in their first bytes */
    unsigned char narrow_bytes[SCORES + 1], wide_bytes[SCORES];
    double narrow[SCORES + 1], wide[SCORES];
} problem;

static void fill(void *to, clattn_dtype dtype, int64_t n, oracle_random *random) {
    double x[INPUTS > KEYS ? INPUTS : KEYS];
    for (int64_t i = 0; i < n; i++)
        x[i] = oracle_normal(random);
    SUCCEEDS(clattn_convert(to, dtype, x, CLATTN_F64, (size_t)n));
}

/* The narrow mask, then the wide one: excluded from its last column on. */
static void make_masks(problem *p, kind which, const int64_t shape[4], oracle_random *random) {
    const int64_t rows = shape[0] * shape[1] * shape[2], columns = shape[3];
    double narrow[SCORES + 1], wide[SCORES];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < M; j++) {
            const bool seen = j < columns && oracle_below(random, 3) > 0;
            const double bias = seen ? oracle_normal(random) : -(double)INFINITY;
            const bool set = which == KEEP ? seen : !seen;
            p->wide_bytes[r * M + j] = set;
            wide[r * M + j] = bias;
            if (j < columns) {
                p->narrow_bytes[r * columns + j] = set;
                narrow[r * columns + j] = bias;
            }
        }
    SUCCEEDS(clattn_convert(p->narrow, p->dtype, narrow, CLATTN_F64, (size_t)(rows * columns)));
    SUCCEEDS(clattn_convert(p->wide, p->dtype, wide, CLATTN_F64, (size_t)(rows * M)));
}

static clattn_attention_args args_of(problem *p, kind which, const int64_t shape[4], bool is_wide) {
    const int64_t q[] = {B, H, N, D}, k[] = {B, HK, M, D}, w[] = {B, H, N, M};
    const int64_t mask[] = {shape[0], shape[1], shape[2], is_wide ? M : shape[3]};
    clattn_attention_args a = {.q = clattn_tensor_host(p->q, p->dtype, 4, q),
                               .k = clattn_tensor_host(p->k, p->dtype, 4, k),
                               .v = clattn_tensor_host(p->v, p->dtype, 4, k),
                               .o = clattn_tensor_host(p->o, p->dtype, 4, q),
                               .lse = clattn_tensor_host(p->lse, p->dtype, 3, q),
                               .weights = clattn_tensor_host(p->weights, p->dtype, 4, w),
                               .short_masks = !is_wide};
    clattn_tensor *const masks[] = {&a.keep, &a.drop, &a.bias};
    const void *bytes = is_wide ? p->wide_bytes : p->narrow_bytes, *numbers = is_wide ? p->wide : p->narrow;
    *masks[which] =
        clattn_tensor_host(which == BIAS ? numbers : bytes, which == BIAS ? p->dtype : CLATTN_BOOL, 4, mask);
    return a;
}

static void run(const oracle_runner *r, problem *p, clattn_attention_args a) {
    size_t index = 0;
    bool applies = false;
    while (strcmp(clattn_algorithm_name(index), r->algorithm) != 0)
        index++;
    memset(p->o, 0xff, sizeof p->o);
    memset(p->lse, 0xff, sizeof p->lse);
    memset(p->weights, 0xff, sizeof p->weights);
    SUCCEEDS(clattn_algorithm_applies(r->context, &a, index, &applies, NULL));
    if (!applies) /* it has no weights */
        a.weights = (clattn_tensor){0};
    a.algorithm = r->algorithm;
    SUCCEEDS(clattn_attention(r->context, &a));
}

static void same_as_wide(const oracle_runner *r, clattn_dtype dtype) {
    static problem narrow, wide;
    oracle_random random = {7};
    narrow.dtype = dtype;
    fill(narrow.q, dtype, INPUTS, &random);
    fill(narrow.k, dtype, KEYS, &random);
    fill(narrow.v, dtype, KEYS, &random);
    for (kind which = KEEP; which < KINDS; which++)
        for (int s = 0; s < SHAPES; s++) {
            make_masks(&narrow, which, shapes[s], &random);
            wide = narrow;
            run(r, &narrow, args_of(&narrow, which, shapes[s], false));
            run(r, &wide, args_of(&wide, which, shapes[s], true));
            cr_expect(memcmp(narrow.o, wide.o, sizeof wide.o) == 0 &&
                          memcmp(narrow.lse, wide.lse, sizeof wide.lse) == 0 &&
                          memcmp(narrow.weights, wide.weights, sizeof wide.weights) == 0,
                      "%s: mask %d of shape %d differs from the wide one", r->algorithm, (int)which, s);
        }
}

Test(short_masks, the_missing_keys_are_not_seen) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_open(runners);
    cr_assert_gt(n, 0);
    for (size_t i = 0; i < n; i++) {
        same_as_wide(&runners[i], CLATTN_F32);
        if (runners[i].has_f64)
            same_as_wide(&runners[i], CLATTN_F64);
    }
    oracle_close(runners, n);
}

/* A bottom-right frontier is that of the key lengths, not of the mask. */
Test(short_masks, they_do_not_move_the_queries) {
    static problem p;
    oracle_random random = {9};
    const int64_t shape[] = {1, 1, 1, COLUMNS}, lengths[] = {COLUMNS, 4};
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    p.dtype = CLATTN_F64;
    fill(p.q, p.dtype, INPUTS, &random);
    fill(p.k, p.dtype, KEYS, &random);
    fill(p.v, p.dtype, KEYS, &random);
    memset(p.narrow_bytes, 1, sizeof p.narrow_bytes);
    clattn_attention_args a = args_of(&p, KEEP, shape, false);
    a.causal = true;
    a.align = CLATTN_ALIGN_BOTTOM_RIGHT;
    a.key_lengths = lengths;
    SUCCEEDS(clattn_attention(context, &a));
    for (int b = 0; b < B; b++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < M; j++)
                cr_expect_eq(p.weights[(b * H * N + i) * M + j] > 0, j <= i + lengths[b] - N);
    clattn_context_destroy(context);
}

/* Plans hold them, and take another mask of the same width. */
Test(short_masks, a_plan_takes_another_mask_of_its_width_only) {
    static problem p;
    oracle_random random = {11};
    clattn_context *context = NULL;
    clattn_plan *plan = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    p.dtype = CLATTN_F64;
    fill(p.q, p.dtype, INPUTS, &random);
    fill(p.k, p.dtype, KEYS, &random);
    fill(p.v, p.dtype, KEYS, &random);
    memset(p.narrow_bytes, 1, sizeof p.narrow_bytes);
    clattn_attention_args a = args_of(&p, DROP, shapes[1], false);
    SUCCEEDS(clattn_plan_create(context, &a, &plan));
    cr_expect(strstr(clattn_plan_explain(plan), "a copy of drop: it is shorter than the keys"), "%s",
              clattn_plan_explain(plan));
    SUCCEEDS(clattn_plan_execute(plan, NULL));
    cr_expect_eq(p.lse[0], -(double)INFINITY);
    unsigned char none[COLUMNS] = {0};
    a.drop.host = none;
    SUCCEEDS(clattn_plan_execute(plan, &a));
    cr_expect(isfinite(p.lse[0]));
    a.drop.shape[3] = COLUMNS - 1;
    FAILS(clattn_plan_execute(plan, &a), CLATTN_E_SHAPE, "drop: has another type, shape or strides");
    clattn_plan_destroy(plan);
    clattn_context_destroy(context);
}

Test(short_masks, are_an_option) {
    static problem p;
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    p.dtype = CLATTN_F64;
    clattn_attention_args a = args_of(&p, KEEP, shapes[0], false);
    a.short_masks = false;
    FAILS(clattn_attention(context, &a), CLATTN_E_SHAPE, "6 is neither 1 nor 9; with short_masks the missing keys");
    a = args_of(&p, KEEP, (const int64_t[]){1, 1, N, M + 1}, false);
    FAILS(clattn_attention(context, &a), CLATTN_E_SHAPE, "10 is neither 1 nor 9");
    a = args_of(&p, KEEP, (const int64_t[]){1, 1, N - 1, COLUMNS}, false);
    FAILS(clattn_attention(context, &a), CLATTN_E_SHAPE, "4 is neither 1 nor 5");
    /* One column broadcasts, or is one key. */
    memset(p.narrow_bytes, 1, sizeof p.narrow_bytes);
    for (int is_short = 0; is_short < 2; is_short++) {
        a = args_of(&p, KEEP, (const int64_t[]){1, 1, 1, 1}, false);
        a.short_masks = is_short == 1;
        SUCCEEDS(clattn_attention(context, &a));
        cr_expect_eq(p.weights[0], is_short ? 1 : 1.0 / M);
        cr_expect_eq(p.weights[1], is_short ? 0 : 1.0 / M);
    }
    clattn_context_destroy(context);
}
