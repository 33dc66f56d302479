/* SPDX-License-Identifier: Apache-2.0 */
#include "verify.h"

#include "args.h"
#include "job.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static double element(const clattn_tensor *t, int64_t index) {
    return t->dtype == CLATTN_F64 ? ((const double *)t->host)[index] : (double)((const float *)t->host)[index];
}

/* Rank 4 views with free strides, walked in row-major order. */
static int64_t index_at(const clattn_tensor *t, const int64_t at[4]) {
    int64_t index = t->offset;
    for (int i = 0; i < t->rank; i++)
        index += at[i] * t->stride[i];
    return index;
}

static bool next(const clattn_tensor *t, int64_t at[4]) {
    for (int i = t->rank - 1; i >= 0; i--) {
        if (++at[i] < t->shape[i])
            return true;
        at[i] = 0;
    }
    return false;
}

static double largest(const clattn_tensor *t) {
    double most = 0;
    int64_t at[4] = {0};
    if (clattn_tensor_elements(t) <= 0)
        return 0;
    do {
        const double x = fabs(element(t, index_at(t, at)));
        if (isfinite(x) && x > most)
            most = x;
    } while (next(t, at));
    return most;
}

/* ---- the two other results ---- */

/* The array behind a view in f64, and the same view of it. */
static clattn_status widen(clattn_tensor *view, clattn_array *wide) {
    const int64_t shape[1] = {(int64_t)cla_view_extent(view)};
    clattn_status status = clattn_array_create(CLATTN_F64, 1, shape, wide);
    if (status == CLATTN_OK)
        status = clattn_convert(wide->data, CLATTN_F64, view->host, view->dtype, (size_t)shape[0]);
    view->dtype = CLATTN_F64;
    view->host = wide->data;
    return status;
}

static clattn_status create_like(clattn_tensor *view, clattn_dtype dtype, clattn_array *array) {
    if (view->rank == 0)
        return CLATTN_OK;
    const clattn_status status = clattn_array_create(dtype, view->rank, view->shape, array);
    *view = clattn_array_tensor(array);
    return status;
}

/* Runs an algorithm of the `cpu` context in a type, into new arrays (that of o, lse, weights). */
static clattn_status compute(clattn_context *cpu, const clattn_attention_args *args, const char *algorithm,
                             clattn_dtype dtype, clattn_array *const results[CLA_VERDICTS]) {
    clattn_attention_args a = *args;
    clattn_array wide[4] = {{0}};
    clattn_tensor *const inputs[4] = {&a.q, &a.k, &a.v, &a.bias};
    clattn_tensor *const outputs[CLA_VERDICTS] = {&a.o, &a.lse, &a.weights};
    clattn_status status = CLATTN_OK;
    a.algorithm = algorithm;
    for (int i = 0; i < 4 && status == CLATTN_OK; i++)
        if (inputs[i]->rank > 0 && inputs[i]->dtype != dtype)
            status = widen(inputs[i], &wide[i]);
    for (int i = 0; i < CLA_VERDICTS && status == CLATTN_OK; i++)
        status = create_like(outputs[i], dtype, results[i]);
    if (status == CLATTN_OK)
        status = cla_job_run(cpu, &a, false, NULL);
    for (int i = 0; i < 4; i++)
        clattn_array_free(&wide[i]);
    return status;
}

/* ---- comparison ---- */

/* Finite, or the same NaN or infinity. */
static bool same_kind(double a, double b) {
    if (isfinite(a) && isfinite(b))
        return true;
    return (isnan(a) && isnan(b)) || a == b;
}

/* The largest finite difference to exact; the place of it, or of the first element of another kind, in *v if given. */
static double compare(const clattn_tensor *got, const clattn_tensor *exact, cla_verdict *v) {
    double worst = 0;
    int64_t at[4] = {0};
    bool same = true;
    if (v)
        v->same_kinds = true;
    if (clattn_tensor_elements(exact) <= 0)
        return 0;
    do {
        const double x = element(got, index_at(got, at)), y = element(exact, index_at(exact, at));
        const double y_rounded = got->dtype == CLATTN_F32 ? (double)(float)y : y;
        const bool kind = same_kind(x, y_rounded);
        const double error = kind && isfinite(x) ? fabs(x - y) : 0;
        const bool worse = same && (!kind || error > worst);
        if (kind && error > worst)
            worst = error;
        if (v && worse) {
            memcpy(v->at, at, sizeof v->at);
            v->got_value = x;
            v->exact_value = y;
            v->same_kinds = kind;
        }
        same = same && kind;
    } while (next(exact, at));
    return worst;
}

