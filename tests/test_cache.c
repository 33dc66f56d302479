/* SPDX-License-Identifier: Apache-2.0 */
/* Appending to caches in place, on both kinds of contexts: slots, bits of all others, rotation, pages, refusals. */
#define _DEFAULT_SOURCE
#include "kv_arrays.h"
#include <stdio.h>
#include <sys/mman.h>

static const char *const devices[] = {"opencl", "cpu"};
enum { DEVICES = 2 };

/* ---- which slots are written, and with what ---- */

typedef struct {
    clattn_dtype from, to;
    kv_layout new_layout, cache_layout;
    bool buffers;
} store_case;

enum { B = 3, HK = 2, L = 3, CAPACITY = 7, D = 32, DV = 64 };
static const int64_t new_k[4] = {B, HK, L, D}, new_v[4] = {B, HK, L, DV};
static const int64_t cache_k[4] = {B, HK, CAPACITY, D}, cache_v[4] = {B, HK, CAPACITY, DV};
static const int64_t lengths[B] = {0, 4, 2};

/* The cache's bytes as they should be: `before` with rows [lengths[b], lengths[b] + rows[b]) replaced. */
static void expect_bytes(kv_array *cache, const double *values, const int64_t *rows, const char *what) {
    const int64_t dims = cache->view.shape[3];
    kv_array want = *cache;
    want.data = malloc(cache->bytes);
    memset(want.data, KV_FILLER, want.bytes);
    for (int64_t row = 0; row < B * HK * L; row++) {
        const int64_t b = row / (HK * L), h = row / L % HK, i = row % L;
        if (i < rows[b])
            SUCCEEDS(clattn_convert(kv_row(&want, (b * HK + h) * CAPACITY + lengths[b] + i), cache->view.dtype,
                                    values + row * dims, CLATTN_F64, (size_t)dims));
    }
    kv_fetch(cache);
    cr_expect_arr_eq(cache->data, want.data, cache->bytes, "%s", what);
    free(want.data);
}

static void check_store(clattn_context *context, const store_case *c, const int64_t *new_lengths) {
    clattn_context *owner = c->buffers ? context : NULL;
    const int64_t all[B] = {L, L, L};
    double *k = kv_random(1, kv_count(new_k)), *v = kv_random(2, kv_count(new_v));
    kv_round(k, c->from, kv_count(new_k));
    kv_round(v, c->from, kv_count(new_v));
    kv_array x = kv_make(owner, c->from, new_k, c->new_layout, k), y = kv_make(owner, c->from, new_v, c->new_layout, v);
    kv_array k_cache = kv_make(owner, c->to, cache_k, c->cache_layout, NULL);
    kv_array v_cache = kv_make(owner, c->to, cache_v, c->cache_layout, NULL);
    const clattn_cache_append_args args = {.k = x.view,
                                           .v = y.view,
                                           .k_cache = k_cache.view,
                                           .v_cache = v_cache.view,
                                           .cache_lengths = lengths,
                                           .new_lengths = new_lengths};
    char what[80];
    snprintf(what, sizeof what, "%s to %s", clattn_dtype_name(c->from), clattn_dtype_name(c->to));
    SUCCEEDS(clattn_cache_append(context, &args));
    expect_bytes(&k_cache, k, new_lengths ? new_lengths : all, what);
    expect_bytes(&v_cache, v, new_lengths ? new_lengths : all, what);
    kv_free(&x);
    kv_free(&y);
    kv_free(&k_cache);
    kv_free(&v_cache);
    free(k);
    free(v);
}

