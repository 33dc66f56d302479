/* SPDX-License-Identifier: Apache-2.0 */
/* Tiny problems of the operations beside attention and linear layers, with their gradients, by a device and by plain
 * loops. Rows are longer than the vectors of a work-group's turn, and cut; tensors lie in buffers, since Oclgrind takes
 * host arrays that are used in place for uninitialised. */
#include "oclgrind_ops.h"

#include "ops/sums.h"
#include "oracle.h"
#include "runtime/buffer.h"
#include "runtime/state.h"
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 1200, TENSORS = 8 };

typedef struct {
    clattn_dtype dtype;
    int rank;
    int64_t shape[4];
} tensor_of;

typedef struct {
    const char *name;
    clattn_status (*run)(clattn_context *context, const clattn_tensor *t);
    tensor_of tensors[TENSORS];
    int outputs; /* bits */
    int turned;  /* bits: laid out with the last two axes swapped */
} problem;

/* ---- operations, on tensors in the order of their tables ---- */

static clattn_status layer_norm(clattn_context *context, const clattn_tensor *t) {
    const clattn_norm_args args = {.x = t[0],
                                   .residual = t[1],
                                   .weight = t[2],
                                   .bias = t[3],
                                   .y = t[4],
                                   .sum = t[5],
                                   .mean = t[6],
                                   .inv_std = t[7]};
    return clattn_norm(context, &args);
}

static clattn_status rms_norm(clattn_context *context, const clattn_tensor *t) {
    return clattn_norm(context, &(clattn_norm_args){.kind = CLATTN_NORM_RMS, .x = t[0], .weight = t[1], .y = t[2]});
}

static clattn_status softmax_last(clattn_context *context, const clattn_tensor *t) {
    return clattn_softmax(context, &(clattn_softmax_args){.x = t[0], .y = t[1]});
}

static clattn_status softmax_first(clattn_context *context, const clattn_tensor *t) {
    return clattn_softmax(context, &(clattn_softmax_args){.x = t[0], .y = t[1], .has_axis = true, .axis = 0});
}

static clattn_status gate(clattn_context *context, const clattn_tensor *t) {
    const clattn_activate_args args = {.x = t[0], .up = t[1], .y = t[2], .activation = CLATTN_ACTIVATION_GELU};
    return clattn_activate(context, &args);
}

static clattn_status add(clattn_context *context, const clattn_tensor *t) {
    return clattn_add(context, &(clattn_add_args){.a = t[0], .b = t[1], .y = t[2]});
}

static clattn_status embed(clattn_context *context, const clattn_tensor *t) {
    return clattn_embed(context, &(clattn_embed_args){.table = t[0], .ids = t[1], .add = t[2], .y = t[3]});
}

static clattn_status pool(clattn_context *context, const clattn_tensor *t) {
    const clattn_pool_args args = {.x = t[0], .y = t[1], .lengths = (const int64_t[]){5, 0, 2}, .normalise = true};
    return clattn_pool(context, &args);
}

static clattn_status rotary(clattn_context *context, const clattn_tensor *t) {
    return clattn_rotary(context, &(clattn_rotary_args){.x = t[0], .y = t[1]});
}

static clattn_status append(clattn_context *context, const clattn_tensor *t) {
    const clattn_cache_append_args args = {
        .k = t[0], .v = t[1], .k_cache = t[2], .v_cache = t[3], .cache_lengths = (const int64_t[]){1, 3}};
    return clattn_cache_append(context, &args);
}

static clattn_status merge(clattn_context *context, const clattn_tensor *t) {
    const clattn_partial parts[] = {{t[0], t[1]}, {t[2], t[3]}};
    return clattn_merge(context, &(clattn_merge_args){.parts = parts, .count = 2, .o = t[4], .lse = t[5]});
}

