/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files as inputs: loading them, checking ranks and types, and viewing them as [B, H, S, D].
 * A layout becomes strides of a view; nothing is copied. */
#ifndef CLA_TENSORS_H
#define CLA_TENSORS_H

#include <clattn/attention.h>
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
/* q, k and v: each of a float type. */
int cla_inputs_check(const cla_input *q, const cla_input *k, const cla_input *v);
/* Converts k or v to another type (--kv-type), before cla_input_view. */
int cla_input_retype(cla_input *input, clattn_dtype dtype);
/* Ranks: alike. */
int cla_ranks_check(const cla_input *q, const cla_input *k, const cla_input *v);
/* keep and drop: bool or u8. bias: a float type. Rank 2 to 4; the view is that of the file. */
int cla_mask_check(cla_input *mask);
int cla_bias_check(cla_input *bias);

/* Numbers of a file of integers, or of a list "5,8", one for each batch. *numbers is malloc'ed. */
int cla_numbers_load(const char *option, const char *text, int64_t batch, int64_t **numbers);
/* As many as there are; *count is set. */
int cla_numbers_load_all(const char *option, const char *text, int64_t **numbers, int64_t *count);
/* Numbers of a file of a float type, or of a list, one for each head. *numbers is malloc'ed. */
int cla_reals_load(const char *option, const char *text, int64_t heads, float **numbers);
/* A file of i32 or i64 with rows x columns numbers (columns < 0: any number, which *columns_out gets). */
int cla_table_load(const char *option, const char *text, int64_t rows, int64_t columns, int32_t **numbers,
                   int64_t *columns_out);

/* An array for o in the layout and rank of q, and its [B, H, N, Dv] view. */
int cla_output_create(const cla_input *q, cla_layout layout, clattn_dtype dtype, int64_t value_dim, clattn_array *array,
                      clattn_tensor *view);
/* An array of rank 3 or 4, [B, H, ...], for another result: without the leading axes that q's file lacks, and a view
 * with all of them. */
int cla_extra_create(const char *name, const cla_input *q, cla_layout layout, clattn_dtype dtype, int rank,
                     const int64_t *shape, clattn_array *array, clattn_tensor *view);

/* "[2, 8, 5]" */
const char *cla_dims_text(int rank, const int64_t *shape, char *text, size_t size);

#endif
