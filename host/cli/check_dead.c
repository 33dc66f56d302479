/* SPDX-License-Identifier: Apache-2.0 */
/* Queries that see no key. PyTorch's multi-head attention gives NaN for them where weights are asked for; here they are
 * zeros through attention, so that the result is the bias of the last projection. What is wanted is changed so. */
#include "check_module.h"

#include <math.h>
#include <string.h>

typedef struct sizes {
    int64_t B, H, N, M;
    bool batch_second;
} sizes;

static double mask_value(const clattn_tensor *t, int64_t at) {
    double x = 0;
    clattn_convert(&x, CLATTN_F64, (const char *)t->host + (size_t)at * clattn_dtype_size(t->dtype), t->dtype, 1);
    return t->dtype == CLATTN_BOOL || t->dtype == CLATTN_U8 ? (x != 0 ? -INFINITY : 0) : x;
}

/* Masks are dense, as they are read. */
static bool sees(const clattn_module_masks *m, const sizes *s, int64_t b, int64_t h, int64_t i, int64_t j) {
    double sum = 0;
    if (m->attn.rank > 0)
        sum += mask_value(&m->attn, ((m->attn.rank == 3 ? b * s->H + h : 0) * s->N + i) * s->M + j);
    if (m->key_padding.rank > 0)
        sum += mask_value(&m->key_padding, b * s->M + j);
    return sum > -INFINITY && (!m->causal || j <= i);
}

static int64_t dead_heads(const clattn_module_masks *m, const sizes *s, int64_t b, int64_t i) {
    int64_t dead = 0;
    for (int64_t h = 0; h < s->H; h++) {
        bool any = false;
        for (int64_t j = 0; j < s->M && !any; j++)
            any = sees(m, s, b, h, i, j);
        dead += !any;
    }
    return dead;
}

static void set(clattn_array *want, int64_t at, double x) {
    char *to = (char *)want->data + (size_t)at * clattn_dtype_size(want->dtype);
    double old = 0;
    clattn_convert(&old, CLATTN_F64, to, want->dtype, 1);
    if (isnan(old))
        clattn_convert(to, want->dtype, &x, CLATTN_F64, 1);
}

/* Row i of batch b is the bias of the last projection. */
static void set_result(const sizes *s, clattn_array *want, int64_t b, int64_t i, const double *bias) {
    const int64_t E = want->shape[want->rank - 1], row = s->batch_second ? i * s->B + b : b * s->N + i;
    for (int64_t e = 0; e < E; e++)
        set(want, row * E + e, bias ? bias[e] : 0);
}

/* Where heads are apart, those that see a key have a right value, which stays. */
static void set_weights(const sizes *s, bool mean, clattn_array *want, int64_t b, int64_t i) {
    const int64_t heads = mean ? 1 : s->H;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t j = 0; j < s->M; j++)
            set(want, ((b * heads + h) * s->N + i) * s->M + j, 0);
}

static bool fits(const cla_check_job *job, sizes *s) {
    const clattn_multihead_args *a = &job->multihead;
    const clattn_tensor *q = &a->query, *k = a->key.rank ? &a->key : q;
    const int batch = job->multihead_options.batch_second ? 1 : 0, rows = 1 - batch;
    if (q->rank != k->rank || q->rank < 2)
        return false;
    *s = (sizes){.B = q->rank == 3 ? q->shape[batch] : 1,
                 .H = job->multihead_options.heads,
                 .N = q->shape[q->rank == 3 ? rows : 0],
                 .M = k->shape[q->rank == 3 ? rows : 0],
                 .batch_second = batch == 1 && q->rank == 3};
    if (s->H < 1 || s->H > q->shape[q->rank - 1])
        return false;
    const int64_t attn = clattn_tensor_elements(&a->masks.attn),
                  padding = clattn_tensor_elements(&a->masks.key_padding);
    return (a->masks.attn.rank == 0 || attn == (a->masks.attn.rank == 3 ? s->B * s->H : 1) * s->N * s->M) &&
           (a->masks.key_padding.rank == 0 || padding == s->B * s->M);
}

bool cla_check_dead_rows(cla_check_case *c, cla_check_job *job, bool has_extra) {
    sizes s;
    clattn_array bias = {0};
    if (has_extra || !fits(job, &s)) /* what does not fit is for the call to refuse */
        return true;
    for (size_t i = 0; i < job->parameter_count; i++)
        if (strcmp(job->parameters[i].name, "out_proj.bias") == 0 && job->parameters[i].array.rank == 1 &&
            job->parameters[i].array.shape[0] == job->multihead.y.shape[job->multihead.y.rank - 1] &&
            clattn_array_convert(&job->parameters[i].array, CLATTN_F64, &bias) != CLATTN_OK)
            return cla_check_error(c, "%s", clattn_last_error());
    for (int64_t row = 0; row < s.B * s.N; row++) {
        const int64_t b = row / s.N, i = row % s.N, dead = dead_heads(&job->multihead.masks, &s, b, i);
        for (size_t o = 0; o < job->output_count && dead > 0; o++) {
            cla_check_output *output = &job->outputs[o];
            clattn_array *want = &job->arrays[output->want - job->arrays];
            const bool weights = output->source == CLA_CHECK_FROM_WEIGHTS;
            if (dead < s.H && (!weights || job->multihead.weights_mean))
                output->nan_is_finite = true; /* some heads are dead: there is no right value to compare with */
            else if (weights)
                set_weights(&s, job->multihead.weights_mean, want, b, i);
            else
                set_result(&s, want, b, i, bias.data);
        }
    }
    clattn_array_free(&bias);
    return true;
}
