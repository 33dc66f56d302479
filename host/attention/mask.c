/* SPDX-License-Identifier: Apache-2.0 */
/* Interval masks on the host: what causal, window, alignment and lengths mean for each query. */
#include "attention/mask.h"

#include "base/error.h"
#include "base/mem.h"

#define FAR INT32_MAX                  /* an offset beyond this sees what this sees, but for check_far's windows */
#define WIDE ((int64_t)UINT32_MAX + 1) /* the same for a side of the window */

static clattn_status check_window(const clattn_attention_args *args) {
    if (!args->has_window || (args->window_left >= 0 && args->window_right >= 0))
        return CLATTN_OK;
    return cla_error(CLATTN_E_ARGUMENT, "window: %lld,%lld; a side is 0 or more, or CLATTN_UNLIMITED",
                     (long long)args->window_left, (long long)args->window_right);
}

static clattn_status check_align(const cla_problem *p, const clattn_attention_args *args) {
    if ((unsigned)args->align > CLATTN_ALIGN_OFFSET)
        return cla_error(CLATTN_E_ARGUMENT, "align: %d is none of the alignments", (int)args->align);
    if ((args->causal || args->has_window) && args->align == CLATTN_ALIGN_UNSET && p->N != p->M)
        return cla_error(
            CLATTN_E_ARGUMENT,
            "align: %s with %lld queries and %lld keys needs an alignment: top-left (query 0 stands at key "
            "0), bottom-right (the last query at the last key) or an offset",
            args->causal ? "causal" : "a window", (long long)p->N, (long long)p->M);
    if ((args->align == CLATTN_ALIGN_OFFSET) != (args->offsets != NULL))
        return cla_error(CLATTN_E_ARGUMENT, "offsets: %s CLATTN_ALIGN_OFFSET",
                         args->offsets ? "are read only with" : "are missing, and align is");
    return CLATTN_OK;
}

static clattn_status check_lengths(const cla_problem *p, const clattn_attention_args *args) {
    for (int64_t b = 0; args->key_lengths && b < p->B; b++)
        if (args->key_lengths[b] < 0 || args->key_lengths[b] > p->M)
            return cla_error(CLATTN_E_SHAPE, "key_lengths: batch %lld has %lld, outside 0 to %lld keys", (long long)b,
                             (long long)args->key_lengths[b], (long long)p->M);
    return CLATTN_OK;
}

/* Offsets are clamped, sides of the window too. Both at once would move a wide window that has an end into sight. */
static clattn_status check_far(const cla_problem *p, const clattn_attention_args *args, int64_t b, int64_t offset) {
    const int64_t sides[] = {args->window_left, args->window_right}, narrow = FAR - cla_max(p->N, p->M);
    for (int i = 0; i < 2 && args->has_window && (offset > FAR || offset < -FAR); i++)
        if (sides[i] != CLATTN_UNLIMITED && sides[i] > narrow)
            return cla_error(CLATTN_E_ARGUMENT,
                             "offsets: batch %lld has %lld, and a side of the window is %lld; beyond %d such a side is "
                             "not supported: take one up to %lld, or CLATTN_UNLIMITED",
                             (long long)b, (long long)offset, (long long)sides[i], FAR, (long long)narrow);
    return CLATTN_OK;
}

clattn_status cla_intervals_take(cla_problem *p, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(check_window(args));
    CLA_TRY(check_align(p, args));
    CLA_TRY(check_lengths(p, args));
    p->causal = args->causal;
    p->windowed = args->has_window;
    p->left = cla_min(args->window_left, WIDE);
    p->right = cla_min(args->window_right, WIDE);
    p->interval = args->causal || args->has_window || args->key_lengths;
    if (!p->interval)
        goto done;
    CLA_TRY(cla_alloc((size_t)p->B, sizeof(int64_t), "key lengths", &p->key_lengths));
    CLA_TRY(cla_alloc((size_t)p->B, sizeof(int64_t), "offsets", &p->offsets));
    for (int64_t b = 0; b < p->B; b++) {
        p->key_lengths[b] = args->key_lengths ? args->key_lengths[b] : p->M;
        const int64_t offset = args->align == CLATTN_ALIGN_BOTTOM_RIGHT ? p->key_lengths[b] - p->N
                               : args->align == CLATTN_ALIGN_OFFSET     ? args->offsets[b]
                                                                        : 0;
        CLA_TRY(check_far(p, args, b, offset));
        p->offsets[b] = cla_max(-FAR, cla_min(FAR, offset));
    }
done:
    return status;
}

void cla_problem_keys(const cla_problem *p, int64_t b, int64_t i, int64_t *lo, int64_t *hi) {
    *lo = 0;
    *hi = p->M;
    if (!p->interval)
        return;
    const int64_t at = i + p->offsets[b];
    *hi = p->key_lengths[b];
    if (p->causal)
        *hi = cla_min(*hi, at + 1);
    if (p->windowed) {
        *lo = cla_max(0, at - p->left);
        *hi = cla_min(*hi, at + p->right + 1);
    }
    if (*lo >= *hi)
        *lo = *hi = 0;
}

double cla_problem_pairs(const cla_problem *p) {
    double pairs = 0;
    if (!p->interval)
        return (double)p->B * (double)p->H * (double)p->N * (double)p->M;
    for (int64_t b = 0; b < p->B; b++)
        for (int64_t i = 0; i < p->N; i++) {
            int64_t lo, hi;
            cla_problem_keys(p, b, i, &lo, &hi);
            pairs += (double)(hi - lo);
        }
    return pairs * (double)p->H;
}
