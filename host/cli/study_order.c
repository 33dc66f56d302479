/* SPDX-License-Identifier: Apache-2.0 */
/* `order`: attention does not know the order of its tokens: permuted tokens give the permuted output. Sinusoidal
 * positions tell it; and a step of 5 positions is a rotation, the same one everywhere. */
#include "args.h"
#include "study_multihead.h"
#include <clattn/cache.h>
#include <clattn/ops.h>
#include <math.h>
#include <string.h>

enum { N = 7, E = 16, HEADS = 4, PAIRS = E / 2, POSITIONS = 30, SHIFT = 5, STORED_POSITIONS = 40 };
#define SET "s000_permutation_pe"

/* Row i of the result is row perm[i] of x. */
static clattn_array *permuted(cla_study *s, const clattn_array *x, const clattn_array *perm) {
    clattn_array *y = cla_study_new(s, x->dtype, x->rank, x->shape);
    const size_t row = E * clattn_dtype_size(x->dtype);
    for (size_t i = 0; y && i < N; i++)
        memcpy((char *)y->data + i * row, (const char *)x->data + (size_t)((const int64_t *)perm->data)[i] * row, row);
    return y;
}

/* The module's output for x, or for x + positions. */
static clattn_array *attend(cla_study *s, clattn_multihead *multihead, const clattn_array *x,
                            const clattn_array *positions) {
    const clattn_array *from = x;
    clattn_array *y = cla_study_new(s, s->dtype, 3, x->shape),
                 *sum = positions ? cla_study_new(s, s->dtype, 3, x->shape) : NULL;
    clattn_status status = CLATTN_OK;
    if (!y || (positions && !sum))
        return NULL;
    if (positions) {
        status = clattn_add(s->context, &(clattn_add_args){.a = clattn_array_tensor(x),
                                                           .b = clattn_array_tensor(positions),
                                                           .y = clattn_array_tensor(sum)});
        from = sum;
    }
    if (status == CLATTN_OK)
        status = clattn_multihead_run(
            multihead, &(clattn_multihead_args){.query = clattn_array_tensor(from), .y = clattn_array_tensor(y)});
    if (status != CLATTN_OK)
        cla_study_fail(s, status);
    return status == CLATTN_OK ? y : NULL;
}

/* Sinusoidal positions from 0 on. */
static clattn_array *positions(cla_study *s, int64_t count) {
    clattn_array *y = cla_study_new(s, s->dtype, 2, (const int64_t[]){count, E});
    const clattn_status status =
        y ? clattn_positions(s->context, &(clattn_positions_args){.y = clattn_array_tensor(y)}) : CLATTN_OK;
    if (status != CLATTN_OK)
        cla_study_fail(s, status);
    return status == CLATTN_OK ? y : NULL;
}

static int run_permuted(cla_study *s, clattn_multihead *multihead) {
    const clattn_array *x = cla_study_input(s, SET "/query"), *perm = cla_study_input(s, SET "/perm"),
                       *y_stored = cla_study_stored(s, SET "/y"), *z_stored = cla_study_stored(s, SET "/z"),
                       *zp_stored = cla_study_stored(s, SET "/z_perm"), *pe = positions(s, N);
    const clattn_array *xp = x && perm ? permuted(s, x, perm) : NULL;
    if (!xp || !pe || !y_stored || !z_stored || !zp_stored)
        return CLA_EXIT_FAILED;
    const clattn_array *y = attend(s, multihead, x, NULL), *yp = attend(s, multihead, xp, NULL),
                       *z = attend(s, multihead, x, pe), *zp = attend(s, multihead, xp, pe);
    if (!y || !yp || !z || !zp)
        return CLA_EXIT_FAILED;
    const clattn_array *y_moved = permuted(s, y, perm), *z_moved = permuted(s, z, perm),
                       *z_stored_moved = permuted(s, z_stored, perm);
    if (!y_moved || !z_moved || !z_stored_moved)
        return CLA_EXIT_FAILED;
    const double change = cla_study_difference(z_moved, zp);
    cla_study_figure(s, "no positions: max |output - stored|", NULL, 0, cla_study_difference(y, y_stored),
                     cla_study_bound(s, 1e-14, 5e-6));
    cla_study_figure(s, "no positions: max |permuted output - output of permuted|", NULL, 0,
                     cla_study_difference(y_moved, yp), cla_study_bound(s, 2e-15, 2e-6));
    cla_study_figure(s, "positions: max |output - stored|", NULL, 0, cla_study_difference(z, z_stored),
                     cla_study_bound(s, 1e-14, 5e-6));
    cla_study_figure(s, "positions: max |output of permuted - stored|", NULL, 0, cla_study_difference(zp, zp_stored),
                     cla_study_bound(s, 1e-14, 5e-6));
    cla_study_figure(s, "positions: max |permuted output - output of permuted|", "0.21", .21, change, .005);
    cla_study_figure(s, "the same, against the stored", NULL, cla_study_difference(z_stored_moved, zp_stored), change,
                     cla_study_bound(s, 2e-14, 1e-5));
    return CLA_EXIT_OK;
}

