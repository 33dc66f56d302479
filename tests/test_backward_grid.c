/* SPDX-License-Identifier: Apache-2.0 */
/* The grid of the backward pass: exact gradients against central differences, then every algorithm against them, on
 * problems in which each pair of values of options, sizes and types occurs. Prints what ran and what was refused. */
#include "oracle.h"
#include "pairs.h"
#include <stdio.h>
#include <string.h>

enum {
    LEAST = 1000,
    THIN = 8
}; /* problems of each type of sums; fused_tiles, not written for CPUs, has every THINth */

static const int64_t sizes[] = {1, 3, 7, 17, 33};
static const int64_t dims[] = {1, 5, 8, 16, 20, 40};
static const struct { int64_t H, Hk; } heads[] = {{1, 1}, {2, 2}, {2, 1}, {6, 2}, {3, 1}};
static const double scales[] = {0, -0.7, 0.19}; /* the first: none given */
static const double caps[] = {0, 0.9, 12};
static const double dropouts[] = {0, 0.1, 0.75};
static const clattn_dtype types[] = {CLATTN_F32, CLATTN_F16, CLATTN_BF16, CLATTN_F64};

#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))
enum { NO_WINDOW, WINDOW_BOTH, WINDOW_LEFT, WINDOW_RIGHT, WINDOWS };
enum { CALL, PLAN, PLAN_WORKSPACE, CALLS };
enum {
    F_N,
    F_M,
    F_D,
    F_DV,
    F_HEADS,
    F_LAYOUT,
    F_CALL,
    F_SCALE,
    F_CAP,
    F_DROPOUT,
    F_CAUSAL,
    F_ALIGN,
    F_WINDOW,
    F_LENGTHS,
    F_KEEP,
    F_DROP,
    F_BIAS,
    F_ALIBI,
    F_SINKS,
    F_QUERY_LENGTHS,
    F_PREFIX,
    F_SEGMENTS,
    F_SEQUENCES,
    F_SHORT,
    F_WITHOUT, /* the gradient that is not asked for; 0: all are */
    F_Q_TYPE,
    F_K_TYPE,
    F_V_TYPE,
    F_O_TYPE,
    F_BIAS_TYPE,
    FACTORS
};

static pairs_design *make_design(clattn_dtype sums, bool mixed, uint64_t seed) {
    static const int without_sequences[] = {F_KEEP, F_DROP, F_BIAS, F_QUERY_LENGTHS, F_SHORT};
    const int storage = mixed ? COUNT(types) - 1 + (sums == CLATTN_F64) : 1;
    int levels[FACTORS] = {[F_N] = COUNT(sizes), [F_M] = COUNT(sizes),      [F_D] = COUNT(dims),
                           [F_DV] = COUNT(dims), [F_HEADS] = COUNT(heads),  [F_LAYOUT] = ORACLE_LAYOUTS,
                           [F_CALL] = CALLS,     [F_SCALE] = COUNT(scales), [F_CAP] = COUNT(caps),
                           [F_ALIGN] = 3,        [F_WINDOW] = WINDOWS,      [F_DROPOUT] = COUNT(dropouts),
                           [F_WITHOUT] = 4,      [F_Q_TYPE] = storage,      [F_K_TYPE] = storage,
                           [F_V_TYPE] = storage, [F_O_TYPE] = storage,      [F_BIAS_TYPE] = storage};
    for (int f = 0; f < FACTORS; f++)
        levels[f] = levels[f] ? levels[f] : 2;
    pairs_design *d = pairs_start(FACTORS, levels, seed);
    pairs_exclude(d, F_PREFIX, 1, F_CAUSAL, 0);
    for (int i = 0; i < COUNT(without_sequences); i++)
        pairs_exclude(d, F_SEQUENCES, 1, without_sequences[i], 1);
    pairs_cover(d);
    return d;
}

static void add_masks(oracle_config *c, const int *level, oracle_random *random, int *turn) {
    const int64_t reach = (c->N > c->M ? c->N : c->M) / 2 + 2;
    c->causal = level[F_CAUSAL] == 1;
    c->align = (clattn_align)(CLATTN_ALIGN_TOP_LEFT + level[F_ALIGN]);
    c->has_window = level[F_WINDOW] != NO_WINDOW;
    c->window_left = level[F_WINDOW] == WINDOW_RIGHT ? CLATTN_UNLIMITED : oracle_below(random, reach);
    c->window_right = level[F_WINDOW] == WINDOW_LEFT ? CLATTN_UNLIMITED : oracle_below(random, reach);
    c->lengths = level[F_LENGTHS] == 1;
    c->short_masks = level[F_SHORT] == 1;
    if (level[F_KEEP])
        c->keep = oracle_next_mask(turn);
    if (level[F_DROP])
        c->drop = oracle_next_mask(turn);
    if (level[F_BIAS])
        c->bias = oracle_next_mask(turn);
}

