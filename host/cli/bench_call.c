/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_call.h"

#include "call_facts.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define RETURN_ON_FAILURE(call)                                                                                        \
    do {                                                                                                               \
        const clattn_status status_of_call = (call);                                                                   \
        if (status_of_call != CLATTN_OK)                                                                               \
            return status_of_call;                                                                                     \
    } while (0)

/* ---- on the host ---- */

static clattn_status create_gradients(cla_bench_call *c) {
    const cla_problem_data *d = &c->data;
    const int64_t state[] = {d->o.shape[0], d->o.shape[1], d->o.shape[2], 2};
    RETURN_ON_FAILURE(clattn_array_create(cla_sums_type(&d->args), 4, state, &c->state));
    RETURN_ON_FAILURE(cla_random_reals(d->o.dtype, 4, d->o.shape, 2, &c->d_o));
    RETURN_ON_FAILURE(clattn_array_create(d->q.dtype, 4, d->q.shape, &c->d_q));
    RETURN_ON_FAILURE(clattn_array_create(d->k.dtype, 4, d->k.shape, &c->d_k));
    RETURN_ON_FAILURE(clattn_array_create(d->v.dtype, 4, d->v.shape, &c->d_v));
    c->args.forward.state = clattn_array_tensor(&c->state);
    c->args.d_o = clattn_array_tensor(&c->d_o);
    c->args.d_q = clattn_array_tensor(&c->d_q);
    c->args.d_k = clattn_array_tensor(&c->d_k);
    c->args.d_v = clattn_array_tensor(&c->d_v);
    return CLATTN_OK;
}

bool cla_bench_call_create(const cla_problem_text *problem, bool backward, cla_bench_call *call) {
    *call = (cla_bench_call){.backward = backward};
    if (cla_problem_data_create(problem, 1, &call->data) != CLATTN_OK)
        return false;
    call->args.forward = call->data.args;
    return !backward || create_gradients(call) == CLATTN_OK;
}

void cla_bench_call_free(cla_bench_call *call) {
    clattn_array *const arrays[] = {&call->state, &call->d_o, &call->d_q, &call->d_k, &call->d_v};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        clattn_array_free(arrays[i]);
    cla_problem_data_free(&call->data);
}

/* ---- algorithms ---- */

void cla_bench_call_choose(clattn_attention_backward_args *args, size_t algorithm) {
    args->forward.algorithm = args->algorithm = clattn_algorithm_name(algorithm);
}

clattn_status cla_bench_call_applies(clattn_context *context, const cla_bench_call *call,
                                     const clattn_attention_backward_args *args, size_t algorithm, bool *applies,
                                     const char **reason) {
    const char *name = clattn_algorithm_name(algorithm);
    RETURN_ON_FAILURE(clattn_algorithm_applies(context, &args->forward, algorithm, applies, reason));
    if (!call->backward || !*applies)
        return CLATTN_OK;
    for (size_t i = 0; i < clattn_backward_algorithm_count(); i++)
        if (strcmp(clattn_backward_algorithm_name(i), name) == 0)
            return clattn_backward_algorithm_applies(context, args, i, applies, reason);
    *applies = false;
    *reason = "it has no backward pass";
    return CLATTN_OK;
}

/* ---- on a device ---- */

bool cla_bench_place_create(clattn_context *context, const cla_bench_call *call, cla_bench_place *place) {
    const cla_problem_data *d = &call->data;
    *place = (cla_bench_place){.args = call->args};
    clattn_attention_backward_args *b = &place->args;
    clattn_attention_args *a = &b->forward;
    clattn_tensor *const tensors[CLA_BENCH_TENSORS] = {&a->q,     &a->k,     &a->v,   &a->o,   &a->keep, &a->bias,
                                                       &a->sinks, &a->state, &b->d_o, &b->d_q, &b->d_k,  &b->d_v};
    const clattn_array *const arrays[CLA_BENCH_TENSORS] = {&d->q,      &d->k,      &d->v,      &d->o,
                                                           &d->keep,   &d->bias,   &d->sinks,  &call->state,
                                                           &call->d_o, &call->d_q, &call->d_k, &call->d_v};
    for (size_t i = 0; i < CLA_BENCH_TENSORS; i++) {
        if (arrays[i]->rank == 0)
            continue;
        if (clattn_buffer_create(context, arrays[i]->bytes, &place->buffers[i]) != CLATTN_OK ||
            clattn_buffer_upload(place->buffers[i], 0, arrays[i]->data, arrays[i]->bytes) != CLATTN_OK)
            return false;
        place->bytes += arrays[i]->bytes;
        *tensors[i] = clattn_tensor_buffer(place->buffers[i], arrays[i]->dtype, arrays[i]->rank, arrays[i]->shape);
    }
    return true;
}

