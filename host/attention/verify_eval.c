/* SPDX-License-Identifier: Apache-2.0 */
/* A problem once more on the host: copies of its tensors, its rows as problems, and the two evaluations of them. */
#include "attention/plan.h"
#include "attention/self_check.h"
#include <string.h>

/* ---- tensors ---- */

void cla_outputs_of(cla_problem *p, clattn_tensor *list[CLATTN_VERDICTS]) {
    clattn_tensor *const all[CLATTN_VERDICTS] = {&p->o, &p->lse, &p->weights, &p->entropy, &p->column_sums};
    memcpy(list, all, sizeof all);
}

/* What a view touches of a device's buffer, copied. */
static clattn_status fetch(clattn_tensor *t, const char *name, void **copy) {
    clattn_status status = CLATTN_OK;
    int64_t first, end, first_byte, end_byte;
    CLA_TRY(cla_view_range(t, name, &first, &end));
    CLA_TRY(cla_view_bytes(t, name, &first_byte, &end_byte));
    CLA_TRY(cla_alloc((size_t)(end_byte - first_byte), 1, "copy of a tensor", copy));
    CLA_TRY(clattn_buffer_download(t->buffer, (size_t)first_byte, *copy, (size_t)(end_byte - first_byte)));
    t->host = *copy;
    t->offset -= first;
done:
    return status;
}

/* Short masks as lengths: keys after their columns are not seen. */
static clattn_status take_short_masks(cla_host_problem *host) {
    clattn_status status = CLATTN_OK;
    cla_problem *p = &host->problem;
    const clattn_tensor *const masks[] = {&p->keep, &p->drop, &p->bias};
    int64_t columns = p->M;
    for (int i = 0; i < 3; i++)
        if (cla_present(masks[i]))
            columns = cla_min(columns, masks[i]->shape[3]);
    if (columns == p->M)
        return CLATTN_OK;
    CLA_TRY(cla_alloc((size_t)p->B, sizeof *host->batches, "batches", &host->batches));
    for (int64_t b = 0; b < p->B; b++) {
        host->batches[b] = p->batches ? p->batches[b] : (cla_batch){.queries = p->N, .keys = p->M};
        host->batches[b].keys = cla_min(host->batches[b].keys, columns);
    }
    p->batches = host->batches;
    p->interval = true;
done:
    return status;
}

clattn_status cla_host_problem_init(const cla_problem *p, cla_host_problem *host) {
    clattn_status status = CLATTN_OK;
    *host = (cla_host_problem){.problem = *p};
    host->problem.state = (clattn_tensor){0}; /* not judged: an evaluation would write the caller's */
    for (int i = 0; i < CLA_TENSORS; i++) {
        clattn_tensor *t = cla_tensor_of(&host->problem, i);
        if (!cla_present(t) || !t->buffer)
            continue;
        if (cla_buffer_host(t->buffer))
            t->host = cla_buffer_host(t->buffer);
        else if (clattn_tensor_elements(t) > 0)
            CLA_TRY(fetch(t, cla_tensor_fields[i].name, &host->copies[i]));
        t->buffer = NULL;
    }
    CLA_TRY(take_short_masks(host));
done:
    return status;
}

void cla_host_problem_free(cla_host_problem *host) {
    cla_free(host->batches);
    for (int i = 0; i < CLA_TENSORS; i++)
        cla_free(host->copies[i]);
    *host = (cla_host_problem){0};
}

/* ---- evaluations ---- */

static clattn_status new_outputs(cla_problem *p, clattn_dtype dtype, const clattn_tensor *given, cla_evaluation *e) {
    clattn_status status = CLATTN_OK;
    clattn_tensor *outputs[CLATTN_VERDICTS];
    cla_outputs_of(p, outputs);
    for (int i = 0; i < CLATTN_VERDICTS; i++) {
        clattn_tensor *t = outputs[i];
        if (!cla_present(t))
            continue;
        clattn_tensor fresh = clattn_tensor_host(NULL, dtype, 4, t->shape);
        if (given && cla_present(&given[i])) {
            fresh.host = given[i].host;
            fresh.offset = given[i].offset;
        } else {
            CLA_TRY(cla_alloc((size_t)clattn_tensor_elements(t), clattn_dtype_size(dtype), "expected results",
                              &e->data[i]));
            fresh.host = e->data[i];
        }
        for (int axis = 0; axis < 2; axis++) /* sequences have no axis of batches */
            if (t->stride[axis] == 0 && t->shape[axis] <= 1)
                fresh.stride[axis] = 0;
        *t = e->tensors[i] = fresh;
    }
done:
    return status;
}

