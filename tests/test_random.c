/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: known answers of Philox, and the same bits on every device, in every layout, from any place on. */
#include "base/philox.h"
#include "op_arrays.h"
#include <clattn/ops.h>

/* kat_vectors of Random123. */
Test(random, philox_gives_the_known_answers) {
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

typedef struct {
    clattn_distribution distribution;
    uint64_t seed, stream, first;
} place;

static const place places[] = {
    {CLATTN_DISTRIBUTION_NORMAL, 1, 0, 0},
    {CLATTN_DISTRIBUTION_NORMAL, UINT64_C(0xfedcba9876543210), UINT64_C(0x123456789abcdef0), 3},
    {CLATTN_DISTRIBUTION_UNIFORM, 7, 2, ((uint64_t)1 << 34) - 2},
    {CLATTN_DISTRIBUTION_NORMAL, 7, 2, UINT64_MAX - 9}, /* ends at the stream's end, and begins again */
};
enum { PLACES = sizeof places / sizeof *places };

/* Number n of a stream, from the known Philox and the C library's functions in double. */
static double exact(const place *p, uint64_t n) {
    const uint64_t block = n / 4;
    uint32_t bits[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)p->stream, (uint32_t)(p->stream >> 32)};
    cla_philox(bits, p->seed);
    if (p->distribution == CLATTN_DISTRIBUTION_UNIFORM)
        return (double)(bits[n % 4] >> 8) * 0x1p-24;
    const uint32_t *pair = bits + n % 4 / 2 * 2;
    const double radius = sqrt(-2 * log(((double)pair[0] + 0.5) * 0x1p-32)),
                 angle = 6.283185307179586477 * (double)pair[1] * 0x1p-32;
    return radius * (n % 2 ? sin(angle) : cos(angle));
}

/* `same` has the numbers of another device, bit for bit; NULL: none yet. */
static void check(clattn_context *context, const char *what, const place *p, clattn_dtype dtype, op_layout layout,
                  bool buffers, double *same) {
    const int64_t shape[] = {3, 7, 5};
    op_array y = op_make(buffers ? context : NULL, dtype, 3, shape, layout, NULL, NULL);
    SUCCEEDS(clattn_random(
        context,
        &(clattn_random_args){
            .y = y.t, .distribution = p->distribution, .seed = p->seed, .stream = p->stream, .first = p->first}));
    op_fetch(&y, what);
    for (int64_t i = 0; i < y.count; i++) {
        op_expect(&y, i, exact(p, p->first + (uint64_t)i), 2e-6, what);
        if (isnan(same[i]))
            same[i] = op_value(&y, i);
        cr_expect(op_value(&y, i) == same[i], "%s, %s: element %lld is not that of other devices", what,
                  clattn_dtype_name(dtype), (long long)i);
    }
    op_free(&y);
}

Test(random, numbers_have_the_same_bits_everywhere) {
    static const clattn_dtype types[] = {CLATTN_F32, CLATTN_F16, CLATTN_BF16, CLATTN_F64};
    static double same[4][PLACES][105];
    for (size_t i = 0; i < sizeof same / sizeof(double); i++)
        ((double *)same)[i] = (double)NAN;
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        clattn_device_info info;
        SUCCEEDS(clattn_context_info(context, &info));
        for (int t = 0; t < 4; t++)
            for (int i = 0; i < PLACES && (t < 3 || info.has_f64); i++)
                check(context, op_devices[d], &places[i], types[t], (op_layout)(i % OP_LAYOUTS), (t + i) % 2 == 0,
                      same[t][i]);
        clattn_context_destroy(context);
    }
}

static clattn_status fill(clattn_context *context, uint64_t seed, uint64_t stream, uint64_t first, int64_t n,
                          float *x) {
    return clattn_random(
        context, &(clattn_random_args){
                     .y = clattn_tensor_host(x, CLATTN_F32, 1, &n), .seed = seed, .stream = stream, .first = first});
}

/* More than a work-item has. */
Test(random, parts_are_those_of_the_whole) {
    enum { COUNT = 10003, FROM = 4999 };
    static float whole[COUNT], part[COUNT - FROM], other[COUNT];
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        SUCCEEDS(fill(context, 7, 3, 0, COUNT, whole));
        SUCCEEDS(fill(context, 7, 3, FROM, COUNT - FROM, part));
        cr_expect_arr_eq(part, whole + FROM, sizeof part);
        for (unsigned i = 0; i < 2; i++) {
            SUCCEEDS(fill(context, 7 + i, 4 - i, 0, COUNT, other));
            int equal = 0;
            for (int j = 0; j < COUNT; j++)
                equal += other[j] == whole[j];
            cr_expect_lt(equal, 3, "another %s gives the same numbers", i ? "seed" : "stream");
        }
        clattn_context_destroy(context);
    }
}

/* Within 4 standard errors: mean 0, variance 1, fourth moment 3, and as many beyond 2 as there should be. */
Test(random, numbers_are_normal) {
    enum { COUNT = 400000 };
    static float x[COUNT];
    double mean = 0, square = 0, fourth = 0, beyond = 0;
    clattn_context *context = op_open("cpu");
    SUCCEEDS(fill(context, 11, 5, 0, COUNT, x));
    clattn_context_destroy(context);
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

Test(random, refuses_what_does_not_fit) {
    float y[8];
    const int64_t shape[] = {2, 4}, none[] = {0, 4};
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        const clattn_random_args good = {.y = clattn_tensor_host(y, CLATTN_F32, 2, shape)};
        clattn_random_args a = {.y = clattn_tensor_host(NULL, CLATTN_F32, 2, none)};
        SUCCEEDS(clattn_random(context, &a));
#define REFUSED(change, code, part)                                                                                    \
    a = good;                                                                                                          \
    change;                                                                                                            \
    FAILS(clattn_random(context, &a), code, part)
        REFUSED(a.distribution = (clattn_distribution)2, CLATTN_E_ARGUMENT, "random: 2 is no distribution");
        REFUSED(a.y.dtype = CLATTN_I64, CLATTN_E_DTYPE, "y: is i64");
        REFUSED(a.y.stride[1] = 0, CLATTN_E_SHAPE, "y: its strides make elements share");
        REFUSED(a.y.rank = 0, CLATTN_E_ARGUMENT, "y: is missing");
#undef REFUSED
        FAILS(clattn_random(context, NULL), CLATTN_E_ARGUMENT, "args is NULL");
        FAILS(clattn_random(NULL, &good), CLATTN_E_ARGUMENT, "context is NULL");
        clattn_context_destroy(context);
    }
}
