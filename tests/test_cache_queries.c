/* SPDX-License-Identifier: Apache-2.0 */
/* Appending to caches: queries that are rotated beside keys, and tables of angles. */
#include "kv_arrays.h"

static const char *const devices[] = {"opencl", "cpu"};
enum { DEVICES = 2, B = 3, HK = 2, L = 3, CAPACITY = 7, D = 32, DV = 64 };
static const int64_t new_k[4] = {B, HK, L, D}, new_v[4] = {B, HK, L, DV};
static const int64_t cache_k[4] = {B, HK, CAPACITY, D}, cache_v[4] = {B, HK, CAPACITY, DV};
static const int64_t lengths[B] = {0, 4, 2};

enum { HEADS = 4, PLACES = 128 };
static const int64_t some_q[4] = {B, HEADS, L, D};

/* Cosines and sines of the options' dims and base at each position, [PLACES, dims / 2]. */
static void fill_tables(const clattn_rotary_options *options, float *cosines, float *sines) {
    const int pairs = (int)(options->dims ? options->dims : D) / 2;
    for (int i = 0; i < PLACES * pairs; i++) {
        const long double base = options->base > 0 ? options->base : 10000;
        const long double angle = i / pairs * powl(base, -(long double)(i % pairs) / pairs);
        cosines[i] = (float)cosl(angle);
        sines[i] = (float)sinl(angle);
    }
}

typedef struct {
    bool tables, even, offset, buffers; /* even: the same lengths and offsets in all batches */
    clattn_dtype cache;
    clattn_rotary_options options;
} turn_case;

/* Queries beside keys: what clattn_rotary makes of both. */
static void check_turn(clattn_context *context, const turn_case *c) {
    static float cosines[PLACES * D / 2], sines[PLACES * D / 2];
    const int64_t even[B] = {2, 2, 2}, uneven_offsets[B] = {0, 100, 7}, even_offsets[B] = {9, 9, 9};
    const int64_t *used = c->even ? even : lengths, *offsets = c->even ? even_offsets : uneven_offsets;
    const int64_t pairs = (c->options.dims ? c->options.dims : D) / 2, shape[2] = {PLACES, pairs};
    clattn_context *owner = c->buffers ? context : NULL;
    double *k = kv_random(1, kv_count(new_k)), *q = kv_random(2, kv_count(some_q)), *v = kv_random(3, kv_count(new_v));
    kv_array x[3] = {kv_make(owner, CLATTN_F32, new_k, KV_ROWS, k), kv_make(owner, CLATTN_F32, some_q, KV_ROWS, q),
                     kv_make(owner, CLATTN_F32, new_v, KV_DENSE, v)};
    kv_array want[3] = {kv_make(owner, CLATTN_F32, new_k, KV_ROWS, k), kv_make(owner, CLATTN_F32, some_q, KV_ROWS, q),
                        kv_make(owner, CLATTN_F32, new_v, KV_DENSE, v)};
    kv_array caches[2] = {kv_make(owner, c->cache, cache_k, KV_DENSE, NULL),
                          kv_make(owner, c->cache, cache_v, KV_DENSE, NULL)};
    kv_array expected[2] = {kv_make(owner, c->cache, cache_k, KV_DENSE, NULL),
                            kv_make(owner, c->cache, cache_v, KV_DENSE, NULL)};
    clattn_cache_append_args args = {.k = x[0].view,
                                     .v = x[2].view,
                                     .k_cache = caches[0].view,
                                     .v_cache = caches[1].view,
                                     .cache_lengths = used,
                                     .rotate = true,
                                     .rotary = c->options,
                                     .offsets = c->offset ? offsets : NULL,
                                     .q = x[1].view};
    fill_tables(&c->options, cosines, sines);
    if (c->tables) {
        args.cos = clattn_tensor_host(cosines, CLATTN_F32, 2, shape);
        args.sin = clattn_tensor_host(sines, CLATTN_F32, 2, shape);
    }
    SUCCEEDS(clattn_cache_append(context, &args));
    int64_t from[B];
    for (int b = 0; b < B; b++)
        from[b] = used[b] + (c->offset ? offsets[b] : 0);
    for (int i = 0; i < 2; i++) {
        const clattn_rotary_args turn = {.x = want[i].view,
                                         .y = want[i].view,
                                         .options = c->options,
                                         .offsets = from,
                                         .cos = args.cos,
                                         .sin = args.sin};
        SUCCEEDS(clattn_rotary(context, &turn));
    }
    args.k = want[0].view, args.v = want[2].view, args.k_cache = expected[0].view, args.v_cache = expected[1].view;
    args.rotate = false, args.q = args.cos = args.sin = (clattn_tensor){0};
    SUCCEEDS(clattn_cache_append(context, &args));
    kv_array *const pairs_of[][2] = {{&x[1], &want[1]}, {&caches[0], &expected[0]}, {&caches[1], &expected[1]}};
    for (int i = 0; i < 3; i++) {
        kv_fetch(pairs_of[i][0]);
        kv_fetch(pairs_of[i][1]);
        cr_expect_arr_eq(pairs_of[i][0]->data, pairs_of[i][1]->data, pairs_of[i][0]->bytes,
                         "%s: tensor %d, tables %d, even %d", clattn_dtype_name(c->cache), i, c->tables, c->even);
    }
    for (int i = 0; i < 3; i++) {
        kv_free(&x[i]);
        kv_free(&want[i]);
    }
    for (int i = 0; i < 2; i++) {
        kv_free(&caches[i]);
        kv_free(&expected[i]);
    }
    free(k);
    free(q);
    free(v);
}

