/* SPDX-License-Identifier: Apache-2.0 */
/* Strided views: making, checking, measuring. */
#include "tensor/view.h"
#include "testing.h"

static const int64_t shape4[] = {2, 3, 5, 7};

static clattn_tensor view_of(int rank, const int64_t *shape, const int64_t *stride, int64_t offset) {
    clattn_tensor t = {.dtype = CLATTN_F32, .rank = rank, .offset = offset};
    for (int i = 0; i < rank; i++) {
        t.shape[i] = shape[i];
        t.stride[i] = stride[i];
    }
    return t;
}
#define VIEW(rank, offset, ...)                                                                                        \
    view_of(rank, ((const int64_t[][8]){__VA_ARGS__})[0], ((const int64_t[][8]){__VA_ARGS__})[1], offset)

static void expect_strides(const clattn_tensor *t, const int64_t *want) {
    for (int i = 0; i < t->rank; i++)
        cr_expect_eq(t->stride[i], want[i], "axis %d: %lld, not %lld", i, (long long)t->stride[i], (long long)want[i]);
}

Test(view, row_major_views_have_dense_strides) {
    float x = 0;
    const clattn_tensor t = clattn_tensor_host(&x, CLATTN_F64, 4, shape4);
    cr_assert_eq(t.dtype, CLATTN_F64);
    cr_assert_eq(t.rank, 4);
    cr_assert_eq(t.host, (void *)&x);
    cr_assert_null(t.buffer);
    cr_assert_eq(t.offset, 0);
    expect_strides(&t, (const int64_t[]){105, 35, 7, 1});
    cr_assert_eq(clattn_tensor_elements(&t), 210);
}

Test(view, sizes_of_zero_leave_the_other_strides_alone) {
    const clattn_tensor t = clattn_tensor_host(NULL, CLATTN_F32, 3, (const int64_t[]){4, 0, 6});
    expect_strides(&t, (const int64_t[]){6, 6, 1});
    cr_assert_eq(clattn_tensor_elements(&t), 0);
}

Test(view, a_permutation_moves_shape_and_strides) {
    const clattn_tensor t =
        clattn_tensor_permute(clattn_tensor_host(NULL, CLATTN_F32, 4, shape4), (const int[]){0, 2, 1, 3});
    cr_assert_arr_eq(t.shape, ((int64_t[]){2, 5, 3, 7}), 4 * sizeof(int64_t));
    expect_strides(&t, (const int64_t[]){105, 7, 35, 1});
}

Test(view, a_permutation_with_an_axis_that_is_not_there_is_found_later) {
    const clattn_tensor t = clattn_tensor_permute(clattn_tensor_host(NULL, CLATTN_F32, 2, shape4), (const int[]){0, 2});
    FAILS(cla_view_check(&t, "q"), CLATTN_E_SHAPE, "q [2, -1]: axis 1 has size -1 and stride -1");
}

Test(view, a_slice_moves_the_offset) {
    const clattn_tensor t = clattn_tensor_host(NULL, CLATTN_F32, 4, shape4), s = clattn_tensor_slice(t, 2, 1, 3);
    cr_assert_eq(s.offset, 7);
    cr_assert_eq(s.shape[2], 3);
    expect_strides(&s, (const int64_t[]){105, 35, 7, 1});
    const clattn_tensor again = clattn_tensor_slice(clattn_tensor_slice(s, 0, 1, 1), 3, 6, 1);
    cr_assert_eq(again.offset, 7 + 105 + 6);
    cr_assert_eq(clattn_tensor_slice(t, 1, 3, 0).rank, 4, "an empty slice at the end is a slice");
}

