/* SPDX-License-Identifier: Apache-2.0 */
/* Interval masks on the host: what causal, window, alignment and lengths mean for each query. */
#include "attention/mask.h"

#include "base/error.h"
#include "base/mem.h"
#include <stdlib.h>

#define FAR INT32_MAX                  /* an offset beyond this sees what this sees, but for check_far's windows */
#define WIDE ((int64_t)UINT32_MAX + 1) /* the same for a side of the window */

static clattn_status check_window(const clattn_attention_args *args) {
    if (!args->has_window || (args->window_left >= 0 && args->window_right >= 0))
        return CLATTN_OK;
    return cla_error(CLATTN_E_ARGUMENT, "window: %lld,%lld; a side is 0 or more, or CLATTN_UNLIMITED",
                     (long long)args->window_left, (long long)args->window_right);
}

/* Whether top-left and bottom-right could mean different things. */
static bool lengths_differ(const cla_problem *p, const clattn_attention_args *args) {
    if (p->page_size)
        return true;
    for (int64_t s = 0; p->ragged && s < p->B; s++)
        if (args->cu_queries[s + 1] - args->cu_queries[s] != args->cu_keys[s + 1] - args->cu_keys[s])
            return true;
    return !p->ragged && p->N != p->M;
}

static clattn_status check_align(const cla_problem *p, const clattn_attention_args *args) {
    if ((unsigned)args->align > CLATTN_ALIGN_OFFSET)
        return cla_error(CLATTN_E_ARGUMENT, "align: %d is none of the alignments", (int)args->align);
    if ((args->causal || args->has_window || args->alibi_slopes) && args->align == CLATTN_ALIGN_UNSET &&
        lengths_differ(p, args))
        return cla_error(
            CLATTN_E_ARGUMENT,
            "align: %s with %lld queries and %lld keys needs an alignment: top-left (query 0 stands at key "
            "0), bottom-right (the last query at the last key) or an offset",
            args->causal       ? "causal"
            : args->has_window ? "a window"
                               : "ALiBi",
            (long long)p->N, (long long)p->M);
    if ((args->align == CLATTN_ALIGN_OFFSET) != (args->offsets != NULL))
        return cla_error(CLATTN_E_ARGUMENT, "offsets: %s CLATTN_ALIGN_OFFSET",
                         args->offsets ? "are read only with" : "are missing, and align is");
    return CLATTN_OK;
}

/* Lengths [B] between 0 and limit. */
static clattn_status check_lengths(const cla_problem *p, const int64_t *lengths, const char *name, int64_t limit) {
    for (int64_t b = 0; lengths && b < p->B; b++)
        if (lengths[b] < 0 || lengths[b] > limit)
            return cla_error(CLATTN_E_SHAPE, "%s: batch %lld has %lld, outside 0 to %lld", name, (long long)b,
                             (long long)lengths[b], (long long)limit);
    return CLATTN_OK;
}

/* Cumulative lengths: from 0, not falling, at most total. *longest is the largest difference. */
static clattn_status check_cumulative(const int64_t *cu, const char *name, int64_t sequences, int64_t total,
                                      int64_t *longest) {
    *longest = 0;
    if (!cu)
        return cla_error(CLATTN_E_ARGUMENT, "%s: is NULL, with %lld sequences", name, (long long)sequences);
    if (cu[0] != 0)
        return cla_error(CLATTN_E_ARGUMENT, "%s: starts with %lld, not 0", name, (long long)cu[0]);
    for (int64_t s = 0; s < sequences; s++) {
        if (cu[s + 1] < cu[s])
            return cla_error(CLATTN_E_ARGUMENT, "%s: falls from %lld to %lld at sequence %lld", name, (long long)cu[s],
                             (long long)cu[s + 1], (long long)s);
        *longest = cla_max(*longest, cu[s + 1] - cu[s]);
    }
    if (cu[sequences] > total)
        return cla_error(CLATTN_E_SHAPE, "%s: ends at %lld, and the tensor has %lld rows", name,
                         (long long)cu[sequences], (long long)total);
    return CLATTN_OK;
}

/* Offsets are clamped, sides of the window too. Both at once would move a wide window that has an end into sight, and
 * ALiBi would measure from another place. */
