/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/gradients.h"

#include "attention/results.h"
#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include <string.h>

enum { TEXT = 200, GRADIENTS = 5 };

static clattn_status take_state(cla_problem *p, const clattn_tensor *t) {
    char text[TEXT], other[TEXT];
    const int64_t *o = p->o.shape;
    const clattn_tensor wanted = {.rank = 4, .shape = {o[0], o[1], o[2], 2}};
    if (!cla_present(t))
        return cla_error(CLATTN_E_ARGUMENT, "state: is missing; ask the forward pass for it, and give it with o");
    clattn_status status = cla_view_check(t, "state");
    if (status != CLATTN_OK)
        return status;
    const clattn_tensor lifted = t->rank <= 4 ? cla_view_lift(t) : *t;
    if (t->rank < 2 || t->rank > 4 || memcmp(lifted.shape, wanted.shape, 4 * sizeof *o) != 0)
        return cla_error(CLATTN_E_SHAPE, "state %s: should be %s", cla_shape_text(t, text, TEXT),
                         cla_shape_text(&wanted, other, TEXT));
    if (t->dtype != p->dtype)
        return cla_error(CLATTN_E_DTYPE, "state: is %s, but the sums here are %s, and so is it",
                         clattn_dtype_name(t->dtype), clattn_dtype_name(p->dtype));
    p->state = lifted;
    status = cla_view_storage(NULL, t, "state", CLA_READ);
    return status == CLATTN_OK ? cla_state_check(p) : status;
}

/* The type of d_o and of gradients. `of`: what it is the gradient by. */
static clattn_status check_type(const cla_problem *p, const clattn_tensor *t, const char *name,
                                const clattn_tensor *of) {
    if (!cla_is_float(of->dtype))
        return cla_error(CLATTN_E_DTYPE, "%s: %s is stored as %s, which has no gradient; leave %s out", name, name + 2,
                         clattn_dtype_name(of->dtype), name);
    if (!cla_is_float(t->dtype))
        return cla_error(CLATTN_E_DTYPE, "%s: is %s; gradients are f32, f64, f16 or bf16", name,
                         clattn_dtype_name(t->dtype));
    if (t->dtype == CLATTN_F64 && p->dtype != CLATTN_F64)
        return cla_error(CLATTN_E_DTYPE, "%s: is f64, but the sums here are f32", name);
    return CLATTN_OK;
}

/* t as a tensor of rank 4; `of`: what it is the gradient by, as the caller gave it; `use` as in cla_view_storage. */
static clattn_status take(const cla_problem *p, const clattn_tensor *t, const char *name, const clattn_tensor *of,
                          int use, clattn_tensor *out) {
    char text[TEXT], other[TEXT];
    clattn_status status = cla_view_check(t, name);
    if (status == CLATTN_OK)
        status = check_type(p, t, name, of);
    if (status != CLATTN_OK)
        return status;
    if (t->rank != of->rank || memcmp(t->shape, of->shape, (size_t)t->rank * sizeof *t->shape) != 0)
        return cla_error(CLATTN_E_SHAPE, "%s %s: should be %s, as %s", name, cla_shape_text(t, text, TEXT),
                         cla_shape_text(of, other, TEXT), name + 2);
    *out = cla_view_lift(t);
    return cla_view_storage(NULL, t, name, use);
}

/* d_bias keeps its sizes of 1, where everything is summed up. */
static void mark_broadcast(cla_problem *p) {
    const int64_t full[4] = {p->B, p->H, p->N, p->M};
    clattn_tensor *t = &p->d_bias;
    for (int axis = 0; axis < 4 && cla_present(t); axis++)
        if (t->shape[axis] == 1)
            t->stride[axis] = axis == 3 && full[3] > 1 && p->short_masks ? 1 : 0;
}

typedef struct {
    const char *name;
    const clattn_tensor *t, *of;
    clattn_tensor *out;
} gradient;

