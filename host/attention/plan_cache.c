/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/plan_cache.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PLANS = 32, NAME = 32, HELD_BYTES = 1 << 20, SCRATCH_BYTES = 64 << 20 };

typedef struct {
    clattn_plan *plan;
    char algorithm[NAME], variant[CLA_VARIANT]; /* asked for by name, else "" */
} entry;

typedef struct {
    cla_kept kept; /* the first: this is what the context knows */
    pthread_mutex_t lock;
    entry entries[PLANS]; /* used last first */
    int count;
    clattn_buffer *scratch; /* one, for whoever comes first */
} cache;

/* ---- equality ---- */

static bool same_array(const void *a, const void *b, int64_t count, size_t size) {
    return (a == NULL) == (b == NULL) && (!a || memcmp(a, b, (size_t)count * size) == 0);
}

static bool same_layouts(const cla_problem *a, const cla_problem *b) {
    for (int i = 0; i < CLA_TENSORS; i++)
        if (!cla_view_same_layout(cla_tensor_read(a, i), cla_tensor_read(b, i)))
            return false;
    return true;
}

static bool same_masks(const cla_problem *a, const cla_problem *b) {
    return a->causal == b->causal && a->windowed == b->windowed && a->left == b->left && a->right == b->right &&
           a->interval == b->interval && a->score == b->score && a->short_masks == b->short_masks &&
           a->ragged == b->ragged && a->query_rows == b->query_rows && a->key_rows == b->key_rows &&
           a->page_size == b->page_size && /* so are pages of a table: M */
           same_array(a->batches, b->batches, a->B, sizeof *a->batches) &&
           same_array(a->slopes, b->slopes, a->H, sizeof *a->slopes) &&
           same_array(a->q_segments, b->q_segments, a->B * a->N, sizeof *a->q_segments) &&
           same_array(a->k_segments, b->k_segments, a->B * a->M, sizeof *a->k_segments) &&
           same_array(a->table, b->table, a->B * a->table_pages, sizeof *a->table);
}

static bool same_results(const cla_problem *a, const cla_problem *b) {
    return a->form == b->form && a->mean == b->mean && a->row_count == b->row_count && a->head_count == b->head_count &&
           same_array(a->form_queries, b->form_queries, a->row_count, sizeof *a->form_queries) &&
           same_array(a->form_heads, b->form_heads, a->head_count, sizeof *a->form_heads);
}

/* Everything that a plan is made of but buffers, offsets and the key of dropout. */
_Static_assert(sizeof(void *) != 8 || sizeof(cla_problem) == 3312, "a new field must be compared here");
static bool same_problem(const cla_problem *a, const cla_problem *b) {
    return a->B == b->B && a->H == b->H && a->Hk == b->Hk && a->N == b->N && a->M == b->M && a->D == b->D &&
           a->Dv == b->Dv && a->group == b->group && a->dtype == b->dtype && a->scale == b->scale &&
           a->softcap == b->softcap && a->max_workspace == b->max_workspace && a->self_check == b->self_check &&
           a->batch_invariant == b->batch_invariant && a->backward == b->backward && a->dropout == b->dropout &&
           same_layouts(a, b) && same_masks(a, b) && same_results(a, b);
}

/* ---- the cache ---- */

static void trim(cla_kept *kept) {
    cache *c = (cache *)kept;
    entry dropped[PLANS];
    pthread_mutex_lock(&c->lock);
    const int count = c->count;
    clattn_buffer *scratch = c->scratch;
    memcpy(dropped, c->entries, sizeof dropped);
    c->count = 0;
    c->scratch = NULL;
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < count; i++)
        clattn_plan_destroy(dropped[i].plan);
    clattn_buffer_destroy(scratch);
}

static void destroy(cla_kept *kept) {
    cache *c = (cache *)kept;
    trim(kept);
    pthread_mutex_destroy(&c->lock);
    cla_free(c);
}

static clattn_status make(cla_kept **out) {
    clattn_status status = CLATTN_OK;
    cache *c = NULL;
    CLA_TRY(cla_alloc(1, sizeof *c, "kept plans", &c));
    c->kept = (cla_kept){.trim = trim, .destroy = destroy};
    pthread_mutex_init(&c->lock, NULL);
    *out = &c->kept;
done:
    return status;
}

static const char *text_of(const char *name) { return name ? name : ""; }

