/* SPDX-License-Identifier: Apache-2.0 */
/* Prints every program that the library may build on GPUs of some kinds, one a line, for tools/compile_offline.sh:
 *   target, how it is chosen (default | fallback | tuned), type of the sums, file, helper or -, kernel, work-group,
 *   storage (native | any | -), class of masks (0 - 3 | -), bytes of local memory by the plan's own formula (0: has
 *   none), options                                                                                        [tabs
 * between] The library itself is asked: plans and operations are made in a context that is told that its device is such
 * a GPU, and what they ask of cla_kernel_create is written down, not built (the linker wraps it and cla_launch). Needs
 * any one OpenCL device. */
#include "attention/tiles.h"
#include "base/mem.h"
#include "ops/sums.h"
#include "runtime/kernel.h"
#include "runtime/launch.h"
#include "runtime/state.h"
#include <clattn/clattn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))

typedef struct {
    const char *target, *vendor, *name;
    uint64_t local_bytes, work_group;
    uint32_t subgroup;
    bool has_f64, unified_memory;
} gpu;
static const gpu gpus[] = {
    {"sm_75", "NVIDIA Corporation", "Tesla T4", 49152, 1024, 0, true, false},
    {"sm_90", "NVIDIA Corporation", "NVIDIA H100", 49152, 1024, 0, true, false},
    {"gfx90a", "Advanced Micro Devices, Inc.", "gfx90a:sramecc+:xnack-", 65536, 256, 0, true, false},
    {"gfx1100", "Advanced Micro Devices, Inc.", "gfx1100", 65536, 256, 0, true, false},
    {"dg2", "Intel(R) Corporation", "Intel(R) Arc(TM) A770 Graphics", 65536, 1024, 8, false, false},
    {"pvc", "Intel(R) Corporation", "Intel(R) Data Center GPU Max 1100", 131072, 1024, 16, true, false},
    {"tgllp", "Intel(R) Corporation", "Intel(R) Iris(R) Xe Graphics", 65536, 512, 8, false, true},
};

/* What the wrapped functions know of what is asked for. */
static struct {
    const gpu *gpu;
    const char *choice, *storage;
    clattn_dtype dtype;
    int masks;   /* -1: of no attention */
    bool refuse; /* as a device does that lacks registers: the next tile is asked for */
    bool failed;
    char *lines[4096];
    int count;
} now;

/* ---- wrapped ---- */

clattn_status __wrap_cla_kernel_create(clattn_context *context, const cla_key *key, size_t work_group,
                                       cla_kernel **kernel);
clattn_status __wrap_cla_launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_arg *args,
                                int count);

static bool is_tiles(const cla_key *key) { return strcmp(key->file, "attention_tiles.cl") == 0; }

/* Lines differ in what follows the choice: the first choice stays. */
static void add_line(const char *line) {
    const char *rest = strchr(strchr(line, '\t') + 1, '\t');
    for (int i = 0; i < now.count; i++)
        if (strncmp(now.lines[i], line, strcspn(line, "\t") + 1) == 0 &&
            strcmp(strchr(strchr(now.lines[i], '\t') + 1, '\t'), rest) == 0)
            return;
    char *copy = malloc(strlen(line) + 1);
    if (now.count == COUNT(now.lines) || !copy)
        exit(1);
    now.lines[now.count++] = strcpy(copy, line);
    puts(line);
}

static void helper_text(const cla_key *key, char *text, size_t size) {
    snprintf(text, size, "%s", key->helper);
    for (int i = 0; i < COUNT(key->more_helpers) && key->more_helpers[i]; i++)
        snprintf(text + strlen(text), size - strlen(text), " %s", key->more_helpers[i]);
}

