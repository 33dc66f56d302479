/* SPDX-License-Identifier: Apache-2.0 */
/* The linter: each usual mistake is named with its tensor, its numbers and a remedy; good calls are met with silence.
 */
#include "testing.h"
#include <clattn/clattn.h>
#include <float.h>
#include <math.h>

#include "../host/cli/problem_data.c" /* NOLINT(bugprone-suspicious-include) */
#include "../host/cli/problem_text.c" /* NOLINT(bugprone-suspicious-include) */

enum { B = 2, H = 2, N = 4, M = 4, D = 2, MOST = 20 };

typedef struct heard {
    int count;
    struct {
        clattn_lint_kind kind;
        char tensor[20], text[500];
    } list[MOST];
} heard;

static void hear(void *user, const clattn_warning *w) {
    heard *h = user;
    cr_assert_lt(h->count, MOST);
    h->list[h->count].kind = w->kind;
    snprintf(h->list[h->count].tensor, sizeof h->list[0].tensor, "%s", w->tensor);
    snprintf(h->list[h->count].text, sizeof h->list[0].text, "%s", w->text);
    cr_expect_null(strchr(w->text, '\n'));
    cr_expect_eq(strncmp(w->text, w->tensor, strlen(w->tensor)), 0, "%s", w->text);
    h->count++;
}

typedef struct fixture {
    float q[B * H * N * D], k[B * H * M * D], v[B * H * M * D], o[B * H * N * D], bias[B * H * N * M];
    unsigned char mask[B * H * N * M];
    clattn_attention_args args;
} fixture;

static const int64_t rows[] = {B, H, N, D}, square[] = {N, M}, whole[] = {B, H, N, M};

static void make(fixture *f) {
    *f = (fixture){.q = {1, 2, 3}};
    f->args = (clattn_attention_args){.q = clattn_tensor_host(f->q, CLATTN_F32, 4, rows),
                                      .k = clattn_tensor_host(f->k, CLATTN_F32, 4, rows),
                                      .v = clattn_tensor_host(f->v, CLATTN_F32, 4, rows),
                                      .o = clattn_tensor_host(f->o, CLATTN_F32, 4, rows)};
}

static heard lint(const clattn_attention_args *args) {
    heard h = {0};
    cr_assert_eq(clattn_lint(args, hear, &h), CLATTN_OK, "%s", clattn_last_error());
    return h;
}

/* One warning, of that kind, with these parts. */
static void one(const heard *h, clattn_lint_kind kind, const char *tensor, const char *numbers, const char *remedy) {
    cr_assert_eq(h->count, 1, "%d warnings, the first %s", h->count, h->count ? h->list[0].text : "");
    cr_expect_eq(h->list[0].kind, kind, "%s", h->list[0].text);
    cr_expect_str_eq(h->list[0].tensor, tensor);
    cr_expect(strstr(h->list[0].text, numbers), "no \"%s\" in: %s", numbers, h->list[0].text);
    cr_expect(strstr(h->list[0].text, remedy), "no \"%s\" in: %s", remedy, h->list[0].text);
}

/* ---- silence ---- */

Test(lint, good_calls_are_met_with_silence) {
    static const char *const texts[] = {
        "b2 h2 n6 d4",
        "b2 h2 n6 d4 causal alibi prefix softcap=3 sinks keep bias",
        "b2 h2 q3 k9 d32 kv=q8_0,q4_0 pages=4 lengths causal=bottom-right",
        "b3 h2 n5 d4 varlen causal f16 o=f32",
        "b2 h2 n8 d4 segments f16",
        "b2 h2 n6 d4 f64 qlengths lengths bias sinks",
        "b1 h1 q1 k9 d4 bf16 causal=bottom-right invariant scale=-1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cla_problem_text t;
        cla_problem_data data;
        char error[300];
        cr_assert(cla_problem_text_parse(texts[i], &t, error, sizeof error), "%s", error);
        cr_assert_eq(cla_problem_data_create(&t, 3, &data), CLATTN_OK);
        const heard h = lint(&data.args);
        cr_expect_eq(h.count, 0, "%s: %s", texts[i], h.count ? h.list[0].text : "");
        cla_problem_data_free(&data);
    }
}

