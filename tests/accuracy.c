/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the tables of docs/numerics.md: the largest error of every algorithm on this machine, by type and number of
 * keys, against double (long double for f64), and how much of what is allowed that is; and that of gradients in f32, of
 * inputs that make some weights large. Not a test: the grids are.
 *   accuracy [queries [folder]]   64 of them unless said; folder: each problem goes there as a safetensors file, by
 * which bench/accuracy.py judges others */
#include "oracle.h"
#include <clattn/io.h>
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

/* q, k, v in their type, the exact O in f64; metadata: what stands in the tables. false, with the reason on stderr. */
static bool save(const oracle_case *c, const char *folder) {
    const oracle_config *f = &c->config;
    const int64_t shapes[4][4] = {
        {f->B, f->H, f->N, f->D}, {f->B, f->Hk, f->M, f->D}, {f->B, f->Hk, f->M, f->Dv}, {f->B, f->H, f->N, f->Dv}};
    const double *const values[4] = {c->q, c->k, c->v, c->exact.o};
    static const char *const names[4] = {"q", "k", "v", "o"};
    clattn_named_array arrays[4] = {{0}};
    char path[1024], scale[40], allowed[40], most[40];
    bool right = true;
    for (int i = 0; i < 4 && right; i++) {
        const clattn_dtype dtype = i < 3 ? f->q_type : CLATTN_F64;
        arrays[i].name = names[i];
        right = clattn_array_create(dtype, 4, shapes[i], &arrays[i].array) == CLATTN_OK &&
                clattn_convert(arrays[i].array.data, dtype, values[i], CLATTN_F64,
                               (size_t)oracle_elements(shapes[i])) == CLATTN_OK;
    }
    snprintf(path, sizeof path, "%s/%s-%lld-%g.safetensors", folder, clattn_dtype_name(f->q_type), (long long)f->M,
             f->scale);
    snprintf(scale, sizeof scale, "%.17g", f->scale);
    snprintf(allowed, sizeof allowed, "%.17g", c->allowed.o);
    snprintf(most, sizeof most, "%.17g", largest(c->v, oracle_elements(shapes[2])));
    const clattn_metadata_pair metadata[] = {{"scale", scale}, {"allowed", allowed}, {"largest", most}};
    right = right && clattn_safetensors_write(path, arrays, 4, metadata, 3) == CLATTN_OK;
    if (!right)
        fprintf(stderr, "accuracy: %s\n", clattn_last_error());
    for (int i = 0; i < 4; i++)
        clattn_array_free(&arrays[i].array);
    return right;
}

