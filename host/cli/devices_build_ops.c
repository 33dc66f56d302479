/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the operations around attention, as layers of a Transformer make them in f32: of zeros, on host arrays. */
#include "devices_build.h"

#include <clattn/clattn.h>

enum { ROWS = 32, E = 64 };

/* What a call reads, as any type, and what it writes. */
typedef struct {
    float x[E * E], y[ROWS * E];
} arrays;

static clattn_tensor matrix(const float *data, clattn_dtype dtype, int64_t rows, int64_t columns) {
    return clattn_tensor_host(data, dtype, 2, (const int64_t[]){rows, columns});
}

static clattn_tensor in(const arrays *a) { return matrix(a->x, CLATTN_F32, ROWS, E); }
static clattn_tensor out(const arrays *a) { return matrix(a->y, CLATTN_F32, ROWS, E); }
static clattn_tensor weight(const arrays *a) { return clattn_tensor_host(a->x, CLATTN_F32, 1, (const int64_t[]){E}); }

/* By the kernels for CPUs, since GPUs take CLBlast's. */
static clattn_status linear(clattn_context *context, const arrays *a, int64_t rows, clattn_dtype weights) {
    const clattn_linear_args args = {.x = matrix(a->x, CLATTN_F32, rows, E),
                                     .w = matrix(a->x, weights, E, E),
                                     .bias = weight(a),
                                     .y = matrix(a->y, CLATTN_F32, rows, E),
                                     .algorithm = rows == ROWS ? "linear" : "gemv"};
    return clattn_linear(context, &args);
}

static clattn_status many_rows(clattn_context *context, const arrays *a) {
    return linear(context, a, ROWS, CLATTN_F32);
}
static clattn_status many_rows_by_blocks(clattn_context *context, const arrays *a) {
    return linear(context, a, ROWS, CLATTN_Q8_0);
}
static clattn_status few_rows(clattn_context *context, const arrays *a) { return linear(context, a, 8, CLATTN_F32); }
static clattn_status one_row(clattn_context *context, const arrays *a) { return linear(context, a, 1, CLATTN_F32); }
static clattn_status one_row_by_blocks(clattn_context *context, const arrays *a) {
    return linear(context, a, 1, CLATTN_Q8_0);
}

static clattn_status norm(clattn_context *context, const arrays *a) {
    return clattn_norm(context, &(clattn_norm_args){.x = in(a), .weight = weight(a), .bias = weight(a), .y = out(a)});
}

static clattn_status softmax(clattn_context *context, const arrays *a) {
    return clattn_softmax(context, &(clattn_softmax_args){.x = in(a), .y = out(a)});
}

static clattn_status add(clattn_context *context, const arrays *a) {
    return clattn_add(context, &(clattn_add_args){.a = in(a), .b = in(a), .y = out(a)});
}

static clattn_status embed(clattn_context *context, const arrays *a) {
    const clattn_tensor ids = clattn_tensor_host(a->x, CLATTN_I32, 1, (const int64_t[]){ROWS});
    return clattn_embed(context, &(clattn_embed_args){.table = in(a), .ids = ids, .y = out(a)});
}

static clattn_status pool(clattn_context *context, const arrays *a) {
    const clattn_tensor x = clattn_tensor_host(a->x, CLATTN_F32, 3, (const int64_t[]){1, ROWS, E});
    return clattn_pool(context, &(clattn_pool_args){.x = x, .y = matrix(a->y, CLATTN_F32, 1, E)});
}

static clattn_status rotary(clattn_context *context, const arrays *a) {
    return clattn_rotary(context, &(clattn_rotary_args){.x = in(a), .y = out(a)});
}

static clattn_status (*const calls[])(clattn_context *context, const arrays *a) = {
    norm, softmax, add, embed, pool, rotary, many_rows, many_rows_by_blocks, few_rows, one_row, one_row_by_blocks};

size_t cla_devices_build_ops(void) { return sizeof calls / sizeof *calls; }

clattn_status cla_devices_build_op(clattn_context *context, size_t index) {
    arrays a = {{0}, {0}};
    return calls[index](context, &a);
}
