/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass: exact gradients, what may differ from them, central differences, and running an algorithm. */
#include "oracle_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENOUGH_ROWS = 128 };

static const int tensor_of[ORACLE_GRADIENTS] = {ORACLE_Q, ORACLE_K, ORACLE_V, ORACLE_BIAS, ORACLE_SINKS};
static const char *const gradient_names[ORACLE_GRADIENTS] = {"d_q", "d_k", "d_v", "d_bias", "d_sinks"};

static double *values_of(oracle_case *c, int gradient) {
    double *const all[ORACLE_GRADIENTS] = {c->q, c->k, c->v, c->bias, c->sinks};
    return all[gradient];
}

static int64_t count_of(const oracle_backward *g, int gradient) {
    return oracle_values_count(g->c, tensor_of[gradient]);
}

static clattn_dtype type_of(const oracle_backward *g, int gradient) {
    return oracle_type_of(&g->c->config, tensor_of[gradient]);
}

static bool is_wanted(const oracle_backward *g, int gradient) {
    return values_of(g->c, gradient) && clattn_dtype_length(type_of(g, gradient)) == 1 && !g->without[gradient];
}

/* ---- making ---- */

static oracle_gradients gradients_alloc(const oracle_backward *g) {
    oracle_gradients r = {{0}};
    for (int i = 0; i < ORACLE_GRADIENTS; i++)
        if (values_of(g->c, i))
            r.of[i] = oracle_alloc((size_t)count_of(g, i), sizeof(double));
    return r;
}

static void gradients_free(oracle_gradients *r) {
    for (int i = 0; i < ORACLE_GRADIENTS; i++)
        free(r->of[i]);
    *r = (oracle_gradients){{0}};
}

static bool sees_any(const oracle_case *c, int64_t b, int64_t h, int64_t i) {
    for (int64_t j = 0; j < c->config.M; j++)
        if (oracle_sees(c, b, h, i, j) && oracle_bias(c, b, h, i, j) > -INFINITY)
            return true;
    return false;
}

oracle_backward *oracle_backward_make(oracle_case *c) {
    const oracle_config *f = &c->config;
    oracle_backward *g = oracle_alloc(1, sizeof *g);
    oracle_random random = {f->seed ^ 0x5eed};
    const int64_t rows = f->B * f->H * f->N;
    g->c = c;
    g->d_o = oracle_alloc((size_t)(rows * f->Dv), sizeof *g->d_o);
    for (int64_t x = 0; x < rows * f->Dv; x++)
        g->d_o[x] = oracle_normal(&random);
    oracle_round(f->o_type, g->d_o, rows * f->Dv);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t d = 0; !sees_any(c, row / (f->H * f->N), row / f->N % f->H, row % f->N) && d < f->Dv; d++)
            g->d_o[row * f->Dv + d] = oracle_filler_value(f->filler);
    g->exact = gradients_alloc(g);
    g->got = gradients_alloc(g);
    return g;
}

void oracle_backward_free(oracle_backward *g) {
    if (!g)
        return;
    gradients_free(&g->exact);
    gradients_free(&g->got);
    free(g->d_o);
    free(g);
}

/* ---- exact ---- */

/* Rows of no sequence. */
static void mark_rows(const oracle_backward *g, const oracle_gradients *r) {
    const oracle_config *f = &g->c->config;
    const struct {
        double *x;
        const int64_t *cu;
        int64_t heads, rows, width;
    } list[] = {{r->of[ORACLE_DQ], g->c->cu_queries, f->H, f->N, f->D},
                {r->of[ORACLE_DK], g->c->cu_keys, f->Hk, f->M, f->D},
                {r->of[ORACLE_DV], g->c->cu_keys, f->Hk, f->M, f->Dv}};
    for (int i = 0; i < 3; i++)
        for (int64_t x = 0; list[i].cu && x < f->B * list[i].heads * list[i].rows * list[i].width; x++) {
            const int64_t row = x / list[i].width, b = row / (list[i].heads * list[i].rows);
            if (row % list[i].rows >= list[i].cu[b + 1] - list[i].cu[b])
                list[i].x[x] = NAN;
        }
}

static double largest_of(const double *x, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(x[i]) && fabs(x[i]) > largest)
            largest = fabs(x[i]);
    return largest;
}

/* Three times the error of the plain evaluation, as FlashAttention allows gradients: differences of nearly equal
 * numbers leave more to chance than the forward pass does. */
