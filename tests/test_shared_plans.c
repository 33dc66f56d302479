/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that differ in one thing alone share no plan: each gives on a context that has run the others the bits that it
 * gives on a context of its own. */
#include "testing.h"
#include <clattn/clattn.h>
#include <math.h>
#include <string.h>

enum { B = 2, H = 2, N = 4, D = 4 };
static float q[B * H * N * D], k[B * H * N * D], v[B * H * N * D];
static float results[2][2][B * H * N * N]; /* shared and alone; o and weights */
static unsigned char keep[N * N];
static const int64_t lengths[][2] = {{2, 3}, {3, 3}, {4, 4}}, first_two[] = {0, 1}, last_two[] = {1, 0},
                     one_length[] = {4};
static const int64_t cu[][3] = {{0, 2, 4}, {0, 2, 3}}, whole[] = {0, 4};
static const float slopes[][H] = {{1, 0.5f}, {1, 0.25f}};
static const int32_t segments[][B * N] = {{0, 0, 1, 1, 0, 0, 1, 1}, {0, 1, 1, 1, 0, 0, 0, 1}},
                                    tables[][2] = {{0, 1}, {1, 0}};

static clattn_tensor tensor(const float *data, int64_t b, int64_t h, int64_t n, int64_t d) {
    return clattn_tensor_host(data, CLATTN_F32, 4, (const int64_t[]){b, h, n, d});
}

/* Each case is a change of the plain call; those that need it bring what goes with it. */
static bool change(int number, clattn_attention_args *a, int where) {
    const clattn_tensor one_head = tensor(results[where][1], B, 1, N, N),
                        two_rows = tensor(results[where][1], B, H, 2, N);
    const clattn_tensor mask = clattn_tensor_host(keep, CLATTN_BOOL, 2, (const int64_t[]){N, N});
    switch (number) {
#define CASE(n, changes)                                                                                               \
    case n:                                                                                                            \
        changes;                                                                                                       \
        return true;
        CASE(0, (void)a)
        CASE(1, a->causal = true)
        CASE(2, (a->has_window = true, a->window_left = a->window_right = 1))
        CASE(3, (a->has_window = true, a->window_right = 1))
        CASE(4, (a->has_window = true, a->window_left = 1))
        CASE(5, a->key_lengths = lengths[0])
        CASE(6, a->key_lengths = lengths[1])
        CASE(7, a->query_lengths = lengths[0])
        CASE(8, a->keep = mask)
        CASE(9, (a->keep = mask, a->short_masks = true))
        CASE(10, a->alibi_slopes = slopes[0])
        CASE(11, a->alibi_slopes = slopes[1])
        CASE(12, a->query_segments = a->key_segments = segments[0])
        CASE(13, (a->query_segments = segments[1], a->key_segments = segments[0]))
        CASE(14, (a->query_segments = segments[0], a->key_segments = segments[1]))
        CASE(15, a->softcap = 1)
        CASE(16, (a->has_scale = true, a->scale = -2))
        CASE(17, a->weights_form = CLATTN_WEIGHTS_SCALED)
        CASE(18, (a->weights = one_head, a->weights_mean = true))
        CASE(19, (a->weights = one_head, a->weights_heads = first_two, a->weights_head_count = 1))
        CASE(20, (a->weights = one_head, a->weights_heads = last_two, a->weights_head_count = 1))
        CASE(21, (a->weights_heads = last_two, a->weights_head_count = 2))
        CASE(22, (a->weights = two_rows, a->weights_queries = first_two, a->weights_query_count = 2))
        CASE(23, (a->weights = two_rows, a->weights_queries = last_two, a->weights_query_count = 2))
        CASE(24, a->batch_invariant = true)
        CASE(25, a->self_check = 2)
        CASE(26, a->dropout = 0.25)
        CASE(27, a->dropout = 0.5)
        CASE(28, (a->dropout = 0.5, a->dropout_seed = 1))
        CASE(29, a->max_workspace = 1 << 20)
        CASE(30, a->algorithm = "reference")
        CASE(31, (a->k.shape[1] = a->v.shape[1] = 1))
        CASE(32, (a->key_lengths = lengths[2]))
        CASE(33, (a->block_table = tables[0], a->table_pages = 1, a->key_lengths = lengths[2]))
        CASE(34, (a->block_table = tables[1], a->table_pages = 1, a->key_lengths = lengths[2]))
#define ONE_BATCH a->weights.rank = 0, a->q.shape[0] = a->k.shape[0] = a->v.shape[0] = a->o.shape[0] = 1
        CASE(35, (ONE_BATCH, a->query_lengths = a->key_lengths = one_length))
        CASE(36, (ONE_BATCH, a->sequences = 1, a->cu_queries = a->cu_keys = whole))
        CASE(37, (ONE_BATCH, a->sequences = 2, a->cu_queries = a->cu_keys = cu[0]))
        CASE(38, (ONE_BATCH, a->sequences = 2, a->cu_queries = cu[1], a->cu_keys = cu[0]))
        CASE(39, (ONE_BATCH, a->sequences = 2, a->cu_queries = cu[0], a->cu_keys = cu[1]))
    default:
        return false;
    }
}

