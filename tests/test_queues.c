/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of the caller's that may run commands out of order gives the bits of one that may not, 200 times, on every
 * algorithm: problems that take several commands each, such as copies, gathering of pages and merging of splits. */
#include "own_queue.h"
#include <stdlib.h>

enum { RUNS = 200 };

static const oracle_config problems[] = {
    {.B = 2,
     .H = 4,
     .Hk = 2,
     .N = 3,
     .M = 700,
     .D = 32,
     .Dv = 40,
     .guard = 5,
     .lse = true,
     .weights = true,
     .causal = true,
     .align = CLATTN_ALIGN_BOTTOM_RIGHT,
     .layout = ORACLE_TRANSPOSED,
     .sinks = true},
    {.B = 2,
     .H = 2,
     .N = 9,
     .M = 600,
     .D = 32,
     .guard = 5,
     .lse = true,
     .typed = true,
     .q_type = CLATTN_F16,
     .k_type = CLATTN_Q8_0,
     .v_type = CLATTN_F16,
     .page_size = 16,
     .softcap = 4,
     .bias = {4, 15}},
    {.B = 3,
     .H = 2,
     .Hk = 1,
     .N = 17,
     .M = 90,
     .D = 8,
     .guard = 5,
     .lse = true,
     .sequences = true,
     .alibi = true,
     .align = CLATTN_ALIGN_BOTTOM_RIGHT,
     .layout = ORACLE_TRANSPOSED,
     .batch_invariant = true},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static size_t bytes_of(const oracle_config *f, int output) {
    const int64_t last[] = {f->Dv, 1, f->M};
    return (size_t)(f->B * f->H * f->N * last[output]) * sizeof(double);
}

static double *output_of(const oracle_case *c, int output) {
    double *const all[] = {c->got.o, c->got.lse, c->got.weights};
    return all[output];
}

/* By the one call and by a plan in turn. What of the outputs differs from the first run is counted. */
static int run(oracle_case *c, clattn_context *context, const char *algorithm, int runs, void *first[3]) {
    char text[ORACLE_TEXT] = "";
    int wrong = 0;
    for (int n = 0; n < runs; n++) {
        c->config.buffers = n % 2 == 1;
        cr_assert(oracle_run(c, context, algorithm, text), "%s", text);
        cr_assert(oracle_compare(c, algorithm, text), "run %d: %s", n, text);
        bool same = true;
        for (int x = 0; x < 3 && output_of(c, x); x++) {
            const size_t bytes = bytes_of(&c->config, x);
            if (!first[x]) {
                first[x] = malloc(bytes);
                memcpy(first[x], output_of(c, x), bytes);
            }
            same = same && memcmp(first[x], output_of(c, x), bytes) == 0;
        }
        wrong += !same;
    }
    return wrong;
}

static void same_bits(const own *o, const char *algorithm) {
    clattn_context *in_order = NULL, *out_of_order = NULL;
    own other = {0};
    char text[ORACLE_TEXT] = "";
    open_own(&other, 0);
    SUCCEEDS(clattn_context_from_opencl(other.context, other.queue, NULL, &in_order));
    SUCCEEDS(clattn_context_from_opencl(o->context, o->queue, NULL, &out_of_order));
    for (int p = 0; p < PROBLEMS; p++) {
        oracle_config config = problems[p];
        config.seed = (uint64_t)p;
        oracle_case *c = oracle_make(&config);
        void *first[3] = {NULL};
        cr_assert(oracle_exact(c, text), "%s", text);
        cr_expect_eq(run(c, in_order, algorithm, 2, first), 0, "%s, in order", algorithm);
        const int wrong = run(c, out_of_order, algorithm, RUNS, first);
        cr_expect_eq(wrong, 0, "%s, out of order: %d of %d runs give other bits", algorithm, wrong, RUNS);
        for (int x = 0; x < 3; x++)
            free(first[x]);
        oracle_free(c);
    }
    clattn_context_destroy(in_order);
    clattn_context_destroy(out_of_order);
    close_own(&other);
}

Test(queues, out_of_order_gives_the_bits_of_in_order_200_times) {
    own o = {0};
    open_own(&o, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    on_each_algorithm(&o, same_bits);
    close_own(&o);
}
