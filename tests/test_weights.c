/* SPDX-License-Identifier: Apache-2.0 */
/* Weights on request: four forms, chosen rows and heads, the mean over heads, column sums and entropy, by every
 * algorithm, against plain loops in double. */
#include "runtime/state.h"
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
    {"q8_0 keys", 1, 4, 2, 37, 50, 96, 32, CLATTN_F16, CLATTN_Q8_0, CLATTN_Q4_0, .causal = true},
    {"many queries", 1, 2, 1, 800, 20, 8, 3, .causal = true, .sinks = true},
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

/* ---- chosen rows and heads ---- */

/* Some of n, in an order of their own; how many. */
static int64_t choose(int64_t n, int64_t *list) {
    int64_t count = 0;
    for (int64_t i = n - 1; i >= 0; i -= 1 + n / 5)
        list[count++] = i;
    if (count > 2) {
        const int64_t first = list[0];
        list[0] = list[count - 1];
        list[count - 1] = first;
    }
    return count;
}

static void check_chosen(const judged *t, const oracle_runner *r) {
    const weights_config *f = &t->c->f;
    int64_t *heads = weights_room(f->H, 8), *queries = weights_room(f->N, 8), n = 0;
    const int64_t nh = choose(f->H, heads), nq = choose(f->N, queries), shape[4] = {f->B, nh, nq, f->M};
    int64_t *at = weights_room(f->B * nh * nq * f->M, 8);
    for (int64_t row = 0; row < f->B * nh * nq; row++)
        for (int64_t j = 0; j < f->M; j++) {
            const int64_t b = row / (nh * nq), h = heads[row / nq % nh], i = queries[row % nq];
            at[n++] = ((b * f->H + h) * f->N + i) * f->M + j;
        }
    void *o = weights_room(f->B * f->H * f->N * f->Dv, 8);
    for (int form = 0; form < 4; form++) {
        clattn_attention_args a = weights_args(t->c, r->algorithm, o);
        a.weights = output(t, 4, shape);
        a.weights_form = (clattn_weights_form)form;
        a.weights_queries = queries;
        a.weights_query_count = nq;
        a.weights_heads = heads;
        a.weights_head_count = nh;
        SUCCEEDS(clattn_attention(r->context, &a));
        compare(t, r, form_names[form], &a.weights, t->exact.form[form], t->plain.form[form], at);
        free(a.weights.host);
    }
    free(o);
    free(at);
    free(heads);
    free(queries);
}

Test(weights, rows_and_heads_can_be_chosen) { on_all(check_chosen); }

/* ---- sums ---- */

/* Of all, and of one head, which is that head alone. Weights are as [B, M, N] in memory. */
static void check_mean(const judged *t, const oracle_runner *r) {
    const weights_config *f = &t->c->f;
    const int64_t turned[4] = {f->B, 1, f->M, f->N}, shape[4] = {f->B, 1, f->N, f->M}, head = f->H - 1;
    const int axes[4] = {0, 1, 3, 2};
    void *o = weights_room(f->B * f->H * f->N * f->Dv, 8);
    clattn_attention_args a = weights_args(t->c, r->algorithm, o);
    clattn_tensor stored = output(t, 4, turned), dense = output(t, 4, shape);
    a.weights_mean = true;
    a.weights = clattn_tensor_permute(stored, axes);
    SUCCEEDS(clattn_attention(r->context, &a));
    for (int64_t x = 0; x < f->B * f->N * f->M; x++) {
        const int64_t b = x / (f->N * f->M), i = x / f->M % f->N, j = x % f->M;
        cla_store_element(dense.host, dense.dtype, x,
                          cla_load_element(stored.host, stored.dtype, (b * f->M + j) * f->N + i));
    }
    compare(t, r, "mean", &dense, t->exact.mean, t->plain.mean, NULL);
    int64_t *at = weights_room(f->B * f->N * f->M, 8);
    for (int64_t x = 0; x < f->B * f->N * f->M; x++)
        at[x] = (x / (f->N * f->M) * f->H + head) * f->N * f->M + x % (f->N * f->M);
    a.weights = dense;
    a.weights_heads = &head;
    a.weights_head_count = 1;
    SUCCEEDS(clattn_attention(r->context, &a));
    compare(t, r, "mean of one head", &dense, t->exact.form[0], t->plain.form[0], at);
    free(at);
    free(stored.host);
    free(dense.host);
    free(o);
}

Test(weights, their_mean_over_heads_is_right) { on_all(check_mean); }

static void check_sums(const judged *t, const oracle_runner *r) {
    const weights_config *f = &t->c->f;
    const int64_t columns[3] = {f->B, f->H, f->M}, rows[3] = {f->B, f->H, f->N}, shape[4] = {f->B, f->H, 1, f->M};
    const int64_t last = f->N - 1;
    int64_t *at = weights_room(f->B * f->H * f->M, 8);
    void *o = weights_room(f->B * f->H * f->N * f->Dv, 8);
    clattn_attention_args a = weights_args(t->c, r->algorithm, o);
    a.column_sums = output(t, 3, columns);
    a.entropy = output(t, 3, rows);
    a.weights = output(t, 4, shape);
    a.weights_queries = &last;
    a.weights_query_count = 1;
    for (int64_t x = 0; x < f->B * f->H * f->M; x++)
        at[x] = (x / f->M * f->N + last) * f->M + x % f->M;
    SUCCEEDS(clattn_attention(r->context, &a));
    compare(t, r, "column_sums", &a.column_sums, t->exact.columns, t->plain.columns, NULL);
    compare(t, r, "entropy", &a.entropy, t->exact.entropy, t->plain.entropy, NULL);
    compare(t, r, "last row", &a.weights, t->exact.form[0], t->plain.form[0], at);
    free(a.column_sums.host);
    free(a.entropy.host);
    free(a.weights.host);
    free(at);
    free(o);
}

