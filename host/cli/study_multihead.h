/* SPDX-License-Identifier: Apache-2.0 */
/* The multi-head attention of the article, with stored weights: d = 16, packed projections. */
#ifndef CLA_STUDY_MULTIHEAD_H
#define CLA_STUDY_MULTIHEAD_H

#include "study.h"
#include <clattn/modules.h>

/* From "SET/in_proj_weight" and so on. Prints one line and returns the exit status when that fails; *multihead is
 * NULL then. */
int cla_study_multihead(cla_study *study, const char *set, int64_t heads, clattn_multihead **multihead);

#endif