/* Cosines, or negative sines, of the angles of a step: sin(a + b) = sin a cos b + cos a sin b is the rotation of the
 * pair (sin a, cos a) by -b. */
static clattn_array *step_table(cla_study *s, bool sines) {
    clattn_array *t = cla_study_new(s, s->dtype, 3, (const int64_t[]){1, POSITIONS, PAIRS});
    for (size_t i = 0; t && i < (size_t)POSITIONS * PAIRS; i++) {
        const double angle = SHIFT * pow(10000, -2.0 * (double)(i % PAIRS) / E), x = sines ? -sin(angle) : cos(angle);
        if (s->dtype == CLATTN_F64)
            ((double *)t->data)[i] = x;
        else
            ((float *)t->data)[i] = (float)x;
    }
    return t;
}

static int run_rotation(cla_study *s) {
    const clattn_array *stored = cla_study_stored(s, SET "/pe_40x16"), *pe = positions(s, STORED_POSITIONS);
    const clattn_array *cosines = step_table(s, false), *sines = step_table(s, true),
                       *turned = cla_study_new(s, s->dtype, 2, (const int64_t[]){POSITIONS, E});
    if (!stored || !pe || !cosines || !sines || !turned)
        return CLA_EXIT_FAILED;
    const clattn_rotary_args args = {.x = clattn_tensor_slice(clattn_array_tensor(pe), 0, 0, POSITIONS),
                                     .y = clattn_array_tensor(turned),
                                     .options.pairs = CLATTN_ROTARY_ADJACENT,
                                     .cos = clattn_array_tensor(cosines),
                                     .sin = clattn_array_tensor(sines)};
    const clattn_status status = clattn_rotary(s->context, &args);
    if (status != CLATTN_OK)
        return cla_study_fail(s, status);
    cla_study_figure(s, "max |PE - stored|, 40 positions", NULL, 0, cla_study_difference(pe, stored),
                     cla_study_bound(s, 1e-14, 2e-6));
    cla_study_figure(s, "max |PE(pos + 5) - R_5 PE(pos)|, 30 positions, 8 frequencies", "8.9e-16", 0,
                     cla_study_part_difference(turned, 0, pe, (size_t)SHIFT * E, (size_t)POSITIONS * E),
                     cla_study_bound(s, 1e-14, 2e-6));
    return CLA_EXIT_OK;
}

int cla_study_order(cla_study *s) {
    clattn_multihead *multihead;
    int exit_status = cla_study_multihead(s, SET, HEADS, &multihead);
    if (exit_status == CLA_EXIT_OK)
        exit_status = run_permuted(s, multihead);
    if (exit_status == CLA_EXIT_OK)
        exit_status = run_rotation(s);
    clattn_multihead_destroy(multihead);
    return exit_status;
}