/* Column sums of so many queries that they are added in chunks. */
static clattn_status column_sums(clattn_context *context, const clattn_tensor *t) {
    const clattn_attention_args args = {
        .q = t[0], .k = t[1], .v = t[2], .o = t[3], .column_sums = t[4], .entropy = t[5]};
    return clattn_attention(context, &args);
}

/* ---- gradients, the loss and optimizers ---- */

static clattn_status norm_backward(clattn_context *context, const clattn_tensor *t) {
    const clattn_norm_backward_args args = {.x = t[0],
                                            .residual = t[1],
                                            .weight = t[2],
                                            .d_y = t[3],
                                            .d_sum = t[4],
                                            .d_x = t[5],
                                            .d_weight = t[6],
                                            .d_bias = t[7]};
    return clattn_norm_backward(context, &args);
}

static clattn_status rms_backward(clattn_context *context, const clattn_tensor *t) {
    const clattn_norm_backward_args args = {
        .kind = CLATTN_NORM_RMS, .x = t[0], .weight = t[1], .d_y = t[2], .d_x = t[3], .d_weight = t[4]};
    return clattn_norm_backward(context, &args);
}

static clattn_status softmax_backward(clattn_context *context, const clattn_tensor *t) {
    return clattn_softmax_backward(context, &(clattn_softmax_backward_args){.y = t[0], .d_y = t[1], .d_x = t[2]});
}

static clattn_status cross_entropy(clattn_context *context, const clattn_tensor *t) {
    const clattn_cross_entropy_args args = {.logits = t[0],
                                            .targets = t[1],
                                            .loss = t[2],
                                            .row_losses = t[3],
                                            .d_logits = t[4],
                                            .has_ignore = true,
                                            .ignore = 3,
                                            .smoothing = 0.1};
    return clattn_cross_entropy(context, &args);
}

static clattn_status gate_backward(clattn_context *context, const clattn_tensor *t) {
    const clattn_activate_backward_args args = {
        .x = t[0], .up = t[1], .d_y = t[2], .d_x = t[3], .d_up = t[4], .activation = CLATTN_ACTIVATION_GELU};
    return clattn_activate_backward(context, &args);
}

static clattn_status sum(clattn_context *context, const clattn_tensor *t) {
    return clattn_sum(context, &(clattn_sum_args){.x = t[0], .y = t[1], .accumulate = true});
}

static clattn_status embed_backward(clattn_context *context, const clattn_tensor *t) {
    return clattn_embed_backward(context, &(clattn_embed_backward_args){.ids = t[0], .d_y = t[1], .d_table = t[2]});
}

static clattn_status adam(clattn_context *context, const clattn_tensor *t) {
    const clattn_adam_args args = {
        .gradient = t[0], .gradient_factor = t[1], .parameter = t[2], .moment1 = t[3], .moment2 = t[4], .step = 2};
    return clattn_adam_step(context, &args);
}

static clattn_status sgd(clattn_context *context, const clattn_tensor *t) {
    const clattn_sgd_args args = {
        .gradient = t[0], .parameter = t[1], .velocity = t[2], .momentum = 0.9, .nesterov = true, .step = 2};
    return clattn_sgd_step(context, &args);
}

static clattn_status gradient_norm(clattn_context *context, const clattn_tensor *t) {
    return clattn_gradient_norm(
        context,
        &(clattn_gradient_norm_args){.gradients = t, .count = 2, .max_norm = 0.5, .norm = t[2], .factor = t[3]});
}

/* A step of a linear layer's gradients; the products around it are those of oclgrind_run.c. */
static clattn_status turn(clattn_context *context, const clattn_tensor *t) {
    for (int64_t i = 0; cla_context_is_cpu(context) && i < clattn_tensor_elements(&t[0]); i++) {
        const int64_t row = i / t[0].shape[1], column = i % t[0].shape[1];
        ((float *)t[1].host)[column * t[0].shape[0] + row] = ((const float *)t[0].host)[i];
    }
    return cla_context_is_cpu(context) ? CLATTN_OK : cla_turn_rows(context, &t[0], &t[1]);
}