Test(view, slices_and_splits_that_do_not_fit_are_found_later) {
    const clattn_tensor t = clattn_tensor_host(NULL, CLATTN_F32, 4, shape4);
    clattn_tensor far = clattn_tensor_host(NULL, CLATTN_F32, 2, (const int64_t[]){4, 6}), negative = t;
    far.stride[1] = INT64_MAX;
    negative.shape[0] = INT64_MIN;
    const clattn_tensor bad[] = {clattn_tensor_split(far, 1, 2),   clattn_tensor_slice(negative, 0, 0, 5),
                                 clattn_tensor_slice(t, 2, 3, 3),  clattn_tensor_slice(t, 2, -1, 2),
                                 clattn_tensor_slice(t, 4, 0, 1),  clattn_tensor_slice(t, -1, 0, 1),
                                 clattn_tensor_slice(t, 0, 0, -1), clattn_tensor_slice(t, 0, INT64_MAX, 1),
                                 clattn_tensor_split(t, 3, 2),     clattn_tensor_split(t, 3, 0),
                                 clattn_tensor_split(t, 4, 1)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(cla_view_check(&bad[i], "k"), CLATTN_E_SHAPE, "k: rank -1 is not from 1 to 8");
        cr_expect_eq(clattn_tensor_elements(&bad[i]), -1);
    }
}

Test(view, a_split_makes_heads_of_a_model_dim) {
    clattn_tensor t = clattn_tensor_split(clattn_tensor_host(NULL, CLATTN_F32, 3, (const int64_t[]){2, 5, 12}), 2, 3);
    cr_assert_eq(t.rank, 4);
    cr_assert_arr_eq(t.shape, ((int64_t[]){2, 5, 3, 4}), 4 * sizeof(int64_t));
    expect_strides(&t, (const int64_t[]){60, 12, 4, 1});
    t = clattn_tensor_split(t, 0, 2);
    cr_assert_arr_eq(t.shape, ((int64_t[]){2, 1, 5, 3, 4}), 5 * sizeof(int64_t));
    expect_strides(&t, (const int64_t[]){60, 60, 12, 4, 1});
}

Test(view, a_count_that_overflows_is_minus_one) {
    clattn_tensor t = clattn_tensor_host(NULL, CLATTN_F32, 2, (const int64_t[]){(int64_t)1 << 32, (int64_t)1 << 31});
    cr_assert_eq(clattn_tensor_elements(&t), -1);
    FAILS(cla_view_check(&t, "q"), CLATTN_E_SHAPE, "q [4294967296, 2147483648]: more elements than 64 bits count");
    t.shape[1] = 0;
    cr_assert_eq(clattn_tensor_elements(&t), 0, "zero times anything is zero");
    SUCCEEDS(cla_view_check(&t, "q"));
    t = clattn_tensor_host(NULL, CLATTN_F32, 9, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1});
    cr_assert_eq(clattn_tensor_elements(&t), -1);
    cr_assert_eq(clattn_tensor_elements(NULL), 0);
    FAILS(cla_view_check(&t, "q"), CLATTN_E_SHAPE, "q: rank 9 is not from 1 to 8");
}

Test(view, what_no_view_can_be_is_named) {
    clattn_tensor t = clattn_tensor_host(NULL, CLATTN_F32, 2, shape4);
    t.stride[0] = -3;
    FAILS(cla_view_check(&t, "bias"), CLATTN_E_SHAPE, "bias [2, 3]: axis 0 has size 2 and stride -3");
    t = clattn_tensor_host(NULL, CLATTN_F32, 2, shape4);
    t.offset = -1;
    FAILS(cla_view_check(&t, "bias"), CLATTN_E_SHAPE, "bias: offset -1 is negative");
    t = clattn_tensor_host(NULL, (clattn_dtype)12, 2, shape4);
    FAILS(cla_view_check(&t, "bias"), CLATTN_E_DTYPE, "bias: 12 is no dtype");
    t.host = &t;
    FAILS(cla_view_range(&t, "bias", &(int64_t){0}, &(int64_t){0}), CLATTN_E_DTYPE, "bias: 12 is no dtype");
}

Test(view, strides_of_blocks_that_are_not_there_may_be_any) {
    const clattn_tensor t = clattn_tensor_host(NULL, CLATTN_Q8_0, 3, (const int64_t[]){2, 3, 0});
    SUCCEEDS(cla_view_check(&t, "v"));
}

