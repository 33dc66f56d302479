/* SPDX-License-Identifier: Apache-2.0 */
/* What modules share: views of arguments, and the type of sums. */
#ifndef CLA_MODULE_H
#define CLA_MODULE_H

#include "base/error.h"
#include "tensor/view.h"

/* [1, ...] before a tensor. */
clattn_tensor cla_lead(clattn_tensor t);
/* The same place, layout and type. */
bool cla_same_view(const clattn_tensor *a, const clattn_tensor *b);
/* [B, N, E] of a tensor [N, E], [B, N, E] or, with batch_second, [N, B, E]. */
clattn_tensor cla_rows_of(const clattn_tensor *given, bool batch_second);
/* Whether a view is possible and its storage there and long enough, before work that its sizes alone make long.
 * `module` and `name` are for the message. */
clattn_status cla_check_storage(const clattn_context *context, const clattn_tensor *t, const char *module,
                                const char *name);
/* [B, N, E], as above, of one that may be none of these, its storage checked. */
clattn_status cla_take_rows(const clattn_context *context, const clattn_tensor *given, const char *module,
                            const char *name, bool batch_second, clattn_tensor *rows);
/* Whether `t` is there and of the type f64. */
static inline bool cla_is_wide(const clattn_tensor *t) { return cla_present(t) && t->dtype == CLATTN_F64; }
/* A matrix as [out, in]. */
clattn_status cla_take_matrix(const clattn_tensor *given, const char *name, bool transposed, clattn_tensor *matrix);
/* Whether an optional vector has so many elements. */
clattn_status cla_check_vector(const clattn_tensor *given, const char *name, int64_t elements);
bool cla_same_shape(const clattn_tensor *a, const clattn_tensor *b);
/* Whether a gradient is absent, which is not wanted, or of the shape of its weight. */
clattn_status cla_check_gradient(const clattn_tensor *gradient, const clattn_tensor *weight, const char *name);
/* The same of a given one, of which a matrix is taken as [out, in], as its weight was. */
clattn_status cla_take_gradient(const clattn_tensor *given, const clattn_tensor *weight, const char *name,
                                bool transposed, clattn_tensor *gradient);
/* Elements of a tensor that may be absent; 2^40 at most, since nobody has looked for its storage yet. */
int64_t cla_count_of(const clattn_tensor *t);

#endif