/* One table: all types, with scores of that size. */
static bool table(const char *title, double scale, int64_t queries, const char *folder, const oracle_runner *runners,
                  size_t count) {
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
            right = right && (!folder || save(c, folder));
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

/* ---- gradients ---- */

enum { GRADIENT_KEYS = 1024, GRADIENTS = 3 };
static const char *const gradient_names[GRADIENTS] = {"d_q", "d_k", "d_v"};

typedef struct {
    double errors[GRADIENTS], shares[GRADIENTS]; /* over the largest exact number; over what is allowed */
} gradient_result;

static int64_t gradient_count(const oracle_config *f, int i) { return i == 0 ? f->N * f->D : f->M * f->D; }

static gradient_result judge_gradients(const oracle_backward *g) {
    gradient_result r;
    for (int i = 0; i < GRADIENTS; i++) {
        const int64_t count = gradient_count(&g->c->config, i);
        const double error = largest_error(g->got.of[i], g->exact.of[i], count);
        r.errors[i] = error / largest(g->exact.of[i], count);
        r.shares[i] = error / g->allowed[i];
    }
    return r;
}

static void print_gradients(int factor, const char *name, const gradient_result *r) {
    printf("| x%d | `%s` |", factor, name);
    for (int i = 0; i < GRADIENTS; i++)
        printf(" %.1e (%.2f) |", r->errors[i], r->shares[i]);
    printf("\n");
}

/* q, k, v, d_o in f32, exact gradients in f64; metadata: what is allowed of each. */
static bool save_gradients(const oracle_backward *g, const char *folder, int factor) {
    const oracle_config *f = &g->c->config;
    const double *const values[4 + GRADIENTS] = {g->c->q,        g->c->k,        g->c->v,       g->d_o,
                                                 g->exact.of[0], g->exact.of[1], g->exact.of[2]};
    static const char *const names[4 + GRADIENTS] = {"q", "k", "v", "d_o", "d_q", "d_k", "d_v"};
    clattn_named_array arrays[4 + GRADIENTS] = {{0}};
    clattn_metadata_pair metadata[GRADIENTS];
    char path[1024], allowed[GRADIENTS][40];
    bool right = true;
    for (int i = 0; i < 4 + GRADIENTS && right; i++) {
        const int64_t shape[] = {1, 1, i == 0 || i == 3 || i == 4 ? f->N : f->M, f->D};
        const clattn_dtype dtype = i < 4 ? CLATTN_F32 : CLATTN_F64;
        arrays[i].name = names[i];
        right = clattn_array_create(dtype, 4, shape, &arrays[i].array) == CLATTN_OK &&
                clattn_convert(arrays[i].array.data, dtype, values[i], CLATTN_F64, (size_t)oracle_elements(shape)) ==
                    CLATTN_OK;
    }
    for (int i = 0; i < GRADIENTS; i++) {
        snprintf(allowed[i], sizeof allowed[i], "%.17g", g->allowed[i]);
        metadata[i] = (clattn_metadata_pair){gradient_names[i], allowed[i]};
    }
    snprintf(path, sizeof path, "%s/gradients-x%d.safetensors", folder, factor);
    right = right && clattn_safetensors_write(path, arrays, 4 + GRADIENTS, metadata, GRADIENTS) == CLATTN_OK;
    if (!right)
        fprintf(stderr, "accuracy: %s\n", clattn_last_error());
    for (int i = 0; i < 4 + GRADIENTS; i++)
        clattn_array_free(&arrays[i].array);
    return right;
}

/* The inputs times a factor, rounded to f32 again. */
static void multiply(double *x, int64_t count, int factor) {
    for (int64_t i = 0; i < count; i++)
        x[i] *= factor;
    oracle_round(CLATTN_F32, x, count);
}

static bool gradients_of(int factor, int64_t queries, const char *folder, const oracle_runner *runners, size_t count) {
    const oracle_config config = {.dtype = CLATTN_F32, .N = queries, .M = GRADIENT_KEYS, .D = 64, .seed = 6};
    char text[ORACLE_TEXT] = "";
    oracle_case *c = oracle_make(&config);
    oracle_backward *g = oracle_backward_make(c);
    multiply(c->q, queries * 64, factor);
    multiply(c->k, (int64_t)GRADIENT_KEYS * 64, factor);
    multiply(c->v, (int64_t)GRADIENT_KEYS * 64, factor);
    multiply(g->d_o, queries * 64, factor);
    bool right = oracle_backward_exact(g, text);
    for (size_t i = 0; i < count && right; i++) {
        if (!oracle_backward_applies(g, &runners[i], NULL))
            continue;
        right = oracle_backward_run(g, runners[i].context, NULL, runners[i].algorithm, text);
        const gradient_result r = judge_gradients(g);
        if (right)
            print_gradients(factor, runners[i].algorithm, &r);
    }
    if (!right)
        fprintf(stderr, "%s\n", text);
    right = right && (!folder || save_gradients(g, folder, factor));
    oracle_backward_free(g);
    oracle_free(c);
    return right;
}

static bool gradients(int64_t queries, const char *folder) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_backward_open(runners);
    printf("\nGradients in f32, %d keys, of inputs times 1, 3 and 10: scores of standard deviation 1, 9 and 100:\n\n"
           "| inputs | algorithm | dQ | dK | dV |\n|---|---|---|---|---|\n",
           GRADIENT_KEYS);
    bool right = true;
    for (int i = 0; i < 3 && right; i++)
        right = gradients_of((const int[]){1, 3, 10}[i], queries, folder, runners, count);
    oracle_close(runners, count);
    return right;
}

int main(int argc, char **argv) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    const char *folder = argc > 2 ? argv[2] : NULL;
    const long queries = argc > 1 ? strtol(argv[1], NULL, 10) : 64;
    if (queries < 1 || queries > 4096) {
        fprintf(stderr, "accuracy: %s queries; 1 to 4096\n", argv[1]);
        return 2;
    }
    const bool right =
        table("Scores of standard deviation 1:", 0.125, queries, folder, runners, count) &&
        table("Scores of standard deviation 8, so that few keys decide:", 1, queries, folder, runners, count);
    oracle_close(runners, count);
    return right && gradients(queries, folder) ? 0 : 1;
}
