/* SPDX-License-Identifier: Apache-2.0 */
/* What the file formats ask of arrays. */
#ifndef CLA_ARRAY_H
#define CLA_ARRAY_H

#include <clattn/io.h>

/* The array may be written: dtype, rank, shape, bytes and data belong together. `what` names it in the message. */
clattn_status cla_array_check(const clattn_array *array, const char *what);

#endif