void cla_bench_place_free(cla_bench_place *place) {
    for (size_t i = 0; i < CLA_BENCH_TENSORS; i++)
        clattn_buffer_destroy(place->buffers[i]);
    *place = (cla_bench_place){0};
}

static bool spoil(const clattn_tensor *on_device, const clattn_array *on_host) {
    if (on_device->rank == 0)
        return true;
    memset(on_host->data, 0xff, on_host->bytes);
    return clattn_buffer_upload(on_device->buffer, 0, on_host->data, on_host->bytes) == CLATTN_OK;
}

bool cla_bench_place_spoil(const cla_bench_place *place, const cla_bench_call *call) {
    const clattn_attention_backward_args *b = &place->args;
    return spoil(&b->forward.o, &call->data.o) && spoil(&b->forward.state, &call->state) &&
           spoil(&b->d_q, &call->d_q) && spoil(&b->d_k, &call->d_k) && spoil(&b->d_v, &call->d_v);
}

/* ---- agreement ---- */

/* Of values in [-1, 1), and of sums of them in shares of the largest. */
static double allowed_difference(clattn_dtype dtype, double largest) {
    return (dtype == CLATTN_F64 ? 1e-10 : dtype == CLATTN_F32 ? 1e-4 : 2e-2) * fmax(1, largest);
}

/* NULL: no such result. */
static const clattn_tensor *result_of(const cla_bench_place *place, size_t i) {
    const clattn_attention_backward_args *b = &place->args;
    const clattn_tensor *const gradients[CLA_BENCH_RESULTS] = {&b->d_q, &b->d_k, &b->d_v};
    if (b->d_q.rank > 0)
        return gradients[i];
    return i == 0 ? &b->forward.o : NULL;
}

static bool download(const clattn_tensor *t, clattn_array *into) {
    return (into->data || clattn_array_create(t->dtype, t->rank, t->shape, into) == CLATTN_OK) &&
           clattn_buffer_download(t->buffer, 0, into->data, into->bytes) == CLATTN_OK;
}

static bool result_agrees(const clattn_tensor *t, const char *what, const char *other, clattn_array *others, char *text,
                          size_t size) {
    clattn_array mine = {0}, *const got = other ? &mine : others;
    bool ok = download(t, got);
    if (!ok)
        snprintf(text, size, "%s", clattn_last_error());
    else if (!(ok = !cla_has_nan(got)))
        snprintf(text, size, "its %s has NaN, or is not written everywhere", what);
    const double d = ok && other ? cla_largest_difference(got, others) : 0;
    if (ok && d > 0 && !(ok = d <= allowed_difference(got->dtype, cla_largest(others))))
        snprintf(text, size, "its %s is off by %.3g from that of %s", what, d, other);
    clattn_array_free(&mine);
    return ok;
}

bool cla_bench_agrees(const cla_bench_place *place, const char *name, cla_bench_agreement *first, char *text,
                      size_t size) {
    static const char *const gradients[CLA_BENCH_RESULTS] = {"dQ", "dK", "dV"};
    for (size_t i = 0; i < CLA_BENCH_RESULTS; i++) {
        const clattn_tensor *t = result_of(place, i);
        if (t && !result_agrees(t, place->args.d_q.rank > 0 ? gradients[i] : "result", first->name, &first->results[i],
                                text, size))
            return false;
    }
    if (!first->name)
        first->name = name;
    return true;
}

void cla_bench_agreement_free(cla_bench_agreement *first) {
    for (size_t i = 0; i < CLA_BENCH_RESULTS; i++)
        clattn_array_free(&first->results[i]);
}