static void add_order(oracle_backward *g, oracle_order order) {
    oracle_gradients plain = gradients_alloc(g);
    if (g->c->config.dtype == CLATTN_F64)
        oracle_plain_gradients_double(g, order, true, &plain);
    else
        oracle_plain_gradients_float(g, order, true, &plain);
    for (int i = 0; i < ORACLE_GRADIENTS; i++)
        for (int64_t x = 0; plain.of[i] && x < count_of(g, i); x++)
            if (isfinite(g->exact.of[i][x]))
                g->allowed[i] = fmax(g->allowed[i], 3 * fabs(plain.of[i][x] - g->exact.of[i][x]));
    gradients_free(&plain);
}

/* The largest gradient by a weight: differences of such numbers are what the others are made of. */
static double largest_by_weights(const oracle_backward *g) {
    const oracle_case *c = g->c;
    const oracle_config *f = &c->config;
    double largest = 0;
    for (int64_t x = 0; x < f->B * f->H * f->N * f->M; x++) {
        const int64_t j = x % f->M, row = x / f->M, b = row / (f->H * f->N), h = row / f->N % f->H;
        const double *v = c->v + ((b * f->Hk + h / (f->H / f->Hk)) * f->M + j) * f->Dv;
        double sum = 0;
        for (int64_t d = 0; d < f->Dv && oracle_sees(c, b, h, row % f->N, j); d++)
            sum += g->d_o[row * f->Dv + d] * v[d];
        largest = isfinite(sum) ? fmax(largest, fabs(sum)) : largest;
    }
    return largest / (1 - f->dropout);
}

/* The floor for a gradient is relative to what it is a sum of: it may be 0 where that is not. */
static double floor_of(const oracle_backward *g, int gradient, double by_weights) {
    const oracle_case *c = g->c;
    const oracle_config *f = &c->config;
    const double scale = fabs(f->has_scale ? f->scale : 1 / sqrt((double)f->D));
    const double terms[ORACLE_GRADIENTS] = {
        [ORACLE_DQ] = scale * by_weights * largest_of(c->k, f->B * f->Hk * f->M * f->D),
        [ORACLE_DK] = scale * by_weights * largest_of(c->q, f->B * f->H * f->N * f->D),
        [ORACLE_DV] = largest_of(g->d_o, f->B * f->H * f->N * f->Dv) / (1 - f->dropout),
        [ORACLE_DBIAS] = by_weights,
        [ORACLE_DSINKS] = by_weights};
    return fmax(oracle_floor(f->dtype, terms[gradient]),
                oracle_floor(type_of(g, gradient), largest_of(g->exact.of[gradient], count_of(g, gradient))));
}

bool oracle_backward_exact(oracle_backward *g, char text[ORACLE_TEXT]) {
    const oracle_config *f = &g->c->config;
    char problem[ORACLE_TEXT];
    if (f->dtype == CLATTN_F64)
        oracle_plain_gradients_long_double(g, ORACLE_FORWARD, false, &g->exact);
    else
        oracle_plain_gradients_double(g, ORACLE_FORWARD, false, &g->exact);
    mark_rows(g, &g->exact);
    const int orders = f->B * f->H * f->N >= ENOUGH_ROWS ? ORACLE_IN_LANES + 1 : ORACLE_ORDERS;
    for (int order = 0; order < orders; order++)
        add_order(g, (oracle_order)order);
    const double by_weights = largest_by_weights(g);
    for (int i = 0; i < ORACLE_GRADIENTS; i++) {
        if (!g->exact.of[i])
            continue;
        if (!isfinite(g->allowed[i])) {
            snprintf(text, ORACLE_TEXT, "the plain gradients in %s are useless: %.900s", clattn_dtype_name(f->dtype),
                     oracle_text(f, problem));
            return false;
        }
        g->allowed[i] = fmax(g->allowed[i], floor_of(g, i, by_weights));
    }
    return true;
}

/* ---- central differences ---- */

/* sum dO O over the rows that see a key, at values + step * direction. */
static long double loss(oracle_backward *g, double *values, const double *direction, int64_t count, double step) {
    oracle_case *c = g->c;
    const oracle_config *f = &c->config;
    oracle_outputs out = oracle_outputs_alloc(f);
    double *before = oracle_alloc((size_t)count, sizeof *before);
    long double sum = 0;
    memcpy(before, values, (size_t)count * sizeof *before);
    for (int64_t x = 0; x < count; x++)
        values[x] += step * direction[x];
    oracle_plain_long_double(c, ORACLE_FORWARD, &out);
    memcpy(values, before, (size_t)count * sizeof *before);
    for (int64_t row = 0; row < f->B * f->H * f->N; row++)
        for (int64_t d = 0; d < f->Dv && sees_any(c, row / (f->H * f->N), row / f->N % f->H, row % f->N); d++)
            sum += (long double)g->d_o[row * f->Dv + d] * out.o[row * f->Dv + d];
    free(before);
    oracle_outputs_free(&out);
    return sum;
}

