/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder: a stack of layers with cross attention, on all targets at once or on those behind a cache. */
#include "modules/decoder.h"

#include "base/mem.h"
#include "modules/module.h"
#include <clattn/train.h>

static const char *const module = "decoder";

static cla_layer_parts part(const void *weights, int64_t i) {
    const clattn_decoder_layer_weights *w = &((const clattn_decoder_weights *)weights)->layers[i];
    return (cla_layer_parts){.self_attn = &w->self_attn,
                             .cross_attn = &w->cross_attn,
                             .feedforward = &w->feedforward,
                             .norm1 = &w->norm1,
                             .norm2 = &w->norm2,
                             .norm3 = &w->norm3};
}

/* One memory is given to all layers. */
static clattn_status check_memory_dims(const cla_stack *s) {
    for (int64_t i = 1; i < s->count; i++)
        if (s->layers[i].cross.kdim != s->layers[0].cross.kdim)
            return cla_error(CLATTN_E_SHAPE,
                             "decoder: layer %lld: cross_attn takes a memory of %lld columns, and that of "
                             "the first layer %lld",
                             (long long)i, (long long)s->layers[i].cross.kdim, (long long)s->layers[0].cross.kdim);
    return CLATTN_OK;
}

static cla_stack_weights stack_weights(const clattn_decoder_weights *weights) {
    return (cla_stack_weights){.weights = weights,
                               .part = part,
                               .count = weights->count,
                               .has_norm = weights->has_norm,
                               .norm = &weights->norm};
}

static clattn_status check_reserved(const clattn_decoder_weights *weights) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(CLA_RESERVED(clattn_decoder_weights, weights));
    for (int64_t i = 0; i < weights->count && weights->count <= CLA_STACK_LAYERS; i++)
        CLA_TRY(CLA_RESERVED(clattn_decoder_layer_weights, &weights->layers[i]));
done:
    return status;
}

clattn_status clattn_decoder_create(clattn_context *context, const clattn_decoder_weights *weights,
                                    const clattn_layer_options *options, clattn_decoder **decoder) {
    clattn_status status = CLATTN_OK;
    clattn_decoder *d = NULL;
    CLA_CHECK(decoder, CLATTN_E_ARGUMENT, "decoder_create: decoder is NULL");
    *decoder = NULL;
    CLA_CHECK(context && weights && weights->layers && options, CLATTN_E_ARGUMENT, "decoder_create: %s is NULL",
              !context   ? "context"
              : !weights ? "weights"
              : !options ? "options"
                         : "layers");
    CLA_TRY(check_reserved(weights));
    CLA_TRY(cla_alloc(1, sizeof *d, module, &d));
    const cla_stack_weights stack = stack_weights(weights);
    CLA_TRY(cla_stack_take(context, module, &stack, options, &d->stack));
    CLA_TRY(check_memory_dims(&d->stack));
    *decoder = d;
    d = NULL;
done:
    clattn_decoder_destroy(d);
    return status;
}

void clattn_decoder_destroy(clattn_decoder *decoder) {
    if (decoder)
        cla_stack_free(&decoder->stack);
    cla_free(decoder);
}

int64_t clattn_decoder_parameter_count(const clattn_decoder *decoder) {
    return decoder ? decoder->stack.parameters : 0;
}

int64_t clattn_decoder_layer_count(const clattn_decoder *decoder) { return decoder ? decoder->stack.count : 0; }

/* ---- a call ---- */

static clattn_status take_memory(const cla_stack *s, const clattn_decoder_args *args, int64_t B, clattn_tensor *rows) {
    clattn_status status = CLATTN_OK;
    char text[200];
    const int64_t columns = s->layers[0].cross.kdim;
    CLA_TRY(cla_take_rows(s->scratch.context, &args->memory, module, "memory", s->options.batch_second, rows));
    CLA_CHECK(args->memory.rank == args->x.rank, CLATTN_E_SHAPE, "%s: memory %s: rank %d, and x has rank %d", module,
              cla_shape_text(&args->memory, text, sizeof text), args->memory.rank, args->x.rank);
    CLA_CHECK(rows->shape[0] == B && rows->shape[2] == columns, CLATTN_E_SHAPE,
              "%s: memory %s: should have a batch of %lld and %lld columns", module,
              cla_shape_text(&args->memory, text, sizeof text), (long long)B, (long long)columns);
done:
    return status;
}

/* Targets behind those that are kept: they see those, and each other causally. */
static clattn_status use_cache(clattn_decoder_cache *cache, clattn_decoder *decoder, const clattn_tensor *rows,
                               cla_stack_call *call, clattn_module_masks *masks) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(cache->decoder == decoder, CLATTN_E_ARGUMENT, "%s: the cache belongs to another decoder", module);
    CLA_CHECK(rows->shape[0] == cache->B, CLATTN_E_SHAPE, "%s: x has a batch of %lld, and the cache one of %lld",
              module, (long long)rows->shape[0], (long long)cache->B);
    CLA_CHECK(rows->shape[1] <= cache->capacity - cache->length, CLATTN_E_LIMIT,
              "%s: the cache holds %lld of %lld targets, and %lld more do not fit", module, (long long)cache->length,
              (long long)cache->capacity, (long long)rows->shape[1]);
    if (cla_present(&call->memory))
        CLA_TRY(cla_cache_memory(cache, &call->memory, call->dtype));
    CLA_CHECK(cache->memory_rows >= 0, CLATTN_E_ARGUMENT,
              "%s: memory is missing, and the cache has none of an earlier call", module);
    for (int64_t b = 0; b < cache->B; b++)
        cache->offsets[b] = cache->length;
    masks->causal = true;
    masks->align = CLATTN_ALIGN_OFFSET;
    masks->offsets = cache->offsets;
    call->stores = cache->stores;
    call->memory_stores = cache->memory_stores;
    call->stored = cache->length;