Test(view, host_arrays_begin_where_their_type_may_lie) {
    double room[40];
    for (int dtype = CLATTN_F32; dtype <= CLATTN_Q4_1; dtype++) {
        clattn_tensor t = clattn_tensor_host((char *)room + 1, (clattn_dtype)dtype, 1, (const int64_t[]){32});
        if (dtype == CLATTN_U8 || dtype == CLATTN_BOOL)
            SUCCEEDS(cla_view_check(&t, "k"));
        else
            FAILS(cla_view_check(&t, "k"), CLATTN_E_ARGUMENT,
                  "k: its host array begins at an address that is no multiple of");
        t.host = (char *)room + (dtype >= CLATTN_Q8_0 ? 2 : 8);
        SUCCEEDS(cla_view_check(&t, "k"));
        t.host = (char *)room + 1;
        t.shape[0] = 0;
        SUCCEEDS(cla_view_check(&t, "k"));
    }
}

Test(view, views_that_share_an_element_for_certain_are_found) {
    float x[64] = {0};
    const int64_t six[] = {2, 3}, wide[] = {4, 8};
    const clattn_tensor dense = clattn_tensor_host(x, CLATTN_F32, 2, six);
    const clattn_tensor gaps = clattn_tensor_slice(clattn_tensor_host(x, CLATTN_F32, 2, wide), 1, 0, 4);
    const clattn_tensor others = clattn_tensor_slice(clattn_tensor_host(x, CLATTN_F32, 2, wide), 1, 4, 4);
    const clattn_tensor after = clattn_tensor_host(x + 6, CLATTN_F32, 2, six);
    clattn_tensor none = dense;
    none.shape[0] = 0;
    cr_expect(cla_view_meets(&dense, &dense) && cla_view_meets(&gaps, &gaps) && cla_view_meets(&dense, &gaps));
    cr_expect(cla_view_meets(&dense, &others), "the first element of the others");
    cr_expect_not(cla_view_meets(&gaps, &others), "in the gaps");
    cr_expect_not(cla_view_meets(&dense, &after));
    cr_expect_not(cla_view_meets(&dense, &none));
    const clattn_tensor last = clattn_tensor_host(x + 25, CLATTN_F32, 1, (const int64_t[]){3});
    cr_expect(cla_view_meets(&gaps, &last), "the last element of the first");
    clattn_tensor twice = clattn_tensor_host(x, CLATTN_F32, 2, (const int64_t[]){2, 2});
    twice.stride[0] = 0, twice.stride[1] = 3; /* elements 0 and 3, as many as dense ones from 0 to 3 */
    const clattn_tensor between = clattn_tensor_host(x + 1, CLATTN_F32, 1, (const int64_t[]){2});
    clattn_tensor around = between;
    around.stride[0] = 4; /* elements 1 and 5: an end between those of the first */
    cr_expect_not(cla_view_meets(&twice, &around), "between elements that are there twice");
    clattn_tensor shifted = others; /* rows of 8, columns 3 to 6: into the last column of the gaps' rows */
    shifted.offset--;
    cr_expect(cla_view_meets(&gaps, &shifted), "a column in common");
    clattn_tensor even = clattn_tensor_host(x, CLATTN_F32, 1, (const int64_t[]){8}), odd;
    even.stride[0] = 2;
    odd = even, odd.offset = 1;
    cr_expect_not(cla_view_meets(&even, &odd), "each other element");
    odd.offset = 14;
    cr_expect(cla_view_meets(&even, &odd), "the last is the first of the other");
    const clattn_tensor rows = clattn_tensor_slice(clattn_tensor_host(x, CLATTN_F32, 2, wide), 1, 2, 3);
    clattn_tensor thin = clattn_tensor_host(x, CLATTN_F32, 1, (const int64_t[]){3});
    thin.offset = 9, thin.stride[0] = 10; /* elements 9, 19 and 29; rows are 2 to 4, 10 to 12, 18 to 20 and 26 to 28 */
    cr_expect(cla_view_meets(&rows, &thin) && cla_view_meets(&thin, &rows), "in the middle of both");
    thin.offset = 5, thin.stride[0] = 9;
    cr_expect_not(cla_view_meets(&rows, &thin), "5, 14 and 23");
    const clattn_tensor blocks = clattn_tensor_host(x, CLATTN_Q8_0, 1, (const int64_t[]){64});
    const clattn_tensor numbers = clattn_tensor_host(x + 16, CLATTN_F32, 1, (const int64_t[]){1});
    const clattn_tensor behind = clattn_tensor_host(x + 17, CLATTN_F32, 1, (const int64_t[]){1});
    cr_expect(cla_view_meets(&blocks, &numbers) && !cla_view_meets(&blocks, &behind), "68 bytes of two blocks");
}

