/* SPDX-License-Identifier: Apache-2.0 */
/* What a context keeps between calls of clattn_attention: plans are found again by all that they are made of, and keep
 * nothing of the caller's. */
#include "attention/plan_cache.h"
#include "oracle.h"
#include "testing.h"
#include <clattn/clattn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static clattn_context *opened(const char *device) {
    clattn_context *context = NULL;
    if (clattn_context_create(device, NULL, &context) == CLATTN_E_NO_DEVICE)
        cr_skip_test("no OpenCL device");
    cr_assert_not_null(context, "%s", clattn_last_error());
    return context;
}

static const char *const devices[] = {"cpu", "opencl"};

/* Problems that differ in one thing; those behind a line that says `array` in the contents of an array alone. */
static const oracle_config variants[] = {
    {.B = 2, .H = 2, .N = 6, .D = 8, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .seed = 2},
    {.B = 1, .H = 4, .N = 6, .D = 8, .seed = 1},
    {.B = 2, .H = 2, .Hk = 1, .N = 6, .D = 8, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .M = 7, .D = 8, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 7, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .Dv = 9, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .layout = ORACLE_BSHD, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .layout = ORACLE_PACKED, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .lse = true, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .has_scale = true, .scale = 0.5, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .has_scale = true, .scale = -0.5, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .causal = true, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .causal = true, .align = CLATTN_ALIGN_OFFSET, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .causal = true, .align = CLATTN_ALIGN_OFFSET, .seed = 5}, /* array */
    {.B = 2, .H = 2, .N = 6, .D = 8, .has_window = true, .window_left = 1, .window_right = 1, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .has_window = true, .window_left = 2, .window_right = 1, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .has_window = true, .window_left = 1, .window_right = 2, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .lengths = true, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .lengths = true, .seed = 3},                /* array */
    {.B = 2, .H = 2, .N = 6, .D = 8, .query_lengths = true, .seed = 1},          /* array */
    {.B = 2, .H = 2, .N = 6, .D = 8, .causal = true, .prefix = true, .seed = 1}, /* array */
    {.B = 2, .H = 2, .N = 6, .D = 8, .softcap = 2, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .softcap = 3, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .alibi = true, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .sinks = true, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .segments = true, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .segments = true, .seed = 4}, /* array */
    {.B = 2, .H = 2, .N = 6, .D = 8, .keep = {4, 15}, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .keep = {2, 3}, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .drop = {2, 3}, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .bias = {2, 3}, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .batch_invariant = true, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .sequences = true, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .D = 8, .sequences = true, .seed = 6}, /* array */
    {.B = 2, .H = 2, .N = 6, .M = 8, .D = 8, .lengths = true, .page_size = 4, .seed = 1},
    {.B = 2, .H = 2, .N = 6, .M = 8, .D = 8, .lengths = true, .page_size = 4, .seed = 7}, /* array */
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* Each is right whatever ran before it, forwards and backwards: a plan of another problem would be wrong. */
Test(plan_cache, a_plan_serves_no_problem_but_its_own) {
    for (int d = 0; d < 2; d++) {
        clattn_context *context = opened(devices[d]);
        for (int i = 0; i < 3 * VARIANTS; i++) {
            const int v = i < VARIANTS ? i : i < 2 * VARIANTS ? 2 * VARIANTS - 1 - i : i - 2 * VARIANTS;
            char text[ORACLE_TEXT];
            oracle_case *c = oracle_make(&variants[v]);
            cr_expect(oracle_check(c, context, NULL, text), "%s, variant %d: %s", devices[d], v, text);
            oracle_free(c);
        }
        cr_expect_eq(cla_plan_kept(context), 32, "%d", cla_plan_kept(context));
        clattn_context_destroy(context);
    }
}

/* ---- which plans are kept ---- */

enum { N = 4, D = 4, COUNT = N * D };
typedef struct {
    float q[COUNT], k[COUNT], v[COUNT], o[COUNT];
    clattn_attention_args args;
} call;

static void make(call *c, int64_t n) {
    const int64_t shape[4] = {1, 1, n, D};
    for (int i = 0; i < COUNT; i++) {
        c->q[i] = c->k[i] = (float)(i % 5) - 2;
        c->v[i] = (float)i;
        c->o[i] = -1;
    }
    c->args = (clattn_attention_args){.q = clattn_tensor_host(c->q, CLATTN_F32, 4, shape),
                                      .k = clattn_tensor_host(c->k, CLATTN_F32, 4, shape),
                                      .v = clattn_tensor_host(c->v, CLATTN_F32, 4, shape),
                                      .o = clattn_tensor_host(c->o, CLATTN_F32, 4, shape)};
}

Test(plan_cache, keeps_a_plan_a_problem_until_it_is_trimmed) {
    for (int d = 0; d < 2; d++) {
        clattn_context *context = opened(devices[d]);
        uint64_t bytes = 1, peak;
        static call c, other;
        int64_t lengths[1] = {3};
        make(&c, N);
        make(&other, N);
        cr_expect_eq(cla_plan_kept(context), 0);
        for (int i = 0; i < 3; i++) {
            SUCCEEDS(clattn_attention(context, &c.args));
            SUCCEEDS(clattn_attention(context, &other.args)); /* other arrays, the same problem */
        }
        cr_expect_eq(cla_plan_kept(context), 1);
        c.args.algorithm = d ? "fused_lanes" : "reference";
        SUCCEEDS(clattn_attention(context, &c.args));
        cr_expect_eq(cla_plan_kept(context), 2, "an algorithm by name is another plan");
        c.args.key_lengths = lengths;
        SUCCEEDS(clattn_attention(context, &c.args));
        SUCCEEDS(clattn_attention(context, &c.args));
        cr_expect_eq(cla_plan_kept(context), 3);
        lengths[0] = 2; /* where the same array was */
        SUCCEEDS(clattn_attention(context, &c.args));
        cr_expect_eq(cla_plan_kept(context), 4);
        clattn_context_trim(context);
        cr_expect_eq(cla_plan_kept(context), 0);
        clattn_context_memory(context, &bytes, &peak);
        cr_expect_eq(bytes, 0);
        SUCCEEDS(clattn_attention(context, &c.args));
        cr_expect_eq(cla_plan_kept(context), 1);
        clattn_context_trim(NULL);
        SUCCEEDS(clattn_tuning_set(
            context, &(clattn_tuned){.key = "no such class", .value = "no such variant", .ms = 1, .default_ms = 2}));
        cr_expect_eq(cla_plan_kept(context), 0, "plans follow the record");
        clattn_context_destroy(context);
    }
}

/* As when another thread changes the record during a call. */
Test(plan_cache, keeps_no_plan_that_is_older_than_the_record) {
    for (int round = 0; round < 2; round++) {
        clattn_context *context = opened("cpu");
        static call c;
        const cla_asked asked = {0};
        cla_problem p = {0};
        clattn_plan *plan = NULL;
        make(&c, N);
        SUCCEEDS(cla_problem_init(&p, &c.args));
        SUCCEEDS(cla_plan_take(context, &p, &asked, &plan));
        if (round)
            SUCCEEDS(clattn_tuning_set(
                context,
                &(clattn_tuned){.key = "no such class", .value = "no such variant", .ms = 1, .default_ms = 2}));
        cla_plan_give_back(plan, &asked);
        cr_expect_eq(cla_plan_kept(context), 1 - round);
        clattn_context_destroy(context);
    }
}

Test(plan_cache, keeps_no_plan_of_a_call_that_failed) {
    clattn_context *context = opened("opencl"), *elsewhere = opened("opencl");
    clattn_buffer *foreign = NULL;
    static call c;
    const int64_t shape[4] = {1, 1, N, D};
    make(&c, N);
    c.args.algorithm = "blas";
    FAILS(clattn_attention(context, &c.args), CLATTN_E_UNSUPPORTED, "algorithm blas");
    c.args.algorithm = NULL;
    cr_expect_eq(cla_plan_kept(context), 0);
    SUCCEEDS(clattn_attention(context, &c.args));
    SUCCEEDS(clattn_buffer_create(elsewhere, sizeof c.k, &foreign));
    c.args.k = clattn_tensor_buffer(foreign, CLATTN_F32, 4, shape);
    FAILS(clattn_attention(context, &c.args), CLATTN_E_ARGUMENT, "k: its buffer belongs to another context");
    clattn_buffer_destroy(foreign);
    clattn_context_destroy(elsewhere);
    make(&c, N);
    SUCCEEDS(clattn_attention(context, &c.args));
    clattn_context_destroy(context);
}

/* Buffers of earlier calls are gone, and others in their place, at other offsets. */
Test(plan_cache, keeps_no_buffer_of_the_callers) {
    clattn_context *context = opened("opencl");
    static call c;
    static float wanted[COUNT], got[COUNT];
    make(&c, N);
    SUCCEEDS(clattn_attention(context, &c.args));
    memcpy(wanted, c.o, sizeof wanted);
    const clattn_attention_args host = c.args;
    clattn_tensor *const tensors[4] = {&c.args.q, &c.args.k, &c.args.v, &c.args.o};
    const clattn_tensor *const arrays[4] = {&host.q, &host.k, &host.v, &host.o};
    for (int round = 0; round < 8; round++) {
        clattn_buffer *buffers[4] = {NULL};
        const size_t offset = (size_t)(round * 3) * sizeof(float);
        uint64_t before, after, peak;
        clattn_context_memory(context, &before, &peak);
        for (int i = 0; i < 4; i++) {
            SUCCEEDS(clattn_buffer_create(context, offset + sizeof c.q, &buffers[i]));
            if (i < 3)
                SUCCEEDS(clattn_buffer_upload(buffers[i], offset, arrays[i]->host, sizeof c.q));
            *tensors[i] = *arrays[i];
            tensors[i]->host = NULL;
            tensors[i]->buffer = buffers[i];
            tensors[i]->offset = round * 3;
        }
        SUCCEEDS(clattn_attention(context, &c.args));
        SUCCEEDS(clattn_buffer_download(buffers[3], offset, got, sizeof got));
        cr_expect_arr_eq(got, wanted, sizeof wanted, "round %d", round);
        for (int i = 0; i < 4; i++)
            clattn_buffer_destroy(buffers[i]);
        clattn_context_memory(context, &after, &peak);
        cr_expect_eq(after, before, "round %d", round);
    }
    cr_expect_eq(cla_plan_kept(context), 1);
    clattn_context_destroy(context);
}

/* Pages of this process that are in memory; 0 where the system does not say, and under AddressSanitizer, which keeps
 * what is freed for a while and finds leaks itself. */
static long resident(void) {
#if defined __SANITIZE_ADDRESS__
    return 0;
#endif
    long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &size, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return pages;
}

Test(plan_cache, ten_thousand_calls_take_no_more_memory) {
    clattn_context *context = opened("opencl");
    static call c;
    uint64_t before, after, peak;
    long pages = 0;
    for (int i = 0; i < 12000; i++) {
        make(&c, 1 + i % N);
        SUCCEEDS(clattn_attention(context, &c.args));
        if (i == 2000) {
            clattn_context_memory(context, &before, &peak);
            pages = resident();
        }
    }
    clattn_context_memory(context, &after, &peak);
    cr_expect_eq(after, before);
    cr_expect_eq(cla_plan_kept(context), N);
    cr_expect_leq(resident() - pages, 512, "%ld pages more", resident() - pages);
    clattn_context_destroy(context);
}

/* ---- threads ---- */

enum { THREADS = 6 };
typedef struct {
    clattn_context *context;
    bool right;
} task;

/* All with the same problem, which needs scratch and an array: each must have a plan and scratch of its own. */
static void *attend(void *argument) {
    task *t = argument;
    t->right = true;
    for (uint64_t i = 0; t->right && i < 20; i++) {
        const oracle_config config = {
            .H = 2, .N = 5, .M = 40, .D = 8, .layout = ORACLE_TRANSPOSED, .lengths = true, .seed = 11 + i % 2};
        char text[ORACLE_TEXT];
        oracle_case *c = oracle_make(&config);
        t->right = oracle_check(c, t->context, NULL, text);
        if (i % 7 == 6)
            clattn_context_trim(t->context); /* under the others' feet */
        oracle_free(c);
    }
    return NULL;
}

Test(plan_cache, threads_with_one_problem_do_not_meet) {
    clattn_context *context = opened("opencl");
    static task tasks[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (task){.context = context};
        cr_assert_eq(pthread_create(&threads[i], NULL, attend, &tasks[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        cr_expect(tasks[i].right, "thread %d", i);
    clattn_context_destroy(context);
}
