/* SPDX-License-Identifier: Apache-2.0 */
/* Verification: rows computed again on the CPU, and how far the results may be from them. verify_eval.c computes. */
#include "attention/self_check.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/mix.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { O, LSE, WEIGHTS, ENTROPY, COLUMN_SUMS };
static const char *const names[CLATTN_VERDICTS] = {"o", "lse", "weights", "entropy", "column_sums"};

/* One output while it is judged. */
typedef struct {
    clattn_tensor got;
    double worst;       /* error of a finite element */
    double plain_worst; /* the same of the plain evaluation */
    double size;        /* largest value that the output may have, about */
    clattn_verdict *verdict;
} judge;

typedef struct {
    const cla_problem *p; /* on the host */
    clattn_context *cpu;
    judge judges[CLATTN_VERDICTS];
    double reach; /* the largest magnitude that is summed up to a score */
    clattn_verification *result;
} session;

/* ---- one element ---- */

static double rounded(double x, clattn_dtype dtype) {
    double storage = 0;
    cla_store_element(&storage, dtype, 0, x);
    return cla_load_element(&storage, dtype, 0);
}

static bool same_kind(double a, double b) {
    return isnan(a) || isnan(b) ? isnan(a) && isnan(b) : isinf(a) || isinf(b) ? a == b : true;
}

/* Infinity in V behind a weight that is 0 in the type of the sums: 0 times it is NaN. */
static clattn_status underflows(const session *s, int64_t b, int64_t h, int64_t i, int64_t d, bool *yes) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = s->p;
    const int64_t shape[4] = {1, 1, 1, p->M};
    cla_problem row;
    cla_batch batch;
    cla_evaluation e = {0};
    *yes = false;
    cla_problem_row(p, b, h, i, &batch, &row);
    row.weights = clattn_tensor_host(NULL, CLATTN_F64, 4, shape);
    row.dtype = CLATTN_F32; /* sums in double, even for f64: there the weight itself is 0 */
    CLA_TRY(cla_evaluate_exact(&row, NULL, &e));
    const double *weights = e.data[WEIGHTS], *o = e.data[O];
    if (p->dtype == CLATTN_F64)
        *yes = isnan(o[d]);
    for (int64_t j = 0; j < p->M && !*yes; j++)
        if (weights[j] > 0 && weights[j] < (p->dtype == CLATTN_F64 ? DBL_MIN : 1e-36)) {
            const int64_t at = cla_key_element(p, &p->v, b, h / p->group, j) + d * p->v.stride[3];
            *yes = !isfinite(cla_load_element(p->v.host, p->v.dtype, at));
        }
done:
    cla_evaluation_free(&e);
    return status;
}

/* at: b, h, i and the place in the row. `of` has the element of the result, `exact` and `plain` (may be NULL) theirs.
 */
static clattn_status judge_element(session *s, int which, const int64_t at[4], int64_t of, double expected,
                                   const double *plain) {
    clattn_status status = CLATTN_OK;
    judge *j = &s->judges[which];
    clattn_verdict *v = j->verdict;
    const double got = cla_load_element(j->got.host, j->got.dtype, of);
    bool kind = same_kind(got, rounded(expected, j->got.dtype));
    if (!kind && which == O && isnan(got) && isinf(expected)) {
        CLA_TRY(underflows(s, at[0], at[1], at[2], at[3], &kind));
        if (kind)
            goto done;
    }
    const double error = kind && isfinite(got) ? fabs(got - expected) : 0;
    if (plain && isfinite(*plain) && isfinite(expected))
        j->plain_worst = fmax(j->plain_worst, fabs(*plain - expected));
    if (v->same_kinds && (!kind || error > j->worst)) {
        v->got = got;
        v->expected = expected;
        memcpy(v->at, at, sizeof v->at);
        v->same_kinds = kind;
    }
    j->worst = fmax(j->worst, error);
    if (which != O && isfinite(expected))
        j->size = fmax(j->size, fabs(expected));
done:
    return status;
}

/* ---- rows ---- */