#define F32 CLATTN_F32
#define F16 CLATTN_F16
#define BF16 CLATTN_BF16
static const problem problems[] = {
    {"LayerNorm",
     layer_norm,
     {{F32, 2, {3, 150}},
      {F32, 2, {3, 150}},
      {F32, 1, {150}},
      {F32, 1, {150}},
      {F32, 2, {3, 150}},
      {F32, 2, {3, 150}},
      {F32, 1, {3}},
      {F32, 1, {3}}},
     .outputs = 0xf0},
    {"LayerNorm of mixed types",
     layer_norm,
     {{F16, 2, {2, 37}},
      {F32, 2, {2, 37}},
      {BF16, 1, {37}},
      {F32, 1, {37}},
      {F32, 2, {2, 37}},
      {F16, 2, {2, 37}},
      {F32, 1, {2}},
      {F32, 1, {2}}},
     .outputs = 0xf0},
    {"RMSNorm of columns", rms_norm, {{F32, 2, {4, 41}}, {F32, 1, {41}}, {F32, 2, {4, 41}}}, .outputs = 4, .turned = 1},
    {"softmax", softmax_last, {{F32, 2, {3, 150}}, {F32, 2, {3, 150}}}, .outputs = 2},
    {"softmax of columns", softmax_first, {{F32, 3, {7, 2, 5}}, {BF16, 3, {7, 2, 5}}}, .outputs = 2},
    {"gate", gate, {{F32, 2, {3, 71}}, {F32, 2, {3, 71}}, {F32, 2, {3, 71}}}, .outputs = 4},
    {"add", add, {{F16, 3, {2, 3, 9}}, {F32, 1, {9}}, {F32, 3, {2, 3, 9}}}, .outputs = 4, .turned = 4},
    {"embed", embed, {{F32, 2, {7, 150}}, {CLATTN_I32, 1, {4}}, {F32, 1, {150}}, {F32, 2, {4, 150}}}, .outputs = 8},
    {"embed of blocks",
     embed,
     {{CLATTN_Q8_0, 2, {9, 64}}, {CLATTN_I64, 1, {4}}, {F32, 1, {64}}, {F16, 2, {4, 64}}},
     .outputs = 8},
    {"pool", pool, {{F32, 3, {3, 5, 70}}, {F32, 2, {3, 70}}}, .outputs = 2},
    {"rotary", rotary, {{F32, 4, {2, 1, 5, 12}}, {F16, 4, {2, 1, 5, 12}}}, .outputs = 2},
    {"cache",
     append,
     {{F32, 4, {2, 1, 2, 32}}, {F32, 4, {2, 1, 2, 7}}, {F16, 4, {2, 1, 6, 32}}, {F32, 4, {2, 1, 6, 7}}},
     .outputs = 0xc},
    {"cache of blocks",
     append,
     {{F32, 4, {2, 1, 2, 32}},
      {F16, 4, {2, 1, 2, 64}},
      {CLATTN_Q8_0, 4, {2, 1, 6, 32}},
      {CLATTN_Q4_0, 4, {2, 1, 6, 64}}},
     .outputs = 0xc},
    {"merge",
     merge,
     {{F32, 4, {1, 2, 5, 6}},
      {F32, 3, {1, 2, 5}},
      {F16, 4, {1, 2, 5, 6}},
      {F32, 3, {1, 2, 5}},
      {F32, 4, {1, 2, 5, 6}},
      {F32, 3, {1, 2, 5}}},
     .outputs = 0x30},
    {"column sums",
     column_sums,
     {{F32, 4, {1, 1, 1030, 1}},
      {F32, 4, {1, 1, 3, 1}},
      {F32, 4, {1, 1, 3, 1}},
      {F32, 4, {1, 1, 1030, 1}},
      {F32, 3, {1, 1, 3}},
      {F32, 3, {1, 1, 1030}}},
     .outputs = 0x38},
    {"LayerNorm backward",
     norm_backward,
     {{F32, 2, {3, 150}},
      {F32, 2, {3, 150}},
      {F32, 1, {150}},
      {F32, 2, {3, 150}},
      {F32, 2, {3, 150}},
      {F32, 2, {3, 150}},
      {F32, 1, {150}},
      {F32, 1, {150}}},
     .outputs = 0xe0},
    {"RMSNorm backward of mixed types",
     rms_backward,
     {{F16, 2, {70, 9}}, {BF16, 1, {9}}, {F32, 2, {70, 9}}, {F32, 2, {70, 9}}, {F32, 1, {9}}},
     .outputs = 0x18,
     .turned = 8},
    {"softmax backward", softmax_backward, {{F32, 2, {3, 150}}, {F32, 2, {3, 150}}, {F32, 2, {3, 150}}}, .outputs = 4},
    {"cross-entropy",
     cross_entropy,
     {{F32, 2, {5, 71}}, {CLATTN_I64, 1, {5}}, {F32, 1, {1}}, {F32, 1, {5}}, {F32, 2, {5, 71}}},
     .outputs = 0x1c},
    {"gate backward",
     gate_backward,
     {{F32, 2, {3, 71}}, {F32, 2, {3, 71}}, {F32, 2, {3, 71}}, {F32, 2, {3, 71}}, {F32, 2, {3, 71}}},
     .outputs = 0x18},
    {"sum", sum, {{F32, 2, {150, 7}}, {F32, 1, {7}}}, .outputs = 2},
    {"embed backward", embed_backward, {{CLATTN_I32, 1, {9}}, {F32, 2, {9, 100}}, {F32, 2, {7, 100}}}, .outputs = 4},
    {"Adam",
     adam,
     {{F32, 2, {3, 71}}, {F32, 1, {1}}, {F32, 2, {3, 71}}, {F32, 2, {3, 71}}, {F32, 2, {3, 71}}},
     .outputs = 0x1c},
    {"SGD", sgd, {{F16, 2, {3, 71}}, {F32, 2, {3, 71}}, {F32, 2, {3, 71}}}, .outputs = 6, .turned = 1},
    {"norm of gradients",
     gradient_norm,
     {{F32, 2, {3, 150}}, {F16, 3, {7, 2, 5}}, {F32, 1, {1}}, {F32, 1, {1}}},
     .outputs = 0xc},
    {"turned rows", turn, {{F32, 2, {70, 9}}, {F32, 2, {9, 70}}}, .outputs = 2},
};