Test(cache, append_writes_its_slots_and_no_other_byte) {
    static const store_case cases[] = {
        {CLATTN_F32, CLATTN_F32, KV_DENSE, KV_DENSE, true},  {CLATTN_F32, CLATTN_F16, KV_ROWS, KV_DENSE, false},
        {CLATTN_F16, CLATTN_F16, KV_DENSE, KV_ROWS, true},   {CLATTN_BF16, CLATTN_F32, KV_PADDED, KV_PADDED, true},
        {CLATTN_F32, CLATTN_BF16, KV_ROWS, KV_ROWS, true},   {CLATTN_F32, CLATTN_Q8_0, KV_DENSE, KV_DENSE, true},
        {CLATTN_F16, CLATTN_Q8_0, KV_ROWS, KV_ROWS, false},  {CLATTN_BF16, CLATTN_Q4_0, KV_DENSE, KV_PADDED, true},
        {CLATTN_F32, CLATTN_Q4_0, KV_ROWS, KV_DENSE, true},  {CLATTN_F64, CLATTN_F64, KV_DENSE, KV_ROWS, true},
        {CLATTN_F64, CLATTN_Q8_0, KV_DENSE, KV_DENSE, true}, {CLATTN_F64, CLATTN_F16, KV_DENSE, KV_DENSE, true},
    };
    const int64_t some[B] = {0, 3, 1};
    for (int n = 0; n < DEVICES; n++) {
        bool has_f64;
        clattn_context *context = kv_open(devices[n], &has_f64);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (has_f64 || (cases[i].from != CLATTN_F64 && cases[i].to != CLATTN_F64)) {
                check_store(context, &cases[i], NULL);
                check_store(context, &cases[i], some);
            }
        clattn_context_destroy(context);
    }
}

Test(cache, keys_or_values_may_go_alone) {
    double *k = kv_random(1, kv_count(new_k));
    const int64_t all[B] = {L, L, L};
    kv_round(k, CLATTN_F32, kv_count(new_k));
    for (int n = 0; n < 2 * DEVICES; n++) {
        clattn_context *context = kv_open(devices[n / 2], NULL);
        kv_array x = kv_make(context, CLATTN_F32, new_k, KV_DENSE, k);
        kv_array cache = kv_make(context, CLATTN_F32, cache_k, KV_DENSE, NULL);
        clattn_cache_append_args args = {.cache_lengths = lengths};
        *(n % 2 ? &args.k : &args.v) = x.view;
        *(n % 2 ? &args.k_cache : &args.v_cache) = cache.view;
        SUCCEEDS(clattn_cache_append(context, &args));
        expect_bytes(&cache, k, all, devices[n / 2]);
        kv_free(&x);
        kv_free(&cache);
        clattn_context_destroy(context);
    }
    free(k);
}

/* ---- rotation ---- */

/* Keys rotated by clattn_rotary at positions lengths[b] + i + offsets[b], in place. */
static void rotate(clattn_context *context, kv_array *x, const clattn_rotary_options *options, const int64_t *offsets) {
    int64_t from[B];
    for (int b = 0; b < B; b++)
        from[b] = lengths[b] + (offsets ? offsets[b] : 0);
    const clattn_rotary_args args = {.x = x->view, .y = x->view, .options = *options, .offsets = from};
    SUCCEEDS(clattn_rotary(context, &args));
}

