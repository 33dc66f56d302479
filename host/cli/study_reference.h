/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of the Transformer in plain loops and double, as PyTorch has them with norm_first = False and ReLU: what the
 * modules are compared with. Weights are f32, found by PyTorch's names. */
#ifndef CLA_STUDY_REFERENCE_H
#define CLA_STUDY_REFERENCE_H

#include <clattn/io.h>

typedef struct cla_reference {
    const clattn_named_array *weights; /* f32 */
    size_t count;
    size_t E, H, F; /* model dim, heads, inner dim of feed-forward */
} cla_reference;

/* The data of PREFIXname; NULL: there is none. */
const float *cla_reference_weight(const cla_reference *r, const char *prefix, const char *name);

/* x [n, E] becomes the layer's output: LayerNorm(x + self-attention), LayerNorm(that + feed-forward). false: out of
 * memory, or a weight is missing. */
bool cla_reference_encoder_layer(const cla_reference *r, const char *prefix, double *x, size_t n);
/* The same with causal self-attention, and in between attention over memory [m, E]. */
bool cla_reference_decoder_layer(const cla_reference *r, const char *prefix, double *x, size_t n, const double *memory,
                                 size_t m);

#endif