/* ---- one of them ---- */

typedef double block[MOST];

static size_t bytes_of(const clattn_tensor *t) {
    return clattn_dtype_bytes(t->dtype, (size_t)clattn_tensor_elements(t));
}

/* Numbers of a problem, small integers where it is ids; zeros for outputs. */
static clattn_status make_tensor(const problem *p, int index, void *data, clattn_tensor *t) {
    const tensor_of *of = &p->tensors[index];
    const bool output = p->outputs >> index & 1;
    float numbers[MOST] = {0};
    oracle_random random = {11 + (uint64_t)of->shape[0]};
    const bool ids = of->dtype == CLATTN_I32 || of->dtype == CLATTN_I64;
    *t = clattn_tensor_host(data, of->dtype, of->rank, of->shape);
    const int64_t n = clattn_tensor_elements(t), inner = of->rank > 1 ? of->shape[of->rank - 2] : 1;
    for (int64_t i = 0; i < n && !output; i++)
        numbers[i] = ids ? (float)(i * 5 % 7) : (float)oracle_normal(&random);
    if (p->turned >> index & 1) {
        t->stride[of->rank - 2] = 1;
        t->stride[of->rank - 1] = inner;
    }
    return clattn_convert(data, of->dtype, numbers, CLATTN_F32, (size_t)n);
}