static void judge(const char *name, const clattn_tensor *got, double size, cla_verdict *v) {
    const clattn_tensor exact = clattn_array_tensor(&v->exact), plain = clattn_array_tensor(&v->plain);
    v->name = name;
    const double plain_error = compare(&plain, &exact, NULL);
    v->error = compare(got, &exact, v);
    v->bound = fmax(2 * plain_error, (got->dtype == CLATTN_F64 ? 1e-14 : 1e-6) * size);
    v->ok = v->same_kinds && v->error <= v->bound;
}

int cla_verify(const clattn_attention_args *args, cla_verification *v) {
    *v = (cla_verification){.ok = true};
    clattn_array *exact[CLA_VERDICTS], *plain[CLA_VERDICTS];
    for (int i = 0; i < CLA_VERDICTS; i++) {
        exact[i] = &v->verdicts[i].exact;
        plain[i] = &v->verdicts[i].plain;
    }
    clattn_context *cpu = NULL;
    int exit_status = cla_open("cpu", &cpu);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    clattn_status status = compute(cpu, args, "reference", CLATTN_F64, exact);
    if (status == CLATTN_OK)
        status = compute(cpu, args, "blas", args->q.dtype, plain);
    clattn_context_destroy(cpu);
    if (status != CLATTN_OK) {
        cla_verify_free(v);
        return cla_fail_status(status, "verify");
    }
    static const char *const names[CLA_VERDICTS] = {"o", "lse", "weights"};
    const clattn_tensor *const got[CLA_VERDICTS] = {&args->o, &args->lse, &args->weights};
    for (int i = 0; i < CLA_VERDICTS; i++) {
        if (got[i]->rank == 0)
            continue;
        const clattn_tensor whole = clattn_array_tensor(exact[i]);
        judge(names[i], got[i], i == 0 ? largest(&args->v) : i == 1 ? fmax(1, largest(&whole)) : 1, &v->verdicts[i]);
        v->ok = v->ok && v->verdicts[i].ok;
    }
    return CLA_EXIT_OK;
}

/* ---- words ---- */

static const char *place(const cla_verdict *v, char *text, size_t size) {
    const int rank = v->exact.rank;
    size_t at = 0;
    for (int i = 0; i < rank && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? "," : "[", (long long)v->at[i]);
    if (at < size)
        snprintf(text + at, size - at, "]");
    return text;
}

int cla_verify_report(const cla_verification *v) {
    char text[120];
    for (int i = 0; i < CLA_VERDICTS; i++) {
        const cla_verdict *d = &v->verdicts[i];
        if (!d->name || d->ok)
            continue;
        if (!d->same_kinds)
            return cla_fail(CLA_EXIT_FAILED, "verify: %s is wrong: %g at %s, exactly %g", d->name, d->got_value,
                            place(d, text, sizeof text), d->exact_value);
        return cla_fail(CLA_EXIT_FAILED, "verify: %s is wrong: %.9g at %s, exactly %.9g: error %.2g, bound %.2g",
                        d->name, d->got_value, place(d, text, sizeof text), d->exact_value, d->error, d->bound);
    }
    for (int i = 0; i < CLA_VERDICTS; i++) {
        const cla_verdict *d = &v->verdicts[i];
        if (d->name)
            fprintf(stderr, "verify: ok, %s%smax error %.2g at %s, bound %.2g\n", i ? d->name : "", i ? " " : "",
                    d->error, place(d, text, sizeof text), d->bound);
    }
    return CLA_EXIT_OK;
}

void cla_verify_free(cla_verification *v) {
    for (int i = 0; i < CLA_VERDICTS; i++) {
        clattn_array_free(&v->verdicts[i].exact);
        clattn_array_free(&v->verdicts[i].plain);
    }
    *v = (cla_verification){0};
}
