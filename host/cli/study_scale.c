/* SPDX-License-Identifier: Apache-2.0 */
/* `scale`: why scores are divided by sqrt(d_k). 4000 trials of one query against 16 keys, all N(0, 1): the spread of
 * the scores, the largest weight and the norm of the softmax's Jacobian diag(p) - p p^T, without and with the scale.
 * Numbers, scores and weights come from the device, in f32: rounding is far below what chance does in 4000 trials. */
#include "args.h"
#include "progress.h"
#include "study.h"
#include <clattn/ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRIALS = 4000, KEYS = 16, CHUNK = 1 << 22, FIGURES = 5, DIMS = 5 };

/* Of 100 000 trials, with the standard error of a figure of 4000, and what the article prints. */
typedef struct population {
    double value, error;
    const char *article;
} population;

static const char *const names[FIGURES] = {"std of scores", "largest weight, raw", "norm of the Jacobian, raw",
                                           "largest weight, scaled", "norm of the Jacobian, scaled"};
static const struct {
    int64_t d_k;
    population figures[FIGURES];
} populations[DIMS] = {
    {4,
     {{1.99715, .01310, "1.986"},
      {.42550, .00329, ".426"},
      {.32296, .00111, ".3221"},
      {.23422, .00187, ".234"},
      {.29717, .00050, ".2967"}}},
    {16,
     {{4.00168, .01631, "3.991"},
      {.68549, .00343, ".681"},
      {.27721, .00230, ".2805"},
      {.24327, .00158, ".241"},
      {.30289, .00038, ".3024"}}},
    {64,
     {{7.99913, .02527, "7.973"},
      {.84506, .00286, ".846"},
      {.17564, .00274, ".1732"},
      {.24585, .00147, ".245"},
      {.30458, .00033, ".3042"}}},
    {256,
     {{16.00965, .04617, "15.978"},
      {.92288, .00217, ".923"},
      {.09868, .00244, ".0987"},
      {.24676, .00145, ".246"},
      {.30512, .00032, ".3049"}}},
    {1024,
     {{32.01115, .09038, "31.927"},
      {.96146, .00159, ".963"},
      {.05242, .00193, ".0504"},
      {.24641, .00143, ".248"},
      {.30517, .00031, ".3053"}}},
};

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

/* |diag(p) - p p^T|^2 = sum p^2 - 2 sum p^3 + (sum p^2)^2 */
static void add_weights(const float *weights, size_t rows, double *largest, double *norm) {
    for (size_t i = 0; i < rows; i++) {
        double most = 0, p2 = 0, p3 = 0;
        for (size_t j = 0; j < KEYS; j++) {
            const double p = (double)weights[i * KEYS + j];
            most = p > most ? p : most;
            p2 += p * p;
            p3 += p * p * p;
        }
        *largest += most;
        *norm += sqrt(fmax(0, p2 - 2 * p3 + p2 * p2));
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
    const int64_t fitting = CHUNK / (KEYS * d_k), chunk = fitting < TRIALS ? fitting : TRIALS;
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

static clattn_tensor view(const clattn_buffer *buffer, int64_t trials_of, int64_t rows, int64_t columns) {
    return clattn_tensor_buffer((clattn_buffer *)buffer, CLATTN_F32, 4, (const int64_t[]){trials_of, 1, rows, columns});
}

/* On the device, from number `first` of a stream on: the same whatever the chunks. */
static clattn_status draw(const cla_study *s, uint64_t stream, int64_t first, clattn_tensor y) {
    return clattn_random(s->context,
                         &(clattn_random_args){.y = y, .seed = s->seed, .stream = stream, .first = (uint64_t)first});
}

static clattn_status attend(const cla_study *s, const trials *t, const clattn_attention_args *args) {
    const clattn_status status = clattn_attention(s->context, args);
    return status == CLATTN_OK ? clattn_buffer_download(t->weights, 0, t->numbers,
                                                        clattn_dtype_bytes(CLATTN_F32, (size_t)(t->chunk * KEYS)))
                               : status;
}

/* Trials [first, first + count): scores without the scale, weights without it, weights with it. */
static clattn_status run_chunk(const cla_study *s, const trials *t, int64_t first, int64_t count, sums *total) {
    const uint64_t stream = 2 * (uint64_t)t->d_k;
    const clattn_tensor q = view(t->q, count, 1, t->d_k), k = view(t->k, count, KEYS, t->d_k);
    clattn_status status = draw(s, stream, first * t->d_k, q);
    if (status == CLATTN_OK)
        status = draw(s, stream + 1, first * KEYS * t->d_k, k);
    clattn_attention_args args = {.q = q,
                                  .k = k,
                                  .v = clattn_tensor_slice(k, 3, 0, 1), /* the output is of no interest */
                                  .o = view(t->o, count, 1, 1),
                                  .weights = view(t->weights, count, 1, KEYS),
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
    const double n = TRIALS, scores = n * KEYS, mean = t->score / scores;
    const double got[FIGURES] = {sqrt(t->square / scores - mean * mean), t->largest[0] / n, t->norm[0] / n,
                                 t->largest[1] / n, t->norm[1] / n};
    for (int i = 0; i < FIGURES; i++) {
        const population *p = &populations[at].figures[i];
        char name[96];
        snprintf(name, sizeof name, "d_k %lld: %s", (long long)populations[at].d_k, names[i]);
        cla_study_figure(s, name, p->article, p->value, got[i], 4 * p->error);
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
    for (size_t i = 0; i < DIMS; i++)
        all += TRIALS * populations[i].d_k;
    for (size_t i = 0; i < DIMS && status == CLATTN_OK; i++) {
        sums total = {0};
        status = run_trials(s, populations[i].d_k, &progress, &done, all, &total);
        if (status == CLATTN_OK)
            judge(s, i, &total);
    }
    cla_progress_end(&progress);
    return status == CLATTN_OK ? CLA_EXIT_OK : cla_study_fail(s, status);
}