Test(cache, keys_are_rotated_by_their_slot_and_values_are_not) {
    static const clattn_rotary_options options[] = {{0},
                                                    {.pairs = CLATTN_ROTARY_ADJACENT},
                                                    {.dims = 20, .base = 5e5},
                                                    {.dims = 10, .pairs = CLATTN_ROTARY_ADJACENT}};
    const int64_t offsets[B] = {-2, 100, 0}, all[B] = {L, L, L};
    double *k = kv_random(1, kv_count(new_k)), *v = kv_random(2, kv_count(new_v));
    kv_round(k, CLATTN_F32, kv_count(new_k));
    kv_round(v, CLATTN_F32, kv_count(new_v));
    for (int n = 0; n < DEVICES; n++) {
        clattn_context *context = kv_open(devices[n], NULL);
        for (int i = 0; i < 8; i++) {
            kv_array x = kv_make(context, CLATTN_F32, new_k, KV_DENSE, k),
                     y = kv_make(context, CLATTN_F32, new_v, KV_ROWS, v);
            kv_array k_cache = kv_make(context, CLATTN_F32, cache_k, KV_ROWS, NULL);
            kv_array v_cache = kv_make(context, CLATTN_F32, cache_v, KV_ROWS, NULL);
            const clattn_cache_append_args args = {.k = x.view,
                                                   .v = y.view,
                                                   .k_cache = k_cache.view,
                                                   .v_cache = v_cache.view,
                                                   .cache_lengths = lengths,
                                                   .rotate = true,
                                                   .rotary = options[i / 2],
                                                   .offsets = i % 2 ? offsets : NULL};
            SUCCEEDS(clattn_cache_append(context, &args));
            rotate(context, &x, &options[i / 2], args.offsets);
            double *rotated = kv_read(&x);
            expect_bytes(&k_cache, rotated, all, devices[n]);
            expect_bytes(&v_cache, v, all, devices[n]);
            free(rotated);
            kv_free(&x);
            kv_free(&y);
            kv_free(&k_cache);
            kv_free(&v_cache);
        }
        clattn_context_destroy(context);
    }
    free(k);
    free(v);
}

/* Rotation in f32, and then blocks: a step of the block's scale at most from those of the exact keys. */
Test(cache, rotated_keys_may_be_quantised) {
    const clattn_dtype types[] = {CLATTN_Q8_0, CLATTN_Q4_0};
    const double steps[] = {127, 8};
    double *k = kv_random(4, kv_count(new_k));
    kv_round(k, CLATTN_F32, kv_count(new_k));
    for (int n = 0; n < 4 * DEVICES; n++) {
        clattn_context *context = kv_open(devices[n / 4], NULL);
        const clattn_rotary_options options = {.pairs = (clattn_rotary_pairs)(n / 2 % 2), .dims = 24};
        kv_array x = kv_make(context, CLATTN_F32, new_k, KV_DENSE, k);
        kv_array cache = kv_make(context, types[n % 2], cache_k, KV_DENSE, NULL);
        const clattn_cache_append_args args = {
            .k = x.view, .k_cache = cache.view, .cache_lengths = lengths, .rotate = true, .rotary = options};
        SUCCEEDS(clattn_cache_append(context, &args));
        rotate(context, &x, &options, NULL);
        double *want = kv_read(&x), *got = kv_read(&cache);
        for (int64_t i = 0; i < kv_count(new_k); i++) {
            const int64_t row = i / D, b = row / (HK * L), slot = row / L * CAPACITY + lengths[b] + row % L;
            const double step = kv_largest(want + row * D, D) / steps[n % 2];
            cr_expect_lt(fabs(got[slot * D + i % D] - want[i]), 1.01 * step, "%s %s", devices[n / 4],
                         clattn_dtype_name(types[n % 2]));
        }
        free(want);
        free(got);
        kv_free(&x);
        kv_free(&cache);
        clattn_context_destroy(context);
    }
    free(k);
}

/* ---- pages ---- */