/* Where the results of a row begin, in a tensor with the layout of the problem's. */
static int64_t row_of(const cla_problem *p, int which, const clattn_tensor *t, int64_t b, int64_t h, int64_t i) {
    const int64_t row = p->batches ? p->batches[b].q_row + i : i;
    return which == LSE || which == ENTROPY ? t->offset + b * t->stride[1] + h * t->stride[2] + row * t->stride[3]
                                            : t->offset + b * t->stride[0] + h * t->stride[1] + row * t->stride[2];
}

/* Of outputs with rows; exact and plain: elements one after another, NULL where an output is judged otherwise. */
static clattn_status judge_row(session *s, int64_t b, int64_t h, int64_t i, const double *const exact[CLATTN_VERDICTS],
                               const cla_evaluation *plain, const int64_t plain_at[CLATTN_VERDICTS]) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = s->p;
    const int64_t counts[CLATTN_VERDICTS] = {p->Dv, 1, p->M, 1, 0};
    for (int which = 0; which < CLATTN_VERDICTS; which++) {
        const clattn_tensor *t = &s->judges[which].got;
        if (!cla_present(t) || !exact[which])
            continue;
        const int64_t start = row_of(p, which, t, b, h, i);
        for (int64_t d = 0; d < counts[which]; d++) {
            const int64_t at[4] = {b, h, i, d};
            double x = 0;
            if (plain->data[which])
                x = cla_load_element(plain->data[which], p->dtype, plain_at[which] + d);
            CLA_TRY(
                judge_element(s, which, at, start + d * t->stride[3], exact[which][d], plain->data[which] ? &x : NULL));
        }
    }
    s->result->rows++;
done:
    return status;
}

static bool has_row(const cla_problem *p, int64_t b, int64_t i) {
    return !p->ragged || i < p->batches[b].queries; /* rows past the end of a sequence are another one's */
}

/* Weights, of whatever form and rows, and sums of columns: element by element, but for keys past the last sequence. */
static clattn_status judge_whole(session *s, int which, const cla_evaluation *exact, const cla_evaluation *plain) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = s->p;
    const clattn_tensor *t = &s->judges[which].got, *x = &exact->tensors[which];
    const bool sums = which == COLUMN_SUMS; /* [1, B, H, M] */
    const int64_t n = cla_present(t) ? clattn_tensor_elements(t) : 0;
    int64_t end = sums ? t->shape[3] : 0;
    if (sums && p->ragged) /* of the last sequence */
        end = p->key_rows;
    for (int64_t e = 0; e < n; e++) {
        int64_t at[5] = {0}, of = t->offset, rest = e;
        for (int axis = 3; axis >= 0; axis--) {
            at[axis] = rest % t->shape[axis];
            of += at[axis] * t->stride[axis];
            rest /= t->shape[axis];
        }
        if (sums && at[3] >= end)
            continue;
        double y = 0;
        if (plain->data[which])
            y = cla_load_element(plain->data[which], p->dtype, e);
        CLA_TRY(judge_element(s, which, sums ? at + 1 : at, of, ((const double *)x->host)[x->offset + e],
                              plain->data[which] ? &y : NULL));
    }
done:
    return status;
}

static clattn_status all_rows(session *s, const clattn_tensor *given) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = s->p;
    cla_evaluation exact = {0}, plain = {0};
    CLA_TRY(cla_evaluate_exact(p, given, &exact));
    if (!cla_problem_no_keys(p))
        CLA_TRY(cla_evaluate_plain(s->cpu, p, &plain));
    for (int64_t b = 0; b < p->B; b++)
        for (int64_t h = 0; h < p->H; h++)
            for (int64_t i = 0; i < p->N && has_row(p, b, i); i++) {
                const double *rows[CLATTN_VERDICTS] = {NULL};
                int64_t at[CLATTN_VERDICTS] = {0};
                for (int which = 0; which < CLATTN_VERDICTS; which++) {
                    const clattn_tensor *t = &exact.tensors[which];
                    if (!cla_present(t) || which == WEIGHTS || which == COLUMN_SUMS)
                        continue;
                    rows[which] = (const double *)t->host + row_of(p, which, t, b, h, i);
                    at[which] = row_of(p, which, t, b, h, i) - t->offset;
                }
                CLA_TRY(judge_row(s, b, h, i, rows, &plain, at));
            }
    CLA_TRY(judge_whole(s, WEIGHTS, &exact, &plain));
    CLA_TRY(judge_whole(s, COLUMN_SUMS, &exact, &plain));
