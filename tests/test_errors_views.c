/* SPDX-License-Identifier: Apache-2.0 */
/* Views, types and sums of sizes at the ends of what they take. */
#include "base/mem.h"
#include "base/str.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include "tensor/walk.h"
#include "testing.h"
#include <clattn/clattn.h>

static float room[64];

static clattn_tensor matrix(int64_t n, int64_t d) {
    return clattn_tensor_host(room, CLATTN_F32, 2, (const int64_t[]){n, d});
}

Test(errors_views, slices_and_splits_that_do_not_fit_have_no_rank) {
    clattn_tensor t = matrix(4, 6), far = t, full = t, nine = t;
    far.stride[0] = INT64_MAX / 2;
    full.rank = CLATTN_MAX_RANK;
    nine.rank = CLATTN_MAX_RANK + 1;
    static const struct {
        int axis;
        int64_t begin, count;
    } slices[] = {{-1, 0, 1}, {2, 0, 1}, {0, -1, 1}, {0, 0, -1}, {0, 0, 5}, {0, 2, 3}, {0, INT64_MAX, 1}};
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++)
        cr_expect_eq(clattn_tensor_slice(t, slices[i].axis, slices[i].begin, slices[i].count).rank, -1, "slice %zu", i);
    cr_expect_eq(clattn_tensor_slice(t, 0, 2, 2).offset, 12);
    cr_expect_eq(clattn_tensor_slice(nine, 0, 0, 1).rank, -1);
    cr_expect_eq(clattn_tensor_slice(far, 0, 3, 1).rank, -1, "3 strides are beyond 64 bits");
    far.offset = 1000;
    cr_expect_eq(clattn_tensor_slice(far, 0, 2, 1).rank, -1, "with the offset they are");
    static const struct {
        int axis;
        int64_t outer;
    } splits[] = {{-1, 2}, {2, 2}, {0, 0}, {0, -2}, {0, 3}};
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        cr_expect_eq(clattn_tensor_split(t, splits[i].axis, splits[i].outer).rank, -1, "split %zu", i);
    cr_expect_eq(clattn_tensor_split(full, 0, 2).rank, -1);
    far.shape[0] = 8;
    cr_expect_eq(clattn_tensor_split(far, 0, 2).rank, -1, "4 strides are beyond 64 bits");
    cr_expect_eq(clattn_tensor_split(t, 1, 2).rank, 3);
}

Test(errors_views, axes_that_are_none_are_refused) {
    clattn_tensor t = matrix(4, 6), nine = t;
    nine.rank = 9;
    static const int axes[][2] = {{0, 2}, {-1, 0}};
    for (int i = 0; i < 2; i++) {
        const clattn_tensor r = clattn_tensor_permute(t, axes[i]);
        FAILS(cla_view_check(&r, "t"), CLATTN_E_SHAPE, "size -1 and stride -1");
    }
    const clattn_tensor same = clattn_tensor_permute(nine, axes[0]);
    FAILS(cla_view_check(&same, "t"), CLATTN_E_SHAPE, "t: rank 9 is not from 1 to 8");
    cr_expect_eq(clattn_tensor_elements(&same), -1);
    nine.rank = -1;
    cr_expect_eq(clattn_tensor_elements(&nine), -1);
}

Test(errors_views, sizes_beyond_64_bits) {
    static const struct {
        clattn_dtype dtype;
        int64_t shape[2], stride[2], offset;
        const char *part; /* NULL: it is taken */
    } table[] = {{CLATTN_F32, {4, 6}, {6, 1}, 3, NULL},
                 {CLATTN_F32, {INT64_MAX, 2}, {2, 1}, 0, "more elements than 64 bits count"},
                 {CLATTN_F64, {INT64_C(1) << 60, 1}, {0, 0}, 0, "more elements than 64 bits count"},
                 {CLATTN_F32, {3, 1}, {INT64_MAX, 1}, 0, "strides reach past 64 bits"},
                 {CLATTN_F32, {2, 2}, {INT64_MAX, 1}, 0, "strides reach past 64 bits"},
                 {CLATTN_F32, {1, 1}, {1, 1}, INT64_MAX, "strides reach past 64 bits"},
                 {CLATTN_F32, {1, 1}, {1, 1}, INT64_MAX / 4, "strides reach past 64 bits"},
                 {CLATTN_F32, {1, 1}, {1, 1}, -1, "offset -1 is negative"},
                 {CLATTN_F32, {-1, 1}, {1, 1}, 0, "axis 0 has size -1 and stride 1"},
                 {CLATTN_F32, {1, 1}, {1, -1}, 0, "axis 1 has size 1 and stride -1"},
                 {CLATTN_Q8_0, {1, 33}, {64, 1}, 0, "is in blocks of 32"},
                 {CLATTN_Q8_0, {1, 32}, {32, 1}, 5, "offset 5 is no multiple"},
                 {CLATTN_Q8_0, {1, 32}, {32, 2}, 0, "axis 1 has 2"},
                 {CLATTN_Q8_0, {2, 32}, {33, 1}, 0, "axis 0 has 33"},
                 {CLATTN_Q8_0, {0, 32}, {33, 2}, 0, NULL}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        clattn_tensor t = clattn_tensor_host(room, table[i].dtype, 2, table[i].shape);
        memcpy(t.stride, table[i].stride, sizeof table[i].stride);
        t.offset = table[i].offset;
        if (table[i].part)
            FAILS(cla_view_check(&t, "t"), CLATTN_E_SHAPE, table[i].part);
        else
            SUCCEEDS(cla_view_check(&t, "t"));
    }
}