clattn_status __wrap_cla_kernel_create(clattn_context *context, const cla_key *key, size_t work_group,
                                       cla_kernel **kernel) {
    char line[1400], masks[4] = "-", helpers[100] = "-";
    (void)context;
    if (key->helper)
        helper_text(key, helpers, sizeof helpers);
    if (is_tiles(key))
        snprintf(masks, sizeof masks, "%d", now.masks);
    snprintf(line, sizeof line, "%s\t%s\t%s\t%s\t%s\t%s\t%zu\t%s\t%s\t%s", now.gpu->target,
             is_tiles(key) ? now.choice : "default", clattn_dtype_name(now.dtype), key->file, helpers, key->kernel,
             work_group, is_tiles(key) ? now.storage : "-", masks, key->options);
    add_line(line);
    *kernel = NULL;
    if (is_tiles(key) && now.refuse)
        return CLATTN_E_LIMIT;
    clattn_status status = cla_alloc(1, sizeof **kernel, "kernel", kernel);
    if (status == CLATTN_OK)
        (*kernel)->work_group = work_group;
    return status;
}

clattn_status __wrap_cla_launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_arg *args,
                                int count) {
    (void)context, (void)kernel, (void)groups, (void)args, (void)count;
    return CLATTN_OK;
}

/* ---- what is asked for ---- */

static void expect(clattn_status status, const char *what) {
    if (status == CLATTN_OK || (now.refuse && status == CLATTN_E_LIMIT))
        return;
    fprintf(stderr, "offline_keys: %s, %s: %s\n", now.gpu->target, what, clattn_last_error());
    now.failed = true;
}

enum { N = 64, MANY = 2048, M = 64, H = 2, PLACE = 1 << 18 /* elements */, PLACES = 15 };

static clattn_tensor at(clattn_buffer *buffer, clattn_dtype dtype, int place, int64_t rows, int64_t columns) {
    clattn_tensor t = clattn_tensor_buffer(buffer, dtype, 4, (const int64_t[]){1, H, rows, columns});
    t.offset = (int64_t)place * PLACE;
    return t;
}

static clattn_attention_args args_for(clattn_buffer *buffer, clattn_dtype storage, int64_t D, int64_t Dv, int masks) {
    clattn_attention_args a = {.q = at(buffer, storage, 0, N, D),
                               .k = at(buffer, storage, 1, M, D),
                               .v = at(buffer, storage, 2, M, Dv),
                               .o = at(buffer, storage, 3, N, Dv),
                               .algorithm = "fused_tiles"};
    a.causal = masks & 1;
    a.align = CLATTN_ALIGN_BOTTOM_RIGHT;
    if (masks & 2) {
        a.keep = clattn_tensor_buffer(buffer, CLATTN_BOOL, 2, (const int64_t[]){N, M});
        a.keep.offset = (int64_t)4 * PLACE;
    }
    return a;
}

static void plan(clattn_context *context, const clattn_attention_args *a, const char *what) {
    clattn_plan *p = NULL;
    expect(clattn_plan_create(context, a, &p), what);
    clattn_plan_destroy(p);
}

/* Each class of D and V in tiles.c. */
static const int64_t dims[][2] = {{32, 32},   {64, 64},   {80, 64},   {80, 80},   {96, 96},
                                  {128, 128}, {192, 192}, {256, 256}, {576, 512}, {192, 128}};

static void ask_for_tiles(clattn_context *context, clattn_buffer *buffer, clattn_dtype dtype) {
    now.dtype = dtype;
    for (int d = 0; d < COUNT(dims); d++)
        for (now.masks = 0; now.masks < 4; now.masks++)
            for (int any = 0; any < 2; any++) {
                if (strcmp(now.choice, "default") != 0 && now.masks != 3 * any)
                    continue; /* the least and the most are enough of what is no first choice */
                const clattn_dtype storage = any ? CLATTN_F16 : dtype;
                clattn_attention_args a = args_for(buffer, storage, dims[d][0], dims[d][1], now.masks);
                if (any && dtype == CLATTN_F64)
                    a.q.dtype = CLATTN_F64; /* the sums are then f64 */
                now.storage = any ? "any" : "native";
                plan(context, &a, "fused_tiles");
            }
    now.masks = -1;
}

