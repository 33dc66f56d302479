/* SPDX-License-Identifier: Apache-2.0 */
/* A module with its weights and a call of it, as one descriptor: of calls.h, with values by the loops of
 * layers_oracle.h. */
#ifndef CALLS_MODULE_H
#define CALLS_MODULE_H

#include "calls.h"

#include "layers_oracle.h"

typedef enum module_kind { MULTIHEAD, FEEDFORWARD, ENCODER, DECODER, MODULE_KINDS } module_kind;
enum { MODULE_LAYERS = 2 };

typedef struct module_weight {
    clattn_tensor *t;
    const char *part, *name; /* of PyTorch, where it has one */
    int layer;               /* -1: behind all */
} module_weight;

/* What plain loops are told of masks. */
typedef struct module_mask {
    const clattn_module_masks *masks;
    const fuzz_call *c;
    int64_t H, N, M;
} module_mask;

typedef struct module {
    fuzz_call c;
    pool p;
    module_kind kind;
    bool backward, cached, separate, gradients;
    int64_t B, N, M, count;
    plain_stack stack;
    plain_layer plain[MODULE_LAYERS];
    plain_norm norm;
    double *x, *memory, *want; /* [B, N, E], [B, M, E]; what y is to be, NULL: not known */
    double *want_weights;
    /* ---- the descriptor ---- */
    clattn_decoder_layer_weights layers[MODULE_LAYERS], d_layers[MODULE_LAYERS];
    clattn_encoder_layer_weights encoder_layers[MODULE_LAYERS], d_encoder_layers[MODULE_LAYERS];
    clattn_encoder_weights encoder, d_encoder;
    clattn_decoder_weights decoder, d_decoder;
    clattn_layer_options options;
    clattn_multihead_options heads;
    clattn_feedforward_options feed;
    clattn_decoder_cache_options cache;
    clattn_tensor x_feed, y_feed, hidden[MODULE_LAYERS];
    clattn_multihead_backward_args multihead; /* `forward` is that of a forward call */
    clattn_encoder_backward_args encode;
    clattn_decoder_backward_args decode;
    clattn_feedforward_backward_args feed_back;
} module;

/* A valid one from the bytes of an input. */
void module_make(module *m, fuzz_input *in, clattn_context *context);
/* Creates it, calls it, destroys it. */
clattn_status module_run(module *m);
/* Creates it from a file of parameters with PyTorch's names, of which `changes` are spoilt; calls it. */
clattn_status module_load(module *m, unsigned changes);
/* Against plain loops in double: of a valid descriptor's forward pass. */
void module_expect(module *m);
/* The weights of the descriptor, or its gradients: those that are absent too. */
int module_weights(module *m, bool gradients, module_weight *list);
clattn_tensor *module_y(module *m);
void module_end(module *m);

#endif
