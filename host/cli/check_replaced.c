/* SPDX-License-Identifier: Apache-2.0 */
/* The second seed article's mask: a score that is forbidden is replaced by -1e9, so that a query that may see no key
 * sees all alike. Attention has no such mask; this is composed of a product, the replacement, softmax, and a product.
 */
#include "check_module.h"

#include <math.h>
#include <string.h>

/* Matrix b of an array [..., rows, columns]. */
static clattn_tensor matrix_of(const clattn_array *a, int64_t b) {
    const int64_t *shape = a->shape + a->rank - 2;
    clattn_tensor t = clattn_tensor_host(a->data, a->dtype, 2, shape);
    t.offset = b * shape[0] * shape[1];
    return t;
}

static int64_t matrices(const clattn_array *a) {
    int64_t n = 1;
    for (int i = 0; i < a->rank - 2; i++)
        n *= a->shape[i];
    return n;
}

static void replace(const clattn_tensor *scores, const clattn_tensor *mask, double scale) {
    double *s = (double *)scores->host + scores->offset;
    const double *m = (const double *)mask->host + mask->offset;
    for (int64_t i = 0; i < scores->shape[0] * scores->shape[1]; i++)
        s[i] = m[i] == 0 ? -1e9 : s[i] * scale;
}

static clattn_status call(clattn_context *context, const cla_check_job *job) {
    static const int turn[] = {1, 0};
    const cla_check_replaced *r = &job->replaced;
    clattn_status status = CLATTN_OK;
    for (int64_t b = 0; b < matrices(r->q) && status == CLATTN_OK; b++) {
        const clattn_tensor q = matrix_of(r->q, b), v = matrix_of(r->v, b), weights = matrix_of(r->weights, b);
        const clattn_tensor mask = matrix_of(r->mask, b);
        const clattn_linear_args scores = {.x = q, .w = matrix_of(r->k, b), .y = weights};
        const clattn_softmax_args softmax = {.x = weights, .y = weights};
        const clattn_linear_args result = {.x = weights, .w = clattn_tensor_permute(v, turn), .y = matrix_of(r->o, b)};
        status = clattn_linear(context, &scores);
        if (status == CLATTN_OK)
            replace(&weights, &mask, 1 / sqrt((double)q.shape[1]));
        if (status == CLATTN_OK)
            status = clattn_softmax(context, &softmax);
        if (status == CLATTN_OK)
            status = clattn_linear(context, &result);
    }
    return status;
}

static bool fits(const cla_check_replaced *r) {
    const clattn_array *const all[] = {r->q, r->k, r->v, r->mask};
    for (int i = 0; i < 4; i++)
        if (all[i]->dtype != CLATTN_F64 || all[i]->rank < 2 || all[i]->rank > 6 || matrices(all[i]) != matrices(r->q))
            return false;
    const int64_t *q = r->q->shape + r->q->rank - 2, *k = r->k->shape + r->k->rank - 2;
    const int64_t *v = r->v->shape + r->v->rank - 2, *m = r->mask->shape + r->mask->rank - 2;
    return q[1] == k[1] && v[0] == k[0] && m[0] == q[0] && m[1] == k[0];
}

/* A job of its own, made with the first such output. */
static cla_check_job *job_of(cla_check_case *c) {
    for (size_t i = 0; i < c->job_count; i++)
        if (c->jobs[i].replaced.q)
            return &c->jobs[i];
    if (c->job_count == CLA_CHECK_JOBS) {
        cla_check_error(c, "more than %d types of results", CLA_CHECK_JOBS);
        return NULL;
    }
    cla_check_job *job = &c->jobs[c->job_count++];
    cla_check_replaced *r = &job->replaced;
    int64_t o_shape[CLATTN_MAX_RANK], weights_shape[CLATTN_MAX_RANK];
    job->dtype = CLATTN_F64;
    job->call = call;
    r->q = cla_check_read_raw(c, job, "Q");
    r->k = r->q ? cla_check_read_raw(c, job, "K") : NULL;
    r->v = r->k ? cla_check_read_raw(c, job, "V") : NULL;
    r->mask = r->v ? cla_check_read_raw(c, job, "mask") : NULL;
    if (!r->mask)
        return NULL;
    if (!fits(r)) {
        cla_check_error(c, "Q, K, V and mask are not matrices in f64 that fit together");
        return NULL;
    }
    const int last = r->q->rank - 1;
    memcpy(o_shape, r->q->shape, sizeof o_shape);
    memcpy(weights_shape, r->q->shape, sizeof weights_shape);
    o_shape[last] = r->v->shape[r->v->rank - 1];
    weights_shape[last] = r->k->shape[r->k->rank - 2];
    r->o = cla_check_new_array(c, job, CLATTN_F64, last + 1, o_shape);
    r->weights = r->o ? cla_check_new_array(c, job, CLATTN_F64, last + 1, weights_shape) : NULL;
    return r->weights ? job : NULL;
}

bool cla_check_want_replaced(cla_check_case *c, const cJSON *out, bool weights) {
    cla_check_job *job = job_of(c);
    return job && cla_check_want(c, job, out, weights ? CLA_CHECK_FROM_WEIGHTS : CLA_CHECK_FROM_O,
                                 weights ? job->replaced.weights : job->replaced.o);
}
