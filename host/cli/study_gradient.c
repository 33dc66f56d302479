/* SPDX-License-Identifier: Apache-2.0 */
/* `gradient`: what reaches Q of a gradient. The trials of `scale`, with a value of one number for each key and the
 * output as the loss, so that the gradient by the weights is the value: N(0, 1). From there the backward kernels: dS is
 * the Jacobian of the softmax times it (as the gradient by a bias of zeros), dQ = scale dS K. Without the scale the
 * mean of |dQ| does not tell, since K grows as the Jacobian falls: few queries get a large gradient, most next to none,
 * which the median shows. Behind it the depth of the stack: study_depth.c. */
#include "args.h"
#include "progress.h"
#include "study_depth.h"
#include "study_trials.h"
#include <clattn/backward.h>
#include <clattn/ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRIALS = CLA_TRIALS, KEYS = CLA_TRIAL_KEYS, VALUE_STREAM = 50000 };

/* Of tools/study_population.py: 1 000 000 trials in double; the error is that of a figure of 4000. Raw, scaled. */
static const struct {
    cla_population share[2];  /* sqrt(mean |dS|^2 / mean |J|^2): 1 */
    cla_population mean[2];   /* of |dQ| */
    cla_population median[2]; /* of |dQ| */
} populations[CLA_TRIAL_DIMS] = {{{{1, 0.0082, NULL}, {1, 0.0062, NULL}},
                                  {{0.5138, 0.0053, NULL}, {0.2605, 0.0021, NULL}},
                                  {{0.4398, 0.0056, NULL}, {0.2323, 0.0023, NULL}}},
                                 {{{1, 0.012, NULL}, {1, 0.0059, NULL}},
                                  {{0.9088, 0.013, NULL}, {0.2801, 0.0017, NULL}},
                                  {{0.7159, 0.016, NULL}, {0.2585, 0.0019, NULL}}},
                                 {{{1, 0.017, NULL}, {1, 0.0065, NULL}},
                                  {{1.157, 0.024, NULL}, {0.2854, 0.0017, NULL}},
                                  {{0.4542, 0.024, NULL}, {0.2669, 0.0019, NULL}}},
                                 {{{1, 0.025, NULL}, {1, 0.0064, NULL}},
                                  {{1.281, 0.043, NULL}, {0.2867, 0.0017, NULL}},
                                  {{0.0535, 0.007, NULL}, {0.2694, 0.0019, NULL}}},
                                 {{{1, 0.035, NULL}, {1, 0.0064, NULL}},
                                  {{1.346, 0.064, NULL}, {0.2869, 0.0017, NULL}},
                                  {{0.0003057, 8.1e-05, NULL}, {0.2698, 0.0018, NULL}}}};

/* What came out of the trials of one d_k, without the scale and with it. */
typedef struct outcome {
    double jacobian, jacobian_square, score_square, query;
    double *queries; /* [TRIALS]: |dQ| */
} outcome;

/* What the trials of one d_k lie in. */
enum { Q, K, V, O, STATE, BIAS, WEIGHTS, D_O, D_SCORES, D_Q, BUFFERS };
typedef struct trials {
    int64_t d_k, chunk;
    clattn_buffer *buffers[BUFFERS];
    float *numbers; /* of the largest that is looked at */
} trials;

static void free_trials(trials *t) {
    for (int i = 0; i < BUFFERS; i++)
        clattn_buffer_destroy(t->buffers[i]);
    free(t->numbers);
}

static size_t bytes_of(int64_t numbers) { return clattn_dtype_bytes(CLATTN_F32, (size_t)numbers); }

/* The same number at each place. */
static clattn_status fill(const trials *t, int buffer, int64_t count, float value) {
    for (int64_t i = 0; i < count; i++)
        t->numbers[i] = value;
    return clattn_buffer_upload(t->buffers[buffer], 0, t->numbers, bytes_of(count));
}

