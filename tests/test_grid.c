/* SPDX-License-Identifier: Apache-2.0 */
/* The grid: every algorithm against the oracle, on problems in which each pair of values of the options, sizes and
 * types occurs at least once for the sums of either type. Prints how many configurations ran, what was refused and why,
 * and how many programs each algorithm built. */
#include "oracle.h"
#include "pairs.h"
#include "runtime/program.h"
#include <stdio.h>

/* Of both types together 20,000 configurations; builds are of each algorithm and type. */
enum { LEAST_F32 = 13000, LEAST_F64 = 7000, MOST_BUILDS = 60 };

/* ---- options ---- */

static const int64_t sizes[] = {1, 3, 7, 17, 33, 65, 127};
static const int64_t dims[] = {1, 5, 8, 20, 32, 40, 64, 80, 96, 128, 192, 256, 320, 512};
static const struct { int64_t H, Hk; } heads[] = {{1, 1}, {2, 2}, {2, 1}, {6, 2}, {3, 1}, {8, 1}};
static const double scales[] = {0, -0.7, 0.19}; /* the first: none given */
static const double caps[] = {0, 0.9, 12};
static const int64_t page_sizes[] = {0, 1, 7, 16, 64};
static const clattn_dtype key_types[] = {CLATTN_F32, CLATTN_F16, CLATTN_BF16, CLATTN_Q8_0, CLATTN_Q4_0, CLATTN_F64};
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
    F_LSE,
    F_WEIGHTS,
    F_SCALE,
    F_CAP,
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
    F_PAGES,
    F_INVARIANT,
    F_Q_TYPE,
    F_K_TYPE,
    F_V_TYPE,
    F_O_TYPE,
    F_BIAS_TYPE,
    FACTORS
};

/* What the library refuses of everyone, or what has no meaning. */
static void exclude(pairs_design *d) {
    static const int without_sequences[] = {F_WEIGHTS, F_KEEP, F_DROP, F_BIAS, F_QUERY_LENGTHS};
    pairs_exclude(d, F_PREFIX, 1, F_CAUSAL, 0);
    for (int p = 1; p < COUNT(page_sizes); p++)
        pairs_exclude(d, F_PAGES, p, F_LENGTHS, 0);
    for (int i = 0; i < COUNT(without_sequences); i++)
        pairs_exclude(d, F_SEQUENCES, 1, without_sequences[i], 1);
    for (int t = 0; t < d->levels[F_K_TYPE]; t++)
        for (int i = 0; i < COUNT(dims); i++)
            if (dims[i] % (int64_t)clattn_dtype_length(key_types[t]) != 0) {
                pairs_exclude(d, F_K_TYPE, t, F_D, i);
                pairs_exclude(d, F_V_TYPE, t, F_DV, i);
            }
}

/* mixed: all storage types that go with the sums, else that of the sums alone. */
static pairs_design *make_design(clattn_dtype sums, bool mixed, uint64_t seed) {
    const int wide = sums == CLATTN_F64 ? 1 : 0;
    int levels[FACTORS] = {[F_N] = COUNT(sizes), [F_M] = COUNT(sizes),      [F_D] = COUNT(dims),
                           [F_DV] = COUNT(dims), [F_HEADS] = COUNT(heads),  [F_LAYOUT] = ORACLE_LAYOUTS,
                           [F_CALL] = CALLS,     [F_SCALE] = COUNT(scales), [F_CAP] = COUNT(caps),
                           [F_ALIGN] = 3,        [F_WINDOW] = WINDOWS,      [F_PAGES] = COUNT(page_sizes)};
    for (int f = 0; f < FACTORS; f++)
        levels[f] = levels[f] ? levels[f] : 2;
    for (int f = F_Q_TYPE; f < FACTORS; f++)
        levels[f] = !mixed ? 1 : f == F_K_TYPE || f == F_V_TYPE ? COUNT(key_types) - 1 + wide : COUNT(types) - 1 + wide;
    pairs_design *d = pairs_start(FACTORS, levels, seed);
    exclude(d);
    pairs_cover(d);
    return d;
}

/* ---- from a row to a problem ---- */

static void add_masks(oracle_config *c, const int *level, oracle_random *random, int *turn) {
    const int64_t reach = (c->N > c->M ? c->N : c->M) / 2 + 2;
    c->causal = level[F_CAUSAL] == 1;
    c->align = (clattn_align)(CLATTN_ALIGN_TOP_LEFT + level[F_ALIGN]);
    c->has_window = level[F_WINDOW] != NO_WINDOW;
    c->window_left = level[F_WINDOW] == WINDOW_RIGHT ? CLATTN_UNLIMITED : oracle_below(random, reach);
    c->window_right = level[F_WINDOW] == WINDOW_LEFT ? CLATTN_UNLIMITED : oracle_below(random, reach);
    c->lengths = level[F_LENGTHS] == 1;
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
    c->alibi = level[F_ALIBI] == 1;
    c->sinks = level[F_SINKS] == 1;
    c->query_lengths = level[F_QUERY_LENGTHS] == 1;
    c->prefix = level[F_PREFIX] == 1;
    c->segments = level[F_SEGMENTS] == 1;
    c->sequences = level[F_SEQUENCES] == 1;
    c->page_size = page_sizes[level[F_PAGES]];
    c->batch_invariant = level[F_INVARIANT] == 1;
}

