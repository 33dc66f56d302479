/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a device computes right what it is about to be used for: tests that run once, and their verdicts. Knows no
 * test. */
#ifndef CLA_SELF_TESTS_H
#define CLA_SELF_TESTS_H

#include <clattn/context.h>

/* Whether the context tests what it uses; never on `cpu`. */
bool cla_self_tests_on(const clattn_context *context);
/* Runs a test unless its verdict is known, to this context or on disk for this device, driver and version of the
 * kernels. `what` tells it from others and is said when it fails. CLATTN_OK and CLATTN_E_VERIFY are verdicts, and kept.
 * A call of OpenCL or CLBlast that fails ends in CLATTN_E_VERIFY too, other failures are returned; then the test is run
 * again the next time. Threads may run the same one at once.
 * Errors  CLATTN_E_VERIFY (what, where, what was found, and what to do), and those of the test. */
clattn_status cla_self_test_once(clattn_context *context, const char *what,
                                 clattn_status (*test)(clattn_context *context, const void *data), const void *data);

#endif
