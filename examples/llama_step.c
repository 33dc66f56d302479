/* SPDX-License-Identifier: Apache-2.0 */
/* One pass of new tokens through all layers. Everything is enqueued; only the logits are waited for. */
#include "complain.h"
#include "llama.h"

/* ---- views ---- */

/* Rows of a buffer [.., width]: columns [from, from + count). */
static clattn_tensor columns_of(clattn_buffer *buffer, int64_t N, int64_t width, int64_t from, int64_t count) {
    const clattn_tensor all = clattn_tensor_buffer(buffer, CLATTN_F32, 2, (const int64_t[]){N, width});
    return clattn_tensor_slice(all, 1, from, count);
}

/* The same as heads: [count, N, D]. */
static clattn_tensor heads_of(clattn_buffer *buffer, int64_t N, int64_t width, int64_t from, int64_t count, int64_t D) {
    const clattn_tensor flat = columns_of(buffer, N, width, from, count * D);
    return clattn_tensor_permute(clattn_tensor_split(flat, 1, count), (const int[]){1, 0, 2});
}

/* ---- parts of a layer ---- */

/* y = x W^T; `width` columns of y from `from` on. */
static bool multiply(const llama *m, const llama_matrix *w, clattn_tensor x, clattn_tensor y) {
    for (int i = 0; i < w->parts; i++) {
        const clattn_linear_args args = {
            .x = x, .w = w->part[i], .y = clattn_tensor_slice(y, 1, w->at[i], w->part[i].shape[0])};
        if (!done(clattn_linear(m->context, &args)))
            return false;
    }
    return true;
}

/* The stream takes up what a layer's part gave, where there is one, and is normalised. */
static bool normalise(const llama *m, clattn_tensor stream, const clattn_tensor *added, clattn_tensor weight,
                      clattn_tensor y) {
    clattn_norm_args args = {
        .kind = CLATTN_NORM_RMS, .x = stream, .weight = weight, .y = y, .epsilon = m->shape.epsilon};
    if (added) {
        args.residual = *added;
        args.sum = stream;
    }
    return done(clattn_norm(m->context, &args));
}

/* From qkv to heads: turned by position, appended where there is a cache, attended to. */
static bool attend(const llama *m, const llama_layer *layer, int64_t N, int64_t from, bool cached) {
    const llama_shape *s = &m->shape;
    const int64_t width = (s->H + 2 * s->Hk) * s->D, q = s->H * s->D, k = s->Hk * s->D, M = from + N;
    const clattn_rotary_options options = {.dims = s->rotated, .pairs = CLATTN_ROTARY_ADJACENT};
    clattn_attention_args attention = {.q = heads_of(m->qkv, N, width, 0, s->H, s->D),
                                       .k = heads_of(m->qkv, N, width, q, s->Hk, s->D),
                                       .v = heads_of(m->qkv, N, width, q + k, s->Hk, s->D),
                                       .o = heads_of(m->heads, N, q, 0, s->H, s->D),
                                       .causal = true,
                                       .align = CLATTN_ALIGN_BOTTOM_RIGHT};
    if (cached) { /* queries, keys and values in one go */
        const clattn_tensor keys = clattn_tensor_slice(layer->cache, 0, 0, s->Hk);
        const clattn_tensor values = clattn_tensor_slice(layer->cache, 0, s->Hk, s->Hk);
        const clattn_cache_append_args append = {.k = attention.k,
                                                 .v = attention.v,
                                                 .k_cache = keys,
                                                 .v_cache = values,
                                                 .cache_lengths = &from,
                                                 .rotate = true,
                                                 .rotary = options,
                                                 .q = attention.q,
                                                 .cos = m->cos,
                                                 .sin = m->sin};
        if (!done(clattn_cache_append(m->context, &append)))
            return false;
        attention.k = clattn_tensor_slice(keys, 1, 0, M);
        attention.v = clattn_tensor_slice(values, 1, 0, M);
    } else {
        const clattn_tensor turned = heads_of(m->qkv, N, width, 0, s->H + s->Hk, s->D);
        const clattn_rotary_args rotary = {
            .x = turned, .y = turned, .options = options, .offsets = &from, .cos = m->cos, .sin = m->sin};
        if (!done(clattn_rotary(m->context, &rotary)))
            return false;
    }
    return done(clattn_attention(m->context, &attention));
}