Test(cache, pages_get_what_one_piece_gets) {
    enum { PAGE = 3, TABLE = 3, PAGES = 11 };
    const int64_t pool_k[4] = {PAGES, HK, PAGE, D}, pool_v[4] = {PAGES, HK, PAGE, DV};
    const int32_t table[B * TABLE] = {7, -5, 99, -1, 10, 2, 4, 0, -1}; /* only pages that are written are looked at */
    double *k = kv_random(1, kv_count(new_k)), *v = kv_random(2, kv_count(new_v));
    const clattn_dtype types[] = {CLATTN_F32, CLATTN_F16, CLATTN_Q8_0};
    for (int n = 0; n < DEVICES; n++) {
        clattn_context *context = kv_open(devices[n], NULL);
        for (int t = 0; t < 3; t++) {
            kv_array x = kv_make(context, CLATTN_F32, new_k, KV_ROWS, k),
                     y = kv_make(context, CLATTN_F32, new_v, KV_DENSE, v);
            kv_array caches[2] = {kv_make(context, types[t], cache_k, KV_DENSE, NULL),
                                  kv_make(context, types[t], cache_v, KV_DENSE, NULL)};
            kv_array pools[2] = {kv_make(context, types[t], pool_k, KV_ROWS, NULL),
                                 kv_make(context, types[t], pool_v, KV_ROWS, NULL)};
            clattn_cache_append_args args = {.k = x.view,
                                             .v = y.view,
                                             .k_cache = caches[0].view,
                                             .v_cache = caches[1].view,
                                             .cache_lengths = lengths,
                                             .rotate = true};
            SUCCEEDS(clattn_cache_append(context, &args));
            args.k_cache = pools[0].view;
            args.v_cache = pools[1].view;
            args.block_table = table;
            args.table_pages = TABLE;
            SUCCEEDS(clattn_cache_append(context, &args));
            int64_t written = 0;
            for (int w = 0; w < 2; w++) {
                kv_fetch(&caches[w]);
                kv_fetch(&pools[w]);
                const size_t bytes = clattn_dtype_bytes(types[t], w ? DV : D);
                for (int64_t row = 0; row < B * HK * CAPACITY; row++) {
                    const int64_t b = row / (HK * CAPACITY), h = row / CAPACITY % HK, j = row % CAPACITY;
                    if (j < lengths[b] || j >= lengths[b] + L)
                        continue;
                    const int64_t page = table[b * TABLE + j / PAGE];
                    cr_expect_arr_eq(kv_row(&pools[w], (page * HK + h) * PAGE + j % PAGE), kv_row(&caches[w], row),
                                     bytes);
                    memset(kv_row(&pools[w], (page * HK + h) * PAGE + j % PAGE), KV_FILLER, bytes);
                    written++;
                }
                for (size_t i = 0; i < pools[w].bytes; i++)
                    cr_assert_eq(((unsigned char *)pools[w].data)[i], KV_FILLER, "byte %zu is no slot's", i);
                kv_free(&caches[w]);
                kv_free(&pools[w]);
            }
            cr_expect_eq(written, 2 * B * HK * L);
            kv_free(&x);
            kv_free(&y);
        }
        clattn_context_destroy(context);
    }
    free(k);
    free(v);
}

/* ---- refusals ---- */

