/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the tables of docs/numerics.md: the largest error of every algorithm on this machine, by type and number of
 * keys, against double (long double for f64), and how much of what is allowed that is. Not a test: the grid is.
 *   accuracy [queries]        64 of them unless said */
#include "oracle.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t keys[] = {128, 1024, 4096, 16384};
enum { KEYS = sizeof keys / sizeof *keys };

typedef struct {
    double o, lse, o_share, lse_share; /* largest errors, O over max|V|; and over what is allowed */
    bool ran;
} result;

static double largest_error(const double *got, const double *exact, int64_t count) {
    double error = 0;
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - exact[i]) <= error))
            error = fabs(got[i] - exact[i]);
    return error;
}

static double largest(const double *x, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

/* false, with the reason on stderr, when a run fails. */
static bool measure(oracle_case *c, const oracle_runner *r, result *out) {
    const oracle_config *f = &c->config;
    const int64_t rows = f->B * f->H * f->N;
    char text[ORACLE_TEXT] = "";
    if (!oracle_applies(c, r, NULL))
        return true;
    if (!oracle_run(c, r->context, r->algorithm, text)) {
        fprintf(stderr, "%s\n", text);
        return false;
    }
    const double o = largest_error(c->got.o, c->exact.o, rows * f->Dv),
                 lse = largest_error(c->got.lse, c->exact.lse, rows);
    *out = (result){o / largest(c->v, f->B * f->Hk * f->M * f->Dv), lse, o / c->allowed.o, lse / c->allowed.lse, true};
    return true;
}

static void print(const char *type, const oracle_runner *runners, size_t count, result (*results)[KEYS]) {
    for (size_t i = 0; i < count; i++) {
        if (!results[i][0].ran)
            continue;
        printf("| %s | `%s`", type, runners[i].algorithm);
        for (int k = 0; k < KEYS; k++)
            printf(" | %.1e (%.2f)", results[i][k].o, results[i][k].o_share);
        printf(" | %.1e (%.2f) |\n", results[i][KEYS - 1].lse, results[i][KEYS - 1].lse_share);
    }
}

/* One table: all types, with scores of that size. */
static bool table(const char *title, double scale, int64_t queries, const oracle_runner *runners, size_t count) {
    static const clattn_dtype types[] = {CLATTN_F32, CLATTN_F16, CLATTN_BF16, CLATTN_F64};
    char text[ORACLE_TEXT] = "";
    printf("\n%s\n\n| type | algorithm", title);
    for (int k = 0; k < KEYS; k++)
        printf(" | %d keys", (int)keys[k]);
    printf(" | LSE, %d keys |\n|---|---|---|---|---|---|---|\n", (int)keys[KEYS - 1]);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        result results[ORACLE_RUNNERS][KEYS] = {{{0}}};
        for (int k = 0; k < KEYS; k++) {
            const clattn_dtype dtype = types[t];
            const oracle_config config = {.dtype = dtype == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32,
                                          .typed = true,
                                          .q_type = dtype,
                                          .k_type = dtype,
                                          .v_type = dtype,
                                          .o_type = dtype,
                                          .N = queries,
                                          .M = keys[k],
                                          .D = 64,
                                          .lse = true,
                                          .has_scale = true,
                                          .scale = scale,
                                          .seed = 5};
            oracle_case *c = oracle_make(&config);
            bool right = oracle_exact(c, text);
            if (!right)
                fprintf(stderr, "%s\n", text);
            for (size_t i = 0; right && i < count; i++)
                if (dtype != CLATTN_F64 || runners[i].has_f64)
                    right = measure(c, &runners[i], &results[i][k]);
            oracle_free(c);
            if (!right)
                return false;
        }
        print(clattn_dtype_name(types[t]), runners, count, results);
        fflush(stdout);
    }
    return true;
}

int main(int argc, char **argv) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    const long queries = argc > 1 ? strtol(argv[1], NULL, 10) : 64;
    if (queries < 1 || queries > 4096) {
        fprintf(stderr, "accuracy: %s queries; 1 to 4096\n", argv[1]);
        return 2;
    }
    const bool right = table("Scores of standard deviation 1:", 0.125, queries, runners, count) &&
                       table("Scores of standard deviation 8, so that few keys decide:", 1, queries, runners, count);
    oracle_close(runners, count);
    return right ? 0 : 1;
}
