/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from the arguments of an attention call, for all verbs. */
#ifndef CLA_CALL_FACTS_H
#define CLA_CALL_FACTS_H

#include <clattn/attention.h>

static inline bool cla_is_float(clattn_dtype dtype) {
    return dtype == CLATTN_F32 || dtype == CLATTN_F64 || dtype == CLATTN_F16 || dtype == CLATTN_BF16;
}

/* The type of the sums, which lse, weights and sinks have: f64 where a tensor of the call is. */
static inline clattn_dtype cla_sums_type(const clattn_attention_args *args) {
    const clattn_tensor *const all[] = {&args->q, &args->k, &args->v, &args->o, &args->bias};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]->rank > 0 && all[i]->dtype == CLATTN_F64)
            return CLATTN_F64;
    return CLATTN_F32;
}

/* The longest of sequences one after another, whose starts and last end never fall; `without` where cu is NULL. */
static inline int64_t cla_longest(const int64_t *cu, int64_t sequences, int64_t without) {
    int64_t most = 0;
    for (int64_t s = 0; cu && s < sequences; s++)
        most = cu[s + 1] - cu[s] > most ? cu[s + 1] - cu[s] : most;
    return cu ? most : without;
}

#endif