Test(cache, what_does_not_fit_is_refused_before_anything_is_written) {
    float rows[2 * 2 * 4] = {0}, k_cache[2 * 5 * 4], v_cache[2 * 5 * 4];
    const int64_t new_shape[] = {2, 1, 2, 4}, cache_shape[] = {2, 1, 5, 4}, pool_shape[] = {4, 1, 2, 4};
    const int64_t blocks[] = {2, 1, 5, 32};
    const int64_t other[] = {2, 1, 5, 3}, wide[] = {2, 2, 5, 2}, fit[] = {3, 0}, over[] = {1, 4}, minus[] = {0, -1};
    const int64_t many[] = {2, 3}, two[] = {1, 2};
    const int32_t outside[] = {0, 1, 2, 4}, twice[] = {0, 3, 1, 3}, good_table[] = {0, 1, 2, 3};
    memset(k_cache, 0x55, sizeof k_cache);
    memset(v_cache, 0x55, sizeof v_cache);
    for (int n = 0; n < DEVICES; n++) {
        clattn_context *context = kv_open(devices[n], NULL);
        const clattn_cache_append_args good = {.k = clattn_tensor_host(rows, CLATTN_F32, 4, new_shape),
                                               .v = clattn_tensor_host(rows, CLATTN_F32, 4, new_shape),
                                               .k_cache = clattn_tensor_host(k_cache, CLATTN_F32, 4, cache_shape),
                                               .v_cache = clattn_tensor_host(v_cache, CLATTN_F32, 4, cache_shape),
                                               .cache_lengths = fit};
        clattn_cache_append_args a;
#define REFUSED(change, code, part)                                                                                    \
    a = good;                                                                                                          \
    change;                                                                                                            \
    FAILS(clattn_cache_append(context, &a), code, part)
        REFUSED(a.cache_lengths = over, CLATTN_E_LIMIT, "batch 1 holds 4 of 5 slots, and 2 rows more do not fit");
        REFUSED(a.cache_lengths = minus, CLATTN_E_SHAPE, "cache_lengths: batch 1 has -1, outside 0 to 5");
        REFUSED(a.cache_lengths = NULL, CLATTN_E_ARGUMENT, "cache_lengths: are missing");
        REFUSED(a.new_lengths = many, CLATTN_E_SHAPE, "new_lengths: batch 1 has 3, outside 0 to 2");
        REFUSED(a.k_cache = clattn_tensor_host(k_cache, CLATTN_F32, 4, other), CLATTN_E_SHAPE, "k_cache [2, 1, 5, 3]");
        REFUSED(a.v_cache = clattn_tensor_host(v_cache, CLATTN_F32, 4, wide), CLATTN_E_SHAPE, "v_cache [2, 2, 5, 2]");
        REFUSED(a.v_cache.rank = 0, CLATTN_E_ARGUMENT, "v_cache: is missing");
        REFUSED(a.k.rank = 0, CLATTN_E_ARGUMENT, "k: is missing");
        REFUSED(a.k.rank = a.v.rank = a.k_cache.rank = a.v_cache.rank = 0, CLATTN_E_ARGUMENT, "neither k nor v");
        REFUSED(a.k.rank = a.k_cache.rank = 0; a.rotate = true, CLATTN_E_ARGUMENT, "no k to rotate");
        REFUSED(a.rotate = true; a.rotary.dims = 3, CLATTN_E_SHAPE, "3 dims of a head dim of 4");
        REFUSED(a.k_cache.stride[0] = 0, CLATTN_E_SHAPE, "k_cache: its strides make elements share a place");
        REFUSED(a.k = a.k_cache; a.k.shape[2] = 2, CLATTN_E_ARGUMENT, "k_cache: shares memory with k");
        REFUSED(a.v = a.k; a.v_cache = a.k_cache, CLATTN_E_ARGUMENT, "v_cache: lies over k_cache");
        REFUSED(a.v_cache = clattn_tensor_host(k_cache + 1, CLATTN_F32, 4, cache_shape), CLATTN_E_ARGUMENT,
                "v_cache: lies over k_cache");
        REFUSED(a.k_cache.dtype = CLATTN_Q8_0, CLATTN_E_SHAPE, "k_cache: q8_0 is in blocks of 32");
        REFUSED(a.k_cache = clattn_tensor_host(k_cache, CLATTN_Q4_1, 4, blocks), CLATTN_E_DTYPE,
                "k_cache: is q4_1; here it is f32, f64, f16 or bf16, q8_0 or q4_0");
        REFUSED(a.k_cache.dtype = CLATTN_I32, CLATTN_E_DTYPE, "k_cache: is i32");
        REFUSED(a.table_pages = 2, CLATTN_E_ARGUMENT, "block_table: is NULL, and table_pages 2");
        const clattn_tensor pool = clattn_tensor_host(k_cache, CLATTN_F32, 4, pool_shape);
#define PAGED a.v.rank = a.v_cache.rank = 0, a.k_cache = pool, a.table_pages = 2, a.cache_lengths = two
        REFUSED(PAGED;
                a.block_table = outside, CLATTN_E_ARGUMENT, "batch 1 writes to entry 1, and it is 4, outside 0 to 3");
        REFUSED(PAGED; a.block_table = twice, CLATTN_E_ARGUMENT, "page 3 is written for two entries");
        REFUSED(PAGED; a.block_table = good_table;
                a.cache_lengths = over, CLATTN_E_LIMIT, "batch 1 holds 4 of 4 slots, and 2 rows more do not fit");
#undef PAGED
#undef REFUSED
        for (size_t i = 0; i < sizeof k_cache; i++) {
            cr_assert_eq(((const unsigned char *)k_cache)[i], 0x55, "something was written");
            cr_assert_eq(((const unsigned char *)v_cache)[i], 0x55, "something was written");
        }
        clattn_context_destroy(context);
    }
}