static void expect_range(const clattn_tensor *t, int64_t want_first, int64_t want_end) {
    int64_t first = -1, end = -1;
    SUCCEEDS(cla_view_range(t, "t", &first, &end));
    cr_expect_eq(first, want_first, "%lld", (long long)first);
    cr_expect_eq(end, want_end, "%lld", (long long)end);
}

Test(view, the_range_is_from_the_offset_to_one_past_the_last_element) {
    clattn_tensor t = VIEW(2, 10, {3, 4}, {100, 1});
    expect_range(&t, 10, 214);
    t = VIEW(2, 10, {3, 4}, {0, 0});
    expect_range(&t, 10, 11);
    t = VIEW(3, 5, {3, 0, 4}, {100, 7, 1});
    expect_range(&t, 0, 0);
}

/* Case E01: the products are 64-bit, and none wraps without a word. */
Test(view, E01_offsets_beyond_32_bits_are_exact) {
    clattn_tensor t = VIEW(4, 0, {1, 1, 65537, 65537}, {0, 0, 65537, 1});
    expect_range(&t, 0, (int64_t)65537 * 65537);
    t = VIEW(2, 3, {3, 8}, {((int64_t)1 << 31) + 8, 1});
    expect_range(&t, 3, 3 + 2 * (((int64_t)1 << 31) + 8) + 8);
    t = VIEW(2, 0, {(int64_t)1 << 20, 2}, {(int64_t)1 << 40, 1});
    expect_range(&t, 0, (((int64_t)1 << 20) - 1) * ((int64_t)1 << 40) + 2);
}

/* Views of views: begin * stride, outer * inner, and bytes of blocks. */
Test(view, E01_slices_splits_and_bytes_beyond_32_bits_are_exact) {
    const int64_t far = ((int64_t)1 << 32) + 32;
    clattn_tensor t = VIEW(2, 0, {70000, 64}, {far, 1}), s = clattn_tensor_slice(t, 0, 69999, 1);
    cr_expect_eq(s.offset, 69999 * far);
    s = clattn_tensor_split(clattn_tensor_slice(s, 1, 32, 32), 0, 1);
    expect_range(&s, 69999 * far + 32, 69999 * far + 64);
    t = VIEW(1, 0, {(int64_t)65536 * 65537}, {3});
    s = clattn_tensor_split(t, 0, 65537);
    cr_expect_eq(s.stride[0], (int64_t)65536 * 3);
    expect_range(&s, 0, ((int64_t)65536 * 65537 - 1) * 3 + 1);
    const clattn_dtype types[] = {CLATTN_F64, CLATTN_F16, CLATTN_BOOL, CLATTN_Q8_0, CLATTN_Q4_0, CLATTN_Q4_1};
    const int64_t bytes[] = {8, 2, 1, 34, 18, 20}, elements[] = {1, 1, 1, 32, 32, 32};
    for (int i = 0; i < 6; i++) {
        int64_t first = -1, end = -1;
        t = VIEW(2, 64, {3, 32}, {far, 1});
        t.dtype = types[i];
        SUCCEEDS(cla_view_check(&t, "k"));
        SUCCEEDS(cla_view_bytes(&t, "k", &first, &end));
        cr_expect_eq(first, 64 / elements[i] * bytes[i]);
        cr_expect_eq(end, (64 + 2 * far + 32) / elements[i] * bytes[i], "%s: %lld", clattn_dtype_name(types[i]),
                     (long long)end);
    }
}

