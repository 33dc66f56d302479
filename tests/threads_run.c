/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that share contexts, from the first call of the process on: plans, one-call API, CLBlast, modules, backward
 * pass, tuner's record, cache on disk. A plain program: ThreadSanitizer does not follow Criterion's forks. Exit status
 * 0: each result is right, and that of modules has the bits that one thread alone gets afterwards. */
#define _XOPEN_SOURCE 700
#include "oracle.h"
#include <clattn/tune.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 3, E = 16, ROWS = 5, SIZE = E * ROWS };

typedef struct {
    clattn_context *opencl, *profiled, *cpu; /* shared by all */
    const char *record;
    pthread_barrier_t *start;
    int number;
    float attended[SIZE], fed[SIZE];
    bool failed;
} worker;

static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static void fail(worker *w, const char *what, const char *text) {
    pthread_mutex_lock(&printing);
    fprintf(stderr, "thread %d: %s: %s\n", w->number, what, text);
    pthread_mutex_unlock(&printing);
    w->failed = true;
}

static void expect_ok(worker *w, const char *what, clattn_status status) {
    if (status != CLATTN_OK)
        fail(w, what, clattn_last_error());
}

/* ---- attention ---- */

static void attend(worker *w, clattn_context *context, const char *algorithm, const oracle_config *config) {
    char text[ORACLE_TEXT];
    oracle_case *c = oracle_make(config);
    if (!c || !oracle_check(c, context, algorithm, text))
        fail(w, "attention", c ? text : "no memory");
    oracle_free(c);
}

static void go_back(worker *w, clattn_context *context, const oracle_config *config) {
    char text[ORACLE_TEXT];
    oracle_case *c = oracle_make(config);
    oracle_backward *g = c ? oracle_backward_make(c) : NULL;
    if (!g || !oracle_exact(c, text) || !oracle_backward_exact(g, text) ||
        !oracle_backward_run(g, context, NULL, NULL, text) || !oracle_backward_compare(g, "default", text))
        fail(w, "backward", g ? text : "no memory");
    oracle_backward_free(g);
    oracle_free(c);
}

/* The same problems in every thread at the same time: `materialised` calls CLBlast, buffers are plans of the thread's,
 * host arrays the one call and its kept plans. */
static void attend_all(worker *w, int round) {
    const oracle_config plain = {.H = 2, .N = 9, .D = 8, .lse = true, .seed = 1 + (uint64_t)(round % 2)},
                        plan = {.H = 2,
                                .N = 5,
                                .M = 40,
                                .D = 8,
                                .buffers = true,
                                .causal = true,
                                .seed = 3,
                                .align = CLATTN_ALIGN_BOTTOM_RIGHT},
                        packed =
                            {.H = 2, .N = 5, .M = 40, .D = 8, .layout = ORACLE_TRANSPOSED, .lengths = true, .seed = 4},
                        weighed = {.H = 2, .N = 9, .D = 8, .weights = true, .seed = 5};
    attend(w, w->opencl, "materialised", w->number % 2 ? &plan : &plain);
    attend(w, w->opencl, NULL, &plain);
    attend(w, w->opencl, NULL, &plan);
    attend(w, w->opencl, NULL, &packed);
    attend(w, w->opencl, NULL, &weighed);
    attend(w, w->cpu, NULL, &plain);
    attend(w, w->cpu, "reference", &plain);
    go_back(w, w->opencl, &plain);
    go_back(w, w->cpu, &plain);
}

/* ---- modules ---- */

static void fill(float *x, int count, uint64_t seed) {
    oracle_random random = {seed};
    for (int i = 0; i < count; i++)
        x[i] = (float)oracle_normal(&random) / 4;
}

static clattn_tensor matrix(float *x, int64_t rows, int64_t columns) {
    const int64_t shape[] = {rows, columns};
    return clattn_tensor_host(x, CLATTN_F32, 2, shape);
}

static void run_modules(worker *w, float *attended, float *fed) {
    float in[3 * E * E], out[E * E], inner[2 * E * E], outer[2 * E * E], x[SIZE];
    clattn_multihead *multihead = NULL;
    clattn_feedforward *feedforward = NULL;
    fill(in, 3 * E * E, 11);
    fill(out, E * E, 12);
    fill(inner, 2 * E * E, 13);
    fill(outer, 2 * E * E, 14);
    fill(x, SIZE, 15);
    const clattn_multihead_weights weights = {.in_proj = matrix(in, 3 * E, E), .out = matrix(out, E, E)};
    const clattn_multihead_options options = {.heads = 2};
    const clattn_feedforward_weights matrices = {.linear1 = matrix(inner, 2 * E, E),
                                                 .linear2 = matrix(outer, E, 2 * E)};
    const clattn_feedforward_options relu = {0};
    const clattn_multihead_args args = {.query = matrix(x, ROWS, E), .y = matrix(attended, ROWS, E)};
    const clattn_tensor from = matrix(attended, ROWS, E), to = matrix(fed, ROWS, E);
    expect_ok(w, "multihead", clattn_multihead_create(w->opencl, &weights, &options, &multihead));
    expect_ok(w, "feedforward", clattn_feedforward_create(w->opencl, &matrices, &relu, &feedforward));
    if (!w->failed) {
        expect_ok(w, "multihead", clattn_multihead_run(multihead, &args));
        expect_ok(w, "feedforward", clattn_feedforward_run(feedforward, &from, &to));
    }
    clattn_multihead_destroy(multihead);
    clattn_feedforward_destroy(feedforward);
}