done:
    cla_evaluation_free(&exact);
    cla_evaluation_free(&plain);
    return status;
}

/* The largest |x| of count elements; NaN and infinity are none. */
static double largest(const clattn_tensor *t, int64_t at, int64_t count, int64_t stride) {
    double most = 0;
    for (int64_t d = 0; d < count; d++) {
        const double x = fabs(cla_load_element(t->host, t->dtype, at + d * stride));
        if (isfinite(x) && x > most)
            most = x;
    }
    return most;
}

static double norm(const clattn_tensor *t, int64_t at, int64_t count) {
    double sum = 0;
    for (int64_t d = 0; d < count; d++) {
        const double x = cla_load_element(t->host, t->dtype, at + d * t->stride[3]);
        sum += isfinite(x) ? x * x : 0;
    }
    return sqrt(sum);
}

static int64_t keys_of(const cla_problem *p, int64_t b) { return p->batches ? p->batches[b].keys : p->M; }

/* The largest |V| of a key head. */
static double largest_value(const cla_problem *p, int64_t b, int64_t hk) {
    double most = 0;
    for (int64_t j = 0; j < keys_of(p, b); j++)
        most = fmax(most, largest(&p->v, cla_key_element(p, &p->v, b, hk, j), p->Dv, p->v.stride[3]));
    return most;
}

/* What the score of a row can be made of: |q| |k|, bias and slope. */
static double reach_of(const cla_problem *p, int64_t b, int64_t h, int64_t i) {
    const int64_t keys = keys_of(p, b), row = p->batches ? p->batches[b].q_row + i : i;
    const clattn_tensor *q = &p->q, *bias = &p->bias;
    double longest = 0, far = 0;
    for (int64_t j = 0; j < keys; j++)
        longest = fmax(longest, norm(&p->k, cla_key_element(p, &p->k, b, h / p->group, j), p->D));
    double reach =
        fabs(p->scale) * longest * norm(q, q->offset + b * q->stride[0] + h * q->stride[1] + row * q->stride[2], p->D);
    if (cla_present(bias))
        reach += largest(bias, bias->offset + b * bias->stride[0] + h * bias->stride[1] + i * bias->stride[2], keys,
                         bias->stride[3]);
    if (p->slopes)
        far = fmax(fabs((double)(i + p->batches[b].offset)), fabs((double)(keys - 1 - i - p->batches[b].offset)));
    return reach + (p->slopes ? fabs((double)p->slopes[h]) * far : 0);
}

static clattn_status one_row(session *s, int64_t b, int64_t h, int64_t i) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = s->p;
    const int64_t at[CLATTN_VERDICTS] = {0};
    cla_problem row;
    cla_batch batch;
    cla_evaluation exact = {0}, plain = {0};
    cla_problem_row(p, b, h, i, &batch, &row);
    CLA_TRY(cla_evaluate_exact(&row, NULL, &exact));
    if (!cla_problem_no_keys(&row) && keys_of(p, b) > 0)
        CLA_TRY(cla_evaluate_plain(s->cpu, &row, &plain));
    const double *rows[CLATTN_VERDICTS];
    for (int which = 0; which < CLATTN_VERDICTS; which++)
        rows[which] = exact.data[which];
    CLA_TRY(judge_row(s, b, h, i, rows, &plain, at));
    s->judges[O].size = fmax(s->judges[O].size, largest_value(p, b, h / p->group));
    s->reach = fmax(s->reach, reach_of(p, b, h, i));
done:
    cla_evaluation_free(&exact);
    cla_evaluation_free(&plain);
    return status;
}

