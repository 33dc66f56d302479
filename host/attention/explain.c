/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan tells about itself: lines that are written while it is made, from what it is made of. */
#include "attention/plan.h"
#include "tensor/dtype.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *clattn_plan_explain(const clattn_plan *plan) { return plan ? cla_str_text(&plan->text) : ""; }

/* ---- restrictions and scores ---- */

static void add_word(cla_str *text, bool present, const char *word, bool *any) {
    if (!present)
        return;
    cla_str_append(text, "%s%s", *any ? ", " : "", word);
    *any = true;
}

static const char *side_text(int64_t side, int64_t unlimited, char *text, size_t size) {
    if (side >= unlimited)
        return "inf";
    snprintf(text, size, "%" PRId64, side);
    return text;
}

static void add_window(cla_str *text, const cla_problem *p, bool *any) {
    const int64_t unlimited = (int64_t)UINT32_MAX + 1; /* as mask.c cuts it */
    char left[24], right[24], word[80];
    snprintf(word, sizeof word, "a window of %s, %s", side_text(p->left, unlimited, left, sizeof left),
             side_text(p->right, unlimited, right, sizeof right));
    add_word(text, p->windowed, word, any);
}

/* Whether a batch has fewer than all. */
static bool shorter(const cla_problem *p, bool queries) {
    for (int64_t b = 0; p->batches && b < p->B; b++)
        if (queries ? p->batches[b].queries < p->N : p->batches[b].keys < p->M)
            return true;
    return false;
}

static bool prefixed(const cla_problem *p) {
    for (int64_t b = 0; p->batches && b < p->B; b++)
        if (p->batches[b].prefix > 0)
            return true;
    return false;
}

static void explain_results(cla_str *text, const cla_problem *p) {
    static const char *const forms[] = {"after the softmax", "of scaled scores", "after the soft cap",
                                        "after the masks"};
    char word[160];
    bool any = false;
    cla_str_append(text, "results: ");
    for (int i = 0; i < CLA_TENSORS && p->backward; i++)
        add_word(text, cla_tensor_written(p, i) && cla_present(cla_tensor_read(p, i)), cla_tensor_fields[i].name, &any);
    if (p->backward) {
        cla_str_append(text, "\n");
        return;
    }
    add_word(text, true, "o", &any);
    add_word(text, cla_present(&p->state), "state", &any);
    add_word(text, cla_present(&p->lse), "lse", &any);
    snprintf(word, sizeof word, "weights %s of %lld queries and %lld heads%s", forms[p->form], (long long)p->row_count,
             (long long)p->head_count, p->mean ? ", averaged" : "");
    add_word(text, cla_present(&p->weights), word, &any);
    add_word(text, cla_present(&p->entropy), "entropy", &any);
    add_word(text, cla_present(&p->column_sums), "column sums", &any);
    cla_str_append(text, "\n");
}

void cla_explain_restrictions(clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    cla_str *text = &plan->text;
    char word[80];
    bool any = false;
    cla_str_append(text, "keys seen: ");
    snprintf(word, sizeof word, "%lld sequences one after another", (long long)p->B);
    add_word(text, p->ragged, word, &any);
    add_word(text, p->causal, "causal", &any);
    add_word(text, p->causal && prefixed(p), "prefixes", &any);
    add_window(text, p, &any);
    add_word(text, !p->ragged && shorter(p, false), "key lengths", &any);
    add_word(text, !p->ragged && shorter(p, true), "query lengths", &any);
    add_word(text, p->q_segments != NULL, "segments", &any);
    add_word(text, cla_present(&p->keep), "keep", &any);
    add_word(text, cla_present(&p->drop), "drop", &any);
    cla_str_append(text, "%s; the intervals among them let %.4g of %.4g pairs through\n", any ? "" : "all",
                   cla_problem_pairs(p), (double)p->B * (double)p->H * (double)p->N * (double)p->M);
    any = false;
    cla_str_append(text, "scores: times %.6g", p->scale);
    any = true;
    snprintf(word, sizeof word, "soft cap %.6g", p->softcap);
    add_word(text, p->softcap > 0, word, &any);
    add_word(text, p->slopes != NULL, "ALiBi", &any);
    add_word(text, cla_present(&p->bias), "bias", &any);
    add_word(text, cla_present(&p->sinks), "sinks in the sum", &any);
    snprintf(word, sizeof word, "dropout %.6g of the weights", p->dropout);
    add_word(text, p->dropout > 0, word, &any);
    cla_str_append(text, "; sums in %s%s\n", clattn_dtype_name(p->dtype),
                   p->batch_invariant ? "; bits independent of the batch" : "");
    explain_results(text, p);
}