Test(view, strides_that_reach_past_64_bits_are_refused) {
    clattn_tensor t = VIEW(2, 0, {(int64_t)1 << 24, 2}, {(int64_t)1 << 40, 1});
    FAILS(cla_view_check(&t, "keep"), CLATTN_E_SHAPE, "keep: strides reach past 64 bits");
    t = VIEW(2, 0, {2, 2}, {INT64_MAX - 1, 1});
    FAILS(cla_view_check(&t, "keep"), CLATTN_E_SHAPE, "keep: strides reach past 64 bits");
    t = VIEW(1, INT64_MAX / 2, {2}, {1}); /* in elements it fits, in bytes it does not */
    FAILS(cla_view_check(&t, "keep"), CLATTN_E_SHAPE, "keep: strides reach past 64 bits");
}

Test(view, elements_that_share_a_place_are_found) {
    const struct {
        clattn_tensor t;
        bool overlaps;
    } cases[] = {
        {VIEW(2, 0, {3, 4}, {4, 1}), false},        {VIEW(2, 0, {3, 4}, {3, 1}), true},
        {VIEW(2, 0, {3, 4}, {0, 1}), true},         {VIEW(2, 0, {1, 4}, {0, 1}), false},
        {VIEW(2, 0, {4, 3}, {1, 4}), false},        {VIEW(2, 0, {4, 3}, {1, 3}), true},
        {VIEW(3, 0, {2, 3, 4}, {12, 4, 1}), false}, {VIEW(3, 0, {2, 3, 4}, {11, 4, 1}), true},
        {VIEW(3, 0, {2, 3, 4}, {4, 8, 1}), false},  {VIEW(1, 0, {1}, {0}), false},
        {VIEW(3, 0, {2, 0, 4}, {0, 4, 1}), false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(cla_view_overlaps(&cases[i].t), cases[i].overlaps, "case %zu", i);
}

Test(view, lifting_puts_axes_of_one_in_front) {
    const clattn_tensor t = VIEW(2, 9, {5, 7}, {8, 1}), r = cla_view_lift(&t);
    cr_assert_eq(r.rank, 4);
    cr_assert_eq(r.offset, 9);
    cr_assert_arr_eq(r.shape, ((int64_t[]){1, 1, 5, 7}), 4 * sizeof(int64_t));
    expect_strides(&r, (const int64_t[]){0, 0, 8, 1});
}

Test(view, layouts_are_the_same_when_only_strides_of_single_elements_differ) {
    clattn_tensor a = VIEW(3, 0, {1, 3, 4}, {12, 4, 1}), b = VIEW(3, 77, {1, 3, 4}, {0, 4, 1});
    cr_assert(cla_view_same_layout(&a, &b));
    b.stride[1] = 5;
    cr_assert_not(cla_view_same_layout(&a, &b));
    b = a;
    b.dtype = CLATTN_F64;
    cr_assert_not(cla_view_same_layout(&a, &b));
    b = a;
    b.shape[0] = 2;
    cr_assert_not(cla_view_same_layout(&a, &b));
    a.rank = b.rank = 0;
    cr_assert(cla_view_same_layout(&a, &b), "two absent tensors");
}

Test(view, a_shape_is_written_with_brackets_and_cut_to_the_room) {
    char text[64], small[8];
    const clattn_tensor t = clattn_tensor_host(NULL, CLATTN_F32, 4, shape4);
    cr_assert_str_eq(cla_shape_text(&t, text, sizeof text), "[2, 3, 5, 7]");
    cr_assert_str_eq(cla_shape_text(&t, small, sizeof small), "[2, 3, ");
}