Test(cache, a_full_cache_takes_no_rows_and_that_is_no_error) {
    float row[4] = {1, 2, 3, 4}, cache[2 * 4];
    const int64_t new_shape[] = {1, 1, 1, 4}, none[] = {1, 1, 0, 4}, cache_shape[] = {1, 1, 2, 4}, full[] = {2},
                  zero[] = {0};
    memset(cache, 0x55, sizeof cache);
    for (int n = 0; n < DEVICES; n++) {
        clattn_context *context = kv_open(devices[n], NULL);
        clattn_cache_append_args a = {.k = clattn_tensor_host(row, CLATTN_F32, 4, new_shape),
                                      .k_cache = clattn_tensor_host(cache, CLATTN_F32, 4, cache_shape),
                                      .cache_lengths = full,
                                      .new_lengths = zero,
                                      .rotate = true};
        SUCCEEDS(clattn_cache_append(context, &a));
        a.k = clattn_tensor_host(row, CLATTN_F32, 4, none);
        a.new_lengths = NULL;
        SUCCEEDS(clattn_cache_append(context, &a));
        for (size_t i = 0; i < sizeof cache; i++)
            cr_expect_eq(((const unsigned char *)cache)[i], 0x55);
        clattn_context_destroy(context);
    }
}

/* Slots 2^31 + 32 elements apart, in memory that is never touched between them. */
Test(cache, slots_beyond_32_bits_are_found) {
    enum { DIM = 32 };
    const int64_t apart = ((int64_t)1 << 31) + 32, cache_shape[] = {1, 1, 2, DIM}, one[] = {1, 1, 1, DIM},
                  lengths_1[] = {1};
    const clattn_dtype types[] = {CLATTN_Q8_0, CLATTN_Q4_0};
    float row[DIM];
    for (int i = 0; i < DIM; i++)
        row[i] = (float)i - 7;
    for (int n = 0; n < 2 * DEVICES; n++) {
        clattn_context *context = kv_open(devices[n / 2], NULL);
        const clattn_dtype dtype = types[n % 2];
        const size_t bytes = clattn_dtype_bytes(dtype, (size_t)(apart + DIM)), block = clattn_dtype_size(dtype);
        unsigned char want[34];
        char *far = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        cr_assert_neq(far, MAP_FAILED);
        clattn_cache_append_args a = {.k = clattn_tensor_host(row, CLATTN_F32, 4, one),
                                      .k_cache = clattn_tensor_host(far, dtype, 4, cache_shape),
                                      .cache_lengths = lengths_1};
        a.k_cache.stride[2] = apart;
        SUCCEEDS(clattn_cache_append(context, &a));
        SUCCEEDS(clattn_convert(want, dtype, row, CLATTN_F32, DIM));
        cr_expect_arr_eq(far + clattn_dtype_bytes(dtype, (size_t)apart), want, block, "%s", devices[n / 2]);
        munmap(far, bytes);
        clattn_context_destroy(context);
    }
}

/* ---- decoding ---- */

enum { STEPS = 9, HEADS = 4, DIMS = 32 };

/* Causal attention over all steps at once. */
static void attend_whole(const oracle_runner *r, const float *q, const float *k, const float *v, float *o) {
    const int64_t qs[] = {1, HEADS, STEPS, DIMS}, ks[] = {1, HK, STEPS, DIMS};
    const clattn_attention_args a = {.q = clattn_tensor_host(q, CLATTN_F32, 4, qs),
                                     .k = clattn_tensor_host(k, CLATTN_F32, 4, ks),
                                     .v = clattn_tensor_host(v, CLATTN_F32, 4, ks),
                                     .o = clattn_tensor_host(o, CLATTN_F32, 4, qs),
                                     .causal = true,
                                     .algorithm = r->algorithm};
    SUCCEEDS(clattn_attention(r->context, &a));
}