static clattn_status check_far(const cla_problem *p, const clattn_attention_args *args, int64_t b, int64_t offset) {
    const int64_t sides[] = {args->window_left, args->window_right}, narrow = FAR - cla_max(p->N, p->M);
    if (p->slopes && (offset > FAR || offset < -FAR))
        return cla_error(CLATTN_E_ARGUMENT, "offsets: batch %lld has %lld; with ALiBi they go from -%d to %d",
                         (long long)b, (long long)offset, FAR, FAR);
    for (int i = 0; i < 2 && args->has_window && (offset > FAR || offset < -FAR); i++)
        if (sides[i] != CLATTN_UNLIMITED && sides[i] > narrow)
            return cla_error(CLATTN_E_ARGUMENT,
                             "offsets: batch %lld has %lld, and a side of the window is %lld; beyond %d such a side is "
                             "not supported: take one up to %lld, or CLATTN_UNLIMITED",
                             (long long)b, (long long)offset, (long long)sides[i], FAR, (long long)narrow);
    return CLATTN_OK;
}

clattn_status cla_sequences_take(cla_problem *p, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    if (args->sequences == 0) {
        CLA_CHECK(!args->cu_queries && !args->cu_keys, CLATTN_E_ARGUMENT,
                  "sequences: is 0, and cumulative lengths are given; say how many there are");
        goto done;
    }
    CLA_CHECK(args->sequences > 0, CLATTN_E_ARGUMENT, "sequences: %lld is negative", (long long)args->sequences);
    CLA_CHECK(args->sequences <= CLA_LARGEST_SIZE, CLATTN_E_SHAPE, "sequences: %lld; more than %d are not supported",
              (long long)args->sequences, CLA_LARGEST_SIZE);
    CLA_CHECK(p->B == 1, CLATTN_E_SHAPE, "q: batch %lld; sequences one after another have a batch of 1",
              (long long)p->B);
    CLA_CHECK(!args->query_lengths, CLATTN_E_ARGUMENT,
              "query_lengths: cu_queries says the lengths of sequences already");
    CLA_TRY(check_cumulative(args->cu_queries, "cu_queries", args->sequences, p->N, &p->N));
    CLA_CHECK(!p->page_size || !args->cu_keys, CLATTN_E_ARGUMENT,
              "cu_keys: keys in pages are not one after another; give key_lengths alone");
    if (!p->page_size)
        CLA_TRY(check_cumulative(args->cu_keys, "cu_keys", args->sequences, p->M, &p->M));
    p->ragged = true;
    p->B = args->sequences;
    p->query_rows = args->cu_queries[p->B];
    p->key_rows = p->page_size ? 0 : args->cu_keys[p->B];
    p->q.stride[0] = p->o.stride[0] = 0;
    if (!p->page_size)
        p->k.stride[0] = p->v.stride[0] = 0;
done:
    return status;
}

static clattn_status take_batch(const cla_problem *p, const clattn_attention_args *args, int64_t b, cla_batch *batch) {
    const bool ragged = p->ragged;
    *batch = (cla_batch){.queries = p->N, .keys = p->M};
    if (ragged) {
        batch->q_row = args->cu_queries[b];
        batch->queries = args->cu_queries[b + 1] - batch->q_row;
    }
    if (ragged && !p->page_size) {
        batch->k_row = args->cu_keys[b];
        batch->keys = args->cu_keys[b + 1] - batch->k_row;
    }
    if (args->query_lengths)
        batch->queries = cla_min(batch->queries, args->query_lengths[b]);
    if (args->key_lengths)
        batch->keys = cla_min(batch->keys, args->key_lengths[b]);
    if (args->prefix_lengths)
        batch->prefix = args->prefix_lengths[b];
    const int64_t offset = args->align == CLATTN_ALIGN_BOTTOM_RIGHT ? batch->keys - batch->queries
                           : args->align == CLATTN_ALIGN_OFFSET     ? args->offsets[b]
                                                                    : 0;
    batch->offset = cla_max(-FAR, cla_min(FAR, offset));
    return check_far(p, args, b, offset);
}

