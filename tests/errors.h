/* SPDX-License-Identifier: Apache-2.0 */
/* Calls with one thing wrong, for test_errors_x.c: tensors in slots of one array, and what is refused. */
#ifndef ERRORS_H
#define ERRORS_H

#include "testing.h"
#include <clattn/tensor.h>
#include <stdint.h>

/* A right call, ARGS(its arguments), with a change to them in `a`: the status, and a part of the message. */
#define ARGS(...)                                                                                                      \
    { __VA_ARGS__ }
#define REFUSED(type, call, code, part, right, ...)                                                                    \
    do {                                                                                                               \
        type a = right;                                                                                                \
        __VA_ARGS__;                                                                                                   \
        FAILS(call, code, part);                                                                                       \
    } while (0)

enum { SLOT = 1024, SLOTS = 12 };

/* Each tensor begins at the start of a slot. */
static _Alignas(64) float slots[SLOTS][SLOT];
static inline void fill_slots(void) {
    for (int i = 0; i < SLOTS * SLOT; i++)
        slots[i / SLOT][i % SLOT] = 0.5F;
}
/* Ids, the second of which may be below 0. */
static const int32_t some_ids[] = {0, 1, 2, 1, 0, 1, 2, 1}, bad_ids[] = {0, -1, 2, 1};

static inline clattn_tensor vec(int slot, int64_t n) {
    return clattn_tensor_host(slots[slot], CLATTN_F32, 1, (const int64_t[]){n});
}
static inline clattn_tensor mat(int slot, int64_t rows, int64_t columns) {
    return clattn_tensor_host(slots[slot], CLATTN_F32, 2, (const int64_t[]){rows, columns});
}
static inline clattn_tensor cube(int slot, int64_t a, int64_t b, int64_t c) {
    return clattn_tensor_host(slots[slot], CLATTN_F32, 3, (const int64_t[]){a, b, c});
}
static inline clattn_tensor four(int slot, int64_t a, int64_t b, int64_t c, int64_t d) {
    return clattn_tensor_host(slots[slot], CLATTN_F32, 4, (const int64_t[]){a, b, c, d});
}
static inline clattn_tensor as_type(clattn_tensor t, clattn_dtype dtype) {
    t.dtype = dtype;
    return t;
}
/* i32. */
static inline clattn_tensor ids(int64_t n) { return clattn_tensor_host(some_ids, CLATTN_I32, 1, (const int64_t[]){n}); }
/* One number, of any size: the last axes are a, b, c, those before them as a. */
static inline clattn_tensor repeated(int rank, int64_t a, int64_t b, int64_t c) {
    clattn_tensor t = {.dtype = CLATTN_F32, .rank = rank, .host = slots[0]};
    const int64_t last[] = {a, b, c};
    for (int i = 0; i < rank; i++)
        t.shape[i] = rank <= 3 ? last[i] : last[i < rank - 3 ? 0 : i - (rank - 3)];
    return t;
}
/* More than there is memory: of what is refused before it is looked at. */
static inline clattn_tensor vast(int rank, int64_t a, int64_t b, int64_t c) {
    return clattn_tensor_host(slots[SLOTS - 1], CLATTN_F32, rank, (const int64_t[]){a, b, c});
}

/* Calls that were refused wrote nothing. */
static inline void expect_unwritten(void) {
    for (int i = 0; i < SLOTS; i++)
        for (int j = 0; j < SLOT; j++)
            if (slots[i][j] != 0.5F) {
                cr_expect(false, "slot %d: number %d was written", i, j);
                return;
            }
}

#endif
