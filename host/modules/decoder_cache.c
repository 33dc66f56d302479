/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values that decoding keeps: of the targets so far, and of the memory, projected once. */
#include "base/mem.h"
#include "modules/decoder.h"
#include "modules/module.h"

/* [B, rows, row of a layer's keys and values] in a new buffer. */
static clattn_status make_store(const clattn_decoder_cache *c, int64_t rows, int64_t row, clattn_buffer **buffer,
                                clattn_tensor *store) {
    clattn_status status = CLATTN_OK;
    const int64_t shape[] = {c->B, rows, row};
    *store = clattn_tensor_buffer(NULL, c->dtype, 3, shape);
    const int64_t elements = clattn_tensor_elements(store);
    CLA_CHECK(elements >= 0 && elements <= INT64_MAX / 8, CLATTN_E_SHAPE,
              "cache of %lld x %lld rows: more elements than 64 bits count", (long long)c->B, (long long)rows);
    const size_t bytes = clattn_dtype_bytes(c->dtype, (size_t)elements);
    if (!*buffer || clattn_buffer_bytes(*buffer) < bytes) {
        clattn_buffer_destroy(*buffer); /* work in flight keeps its memory */
        *buffer = NULL;
        CLA_TRY(clattn_buffer_create(c->decoder->stack.scratch.context, bytes, buffer));
    }
    store->buffer = *buffer;
done:
    return status;
}

static clattn_status check_options(const clattn_decoder *decoder, const clattn_decoder_cache_options *o) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(o->batch >= 0 && o->capacity >= 0, CLATTN_E_ARGUMENT,
              "decoder cache: a batch of %lld and %lld targets; neither may be negative", (long long)o->batch,
              (long long)o->capacity);
    CLA_CHECK(!o->has_dtype || o->dtype <= CLATTN_BF16, CLATTN_E_DTYPE,
              "decoder cache: is of %s; f32, f64, f16 or bf16", clattn_dtype_name(o->dtype));
    for (int64_t i = 0; i < decoder->stack.count; i++)
        CLA_CHECK(decoder->stack.layers[i].self.extra == 0, CLATTN_E_UNSUPPORTED,
                  "decoder cache: layer %lld has bias_k in its self-attention, behind targets that are yet to come",
                  (long long)i);
done:
    return status;
}

clattn_status clattn_decoder_cache_create(clattn_decoder *decoder, const clattn_decoder_cache_options *options,
                                          clattn_decoder_cache **cache) {
    clattn_status status = CLATTN_OK;
    clattn_decoder_cache *c = NULL;
    CLA_CHECK(cache, CLATTN_E_ARGUMENT, "decoder_cache_create: cache is NULL");
    *cache = NULL;
    CLA_CHECK(decoder && options, CLATTN_E_ARGUMENT, "decoder_cache_create: %s is NULL",
              decoder ? "options" : "decoder");
    CLA_TRY(CLA_RESERVED(clattn_decoder_cache_options, options));
    CLA_TRY(check_options(decoder, options));
    const size_t layers = (size_t)decoder->stack.count;
    CLA_TRY(cla_alloc(1, sizeof *c, "decoder cache", &c));
    c->decoder = decoder;
    c->B = options->batch;
    c->capacity = options->capacity;
    c->memory_rows = -1;
    c->dtype = options->has_dtype ? options->dtype : decoder->stack.wide ? CLATTN_F64 : CLATTN_F32;
    CLA_TRY(cla_alloc(2 * layers, sizeof(clattn_buffer *), "decoder cache", &c->buffers));
    CLA_TRY(cla_alloc(layers, sizeof(clattn_tensor), "decoder cache", &c->stores));
    CLA_TRY(cla_alloc(layers, sizeof(clattn_tensor), "decoder cache", &c->memory_stores));
    for (size_t i = 0; i < layers; i++)
        CLA_TRY(
            make_store(c, c->capacity, cla_heads_row(&decoder->stack.layers[i].self), &c->buffers[i], &c->stores[i]));
    CLA_TRY(cla_alloc((size_t)c->B + 1, sizeof *c->offsets, "decoder cache", &c->offsets));
    *cache = c;
    c = NULL;
done:
    clattn_decoder_cache_destroy(c);
    return status;
}

void clattn_decoder_cache_destroy(clattn_decoder_cache *cache) {
    if (!cache)
        return;
    for (int64_t i = 0; cache->buffers && i < 2 * cache->decoder->stack.count; i++)
        clattn_buffer_destroy(cache->buffers[i]);
    cla_free(cache->buffers);
    cla_free(cache->stores);
    cla_free(cache->memory_stores);
    cla_free(cache->offsets);
    cla_free(cache);
}

int64_t clattn_decoder_cache_length(const clattn_decoder_cache *cache) { return cache ? cache->length : 0; }

clattn_status clattn_decoder_cache_truncate(clattn_decoder_cache *cache, int64_t length) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(cache, CLATTN_E_ARGUMENT, "decoder_cache_truncate: cache is NULL");
    CLA_CHECK(length >= 0 && length <= cache->length, CLATTN_E_ARGUMENT,
              "decoder cache: cannot be cut to %lld targets; it holds %lld", (long long)length,
              (long long)cache->length);
    cache->length = length;
done:
    return status;
}

clattn_status cla_cache_memory(clattn_decoder_cache *c, const clattn_tensor *memory, clattn_dtype dtype) {
    clattn_status status = CLATTN_OK;
    const cla_stack *s = &c->decoder->stack;
    c->memory_rows = -1; /* until all of it is there */
    for (int64_t i = 0; i < s->count; i++) {
        const cla_heads *cross = &s->layers[i].cross;
        CLA_TRY(make_store(c, memory->shape[1] + cross->extra, cla_heads_row(cross), &c->buffers[s->count + i],
                           &c->memory_stores[i]));
        const cla_attend call = {.module = "decoder: memory",
                                 .dtype = dtype,
                                 .key = *memory,
                                 .value = *memory,
                                 .store = c->memory_stores[i]};
        CLA_TRY(cla_attend_store(cross, s->scratch.context, &call));
    }
    c->memory_rows = memory->shape[1];
done:
    return status;
}