/* What a tuner may take: variant i of each kind of storage, if there are so many. */
static void ask_for_variant(clattn_context *context, clattn_buffer *buffer, clattn_dtype dtype, int i) {
    now.dtype = dtype;
    for (int any = 0; any < 2; any++) {
        clattn_attention_args a = args_for(buffer, any ? CLATTN_F16 : dtype, 64, 64, 3 * any);
        clattn_plan *p = NULL;
        char variant[200] = "";
        if (any && dtype == CLATTN_F64)
            a.q.dtype = CLATTN_F64;
        now.masks = 3 * any;
        now.storage = any ? "any" : "native";
        expect(clattn_plan_create(context, &a, &p), "variants");
        if (p && clattn_plan_variant(p, (size_t)i))
            snprintf(variant, sizeof variant, "%s", clattn_plan_variant(p, (size_t)i));
        clattn_plan_destroy(p);
        a.variant = variant;
        if (*variant)
            plan(context, &a, variant);
    }
    now.masks = -1;
}

/* Gradients by materialised. */
static void ask_for_backward(clattn_context *context, clattn_buffer *buffer, clattn_dtype dtype) {
    const int64_t pairs[] = {N, M}, heads[] = {H};
    for (int masks = 0; masks < 4; masks++) {
        clattn_attention_backward_args a = {.forward = args_for(buffer, dtype, 64, 64, masks),
                                            .d_o = at(buffer, dtype, 5, N, 64),
                                            .d_q = at(buffer, dtype, 6, N, 64),
                                            .d_k = at(buffer, dtype, 7, M, 64),
                                            .d_v = at(buffer, dtype, 8, M, 64),
                                            .algorithm = "materialised"};
        clattn_plan *p = NULL;
        a.forward.state = at(buffer, dtype, 9, N, 2);
        a.forward.dropout = masks == 3 ? 0.1 : 0;
        if (masks & 2) {
            a.forward.bias = clattn_tensor_buffer(buffer, dtype, 2, pairs);
            a.d_bias = a.forward.bias;
            a.forward.sinks = clattn_tensor_buffer(buffer, dtype, 1, heads);
            a.d_sinks = a.forward.sinks;
            a.forward.bias.offset = 10 * PLACE, a.d_bias.offset = 11 * PLACE;
            a.forward.sinks.offset = 12 * PLACE, a.d_sinks.offset = 13 * PLACE;
        }
        expect(clattn_backward_plan_create(context, &a, &p), "gradients");
        clattn_plan_destroy(p);
    }
}

/* By fused_tiles: none and intervals, and all kinds of masks and storage, without and with dropout. */
static void ask_for_gradients(clattn_context *context, clattn_buffer *buffer, clattn_dtype dtype) {
    now.dtype = dtype;
    for (int d = 0; d < COUNT(dims); d++)
        for (int kind = 0; kind < 4; kind++) {
            clattn_plan *p = NULL;
            const int64_t D = dims[d][0], Dv = dims[d][1];
            clattn_attention_backward_args a = {.forward = args_for(buffer, dtype, D, Dv, kind > 2 ? 3 : kind)};
            a.d_o = at(buffer, dtype, 5, N, Dv);
            a.d_q = at(buffer, dtype, 6, N, D), a.d_k = at(buffer, dtype, 7, M, D), a.d_v = at(buffer, dtype, 8, M, Dv);
            a.forward.state = clattn_tensor_buffer(buffer, dtype, 4, (const int64_t[]){1, H, N, 2});
            a.forward.state.offset = (int64_t)9 * PLACE;
            a.forward.bias = clattn_tensor_buffer(buffer, dtype, 2, (const int64_t[]){N, M});
            a.forward.bias.offset = (int64_t)10 * PLACE;
            a.d_bias = a.forward.bias;
            a.d_bias.offset = (int64_t)11 * PLACE;
            if (kind < 2)
                a.forward.bias.rank = a.d_bias.rank = 0;
            a.forward.dropout = kind > 2 ? 0.5 : 0;
            if (kind > 2) {
                a.forward.sinks = clattn_tensor_buffer(buffer, dtype, 1, (const int64_t[]){H});
                a.d_sinks = a.forward.sinks;
                a.forward.sinks.offset = (int64_t)12 * PLACE, a.d_sinks.offset = (int64_t)13 * PLACE;
            }
            a.algorithm = "fused_tiles";
            expect(clattn_backward_plan_create(context, &a, &p), "gradients");
            clattn_plan_destroy(p);
        }
}

