/* SPDX-License-Identifier: Apache-2.0 */
/* The types that tensors of GGUF files have. Source: github.com/ggml-org/ggml, ggml.h and ggml-common.h. */
#ifndef CLA_GGUF_TYPES_H
#define CLA_GGUF_TYPES_H

#include <clattn/tensor.h>

typedef struct cla_gguf_tensor_type {
    const char *text;
    int length, bytes; /* so many elements take so many bytes */
    bool readable;
    clattn_dtype dtype; /* when readable */
} cla_gguf_tensor_type;

/* NULL: unknown, or no longer in use. */
const cla_gguf_tensor_type *cla_gguf_tensor_type_of(uint32_t number);

#endif