Test(lint, a_causal_mask_and_padding_are_no_mistakes) {
    fixture f;
    make(&f);
    for (int i = 0; i < N * M; i++)
        f.mask[i] = i % M <= i / M;
    f.args.keep = clattn_tensor_host(f.mask, CLATTN_BOOL, 2, square);
    cr_assert_eq(lint(&f.args).count, 0);
    for (int i = 0; i < N * M; i++)
        f.bias[i] = i % M <= i / M ? 0 : -INFINITY;
    f.args.bias = clattn_tensor_host(f.bias, CLATTN_F32, 2, square);
    cr_assert_eq(lint(&f.args).count, 0);
    memset(f.mask + 3 * M, 0, M); /* row 3 is padding, and said to be */
    static const int64_t lengths[B] = {3, 2};
    f.args.query_lengths = lengths;
    cr_assert_eq(lint(&f.args).count, 0);
}

/* ---- masks of yes and no ---- */

Test(lint, a_keep_mask_that_hides_everything) {
    fixture f;
    make(&f);
    f.args.keep = clattn_tensor_host(f.mask, CLATTN_BOOL, 4, whole);
    heard h = lint(&f.args);
    one(&h, CLATTN_LINT_HIDES_ALL, "keep", "all 64 are 0", "may be seen: give it as `drop`");
    memset(f.mask, 1, sizeof f.mask);
    f.args.keep = (clattn_tensor){0};
    f.args.drop = clattn_tensor_host(f.mask, CLATTN_U8, 2, (const int64_t[]){1, M});
    h = lint(&f.args);
    one(&h, CLATTN_LINT_HIDES_ALL, "drop", "all 4 are nonzero", "may NOT be seen: give it as `keep`");
}

Test(lint, a_triangle_the_other_way_round) {
    fixture f;
    make(&f);
    for (int i = 0; i < N * M; i++)
        f.mask[i] = i % M > i / M; /* nn.MultiheadAttention's */
    f.args.keep = clattn_tensor_host(f.mask, CLATTN_BOOL, 2, square);
    heard h = lint(&f.args);
    cr_assert_eq(h.count, 2); /* the last row sees nothing, too */
    cr_expect_eq(h.list[0].kind, CLATTN_LINT_INVERTED);
    cr_expect(strstr(h.list[0].text, "the opposite of causal") &&
                  strstr(h.list[0].text, "give it as `drop`, or say `causal`"),
              "%s", h.list[0].text);
    cr_expect_eq(h.list[1].kind, CLATTN_LINT_ROWS_MASKED);
    f.args.drop = f.args.keep;
    f.args.keep = (clattn_tensor){0};
    cr_expect_eq(lint(&f.args).count, 0, "as drop it is right");
    for (int i = 0; i < N * M; i++)
        f.mask[i] = i % M <= i / M;
    h = lint(&f.args);
    cr_assert_geq(h.count, 1);
    cr_expect(h.list[0].kind == CLATTN_LINT_INVERTED && strstr(h.list[0].text, "give it as `keep`"), "%s",
              h.list[0].text);
}

Test(lint, bytes_of_a_bool_that_are_no_bool) {
    fixture f;
    make(&f);
    memset(f.mask, 1, sizeof f.mask);
    f.mask[M + 2] = 255;
    f.mask[M + 3] = 2;
    f.args.keep = clattn_tensor_host(f.mask, CLATTN_BOOL, 2, square);
    heard h = lint(&f.args);
    one(&h, CLATTN_LINT_BOOL_BYTES, "keep", "2 of 16 bytes are neither 0 nor 1, first 255 at [0,0,1,2]",
        "another type?");
    f.args.keep.dtype = CLATTN_U8;
    cr_assert_eq(lint(&f.args).count, 0, "u8 may be any");
}