clattn_status cla_evaluate_exact(const cla_problem *p, const clattn_tensor *given, cla_evaluation *e) {
    clattn_status status = CLATTN_OK;
    cla_problem x = *p;
    *e = (cla_evaluation){0};
    CLA_TRY(new_outputs(&x, CLATTN_F64, given, e));
    CLA_TRY(cla_reference_run(&x, p->dtype == CLATTN_F64));
done:
    return status;
}

clattn_status cla_evaluate_plain(clattn_context *cpu, const cla_problem *p, cla_evaluation *e) {
    clattn_status status = CLATTN_OK;
    cla_problem x = *p;
    *e = (cla_evaluation){0};
    CLA_TRY(new_outputs(&x, p->dtype, NULL, e));
    x.max_workspace = 0;
    x.self_check = 0;
    CLA_TRY(cla_plan_run_once(cpu, &x, &(cla_asked){"blas", NULL}));
done:
    return status;
}

void cla_evaluation_free(cla_evaluation *e) {
    for (int i = 0; i < CLATTN_VERDICTS; i++)
        cla_free(e->data[i]);
    *e = (cla_evaluation){0};
}

/* ---- rows ---- */

/* One element of axes 0 and 1, and of axis 2 from `at` on. */
static void cut(clattn_tensor *t, int64_t b, int64_t h, int64_t at, int64_t rows) {
    if (!cla_present(t))
        return;
    t->offset += b * t->stride[0] + h * t->stride[1] + at * t->stride[2];
    t->shape[0] = t->shape[1] = 1;
    t->shape[2] = rows;
}

void cla_problem_row(const cla_problem *p, int64_t b, int64_t h, int64_t i, cla_batch *batch, cla_problem *row) {
    const int64_t hk = h / p->group;
    const cla_batch whole = {.queries = p->N, .keys = p->M}, *x = p->batches ? &p->batches[b] : &whole;
    *row = *p;
    *batch = *x;
    row->B = row->H = row->Hk = row->N = row->group = 1;
    row->batches = p->batches ? batch : NULL;
    batch->queries = x->queries > i; /* not those behind it: sequences have as many as they say */
    batch->offset += i;
    batch->q_row = batch->k_row = 0;
    cut(&row->q, b, h, x->q_row + i, 1); /* strides of the batch are 0 where sequences are one after another */
    if (p->page_size) {
        row->table = p->table + b * p->table_pages;
        row->k.offset += hk * p->k.stride[1];
        row->v.offset += hk * p->v.stride[1];
        row->k.shape[1] = row->v.shape[1] = 1;
    } else {
        cut(&row->k, b, hk, x->k_row, p->ragged ? x->keys : p->M);
        cut(&row->v, b, hk, x->k_row, p->ragged ? x->keys : p->M);
    }
    cut(&row->keep, b, h, i, 1);
    cut(&row->drop, b, h, i, 1);
    cut(&row->bias, b, h, i, 1);
    if (cla_present(&row->sinks)) {
        row->sinks.offset += h * p->sinks.stride[3];
        row->sinks.shape[3] = 1;
    }
    row->slopes = p->slopes ? p->slopes + h : NULL;
    row->q_segments = p->q_segments ? p->q_segments + b * p->N + i : NULL;
    row->k_segments = p->k_segments ? p->k_segments + b * p->M : NULL;
    const int64_t o[4] = {1, 1, 1, p->Dv}, one[4] = {1, 1, 1, 1}, weights[4] = {1, 1, 1, p->M};
    row->o = clattn_tensor_host(NULL, CLATTN_F64, 4, o);
    if (cla_present(&p->lse))
        row->lse = clattn_tensor_host(NULL, CLATTN_F64, 4, one);
    if (cla_present(&p->entropy))
        row->entropy = clattn_tensor_host(NULL, CLATTN_F64, 4, one);
    row->column_sums = row->weights = (clattn_tensor){0};
    if (cla_present(&p->weights) && cla_plain_weights(p))
        row->weights = clattn_tensor_host(NULL, CLATTN_F64, 4, weights);
    row->form = CLATTN_WEIGHTS_SOFTMAX;
    row->mean = false;
    row->form_queries = row->form_heads = NULL;
    row->row_count = row->head_count = 1;
}

int64_t cla_key_element(const cla_problem *p, const clattn_tensor *t, int64_t b, int64_t hk, int64_t j) {
    int64_t stack = b, at = j;
    if (p->page_size) {
        stack = p->table[b * p->table_pages + j / p->page_size];
        at = j % p->page_size;
    } else if (p->batches) {
        at += p->batches[b].k_row;
    }
    return t->offset + stack * t->stride[0] + hk * t->stride[1] + at * t->stride[2];
}