static void run(clattn_context *context, int number, int where) {
    clattn_attention_args a = {.q = tensor(q, B, H, N, D),
                               .k = tensor(k, B, H, N, D),
                               .v = tensor(v, B, H, N, D),
                               .o = tensor(results[where][0], B, H, N, D),
                               .weights = tensor(results[where][1], B, H, N, N)};
    memset(results[where], 0, sizeof results[where]);
    change(number, &a, where);
    SUCCEEDS(clattn_attention(context, &a));
}

/* Forwards and back, so that each follows what stands on both sides of it. */
Test(shared_plans, one_thing_that_differs_makes_another_plan) {
    clattn_context *shared = NULL;
    clattn_attention_args a = {0};
    int count = 0;
    for (int i = 0; i < B * H * N * D; i++) {
        q[i] = (float)sin(i * 1.7);
        k[i] = (float)sin(i * 2.3 + 1);
        v[i] = (float)sin(i * 0.9 + 2);
        keep[i % (N * N)] = i % 3 != 0;
    }
    while (change(count, &a, 0))
        count++;
    cr_expect_eq(count, 40);
    SUCCEEDS(clattn_context_create("cpu", NULL, &shared));
    for (int turn = 0; turn < 2 * count; turn++) {
        const int number = turn < count ? turn : 2 * count - 1 - turn;
        clattn_context *alone = NULL;
        SUCCEEDS(clattn_context_create("cpu", NULL, &alone));
        run(shared, number, 0);
        run(alone, number, 1);
        cr_expect_arr_eq(results[0], results[1], sizeof results[0], "case %d", number);
        clattn_context_destroy(alone);
    }
    clattn_context_destroy(shared);
}

/* ---- what verify and lint make of odd numbers ---- */

/* One query, one key: O is V, and the result is whatever it is said to be. */
Test(shared_plans, verify_tells_nan_and_infinities_apart) {
    static const double values[] = {0.5, (double)NAN, (double)INFINITY, -(double)INFINITY};
    static const clattn_dtype types[] = {CLATTN_F32, CLATTN_F64, CLATTN_F16, CLATTN_BF16};
    const int64_t shape[] = {1, 1, 1, 1};
    for (int type = 0; type < 4; type++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                double zero = 0, value = 0, got = 0;
                clattn_verification result;
                SUCCEEDS(clattn_convert(&value, types[type], &values[i], CLATTN_F64, 1));
                SUCCEEDS(clattn_convert(&got, types[type], &values[j], CLATTN_F64, 1));
                const clattn_attention_args a = {.q = clattn_tensor_host(&zero, types[type], 4, shape),
                                                 .k = clattn_tensor_host(&zero, types[type], 4, shape),
                                                 .v = clattn_tensor_host(&value, types[type], 4, shape),
                                                 .o = clattn_tensor_host(&got, types[type], 4, shape)};
                for (int64_t rows = 1; rows > 0; rows = rows == 1 ? CLATTN_ALL_ROWS : 0) {
                    SUCCEEDS(clattn_verify(&a, rows, NULL, &result));
                    cr_expect_eq(result.ok, i == j, "type %d: %g for %g is %d", type, values[j], values[i], result.ok);
                    cr_expect_eq(result.verdicts[0].same_kinds, i == j);
                }
            }
}

