/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of a safetensors file on a device, each asked for by name and shape, as a model has them. What a file holds
 * beside them can be told at the end. Errors are printed. */
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include <clattn/clattn.h>

typedef struct weights weights;

/* dtype: how matrices are kept on the device; vectors stay as the file has them. NULL after an error. */
weights *weights_open(clattn_context *context, const char *path, clattn_dtype dtype);
void weights_close(weights *w); /* its tensors too; NULL is allowed */

/* The tensor PREFIXname, borrowed. */
bool weights_take(weights *w, const char *prefix, const char *name, int rank, const int64_t *shape,
                  clattn_tensor *tensor);
/* Tensors PREFIXnames[i]SUFFIX of the same shape, one after another along the first axis: [count * shape[0], ...]. */
bool weights_stack(weights *w, const char *prefix, const char *const *names, int count, const char *suffix, int rank,
                   const int64_t *shape, clattn_tensor *tensor);
/* One tensor in f32 on the host; clattn_array_free releases it. */
bool weights_read(weights *w, const char *name, int rank, const int64_t *shape, clattn_array *array);
/* An array to the device, under a name that the file does not have. */
bool weights_put(weights *w, const char *name, const clattn_array *array, clattn_tensor *tensor);
/* Whether each tensor of the file was asked for, but those whose names begin with one of the texts, up to a NULL. */
bool weights_all_used(const weights *w, const char *const *unneeded);

#endif