static clattn_tensor step_of(const float *x, int64_t heads, int64_t step, int64_t count) {
    const int64_t shape[] = {1, heads, STEPS, DIMS};
    return clattn_tensor_slice(clattn_tensor_host(x, CLATTN_F32, 4, shape), 2, step, count);
}

/* A prompt of 3, then one step at a time, through a cache with room to spare that holds NaN. */
static void decode(const oracle_runner *r, const float *q, const float *k, const float *v, float *o) {
    enum { ROOM = 16, PROMPT = 3 };
    float k_cache[HK * ROOM * DIMS], v_cache[HK * ROOM * DIMS], turned[HEADS * STEPS * DIMS];
    const int64_t shape[] = {1, HK, ROOM, DIMS};
    memset(k_cache, 0xff, sizeof k_cache);
    memset(v_cache, 0xff, sizeof v_cache);
    for (int64_t at = 0; at < STEPS;) {
        const int64_t count = at == 0 ? PROMPT : 1, after = at + count;
        const clattn_cache_append_args append = {.k = step_of(k, HK, at, count),
                                                 .v = step_of(v, HK, at, count),
                                                 .k_cache = clattn_tensor_host(k_cache, CLATTN_F32, 4, shape),
                                                 .v_cache = clattn_tensor_host(v_cache, CLATTN_F32, 4, shape),
                                                 .cache_lengths = &at,
                                                 .rotate = true};
        SUCCEEDS(clattn_cache_append(r->context, &append));
        const clattn_rotary_args rotary = {
            .x = step_of(q, HEADS, at, count), .y = step_of(turned, HEADS, at, count), .offsets = &at};
        SUCCEEDS(clattn_rotary(r->context, &rotary));
        const clattn_attention_args a = {.q = rotary.y,
                                         .k = append.k_cache,
                                         .v = append.v_cache,
                                         .o = step_of(o, HEADS, at, count),
                                         .causal = true,
                                         .align = CLATTN_ALIGN_BOTTOM_RIGHT,
                                         .key_lengths = &after,
                                         .algorithm = r->algorithm};
        SUCCEEDS(clattn_attention(r->context, &a));
        at = after;
    }
}

Test(cache, decoding_through_a_cache_is_attention_over_the_whole) {
    enum { Q = HEADS * STEPS * DIMS, K = HK * STEPS * DIMS };
    float q[Q], k[K], v[K], q_turned[Q], k_turned[K], whole[Q], stepwise[Q];
    oracle_random random = {12};
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    for (int i = 0; i < Q; i++)
        q[i] = (float)oracle_normal(&random);
    for (int i = 0; i < K; i++) {
        k[i] = (float)oracle_normal(&random);
        v[i] = (float)oracle_normal(&random);
    }
    cr_assert_gt(count, 0);
    for (size_t n = 0; n < count; n++) {
        const clattn_rotary_args of_q = {.x = step_of(q, HEADS, 0, STEPS), .y = step_of(q_turned, HEADS, 0, STEPS)};
        const clattn_rotary_args of_k = {.x = step_of(k, HK, 0, STEPS), .y = step_of(k_turned, HK, 0, STEPS)};
        SUCCEEDS(clattn_rotary(runners[n].context, &of_q));
        SUCCEEDS(clattn_rotary(runners[n].context, &of_k));
        attend_whole(&runners[n], q_turned, k_turned, v, whole);
        decode(&runners[n], q, k, v, stepwise);
        for (int i = 0; i < Q; i++)
            cr_expect_float_eq((double)stepwise[i], (double)whole[i], 2 * oracle_floor(CLATTN_F32, 4), "%s: %d",
                               runners[n].algorithm, i);
    }
    oracle_close(runners, count);
}
