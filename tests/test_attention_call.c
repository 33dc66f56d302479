/* SPDX-License-Identifier: Apache-2.0 */
/* The one call: host arrays that lie apart, together and inside each other, buffers, both, and the lower ranks. */
#include "cases.h"
#include "oracle_internal.h"
#include <stdlib.h>

static size_t put(unsigned char *to, clattn_dtype dtype, const double *from, int64_t count) {
    SUCCEEDS(clattn_convert(to, dtype, from, CLATTN_F64, (size_t)count));
    return (size_t)count * clattn_dtype_size(dtype);
}

/* ---- arrays inside each other ---- */

/* One array [B, N, Q K V O of H heads]: three inputs, and the output in the gaps between them. */
static void in_the_gaps(const oracle_runner *r, clattn_dtype dtype) {
    enum { B = 2, N = 19, H = 3, D = 8, WIDTH = 4 * H * D, ALL = B * N * WIDTH };
    const oracle_config config = {.dtype = dtype, .B = B, .H = H, .N = N, .D = D, .seed = 5};
    oracle_case *c = oracle_make(&config);
    double whole[ALL], after[ALL];
    unsigned char data[ALL * sizeof(double)];
    char text[ORACLE_TEXT] = "";
    cr_assert(oracle_exact(c, text), "%s", text);
    const double *parts[] = {c->q, c->k, c->v};
    for (int i = 0; i < ALL; i++) {
        const int b = i / (N * WIDTH), n = i / WIDTH % N, part = i / (H * D) % 4, h = i / D % H, d = i % D;
        whole[i] = part < 3 ? parts[part][((b * H + h) * N + n) * D + d] : 12345;
    }
    put(data, dtype, whole, ALL);
    clattn_tensor all = clattn_tensor_host(data, dtype, 3, (const int64_t[]){B, N, WIDTH}), views[4];
    for (int part = 0; part < 4; part++) {
        const clattn_tensor heads = clattn_tensor_split(clattn_tensor_slice(all, 2, part * H * D, H * D), 2, H);
        views[part] = clattn_tensor_permute(heads, (const int[]){0, 2, 1, 3});
    }
    const clattn_attention_args args = {
        .q = views[0], .k = views[1], .v = views[2], .o = views[3], .algorithm = r->algorithm};
    SUCCEEDS(clattn_attention(r->context, &args));
    SUCCEEDS(clattn_convert(after, CLATTN_F64, data, dtype, ALL));
    for (int i = 0; i < ALL; i++) {
        const int b = i / (N * WIDTH), n = i / WIDTH % N, part = i / (H * D) % 4, h = i / D % H, d = i % D;
        if (part == 3)
            c->got.o[((b * H + h) * N + n) * D + d] = after[i];
        else
            cr_assert_eq(after[i], whole[i], "%s has changed an input", r->algorithm);
    }
    cr_expect(oracle_compare(c, r->algorithm, text), "%s", text);
    oracle_free(c);
}
Test(attention_call, the_output_may_lie_in_the_gaps_of_the_inputs_array) { on_each(in_the_gaps); }

/* K and V are the same array, and Q a part of it. */
static void the_same_array(const oracle_runner *r, clattn_dtype dtype) {
    enum { M = 30, D = 8, FIRST = 9, N = 11 };
    const oracle_config config = {.dtype = dtype, .N = N, .M = M, .D = D, .seed = 6};
    oracle_case *c = oracle_make(&config);
    char text[ORACLE_TEXT] = "";
    unsigned char keys[M * D * sizeof(double)], out[N * D * sizeof(double)];
    memcpy(c->v, c->k, M * D * sizeof *c->v);
    memcpy(c->q, c->k + FIRST * D, N * D * sizeof *c->q);
    cr_assert(oracle_exact(c, text), "%s", text);
    put(keys, dtype, c->k, M * D);
    const clattn_tensor k = clattn_tensor_host(keys, dtype, 2, (const int64_t[]){M, D});
    const clattn_attention_args args = {.q = clattn_tensor_slice(k, 0, FIRST, N),
                                        .k = k,
                                        .v = k,
                                        .o = clattn_tensor_host(out, dtype, 2, (const int64_t[]){N, D}),
                                        .algorithm = r->algorithm};
    SUCCEEDS(clattn_attention(r->context, &args));
    SUCCEEDS(clattn_convert(c->got.o, CLATTN_F64, out, dtype, N * D));
    cr_expect(oracle_compare(c, r->algorithm, text), "%s", text);
    oracle_free(c);
}
Test(attention_call, inputs_may_be_one_array_and_parts_of_it) { on_each(the_same_array); }

/* ---- host arrays and buffers ---- */

