/* SPDX-License-Identifier: Apache-2.0 */
/* Named tensors on a device: the parameters of a model, loaded from safetensors files or added by hand. Names are
 * those of the file, PyTorch's for its models: "encoder.layers.0.self_attn.in_proj_weight". */
#ifndef CLATTN_PARAMETERS_H
#define CLATTN_PARAMETERS_H

#include <clattn/io.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Tensors of a device, by name. */
typedef struct clattn_parameters clattn_parameters;

/* All zero: everything, as it is stored. NULL counts as all zero. */
typedef struct clattn_parameters_options {
    const char *prefix;   /* only what has a name that begins so; NULL: all. Names are kept whole */
    bool convert;         /* floating tensors of rank 2 and more become `dtype`; integers stay */
    clattn_dtype dtype;   /* a float type, or blocks, which tensors whose rows are no whole blocks do not become */
    bool vectors;         /* those of rank 1 (biases, norms) too; never in blocks */
    uint64_t reserved[8]; /* zero: see clattn/version.h */
} clattn_parameters_options;

/* Errors   CLATTN_E_ARGUMENT (NULL), CLATTN_E_MEMORY. */
CLATTN_API clattn_status clattn_parameters_create(clattn_context *context, clattn_parameters **parameters);
/* Frees the tensors too: what borrows them comes first. NULL is allowed. */
CLATTN_API void clattn_parameters_destroy(clattn_parameters *parameters);
/* Adds the tensors of a file; several files may follow one another. After an error some of them are there.
 * Errors   those of clattn_safetensors_open and _read, CLATTN_E_DTYPE (a type that is not ours, in what the prefix
 *          selects), CLATTN_E_ARGUMENT (a name that is there already; the prefix selects nothing), CLATTN_E_MEMORY,
 *          CLATTN_E_LIMIT (a tensor above the device's largest allocation), and the device's. */
CLATTN_API clattn_status clattn_parameters_load(clattn_parameters *parameters, const char *path,
                                                const clattn_parameters_options *options);
/* Adds a copy of an array under a name. A scalar becomes [1]. Errors: as above. */
CLATTN_API clattn_status clattn_parameters_add(clattn_parameters *parameters, const char *name,
                                               const clattn_array *array, const clattn_parameters_options *options);

/* The tensor PREFIXname, borrowed: a dense buffer. prefix may be NULL.
 * Errors   CLATTN_E_ARGUMENT (there is none: the message says what begins with the prefix). */
CLATTN_API clattn_status clattn_parameters_find(const clattn_parameters *parameters, const char *prefix,
                                                const char *name, clattn_tensor *tensor);
/* The same where it may be absent: then a tensor of rank 0, and no message. */
CLATTN_API clattn_tensor clattn_parameters_get(const clattn_parameters *parameters, const char *prefix,
                                               const char *name);
/* How many tensors there are. */
CLATTN_API size_t clattn_parameters_count(const clattn_parameters *parameters);
/* In the order in which they were added; false past the end. */
CLATTN_API bool clattn_parameters_at(const clattn_parameters *parameters, size_t index, const char **name,
                                     clattn_tensor *tensor);
/* Numbers in all floating tensors that begin with the prefix (NULL: all). */
CLATTN_API int64_t clattn_parameters_elements(const clattn_parameters *parameters, const char *prefix);
/* Bytes that they take on the device, with those of other types. */
CLATTN_API uint64_t clattn_parameters_bytes(const clattn_parameters *parameters, const char *prefix);

#ifdef __cplusplus
}
#endif
#endif
