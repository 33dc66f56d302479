/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys each query of a module sees, of masks of every kind, with and without a key behind the others; and tensors
 * that begin at the same place and are not the same. Queries are zeros, so that keys that are seen weigh alike. */
#include "errors.h"
#include "op_arrays.h"
#include <clattn/clattn.h>

enum { B = 2, N = 2, M = 3, H = 2, E = 2, SEEN = B * H * N * M };

static const unsigned char bytes[SEEN] = {0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1};
static const double numbers[SEEN] = {0, 0, -INFINITY, 0, -INFINITY, 0};
static const int64_t lengths[] = {2, 3}, offsets[] = {0, 1};

static clattn_tensor of_bytes(clattn_dtype dtype, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t all[] = {a, b, c, d};
    return clattn_tensor_host(bytes, dtype, rank, all + 4 - rank);
}
static clattn_tensor of_numbers(int64_t rows, int64_t columns) {
    return clattn_tensor_host(numbers, CLATTN_F64, 2, (const int64_t[]){rows, columns});
}

static double at(const clattn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t index[] = {b, h, i, j};
    int64_t place = 0;
    for (int k = 0; k < t->rank; k++) {
        const int axis = 3 - k, own = t->rank - 1 - k;
        place += t->shape[own] == 1 ? 0 : index[axis] * t->stride[own];
    }
    return t->dtype == CLATTN_F64 ? numbers[place] : bytes[place];
}

static bool excludes(const clattn_tensor *t, double value) {
    return t->dtype == CLATTN_F64 ? isinf(value) : value != 0;
}

/* By the header's words, with masks whose nonzero bytes say what may not be seen. */
static bool sees(const clattn_module_masks *m, int64_t M_of, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t length = m->key_lengths ? m->key_lengths[b] : M_of;
    const int64_t offset = m->align == CLATTN_ALIGN_BOTTOM_RIGHT ? length - N
                           : m->align == CLATTN_ALIGN_OFFSET     ? m->offsets[b]
                                                                 : 0;
    clattn_tensor padding = m->key_padding;
    if (padding.rank == 2) { /* [B, M] as [B, 1, 1, M] */
        padding.rank = 4;
        padding.shape[3] = padding.shape[1], padding.stride[3] = padding.stride[1];
        padding.shape[1] = padding.shape[2] = 1;
    }
    return j < length && (!m->causal || j <= i + offset) &&
           !(m->attn.rank && excludes(&m->attn, at(&m->attn, b, h, i, j))) &&
           !(padding.rank && excludes(&padding, at(&padding, b, h, i, j)));
}

static void check(const char *name, clattn_context *context, const clattn_module_masks *masks, int64_t keys,
                  bool behind) {
    clattn_multihead *m = NULL;
    clattn_multihead_weights w = {.q = mat(0, E, E), .k = mat(1, E, E), .v = mat(1, E, E), .out = mat(1, E, E)};
    if (behind)
        w.bias_k = w.bias_v = vec(1, E);
    const int64_t all = keys + behind;
    const clattn_multihead_args args = {.query = cube(2, B, N, E),
                                        .key = cube(3, B, keys, E),
                                        .y = cube(4, B, N, E),
                                        .weights = four(5, B, H, N, all),
                                        .masks = *masks};
    fill_slots();
    for (int i = 0; i < E * E; i++)
        slots[0][i] = 0;
    SUCCEEDS(clattn_multihead_create(context, &w, &(clattn_multihead_options){.heads = H}, &m));
    SUCCEEDS(clattn_multihead_run(m, &args));
    for (int64_t row = 0; row < B * H * N; row++) {
        const int64_t b = row / (H * N), h = row / N % H, i = row % N;
        int64_t seen = behind;
        for (int64_t j = 0; j < keys; j++)
            seen += sees(masks, keys, b, h, i, j);
        for (int64_t j = 0; j < all; j++) {
            const bool one = j == keys || sees(masks, keys, b, h, i, j);
            const double got = (double)slots[5][row * all + j], want = one ? 1 / (double)seen : 0;
            cr_expect_float_eq(got, want, oracle_floor(CLATTN_F32, 1), "%s%s: batch %d, head %d, query %d, key %d: %g",
                               name, behind ? ", a key behind" : "", (int)b, (int)h, (int)i, (int)j, got);
        }
    }
    clattn_multihead_destroy(m);
}

