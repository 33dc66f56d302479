/* SPDX-License-Identifier: Apache-2.0 */
#include "check_module.h"

#include <stdio.h>
#include <string.h>

void cla_check_stem(const char *name, clattn_dtype inputs, char *stem, clattn_dtype *dtype) {
    static const clattn_dtype dtypes[] = {CLATTN_F32, CLATTN_F64, CLATTN_F16, CLATTN_BF16};
    const char *suffix = strrchr(name, '_');
    *dtype = inputs;
    snprintf(stem, CLA_CHECK_TEXT, "%s", name);
    for (size_t i = 0; suffix && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(suffix + 1, clattn_dtype_name(dtypes[i])) == 0) {
            *dtype = dtypes[i];
            snprintf(stem, CLA_CHECK_TEXT, "%.*s", (int)(suffix - name), name);
        }
}

bool cla_check_read_parameters(cla_check_case *c, cla_check_job *job, const char *const *names) {
    for (; *names; names++) {
        if (!cla_check_has_input(c, *names))
            continue;
        if (job->parameter_count == CLA_CHECK_PARAMETERS)
            return cla_check_error(c, "more than %d parameters", CLA_CHECK_PARAMETERS);
        const clattn_array *array = cla_check_read(c, job, *names);
        if (!array)
            return false;
        job->parameters[job->parameter_count++] = (clattn_named_array){*names, *array};
    }
    return true;
}

bool cla_check_read_optional(cla_check_case *c, cla_check_job *job, const char *name, clattn_tensor *tensor) {
    *tensor = (clattn_tensor){0};
    if (!cla_check_has_input(c, name))
        return true;
    const clattn_array *array = cla_check_read(c, job, name);
    if (array)
        *tensor = clattn_array_tensor(array);
    return array != NULL;
}

bool cla_check_agrees(cla_check_case *c, const char *input, bool wanted, const char *why) {
    return cla_check_has_input(c, input) == wanted ||
           cla_check_error(c, "the input %s %s, and %s says otherwise", input, wanted ? "is missing" : "is there", why);
}

void cla_check_hint(clattn_module_masks *masks, bool hint, bool weights) {
    masks->causal = hint && (masks->attn.rank == 0 || (masks->key_padding.rank == 0 && !weights));
    if (!masks->causal)
        return;
    masks->align = CLATTN_ALIGN_TOP_LEFT;
    masks->attn = (clattn_tensor){0};
}