/* Plans whose tensors are copied, whose rows are filled, and that give weights; the softmax between two products. */
static void ask_for_others(clattn_context *context, clattn_buffer *buffer, clattn_dtype dtype) {
    const int64_t rows[] = {1, H, N}, columns[] = {1, H, M};
    now.dtype = dtype;
    for (int masks = 0; masks < 4; masks++) {
        clattn_attention_args a = args_for(buffer, dtype, 64, 64, masks);
        a.algorithm = "materialised";
        plan(context, &a, "materialised");
    }
    clattn_attention_args a = args_for(buffer, dtype, 64, 64, 0);
    a.weights = clattn_tensor_buffer(buffer, dtype, 4, (const int64_t[]){1, H, N, M});
    a.column_sums = clattn_tensor_buffer(buffer, dtype, 3, columns);
    a.entropy = clattn_tensor_buffer(buffer, dtype, 3, rows);
    a.weights.offset = 5 * PLACE, a.column_sums.offset = 6 * PLACE, a.entropy.offset = 7 * PLACE;
    plan(context, &a, "weights");
    a = args_for(buffer, dtype, 64, 64, 0);
    a.o.stride[3] = 2, a.o.stride[2] = 128, a.o.stride[1] = 128 * N;
    plan(context, &a, "copies");
    a = args_for(buffer, dtype, 64, 64, 0);
    a.k.shape[2] = a.v.shape[2] = 0;
    plan(context, &a, "fill");
    a = args_for(buffer, dtype, 64, 64, 0); /* column sums of so many queries are added up in chunks */
    a.q = at(buffer, dtype, 0, MANY, 64), a.o = at(buffer, dtype, 3, MANY, 64);
    a.column_sums = clattn_tensor_buffer(buffer, dtype, 3, columns);
    a.column_sums.offset = 6 * PLACE;
    plan(context, &a, "column sums");
    /* Keys in pages, and masks of fewer columns, before an algorithm that takes neither. */
    a = args_for(buffer, dtype, 64, 64, 2);
    a.k.shape[0] = a.v.shape[0] = 2, a.k.shape[2] = a.v.shape[2] = M / 2;
    a.block_table = (const int32_t[]){1, 0};
    a.table_pages = 2;
    a.key_lengths = (const int64_t[]){M};
    a.keep.shape[1] = M / 2;
    a.short_masks = true;
    a.algorithm = "materialised";
    plan(context, &a, "pages and short masks");
    clattn_meter *meter = NULL;
    expect(clattn_meter_create(context, &meter), "meter");
    clattn_meter_destroy(meter);
    const clattn_partial parts[] = {
        {at(buffer, dtype, 0, N, 64), clattn_tensor_buffer(buffer, dtype, 3, rows)},
        {at(buffer, dtype, 1, N, 64), clattn_tensor_buffer(buffer, dtype, 3, rows)},
    };
    const clattn_merge_args merge = {.parts = parts, .count = 2, .o = at(buffer, dtype, 2, N, 64)};
    expect(clattn_merge(context, &merge), "merge");
    const clattn_rotary_args rotary = {.x = at(buffer, dtype, 0, N, 64), .y = at(buffer, dtype, 1, N, 64)};
    expect(clattn_rotary(context, &rotary), "rotary");
    const clattn_cache_append_args append = {.k = at(buffer, dtype, 0, 1, 64),
                                             .k_cache = at(buffer, CLATTN_Q8_0, 1, M, 64),
                                             .cache_lengths = (const int64_t[]){0}};
    expect(clattn_cache_append(context, &append), "cache");
    /* Sums of no terms: CLBlast, which would run, has nothing to do, and what comes after it is asked for. */
    const clattn_linear_args linear = {.x = at(buffer, dtype, 0, N, 0),
                                       .w = clattn_tensor_buffer(buffer, dtype, 2, (const int64_t[]){M, 0}),
                                       .bias = clattn_tensor_buffer(buffer, dtype, 1, (const int64_t[]){M}),
                                       .y = at(buffer, dtype, 3, N, M),
                                       .algorithm = "clblast"};
    expect(clattn_linear(context, &linear), "linear");
}

