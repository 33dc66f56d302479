/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files as inputs: loading them, checking ranks and types, and viewing them as [B, H, S, D].
 * A layout becomes strides of a view; nothing is copied. */
#ifndef CLA_TENSORS_H
#define CLA_TENSORS_H

#include <clattn/io.h>

typedef enum cla_layout {
    CLA_LAYOUT_UNSET = 0, /* by rank: [S, D], [H, S, D] or [B, H, S, D] */
    CLA_LAYOUT_BHSD,      /* the same, said */
    CLA_LAYOUT_BSHD,      /* [B, S, H, D] or [S, H, D] */
    CLA_LAYOUT_BSE,       /* [B, S, E] or [S, E], E = H * D */
    CLA_LAYOUT_SD         /* [S, D] */
} cla_layout;

/* NULL-ended, in the order of the enum; the first is "". */
extern const char *const cla_layout_names[];

typedef struct cla_heads {
    cla_layout layout;
    int64_t heads, key_heads; /* of --heads H/HK; 0: not given */
} cla_heads;

typedef struct cla_input {
    const char *name; /* "q" */
    const char *spec; /* "fox.safetensors:q0"; NULL: absent */
    clattn_array array;
    clattn_tensor view; /* q, k, v: rank 4; masks and bias: as in the file; rank 0: absent */
} cla_input;

/* All of these print one line and return the exit status when something is wrong. */

int cla_input_load(cla_input *input, const char *name, const char *spec);
/* Sets input->view of q, k or v. heads is the number to split E into or to compare with; 0: not given. */
int cla_input_view(cla_input *input, cla_layout layout, int64_t heads);
/* dtypes of q, k and v: alike and f32 or f64. */
int cla_inputs_check(const cla_input *q, const cla_input *k, const cla_input *v);
/* Ranks: alike. */
int cla_ranks_check(const cla_input *q, const cla_input *k, const cla_input *v);
/* keep and drop: bool or u8. bias: the dtype of q. Rank 2 to 4; the view is that of the file. */
int cla_mask_check(cla_input *mask);
int cla_bias_check(cla_input *bias, clattn_dtype dtype);
/* Numbers of a file of integers, or of a list "5,8", one for each batch. *numbers is malloc'ed. */
int cla_numbers_load(const char *option, const char *text, int64_t batch, int64_t **numbers);

/* An array for o in the layout and rank of q, and its [B, H, N, Dv] view. */
int cla_output_create(const cla_input *q, cla_layout layout, int64_t value_dim, clattn_array *array,
                      clattn_tensor *view);
/* An array for lse [B, H, N] (keys < 0) or weights [B, H, N, keys], without the leading axes that q's file lacks, and
 * a view with all of them. */
int cla_extra_create(const char *name, const cla_input *q, cla_layout layout, int64_t keys, clattn_array *array,
                     clattn_tensor *view);

/* "[2, 8, 5]" */
const char *cla_dims_text(int rank, const int64_t *shape, char *text, size_t size);

#endif