static clattn_status take_gradient(cla_problem *p, const gradient *g) {
    if (!cla_present(g->t))
        return CLATTN_OK;
    if (!cla_present(g->of))
        return cla_error(CLATTN_E_ARGUMENT, "%s: there is no %s; leave it out", g->name, g->name + 2);
    return take(p, g->t, g->name, g->of, CLA_WRITTEN, g->out);
}

/* No gradient may lie over an input or another gradient. Of the views that the caller gave: a broadcast one is dense
 * there. */
static clattn_status check_apart(const clattn_attention_backward_args *a, const gradient list[GRADIENTS]) {
    enum { INPUTS = 10 };
    static const char *const names[INPUTS] = {"q", "k", "v", "o", "state", "keep", "drop", "bias", "sinks", "d_o"};
    const clattn_attention_args *f = &a->forward;
    const clattn_tensor *const inputs[INPUTS] = {&f->q,    &f->k,    &f->v,    &f->o,     &f->state,
                                                 &f->keep, &f->drop, &f->bias, &f->sinks, &a->d_o};
    for (int i = 0; i < GRADIENTS; i++) {
        for (int j = i + 1; j < GRADIENTS; j++)
            if (cla_view_meets(list[i].t, list[j].t))
                return cla_error(CLATTN_E_ARGUMENT, "%s: lies over %s; give it memory of its own", list[i].name,
                                 list[j].name);
        for (int j = 0; j < INPUTS; j++)
            if (cla_view_meets(list[i].t, inputs[j]))
                return cla_error(CLATTN_E_ARGUMENT, "%s: lies over %s; give it memory of its own", list[i].name,
                                 names[j]);
    }
    return CLATTN_OK;
}

clattn_status cla_gradients_take(cla_problem *p, const clattn_attention_backward_args *args) {
    clattn_status status = CLATTN_OK;
    const clattn_attention_args *f = &args->forward;
    const gradient list[GRADIENTS] = {{"d_q", &args->d_q, &f->q, &p->d_q},
                                      {"d_k", &args->d_k, &f->k, &p->d_k},
                                      {"d_v", &args->d_v, &f->v, &p->d_v},
                                      {"d_bias", &args->d_bias, &f->bias, &p->d_bias},
                                      {"d_sinks", &args->d_sinks, &f->sinks, &p->d_sinks}};
    bool any = false;
    CLA_CHECK(!p->page_size, CLATTN_E_UNSUPPORTED,
              "block_table: the backward pass takes keys in one piece, not in pages");
    CLA_CHECK(cla_present(&args->d_o), CLATTN_E_ARGUMENT, "d_o: is missing; it is the gradient of the loss by o");
    CLA_TRY(take_state(p, &f->state));
    CLA_TRY(cla_view_storage(NULL, &f->o, "o", CLA_READ));
    CLA_TRY(take(p, &args->d_o, "d_o", &f->o, CLA_READ, &p->d_o));
    for (int i = 0; i < GRADIENTS; i++) {
        any = any || cla_present(list[i].t);
        CLA_TRY(take_gradient(p, &list[i]));
    }
    CLA_CHECK(any, CLATTN_E_ARGUMENT, "d_q, d_k, d_v, d_bias, d_sinks: none is wanted; ask for one at least");
    CLA_CHECK(!cla_present(&p->d_sinks) || (p->d_sinks.dtype == p->dtype && (p->d_sinks.stride[3] == 1 || p->H <= 1)),
              CLATTN_E_DTYPE, "d_sinks: is %s with stride %lld; it should be %s, one after another",
              clattn_dtype_name(p->d_sinks.dtype), (long long)p->d_sinks.stride[3], clattn_dtype_name(p->dtype));
    mark_broadcast(p);
    if (p->ragged) /* as cla_sequences_take leaves q, k, v, o */
        p->state.stride[0] = p->d_o.stride[0] = p->d_q.stride[0] = p->d_k.stride[0] = p->d_v.stride[0] = 0;
    CLA_TRY(check_apart(args, list));
done:
    return status;
}
