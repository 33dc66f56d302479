/* SPDX-License-Identifier: Apache-2.0 */
/* What stays in a safetensors file that is there already when tensors are put into it: the others, and the metadata. */
#ifndef CLA_OUTPUTS_KEPT_H
#define CLA_OUTPUTS_KEPT_H

#include <clattn/io.h>

/* Whether all of the file at path can be kept: it is not there, is empty, or is a safetensors file of types that can be
 * read. Errors as clattn_safetensors_open's, and CLATTN_E_DTYPE with *unreadable, the tensor's name (else NULL; the
 * caller frees it). */
clattn_status cla_kept_check(const char *path, char **unreadable);
/* Writes tensors, and behind them what the file at `from` holds under other names, to `to`. */
clattn_status cla_kept_write(const char *from, const char *to, const clattn_named_array *arrays, size_t count);

#endif