/* Bit t of `buffers` says whether tensor t of q, k, v, o, lse, keep is a buffer. */
static void mixed(const oracle_runner *r, clattn_dtype dtype) {
    static const int tensors[] = {ORACLE_Q, ORACLE_K, ORACLE_V, ORACLE_O, ORACLE_LSE, ORACLE_KEEP};
    const oracle_config config = {
        .dtype = dtype, .H = 2, .N = 9, .M = 17, .D = 12, .guard = 5, .lse = true, .keep = {2, ORACLE_KEY}, .seed = 7};
    oracle_case *c = oracle_make(&config);
    char text[ORACLE_TEXT] = "";
    size_t at;
    cr_assert(oracle_exact(c, text), "%s", text);
    for (int buffers = 1; buffers < 64; buffers += 3) {
        oracle_arrays arrays;
        oracle_arrays_make(c, &arrays);
        clattn_attention_args args = arrays.args;
        args.algorithm = r->algorithm;
        for (int i = 0; i < 6; i++) {
            oracle_array *a = &arrays.list[arrays.of[tensors[i]]];
            if (!(buffers >> i & 1))
                continue;
            SUCCEEDS(clattn_buffer_create(r->context, a->bytes, &a->buffer));
            SUCCEEDS(clattn_buffer_upload(a->buffer, 0, a->data, a->bytes));
            oracle_args_tensor(&args, tensors[i])->host = NULL;
            oracle_args_tensor(&args, tensors[i])->buffer = a->buffer;
        }
        SUCCEEDS(clattn_attention(r->context, &args));
        for (int i = 0; i < arrays.count; i++)
            if (arrays.list[i].buffer)
                SUCCEEDS(clattn_buffer_download(arrays.list[i].buffer, 0, arrays.list[i].data, arrays.list[i].bytes));
        oracle_arrays_take(c, &arrays, &c->got);
        cr_expect(oracle_compare(c, r->algorithm, text), "buffers %d: %s", buffers, text);
        cr_expect_lt(oracle_arrays_damage(&arrays, &at), 0);
        oracle_arrays_free(&arrays);
    }
    oracle_free(c);
}
Test(attention_call, host_arrays_and_buffers_may_be_mixed) { on_each(mixed); }

static void leaves_nothing(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {
        .dtype = dtype, .B = 2, .N = 9, .D = 12, .lengths = true, .layout = ORACLE_TRANSPOSED, .seed = 8};
    oracle_case *c = oracle_make(&config);
    uint64_t before, after, peak;
    runs(c, r);
    clattn_context_memory(r->context, &before, &peak);
    for (int i = 0; i < 20; i++)
        runs(c, r);
    clattn_context_memory(r->context, &after, &peak);
    cr_expect_eq(after, before, "%s", r->algorithm);
    oracle_free(c);
}
Test(attention_call, calls_leave_no_memory_behind) { on_each(leaves_nothing); }

Test(attention_call, without_a_name_the_library_chooses_well) {
    static const char *const devices[] = {"cpu", "opencl", NULL};
    for (int i = 0; i < 3; i++) {
        const oracle_config config = {
            .B = 2, .H = 4, .Hk = 1, .N = 33, .D = 40, .lse = true, .weights = i == 0, .seed = 9};
        oracle_case *c = oracle_make(&config);
        clattn_context *context = NULL;
        char text[ORACLE_TEXT] = "";
        if (clattn_context_create(devices[i], NULL, &context) == CLATTN_OK)
            cr_expect(oracle_check(c, context, NULL, text), "%s", text);
        clattn_context_destroy(context);
        oracle_free(c);
    }
}

/* ---- ranks ---- */

/* The same problem in rank 2, 3 and 4; LSE and weights have the rank of O, or less. */
static void ranks(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {
        .dtype = dtype, .N = 6, .M = 10, .D = 8, .Dv = 5, .lse = true, .weights = true, .seed = 10};
    oracle_case *c = oracle_make(&config);
    char text[ORACLE_TEXT] = "";
    unsigned char q[48 * 8], k[80 * 8], v[50 * 8], o[30 * 8], lse[6 * 8], weights[60 * 8];
    cr_assert(oracle_exact(c, text), "%s", text);
    if (!oracle_applies(c, r, NULL))
        c->config.weights = false;
    put(q, dtype, c->q, 48);
    put(k, dtype, c->k, 80);
    put(v, dtype, c->v, 50);
    for (int rank = 2; rank <= 4; rank++) {
        const int64_t qs[] = {1, 1, 6, 8}, ks[] = {1, 1, 10, 8}, vs[] = {1, 1, 10, 5}, os[] = {1, 1, 6, 5};
        const int64_t ws[] = {1, 1, 6, 10};
        const int skip = 4 - rank;
        clattn_attention_args args = {.q = clattn_tensor_host(q, dtype, rank, qs + skip),
                                      .k = clattn_tensor_host(k, dtype, rank, ks + skip),
                                      .v = clattn_tensor_host(v, dtype, rank, vs + skip),
                                      .o = clattn_tensor_host(o, dtype, rank, os + skip),
                                      .lse = clattn_tensor_host(lse, dtype, rank - 1, ws + skip),
                                      .algorithm = r->algorithm};
        if (c->config.weights)
            args.weights = clattn_tensor_host(weights, dtype, rank, ws + skip);
        SUCCEEDS(clattn_attention(r->context, &args));
        SUCCEEDS(clattn_convert(c->got.o, CLATTN_F64, o, dtype, 30));
        SUCCEEDS(clattn_convert(c->got.lse, CLATTN_F64, lse, dtype, 6));
        if (c->config.weights)
            SUCCEEDS(clattn_convert(c->got.weights, CLATTN_F64, weights, dtype, 60));
        cr_expect(oracle_compare(c, r->algorithm, text), "rank %d: %s", rank, text);
    }
    oracle_free(c);
}
Test(attention_call, lower_ranks_are_one_batch_and_one_head) { on_each(ranks); }