/* Of views that nobody checked before. */
Test(errors_views, blocks_that_are_not_whole_have_no_bytes) {
    int64_t first, end;
    clattn_context *context;
    clattn_buffer *buffer;
    clattn_tensor t = clattn_tensor_host(room, CLATTN_Q8_0, 1, (const int64_t[]){32});
    SUCCEEDS(cla_view_bytes(&t, "t", &first, &end));
    cr_expect(first == 0 && end == 34);
    t.offset = 5;
    FAILS(cla_view_bytes(&t, "t", &first, &end), CLATTN_E_SHAPE, "t: its blocks of q8_0 are not whole");
    t.offset = 0;
    t.shape[0] = 31;
    FAILS(cla_view_bytes(&t, "t", &first, &end), CLATTN_E_SHAPE, "t: its blocks of q8_0 are not whole");
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    SUCCEEDS(clattn_buffer_create(context, 34, &buffer));
    t.host = NULL;
    t.buffer = buffer;
    FAILS(cla_view_storage(context, &t, "t", CLA_READ), CLATTN_E_SHAPE, "are not whole");
    t.dtype = (clattn_dtype)31;
    FAILS(cla_view_range(&t, "t", &first, &end), CLATTN_E_DTYPE, "t: 31 is no dtype");
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(context);
}

Test(errors_views, memory_that_two_views_share) {
    static const struct {
        int64_t at, n, stride, other_at, other_n, other_stride;
        bool meet;
    } table[] = {{0, 8, 1, 8, 8, 1, false}, {8, 8, 1, 0, 8, 1, false}, {0, 8, 1, 7, 8, 1, true},
                 {7, 8, 1, 0, 8, 1, true},  {0, 16, 1, 4, 4, 1, true}, {4, 4, 1, 0, 16, 1, true},
                 {0, 8, 2, 1, 8, 2, false}, {0, 8, 2, 0, 4, 2, true},  {0, 8, 2, 8, 4, 2, true},
                 {0, 8, 2, 3, 2, 1, true},  {3, 2, 1, 0, 8, 2, true},  {0, 0, 1, 0, 8, 1, false}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        clattn_tensor a = clattn_tensor_host(room, CLATTN_F32, 1, &table[i].n);
        clattn_tensor b = clattn_tensor_host(room, CLATTN_F32, 1, &table[i].other_n);
        a.offset = table[i].at, a.stride[0] = table[i].stride;
        b.offset = table[i].other_at, b.stride[0] = table[i].other_stride;
        cr_expect_eq(cla_view_meets(&a, &b), table[i].meet, "case %zu", i);
        cr_expect_eq(cla_view_meets(&b, &a), table[i].meet, "case %zu, the other way round", i);
    }
    const clattn_tensor none = {0}, some = matrix(2, 2);
    cr_expect_not(cla_view_meets(&none, &some) || cla_view_meets(&some, &none));
}

Test(errors_views, shapes_in_little_room) {
    char text[16];
    clattn_tensor t = matrix(123456, 789);
    cr_expect_str_eq(cla_shape_text(&t, text, sizeof text), "[123456, 789]");
    cr_expect_str_eq(cla_shape_text(&t, text, 6), "[1234");
    cr_expect_str_eq(cla_shape_text(&t, text, 1), "");
    t.rank = 9;
    cr_expect_eq(cla_shape_text(&t, text, sizeof text)[0], '[');
}

