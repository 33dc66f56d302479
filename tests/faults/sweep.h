/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of a run fails in turn: of OpenCL, of CLBlast, and of the host's memory. Each time there is a named error
 * or a right result, nothing is left behind, and the same call then succeeds on the same context, or, where the failure
 * tells that the device is lost, on a new one. */
#ifndef SWEEP_H
#define SWEEP_H

#include "faults.h"
#include "oracle.h"
#include "testing.h"

typedef struct run_of {
    const char *name;
    const char *device; /* NULL: opencl */
    bool profile;
    const void *data;
    /* false, with the status's name and message in text, when it fails. It leaves nothing behind. */
    bool (*run)(clattn_context *context, const void *data, char text[ORACLE_TEXT]);
    /* Whether the last run's results are right; NULL: run says so itself. */
    bool (*right)(const void *data, char text[ORACLE_TEXT]);
} run_of;

/* Some of the calls, with one code each; all calls where the environment's FAULTS is "all", all codes of all calls
 * where it is "codes". Prints a line of figures. */
void sweep(const run_of *r);

/* CLATTN_OK gives true, else the text of a failing run. */
bool succeeded(clattn_status status, char text[ORACLE_TEXT]);

#endif