static clattn_plan *find(cache *c, const cla_problem *p, const cla_asked *asked) {
    clattn_plan *plan = NULL;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < c->count && !plan; i++) {
        entry *e = &c->entries[i];
        if (!same_problem(&e->plan->problem, p) || strcmp(e->algorithm, text_of(asked->algorithm)) != 0 ||
            strcmp(e->variant, text_of(asked->variant)) != 0)
            continue;
        plan = e->plan;
        memmove(e, e + 1, (size_t)(--c->count - i) * sizeof *e);
    }
    pthread_mutex_unlock(&c->lock);
    return plan;
}

/* Kept scratch that is too small, or above what this call may use, makes room first. */
static clattn_status take_scratch(cache *c, clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const size_t least = plan->workspace_bytes, most = plan->problem.max_workspace;
    pthread_mutex_lock(&c->lock);
    clattn_buffer *scratch = NULL;
    if (least > 0 || (most > 0 && clattn_buffer_bytes(c->scratch) > most)) {
        scratch = c->scratch;
        c->scratch = NULL;
    }
    pthread_mutex_unlock(&c->lock);
    if (scratch && (clattn_buffer_bytes(scratch) < least || (most > 0 && clattn_buffer_bytes(scratch) > most))) {
        clattn_buffer_destroy(scratch);
        scratch = NULL;
    }
    if (!scratch && least > 0)
        CLA_TRY(clattn_buffer_create(plan->context, least, &scratch));
    plan->scratch = scratch;
    plan->owns_scratch = scratch != NULL;
done:
    return status;
}

static void keep_scratch(cache *c, clattn_buffer *scratch) {
    if (clattn_buffer_bytes(scratch) <= SCRATCH_BYTES) {
        pthread_mutex_lock(&c->lock);
        if (clattn_buffer_bytes(scratch) > clattn_buffer_bytes(c->scratch)) {
            clattn_buffer *smaller = c->scratch;
            c->scratch = scratch;
            scratch = smaller;
        }
        pthread_mutex_unlock(&c->lock);
    }
    clattn_buffer_destroy(scratch);
}

/* ---- calls ---- */

static size_t held_bytes(const clattn_plan *plan) {
    return clattn_buffer_bytes(plan->spans) + clattn_buffer_bytes(plan->slopes) +
           clattn_buffer_bytes(plan->q_segments) + clattn_buffer_bytes(plan->k_segments) +
           clattn_buffer_bytes(plan->table);
}

clattn_status cla_plan_take(clattn_context *context, cla_problem *problem, const cla_asked *asked, clattn_plan **out) {
    clattn_status status = CLATTN_OK;
    cla_kept *kept = NULL;
    clattn_plan *plan = NULL;
    *out = NULL;
    CLA_TRY(cla_context_keep(context, make, &kept));
    plan = find((cache *)kept, problem, asked);
    if (plan)
        CLA_TRY(cla_plan_bind(plan, problem));
    else
        CLA_TRY(cla_plan_make(context, problem, asked, &plan));
    CLA_TRY(take_scratch((cache *)kept, plan));
    *out = plan;
    plan = NULL;
done:
    cla_problem_free(problem);
    clattn_plan_destroy(plan);
    return status;
}

void cla_plan_give_back(clattn_plan *plan, const cla_asked *asked) {
    cla_kept *kept = NULL;
    clattn_plan *last = plan;
    if (cla_context_keep(plan->context, make, &kept) != CLATTN_OK)
        goto done;
    cache *c = (cache *)kept;
    keep_scratch(c, plan->scratch);
    plan->scratch = NULL;
    plan->owns_scratch = false;
    cla_plan_unbind(plan);
    if (held_bytes(plan) > HELD_BYTES || strlen(text_of(asked->algorithm)) >= NAME ||
        strlen(text_of(asked->variant)) >= CLA_VARIANT)
        goto done;
    pthread_mutex_lock(&c->lock);
    if (plan->tuning_changes == cla_tuning_changes(plan->context)) { /* else it follows the record as it was */
        last = c->count == PLANS ? c->entries[--c->count].plan : NULL;
        memmove(c->entries + 1, c->entries, (size_t)c->count++ * sizeof *c->entries);
        c->entries[0].plan = plan;
        snprintf(c->entries[0].algorithm, NAME, "%s", text_of(asked->algorithm));
        snprintf(c->entries[0].variant, CLA_VARIANT, "%s", text_of(asked->variant));
    }
    pthread_mutex_unlock(&c->lock);
done:
    clattn_plan_destroy(last);
}

int cla_plan_kept(clattn_context *context) {
    cla_kept *kept = NULL;
    if (cla_context_keep(context, make, &kept) != CLATTN_OK)
        return 0;
    cache *c = (cache *)kept;
    pthread_mutex_lock(&c->lock);
    const int count = c->count;
    pthread_mutex_unlock(&c->lock);
    return count;
}