/* One tensor at least is f64 where the sums are to be: o where chance has chosen none. */
static void add_types(oracle_config *c, const int *level, clattn_dtype sums, bool mixed) {
    c->dtype = sums;
    c->typed = mixed;
    c->q_type = types[level[F_Q_TYPE]];
    c->k_type = key_types[level[F_K_TYPE]];
    c->v_type = key_types[level[F_V_TYPE]];
    c->o_type = types[level[F_O_TYPE]];
    c->bias_type = types[level[F_BIAS_TYPE]];
    if (sums == CLATTN_F64 && c->q_type != sums && c->k_type != sums && c->v_type != sums &&
        !(c->bias.rank && c->bias_type == sums))
        c->o_type = sums;
}

static oracle_config config_of(const int *level, clattn_dtype sums, bool mixed, uint64_t seed, int *turn) {
    static const int64_t guards[] = {13, 16, 64};
    oracle_random random = {seed};
    oracle_config c = {.H = heads[level[F_HEADS]].H,
                       .Hk = heads[level[F_HEADS]].Hk,
                       .N = sizes[level[F_N]],
                       .M = sizes[level[F_M]],
                       .D = dims[level[F_D]],
                       .Dv = dims[level[F_DV]],
                       .layout = (oracle_layout)level[F_LAYOUT],
                       .guard = guards[seed % 3],
                       .buffers = level[F_CALL] != CALL,
                       .caller_workspace = level[F_CALL] == PLAN_WORKSPACE,
                       .lse = level[F_LSE] == 1,
                       .weights = level[F_WEIGHTS] == 1,
                       .seed = seed};
    c.B = c.N * c.M * (c.D + c.Dv) * c.H > 2000000 ? 1 : 1 + oracle_below(&random, 3);
    add_masks(&c, level, &random, turn);
    add_options(&c, level);
    add_types(&c, level, sums, mixed);
    return c;
}

/* ---- running ---- */

enum { REASONS = 8 };
typedef struct {
    int runs, failures;
    struct {
        char text[300];
        int count;
    } refusals[REASONS];
} tally;

static void refused(const char *reason, tally *t) {
    int r = 0;
    while (r < REASONS - 1 && t->refusals[r].count > 0 && strcmp(t->refusals[r].text, reason) != 0)
        r++;
    snprintf(t->refusals[r].text, sizeof t->refusals[r].text, "%s", reason);
    t->refusals[r].count++;
}

static void run_one(oracle_case *c, const oracle_runner *runner, tally *t) {
    char text[ORACLE_TEXT];
    const char *reason = "";
    if (!oracle_applies(c, runner, &reason)) {
        refused(reason, t);
        return;
    }
    t->runs++;
    if (!(oracle_run(c, runner->context, runner->algorithm, text) && oracle_compare(c, runner->algorithm, text)) &&
        t->failures++ < 10)
        fprintf(stderr, "grid: %s\n", text);
}

static int run_design(clattn_dtype sums, bool mixed, uint64_t seed, const oracle_runner *runners, size_t n,
                      tally *tallies) {
    pairs_design *d = make_design(sums, mixed, seed);
    const int count = d->count;
    int turn = 0, runs = 0;
    for (int i = 0; i < count; i++) {
        char text[ORACLE_TEXT] = "";
        const oracle_config config = config_of(d->rows[i].level, sums, mixed, seed + (uint64_t)i, &turn);
        oracle_case *c = oracle_make(&config);
        cr_assert_eq(c->config.dtype, sums);
        cr_expect(oracle_exact(c, text), "%s", text);
        for (size_t r = 0; r < n; r++)
            if (sums == CLATTN_F32 || runners[r].has_f64)
                run_one(c, &runners[r], &tallies[r]);
        oracle_free(c);
    }
    for (size_t r = 0; r < n; r++)
        runs += tallies[r].runs;
    printf("grid: sums in %s, %s: %d problems with every pair of option values\n", clattn_dtype_name(sums),
           mixed ? "all storage types" : "storage as the sums", count);
    free(d);
    return runs;
}

static void report(clattn_dtype sums, const oracle_runner *runner, const tally *t) {
    const size_t builds = cla_program_builds(runner->context);
    printf("grid: sums in %s, %-12s %d configurations, %d failed, %zu program builds\n", clattn_dtype_name(sums),
           runner->algorithm, t->runs, t->failures, builds);
    for (int r = 0; r < REASONS && t->refusals[r].count > 0; r++)
        printf("grid:     %d refused: %s\n", t->refusals[r].count, t->refusals[r].text);
    cr_expect_eq(t->refusals[0].count, 0, "%s can do all of these options", runner->algorithm);
    cr_expect_leq(builds, MOST_BUILDS, "%s", runner->algorithm);
    cr_expect_eq(t->failures, 0, "%s", runner->algorithm);
}

/* Designs of both kinds in turn, until there are enough. */
static void run_grid(clattn_dtype sums, int least) {
    oracle_runner runners[ORACLE_RUNNERS];
    tally tallies[ORACLE_RUNNERS] = {{0}};
    const size_t n = oracle_open(runners);
    int runs = 0;
    for (uint64_t turn = 0; turn < 2 || runs < least; turn++)
        runs = run_design(sums, turn % 2 == 0, 32000 * (1 + turn) + (sums == CLATTN_F64), runners, n, tallies);
    for (size_t r = 0; r < n; r++)
        report(sums, &runners[r], &tallies[r]);
    printf("grid: sums in %s: %d configurations\n", clattn_dtype_name(sums), runs);
    fflush(stdout);
    oracle_close(runners, n);
}

Test(grid, every_pair_of_options_with_sums_in_f32_agrees_with_the_oracle) { run_grid(CLATTN_F32, LEAST_F32); }
Test(grid, every_pair_of_options_with_sums_in_f64_agrees_with_the_oracle) { run_grid(CLATTN_F64, LEAST_F64); }