/* silu(gate) * up, [N, F]: in one product where their weights are in one piece. */
static bool gate(const llama *m, const llama_matrix *gate_up, int64_t N, clattn_tensor x, clattn_tensor y) {
    const int64_t F = m->shape.F;
    if (gate_up->parts == 1) {
        const clattn_linear_args args = {
            .x = x, .w = gate_up->part[0], .y = y, .activation = CLATTN_ACTIVATION_SILU, .gated = true};
        return done(clattn_linear(m->context, &args));
    }
    const clattn_tensor inner = columns_of(m->inner, N, 2 * F, 0, 2 * F);
    const clattn_activate_args swiglu = {.x = clattn_tensor_slice(inner, 1, 0, F),
                                         .up = clattn_tensor_slice(inner, 1, F, F),
                                         .y = y,
                                         .activation = CLATTN_ACTIVATION_SILU};
    return multiply(m, gate_up, x, inner) && done(clattn_activate(m->context, &swiglu));
}

/* Rows at positions from .. from + N - 1; logits may be NULL. */
static bool pass(const llama *m, const int32_t *ids, int64_t N, int64_t from, bool cached, float *logits) {
    const llama_shape *s = &m->shape;
    const int64_t width = (s->H + 2 * s->Hk) * s->D;
    const clattn_tensor stream = columns_of(m->stream, N, s->E, 0, s->E),
                        normed = columns_of(m->normed, N, s->E, 0, s->E);
    const clattn_tensor qkv = columns_of(m->qkv, N, width, 0, width);
    const clattn_tensor heads = columns_of(m->heads, N, s->H * s->D, 0, s->H * s->D);
    const clattn_tensor gated = columns_of(m->gated, N, s->F, 0, s->F);
    const clattn_embed_args embed = {
        .table = m->embedding, .ids = clattn_tensor_host(ids, CLATTN_I32, 1, &N), .y = stream};
    if (!done(clattn_embed(m->context, &embed)))
        return false;
    for (int64_t i = 0; i < s->layers; i++) {
        const llama_layer *layer = &m->layers[i];
        if (!normalise(m, stream, i > 0 ? &normed : NULL, layer->attention_norm, normed) ||
            !multiply(m, &layer->qkv, normed, qkv) || !attend(m, layer, N, from, cached) ||
            !multiply(m, &layer->out, heads, normed) || !normalise(m, stream, &normed, layer->ffn_norm, normed) ||
            !gate(m, &layer->gate_up, N, normed, gated) || !multiply(m, &layer->down, gated, normed))
            return false;
    }
    if (!logits)
        return true;
    const clattn_tensor last = clattn_tensor_slice(normed, 0, N - 1, 1);
    const clattn_tensor all = columns_of(m->logits, 1, s->vocabulary, 0, s->vocabulary);
    return normalise(m, clattn_tensor_slice(stream, 0, N - 1, 1), &last, m->norm, last) &&
           multiply(m, &m->head, last, all) &&
           done(clattn_buffer_download(m->logits, 0, logits, (size_t)s->vocabulary * sizeof *logits));
}

bool llama_append(llama *m, const int32_t *ids, int64_t count, float *logits) {
    if (m->length + count > m->slots)
        return complain("%lld tokens more do not fit behind %lld of %lld", (long long)count, (long long)m->length,
                        (long long)m->slots);
    for (int64_t N; count > 0; ids += N, count -= N, m->length += N) {
        N = count < m->rows ? count : m->rows;
        if (!pass(m, ids, N, m->length, true, count == N ? logits : NULL))
            return false;
    }
    return true;
}

bool llama_recompute(llama *m, const int32_t *ids, int64_t count, float *logits) {
    return pass(m, ids, count, 0, false, logits);
}