/* ---- sinks that are no finite numbers ---- */

Test(attention_call, a_row_without_keys_is_0_and_its_lse_the_sink_whatever_that_is) {
    const int64_t qs[] = {1, 3, 2, 4}, ks[] = {1, 1, 5, 4}, ls[] = {1, 3, 2}, ones[] = {1};
    const float sinks[3] = {INFINITY, NAN, 1};
    float q[24], k[20], o[24], lse[6], entropy[6];
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    for (int i = 0; i < 24; i++)
        q[i] = k[i % 20] = (float)(i % 7) - 3;
    for (size_t n = 0; n < count; n++) {
        memset(o, 0xff, sizeof o);
        memset(entropy, 0xff, sizeof entropy);
        clattn_attention_args a = {.q = clattn_tensor_host(q, CLATTN_F32, 4, qs),
                                   .k = clattn_tensor_host(k, CLATTN_F32, 4, ks),
                                   .v = clattn_tensor_host(k, CLATTN_F32, 4, ks),
                                   .o = clattn_tensor_host(o, CLATTN_F32, 4, qs),
                                   .lse = clattn_tensor_host(lse, CLATTN_F32, 3, ls),
                                   .entropy = clattn_tensor_host(entropy, CLATTN_F32, 3, ls),
                                   .sinks = clattn_tensor_host(sinks, CLATTN_F32, 1, (const int64_t[]){3}),
                                   .query_lengths = ones,
                                   .algorithm = runners[n].algorithm};
        SUCCEEDS(clattn_attention(runners[n].context, &a));
        for (int h = 0; h < 3; h++) {
            for (int d = 0; d < 4; d++) {
                cr_expect_eq(o[h * 8 + 4 + d], 0, "%s, head %d: %g", runners[n].algorithm, h, (double)o[h * 8 + 4 + d]);
                cr_expect_eq(isnan(o[h * 8 + d]) != 0, h < 2, "%s, head %d", runners[n].algorithm, h);
            }
            cr_expect_eq(entropy[h * 2 + 1], 0, "%s, head %d", runners[n].algorithm, h);
        }
        cr_expect(lse[1] == INFINITY && isnan(lse[3]) && lse[5] == 1, "%s: LSE %g %g %g, not the sinks",
                  runners[n].algorithm, (double)lse[1], (double)lse[3], (double)lse[5]);
    }
    oracle_close(runners, count);
}

/* ---- values without dims ---- */

Test(attention_call, values_in_pages_without_dims_leave_the_lse) {
    const int64_t qs[] = {2, 1, 1, 4}, pool[] = {3, 1, 2, 4}, values[] = {3, 1, 2, 0}, os[] = {2, 1, 1, 0};
    const int64_t lengths[] = {3, 1}, ls[] = {2, 1, 1};
    const int32_t table[4] = {2, 0, 1, -1};
    const float q[8] = {0}, k[24] = {0};
    float lse[2];
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    for (size_t n = 0; n < count; n++) {
        clattn_attention_args a = {.q = clattn_tensor_host(q, CLATTN_F32, 4, qs),
                                   .k = clattn_tensor_host(k, CLATTN_F32, 4, pool),
                                   .v = clattn_tensor_host(NULL, CLATTN_F32, 4, values),
                                   .o = clattn_tensor_host(NULL, CLATTN_F32, 4, os),
                                   .lse = clattn_tensor_host(lse, CLATTN_F32, 3, ls),
                                   .key_lengths = lengths,
                                   .block_table = table,
                                   .table_pages = 2,
                                   .algorithm = runners[n].algorithm};
        SUCCEEDS(clattn_attention(runners[n].context, &a));
        cr_expect_float_eq(lse[0], logf(3), 1e-6, "%s: %g", runners[n].algorithm, (double)lse[0]);
        cr_expect_float_eq(lse[1], 0, 1e-6, "%s: %g", runners[n].algorithm, (double)lse[1]);
    }
    oracle_close(runners, count);
}