Test(errors_views, axes_join_only_to_what_is_counted) {
    const int64_t large = INT64_C(1) << 24;
    clattn_tensor t = clattn_tensor_host(room, CLATTN_F32, 3, (const int64_t[]){large, large, 2}), absent = {0},
                  empty = matrix(0, 3);
    clattn_tensor *both[] = {&absent, &t}, *nothing[] = {&absent}, *zero[] = {&empty};
    int outer = 3;
    cla_walk_merge(both, 2, &outer);
    cr_expect_eq(t.rank, 2, "two axes make one of 2^25, three would make more than %lld", (long long)CLA_WALK_MOST);
    outer = 1;
    cla_walk_merge(nothing, 1, &outer);
    cla_walk_merge(zero, 1, &outer);
    cr_expect(outer == 1 && empty.rank == 2);
}

Test(errors_views, types_and_bytes) {
    int64_t bytes = 7;
    float x[32] = {0};
    double wide[32];
    cr_expect_not(cla_dtype_bytes((clattn_dtype)31, 32, &bytes) || cla_dtype_bytes(CLATTN_F32, -1, &bytes) ||
                  cla_dtype_bytes(CLATTN_Q8_0, 33, &bytes) || cla_dtype_bytes(CLATTN_F64, INT64_MAX, &bytes));
    cr_expect_eq(bytes, 7);
    cr_expect(cla_dtype_bytes(CLATTN_Q8_0, 64, &bytes) && bytes == 68);
    cr_expect_eq(clattn_dtype_bytes(CLATTN_F32, (size_t)-1), 0);
    cr_expect_eq(clattn_dtype_bytes(CLATTN_F64, INT64_MAX), 0);
    cr_expect_eq(clattn_dtype_bytes((clattn_dtype)-1, 1), 0);
    FAILS(clattn_convert(NULL, CLATTN_F64, x, CLATTN_F32, 32), CLATTN_E_ARGUMENT, "convert: to is NULL");
    FAILS(clattn_convert(wide, CLATTN_F64, NULL, CLATTN_F32, 32), CLATTN_E_ARGUMENT, "convert: from is NULL");
    FAILS(clattn_convert(wide, (clattn_dtype)31, x, CLATTN_F32, 32), CLATTN_E_DTYPE, "convert: 0 to 31 is not");
    FAILS(clattn_convert(wide, CLATTN_F64, x, CLATTN_Q8_0, 31), CLATTN_E_SHAPE,
          "31 elements are not whole blocks of 32");
    SUCCEEDS(clattn_convert(NULL, CLATTN_F64, NULL, CLATTN_F32, 0));
}

Test(errors_views, sums_and_memory) {
    int64_t out = 5;
    void *p = NULL;
    cr_expect_not(cla_mul(-1, 1, &out) || cla_mul(1, -1, &out) || cla_mul(INT64_MAX, 2, &out) || cla_add(-1, 1, &out) ||
                  cla_add(1, -1, &out) || cla_add(INT64_MAX, 1, &out));
    cr_expect_eq(out, 5);
    cr_expect(cla_mul(INT64_MAX, 0, &out) && out == 0);
    SUCCEEDS(cla_alloc(0, 4, "nothing", &p));
    cla_free(p);
    SUCCEEDS(cla_alloc(4, 0, "nothing", &p));
    SUCCEEDS(cla_realloc(&p, 4, 0, "nothing"));
    FAILS(cla_realloc(&p, SIZE_MAX, 2, "too much"), CLATTN_E_MEMORY, "too much: out of memory");
    cr_expect_not_null(p);
    cla_free(p);
}

Test(errors_views, bytes_that_are_no_utf8) {
    static const struct {
        const char *text;
        size_t left, bytes;
    } table[] = {{"a", 1, 1},
                 {"\xc3\xa9", 2, 2},
                 {"\xc3\xa9", 1, 0},
                 {"\xc1\xa9", 2, 0},
                 {"\xe0\xa0\x80", 3, 3},
                 {"\xe0\x9f\x80", 3, 0},
                 {"\xe1\x80\x80", 3, 3},
                 {"\xed\x9f\xbf", 3, 3},
                 {"\xed\xa0\x80", 3, 0},
                 {"\xf0\x90\x80\x80", 4, 4},
                 {"\xf0\x8f\x80\x80", 4, 0},
                 {"\xf4\x8f\xbf\xbf", 4, 4},
                 {"\xf4\x90\x80\x80", 4, 0},
                 {"\xf5\x80\x80\x80", 4, 0},
                 {"\xe1\x80y", 3, 0}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        cr_expect_eq(cla_utf8_bytes((const unsigned char *)table[i].text, table[i].left), table[i].bytes, "case %zu",
                     i);
}
