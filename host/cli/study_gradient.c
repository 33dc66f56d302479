/* SPDX-License-Identifier: Apache-2.0 */
/* `gradient`: what reaches Q of a gradient as d_k grows, without and with the scale. It takes the gradient of
 * attention, which this version does not compute. */
#include "args.h"
#include "study.h"
#include <stdio.h>

int cla_study_gradient(cla_study *study) {
    snprintf(study->skipped, sizeof study->skipped,
             "it waits for the gradient of attention, which this version does not compute");
    return CLA_EXIT_OK;
}