static clattn_status make(const cla_study *s, int64_t d_k, trials *t) {
    const int64_t chunk = cla_trial_chunk(d_k), most = d_k > KEYS ? d_k : KEYS;
    const int64_t rows[BUFFERS] = {[Q] = d_k,     [K] = KEYS * d_k, [V] = KEYS, [O] = 1,           [STATE] = 2,
                                   [BIAS] = KEYS, [WEIGHTS] = KEYS, [D_O] = 1,  [D_SCORES] = KEYS, [D_Q] = d_k};
    *t = (trials){.d_k = d_k, .chunk = chunk};
    t->numbers = malloc((size_t)(chunk * most) * sizeof *t->numbers);
    clattn_status status = t->numbers ? CLATTN_OK : CLATTN_E_MEMORY;
    for (int i = 0; i < BUFFERS && status == CLATTN_OK; i++)
        status = clattn_buffer_create(s->context, bytes_of(chunk * rows[i]), &t->buffers[i]);
    if (status == CLATTN_OK)
        status = fill(t, BIAS, chunk * KEYS, 0);
    return status == CLATTN_OK ? fill(t, D_O, chunk, 1) : status;
}

static double squares(const float *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

static clattn_status look(const trials *t, int buffer, int64_t count) {
    return clattn_buffer_download(t->buffers[buffer], 0, t->numbers, bytes_of(count));
}

/* Trials [first, first + count) by forward and backward pass. */
static clattn_status run_passes(const cla_study *s, const trials *t, const clattn_attention_backward_args *args,
                                int64_t first, int64_t count, outcome *x) {
    clattn_status status = clattn_attention(s->context, &args->forward);
    if (status == CLATTN_OK)
        status = clattn_attention_backward(s->context, args);
    if (status == CLATTN_OK)
        status = look(t, WEIGHTS, count * KEYS);
    for (int64_t i = 0; i < count && status == CLATTN_OK; i++) {
        const double norm = cla_jacobian_norm(t->numbers + i * KEYS);
        x->jacobian += norm;
        x->jacobian_square += norm * norm;
    }
    if (status == CLATTN_OK)
        status = look(t, D_SCORES, count * KEYS);
    if (status == CLATTN_OK) {
        x->score_square += squares(t->numbers, count * KEYS);
        status = look(t, D_Q, count * t->d_k);
    }
    for (int64_t i = 0; i < count && status == CLATTN_OK; i++) {
        const double norm = sqrt(squares(t->numbers + i * t->d_k, t->d_k));
        x->query += norm;
        x->queries[first + i] = norm;
    }
    return status;
}

static clattn_status run_chunk(const cla_study *s, const trials *t, int64_t first, int64_t count, outcome x[2]) {
    const clattn_tensor v = cla_trial_view(t->buffers[V], count, KEYS, 1);
    clattn_attention_backward_args args = {.forward = {.q = cla_trial_view(t->buffers[Q], count, 1, t->d_k),
                                                       .k = cla_trial_view(t->buffers[K], count, KEYS, t->d_k),
                                                       .v = v,
                                                       .o = cla_trial_view(t->buffers[O], count, 1, 1),
                                                       .state = cla_trial_view(t->buffers[STATE], count, 1, 2),
                                                       .bias = cla_trial_view(t->buffers[BIAS], count, 1, KEYS),
                                                       .weights = cla_trial_view(t->buffers[WEIGHTS], count, 1, KEYS)},
                                           .d_o = cla_trial_view(t->buffers[D_O], count, 1, 1),
                                           .d_q = cla_trial_view(t->buffers[D_Q], count, 1, t->d_k),
                                           .d_bias = cla_trial_view(t->buffers[D_SCORES], count, 1, KEYS)};
    clattn_status status = cla_trials_draw(s, first, args.forward.q, args.forward.k);
    if (status == CLATTN_OK)
        status = clattn_random(s->context, &(clattn_random_args){.y = v,
                                                                 .seed = s->seed,
                                                                 .stream = VALUE_STREAM + (uint64_t)t->d_k,
                                                                 .first = (uint64_t)(first * KEYS)});
    for (int scaled = 0; scaled < 2 && status == CLATTN_OK; scaled++) {
        args.forward.has_scale = !scaled;
        args.forward.scale = 1;
        status = run_passes(s, t, &args, first, count, &x[scaled]);
    }
    return status;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static double median(double *values) {
    qsort(values, TRIALS, sizeof *values, ascending);
    return (values[TRIALS / 2 - 1] + values[TRIALS / 2]) / 2;
}

/* The median of |dQ| of each. */
static void judge(cla_study *s, size_t at, outcome x[2], double medians[2]) {
    static const char *const jacobian[2] = {"norm of the Jacobian, raw", "norm of the Jacobian, scaled"},
                             *const share[2] = {"rms of |dS| over that of the Jacobian, raw",
                                                "rms of |dS| over that of the Jacobian, scaled"},
                             *const mean[2] = {"mean |dQ|, raw", "mean |dQ|, scaled"},
                             *const middle[2] = {"median |dQ|, raw", "median |dQ|, scaled"};
    const int64_t d_k = cla_trial_dims[at];
    for (int i = 0; i < 2; i++) {
        medians[i] = median(x[i].queries);
        cla_trial_figure(s, d_k, jacobian[i], &cla_jacobian_norms[at][i], x[i].jacobian / TRIALS);
        cla_trial_figure(s, d_k, share[i], &populations[at].share[i], sqrt(x[i].score_square / x[i].jacobian_square));
        cla_trial_figure(s, d_k, mean[i], &populations[at].mean[i], x[i].query / TRIALS);
        cla_trial_figure(s, d_k, middle[i], &populations[at].median[i], medians[i]);
    }
}

static clattn_status run_trials(cla_study *s, size_t at, cla_progress *progress, double medians[2]) {
    const int64_t all = CLA_TRIAL_DIMS * TRIALS;
    double *queries = malloc(2 * (size_t)TRIALS * sizeof *queries);
    outcome x[2] = {{0}};
    trials t = {0};
    clattn_status status = queries ? make(s, cla_trial_dims[at], &t) : CLATTN_E_MEMORY;
    for (int i = 0; i < 2 && queries; i++)
        x[i].queries = queries + i * TRIALS;
    for (int64_t first = 0; status == CLATTN_OK && first < TRIALS; first += t.chunk) {
        const int64_t count = first + t.chunk < TRIALS ? t.chunk : TRIALS - first;
        cla_progress_step(progress, (int64_t)at * TRIALS + first, all);
        status = run_chunk(s, &t, first, count, x);
    }
    if (status == CLATTN_OK)
        judge(s, at, x, medians);
    free_trials(&t);
    free(queries);
    return status;
}

static int run_dims(cla_study *s) {
    cla_progress progress = cla_progress_begin("study gradient");
    clattn_status status = CLATTN_OK;
    double medians[CLA_TRIAL_DIMS][2] = {{0}}, least = INFINITY, most = 0;
    for (size_t i = 0; i < CLA_TRIAL_DIMS && status == CLATTN_OK; i++)
        status = run_trials(s, i, &progress, medians[i]);
    cla_progress_end(&progress);
    if (status != CLATTN_OK)
        return cla_study_fail(s, status);
    for (size_t i = 0; i < CLA_TRIAL_DIMS; i++) {
        least = fmin(least, medians[i][1]);
        most = fmax(most, medians[i][1]);
    }
    /* Scores of N(0, 1) but for terms of 1 / d_k, at most a quarter; without the scale the two largest of 16 scores are
     * mostly more than sqrt(d_k) / 4 apart, and half of the queries get less than sqrt(d_k) exp(-sqrt(d_k) / 4). */
    cla_study_figure(s, "scaled: largest median over least", NULL, 1, most / least, 0.25);
    cla_study_figure(s, "raw: median at d_k 1024", NULL, 0, medians[CLA_TRIAL_DIMS - 1][0], 32 * exp(-8));
    return CLA_EXIT_OK;
}

int cla_study_gradient(cla_study *s) {
    const int exit_status = run_dims(s);
    return exit_status == CLA_EXIT_OK ? cla_study_depth(s) : exit_status;
}
