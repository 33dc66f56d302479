/* SPDX-License-Identifier: Apache-2.0 */
/* What the builders of modules share: typed outputs, parameters, masks as PyTorch has them. */
#ifndef CLA_CHECK_MODULE_H
#define CLA_CHECK_MODULE_H

#include "check_axes.h"
#include "layer_tensors.h"

/* "out" and f64 of "out_f64"; where there is no type, `inputs`. stem has room for CLA_CHECK_TEXT bytes. */
void cla_check_stem(const char *name, clattn_dtype inputs, char *stem, clattn_dtype *dtype);
/* Reads those of the inputs that are named in `names` (NULL at the end) as parameters. */
bool cla_check_read_parameters(cla_check_case *c, cla_check_job *job, const char *const *names);
/* An optional input as a tensor; absent: rank 0. */
bool cla_check_read_optional(cla_check_case *c, cla_check_job *job, const char *name, clattn_tensor *tensor);
/* Whether an input is there exactly when it should be. */
bool cla_check_agrees(cla_check_case *c, const char *input, bool wanted, const char *why);
/* is_causal is a hint that the mask is causal: then the mask is left out where PyTorch does so, that is without
 * padding, and without weights. */
void cla_check_hint(clattn_module_masks *masks, bool hint, bool weights);

/* What is wanted for queries that see no key (check_dead.c); has_extra: all see one. */
bool cla_check_dead_rows(cla_check_case *c, cla_check_job *job, bool has_extra);

/* sdpa's tensors: the array of the result, and the others in their logical order of axes. */
typedef struct cla_check_sdpa {
    cla_check_axes axes;
    clattn_tensor q, k, v;
    clattn_array *o, *weights;
} cla_check_sdpa;

/* The call of sdpa for a job that was just made (check_sdpa.c). */
bool cla_check_prepare_sdpa(cla_check_case *c, cla_check_job *job, cla_check_sdpa *x);

/* An output of sdpa_mask_1e9 whose scores are replaced by -1e9 (check_replaced.c), in a job of its own. */
bool cla_check_want_replaced(cla_check_case *c, const cJSON *out, bool weights);

#endif
