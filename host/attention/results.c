/* SPDX-License-Identifier: Apache-2.0 */
/* What an attention call writes: o, lse, weights in their forms, and what is made of them. */
#include "attention/results.h"

#include "base/error.h"
#include "base/mem.h"
#include "tensor/view.h"
#include <string.h>

enum { TEXT = 200 };

/* No output may lie over an input or another output: kernels read inputs after they have begun to write. */
static clattn_status check_apart(const clattn_attention_args *a) {
    enum { OUTPUTS = 6, TENSORS = 13 };
    static const char *const names[TENSORS] = {"o", "lse", "weights", "column_sums", "entropy", "state", "q",
                                               "k", "v",   "keep",    "drop",        "bias",    "sinks"};
    const clattn_tensor *const all[TENSORS] = {&a->o,     &a->lse,  &a->weights, &a->column_sums, &a->entropy,
                                               &a->state, &a->q,    &a->k,       &a->v,           &a->keep,
                                               &a->drop,  &a->bias, &a->sinks};
    for (int i = 0; i < OUTPUTS; i++)
        for (int j = i + 1; j < TENSORS; j++)
            if (cla_view_meets(all[i], all[j]))
                return cla_error(CLATTN_E_ARGUMENT, "%s: lies over %s; give it memory of its own", names[i], names[j]);
    return CLATTN_OK;
}

/* An optional output of shape want[0 .. rank). Lifted by axes of size 1 and stride 0. */
static clattn_status take_output(const clattn_tensor *t, const char *name, const cla_problem *p, int rank_less,
                                 const int64_t want[4], clattn_tensor *out) {
    char text[TEXT], other[TEXT];
    if (t->rank == 0)
        return CLATTN_OK;
    clattn_status status = cla_view_check(t, name);
    if (status != CLATTN_OK)
        return status;
    if (t->dtype != p->dtype)
        return cla_error(CLATTN_E_DTYPE, "%s: is %s, but the sums here are %s, and so is it", name,
                         clattn_dtype_name(t->dtype), clattn_dtype_name(p->dtype));
    clattn_tensor lifted = t->rank <= 4 ? cla_view_lift(t) : *t;
    const int least = 2 - rank_less;
    if (t->rank < least || t->rank > 4 || memcmp(lifted.shape, want, 4 * sizeof *want) != 0) {
        const clattn_tensor wanted = {
            .rank = 4 - rank_less,
            .shape = {want[rank_less], want[rank_less + 1], want[rank_less + 2], rank_less ? 0 : want[3]}};
        return cla_error(CLATTN_E_SHAPE, "%s %s: should be %s", name, cla_shape_text(t, text, TEXT),
                         cla_shape_text(&wanted, other, TEXT));
    }
    *out = lifted;
    return cla_view_storage(NULL, t, name, CLA_WRITTEN);
}

/* The rows of weights along an axis, each at most once; copied. */
static clattn_status take_list(const int64_t *list, int64_t count, const char *name, int64_t size, int64_t **copy,
                               int64_t *rows) {
    clattn_status status = CLATTN_OK;
    bool *seen = NULL;
    *rows = size;
    if (!list) {
        CLA_CHECK(count == 0, CLATTN_E_ARGUMENT, "weights_%s: is NULL, and its count %lld; give an array, or 0 for all",
                  name, (long long)count);
        goto done;
    }
    CLA_CHECK(count >= 0, CLATTN_E_ARGUMENT, "weights_%s: a count of %lld is negative", name, (long long)count);
    CLA_TRY(cla_alloc((size_t)size, sizeof *seen, "marks", &seen));
    for (int64_t x = 0; x < count; x++) {
        CLA_CHECK(list[x] >= 0 && list[x] < size, CLATTN_E_SHAPE, "weights_%s: entry %lld is %lld, outside 0 to %lld",
                  name, (long long)x, (long long)list[x], (long long)size - 1);
        CLA_CHECK(!seen[list[x]], CLATTN_E_ARGUMENT,
                  "weights_%s: %lld is there twice, the second time at entry %lld; list each once", name,
                  (long long)list[x], (long long)x);
        seen[list[x]] = true;
    }
    CLA_TRY(cla_alloc((size_t)count, sizeof **copy, "rows of weights", copy));
    memcpy(*copy, list, (size_t)count * sizeof *list);
    *rows = count;
done:
    cla_free(seen);
    return status;
}

