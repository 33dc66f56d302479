/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of ref_attention.h, for one type of sums. Included by the two files that define
 *   SUM       double or long double
 *   EXP, LOG  of that type
 *   CLA_REF_ATTENTION   the function's full name */
#include "base/error.h"
#include "base/mem.h"
#include "ref/ref_attention.h"
#include <math.h>

static SUM load(const clattn_tensor *t, clattn_dtype dtype, int64_t b, int64_t h, int64_t i, int64_t d) {
    const int64_t at = t->offset + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + d * t->stride[3];
    return dtype == CLATTN_F64 ? (SUM)((const double *)t->host)[at] : (SUM)((const float *)t->host)[at];
}

static void store(const clattn_tensor *t, clattn_dtype dtype, int64_t b, int64_t h, int64_t i, int64_t d, SUM x) {
    const int64_t at = t->offset + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + d * t->stride[3];
    if (dtype == CLATTN_F64)
        ((double *)t->host)[at] = (double)x;
    else
        ((float *)t->host)[at] = (float)x;
}

static bool is_set(const clattn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j) {
    return ((const uint8_t *)
                t->host)[t->offset + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + j * t->stride[3]] != 0;
}

static bool sees(const cla_ref_attention *a, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t p = i + (a->offsets ? a->offsets[b] : 0);
    if (a->key_lengths && j >= a->key_lengths[b])
        return false;
    if (a->causal && j > p)
        return false;
    if (a->windowed && (j < p - a->left || j > p + a->right))
        return false;
    if (a->keep.rank && !is_set(&a->keep, b, h, i, j))
        return false;
    return !(a->drop.rank && is_set(&a->drop, b, h, i, j));
}

/* One query: scores (-inf where excluded), then weights (-1 where excluded), then O. */
static void one_query(const cla_ref_attention *a, int64_t b, int64_t h, int64_t i, SUM *s, SUM *o) {
    const int64_t hk = h / (a->H / a->Hk);
    SUM m = -INFINITY, l = 0;
    for (int64_t j = 0; j < a->M; j++) {
        s[j] = -INFINITY;
        if (!sees(a, b, h, i, j))
            continue;
        SUM acc = 0;
        for (int64_t d = 0; d < a->D; d++)
            acc += load(&a->q, a->dtype, b, h, i, d) * load(&a->k, a->dtype, b, hk, j, d);
        s[j] = (SUM)a->scale * acc;
        if (a->bias.rank) {
            const SUM bias = load(&a->bias, a->dtype, b, h, i, j);
            s[j] = bias == (SUM)-INFINITY ? bias : s[j] + bias;
        }
        if (s[j] > m)
            m = s[j];
    }
    for (int64_t d = 0; d < a->Dv; d++)
        o[d] = 0;
    for (int64_t j = 0; j < a->M; j++)
        if (s[j] == (SUM)-INFINITY) {
            s[j] = -1;
        } else {
            s[j] = EXP(s[j] - m);
            l += s[j];
        }
    for (int64_t j = 0; j < a->M; j++)
        if (s[j] != -1)
            for (int64_t d = 0; d < a->Dv; d++)
                o[d] += s[j] / l * load(&a->v, a->dtype, b, hk, j, d);
    for (int64_t d = 0; d < a->Dv; d++)
        store(&a->o, a->dtype, b, h, i, d, o[d]);
    if (a->weights.rank)
        for (int64_t j = 0; j < a->M; j++)
            store(&a->weights, a->dtype, b, h, i, j, s[j] == -1 ? 0 : s[j] / l);
    if (a->lse.rank)
        store(&a->lse, a->dtype, 0, b, h, i, m + LOG(l)); /* -inf + log 0 where no key is seen */
}

clattn_status CLA_REF_ATTENTION(const cla_ref_attention *a) {
    const int64_t rows = a->B * a->H * a->N;
    bool failed = false;
#pragma omp parallel
    {
        SUM *s = NULL, *o = NULL;
        bool mine = cla_alloc((size_t)a->M, sizeof *s, "scores", &s) == CLATTN_OK &&
                    cla_alloc((size_t)a->Dv, sizeof *o, "sums", &o) == CLATTN_OK;
        if (!mine) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp for schedule(dynamic, 4)
        for (int64_t row = 0; row < rows; row++)
            if (mine)
                one_query(a, row / (a->H * a->N), row / a->N % a->H, row % a->N, s, o);
        cla_free(s);
        cla_free(o);
    }
    return failed ? cla_error(CLATTN_E_MEMORY, "reference: out of memory for a row of %lld scores", (long long)a->M)
                  : CLATTN_OK;
}