/* ---- storage ---- */

/* How the algorithm gets a tensor: `mine` is what it is bound to. */
static const char *how(const cla_problem *p, const cla_problem *given, const clattn_tensor *theirs,
                       const clattn_tensor *mine, bool output) {
    const bool paged = given->page_size && !p->page_size && (theirs == &given->k || theirs == &given->v);
    if (paged)
        return "gathered beforehand";
    if (mine->dtype != theirs->dtype)
        return output ? "converted afterwards" : "converted beforehand";
    if (!cla_view_same_layout(mine, theirs))
        return output ? "copied afterwards" : "copied beforehand";
    return output ? "written as it lies" : "read as it lies";
}

static void explain_pages(clattn_plan *plan, const cla_problem *given) {
    if (given->page_size)
        cla_str_append(&plan->text, "%lld pages of %lld keys, %lld a batch at most: %s\n", (long long)given->k.shape[0],
                       (long long)given->page_size, (long long)given->table_pages,
                       plan->problem.page_size ? "read as they lie" : "gathered beforehand");
}

void cla_explain_storage(clattn_plan *plan, const cla_problem *given) {
    enum { STORED = 11 };
    static const char *const names[STORED] = {"q", "k", "v", "keep", "drop", "bias", "o", "d_o", "d_q", "d_k", "d_v"};
    const cla_problem *p = &plan->problem;
    const clattn_tensor *const mine[STORED] = {&p->q, &p->k,   &p->v,   &p->keep, &p->drop, &p->bias,
                                               &p->o, &p->d_o, &p->d_q, &p->d_k,  &p->d_v};
    const clattn_tensor *const theirs[STORED] = {&given->q,    &given->k,    &given->v,  &given->keep,
                                                 &given->drop, &given->bias, &given->o,  &given->d_o,
                                                 &given->d_q,  &given->d_k,  &given->d_v};
    for (int i = 0; i < STORED; i++)
        if (cla_present(theirs[i]))
            cla_str_append(&plan->text, "%s%s %s %s", i ? ", " : "storage: ", names[i],
                           clattn_dtype_name(theirs[i]->dtype),
                           how(p, given, theirs[i], mine[i], p->backward ? i > 7 : i == 6));
    cla_str_append(&plan->text, "\n");
    explain_pages(plan, given);
}

/* ---- costs ---- */

double cla_tensor_bytes(const cla_problem *p, const clattn_tensor *t) {
    double elements = cla_present(t) ? 1 : 0;
    for (int axis = 0; axis < t->rank; axis++)
        elements *= t->stride[axis] == 0 ? (t->shape[axis] > 0) : (double)t->shape[axis];
    if (p->page_size && (t == &p->k || t == &p->v)) {
        elements = 0;
        for (int64_t b = 0; b < p->B; b++)
            elements += (double)p->batches[b].keys * (double)(t->shape[1] * t->shape[3]);
    }
    return elements * (double)clattn_dtype_size(t->dtype) / (double)clattn_dtype_length(t->dtype);
}

clattn_status clattn_plan_info_get(const clattn_plan *plan, clattn_plan_info *info) {
    if (!plan || !info)
        return cla_error(CLATTN_E_ARGUMENT, "plan_info_get: %s is NULL", plan ? "info" : "plan");
    const cla_problem *p = &plan->problem;
    double bytes = 0;
    for (int i = 0; i < CLA_TENSORS; i++)
        bytes += cla_tensor_bytes(p, cla_tensor_read(p, i));
    *info = (clattn_plan_info){
        .algorithm = plan->algorithm ? plan->algorithm->name : "fill",
        .variant = plan->variant_count ? plan->variants[plan->variant].text : "",
        .workspace_bytes = plan->workspace_bytes + plan->hidden_bytes,
        .largest_bytes = plan->workspace_bytes > plan->largest_hidden ? plan->workspace_bytes : plan->largest_hidden,
        .operations = 2.0 * cla_problem_pairs(p) * (double)(p->backward ? 3 * p->D + 2 * p->Dv : p->D + p->Dv),
        .moved_bytes = bytes,
    };
    return CLATTN_OK;
}

void cla_explain_costs(clattn_plan *plan) {
    clattn_plan_info info = {0};
    clattn_plan_info_get(plan, &info);
    cla_str_append(&plan->text,
                   "workspace: %zu bytes, the largest allocation %zu; least traffic: %.0f bytes; operations: %.4g\n",
                   info.workspace_bytes, info.largest_bytes, info.moved_bytes, info.operations);
}