/* ---- additive masks ---- */

Test(lint, finite_numbers_that_are_meant_to_hide) {
    static const float usual[] = {-FLT_MAX, -1e9f, -65504, -10000, -3.3895314e38f, -1e30f};
    fixture f;
    heard h;
    make(&f);
    f.args.bias = clattn_tensor_host(f.bias, CLATTN_F32, 2, square);
    for (size_t u = 0; u < sizeof usual / sizeof *usual; u++) {
        char numbers[100];
        for (int i = 0; i < N * M; i++)
            f.bias[i] = i % M <= i / M ? 0 : usual[u];
        snprintf(numbers, sizeof numbers, "6 of 16 numbers are %.8g or so, first at [0,0,0,1]", (double)usual[u]);
        h = lint(&f.args);
        one(&h, CLATTN_LINT_FINITE_MASK, "bias", numbers, "write -inf, or give a keep mask");
    }
    for (int i = 0; i < N * M; i++)
        f.bias[i] = -9000; /* large, and no mask */
    cr_assert_eq(lint(&f.args).count, 0);
}

Test(lint, a_bias_of_zeros) {
    fixture f;
    make(&f);
    f.args.bias = clattn_tensor_host(f.bias, CLATTN_F32, 4, whole);
    const heard h = lint(&f.args);
    one(&h, CLATTN_LINT_BIAS_ZERO, "bias", "all 64 numbers are 0", "leave it out");
}

/* ---- rows ---- */

Test(lint, some_rows_see_nothing) {
    fixture f;
    make(&f);
    for (int i = 0; i < B * H * N * M; i++)
        f.bias[i] = i / M % N == 2 && i / (H * N * M) == 1 ? -INFINITY : 1;
    f.args.bias = clattn_tensor_host(f.bias, CLATTN_F32, 4, whole);
    heard h = lint(&f.args);
    one(&h, CLATTN_LINT_ROWS_MASKED, "rows", "rows: 2 of 16 see no key, first [1,0,2]", "query_lengths");
    f.args.bias = clattn_tensor_host(f.bias + 3 * N * M, CLATTN_F32, 2, square); /* of all batches and heads */
    h = lint(&f.args);
    one(&h, CLATTN_LINT_ROWS_MASKED, "rows", "rows: 4 of 16 see no key, first [0,0,2]", "query_lengths");
}

/* No mask hides a row alone: those of keep and drop, of causal, of a length. */
Test(lint, rows_see_nothing_by_masks_together) {
    fixture f;
    make(&f);
    unsigned char drop[M] = {1, 1, 0, 0};
    memset(f.mask, 1, sizeof f.mask);
    for (int j = 2; j < M; j++)
        f.mask[3 * M + j] = 0;
    f.args.keep = clattn_tensor_host(f.mask, CLATTN_BOOL, 2, square);
    f.args.drop = clattn_tensor_host(drop, CLATTN_BOOL, 2, (const int64_t[]){1, M});
    heard h = lint(&f.args);
    one(&h, CLATTN_LINT_ROWS_MASKED, "rows", "rows: 4 of 16 see no key, first [0,0,3]", "padding");
    f.args.keep = (clattn_tensor){0};
    f.args.causal = true;
    h = lint(&f.args);
    one(&h, CLATTN_LINT_ROWS_MASKED, "rows", "rows: 8 of 16 see no key, first [0,0,0]", "padding");
    static const int64_t lengths[B] = {2, 4};
    f.args.causal = false;
    f.args.key_lengths = lengths;
    h = lint(&f.args);
    one(&h, CLATTN_LINT_ROWS_MASKED, "rows", "rows: 8 of 16 see no key, first [0,0,0]", "padding");
}

