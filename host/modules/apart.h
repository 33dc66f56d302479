/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of one call of a module, looked over for outputs that lie over something else. Operations see their own
 * tensors alone; here is what only the whole call knows. */
#ifndef CLA_APART_H
#define CLA_APART_H

#include "modules/layer.h"
#include "modules/masks.h"

typedef enum cla_role {
    CLA_ROLE_INPUT = 0,
    CLA_ROLE_OUTPUT, /* written while inputs are still read */
    CLA_ROLE_ADDED,  /* an output that is added to: the same view may be there twice, as of shared weights */
    CLA_ROLE_LAST    /* an output that is written when no input is read any more: it may lie over those */
} cla_role;

/* What a tensor is called: "layer 3: self_attn.q". */
typedef struct cla_called {
    int64_t layer;    /* -1: none */
    const char *part; /* "self_attn.", or "" */
} cla_called;

typedef struct cla_lying cla_lying;
typedef struct cla_apart {
    const char *module;
    cla_lying *list;
    size_t count, room;
} cla_apart;

/* Tensors that these add at most. */
enum { CLA_APART_HEADS = 12, CLA_APART_FEED = 6, CLA_APART_NORM = 2, CLA_APART_LAYER = 32 };

/* Room for so many tensors. cla_apart_end must follow. */
clattn_status cla_apart_begin(const char *module, size_t room, cla_apart *apart);
/* Absent and empty tensors are left out. They stay where they are until the end. */
void cla_apart_add(cla_apart *apart, const clattn_tensor *t, const char *name, cla_role role);
void cla_apart_add_masks(cla_apart *apart, const cla_masks *masks);
/* Gradients of weights. NULL: none. */
void cla_apart_add_heads(cla_apart *apart, const clattn_multihead_weights *w, cla_called called, cla_role role);
void cla_apart_add_feed(cla_apart *apart, const clattn_feedforward_weights *w, cla_called called, cla_role role);
void cla_apart_add_norm(cla_apart *apart, const clattn_norm_weights *w, cla_called called, cla_role role);
/* Weights that a module holds, which are inputs. */
void cla_apart_add_layer(cla_apart *apart, const cla_layer *layer, int64_t i);
void cla_apart_add_one(cla_apart *apart, const clattn_tensor *t, cla_called called, const char *name, cla_role role);
/* Forgets the list. `status` is returned where it is an error, else CLATTN_E_ARGUMENT for an output that certainly
 * shares a byte with another tensor. */
clattn_status cla_apart_end(cla_apart *apart, clattn_status status);

#endif