clattn_status cla_intervals_take(cla_problem *p, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(check_window(args));
    CLA_TRY(check_align(p, args));
    CLA_TRY(check_lengths(p, args->key_lengths, "key_lengths", p->M));
    CLA_TRY(check_lengths(p, args->query_lengths, "query_lengths", p->N));
    CLA_TRY(check_lengths(p, args->prefix_lengths, "prefix_lengths", p->M));
    CLA_CHECK(!args->prefix_lengths || args->causal, CLATTN_E_ARGUMENT,
              "prefix_lengths: loosen causal, which is not set; for a limit use key_lengths");
    p->causal = args->causal;
    p->windowed = args->has_window;
    p->left = args->has_window ? cla_min(args->window_left, WIDE) : 0; /* may be anything without a window */
    p->right = args->has_window ? cla_min(args->window_right, WIDE) : 0;
    p->interval = args->causal || args->has_window || args->key_lengths || args->query_lengths || p->ragged;
    if (!p->interval && !p->slopes)
        goto done;
    CLA_TRY(cla_alloc((size_t)p->B, sizeof *p->batches, "batches", &p->batches));
    for (int64_t b = 0; b < p->B; b++)
        CLA_TRY(take_batch(p, args, b, &p->batches[b]));
done:
    return status;
}

void cla_problem_keys(const cla_problem *p, int64_t b, int64_t i, int64_t *lo, int64_t *hi) {
    *lo = 0;
    *hi = p->M;
    if (!p->interval)
        return;
    const cla_batch *batch = &p->batches[b];
    const int64_t at = i + batch->offset;
    *hi = i < batch->queries ? batch->keys : 0;
    if (p->causal)
        *hi = cla_min(*hi, cla_max(at + 1, batch->prefix));
    if (p->windowed) {
        *lo = cla_max(0, at - p->left);
        *hi = cla_min(*hi, at + p->right + 1);
    }
    if (*lo >= *hi)
        *lo = *hi = 0;
}

/* Keys that queries [from, to) of a batch see together, where the sides of cla_problem_keys are straight lines. */
static double pairs_between(const cla_problem *p, int64_t b, int64_t from, int64_t to) {
    int64_t lo, hi, last_lo, last_hi;
    if (from >= to)
        return 0;
    cla_problem_keys(p, b, from, &lo, &hi);
    cla_problem_keys(p, b, to - 1, &last_lo, &last_hi);
    const double first = (double)(hi - lo), last = (double)(last_hi - last_lo), n = (double)(to - from);
    if (first > 0 && last > 0)
        return (first + last) * n / 2;
    /* One end sees none: a triangle, which ends where the count does, in steps of 1; or nothing at all. */
    const double most = first > last ? first : last;
    const bool constant = n == 1;
    return constant ? most : most * (most + 1) / 2;
}

static int by_place(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The sides are straight between the places where one of their parts takes over from another. */
static double pairs_of(const cla_problem *p, int64_t b) {
    enum { PLACES = 7 };
    const cla_batch *x = &p->batches[b];
    const int64_t n = cla_min(p->N, x->queries), at = -x->offset; /* the query at key 0 */
    int64_t places[PLACES] = {0,
                              n,
                              at + x->prefix - 1,            /* causal passes the prefix */
                              at + x->prefix - 1 - p->right, /* so does the right side of the window */
                              at + x->keys - 1,              /* causal passes the end */
                              at + x->keys - 1 - p->right,   /* so does the right side */
                              at + p->left};                 /* the left side leaves key 0 */
    double pairs = 0;
    for (int i = 0; i < PLACES; i++)
        places[i] = cla_max(0, cla_min(n, places[i]));
    qsort(places, PLACES, sizeof *places, by_place);
    for (int i = 0; i + 1 < PLACES; i++) {
        /* A place of its own: lines may meet there from either side. */
        pairs += pairs_between(p, b, places[i], cla_min(places[i] + 1, places[i + 1]));
        pairs += pairs_between(p, b, places[i] + 1, places[i + 1]);
    }
    return pairs;
}

double cla_problem_pairs(const cla_problem *p) {
    double pairs = 0;
    if (!p->interval)
        return (double)p->B * (double)p->H * (double)p->N * (double)p->M;
    for (int64_t b = 0; b < p->B; b++)
        pairs += pairs_of(p, b);
    return pairs * (double)p->H;
}
