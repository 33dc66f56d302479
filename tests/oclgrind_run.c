/* SPDX-License-Identifier: Apache-2.0 */
/* Tiny problems for Oclgrind, which interprets kernels and tells races and reads of uninitialised memory: every OpenCL
 * algorithm, type and class of masks, in few keys, since builds take most of the time.
 *   oclgrind --data-races --log FILE oclgrind_run [ops | random | more [ALGORITHM...] | ALGORITHM...]
 * FILE must stay empty; exit status 1 on wrong results. No test framework, which would fork. Random numbers are a run
 * of their own: Oclgrind 21.10, looking for uninitialised memory, crashes on their kernel.
 *   oclgrind oclgrind_run list [keys]
 * builds and runs no kernel: exit status 1 where a kernel of the library is in none of these problems. */
#define _XOPEN_SOURCE 700 /* setenv */
#include "oclgrind_ops.h"
#include "oclgrind_parts.h"
#include "oracle.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Layouts in multiples of 4 and others, tiles that are full, cut and more than one, rows that see nothing. */
static const oracle_config problems[] = {
    /* no mask */
    {.N = 5, .M = 7, .D = 8, .guard = 16, .buffers = true, .lse = true, .weights = true},
    {.H = 2, .N = 67, .M = 9, .D = 13, .Dv = 1, .guard = 3, .layout = ORACLE_PADDED, .lse = true},
    {.N = 3, .M = 33, .D = 68, .Dv = 68, .guard = 16, .buffers = true},
    /* intervals */
    {.B = 2, .H = 4, .Hk = 2, .N = 9, .M = 33, .D = 8, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .lse = true},
    {.N = 33, .D = 8, .has_window = true, .window_left = 3, .window_right = 1, .layout = ORACLE_BSHD, .weights = true},
    {.B = 3, .H = 2, .N = 4, .M = 8, .D = 8, .lengths = true, .layout = ORACLE_PACKED, .lse = true},
    /* tensors */
    {.H = 2, .N = 8, .M = 12, .D = 8, .keep = {4, 15}, .guard = 16, .buffers = true, .lse = true, .weights = true},
    {.B = 2, .N = 6, .M = 10, .D = 8, .drop = {3, 5}, .layout = ORACLE_SHARED},
    {.H = 2, .N = 7, .M = 20, .D = 8, .bias = {2, 3}, .lse = true, .dropout = 0.3},
    /* pairs, and copies to a last stride of 1 */
    {.N = 8, .D = 8, .causal = true, .bias = {2, 3}, .guard = 16, .lse = true},
    {.B = 2,
     .H = 2,
     .Hk = 1,
     .N = 6,
     .M = 9,
     .D = 5,
     .lengths = true,
     .keep = {2, 1},
     .lse = true,
     .weights = true,
     .layout = ORACLE_TRANSPOSED},
    {.N = 5,
     .M = 33,
     .D = 1,
     .Dv = 40,
     .has_window = true,
     .window_left = 8,
     .window_right = CLATTN_UNLIMITED,
     .align = CLATTN_ALIGN_OFFSET,
     .drop = {2, 3},
     .bias = {4, 9}},
};

/* NaN in V at a key that a mask hides from some queries: the kernels' other way through the values. */
static const oracle_config poisoned[] = {
    {.N = 6, .D = 8, .guard = 16, .causal = true, .lse = true},
    {.N = 6, .M = 8, .D = 8, .guard = 16, .buffers = true, .drop = {2, 3}},
};

/* In a context of its own: what Oclgrind knows of a buffer's bytes it takes for those of the next one in that place. */
static void check(oracle_case *c, const char *algorithm, tally *t) {
    char text[ORACLE_TEXT] = "no context";
    oracle_runner runner = {.algorithm = algorithm};
    bool right = false;
    if (clattn_context_create("opencl", NULL, &runner.context) == CLATTN_OK) {
        right = oracle_check(c, runner.context, runner.algorithm, text);
    }
    tally_count(t, right, text);
    clattn_context_destroy(runner.context);
    tally_take_log(t);
}

static void check_all(const char *algorithm, clattn_dtype dtype, const oracle_config *configs, size_t n, bool poison,
                      tally *t) {
    for (size_t i = 0; i < n; i++) {
        oracle_config config = configs[i];
        config.dtype = dtype;
        config.seed = i;
        oracle_case *c = oracle_make(&config);
        if (poison)
            c->v[c->config.M / 2 * c->config.Dv] = NAN;
        check(c, algorithm, t);
        oracle_free(c);
    }
}

/* Gradients: of everything, in several chunks; of sequences, by a seed that gives none without keys, whose zeros in
 * `materialised` are clEnqueueFillBuffer's (see parts_read); in buffers, since Oclgrind takes host arrays that are
 * used in place for uninitialised. In the last one NaN in Q, K and dO, whose results nobody judges. */
static const oracle_config backward_problems[] = {
    {.B = 2,
     .H = 4,
     .Hk = 2,
     .N = 9,
     .M = 7,
     .D = 5,
     .Dv = 6,
     .causal = true,
     .align = CLATTN_ALIGN_BOTTOM_RIGHT,
     .keep = {2, 3},
     .bias = {2, 3},
     .sinks = true,
     .softcap = 3,
     .dropout = 0.3},
    {.B = 2,
     .H = 2,
     .N = 5,
     .M = 9,
     .D = 8,
     .seed = 4,
     .sequences = true,
     .alibi = true,
     .align = CLATTN_ALIGN_TOP_LEFT},
    {.H = 2, .Hk = 1, .N = 6, .M = 40, .D = 8, .bias = {4, 6}, .sinks = true},
};