/* Zeros leave no room for errors; empty sequences have no rows. */
Test(shared_plans, verify_of_zeros_and_of_empty_sequences) {
    static const int64_t queries[] = {0, 0, 2, 2}, keys[] = {0, 2, 2, 4};
    uint16_t small[4 * 4] = {0}, out[4 * 4] = {0};
    const int64_t shape[] = {1, 1, 4, 4};
    clattn_verification result;
    const clattn_tensor x = clattn_tensor_host(small, CLATTN_F16, 4, shape);
    clattn_attention_args a = {.q = x, .k = x, .v = x, .o = clattn_tensor_host(out, CLATTN_F16, 4, shape)};
    SUCCEEDS(clattn_verify(&a, CLATTN_ALL_ROWS, NULL, &result));
    cr_expect(result.ok && result.verdicts[0].allowed < 1e-6);
    a.sequences = 3;
    a.cu_queries = queries;
    a.cu_keys = keys;
    for (int64_t rows = 4; rows > 0; rows = rows == 4 ? CLATTN_ALL_ROWS : 0) {
        SUCCEEDS(clattn_verify(&a, rows, NULL, &result));
        cr_expect(result.ok && result.rows <= 2, "%lld rows", (long long)result.rows);
    }
    out[0] = 0x3c00; /* 1, in a row that has no key */
    SUCCEEDS(clattn_verify(&a, CLATTN_ALL_ROWS, NULL, &result));
    cr_expect_not(result.ok);
    small[5] = 0x7c00; /* infinity, in no row's way */
    out[0] = 0;
    SUCCEEDS(clattn_verify(&a, 2, NULL, &result));
}

static int infinities;

static void count_infinite(void *user, const clattn_warning *warning) {
    (void)user;
    infinities += warning->kind == CLATTN_LINT_F16_INFINITE;
}

/* Only rows in use are looked at. */
Test(shared_plans, lint_finds_infinities_in_the_rows_in_use) {
    static const int64_t queries[] = {0, 1, 3}, keys[] = {0, 2, 3}, three[] = {3, 3};
    static const int32_t table[] = {0, 0};
    static const struct {
        int at; /* of k, 4 rows of 4 for each of two batches */
        bool sequences, pages, shared, key_lengths;
        int64_t N, M;
        int wanted;
    } cases[] = {{13, false, false, false, false, 4, 4, 1}, {13, false, false, false, true, 4, 4, 0},
                 {16, false, false, true, false, 4, 4, 0},  {3, false, false, true, false, 4, 4, 1},
                 {13, true, false, false, false, 4, 4, 0},  {9, true, false, false, false, 4, 4, 1},
                 {16, false, true, false, true, 4, 4, 0},   {5, false, true, false, true, 4, 4, 1},
                 {3, false, false, false, false, 0, 4, 0},  {3, false, false, false, false, 4, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t kk[2 * 4 * 4] = {0}, zero[2 * 4 * 4] = {0}, out[2 * 4 * 4];
        const int64_t batches = cases[i].sequences ? 1 : 2;
        const int64_t rows[] = {batches, 1, cases[i].N, 4}, columns[] = {batches, 1, cases[i].M, 4};
        clattn_attention_args a = {.q = clattn_tensor_host(zero, CLATTN_F16, 4, rows),
                                   .k = clattn_tensor_host(kk, CLATTN_F16, 4, columns),
                                   .v = clattn_tensor_host(zero, CLATTN_F16, 4, columns),
                                   .o = clattn_tensor_host(out, CLATTN_F16, 4, rows)};
        kk[cases[i].at] = 0x7c00;
        if (cases[i].shared)
            a.k.stride[0] = 0;
        if (cases[i].sequences)
            a.sequences = 2, a.cu_queries = queries, a.cu_keys = keys;
        if (cases[i].pages)
            a.block_table = table, a.table_pages = 1;
        if (cases[i].key_lengths)
            a.key_lengths = three;
        infinities = 0;
        SUCCEEDS(clattn_lint(&a, count_infinite, NULL));
        cr_expect_eq(infinities > 0, cases[i].wanted > 0, "case %zu: %d", i, infinities);
    }
}