static bool agrees(oracle_backward *g, int gradient, char text[ORACLE_TEXT]) {
    const double step = 2e-4;
    const int64_t count = count_of(g, gradient);
    double *values = values_of(g->c, gradient), *direction = oracle_alloc((size_t)count, sizeof *direction);
    oracle_random random = {g->c->config.seed + 77 + (uint64_t)gradient};
    long double along = 0, size = 1;
    char problem[ORACLE_TEXT];
    for (int64_t x = 0; x < count; x++) {
        const double by = g->exact.of[gradient][x];
        direction[x] = isfinite(values[x]) ? oracle_normal(&random) : 0;
        along += isnan(by) ? 0 : (long double)by * direction[x];
        size += isnan(by) ? 0 : fabsl((long double)by * direction[x]);
    }
    const long double near = loss(g, values, direction, count, step) - loss(g, values, direction, count, -step);
    const long double far = loss(g, values, direction, count, 2 * step) - loss(g, values, direction, count, -2 * step);
    const long double difference = (8 * near - far) / (12 * step);
    free(direction);
    if (fabsl(difference - along) <= 1e-9L * size)
        return true;
    snprintf(text, ORACLE_TEXT, "%.600s: along a direction %s gives %.17Lg, central differences %.17Lg",
             oracle_text(&g->c->config, problem), gradient_names[gradient], along, difference);
    return false;
}

bool oracle_backward_differences(oracle_backward *g, char text[ORACLE_TEXT]) {
    for (int i = 0; i < ORACLE_GRADIENTS; i++)
        if (values_of(g->c, i) && !agrees(g, i, text))
            return false;
    return true;
}

/* ---- running ---- */

enum { ARRAYS = ORACLE_GRADIENTS + 2, BY_O = ORACLE_GRADIENTS, STATE };
typedef struct {
    oracle_arrays forward;
    oracle_array list[ARRAYS];
    clattn_tensor view[ARRAYS];
    clattn_attention_backward_args args;
} call;

/* Dense, with room around it: [B, H, N, 2], or of the rows of sequences. */
static void make_state(const oracle_case *c, call *x) {
    const oracle_config *f = &c->config;
    const int64_t shape[4] = {f->sequences ? 1 : f->B, f->H, f->sequences ? c->query_rows : f->N, 2};
    oracle_array *a = &x->list[STATE];
    clattn_tensor *t = &x->args.forward.state;
    *t = clattn_tensor_host(NULL, f->dtype, 4, shape);
    t->stride[2] = 5; /* rows apart */
    t->stride[1] = shape[2] * 5 + 1;
    t->stride[0] = shape[1] * t->stride[1];
    t->offset = 3;
    a->bytes = (size_t)(shape[0] * t->stride[0] + 8) * clattn_dtype_size(f->dtype);
    a->data = oracle_alloc(a->bytes, 1);
    oracle_spread(f->filler, f->dtype, a->data, a->bytes);
    t->host = a->data;
}

static void make_call(const oracle_backward *g, call *x) {
    clattn_attention_backward_args *args = &x->args;
    clattn_tensor *const given[] = {&args->d_q, &args->d_k, &args->d_v, &args->d_bias, &args->d_sinks};
    *x = (call){0};
    oracle_arrays_make(g->c, &x->forward);
    args->forward = x->forward.args;
    for (int i = 0; i < ORACLE_GRADIENTS; i++)
        if (is_wanted(g, i))
            oracle_array_like(g->c, tensor_of[i], NULL, &x->list[i], &x->view[i], given[i]);
    oracle_array_like(g->c, ORACLE_O, g->d_o, &x->list[BY_O], &x->view[BY_O], &args->d_o);
    make_state(g->c, x);
}

static void free_call(call *x) {
    oracle_arrays_free(&x->forward);
    for (int i = 0; i < ARRAYS; i++)
        oracle_array_free(&x->list[i]);
}

static const char *named(const char *algorithm) { return algorithm ? algorithm : "(chosen)"; }

/* With buffers: a plan on them, its scratch full of filler where that is asked for. */
static clattn_status over_buffers(const oracle_config *f, call *x, clattn_context *context) {
    clattn_attention_backward_args args = x->args;
    clattn_plan *plan = NULL;
    clattn_buffer *workspace = NULL;
    clattn_tensor *const mine[ARRAYS] = {&args.d_q,     &args.d_k, &args.d_v,          &args.d_bias,
                                         &args.d_sinks, &args.d_o, &args.forward.state};
    clattn_status status = oracle_arrays_place(context, &x->forward, &args.forward);
    for (int i = 0; i < ARRAYS && status == CLATTN_OK; i++) {
        oracle_array *a = &x->list[i];
        if (mine[i]->rank == 0)
            continue;
        status = clattn_buffer_create(context, a->bytes, &a->buffer);
        if (status == CLATTN_OK)
            status = clattn_buffer_upload(a->buffer, 0, a->data, a->bytes);
        mine[i]->host = NULL;
        mine[i]->buffer = a->buffer;
    }
    if (status == CLATTN_OK)
        status = clattn_backward_plan_create(context, &args, &plan);
    if (status == CLATTN_OK && f->caller_workspace)
        status = oracle_give_workspace(context, f, plan, &workspace);
    if (status == CLATTN_OK)
        status = clattn_backward_plan_execute(plan, NULL);
    for (int i = 0; i < ARRAYS && status == CLATTN_OK; i++)
        if (x->list[i].buffer)
            status = clattn_buffer_download(x->list[i].buffer, 0, x->list[i].data, x->list[i].bytes);
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(workspace);
    return status;
}

