/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of integers that choose rows or classes. */
#ifndef CLA_TOKENS_H
#define CLA_TOKENS_H

#include <clattn/tensor.h>

/* ids with an axis behind, along which all have one id: over rows [the shape of ids, E]. */
clattn_status cla_tokens_ids_over(const clattn_tensor *rows, const char *name, int64_t E, const clattn_tensor *ids,
                                  const char *ids_name, clattn_tensor *out);
/* Ids of the caller's own array can be looked at, before anything is written: each is from 0 to count - 1, or *also.
 * `has` and `what`, for the message: "the table has" 5 "rows". */
clattn_status cla_tokens_check(const clattn_tensor *ids, const char *name, int outer, int64_t rows, int64_t count,
                               const char *has, const char *what, const int64_t *also);

#endif
