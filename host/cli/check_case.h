/* SPDX-License-Identifier: Apache-2.0 */
/* A packed case of a vector file, made into jobs on host arrays: what to call and what must come out. Knows no device.
 * One case has a job for each type of result (Y_f32, Y_f16). */
#ifndef CLA_CHECK_CASE_H
#define CLA_CHECK_CASE_H

#include "args.h"
#include <cJSON.h>
#include <clattn/backward.h>
#include <clattn/cache.h>
#include <clattn/io.h>
#include <clattn/modules.h>
#include <clattn/ops.h>

#define CLA_CHECK_JOBS 4
#define CLA_CHECK_ARRAYS 64
#define CLA_CHECK_PARAMETERS 32
#define CLA_CHECK_OUTPUTS 8
#define CLA_CHECK_TEXT 256

typedef enum cla_check_source {
    CLA_CHECK_FROM_O = 0, /* of attention, or what rotary embedding gives */
    CLA_CHECK_FROM_LSE,
    CLA_CHECK_FROM_WEIGHTS,
    CLA_CHECK_FROM_CACHE,   /* what was appended to: present_key */
    CLA_CHECK_FROM_BACKWARD /* a gradient */
} cla_check_source;

/* Arrays are owned by the job. */
typedef struct cla_check_output {
    const char *name; /* "Y_f32" */
    cla_check_source source;
    const clattn_array *got, *want;
    double rtol, atol;
    bool nan_is_finite; /* a NaN wanted is any finite number got */
} cla_check_output;

/* sdpa_mask_1e9, where scores are replaced: arrays of the job, in f64. */
typedef struct cla_check_replaced {
    const clattn_array *q, *k, *v, *mask, *o, *weights;
} cla_check_replaced;

/* A gradient by a tensor that broadcasts: elements of `total`, seen by `view`, are sums of what was written. */
typedef struct cla_check_sum {
    const clattn_array *terms, *total;
    clattn_tensor view; /* of total, with as many elements as there are terms */
} cla_check_sum;

typedef struct cla_check_job cla_check_job;
struct cla_check_job {
    clattn_dtype dtype;
    /* Tensors lie in arrays, outputs too. First the appends are made, in order; then there is attention, where q has a
     * rank, or rotary embedding. */
    clattn_cache_append_args appends[2];
    size_t append_count;
    clattn_attention_args args;
    clattn_attention_backward_args backward; /* where d_o has a rank: afterwards, on the same tensors */
    clattn_rotary_args rotary;
    /* Or this is called, on what it finds here: for cases without algorithms. */
    clattn_status (*call)(clattn_context *context, const cla_check_job *job);
    clattn_named_array parameters[CLA_CHECK_PARAMETERS]; /* of a module, by their names in the case */
    size_t parameter_count;
    clattn_multihead_options multihead_options;
    clattn_multihead_args multihead;
    clattn_layer_options layer_options;
    clattn_encoder_args encoder;
    clattn_decoder_args decoder;
    clattn_norm_args norm;
    clattn_softmax_args softmax;
    cla_check_replaced replaced;
    cla_check_sum sums[3]; /* after the backward pass */
    size_t sum_count;
    clattn_array arrays[CLA_CHECK_ARRAYS];
    size_t array_count;
    cla_check_output outputs[CLA_CHECK_OUTPUTS];
    size_t output_count;
};

typedef struct cla_check_case {
    const char *name, *op;
    bool by_algorithm;        /* there is something to run on each; else once a device */
    clattn_safetensors *file; /* borrowed */
    cJSON *json;
    const cJSON *attrs;
    cla_check_job jobs[CLA_CHECK_JOBS];
    size_t job_count;
    char skip[CLA_CHECK_TEXT];  /* what is not checked, and why; "": nothing is left out */
    char error[CLA_CHECK_TEXT]; /* why the case cannot be built: it counts as failed */
} cla_check_case;