static clattn_status run(const oracle_config *f, call *x, clattn_context *context, const char *forward,
                         const char *algorithm) {
    clattn_attention_args args = x->args.forward;
    args.algorithm = forward;
    args.caller_workspace = false;
    args.max_workspace = 0;
    args.variant = NULL;
    clattn_status status = clattn_attention(context, &args);
    if (status != CLATTN_OK)
        return status;
    x->args.algorithm = algorithm;
    x->args.variant = f->variant;
    x->args.forward.lse = x->args.forward.weights = (clattn_tensor){0};
    return f->buffers ? over_buffers(f, x, context) : clattn_attention_backward(context, &x->args);
}

bool oracle_backward_run(oracle_backward *g, clattn_context *context, const char *forward, const char *algorithm,
                         char text[ORACLE_TEXT]) {
    char problem[ORACLE_TEXT];
    call x;
    size_t at = 0;
    make_call(g, &x);
    const clattn_status status = run(&g->c->config, &x, context, forward, algorithm);
    bool fine = status == CLATTN_OK;
    if (!fine)
        snprintf(text, ORACLE_TEXT, "%s on %.400s: %s: %.400s", named(algorithm), oracle_text(&g->c->config, problem),
                 clattn_status_name(status), clattn_last_error());
    for (int i = 0; i < ORACLE_GRADIENTS && fine; i++) {
        if (!is_wanted(g, i))
            continue;
        fine = !oracle_array_damaged(&x.list[i], &at);
        if (!fine)
            snprintf(text, ORACLE_TEXT, "%s on %.400s: byte %zu of the array of %s has changed", named(algorithm),
                     oracle_text(&g->c->config, problem), at, gradient_names[i]);
        oracle_array_take(g->c, tensor_of[i], &x.list[i], &x.view[i], g->got.of[i]);
    }
    free_call(&x);
    return fine;
}

/* ---- judging ---- */

bool oracle_backward_compare(const oracle_backward *g, const char *algorithm, char text[ORACLE_TEXT]) {
    char problem[ORACLE_TEXT];
    for (int i = 0; i < ORACLE_GRADIENTS; i++)
        for (int64_t x = 0; is_wanted(g, i) && x < count_of(g, i); x++) {
            const double got = g->got.of[i][x], exact = g->exact.of[i][x];
            const bool same = isnan(exact) ? isnan(got) : fabs(got - exact) <= g->allowed[i];
            if (same)
                continue;
            snprintf(text, ORACLE_TEXT, "%s on %.500s: %s[%lld] of %lld is %.17g, exact %.17g, error %.3g > %.3g",
                     named(algorithm), oracle_text(&g->c->config, problem), gradient_names[i], (long long)x,
                     (long long)count_of(g, i), got, exact, fabs(got - exact), g->allowed[i]);
            return false;
        }
    return true;
}

/* ---- runners ---- */

bool oracle_backward_applies(oracle_backward *g, const oracle_runner *runner, const char **reason) {
    bool applies = false;
    call x;
    make_call(g, &x);
    for (size_t i = 0; i < clattn_backward_algorithm_count(); i++)
        if (strcmp(clattn_backward_algorithm_name(i), runner->algorithm) == 0 &&
            clattn_backward_algorithm_applies(runner->context, &x.args, i, &applies, reason) != CLATTN_OK && reason)
            *reason = clattn_last_error();
    free_call(&x);
    return applies;
}

static bool takes(void *data, const oracle_runner *runner) { return oracle_backward_applies(data, runner, NULL); }

size_t oracle_backward_open(oracle_runner runners[ORACLE_RUNNERS]) {
    const oracle_config tiny = {.N = 1, .D = 1};
    oracle_case *c = oracle_make(&tiny);
    oracle_backward *g = oracle_backward_make(c);
    const size_t count = oracle_open_each(runners, clattn_backward_algorithm_name, takes, g);
    oracle_backward_free(g);
    oracle_free(c);
    return count;
}
