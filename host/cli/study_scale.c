/* SPDX-License-Identifier: Apache-2.0 */
/* `scale`: why scores are divided by sqrt(d_k). 4000 trials of one query against 16 keys, all N(0, 1): the spread of
 * the scores, the largest weight and the norm of the softmax's Jacobian diag(p) - p p^T, without and with the scale.
 * Scores and weights come from the device in f32: rounding is far below what chance does in 4000 trials. */
#include "args.h"
#include "progress.h"
#include "study.h"
#include "study_random.h"
#include <math.h>
#include <stdio.h>

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

/* The arrays of one d_k. */
typedef struct trials {
    int64_t d_k, chunk;
    clattn_array *q, *k, *v, *o, *weights;
} trials;

static bool make(cla_study *s, int64_t d_k, trials *t) {
    const int64_t fitting = CHUNK / (KEYS * d_k), chunk = fitting < TRIALS ? fitting : TRIALS;
    *t = (trials){.d_k = d_k, .chunk = chunk};
    t->q = cla_study_new(s, CLATTN_F32, 4, (const int64_t[]){chunk, 1, 1, d_k});
    t->k = cla_study_new(s, CLATTN_F32, 4, (const int64_t[]){chunk, 1, KEYS, d_k});
    t->v = cla_study_new(s, CLATTN_F32, 4, (const int64_t[]){chunk, 1, KEYS, 1});
    t->o = cla_study_new(s, CLATTN_F32, 4, (const int64_t[]){chunk, 1, 1, 1});
    t->weights = cla_study_new(s, CLATTN_F32, 4, (const int64_t[]){chunk, 1, 1, KEYS});
    return t->q && t->k && t->v && t->o && t->weights;
}

/* Trials [first, first + count): scores without the scale, weights without it, weights with it. */
static clattn_status run_chunk(const cla_study *s, const trials *t, int64_t first, int64_t count, sums *total) {
    const uint64_t stream = 2 * (uint64_t)t->d_k, q_first = (uint64_t)(first * t->d_k);
    cla_random_normals(s->seed, stream, q_first, (size_t)(count * t->d_k), t->q->data);
    cla_random_normals(s->seed, stream + 1, q_first * KEYS, (size_t)(count * KEYS * t->d_k), t->k->data);
    clattn_attention_args args = {.q = clattn_tensor_slice(clattn_array_tensor(t->q), 0, 0, count),
                                  .k = clattn_tensor_slice(clattn_array_tensor(t->k), 0, 0, count),
                                  .v = clattn_tensor_slice(clattn_array_tensor(t->v), 0, 0, count),
                                  .o = clattn_tensor_slice(clattn_array_tensor(t->o), 0, 0, count),
                                  .weights = clattn_tensor_slice(clattn_array_tensor(t->weights), 0, 0, count),
                                  .weights_form = CLATTN_WEIGHTS_SCALED,
                                  .has_scale = true,
                                  .scale = 1};
    clattn_status status = clattn_attention(s->context, &args);
    if (status == CLATTN_OK)
        add_scores(t->weights->data, (size_t)(count * KEYS), total);
    for (int scaled = 0; scaled < 2 && status == CLATTN_OK; scaled++) {
        args.weights_form = CLATTN_WEIGHTS_SOFTMAX;
        args.has_scale = !scaled;
        status = clattn_attention(s->context, &args);
        if (status == CLATTN_OK)
            add_weights(t->weights->data, (size_t)count, &total->largest[scaled], &total->norm[scaled]);
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

int cla_study_scale(cla_study *s) {
    cla_progress progress = cla_progress_begin("study scale");
    int64_t done = 0, total = 0;
    int exit_status = CLA_EXIT_OK;
    for (size_t i = 0; i < DIMS; i++)
        total += TRIALS * populations[i].d_k;
    for (size_t i = 0; i < DIMS && exit_status == CLA_EXIT_OK; i++) {
        trials t;
        sums sum = {0};
        clattn_status status = CLATTN_OK;
        if (!make(s, populations[i].d_k, &t))
            exit_status = CLA_EXIT_FAILED;
        for (int64_t first = 0; exit_status == CLA_EXIT_OK && first < TRIALS; first += t.chunk) {
            const int64_t count = first + t.chunk < TRIALS ? t.chunk : TRIALS - first;
            cla_progress_step(&progress, done, total);
            status = run_chunk(s, &t, first, count, &sum);
            done += count * t.d_k;
            if (status != CLATTN_OK)
                exit_status = cla_study_fail(s, status);
        }
        if (exit_status == CLA_EXIT_OK)
            judge(s, i, &sum);
    }
    cla_progress_end(&progress);
    return exit_status;
}
