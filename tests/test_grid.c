/* SPDX-License-Identifier: Apache-2.0 */
/* The grid: every algorithm against the oracle, on problems in which each pair of option values occurs at least once.
 * Prints, for each type, how many configurations ran and how many programs each algorithm built. */
#include "oracle.h"
#include "runtime/program.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_RUNS = 2500, MOST_BUILDS = 60 }; /* of a type: over the algorithms, and of each */

/* ---- options ---- */

static const int64_t sizes[] = {1, 3, 7, 17, 33, 65, 127};
static const int64_t dims[] = {1, 5, 8, 20, 40, 64, 80, 96, 128, 192, 256, 320, 512};
static const struct { int64_t H, Hk; } heads[] = {{1, 1}, {2, 2}, {2, 1}, {6, 2}, {3, 1}, {8, 1}};

enum {
    CAUSAL_TOP,
    CAUSAL_BOTTOM,
    CAUSAL_OFFSET,
    WINDOW_BOTH,
    WINDOW_LEFT,
    WINDOW_RIGHT,
    LENGTHS,
    KEEP,
    DROP,
    BIAS,
    KINDS
};
/* Two kinds, the same twice for a kind alone; KINDS for none. */
static struct { int a, b; } mask_sets[1 + KINDS * (KINDS + 1) / 2];

static int group_of(int kind) { return kind <= CAUSAL_OFFSET ? 0 : kind <= WINDOW_RIGHT ? 1 : kind; }

static int make_mask_sets(void) {
    int count = 0;
    mask_sets[count].a = mask_sets[count].b = KINDS;
    count++;
    for (int a = 0; a < KINDS; a++)
        for (int b = a; b < KINDS; b++)
            if (a == b || group_of(a) != group_of(b)) {
                mask_sets[count].a = a;
                mask_sets[count++].b = b;
            }
    return count;
}

/* ---- rows that cover every pair of values ---- */

#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))
enum { F_N, F_M, F_D, F_DV, F_HEADS, F_MASKS, F_LAYOUT, F_BUFFERS, F_LSE, F_WEIGHTS, F_SCALE, FACTORS };
enum { VALUES = 128, MOST_ROWS = 2000 };

typedef struct {
    int level[FACTORS];
} row;

typedef struct {
    int levels[FACTORS], first[FACTORS]; /* values are numbered through: first[f] + level */
    bool covered[VALUES][VALUES];
    oracle_random random;
    int count;
    row rows[MOST_ROWS];
} design;

static void set_levels(design *d) {
    const int levels[FACTORS] = {[F_N] = COUNT(sizes),
                                 [F_M] = COUNT(sizes),
                                 [F_D] = COUNT(dims),
                                 [F_DV] = COUNT(dims),
                                 [F_HEADS] = COUNT(heads),
                                 [F_MASKS] = make_mask_sets(),
                                 [F_BUFFERS] = 2,
                                 [F_LAYOUT] = ORACLE_LAYOUTS,
                                 [F_LSE] = 2,
                                 [F_WEIGHTS] = 2,
                                 [F_SCALE] = 3};
    int first = 0;
    for (int f = 0; f < FACTORS; f++) {
        d->levels[f] = levels[f];
        d->first[f] = first;
        first += levels[f];
    }
    cr_assert_leq(first, VALUES);
}

/* How many pairs with the factors that are set a level would cover for the first time. */
static int gain(const design *d, const row *r, int factor, int level) {
    int n = 0;
    for (int f = 0; f < FACTORS; f++)
        if (f != factor && r->level[f] >= 0)
            n += !d->covered[d->first[factor] + level][d->first[f] + r->level[f]];
    return n;
}

static int best_level(design *d, const row *r, int factor) {
    int best = 0, most = -1;
    const int start = (int)oracle_below(&d->random, d->levels[factor]);
    for (int i = 0; i < d->levels[factor]; i++) {
        const int level = (start + i) % d->levels[factor], n = gain(d, r, factor, level);
        if (n > most) {
            most = n;
            best = level;
        }
    }
    return best;
}

static void add_row(design *d, row r) {
    const int start = (int)oracle_below(&d->random, FACTORS);
    for (int i = 0; i < FACTORS; i++) {
        const int f = (start + i) % FACTORS;
        if (r.level[f] < 0)
            r.level[f] = best_level(d, &r, f);
    }
    for (int f = 0; f < FACTORS; f++)
        for (int g = 0; g < FACTORS; g++)
            d->covered[d->first[f] + r.level[f]][d->first[g] + r.level[g]] = true;
    cr_assert_lt(d->count, MOST_ROWS);
    d->rows[d->count++] = r;
}

/* Each pair of values that is not covered yet starts a row, which then takes in as many more as it can. */
static design *make_design(uint64_t seed) {
    design *d = calloc(1, sizeof *d);
    cr_assert_not_null(d);
    d->random.state = seed;
    set_levels(d);
    for (int f = 0; f < FACTORS; f++)
        for (int g = f + 1; g < FACTORS; g++)
            for (int a = 0; a < d->levels[f]; a++)
                for (int b = 0; b < d->levels[g]; b++) {
                    row r;
                    memset(r.level, -1, sizeof r.level);
                    r.level[f] = a;
                    r.level[g] = b;
                    if (!d->covered[d->first[f] + a][d->first[g] + b])
                        add_row(d, r);
                }
    return d;
}

/* ---- from a row to a problem ---- */

/* All ranks and broadcast shapes in turn: 4 of rank 2, 8 of rank 3, 16 of rank 4. */
static oracle_mask next_mask(int *turn) {
    const int n = (*turn)++ * 5 % 28;
    return n < 4    ? (oracle_mask){2, (unsigned)n}
           : n < 12 ? (oracle_mask){3, (unsigned)n - 4}
                    : (oracle_mask){4, (unsigned)n - 12};
}

