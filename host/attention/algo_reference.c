/* SPDX-License-Identifier: Apache-2.0 */
/* `reference`: plain loops on the host, the oracle of everything else. */
#include "attention/plan.h"
#include "ref/ref_attention.h"

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p;
    return cla_needs_cpu(device, reason, reason_bytes);
}

static bool suits(const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)device, (void)reason, (void)reason_bytes;
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

clattn_status cla_reference_run(const cla_problem *p, bool wide) {
    const cla_ref_attention a = {.dtype = p->dtype,
                                 .B = p->B,
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
                                 .weights = on_host(&p->weights),
                                 .keep = on_host(&p->keep),
                                 .drop = on_host(&p->drop),
                                 .bias = on_host(&p->bias),
                                 .scale = p->scale,
                                 .causal = p->causal,
                                 .windowed = p->windowed,
                                 .left = p->left,
                                 .right = p->right,
                                 .key_lengths = p->key_lengths,
                                 .offsets = p->offsets};
    return wide ? cla_ref_attention_long_double(&a) : cla_ref_attention_double(&a);
}

static clattn_status execute(clattn_plan *plan) { return cla_reference_run(&plan->problem, false); }

static void destroy(clattn_plan *plan) { (void)plan; }

const cla_algorithm cla_algo_reference = {.name = "reference",
                                          .summary = "plain loops on the CPU with wide sums: the oracle",
                                          .applies = applies,
                                          .suits = suits,
                                          .create = create,
                                          .execute = execute,
                                          .destroy = destroy};