static clattn_status take_form(cla_problem *p, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK((unsigned)args->weights_form <= CLATTN_WEIGHTS_MASKED, CLATTN_E_ARGUMENT,
              "weights_form: %d is none of the forms, 0 to %d", (int)args->weights_form, CLATTN_WEIGHTS_MASKED);
    CLA_CHECK(!args->weights_mean || args->weights_form == CLATTN_WEIGHTS_SOFTMAX, CLATTN_E_ARGUMENT,
              "weights_mean: with weights_form %d; only weights after the softmax (form 0) are averaged over heads",
              (int)args->weights_form);
    CLA_CHECK(cla_present(&args->weights) ||
                  (args->weights_form == 0 && !args->weights_mean && !args->weights_queries && !args->weights_heads),
              CLATTN_E_ARGUMENT,
              "weights: are missing, and weights_form, weights_mean, weights_queries or weights_heads says how they "
              "should be");
    CLA_TRY(
        take_list(args->weights_queries, args->weights_query_count, "queries", p->N, &p->form_queries, &p->row_count));
    CLA_TRY(take_list(args->weights_heads, args->weights_head_count, "heads", p->H, &p->form_heads, &p->head_count));
    CLA_CHECK(!args->weights_mean || p->head_count > 0 || p->H == 0, CLATTN_E_ARGUMENT,
              "weights_heads: lists no head, and weights_mean needs one to average");
    p->form = args->weights_form;
    p->mean = args->weights_mean;
done:
    return status;
}

clattn_status cla_state_check(const cla_problem *p) {
    if (!cla_present(&p->state) || p->state.stride[3] == 1)
        return CLATTN_OK;
    return cla_error(CLATTN_E_SHAPE, "state: has a last stride of %lld; its two numbers lie side by side",
                     (long long)p->state.stride[3]);
}

clattn_status cla_results_take(cla_problem *p, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    const int64_t batches = p->ragged ? 1 : p->B, rows[4] = {1, batches, p->H, p->q.shape[2]};
    const int64_t columns[4] = {1, batches, p->H, p->ragged ? p->k.shape[2] : p->M};
    CLA_CHECK(!cla_present(&args->column_sums) || !p->ragged || !p->page_size, CLATTN_E_UNSUPPORTED,
              "column_sums: of sequences whose keys lie in pages are not supported; give the queries as [B, H, N, D], "
              "or the keys in one piece");
    const int64_t state[4] = {batches, p->H, p->q.shape[2], 2};
    CLA_TRY(cla_view_storage(NULL, &args->o, "o", CLA_WRITTEN));
    CLA_TRY(take_form(p, args));
    const int64_t weights[4] = {p->B, p->mean ? 1 : p->head_count, p->row_count, p->M};
    CLA_TRY(take_output(&args->weights, "weights", p, 0, weights, &p->weights));
    CLA_TRY(take_output(&args->state, "state", p, 0, state, &p->state));
    CLA_TRY(cla_state_check(p));
    CLA_TRY(take_output(&args->lse, "lse", p, 1, rows, &p->lse));
    CLA_TRY(take_output(&args->entropy, "entropy", p, 1, rows, &p->entropy));
    CLA_TRY(take_output(&args->column_sums, "column_sums", p, 1, columns, &p->column_sums));
    if (p->ragged)
        p->state.stride[0] = p->lse.stride[1] = p->entropy.stride[1] = p->column_sums.stride[1] = 0;
    CLA_TRY(check_apart(args));
done:
    return status;
}