static clattn_tensor rows_at(clattn_buffer *buffer, clattn_dtype dtype, int place) {
    clattn_tensor t = clattn_tensor_buffer(buffer, dtype, 2, (const int64_t[]){N, 64});
    t.offset = (int64_t)place * PLACE;
    return t;
}

/* Rows and elements: all of the sums' type, and stored in another. */
static void ask_for_rows(clattn_context *context, clattn_buffer *buffer, clattn_dtype dtype) {
    now.dtype = dtype;
    for (int staged = 0; staged < 2; staged++) {
        const clattn_tensor x = rows_at(buffer, dtype, 0), y = rows_at(buffer, staged ? CLATTN_BF16 : dtype, 1);
        const clattn_tensor ids = clattn_tensor_buffer(buffer, CLATTN_I32, 1, (const int64_t[]){N});
        clattn_tensor batch = at(buffer, dtype, 0, N, 64), pooled = rows_at(buffer, y.dtype, 1);
        batch.rank = 3, batch.shape[0] = H, batch.shape[1] = N, batch.shape[2] = 64;
        batch.stride[0] = N * 64, batch.stride[1] = 64, batch.stride[2] = 1;
        pooled.shape[0] = H;
        expect(clattn_norm(context, &(clattn_norm_args){.x = x, .y = y}), "norm");
        expect(clattn_softmax(context, &(clattn_softmax_args){.x = x, .y = y}), "softmax");
        expect(clattn_activate(context, &(clattn_activate_args){.x = x, .y = y}), "activate");
        expect(clattn_pool(context, &(clattn_pool_args){.x = batch, .y = pooled}), "pool");
        clattn_embed_args embed = {.table = x, .ids = ids, .y = y};
        embed.ids.offset = 4 * PLACE;
        expect(clattn_embed(context, &embed), "embed");
        expect(clattn_random(context, &(clattn_random_args){.y = staged ? y : x}), "random");
    }
}