/* CPU-class devices have kernels with a row a work-item, others with a row a group. */
static clattn_status run_in(clattn_context *context, bool as_cpu, const problem *p, block data[TENSORS]) {
    clattn_tensor t[TENSORS] = {0};
    clattn_status status = CLATTN_OK;
    const bool buffers = !cla_context_is_cpu(context);
    if (buffers) {
        context->info.device_class = as_cpu ? CLATTN_DEVICE_CPU : CLATTN_DEVICE_GPU;
        context->info.vector_floats = as_cpu ? 8 : 1;
    }
    for (int i = 0; i < TENSORS && status == CLATTN_OK && p->tensors[i].rank > 0; i++) {
        status = make_tensor(p, i, data[i], &t[i]);
        if (status != CLATTN_OK || !buffers)
            continue;
        t[i].host = NULL;
        status = clattn_buffer_create(context, bytes_of(&t[i]), &t[i].buffer);
        if (status == CLATTN_OK)
            status = clattn_buffer_upload(t[i].buffer, 0, data[i], bytes_of(&t[i]));
    }
    if (status == CLATTN_OK)
        status = p->run(context, t);
    for (int i = 0; i < TENSORS; i++) {
        if (status == CLATTN_OK && t[i].buffer)
            status = clattn_buffer_download(t[i].buffer, 0, data[i], bytes_of(&t[i]));
        clattn_buffer_destroy(t[i].buffer);
    }
    return status;
}

static clattn_status run_on(const char *device, bool as_cpu, const problem *p, block data[TENSORS]) {
    clattn_context *context = NULL;
    clattn_status status = clattn_context_create(device, NULL, &context);
    if (status == CLATTN_OK)
        status = run_in(context, as_cpu, p, data);
    clattn_context_destroy(context);
    return status;
}

static bool are_close(const problem *p, block got[TENSORS], block right[TENSORS]) {
    bool same = true;
    for (int i = 0; i < TENSORS; i++) {
        const tensor_of *of = &p->tensors[i];
        int64_t n = of->rank > 0;
        for (int axis = 0; axis < of->rank; axis++)
            n *= of->shape[axis];
        /* a rounding of the stored type: of blocks, a step of theirs */
        const double unit = of->dtype == BF16                    ? 0x1p-7
                            : of->dtype == F16                   ? 0x1p-10
                            : clattn_dtype_length(of->dtype) > 1 ? 0.5
                                                                 : 1e-5;
        for (int64_t j = 0; j < n && (p->outputs >> i & 1); j++) {
            const double want = oracle_decode(of->dtype, right[i], j);
            same = same && fabs(oracle_decode(of->dtype, got[i], j) - want) <= unit * (1 + fabs(want));
        }
    }
    return same;
}

static block got[TENSORS], right[TENSORS];

const char *ops_name(size_t index) { return index < sizeof problems / sizeof *problems ? problems[index].name : NULL; }

clattn_status ops_run(clattn_context *context, size_t index, bool as_cpu) {
    return run_in(context, as_cpu, &problems[index], got);
}

bool ops_right(size_t index) {
    const problem *p = &problems[index];
    return run_on("cpu", false, p, right) == CLATTN_OK && are_close(p, got, right);
}

void ops_check(void (*told)(void *data, bool right, const char *text), void *data) {
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int as_cpu = 0; as_cpu < 2; as_cpu++) {
            const problem *p = &problems[i];
            char text[ORACLE_TEXT];
            const bool same = run_on("opencl", as_cpu, p, got) == CLATTN_OK &&
                              run_on("cpu", false, p, right) == CLATTN_OK && are_close(p, got, right);
            snprintf(text, sizeof text, "%s, as on a %s: %s", p->name, as_cpu ? "CPU" : "GPU", clattn_last_error());
            told(data, same, text);
        }
}