Test(module_masks, let_queries_see_what_their_words_say) {
    clattn_context *context = op_open("cpu");
    const struct {
        const char *name;
        clattn_module_masks masks;
        int64_t keys;
    } cases[] = {
        {"bool [N, M]", {.attn = of_bytes(CLATTN_BOOL, 2, 0, 0, N, M)}, M},
        {"u8 [B, H, N, M]", {.attn = of_bytes(CLATTN_U8, 4, B, H, N, M)}, M},
        {"u8 [1, H, 1, M]", {.attn = of_bytes(CLATTN_U8, 4, 1, H, 1, M)}, M},
        {"bool [B, 1, N, 1]", {.attn = of_bytes(CLATTN_BOOL, 4, B, 1, N, 1)}, M},
        {"padding", {.key_padding = of_bytes(CLATTN_BOOL, 2, 0, 0, B, M)}, M},
        {"padding of numbers", {.key_padding = of_numbers(B, M)}, M},
        {"a mask of numbers", {.attn = of_numbers(N, M)}, M},
        {"both", {.attn = of_numbers(N, M), .key_padding = of_bytes(CLATTN_U8, 2, 0, 0, B, M)}, M},
        {"two of numbers", {.attn = of_numbers(N, M), .key_padding = of_numbers(B, M)}, M},
        {"lengths", {.key_lengths = lengths}, M},
        {"lengths and a mask", {.key_lengths = lengths, .attn = of_bytes(CLATTN_BOOL, 2, 0, 0, N, M)}, M},
        {"causal", {.causal = true}, N},
        {"causal, top left", {.causal = true, .align = CLATTN_ALIGN_TOP_LEFT}, M},
        {"causal, bottom right", {.causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .key_lengths = lengths}, M},
        {"causal by offsets", {.causal = true, .align = CLATTN_ALIGN_OFFSET, .offsets = offsets}, M},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int behind = 0; behind < 2; behind++)
            check(cases[i].name, context, &cases[i].masks, cases[i].keys, behind);
    clattn_context_destroy(context);
}

/* No queries: the joined mask has no rows. */
Test(module_masks, of_no_queries) {
    clattn_context *context = op_open("cpu");
    clattn_multihead *m = NULL;
    const clattn_multihead_weights w = {.q = mat(0, E, E),
                                        .k = mat(0, E, E),
                                        .v = mat(0, E, E),
                                        .out = mat(0, E, E),
                                        .bias_k = vec(0, E),
                                        .bias_v = vec(0, E)};
    fill_slots();
    SUCCEEDS(clattn_multihead_create(context, &w, &(clattn_multihead_options){.heads = H}, &m));
    SUCCEEDS(clattn_multihead_run(m, &(clattn_multihead_args){.query = cube(1, B, 0, E),
                                                              .key = cube(2, B, M, E),
                                                              .y = cube(3, B, 0, E),
                                                              .masks = {.key_lengths = lengths}}));
    expect_unwritten();
    clattn_multihead_destroy(m);
    clattn_context_destroy(context);
}

/* Keys that begin where the queries do, or lie in the same array, are others. */
Test(module_masks, keys_beside_the_queries_are_not_they) {
    clattn_context *context = op_open("cpu");
    clattn_multihead *m = NULL;
    const clattn_multihead_weights w = {.in_proj = mat(0, 3 * E, E), .out = mat(0, E, E)};
    clattn_tensor keys[3];
    for (int i = 0; i < 3; i++)
        keys[i] = cube(1, B, N, E);
    keys[1].offset = 1;
    keys[2].stride[0] = 1, keys[2].stride[1] = 3;
    fill_slots();
    for (int i = 0; i < 3 * E * E; i++)
        slots[0][i] = (float)(i % 5) / 4 - 0.5F;
    for (int i = 0; i < 20; i++)
        slots[1][i] = (float)(i % 7) / 3 - 1;
    SUCCEEDS(clattn_multihead_create(context, &w, &(clattn_multihead_options){.heads = H}, &m));
    for (int i = 0; i < 3; i++) {
        clattn_tensor copy = cube(2, B, N, E);
        for (int k = 0; k < B * N * E; k++)
            slots[2][k] = slots[1][keys[i].offset + k / (N * E) * keys[i].stride[0] + k / E % N * keys[i].stride[1] +
                                   k % E * keys[i].stride[2]];
        SUCCEEDS(clattn_multihead_run(
            m, &(clattn_multihead_args){.query = cube(1, B, N, E), .key = keys[i], .y = cube(3, B, N, E)}));
        SUCCEEDS(clattn_multihead_run(
            m, &(clattn_multihead_args){.query = cube(1, B, N, E), .key = copy, .y = cube(4, B, N, E)}));
        for (int k = 0; k < B * N * E; k++)
            cr_expect_float_eq((double)slots[3][k], (double)slots[4][k], 4 * oracle_floor(CLATTN_F32, 1),
                               "keys %d, element %d: %g, not %g", i, k, (double)slots[3][k], (double)slots[4][k]);
    }
    clattn_multihead_destroy(m);
    clattn_context_destroy(context);
}