Test(lint, every_row_sees_nothing) {
    fixture f;
    make(&f);
    for (int i = 0; i < N * M; i++)
        f.bias[i] = -INFINITY;
    f.args.bias = clattn_tensor_host(f.bias, CLATTN_F32, 2, square);
    heard h = lint(&f.args);
    one(&h, CLATTN_LINT_ROWS_MASKED, "rows", "rows: all, 16 of 16 see no key", "`keep` shows where it is nonzero");
    static const int32_t q_segments[B * N] = {1, 1, 1, 1, 1, 1, 1, 1}, k_segments[B * M] = {0};
    f.args.bias = (clattn_tensor){0};
    f.args.query_segments = q_segments;
    f.args.key_segments = k_segments;
    h = lint(&f.args);
    one(&h, CLATTN_LINT_ROWS_MASKED, "rows", "rows: all, 16 of 16 see no key", "segments");
}

Test(lint, queries_before_the_first_key) {
    fixture f;
    make(&f);
    f.args.causal = true;
    f.args.k.shape[2] = f.args.v.shape[2] = 3;
    f.args.align = CLATTN_ALIGN_BOTTOM_RIGHT;
    const heard h = lint(&f.args);
    one(&h, CLATTN_LINT_ROWS_MASKED, "rows", "rows: 4 of 16 see no key, first [0,0,0]", "check the alignment");
}

/* ---- numbers ---- */

Test(lint, a_scale_of_zero) {
    fixture f;
    make(&f);
    f.args.scale = 0;
    cr_assert_eq(lint(&f.args).count, 0, "not given, it is the default");
    f.args.has_scale = true;
    const heard h = lint(&f.args);
    one(&h, CLATTN_LINT_SCALE_ZERO, "scale", "scale: is 0", "leave has_scale unset for 1 / sqrt(2)");
}

Test(lint, numbers_that_do_not_count) {
    fixture f;
    make(&f);
    f.args.scale = 0.5;
    heard h = lint(&f.args);
    one(&h, CLATTN_LINT_UNSET, "scale", "scale: is 0.5", "since has_scale is not set");
    f.args.has_scale = true;
    f.args.window_left = 3;
    h = lint(&f.args);
    one(&h, CLATTN_LINT_UNSET, "window", "window: is 3 to the left", "since has_window is not set");
}

Test(lint, key_lengths_of_zero) {
    static const int64_t zero[B] = {0, 0}, some[B] = {0, 3};
    fixture f;
    make(&f);
    f.args.key_lengths = zero;
    heard h = lint(&f.args);
    one(&h, CLATTN_LINT_LENGTHS_ZERO, "key_lengths", "are 0 in all 2 batches", "up to 4, or none");
    f.args.q.shape[0] = f.args.k.shape[0] = f.args.v.shape[0] = f.args.o.shape[0] = 0;
    h = lint(&f.args);
    cr_expect_eq(h.count, 0, "there is no batch");
    make(&f);
    f.args.key_lengths = some;
    h = lint(&f.args);
    one(&h, CLATTN_LINT_ROWS_MASKED, "rows", "rows: 8 of 16 see no key, first [0,0,0]", "lengths");
}

Test(lint, infinities_in_f16) {
    static const int64_t lengths[B] = {4, 2};
    fixture f;
    uint16_t k[B * H * M * D] = {0};
    make(&f);
    k[(H * M + 1) * D + 1] = 0x7c00; /* batch 1, head 0, key 1 */
    k[(H * M + 3) * D] = 0xfc00;     /* key 3 */
    k[(H * M + M + 3) * D] = 0x7e00; /* NaN is another matter */
    f.args.k = clattn_tensor_host(k, CLATTN_F16, 4, rows);
    heard h = lint(&f.args);
    one(&h, CLATTN_LINT_F16_INFINITE, "k", "2 of 32 numbers are infinite, first at [1,0,1,1]", "f16 ends at 65504");
    f.args.key_lengths = lengths; /* what lies behind them may be anything */
    h = lint(&f.args);
    one(&h, CLATTN_LINT_F16_INFINITE, "k", "k: 1 of 24 numbers are infinite, first at [1,0,1,1]", "bf16 or f32");
    f.args.k.dtype = CLATTN_BF16;
    cr_assert_eq(lint(&f.args).count, 0);
}

