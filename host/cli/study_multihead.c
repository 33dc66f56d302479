/* SPDX-License-Identifier: Apache-2.0 */
#include "study_multihead.h"

#include "args.h"
#include <stdio.h>

static bool load(cla_study *s, const char *set, const char *name, clattn_tensor *t) {
    char text[96];
    snprintf(text, sizeof text, "%s/%s", set, name);
    const clattn_array *a = cla_study_input(s, text);
    if (a)
        *t = clattn_array_tensor(a);
    return a != NULL;
}

int cla_study_multihead(cla_study *study, const char *set, int64_t heads, clattn_multihead **multihead) {
    clattn_multihead_weights w = {0};
    *multihead = NULL;
    if (!load(study, set, "in_proj_weight", &w.in_proj) || !load(study, set, "in_proj_bias", &w.in_bias) ||
        !load(study, set, "out_proj.weight", &w.out) || !load(study, set, "out_proj.bias", &w.out_bias))
        return CLA_EXIT_FAILED;
    const clattn_status status =
        clattn_multihead_create(study->context, &w, &(clattn_multihead_options){.heads = heads}, multihead);
    return status == CLATTN_OK ? CLA_EXIT_OK : cla_study_fail(study, status);
}