done:
    return status;
}

static clattn_status take_masks(cla_stack *s, const clattn_decoder_args *args, const clattn_module_masks *self,
                                const clattn_tensor *rows, int64_t M, cla_stack_call *call) {
    clattn_status status = CLATTN_OK;
    cla_mask_shape shape = {.module = module,
                            .prefix = "",
                            .B = rows->shape[0],
                            .H = s->layers[0].self.H,
                            .N = rows->shape[1],
                            .M = rows->shape[1] + call->stored,
                            .extra = s->layers[0].self.extra,
                            .unbatched = args->x.rank == 2,
                            .wide = call->dtype == CLATTN_F64,
                            .keep = CLA_SLOT_KEEP,
                            .bias = CLA_SLOT_BIAS};
    CLA_TRY(cla_masks_take(self, &shape, &s->scratch, &call->masks));
    shape.prefix = "memory ";
    shape.M = M;
    shape.extra = s->layers[0].cross.extra;
    shape.keep = CLA_SLOT_MEMORY_KEEP;
    shape.bias = CLA_SLOT_MEMORY_BIAS;
    CLA_TRY(cla_masks_take(&args->memory_masks, &shape, &s->scratch, &call->memory_masks));
done:
    return status;
}

clattn_status clattn_decoder_run(clattn_decoder *decoder, const clattn_decoder_args *args) {
    clattn_status status = CLATTN_OK;
    clattn_tensor rows;
    CLA_CHECK(decoder && args, CLATTN_E_ARGUMENT, "decoder: %s is NULL", decoder ? "args" : "decoder");
    CLA_TRY(CLA_RESERVED(clattn_decoder_args, args));
    cla_stack *s = &decoder->stack;
    clattn_decoder_cache *cache = args->cache;
    clattn_module_masks masks = args->masks;
    cla_stack_call call = {.x = args->x, .y = args->y, .hidden = args->hidden};
    CLA_TRY(cla_stack_rows(s, &args->x, &args->y, &rows));
    if (!cache || cla_present(&args->memory))
        CLA_TRY(take_memory(s, args, rows.shape[0], &call.memory));
    const bool wide = s->wide || cla_is_wide(&args->x) || cla_is_wide(&args->y) || cla_is_wide(&args->memory);
    call.dtype = wide || (cache && cache->dtype == CLATTN_F64) ? CLATTN_F64 : CLATTN_F32;
    if (cache)
        CLA_TRY(use_cache(cache, decoder, &rows, &call, &masks));
    CLA_TRY(take_masks(s, args, &masks, &rows, cache ? cache->memory_rows : call.memory.shape[1], &call));
    CLA_TRY(cla_stack_run(s, &call));
    if (cache)
        cache->length += rows.shape[1];
done:
    return status;
}

clattn_status clattn_decoder_backward(clattn_decoder *decoder, const clattn_decoder_backward_args *args) {
    clattn_status status = CLATTN_OK;
    clattn_tensor rows;
    cla_stack_weights gradients;
    CLA_CHECK(decoder && args, CLATTN_E_ARGUMENT, "decoder_backward: %s is NULL", decoder ? "args" : "decoder");
    CLA_TRY(CLA_RESERVED(clattn_decoder_backward_args, args));
    CLA_TRY(CLA_RESERVED(clattn_decoder_args, &args->forward));
    CLA_CHECK(!args->forward.cache, CLATTN_E_UNSUPPORTED, "decoder_backward: with a cache there are no gradients");
    clattn_decoder_args forward = args->forward;
    forward.y = args->d_y;
    cla_stack *s = &decoder->stack;
    cla_stack_call call = {.x = forward.x, .y = forward.y, .hidden = forward.hidden};
    cla_stack_back back = {.accumulate = args->accumulate, .d_y = args->d_y, .d_x = args->d_x};
    CLA_TRY(cla_stack_rows(s, &forward.x, &forward.y, &rows));
    CLA_TRY(take_memory(s, &forward, rows.shape[0], &call.memory));
    if (cla_present(&args->d_memory)) {
        CLA_CHECK(cla_same_shape(&args->d_memory, &forward.memory), CLATTN_E_SHAPE,
                  "decoder_backward: d_memory should have the shape of memory");
        CLA_TRY(cla_check_storage(s->scratch.context, &args->d_memory, "decoder_backward", "d_memory"));
        back.d_memory = cla_rows_of(&args->d_memory, s->options.batch_second);
    }
    const clattn_tensor *const tensors[] = {&forward.x, &forward.y, &forward.memory, &args->d_x, &args->d_memory};
    bool wide = s->wide;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        wide = wide || cla_is_wide(tensors[i]);
    call.dtype = wide ? CLATTN_F64 : CLATTN_F32;
    CLA_TRY(take_masks(s, &forward, &forward.masks, &rows, call.memory.shape[1], &call));
    if (args->gradients) {
        CLA_CHECK(args->gradients->layers, CLATTN_E_ARGUMENT, "decoder_backward: gradients have no layers");
        CLA_TRY(check_reserved(args->gradients));
        gradients = stack_weights(args->gradients);
        back.gradients = &gradients;
    }
    CLA_TRY(cla_stack_backward(s, &call, &back));
done:
    return status;
}