/* ---- errors, names, devices ---- */

Test(lint, calls_that_are_wrong_are_errors_with_a_remedy) {
    fixture f;
    heard h = {0};
    make(&f);
    f.args.causal = true;
    f.args.k.shape[2] = f.args.v.shape[2] = 3;
    FAILS(clattn_lint(&f.args, hear, &h), CLATTN_E_ARGUMENT, "needs an alignment: top-left");
    FAILS(clattn_lint(NULL, hear, &h), CLATTN_E_ARGUMENT, "args is NULL");
    FAILS(clattn_lint(&f.args, NULL, &h), CLATTN_E_ARGUMENT, "sink is NULL");
    cr_assert_eq(h.count, 0);
}

Test(lint, every_kind_has_a_name_of_its_own) {
    for (int i = 0; i <= CLATTN_LINT_F16_INFINITE; i++)
        for (int j = 0; j < i; j++)
            cr_expect_str_neq(clattn_lint_name((clattn_lint_kind)i), clattn_lint_name((clattn_lint_kind)j));
    cr_assert_str_eq(clattn_lint_name(CLATTN_LINT_ROWS_MASKED), "rows-masked");
    cr_assert_str_eq(clattn_lint_name((clattn_lint_kind)99), "?");
}

/* A mask that takes several blocks, in a device's buffer, with strides. */
Test(lint, buffers_are_read_in_blocks) {
    enum { SIZE = 600 };
    static unsigned char mask[SIZE * SIZE + 1];
    static float zeros[SIZE];
    static const int64_t column[] = {1, 1, SIZE, 1}, shape[] = {SIZE, SIZE};
    static const char *const devices[] = {"opencl", "cpu"};
    memset(mask, 1, sizeof mask);
    mask[1 + 599 * SIZE + 599] = 7;
    memset(mask + 1 + 500 * SIZE, 0, SIZE);
    for (int d = 0; d < 2; d++) {
        clattn_context *context = NULL;
        clattn_buffer *buffer = NULL, *rest = NULL;
        SUCCEEDS(clattn_context_create(devices[d], NULL, &context));
        SUCCEEDS(clattn_buffer_create(context, sizeof mask, &buffer));
        SUCCEEDS(clattn_buffer_upload(buffer, 0, mask, sizeof mask));
        SUCCEEDS(clattn_buffer_create(context, sizeof zeros, &rest));
        SUCCEEDS(clattn_buffer_upload(rest, 0, zeros, sizeof zeros));
        const clattn_tensor t = clattn_tensor_buffer(rest, CLATTN_F32, 4, column);
        clattn_attention_args a = {.q = t, .k = t, .v = t, .o = t};
        clattn_buffer *result = NULL;
        SUCCEEDS(clattn_buffer_create(context, sizeof zeros, &result));
        a.o.buffer = result;
        a.keep = clattn_tensor_buffer(buffer, CLATTN_BOOL, 2, shape);
        a.keep.offset = 1;
        const heard h = lint(&a);
        cr_assert_eq(h.count, 2);
        cr_expect(strstr(h.list[0].text, "1 of 360000 bytes are neither 0 nor 1, first 7 at [0,0,599,599]"), "%s",
                  h.list[0].text);
        cr_expect(strstr(h.list[1].text, "rows: 1 of 600 see no key, first [0,0,500]"), "%s", h.list[1].text);
        clattn_buffer_destroy(buffer);
        clattn_buffer_destroy(rest);
        clattn_buffer_destroy(result);
        clattn_context_destroy(context);
    }
}