/* A row of each of as many equal parts. */
static clattn_status some_rows(session *s, int64_t rows) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = s->p;
    const int64_t total = p->B * p->H * p->N;
    rows = cla_min(rows, total);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t begin = (int64_t)((double)r / (double)rows * (double)total);
        const int64_t end = r + 1 == rows ? total : (int64_t)((double)(r + 1) / (double)rows * (double)total);
        if (begin >= end)
            continue;
        const uint64_t z = cla_mix((uint64_t)(r + 1) * CLA_MIX_STEP);
        const int64_t at = r + 1 == rows ? total - 1 : begin + (int64_t)(z % (uint64_t)(end - begin));
        const int64_t b = at / (p->H * p->N), h = at / p->N % p->H;
        int64_t i = at % p->N;
        if (p->ragged && p->batches[b].queries > 0)
            i %= p->batches[b].queries;
        if (has_row(p, b, i))
            CLA_TRY(one_row(s, b, h, i));
    }
done:
    return status;
}

/* ---- the verdict ---- */

/* The least error that is allowed for values of that size. */
static double floor_of(clattn_dtype dtype, double size) {
    const int bits = dtype == CLATTN_F16 ? 10 : dtype == CLATTN_BF16 ? 7 : 0;
    if (bits > 0) /* one unit in the last place; of f16 at least the smallest there is */
        return size > 0 ? fmax(ldexp(1, ilogb(size) - bits), dtype == CLATTN_F16 ? 0x1p-24 : 0) : 0;
    return (dtype == CLATTN_F64 ? 1e-14 : 1e-6) * size;
}

static void conclude(session *s, bool all) {
    const double epsilon = s->p->dtype == CLATTN_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    s->result->ok = true;
    for (int which = 0; which < CLATTN_VERDICTS; which++) {
        judge *j = &s->judges[which];
        clattn_verdict *v = j->verdict;
        if (!v->tensor)
            continue;
        v->error = j->worst;
        v->allowed = fmax(2 * j->plain_worst, floor_of(j->got.dtype, j->size));
        if (!all)
            v->allowed += 4 * epsilon * s->reach * (which == LSE || which == ENTROPY ? 1 : j->size);
        v->ok = v->same_kinds && v->error <= v->allowed;
        s->result->ok = s->result->ok && v->ok;
    }
}

/* What takes the expected results: shaped as the outputs, dense and in f64 on the host. */
static clattn_status check_exact(const cla_problem *p, int64_t rows, const clattn_tensor *exact) {
    clattn_status status = CLATTN_OK;
    clattn_tensor *outputs[CLATTN_VERDICTS];
    cla_problem x = *p;
    cla_outputs_of(&x, outputs);
    for (int i = 0; exact && i < CLATTN_VERDICTS; i++) {
        char text[200], other[200], name[40];
        if (!cla_present(&exact[i]))
            continue;
        snprintf(name, sizeof name, "exact %s", names[i]);
        CLA_TRY(cla_view_check(&exact[i], name));
        CLA_CHECK(rows == CLATTN_ALL_ROWS, CLATTN_E_ARGUMENT, "%s: is given with %lld rows; it takes CLATTN_ALL_ROWS",
                  name, (long long)rows);
        CLA_CHECK(exact[i].dtype == CLATTN_F64, CLATTN_E_DTYPE, "%s: is %s; expected results are f64", name,
                  clattn_dtype_name(exact[i].dtype));
        const clattn_tensor t = exact[i].rank <= 4 ? cla_view_lift(&exact[i]) : exact[i];
        const clattn_tensor dense = clattn_tensor_host(NULL, CLATTN_F64, 4, outputs[i]->shape);
        CLA_CHECK(cla_present(outputs[i]) && cla_view_same_layout(&t, &dense), CLATTN_E_SHAPE,
                  "%s %s: it is dense and has the shape of the output, %s", name,
                  cla_shape_text(&exact[i], text, sizeof text), cla_shape_text(outputs[i], other, sizeof other));
        CLA_CHECK(!exact[i].buffer && (exact[i].host || clattn_tensor_elements(&t) == 0), CLATTN_E_ARGUMENT,
                  "%s: is no host array", name);
    }
done:
    return status;
}

