/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers of `clattn study`: known answers of Philox, and that number i does not depend on where one starts. */
#include "study_random.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* kat_vectors of Random123. */
Test(study_random, philox_gives_the_known_answers) {
    static const struct {
        uint32_t counter[4];
        uint64_t key;
        uint32_t wanted[4];
    } cases[] = {
        {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         UINT64_C(0xffffffffffffffff),
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         UINT64_C(0x299f31d0a4093822),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t counter[4];
        memcpy(counter, cases[i].counter, sizeof counter);
        cla_philox(counter, cases[i].key);
        for (int j = 0; j < 4; j++)
            cr_expect_eq(counter[j], cases[i].wanted[j], "case %zu, word %d: %08x", i, j, counter[j]);
    }
}

Test(study_random, parts_are_those_of_the_whole) {
    float whole[1003], part[501];
    cla_random_normals(7, 3, 0, 1003, whole);
    cla_random_normals(7, 3, 500, 501, part);
    cr_expect_arr_eq(part, whole + 500, sizeof part);
}

Test(study_random, seeds_and_streams_differ) {
    float a[8], b[8], c[8];
    cla_random_normals(1, 1, 0, 8, a);
    cla_random_normals(2, 1, 0, 8, b);
    cla_random_normals(1, 2, 0, 8, c);
    for (int i = 0; i < 8; i++) {
        cr_expect_neq(a[i], b[i]);
        cr_expect_neq(a[i], c[i]);
    }
}

/* Within 4 standard errors: mean 0, variance 1, fourth moment 3, and as many beyond 2 as there should be. */
Test(study_random, numbers_are_normal) {
    enum { COUNT = 400000 };
    static float x[COUNT];
    double mean = 0, square = 0, fourth = 0, beyond = 0;
    cla_random_normals(11, 5, 0, COUNT, x);
    for (int i = 0; i < COUNT; i++) {
        const double v = (double)x[i];
        mean += v / COUNT;
        square += v * v / COUNT;
        fourth += v * v * v * v / COUNT;
        beyond += (fabs(v) > 2) / (double)COUNT;
    }
    cr_expect_lt(fabs(mean), 4 * sqrt(1.0 / COUNT));
    cr_expect_lt(fabs(square - 1), 4 * sqrt(2.0 / COUNT));
    cr_expect_lt(fabs(fourth - 3), 4 * sqrt(96.0 / COUNT));
    cr_expect_lt(fabs(beyond - 0.0455003), 4 * sqrt(0.0455 * 0.9545 / COUNT));
}
