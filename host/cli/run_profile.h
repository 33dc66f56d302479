/* SPDX-License-Identifier: Apache-2.0 */
/* The profile of `clattn run`. */
#ifndef CLA_RUN_PROFILE_H
#define CLA_RUN_PROFILE_H

#include "kernel_profile.h"
#include "outputs.h"

/* Profiles the call on host arrays, and writes the files (NULL: none) under their temporary names. Prints one line and
 * returns the exit status when something is wrong. */
int cla_run_profile(const clattn_device_info *device, const clattn_attention_args *args, cla_output *json,
                    cla_output *plot, cla_profile_report *report);

#endif
