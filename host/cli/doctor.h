/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn doctor`: findings, each a line; what is wrong has a remedy below it. */
#ifndef CLA_DOCTOR_H
#define CLA_DOCTOR_H

#include "args.h"

typedef struct cla_doctor {
    int problems;
} cla_doctor;

void cla_doctor_part(const char *title);
void cla_doctor_good(const char *format, ...) CLA_ARGS_PRINTF(1, 2);
void cla_doctor_note(const char *format, ...) CLA_ARGS_PRINTF(1, 2);
/* remedy: a sentence. */
void cla_doctor_bad(cla_doctor *doctor, const char *remedy, const char *format, ...) CLA_ARGS_PRINTF(3, 4);

/* Runs a part in a process of its own, so that a driver that crashes or hangs is a finding too; `what` names it. Only
 * problems come back. */
typedef void cla_doctor_work(cla_doctor *doctor, const char *text);
void cla_doctor_apart(cla_doctor *doctor, const char *what, cla_doctor_work *work, const char *text);

/* The drivers that the ICD loader is told of, and whether they load. */
void cla_doctor_loader(cla_doctor *doctor);
/* Device files of GPUs that are there and not for this user. */
void cla_doctor_permissions(cla_doctor *doctor);
/* Attention on a device, every row computed again by plain loops: f32, and f64 and f16 storage where it has them. */
cla_doctor_work cla_doctor_test;

#endif
