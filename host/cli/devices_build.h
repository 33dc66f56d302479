/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn devices --build`: compiles beforehand what usual calls need on a device, into the cache on disk. */
#ifndef CLA_DEVICES_BUILD_H
#define CLA_DEVICES_BUILD_H

#include <clattn/context.h>

typedef struct cla_build_report {
    size_t compiled, restored; /* programs */
    size_t problems, refused;  /* calls that were run, and those that the device cannot do */
    double seconds;            /* with saving */
    char folder[256];          /* of the cache; "" when it is off */
    char error[300];           /* "" unless a call failed otherwise */
} cla_build_report;

/* Runs a small call of each kind. Shows its progress on a terminal. false: report->error says why. */
bool cla_devices_build(const clattn_device_info *device, cla_build_report *report);

/* devices_build_ops.c: calls beside attention, by number. */
size_t cla_devices_build_ops(void);
clattn_status cla_devices_build_op(clattn_context *context, size_t index);

#endif