/* Reads the description of a case and builds its jobs. false: case->error says why. Free it in either case. */
bool cla_check_case_open(clattn_safetensors *file, const char *name, const char *description, cla_check_case *c);
void cla_check_case_free(cla_check_case *c);

/* ---- for the builders, one for each op: false with case->error ---- */

bool cla_check_build_sdpa(cla_check_case *c);      /* check_sdpa.c: sdpa, sdpa_weights, sdpa_mask_1e9 */
bool cla_check_build_grad(cla_check_case *c);      /* check_grad.c: sdpa_grad */
bool cla_check_build_attention(cla_check_case *c); /* check_onnx.c: Attention */
bool cla_check_build_rotary(cla_check_case *c);    /* check_rotary.c: RotaryEmbedding */
bool cla_check_build_mha(cla_check_case *c);       /* check_mha.c: mha */
bool cla_check_build_encoder(cla_check_case *c);   /* check_layers.c: encoder_layer, decoder_layer */
bool cla_check_build_decoder(cla_check_case *c);
bool cla_check_build_layer_norm(cla_check_case *c); /* check_norm.c: the norms and Softmax of ONNX */
bool cla_check_build_rms_norm(cla_check_case *c);
bool cla_check_build_softmax(cla_check_case *c);
bool cla_check_build_causal_probe(cla_check_case *c); /* check_probe.c: mha_causal_probe, mha_permutation_pe */
bool cla_check_build_permutation(cla_check_case *c);
bool cla_check_build_clattn_run(cla_check_case *c); /* check_dump.c: dumps of `clattn run` */

bool cla_check_error(cla_check_case *c, const char *format, ...) CLA_ARGS_PRINTF(2, 3);
void cla_check_skip(cla_check_case *c, const char *format, ...) CLA_ARGS_PRINTF(2, 3);
/* Whether the case names no attribute, but for null, and no input that is not in these lists, which end with NULL. */
bool cla_check_known(cla_check_case *c, const char *const *attrs, const char *const *inputs);
/* Attributes; absent and null give the default. */
bool cla_check_attr_int(cla_check_case *c, const char *name, int64_t unset, int64_t *value);
/* 0 or 1, or a boolean; false where it is not there. */
bool cla_check_attr_flag(cla_check_case *c, const char *name, bool *value);
bool cla_check_attr_real(cla_check_case *c, const char *name, double unset, double *value);
bool cla_check_attr_text(cla_check_case *c, const char *name, const char *unset, const char **value);
/* Whether "in" names it. */
bool cla_check_has_input(const cla_check_case *c, const char *name);
/* The job for a type of results, made when it is not there. */
cla_check_job *cla_check_job_of(cla_check_case *c, clattn_dtype dtype);
/* The type of CASE/name as it is in the file. */
bool cla_check_dtype_of(cla_check_case *c, const char *tensor, clattn_dtype *dtype);
/* Reads the tensor CASE/name into the job, floating types converted to that of the job. */
clattn_array *cla_check_read(cla_check_case *c, cla_check_job *job, const char *name);
/* As it is in the file. */
clattn_array *cla_check_read_raw(cla_check_case *c, cla_check_job *job, const char *name);
/* An array of the job, into another type. */
bool cla_check_convert(cla_check_case *c, clattn_array *array, clattn_dtype dtype);
clattn_array *cla_check_new_array(cla_check_case *c, cla_check_job *job, clattn_dtype dtype, int rank,
                                  const int64_t *shape);
bool cla_check_same_shape(const clattn_array *a, const clattn_array *b);
/* Adds CASE/name as the wanted value of an output. rank and shape are checked against got. */
bool cla_check_want(cla_check_case *c, cla_check_job *job, const cJSON *out, cla_check_source source,
                    const clattn_array *got);
/* The job's mask as keep (bool) or bias (a float type), of rank 2 at least: [M] counts as [1, M]. */
bool cla_check_set_mask(cla_check_case *c, cla_check_job *job, const clattn_array *mask);

#endif