clattn_status cla_verify_problem(const cla_problem *p, int64_t rows, const clattn_tensor *exact,
                                 clattn_verification *result) {
    clattn_status status = CLATTN_OK;
    cla_host_problem host = {0};
    session s = {.result = result};
    *result = (clattn_verification){.ok = true};
    CLA_CHECK(rows > 0, CLATTN_E_ARGUMENT, "verify: %lld rows; give 1 or more, or CLATTN_ALL_ROWS", (long long)rows);
    CLA_CHECK(p->dropout == 0, CLATTN_E_UNSUPPORTED, "verify: rows are not computed again with dropout");
    CLA_TRY(check_exact(p, rows, exact));
    CLA_TRY(cla_host_problem_init(p, &host));
    CLA_TRY(clattn_context_create("cpu", NULL, &s.cpu));
    s.p = &host.problem;
    const bool all = rows == CLATTN_ALL_ROWS;
    clattn_tensor *outputs[CLATTN_VERDICTS];
    cla_outputs_of(&host.problem, outputs);
    if (!all) {
        host.problem.column_sums = (clattn_tensor){0};
        if (!cla_plain_weights(p))
            host.problem.weights = (clattn_tensor){0};
    }
    for (int which = 0; which < CLATTN_VERDICTS; which++) {
        s.judges[which] = (judge){.got = *outputs[which], .verdict = &result->verdicts[which]};
        s.judges[which].size = which == O ? 0 : 1;
        if (cla_present(outputs[which]))
            result->verdicts[which] = (clattn_verdict){
                .tensor = names[which], .same_kinds = true, .rank = which == O || which == WEIGHTS ? 4 : 3};
    }
    for (int64_t b = 0; all && b < p->B; b++)
        for (int64_t hk = 0; hk < p->Hk; hk++)
            s.judges[O].size = fmax(s.judges[O].size, largest_value(s.p, b, hk));
    if (!cla_problem_no_rows(p))
        CLA_TRY(all ? all_rows(&s, exact) : some_rows(&s, rows));
    conclude(&s, all);
done:
    clattn_context_destroy(s.cpu);
    cla_host_problem_free(&host);
    return status;
}

clattn_status cla_self_check(const cla_problem *p, int64_t rows) {
    clattn_verification result;
    char text[300];
    const clattn_status status = cla_verify_problem(p, rows, NULL, &result);
    if (status != CLATTN_OK || result.ok)
        return status;
    return cla_error(CLATTN_E_VERIFY, "%s", clattn_verification_text(&result, text, sizeof text));
}

clattn_status clattn_verify(const clattn_attention_args *args, int64_t rows, const clattn_tensor exact[CLATTN_VERDICTS],
                            clattn_verification *result) {
    clattn_status status = CLATTN_OK;
    cla_problem p = {0};
    CLA_CHECK(args && result, CLATTN_E_ARGUMENT, "verify: %s is NULL", args ? "result" : "args");
    *result = (clattn_verification){0};
    CLA_TRY(cla_problem_init(&p, args));
    CLA_TRY(cla_verify_problem(&p, rows, exact, result));
done:
    cla_problem_free(&p);
    return status;
}

char *clattn_verification_text(const clattn_verification *result, char *text, size_t size) {
    char place[100];
    if (size > 0)
        text[0] = '\0';
    for (int which = 0; result && which < CLATTN_VERDICTS && size > 0; which++) {
        const clattn_verdict *v = &result->verdicts[which];
        size_t at = 0;
        if (!v->tensor || v->ok)
            continue;
        for (int axis = 0; axis < v->rank; axis++)
            at += (size_t)snprintf(place + at, sizeof place - at, "%s%lld", axis ? "," : "[", (long long)v->at[axis]);
        if (v->same_kinds)
            snprintf(text, size, "%s is wrong: %.9g at %s], expected %.9g: error %.2g, allowed %.2g", v->tensor, v->got,
                     place, v->expected, v->error, v->allowed);
        else
            snprintf(text, size, "%s is wrong: %g at %s], expected %g", v->tensor, v->got, place, v->expected);
        break;
    }
    return text;
}