static void add_kind(oracle_config *c, int kind, oracle_random *random, int *turn) {
    static const clattn_align aligns[] = {CLATTN_ALIGN_TOP_LEFT, CLATTN_ALIGN_BOTTOM_RIGHT, CLATTN_ALIGN_OFFSET};
    const int64_t reach = (c->N > c->M ? c->N : c->M) / 2 + 2;
    if (kind <= CAUSAL_OFFSET) {
        c->causal = true;
        c->align = aligns[kind];
    } else if (kind <= WINDOW_RIGHT) {
        c->has_window = true;
        c->window_left = kind == WINDOW_RIGHT ? CLATTN_UNLIMITED : oracle_below(random, reach);
        c->window_right = kind == WINDOW_LEFT ? CLATTN_UNLIMITED : oracle_below(random, reach);
        if (c->align == CLATTN_ALIGN_UNSET)
            c->align = aligns[oracle_below(random, 3)];
    }
    c->lengths |= kind == LENGTHS;
    if (kind == KEEP)
        c->keep = next_mask(turn);
    if (kind == DROP)
        c->drop = next_mask(turn);
    if (kind == BIAS)
        c->bias = next_mask(turn);
}

static oracle_config config_of(const row *r, clattn_dtype dtype, uint64_t seed, int *turn) {
    static const double scales[] = {0, -0.7, 0.19};
    static const int64_t guards[] = {13, 16, 64};
    oracle_random random = {seed};
    oracle_config c = {.dtype = dtype,
                       .H = heads[r->level[F_HEADS]].H,
                       .Hk = heads[r->level[F_HEADS]].Hk,
                       .N = sizes[r->level[F_N]],
                       .M = sizes[r->level[F_M]],
                       .D = dims[r->level[F_D]],
                       .Dv = dims[r->level[F_DV]],
                       .layout = (oracle_layout)r->level[F_LAYOUT],
                       .guard = guards[seed % 3],
                       .buffers = r->level[F_BUFFERS] == 1,
                       .lse = r->level[F_LSE] == 1,
                       .weights = r->level[F_WEIGHTS] == 1,
                       .has_scale = r->level[F_SCALE] > 0,
                       .scale = scales[r->level[F_SCALE]],
                       .seed = seed};
    c.B = c.N * c.M * (c.D + c.Dv) * c.H > 4000000 ? 1 : 1 + oracle_below(&random, 3);
    add_kind(&c, mask_sets[r->level[F_MASKS]].a, &random, turn);
    add_kind(&c, mask_sets[r->level[F_MASKS]].b, &random, turn);
    return c;
}

/* ---- running ---- */

typedef struct {
    int runs, failures, refusals;
} tally;

static void run_one(oracle_case *c, const oracle_runner *runner, tally *t) {
    char text[ORACLE_TEXT];
    const char *reason = "";
    if (!oracle_applies(c, runner, &reason)) {
        if (t->refusals++ == 0)
            fprintf(stderr, "grid: %s refuses %s: %s\n", runner->algorithm, oracle_text(&c->config, text), reason);
    } else {
        t->runs++;
        if (!(oracle_run(c, runner->context, runner->algorithm, text) && oracle_compare(c, runner->algorithm, text)) &&
            t->failures++ < 10)
            fprintf(stderr, "grid: %s\n", text);
    }
}

static void run_grid(clattn_dtype dtype, uint64_t seed) {
    oracle_runner runners[ORACLE_RUNNERS];
    tally tallies[ORACLE_RUNNERS] = {{0}};
    const size_t n = oracle_open(runners);
    design *d = make_design(seed);
    int turn = 0, runs = 0, failures = 0;
    for (int i = 0; i < d->count; i++) {
        char text[ORACLE_TEXT];
        const oracle_config config = config_of(&d->rows[i], dtype, seed + (uint64_t)i, &turn);
        oracle_case *c = oracle_make(&config);
        cr_expect(oracle_exact(c, text), "%s", text);
        for (size_t r = 0; r < n; r++)
            if (dtype == CLATTN_F32 || runners[r].has_f64)
                run_one(c, &runners[r], &tallies[r]);
        oracle_free(c);
    }
    printf("grid %s: %d problems with every pair of option values\n", clattn_dtype_name(dtype), d->count);
    for (size_t r = 0; r < n; r++) {
        const size_t builds = cla_program_builds(runners[r].context);
        printf("grid %s: %-12s %d configurations, %d failed, %d refused, %zu program builds\n",
               clattn_dtype_name(dtype), runners[r].algorithm, tallies[r].runs, tallies[r].failures,
               tallies[r].refusals, builds);
        cr_expect_leq(builds, MOST_BUILDS, "%s", runners[r].algorithm);
        cr_expect_eq(tallies[r].refusals, 0, "%s", runners[r].algorithm);
        runs += tallies[r].runs;
        failures += tallies[r].failures;
    }
    printf("grid %s: %d configurations over the algorithms, %d failed\n", clattn_dtype_name(dtype), runs, failures);
    fflush(stdout);
    oracle_close(runners, n);
    free(d);
    cr_assert_eq(failures, 0);
    cr_assert_geq(runs, LEAST_RUNS);
}

Test(grid, every_pair_of_options_in_f32_agrees_with_the_oracle) { run_grid(CLATTN_F32, 32000); }
Test(grid, every_pair_of_options_in_f64_agrees_with_the_oracle) { run_grid(CLATTN_F64, 64000); }
