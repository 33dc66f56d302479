/* SPDX-License-Identifier: Apache-2.0 */
/* `reference`: plain loops on the host, the oracle of everything else. */
#include "attention/plan.h"
#include "ref/ref_attention.h"

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p;
    return cla_needs_cpu(device, reason, reason_bytes);
}

static bool suits(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p, (void)device, (void)reason, (void)reason_bytes;
    return true;
}

static clattn_status create(clattn_plan *plan) {
    cla_str_append(&plan->text, "sums in double\n");
    return CLATTN_OK;
}

static clattn_tensor on_host(const clattn_tensor *t) {
    clattn_tensor r = *t;
    r.host = cla_tensor_data(t);
    r.offset = 0;
    return r;
}

/* Free *batches afterwards. */
static clattn_status for_reference(const cla_problem *p, cla_ref_attention *a, cla_ref_batch **batches) {
    clattn_status status = CLATTN_OK;
    *batches = NULL;
    *a = (cla_ref_attention){.B = p->B,
                             .H = p->H,
                             .Hk = p->Hk,
                             .N = p->N,
                             .M = p->M,
                             .D = p->D,
                             .Dv = p->Dv,
                             .q = on_host(&p->q),
                             .k = on_host(&p->k),
                             .v = on_host(&p->v),
                             .o = on_host(&p->o),
                             .lse = on_host(&p->lse),
                             .state = on_host(&p->state),
                             .weights = on_host(&p->weights),
                             .column_sums = on_host(&p->column_sums),
                             .entropy = on_host(&p->entropy),
                             .d_o = on_host(&p->d_o),
                             .d_q = on_host(&p->d_q),
                             .d_k = on_host(&p->d_k),
                             .d_v = on_host(&p->d_v),
                             .d_bias = on_host(&p->d_bias),
                             .d_sinks = on_host(&p->d_sinks),
                             .form = (int)p->form,
                             .mean = p->mean,
                             .rows = p->form_queries,
                             .heads = p->form_heads,
                             .row_count = p->row_count,
                             .head_count = p->head_count,
                             .keep = on_host(&p->keep),
                             .drop = on_host(&p->drop),
                             .bias = on_host(&p->bias),
                             .sinks = on_host(&p->sinks),
                             .scale = p->scale,
                             .softcap = p->softcap,
                             .dropout = cla_dropout_of(p->dropout, p->dropout_key),
                             .causal = p->causal,
                             .windowed = p->windowed,
                             .ragged = p->ragged,
                             .left = p->left,
                             .right = p->right,
                             .slopes = p->slopes,
                             .q_segments = p->q_segments,
                             .k_segments = p->k_segments,
                             .page_size = p->page_size,
                             .table_pages = p->table_pages,
                             .table = p->table};
    if (p->batches) {
        CLA_TRY(cla_alloc((size_t)p->B, sizeof **batches, "batches", batches));
        for (int64_t b = 0; b < p->B; b++) {
            const cla_batch *x = &p->batches[b];
            (*batches)[b] = (cla_ref_batch){x->q_row, x->k_row, x->queries, x->keys, x->offset, x->prefix};
        }
        a->batches = *batches;
    }
done:
    return status;
}

clattn_status cla_reference_run(const cla_problem *p, bool wide) {
    clattn_status status = CLATTN_OK;
    cla_ref_attention a;
    cla_ref_batch *batches = NULL;
    CLA_TRY(for_reference(p, &a, &batches));
    if (p->backward)
        status = wide ? cla_ref_gradients_long_double(&a) : cla_ref_gradients_double(&a);
    else
        status = wide ? cla_ref_attention_long_double(&a) : cla_ref_attention_double(&a);
done:
    cla_free(batches);
    return status;
}

static clattn_status execute(clattn_plan *plan) { return cla_reference_run(&plan->problem, false); }

static void destroy(clattn_plan *plan) { (void)plan; }

const cla_algorithm cla_algo_reference = {.name = "reference",
                                          .summary = "plain loops on the CPU with wide sums: the oracle",
                                          .applies = applies,
                                          .suits = suits,
                                          .blocks = true,
                                          .pages = true,
                                          .weights = true,
                                          .create = create,
                                          .execute = execute,
                                          .destroy = destroy};

const cla_algorithm cla_backward_reference = {.name = "reference",
                                              .summary = "plain loops on the CPU with wide sums: the oracle",
                                              .applies = applies,
                                              .suits = suits,
                                              .blocks = true,
                                              .create = create,
                                              .execute = execute,
                                              .destroy = destroy};
