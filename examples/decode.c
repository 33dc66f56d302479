/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding with a cache: tokens come one by one; each turns its key by its position and appends it and its value to
 * caches on the device, then its query attends to all that came before. The result is compared with one causal call
 * over the whole text. */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>

enum { HEADS = 6, KEY_HEADS = 2, TOKENS = 20, CAPACITY = 32, DIM = 16 };

static float q[HEADS][TOKENS][DIM], k[KEY_HEADS][TOKENS][DIM], v[KEY_HEADS][TOKENS][DIM];
static float turned_q[HEADS][TOKENS][DIM], turned_k[KEY_HEADS][TOKENS][DIM];
static float o[HEADS][TOKENS][DIM], expected[HEADS][TOKENS][DIM];

static const int64_t query_shape[] = {1, HEADS, TOKENS, DIM}, key_shape[] = {1, KEY_HEADS, TOKENS, DIM};

static void fill(float *x, int count, int seed) {
    for (int i = 0; i < count; i++)
        x[i] = sinf((float)(seed * 1000 + i));
}

/* Token t of an array [heads, TOKENS, DIM]: a view, nothing is copied. */
static clattn_tensor token(const void *data, const int64_t *shape, int64_t t) {
    return clattn_tensor_slice(clattn_tensor_host(data, CLATTN_F32, 4, shape), 2, t, 1);
}

static clattn_status step(clattn_context *context, clattn_buffer *const *caches, int64_t t) {
    const int64_t cache_shape[] = {1, KEY_HEADS, CAPACITY, DIM}, length = t + 1;
    const clattn_tensor k_cache = clattn_tensor_buffer(caches[0], CLATTN_F32, 4, cache_shape);
    const clattn_tensor v_cache = clattn_tensor_buffer(caches[1], CLATTN_F32, 4, cache_shape);
    const clattn_cache_append_args append = {
        .k = token(k, key_shape, t),
        .v = token(v, key_shape, t),
        .k_cache = k_cache,
        .v_cache = v_cache,
        .cache_lengths = &t, /* so many slots are in use; the new one is the next */
        .rotate = true,      /* by its position, t */
    };
    const clattn_rotary_args rotary = {
        .x = token(q, query_shape, t), .y = token(turned_q, query_shape, t), .offsets = &t};
    const clattn_attention_args attention = {
        .q = token(turned_q, query_shape, t),
        .k = k_cache,
        .v = v_cache,
        .o = token(o, query_shape, t),
        .key_lengths = &length,
    };
    clattn_status status = clattn_cache_append(context, &append);
    if (status == CLATTN_OK)
        status = clattn_rotary(context, &rotary);
    if (status == CLATTN_OK)
        status = clattn_attention(context, &attention);
    return status;
}

/* The whole text at once. */
static clattn_status one_pass(clattn_context *context) {
    const clattn_rotary_args turn_q = {.x = clattn_tensor_host(q, CLATTN_F32, 4, query_shape),
                                       .y = clattn_tensor_host(turned_q, CLATTN_F32, 4, query_shape)};
    const clattn_rotary_args turn_k = {.x = clattn_tensor_host(k, CLATTN_F32, 4, key_shape),
                                       .y = clattn_tensor_host(turned_k, CLATTN_F32, 4, key_shape)};
    const clattn_attention_args attention = {
        .q = turn_q.y,
        .k = turn_k.y,
        .v = clattn_tensor_host(v, CLATTN_F32, 4, key_shape),
        .o = clattn_tensor_host(expected, CLATTN_F32, 4, query_shape),
        .causal = true,
    };
    clattn_status status = clattn_rotary(context, &turn_q);
    if (status == CLATTN_OK)
        status = clattn_rotary(context, &turn_k);
    if (status == CLATTN_OK)
        status = clattn_attention(context, &attention);
    return status;
}

int main(void) {
    const size_t cache_bytes = (size_t)KEY_HEADS * CAPACITY * DIM * sizeof(float);
    clattn_context *context = NULL;
    clattn_buffer *caches[2] = {NULL};
    fill(&q[0][0][0], HEADS * TOKENS * DIM, 1);
    fill(&k[0][0][0], KEY_HEADS * TOKENS * DIM, 2);
    fill(&v[0][0][0], KEY_HEADS * TOKENS * DIM, 3);

    clattn_status status = clattn_context_create(NULL, NULL, &context);
    for (int i = 0; i < 2 && status == CLATTN_OK; i++)
        status = clattn_buffer_create(context, cache_bytes, &caches[i]);
    for (int64_t t = 0; t < TOKENS && status == CLATTN_OK; t++)
        status = step(context, caches, t);
    if (status == CLATTN_OK)
        status = one_pass(context);
    if (status != CLATTN_OK)
        fprintf(stderr, "%s: %s\n", clattn_status_name(status), clattn_last_error());
    for (int i = 0; i < 2; i++)
        clattn_buffer_destroy(caches[i]);
    clattn_context_destroy(context);
    if (status != CLATTN_OK)
        return 1;

    float worst = 0;
    for (int i = 0; i < HEADS * TOKENS * DIM; i++)
        worst = fmaxf(worst, fabsf((&o[0][0][0])[i] - (&expected[0][0][0])[i]));
    printf("%d tokens one by one differ from one causal pass by %g\n", TOKENS, (double)worst);
    return worst <= 1e-5f ? 0 : 1;
}