Test(cache_queries, queries_turn_beside_keys_by_angles_of_options_or_tables) {
    static const turn_case cases[] = {
        {.even = true, .buffers = true},
        {.even = true, .tables = true, .buffers = true, .options = {.pairs = CLATTN_ROTARY_ADJACENT}},
        {.tables = true, .offset = true, .buffers = true, .options = {.dims = 20}},
        {.even = true, .tables = true, .offset = true, .cache = CLATTN_F16, .options = {.dims = 10, .base = 5e5}},
        {.offset = true, .cache = CLATTN_F16, .buffers = true},
        {.even = true, .tables = true, .buffers = true, .cache = CLATTN_Q8_0},
    };
    for (int n = 0; n < DEVICES; n++) {
        clattn_context *context = kv_open(devices[n], NULL);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) /* `cpu` makes blocks of doubles */
            if (devices[n][0] != 'c' || cases[i].cache != CLATTN_Q8_0)
                check_turn(context, &cases[i]);
        clattn_context_destroy(context);
    }
}

/* Tables need not reach as far as rows that are not appended, which are queries at position 0. */
Test(cache_queries, rows_that_are_not_appended_need_no_positions) {
    enum { BATCH = 2, ROWS = 4, SLOTS = 8, DIM = 2 };
    const int64_t rows[] = {BATCH, 1, ROWS, DIM}, slots[] = {BATCH, 1, SLOTS, DIM}, table[] = {SLOTS, 1};
    const int64_t used[BATCH] = {6, 0}, added[BATCH] = {2, 4};
    float cosines[SLOTS], sines[SLOTS], k[BATCH * ROWS * DIM];
    for (int i = 0; i < SLOTS; i++)
        cosines[i] = 0, sines[i] = (float)(i + 1);
    for (int i = 0; i < BATCH * ROWS; i++)
        k[2 * i] = (float)(i + 1), k[2 * i + 1] = 0; /* becomes (0, (i + 1) * sine) */
    for (int n = 0; n < DEVICES; n++) {
        clattn_context *context = kv_open(devices[n], NULL);
        float q[BATCH * ROWS * DIM], cache[BATCH * SLOTS * DIM] = {0};
        memcpy(q, k, sizeof q);
        SUCCEEDS(clattn_cache_append(
            context, &(clattn_cache_append_args){.k = clattn_tensor_host(k, CLATTN_F32, 4, rows),
                                                 .k_cache = clattn_tensor_host(cache, CLATTN_F32, 4, slots),
                                                 .cache_lengths = used,
                                                 .new_lengths = added,
                                                 .rotate = true,
                                                 .q = clattn_tensor_host(q, CLATTN_F32, 4, rows),
                                                 .cos = clattn_tensor_host(cosines, CLATTN_F32, 2, table),
                                                 .sin = clattn_tensor_host(sines, CLATTN_F32, 2, table)}));
        for (int b = 0; b < BATCH; b++) {
            for (int i = 0; i < ROWS; i++) {
                const int row = b * ROWS + i, position = i < added[b] ? (int)used[b] + i : 0;
                cr_expect_eq((double)q[2 * row + 1], (row + 1.0) * (position + 1), "%s: query %d is %g", devices[n],
                             row, (double)q[2 * row + 1]);
            }
            for (int j = 0; j < SLOTS; j++) {
                const int i = j - (int)used[b];
                const double want = i >= 0 && i < added[b] ? (b * ROWS + i + 1.0) * (j + 1) : 0;
                cr_expect_eq((double)cache[2 * (b * SLOTS + j) + 1], want, "%s: slot %d of %d", devices[n], j, b);
            }
        }
        clattn_context_destroy(context);
    }
}

Test(cache_queries, queries_and_tables_that_do_not_fit_are_refused) {
    static float x[B * HEADS * L * D], cache[B * HEADS * CAPACITY * D], table[PLACES * D];
    clattn_context *context = kv_open("cpu", NULL);
    const clattn_cache_append_args good = {.k = clattn_tensor_host(x, CLATTN_F32, 4, new_k),
                                           .k_cache = clattn_tensor_host(cache, CLATTN_F32, 4, cache_k),
                                           .cache_lengths = lengths,
                                           .rotate = true,
                                           .q =
                                               clattn_tensor_host(table, CLATTN_F32, 4, (const int64_t[]){B, 1, L, D})};
    clattn_cache_append_args a = good;
    a.q.shape[2] = L - 1;
    FAILS(clattn_cache_append(context, &a), CLATTN_E_SHAPE, "q [3, 1, 2, 32]: should be [3, heads, 3, 32], as k");
    a = good, a.q.host = x;
    FAILS(clattn_cache_append(context, &a), CLATTN_E_ARGUMENT, "q: shares elements with k");
    a = good, a.q.host = cache;
    FAILS(clattn_cache_append(context, &a), CLATTN_E_ARGUMENT, "q: shares memory with k_cache");
    a = good, a.rotate = false;
    FAILS(clattn_cache_append(context, &a), CLATTN_E_ARGUMENT, "q: is given, and rotate is not set");
    a = good, a.cos = clattn_tensor_host(table, CLATTN_F32, 2, (const int64_t[]){6, D / 2});
    FAILS(clattn_cache_append(context, &a), CLATTN_E_ARGUMENT, "q: shares memory with cos");
    a.q = (clattn_tensor){0};
    FAILS(clattn_cache_append(context, &a), CLATTN_E_ARGUMENT, "sin: is missing");
    a.sin = a.cos;
    FAILS(clattn_cache_append(context, &a), CLATTN_E_ARGUMENT, "row 2 of batch 1 stands at 6, and the tables have 6");
    a.cos.shape[1] = 4;
    FAILS(clattn_cache_append(context, &a), CLATTN_E_SHAPE, "cos [6, 4]: should be [positions, 16]");
    clattn_context_destroy(context);
}
