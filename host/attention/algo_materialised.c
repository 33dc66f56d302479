/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/plan.h"
#include <stdio.h>
static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p, (void)device;
    snprintf(reason, reason_bytes, "being written");
    return false;
}
static bool suits(const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)device, (void)reason, (void)reason_bytes;
    return true;
}
static clattn_status create(clattn_plan *plan) {
    (void)plan;
    return CLATTN_OK;
}
static void destroy(clattn_plan *plan) { (void)plan; }
const cla_algorithm cla_algo_materialised = {.name = "materialised",
                                             .summary = "being written",
                                             .applies = applies,
                                             .suits = suits,
                                             .create = create,
                                             .execute = create,
                                             .destroy = destroy};