Test(weights, column_sums_and_entropy_are_right) { on_all(check_sums); }

/* ---- bits ---- */

static bool same_bits(const clattn_tensor *x, int64_t i, const clattn_tensor *y, int64_t j, int64_t n) {
    const size_t size = clattn_dtype_size(x->dtype);
    return memcmp((char *)x->host + (size_t)i * size, (char *)y->host + (size_t)j * size, (size_t)n * size) == 0;
}

/* A chosen row has the bits that it has among all, and two runs have the same. */
static void check_bits(const judged *t, const oracle_runner *r) {
    const weights_config *f = &t->c->f;
    const int64_t rows = f->B * f->H, query = f->N / 2, shape[4] = {f->B, f->H, f->N, f->M};
    const int64_t one[4] = {f->B, f->H, 1, f->M}, columns[3] = {f->B, f->H, f->M};
    void *o = weights_room(rows * f->N * f->Dv, 8);
    clattn_tensor all = output(t, 4, shape), chosen = output(t, 4, one);
    clattn_attention_args a = weights_args(t->c, r->algorithm, o);
    clattn_tensor sums[2] = {output(t, 3, columns), output(t, 3, columns)};
    a.batch_invariant = true;
    for (int run = 0; run < 2; run++) {
        a.weights = run ? chosen : all;
        a.weights_queries = run ? &query : NULL;
        a.weights_query_count = run;
        a.column_sums = sums[run];
        SUCCEEDS(clattn_attention(r->context, &a));
    }
    /* materialised writes all rows itself, and asks the pass for one of them. */
    for (int64_t row = 0; strcmp(r->algorithm, "materialised") != 0 && row < rows; row++)
        cr_expect(same_bits(&all, (row * f->N + query) * f->M, &chosen, row * f->M, f->M), "%s, %s: row %lld", f->name,
                  r->algorithm, (long long)row);
    cr_expect(same_bits(&sums[0], 0, &sums[1], 0, rows * f->M), "%s, %s: column sums", f->name, r->algorithm);
    free(all.host);
    free(chosen.host);
    free(sums[0].host);
    free(sums[1].host);
    free(o);
}

Test(weights, a_chosen_row_has_the_bits_that_it_has_among_all) {
    static const int used[] = {1, 4, 5, 10, 12};
    for (size_t x = 0; x < sizeof used / sizeof *used; x++) {
        judged t = make(&configs[used[x]]);
        cr_expect_geq(each(&t, check_bits), 2);
        release(&t);
    }
}

/* ---- other devices ---- */

typedef struct {
    clattn_device_class device_class;
    uint32_t vector_floats;
    uint64_t local_bytes, work_group;
} told;

/* The pass as it is on another device, which the context is told that its own is. */
static void check_as(const told *device) {
    static const int used[] = {4, 6, 9, 10, 11, 12};
    oracle_runner r = {.algorithm = "materialised",
                       .is_opencl = true}; /* asks nothing else of the device but for CLBlast */
    if (device->work_group < 64)
        r.algorithm = "fused_lanes";
    clattn_device_info info;
    SUCCEEDS(clattn_context_create("opencl", NULL, &r.context));
    SUCCEEDS(clattn_context_info(r.context, &info));
    r.context->info.device_class = device->device_class;
    r.context->info.vector_floats = device->vector_floats;
    r.context->info.local_bytes = device->local_bytes;
    r.context->info.max_work_group = device->work_group;
    for (size_t x = 0; x < sizeof used / sizeof *used; x++) {
        if (weights_wide(&configs[used[x]]) && !info.has_f64)
            continue;
        judged t = make(&configs[used[x]]);
        check_sums(&t, &r);
        check_mean(&t, &r);
        check_chosen(&t, &r);
        release(&t);
    }
    clattn_context_destroy(r.context);
}

/* Of a device that is no CPU, and of CPUs with other vectors. */
Test(weights, tiles_of_other_devices_are_right) {
    static const told devices[] = {{CLATTN_DEVICE_GPU, 4, 1 << 17, 1024},
                                   {CLATTN_DEVICE_CPU, 4, 1 << 17, 1024},
                                   {CLATTN_DEVICE_CPU, 8, 1 << 17, 1024},
                                   {CLATTN_DEVICE_CPU, 16, 1 << 17, 1024}};
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        check_as(&devices[d]);
}

/* Tiles for CPUs take 53 KB, and twice that in f64; those for other devices take groups of 64. */
Test(weights, tiles_of_little_local_memory_are_right) {
    check_as(&(told){CLATTN_DEVICE_CPU, 16, 1 << 15, 1024});
    check_as(&(told){CLATTN_DEVICE_OTHER, 4, 1 << 14, 32});
}