/* Gradients of rows and elements, the loss and optimizers: all of the sums' type, and stored in another. */
static void ask_for_training(clattn_context *context, clattn_buffer *buffer, clattn_dtype dtype) {
    now.dtype = dtype;
    for (int staged = 0; staged < 2; staged++) {
        const clattn_dtype stored = staged ? CLATTN_BF16 : dtype;
        const clattn_tensor x = rows_at(buffer, stored, 0), d_y = rows_at(buffer, dtype, 1);
        const clattn_tensor d_x = rows_at(buffer, dtype, 2), other = rows_at(buffer, dtype, 3);
        clattn_tensor row = clattn_tensor_buffer(buffer, dtype, 1, (const int64_t[]){64}), ids, one;
        row.offset = (int64_t)4 * PLACE;
        ids = clattn_tensor_buffer(buffer, CLATTN_I32, 1, (const int64_t[]){N});
        ids.offset = (int64_t)5 * PLACE;
        one = clattn_tensor_buffer(buffer, dtype, 1, (const int64_t[]){1});
        one.offset = (int64_t)6 * PLACE;
        const clattn_tensor turned = rows_at(buffer, dtype, 7);
        expect(clattn_norm_backward(context,
                                    &(clattn_norm_backward_args){.x = x, .d_y = d_y, .d_x = d_x, .d_weight = row}),
               "norm's gradient");
        expect(clattn_softmax_backward(context, &(clattn_softmax_backward_args){.y = x, .d_y = d_y, .d_x = d_x}),
               "softmax's gradient");
        expect(clattn_activate_backward(context, &(clattn_activate_backward_args){.x = x, .d_y = d_y, .d_x = d_x}),
               "activate's gradient");
        expect(clattn_embed_backward(
                   context, &(clattn_embed_backward_args){.ids = ids, .d_y = staged ? x : d_y, .d_table = d_x}),
               "embed's gradient");
        expect(clattn_sum(context, &(clattn_sum_args){.x = x, .y = row}), "sum");
        expect(cla_turn_rows(context, &x, &turned), "turned rows");
        expect(clattn_cross_entropy(
                   context, &(clattn_cross_entropy_args){.logits = x, .targets = ids, .loss = one, .d_logits = d_x}),
               "cross-entropy");
        expect(clattn_gradient_norm(context, &(clattn_gradient_norm_args){.gradients = &x, .count = 1, .norm = one}),
               "norm of gradients");
        expect(clattn_adam_step(context, &(clattn_adam_args){.parameter = d_x,
                                                             .gradient = x,
                                                             .moment1 = d_y,
                                                             .moment2 = other,
                                                             .gradient_factor = one,
                                                             .step = 2}),
               "Adam");
        expect(clattn_sgd_step(
                   context,
                   &(clattn_sgd_args){.parameter = d_x, .gradient = x, .velocity = d_y, .momentum = 0.9, .step = 2}),
               "SGD");
    }
}

static void ask_for_all(clattn_context *context, clattn_buffer *buffer) {
    const int types = now.gpu->has_f64 && context->info.has_f64 ? 2 : 1;
    for (int t = 0; t < types; t++) {
        const clattn_dtype dtype = t ? CLATTN_F64 : CLATTN_F32;
        now.choice = "default";
        now.refuse = false;
        ask_for_tiles(context, buffer, dtype);
        ask_for_others(context, buffer, dtype);
        ask_for_backward(context, buffer, dtype);
        ask_for_gradients(context, buffer, dtype);
        ask_for_rows(context, buffer, dtype);
        ask_for_training(context, buffer, dtype);
        now.choice = "fallback";
        now.refuse = true;
        ask_for_tiles(context, buffer, dtype);
        now.refuse = false;
        now.choice = "tuned";
        for (int i = 0; i < CLA_TILES_ROWS; i++)
            ask_for_variant(context, buffer, dtype, i);
    }
}

int main(void) {
    clattn_context *context = NULL;
    clattn_buffer *buffer = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK ||
        clattn_buffer_create(context, (size_t)PLACE * PLACES * sizeof(double), &buffer) != CLATTN_OK) {
        fprintf(stderr, "offline_keys: %s\n", clattn_last_error());
        return 1;
    }
    clattn_device_info *info = &context->info;
    info->device_class = CLATTN_DEVICE_GPU;
    info->vector_floats = 1;
    for (int i = 0; i < COUNT(gpus); i++) {
        now.gpu = &gpus[i];
        snprintf(info->vendor, sizeof info->vendor, "%s", gpus[i].vendor);
        snprintf(info->name, sizeof info->name, "%s", gpus[i].name);
        info->local_bytes = gpus[i].local_bytes;
        info->max_work_group = gpus[i].work_group;
        info->unified_memory = gpus[i].unified_memory;
        info->least_subgroup = gpus[i].subgroup;
        ask_for_all(context, buffer);
    }
    for (int i = 0; i < now.count; i++)
        free(now.lines[i]);
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(context);
    return now.failed;
}
