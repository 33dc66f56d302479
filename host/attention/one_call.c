/* SPDX-License-Identifier: Apache-2.0 */
/* The one call: host arrays become buffers, in place where the device shares the host's memory, then plan, execute,
 * bring back. */
#include "attention/plan.h"
#include <stdlib.h>

enum { TENSORS = 10, OUTPUTS = 3 }; /* outputs first */

/* A stretch of host memory that one or more tensors lie in. Overlapping stretches are one: two buffers over the same
 * bytes would be undefined. */
typedef struct {
    char *begin, *end;
    bool written, read;
    clattn_buffer *buffer;
} stretch;

static void tensors_of(clattn_attention_args *a, clattn_tensor *list[TENSORS]) {
    clattn_tensor *const all[TENSORS] = {&a->o, &a->lse,  &a->weights, &a->q,    &a->k,
                                         &a->v, &a->keep, &a->drop,    &a->bias, &a->sinks};
    for (int i = 0; i < TENSORS; i++)
        list[i] = all[i];
}

static clattn_status stretch_of(const clattn_tensor *t, bool output, stretch *s) {
    clattn_status status = CLATTN_OK;
    int64_t first, end;
    const size_t size = clattn_dtype_size(t->dtype);
    CLA_TRY(cla_view_range(t, output ? "an output" : "an input", &first, &end));
    s->begin = (char *)t->host + (size_t)first * size;
    s->end = (char *)t->host + (size_t)end * size;
    s->written = output;
    /* A view with gaps must bring back what was in the gaps. */
    s->read = !output || clattn_tensor_elements(t) != end - first;
done:
    return status;
}

static int by_begin(const void *a, const void *b) {
    const char *x = ((const stretch *)a)->begin, *y = ((const stretch *)b)->begin;
    return x < y ? -1 : x > y;
}

static size_t merge(stretch *s, size_t n) {
    size_t kept = 0;
    qsort(s, n, sizeof *s, by_begin);
    for (size_t i = 0; i < n; i++)
        if (kept > 0 && s[i].begin < s[kept - 1].end) {
            stretch *last = &s[kept - 1];
            last->end = s[i].end > last->end ? s[i].end : last->end;
            last->written |= s[i].written;
            last->read |= s[i].read;
        } else {
            s[kept++] = s[i];
        }
    return kept;
}

/* Moves a tensor's storage from its host array to the buffer of the stretch it lies in. */
static void move(clattn_tensor *t, const stretch *s, size_t n) {
    const size_t size = clattn_dtype_size(t->dtype);
    char *first = (char *)t->host + (size_t)t->offset * size;
    for (size_t i = 0; i < n; i++)
        if (first >= s[i].begin && first < s[i].end) {
            t->offset = (int64_t)((size_t)(first - s[i].begin) / size);
            t->buffer = s[i].buffer;
            t->host = NULL;
            return;
        }
}

static bool staged(const clattn_tensor *t) { return t->rank > 0 && t->host && clattn_tensor_elements(t) > 0; }

static clattn_status run(clattn_context *context, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    clattn_plan *plan = NULL;
    CLA_TRY(clattn_plan_create(context, args, &plan));
    CLA_TRY(clattn_plan_execute(plan, NULL));
    /* The plan's scratch and spans go with it: the runtime keeps them until the work is done. */
done:
    clattn_plan_destroy(plan);
    return status;
}

static clattn_status run_staged(clattn_context *context, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    clattn_attention_args moved = *args;
    clattn_tensor *tensors[TENSORS];
    stretch stretches[TENSORS];
    size_t n = 0;
    tensors_of(&moved, tensors);
    for (int i = 0; i < TENSORS; i++)
        if (staged(tensors[i])) {
            stretches[n].buffer = NULL;
            CLA_TRY(stretch_of(tensors[i], i < OUTPUTS, &stretches[n]));
            n++;
        }
    n = merge(stretches, n);
    for (size_t i = 0; i < n; i++) {
        stretch *s = &stretches[i];
        s->buffer = NULL;
        CLA_TRY(cla_buffer_wrap(context, s->begin, (size_t)(s->end - s->begin), s->read, &s->buffer));
    }
    for (int i = 0; i < TENSORS; i++)
        if (staged(tensors[i]))
            move(tensors[i], stretches, n);
    CLA_TRY(run(context, &moved));
    for (size_t i = 0; i < n; i++)
        if (stretches[i].written)
            CLA_TRY(cla_buffer_bring_back(stretches[i].buffer, stretches[i].begin,
                                          (size_t)(stretches[i].end - stretches[i].begin)));
    CLA_TRY(clattn_context_sync(context)); /* inputs are the caller's again */
done:
    if (status != CLATTN_OK)
        clattn_context_sync(context);
    for (size_t i = 0; i < n; i++)
        clattn_buffer_destroy(stretches[i].buffer);
    return status;
}

clattn_status clattn_attention(clattn_context *context, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    cla_problem checked = {0};
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "attention: %s is NULL", context ? "args" : "context");
    CLA_CHECK(!args->caller_workspace, CLATTN_E_ARGUMENT, "caller_workspace: is for plans; use max_workspace here");
    CLA_TRY(cla_problem_init(&checked, args)); /* before any array is touched */
    status = cla_context_is_cpu(context) ? run(context, args) : run_staged(context, args);
done:
    cla_problem_free(&checked);
    return status;
}

clattn_status clattn_algorithm_applies(clattn_context *context, const clattn_attention_args *args, size_t index,
                                       bool *applies, const char **reason) {
    static _Thread_local char text[CLA_REASON];
    clattn_status status = CLATTN_OK;
    cla_problem p = {0};
    CLA_CHECK(context && args && applies, CLATTN_E_ARGUMENT, "algorithm_applies: an argument is NULL");
    const cla_algorithm *algorithm = cla_algorithm_at(index);
    CLA_CHECK(algorithm, CLATTN_E_ARGUMENT, "algorithm_applies: there is no algorithm %zu", index);
    CLA_TRY(cla_problem_init(&p, args));
    text[0] = '\0';
    *applies = algorithm->applies(&p, cla_context_device(context), text, sizeof text);
    if (reason)
        *reason = text;
done:
    cla_problem_free(&p);
    return status;
}
