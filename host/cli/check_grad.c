/* SPDX-License-Identifier: Apache-2.0 */
/* sdpa_grad (PyTorch): the forward pass as sdpa, then the gradients by Q, K and V from the one by Y. */
#include "check_module.h"

#include "call_facts.h"
#include <string.h>

/* The tensors that a job's outputs come from, by the stem of their names. */
typedef struct operands {
    cla_check_sdpa sdpa;
    clattn_array *dq, *dk, *dv;
} operands;

static bool prepare(cla_check_case *c, cla_check_job *job, operands *x) {
    clattn_attention_backward_args *b = &job->backward;
    cla_check_sdpa *s = &x->sdpa;
    int64_t shape[CLATTN_MAX_RANK];
    if (!cla_check_prepare_sdpa(c, job, s))
        return false;
    const clattn_attention_args *a = &job->args;
    const clattn_array *by_o = cla_check_read(c, job, "dY");
    if (!by_o)
        return false;
    if (!cla_check_same_shape(by_o, s->o))
        return cla_check_error(c, "dY: its shape does not follow from those of the inputs");
    b->d_o = cla_check_fold(by_o);
    memcpy(shape, a->o.shape, sizeof shape);
    shape[a->o.rank - 1] = 2;
    const clattn_array *state = cla_check_new_array(c, job, cla_sums_type(a), a->o.rank, shape);
    if (!state)
        return false;
    job->args.state = clattn_array_tensor(state);
    return cla_check_new_gradient(c, job, &s->axes, false, &s->q, &x->dq, &b->d_q) &&
           cla_check_new_gradient(c, job, &s->axes, true, &s->k, &x->dk, &b->d_k) &&
           cla_check_new_gradient(c, job, &s->axes, true, &s->v, &x->dv, &b->d_v);
}

bool cla_check_build_grad(cla_check_case *c) {
    static const char *const attrs[] = {"is_causal", "causal_lower_right", "enable_gqa", "layout", "scale", NULL};
    static const char *const names[] = {"Q", "K", "V", "attn_mask", "dY", NULL};
    operands operands_of[CLA_CHECK_JOBS] = {0};
    clattn_dtype inputs;
    if (!cla_check_known(c, attrs, names) || !cla_check_dtype_of(c, "Q", &inputs))
        return false;
    const cJSON *out;
    cJSON_ArrayForEach(out, cJSON_GetObjectItemCaseSensitive(c->json, "out")) {
        char stem[CLA_CHECK_TEXT];
        clattn_dtype dtype;
        const size_t jobs = c->job_count;
        cla_check_stem(out->string, inputs, stem, &dtype);
        cla_check_job *job = cla_check_job_of(c, dtype);
        if (!job)
            return false;
        operands *x = &operands_of[job - c->jobs];
        if (c->job_count > jobs && !prepare(c, job, x))
            return false;
        const clattn_array *got = strcmp(stem, "Y") == 0    ? x->sdpa.o
                                  : strcmp(stem, "dQ") == 0 ? x->dq
                                  : strcmp(stem, "dK") == 0 ? x->dk
                                  : strcmp(stem, "dV") == 0 ? x->dv
                                                            : NULL;
        if (!got)
            return cla_check_error(c, "the output %s is not known", out->string);
        if (!cla_check_want(c, job, out, got == x->sdpa.o ? CLA_CHECK_FROM_O : CLA_CHECK_FROM_BACKWARD, got))
            return false;
    }
    return true;
}
