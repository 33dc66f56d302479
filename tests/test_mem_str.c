/* SPDX-License-Identifier: Apache-2.0 */
/* Checked allocation, size arithmetic and the growing string. */
#include "base/mem.h"
#include "base/str.h"
#include "testing.h"
#include <limits.h>
#include <stdio.h>

Test(mem, allocations_are_zeroed_and_zero_bytes_give_a_pointer) {
    unsigned char *a = NULL, *b = NULL;
    SUCCEEDS(cla_alloc(100, 3, "a", &a));
    SUCCEEDS(cla_alloc(0, 8, "b", &b));
    for (int i = 0; i < 300; i++)
        cr_assert_eq(a[i], 0);
    cr_assert_not_null(b);
    cr_assert_neq((void *)a, (void *)b);
    cla_free(a);
    cla_free(b);
    cla_free(NULL);
}

Test(mem, an_allocation_that_overflows_names_what_it_was_for) {
    void *p = &p;
    FAILS(cla_alloc(SIZE_MAX / 2, 3, "scores", &p), CLATTN_E_MEMORY,
          "scores: out of memory for 9223372036854775807 x 3");
    cr_assert_null(p);
    FAILS(cla_alloc_aligned(SIZE_MAX, "tile", &p), CLATTN_E_MEMORY, "tile: out of memory");
    cr_assert_null(p);
}

Test(mem, aligned_allocations_start_at_64_bytes) {
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = NULL;
        SUCCEEDS(cla_alloc_aligned(sizes[i], "p", &p));
        cr_assert_eq((uintptr_t)p % 64, 0);
        memset(p, 1, sizes[i]);
        cla_free(p);
    }
}

Test(mem, growing_keeps_the_contents_and_a_failure_keeps_the_array) {
    int *a = NULL;
    SUCCEEDS(cla_realloc(&a, 2, sizeof *a, "a"));
    a[0] = 7;
    a[1] = 9;
    SUCCEEDS(cla_realloc(&a, 1000, sizeof *a, "a"));
    cr_assert_eq(a[0], 7);
    cr_assert_eq(a[1], 9);
    int *before = a;
    FAILS(cla_realloc(&a, SIZE_MAX / 2, sizeof *a, "a"), CLATTN_E_MEMORY, "a: out of memory");
    cr_assert_eq(a, before);
    cr_assert_eq(a[1], 9);
    cla_free(a);
}

Test(mem, products_and_sums_say_when_they_overflow) {
    int64_t x = -7;
    cr_assert(cla_mul(3, 5, &x) && x == 15);
    cr_assert(cla_mul(0, INT64_MAX, &x) && x == 0);
    cr_assert(cla_mul(INT64_MAX, 1, &x) && x == INT64_MAX);
    cr_assert(cla_mul((int64_t)1 << 31, (int64_t)1 << 31, &x) && x == (int64_t)1 << 62);
    x = -7;
    cr_assert_not(cla_mul((int64_t)1 << 32, (int64_t)1 << 31, &x));
    cr_assert_not(cla_mul(INT64_MAX, 2, &x));
    cr_assert_not(cla_mul(-1, 2, &x));
    cr_assert_not(cla_add(INT64_MAX, 1, &x));
    cr_assert_not(cla_add(-1, 1, &x));
    cr_assert_eq(x, -7, "changed by a failure");
    cr_assert(cla_add(INT64_MAX - 1, 1, &x) && x == INT64_MAX);
}

Test(mem, rounding_helpers) {
    cr_assert_eq(cla_min(3, -4), -4);
    cr_assert_eq(cla_max(3, -4), 3);
    cr_assert_eq(cla_ceil_div(0, 16), 0);
    cr_assert_eq(cla_ceil_div(1, 16), 1);
    cr_assert_eq(cla_ceil_div(16, 16), 1);
    cr_assert_eq(cla_ceil_div(17, 16), 2);
    cr_assert_eq(cla_round_up(17, 16), 32);
    cr_assert_eq(cla_round_up((int64_t)1 << 33, 256), (int64_t)1 << 33);
}

Test(str, an_empty_string_has_a_text) {
    cla_str s = {0};
    cr_assert_str_eq(cla_str_text(&s), "");
    SUCCEEDS(cla_str_status(&s));
    cla_str_free(&s);
}

Test(str, it_grows_by_any_amount) {
    cla_str s = {0};
    size_t length = 0;
    for (int i = 0; i < 500; i++) {
        cla_str_append(&s, "%*d|", i, i);
        length += (size_t)snprintf(NULL, 0, "%*d|", i, i);
        cr_assert_eq(s.length, length);
        cr_assert_eq(strlen(cla_str_text(&s)), length);
    }
    SUCCEEDS(cla_str_status(&s));
    cla_str_free(&s);
    cr_assert_eq(s.length, 0);
    cr_assert_str_eq(cla_str_text(&s), "");
}

Test(str, after_a_failure_it_appends_nothing_and_says_so) {
    cla_str s = {0};
    cla_str_append(&s, "kept");
    s.failed = true;
    cla_str_append(&s, "lost");
    cr_assert_str_eq(cla_str_text(&s), "kept");
    FAILS(cla_str_status(&s), CLATTN_E_MEMORY, "text: out of memory at 4 bytes");
    cla_str_free(&s);
}