/* ---- what a context holds beside programs ---- */

static void look_around(worker *w) {
    char key[32];
    size_t compiled, restored;
    uint64_t now, peak;
    clattn_tuned entry = {.key = key, .value = "x=1", .ms = 1, .default_ms = 2};
    snprintf(key, sizeof key, "thread %d", w->number);
    expect_ok(w, "tuning_set", clattn_tuning_set(w->opencl, &entry));
    expect_ok(w, "tuning_save", clattn_tuning_save(w->opencl, w->record));
    clattn_tuning_skipped(w->opencl);
    clattn_context_programs(w->opencl, &compiled, &restored);
    clattn_context_memory(w->opencl, &now, &peak);
    clattn_context_memory_reset(w->opencl);
    if (w->number % 3 == 0)
        clattn_context_trim(w->opencl); /* under the others' feet */
    expect_ok(w, "sync", clattn_context_sync(w->opencl));
}

/* All count into one profile, and throw it away. */
static void profile(worker *w, const oracle_config *config) {
    clattn_profile_entry entries[32];
    size_t count = 0;
    attend(w, w->profiled, NULL, config);
    expect_ok(w, "profile", clattn_context_profile(w->profiled, entries, 32, &count));
    if (w->number % 2)
        clattn_context_profile_reset(w->profiled);
}

/* A context of its own beside the shared one, with the same cache on disk. */
static void open_another(worker *w) {
    const oracle_config plain = {.H = 2, .N = 9, .D = 8, .lse = true, .seed = 1};
    clattn_context *own = NULL;
    expect_ok(w, "context", clattn_context_create("opencl", NULL, &own));
    if (own)
        attend(w, own, NULL, &plain);
    clattn_context_destroy(own);
}

static void *work(void *argument) {
    worker *w = argument;
    pthread_barrier_wait(w->start);
    for (int i = 0; i < ROUNDS; i++) {
        attend_all(w, i);
        run_modules(w, w->attended, w->fed);
        look_around(w);
        profile(w, &(oracle_config){.H = 2, .N = 9, .D = 8, .causal = true, .seed = 6});
        if (i == 1)
            open_another(w);
    }
    return NULL;
}

static bool run_threads(worker *workers) {
    pthread_t threads[THREADS];
    bool failed = false;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            exit(1); /* no thread that waits at the barrier may live on */
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        failed = failed || workers[i].failed;
    }
    worker alone = workers[0];
    run_modules(&alone, alone.attended, alone.fed);
    for (int i = 0; i < THREADS; i++)
        if (memcmp(workers[i].attended, alone.attended, sizeof alone.attended) != 0 ||
            memcmp(workers[i].fed, alone.fed, sizeof alone.fed) != 0)
            fail(&alone, "modules", "other bits than alone");
    return !failed && !alone.failed;
}

/* The file for the tuner's record is the only argument. */
int main(int argc, char **argv) {
    static worker workers[THREADS];
    pthread_barrier_t start;
    const clattn_context_options profile_all = {.profile = true};
    clattn_context *opencl = NULL, *profiled = NULL, *cpu = NULL;
    bool right = false;
    const clattn_status status = clattn_context_create("opencl", NULL, &opencl);
    if (argc != 2 || status == CLATTN_E_NO_DEVICE) {
        printf("%s\n", argc != 2 ? "usage: threads_run RECORD" : "no OpenCL device");
        return argc != 2 ? 2 : 0;
    }
    pthread_barrier_init(&start, NULL, THREADS);
    if (status == CLATTN_OK && clattn_context_create("opencl", &profile_all, &profiled) == CLATTN_OK &&
        clattn_context_create("cpu", NULL, &cpu) == CLATTN_OK) {
        for (int i = 0; i < THREADS; i++)
            workers[i] = (worker){
                .opencl = opencl, .profiled = profiled, .cpu = cpu, .record = argv[1], .start = &start, .number = i};
        right = run_threads(workers);
    } else {
        fprintf(stderr, "%s\n", clattn_last_error());
    }
    clattn_context_destroy(cpu);
    clattn_context_destroy(profiled);
    clattn_context_destroy(opencl);
    pthread_barrier_destroy(&start);
    return right ? 0 : 1;
}