static void check_gradients(const oracle_config *config, const char *algorithm, bool poison, tally *t) {
    char text[ORACLE_TEXT] = "no context";
    clattn_context *context = NULL;
    oracle_case *c = oracle_make(config);
    oracle_backward *g = oracle_backward_make(c);
    bool right = poison || oracle_backward_exact(g, text);
    if (poison)
        c->q[3] = c->k[config->D + 1] = g->d_o[2] = NAN;
    right = right && clattn_context_create("opencl", NULL, &context) == CLATTN_OK &&
            oracle_backward_run(g, context, algorithm, algorithm, text) &&
            (poison || oracle_backward_compare(g, algorithm, text));
    tally_count(t, right, text);
    clattn_context_destroy(context);
    tally_take_log(t);
    oracle_backward_free(g);
    oracle_free(c);
}

static bool asked_for(const char *name, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc < 2;
}

/* Problems for single algorithms: all, or those of the algorithms that are named. */
static void check_more(int argc, char **argv, bool unwritten, tally *t) {
    for (size_t i = 0; more_at(i); i++) {
        const more_problem *p = more_at(i);
        if (p->unwritten != unwritten || !asked_for(p->algorithm, argc, argv))
            continue;
        if (p->backward) {
            check_gradients(&p->config, p->algorithm, false, t);
            continue;
        }
        oracle_case *c = oracle_make(&p->config);
        check(c, p->algorithm, t);
        oracle_free(c);
    }
}

static void check_backward(const char *algorithm, clattn_dtype dtype, tally *t) {
    const size_t all = sizeof backward_problems / sizeof *backward_problems;
    for (size_t i = 0; i < all; i++) {
        oracle_config config = backward_problems[i];
        config.dtype = dtype;
        config.buffers = true;
        check_gradients(&config, algorithm, i == all - 1, t);
    }
}

static void check_type(clattn_context *context, clattn_dtype dtype, int argc, char **argv, tally *t) {
    const oracle_config tiny = {.dtype = dtype, .N = 1, .D = 1};
    oracle_case *c = oracle_make(&tiny);
    for (size_t i = 0; i < clattn_algorithm_count(); i++) {
        const oracle_runner runner = {.context = context, .algorithm = clattn_algorithm_name(i)};
        if (!oracle_applies(c, &runner, NULL) || !asked_for(runner.algorithm, argc, argv))
            continue;
        const int before = t->passed;
        check_all(runner.algorithm, dtype, problems, sizeof problems / sizeof *problems, false, t);
        check_all(runner.algorithm, dtype, poisoned, sizeof poisoned / sizeof *poisoned, true, t);
        parts_sums(runner.algorithm, dtype, t);
        printf("%s %s: %d passed\n", runner.algorithm, clattn_dtype_name(dtype), t->passed - before);
        fflush(stdout);
    }
    for (size_t i = 0; i < clattn_backward_algorithm_count(); i++) {
        const char *name = clattn_backward_algorithm_name(i);
        const oracle_runner runner = {.context = context, .algorithm = name};
        oracle_backward *g = oracle_backward_make(c);
        if (oracle_backward_applies(g, &runner, NULL) && asked_for(name, argc, argv))
            check_backward(name, dtype, t);
        oracle_backward_free(g);
    }
    for (size_t i = 0; clattn_linear_algorithm(i); i++)
        if (asked_for(clattn_linear_algorithm(i), argc, argv))
            parts_linear(clattn_linear_algorithm(i), dtype, t);
    parts_fill(dtype, t);
    parts_short(dtype, t);
    oracle_free(c);
}

static void take_op(void *data, bool right, const char *text) {
    tally *t = data;
    tally_count(t, right, text);
    tally_take_log(t);
}

static void list_all(clattn_context *context, bool keys, tally *t) {
    list_begin();
    ops_check(take_op, t);
    check_more(1, NULL, false, t);
    check_more(1, NULL, true, t);
    parts_random(t);
    parts_read(t);
    for (int f64 = 0; f64 < 2; f64++)
        check_type(context, f64 ? CLATTN_F64 : CLATTN_F32, 1, NULL, t);
    parts_meter(context, t);
    t->failed += list_end(keys);
}

int main(int argc, char **argv) {
    clattn_context *context = NULL;
    clattn_device_info info;
    tally t = {.reports = tmpfile()};
    setenv("CLATTN_SELF_TEST", "off", 1); /* Oclgrind says that it is a GPU, and takes minutes for its products */
    if (!t.reports || clattn_context_create("opencl", NULL, &context) != CLATTN_OK ||
        clattn_context_info(context, &info) != CLATTN_OK) {
        printf("FAILED %s\n0 passed, 1 failed\n", t.reports ? clattn_last_error() : "no temporary file");
        return 1;
    }
    printf("device: %s\n", info.name);
    if (argc > 1 && strcmp(argv[1], "list") == 0) {
        list_all(context, argc > 2, &t);
        goto done;
    }
    if (argc == 2 && strcmp(argv[1], "ops") == 0) {
        ops_check(take_op, &t);
        goto done;
    }
    if (argc == 2 && strcmp(argv[1], "random") == 0) {
        parts_random(&t);
        parts_read(&t);
        check_more(1, NULL, true, &t);
        goto done;
    }
    if (argc > 1 && strcmp(argv[1], "more") == 0) {
        check_more(argc - 1, argv + 1, false, &t);
        goto done;
    }
    check_type(context, CLATTN_F32, argc, argv, &t);
    parts_meter(context, &t);
    if (info.has_f64)
        check_type(context, CLATTN_F64, argc, argv, &t);
done:
    clattn_context_destroy(context);
    tally_write_log(&t);
    fclose(t.reports);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return t.failed > 0;
}
