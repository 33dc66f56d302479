/* SPDX-License-Identifier: Apache-2.0 */
/* `scale`: why scores are divided by sqrt(d_k). 4000 trials of one query against 16 keys, all N(0, 1): the spread of
 * the scores, the largest weight and the norm of the softmax's Jacobian diag(p) - p p^T, without and with the scale.
 * Numbers, scores and weights come from the device, in f32: rounding is far below what chance does in 4000 trials. */
#include "args.h"
#include "progress.h"
#include "study_trials.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRIALS = CLA_TRIALS, KEYS = CLA_TRIAL_KEYS };

static const struct {
    cla_population deviation, largest[2]; /* raw, scaled */
} populations[CLA_TRIAL_DIMS] = {{{1.99715, .01310, "1.986"}, {{.42550, .00329, ".426"}, {.23422, .00187, ".234"}}},
                                 {{4.00168, .01631, "3.991"}, {{.68549, .00343, ".681"}, {.24327, .00158, ".241"}}},
                                 {{7.99913, .02527, "7.973"}, {{.84506, .00286, ".846"}, {.24585, .00147, ".245"}}},
                                 {{16.00965, .04617, "15.978"}, {{.92288, .00217, ".923"}, {.24676, .00145, ".246"}}},
                                 {{32.01115, .09038, "31.927"}, {{.96146, .00159, ".963"}, {.24641, .00143, ".248"}}}};

/* Sums over trials. */
typedef struct sums {
    double score, square, largest[2], norm[2]; /* raw, scaled */
} sums;

static void add_scores(const float *scores, size_t count, sums *t) {
    for (size_t i = 0; i < count; i++) {
        t->score += (double)scores[i];
        t->square += (double)scores[i] * (double)scores[i];
    }
}

static void add_weights(const float *weights, size_t rows, double *largest, double *norm) {
    for (size_t i = 0; i < rows; i++) {
        const float *p = weights + i * KEYS;
        float most = 0;
        for (size_t j = 0; j < KEYS; j++)
            most = p[j] > most ? p[j] : most;
        *largest += (double)most;
        *norm += cla_jacobian_norm(p);
    }
}

/* What the trials of one d_k lie in: all on the device but the weights. */
typedef struct trials {
    int64_t d_k, chunk;
    clattn_buffer *q, *k, *o, *weights;
    float *numbers; /* of the weights */
} trials;

static void free_trials(trials *t) {
    clattn_buffer_destroy(t->q);
    clattn_buffer_destroy(t->k);
    clattn_buffer_destroy(t->o);
    clattn_buffer_destroy(t->weights);
    free(t->numbers);
}

static clattn_status make(const cla_study *s, int64_t d_k, trials *t) {
    const int64_t chunk = cla_trial_chunk(d_k);
    *t = (trials){.d_k = d_k, .chunk = chunk};
    t->numbers = malloc((size_t)(chunk * KEYS) * sizeof *t->numbers);
    clattn_buffer **const buffers[] = {&t->q, &t->k, &t->o, &t->weights};
    const int64_t rows[] = {d_k, KEYS * d_k, 1, KEYS};
    clattn_status status = t->numbers ? CLATTN_OK : CLATTN_E_MEMORY;
    for (int i = 0; i < 4 && status == CLATTN_OK; i++)
        status =
            clattn_buffer_create(s->context, clattn_dtype_bytes(CLATTN_F32, (size_t)(chunk * rows[i])), buffers[i]);
    return status;
}

static clattn_status attend(const cla_study *s, const trials *t, const clattn_attention_args *args) {
    const clattn_status status = clattn_attention(s->context, args);
    return status == CLATTN_OK ? clattn_buffer_download(t->weights, 0, t->numbers,
                                                        clattn_dtype_bytes(CLATTN_F32, (size_t)(t->chunk * KEYS)))
                               : status;
}

/* Trials [first, first + count): scores without the scale, weights without it, weights with it. */
static clattn_status run_chunk(const cla_study *s, const trials *t, int64_t first, int64_t count, sums *total) {
    const clattn_tensor q = cla_trial_view(t->q, count, 1, t->d_k), k = cla_trial_view(t->k, count, KEYS, t->d_k);
    clattn_status status = cla_trials_draw(s, first, q, k);
    clattn_attention_args args = {.q = q,
                                  .k = k,
                                  .v = clattn_tensor_slice(k, 3, 0, 1), /* the output is of no interest */
                                  .o = cla_trial_view(t->o, count, 1, 1),
                                  .weights = cla_trial_view(t->weights, count, 1, KEYS),
                                  .weights_form = CLATTN_WEIGHTS_SCALED,
                                  .has_scale = true,
                                  .scale = 1};
    if (status == CLATTN_OK)
        status = attend(s, t, &args);
    if (status == CLATTN_OK)
        add_scores(t->numbers, (size_t)(count * KEYS), total);
    for (int scaled = 0; scaled < 2 && status == CLATTN_OK; scaled++) {
        args.weights_form = CLATTN_WEIGHTS_SOFTMAX;
        args.has_scale = !scaled;
        status = attend(s, t, &args);
        if (status == CLATTN_OK)
            add_weights(t->numbers, (size_t)count, &total->largest[scaled], &total->norm[scaled]);
    }
    return status;
}

static void judge(cla_study *s, size_t at, const sums *t) {
    static const char *const largest[2] = {"largest weight, raw", "largest weight, scaled"},
                             *const norm[2] = {"norm of the Jacobian, raw", "norm of the Jacobian, scaled"};
    const double n = TRIALS, scores = n * KEYS, mean = t->score / scores;
    const int64_t d_k = cla_trial_dims[at];
    cla_trial_figure(s, d_k, "std of scores", &populations[at].deviation, sqrt(t->square / scores - mean * mean));
    for (int i = 0; i < 2; i++) {
        cla_trial_figure(s, d_k, largest[i], &populations[at].largest[i], t->largest[i] / n);
        cla_trial_figure(s, d_k, norm[i], &cla_jacobian_norms[at][i], t->norm[i] / n);
    }
}

/* The trials of one d_k, in chunks; *done counts numbers of a query, for the progress. */
static clattn_status run_trials(const cla_study *s, int64_t d_k, cla_progress *progress, int64_t *done, int64_t all,
                                sums *total) {
    trials t;
    clattn_status status = make(s, d_k, &t);
    for (int64_t first = 0; status == CLATTN_OK && first < TRIALS; first += t.chunk) {
        const int64_t count = first + t.chunk < TRIALS ? t.chunk : TRIALS - first;
        cla_progress_step(progress, *done, all);
        status = run_chunk(s, &t, first, count, total);
        *done += count * d_k;
    }
    free_trials(&t);
    return status;
}

int cla_study_scale(cla_study *s) {
    cla_progress progress = cla_progress_begin("study scale");
    int64_t done = 0, all = 0;
    clattn_status status = CLATTN_OK;
    for (size_t i = 0; i < CLA_TRIAL_DIMS; i++)
        all += TRIALS * cla_trial_dims[i];
    for (size_t i = 0; i < CLA_TRIAL_DIMS && status == CLATTN_OK; i++) {
        sums total = {0};
        status = run_trials(s, cla_trial_dims[i], &progress, &done, all, &total);
        if (status == CLATTN_OK)
            judge(s, i, &total);
    }
    cla_progress_end(&progress);
    return status == CLATTN_OK ? CLA_EXIT_OK : cla_study_fail(s, status);
}
