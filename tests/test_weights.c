/* SPDX-License-Identifier: Apache-2.0 */
/* Weights on request: four forms, chosen rows and heads, the mean over heads, column sums and entropy, by every
 * algorithm, against plain loops in double. */
#include "weights_cases.h"

static const weights_config configs[] = {
    {"plain", 1, 1, 1, 5, 7, 4, 4, .causal = false},
    {"causal, grouped", 2, 4, 2, 33, 41, 16, 8, .causal = true},
    {"capped, biased", 2, 3, 3, 50, 67, 24, 5, .bias = true, .softcap = 1.5},
    {"kept, with sinks", 1, 4, 1, 49, 130, 33, 16, .keep = true, .sinks = true},
    {"window, ALiBi, lengths", 3, 2, 2, 40, 100, 64, 64, .window = true, .alibi = true, .key_lengths = true,
     .query_lengths = true},
    {"prefix, segments, dropped", 2, 2, 1, 70, 66, 80, 20, .causal = true, .prefix = true, .segments = true,
     .drop = true},
    {"NaN under a mask", 1, 4, 2, 20, 37, 16, 16, .drop = true, .poison = true},
    {"one query", 2, 8, 2, 1, 300, 64, 64, .causal = true, .key_lengths = true},
    {"f16", 1, 2, 2, 19, 35, 40, 40, CLATTN_F16, CLATTN_F16, CLATTN_F16, .causal = true},
    {"bf16 keys", 2, 2, 1, 50, 65, 48, 32, CLATTN_F32, CLATTN_BF16, CLATTN_F16, .alibi = true, .softcap = 20},
    {"f64", 1, 2, 1, 50, 70, 17, 9, CLATTN_F64, CLATTN_F64, CLATTN_F64, .keep = true, .sinks = true, .softcap = 3},
};
enum { CONFIGS = sizeof configs / sizeof *configs };

/* A case with its exact results and those of the plain evaluation in the type of the sums. */
typedef struct {
    weights_case *c;
    weights_results exact, plain;
} judged;

static judged make(const weights_config *config) {
    judged t = {.c = weights_make(config)};
    t.exact = weights_evaluate(t.c, false);
    t.plain = weights_evaluate(t.c, !weights_wide(config));
    return t;
}

static void release(judged *t) {
    weights_results_free(&t->exact);
    weights_results_free(&t->plain);
    weights_free(t->c);
}

/* Runs f on every algorithm that takes the problem; how many did. */
static int each(const judged *t, void (*f)(const judged *, const oracle_runner *)) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    int ran = 0;
    for (size_t i = 0; i < count; i++)
        if (runners[i].has_f64 || !weights_wide(&t->c->f)) {
            f(t, &runners[i]);
            ran++;
        }
    oracle_close(runners, count);
    return ran;
}

static void on_all(void (*f)(const judged *, const oracle_runner *)) {
    for (int x = 0; x < CONFIGS; x++) {
        judged t = make(&configs[x]);
        cr_expect_geq(each(&t, f), 2, "%s", configs[x].name);
        release(&t);
    }
}

/* A host array for an output, full of NaN. */
static clattn_tensor output(const judged *t, int rank, const int64_t *shape) {
    const clattn_dtype dtype = weights_sums(&t->c->f);
    clattn_tensor view = clattn_tensor_host(NULL, dtype, rank, shape);
    const int64_t count = clattn_tensor_elements(&view);
    view.host = weights_room(count, 8);
    for (int64_t i = 0; i < count; i++)
        cla_store_element(view.host, dtype, i, NAN);
    return view;
}

static double largest(const double *x, int64_t count) {
    double most = 1;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(x[i]) && fabs(x[i]) > most)
            most = fabs(x[i]);
    return most;
}

/* Element i of got is element at[i] of exact (at NULL: i). */
static void compare(const judged *t, const oracle_runner *r, const char *what, const clattn_tensor *got,
                    const double *exact, const double *plain, const int64_t *at) {
    const int64_t count = clattn_tensor_elements(got);
    double allowed = 0, most = 0;
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t x = at ? at[i] : i;
        most = fmax(most, isfinite(exact[x]) ? fabs(exact[x]) : 0);
        if (isfinite(exact[x]))
            allowed = fmax(allowed, 2 * fabs(plain[x] - exact[x]));
    }
    allowed = fmax(allowed, oracle_floor(got->dtype, largest(exact, at ? 0 : count)));
    allowed = fmax(allowed, oracle_floor(got->dtype, most));
    for (int64_t i = 0; i < count; i++) {
        const double x = cla_load_element(got->host, got->dtype, i), right = exact[at ? at[i] : i];
        const bool same = isnan(right) ? isnan(x) : isinf(right) ? x == right : fabs(x - right) <= allowed;
        if (!same && wrong++ < 3)
            cr_expect(false, "%s, %s, %s: element %lld is %.9g, exact %.9g, allowed %.3g", t->c->f.name, r->algorithm,
                      what, (long long)i, x, right, allowed);
    }
    cr_expect_eq(wrong, 0, "%s, %s, %s: %lld of %lld are wrong", t->c->f.name, r->algorithm, what, (long long)wrong,
                 (long long)count);
}

/* ---- forms ---- */

static const char *const form_names[] = {"softmax", "scaled", "capped", "masked"};

static void check_forms(const judged *t, const oracle_runner *r) {
    const weights_config *f = &t->c->f;
    const int64_t shape[4] = {f->B, f->H, f->N, f->M};
    void *o = weights_room(f->B * f->H * f->N * f->Dv, 8);
    for (int form = 0; form < 4; form++) {
        clattn_attention_args a = weights_args(t->c, r->algorithm, o);
        a.weights = output(t, 4, shape);
        a.weights_form = (clattn_weights_form)form;
        SUCCEEDS(clattn_attention(r->context, &a));
        compare(t, r, form_names[form], &a.weights, t->exact.form[form], t->plain.form[form], NULL);
        free(a.weights.host);
    }
    free(o);
}

Test(weights, every_form_is_right_in_every_algorithm) { on_all(check_forms); }