static void add_options(oracle_config *c, const int *level) {
    c->has_scale = level[F_SCALE] > 0;
    c->scale = scales[level[F_SCALE]];
    c->softcap = caps[level[F_CAP]];
    c->dropout = dropouts[level[F_DROPOUT]];
    c->alibi = level[F_ALIBI] == 1;
    c->sinks = level[F_SINKS] == 1;
    c->query_lengths = level[F_QUERY_LENGTHS] == 1;
    c->prefix = level[F_PREFIX] == 1;
    c->segments = level[F_SEGMENTS] == 1;
    c->sequences = level[F_SEQUENCES] == 1;
}

static oracle_config config_of(const int *level, clattn_dtype sums, bool mixed, uint64_t seed, int *turn) {
    oracle_random random = {seed};
    oracle_config c = {.H = heads[level[F_HEADS]].H,
                       .Hk = heads[level[F_HEADS]].Hk,
                       .N = sizes[level[F_N]],
                       .M = sizes[level[F_M]],
                       .D = dims[level[F_D]],
                       .Dv = dims[level[F_DV]],
                       .B = 1 + oracle_below(&random, 3),
                       .layout = (oracle_layout)level[F_LAYOUT],
                       .guard = 13,
                       .buffers = level[F_CALL] != CALL,
                       .caller_workspace = level[F_CALL] == PLAN_WORKSPACE,
                       .dtype = sums,
                       .typed = mixed,
                       .q_type = types[level[F_Q_TYPE]],
                       .k_type = types[level[F_K_TYPE]],
                       .v_type = types[level[F_V_TYPE]],
                       .o_type = types[level[F_O_TYPE]],
                       .bias_type = types[level[F_BIAS_TYPE]],
                       .seed = seed};
    add_masks(&c, level, &random, turn);
    add_options(&c, level);
    if (sums == CLATTN_F64 && c.q_type != sums && c.k_type != sums && c.v_type != sums &&
        !(c.bias.rank && c.bias_type == sums))
        c.o_type = sums;
    return c;
}

/* ---- running ---- */

typedef struct {
    int runs, refused, failures;
    char reason[200];
} tally;

static void run_one(oracle_backward *g, const oracle_runner *runner, tally *t) {
    char text[ORACLE_TEXT];
    const char *reason = "";
    if (!oracle_backward_applies(g, runner, &reason)) {
        t->refused++;
        snprintf(t->reason, sizeof t->reason, "%s", reason);
        return;
    }
    t->runs++;
    if (!(oracle_backward_run(g, runner->context, NULL, runner->algorithm, text) &&
          oracle_backward_compare(g, runner->algorithm, text)) &&
        t->failures++ < 10)
        fprintf(stderr, "backward grid: %s\n", text);
}

static int run_design(clattn_dtype sums, bool mixed, uint64_t seed, const oracle_runner *runners, size_t n,
                      tally *tallies) {
    pairs_design *d = make_design(sums, mixed, seed);
    const int count = d->count;
    int turn = 0;
    for (int i = 0; i < count; i++) {
        char text[ORACLE_TEXT] = "";
        const oracle_config config = config_of(d->rows[i].level, sums, mixed, seed + (uint64_t)i, &turn);
        oracle_case *c = oracle_make(&config);
        oracle_backward *g = oracle_backward_make(c);
        if (d->rows[i].level[F_WITHOUT] > 0)
            g->without[d->rows[i].level[F_WITHOUT] - 1] = true;
        cr_assert_eq(c->config.dtype, sums);
        cr_expect(oracle_backward_exact(g, text), "%s", text);
        cr_expect(oracle_backward_differences(g, text), "%s", text);
        for (size_t r = 0; r < n; r++)
            if ((sums == CLATTN_F32 || runners[r].has_f64) &&
                (i % THIN == 0 || strcmp(runners[r].algorithm, "fused_tiles") != 0))
                run_one(g, &runners[r], &tallies[r]);
        oracle_backward_free(g);
        oracle_free(c);
    }
    free(d);
    return count;
}

/* Designs of both kinds in turn, until there are enough. */
static void run_grid(clattn_dtype sums) {
    oracle_runner runners[ORACLE_RUNNERS];
    tally tallies[ORACLE_RUNNERS] = {{0}};
    const size_t n = oracle_backward_open(runners);
    int problems = 0;
    for (uint64_t turn = 0; turn < 2 || problems < LEAST; turn++)
        problems += run_design(sums, turn % 2 == 0, 71000 * (1 + turn) + (sums == CLATTN_F64), runners, n, tallies);
    printf("backward grid: sums in %s: %d problems agree with central differences\n", clattn_dtype_name(sums),
           problems);
    for (size_t r = 0; r < n; r++) {
        const tally *t = &tallies[r];
        printf("backward grid: sums in %s, %-12s %d ran, %d failed, %d refused%s%s\n", clattn_dtype_name(sums),
               runners[r].algorithm, t->runs, t->failures, t->refused, t->refused ? ": " : "", t->reason);
        cr_expect_eq(t->failures, 0, "%s", runners[r].algorithm);
        cr_expect(t->runs > 0);
    }
    fflush(stdout);
    oracle_close(runners, n);
}

Test(backward_grid, every_pair_of_options_with_sums_in_f32_agrees_with_central_differences) { run_grid(CLATTN_F32); }
Test(backward_grid, every_pair_of_options_with_sums_in_f64_agrees_with_central_differences) { run_grid(CLATTN_F64); }
