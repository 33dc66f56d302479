/* SPDX-License-Identifier: Apache-2.0 */
/* What the helpers of tests take from testing.h, without Criterion: include it before them. */
#ifndef FUZZ_TESTING_H
#define FUZZ_TESTING_H
#define TESTING_H /* in its place */

#include "fuzz.h"

#define SUCCEEDS(call) FUZZ_CHECK((call) == CLATTN_OK, "%s", clattn_last_error())
#define cr_assert_lt(a, b) FUZZ_CHECK((a) < (b), "too many")
#define cr_assert_geq(a, b, ...) FUZZ_CHECK((a) >= (b), __VA_ARGS__)
#define cr_assert_not_null(p) FUZZ_CHECK((p) != NULL, "no memory")
#define cr_expect(condition, ...) FUZZ_CHECK(condition, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) FUZZ_CHECK((a) == (b), __VA_ARGS__)

#endif
