/* SPDX-License-Identifier: Apache-2.0 */
/* One call on host arrays: two batches of causal attention, eight query heads over two key heads. */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>

enum { BATCH = 2, HEADS = 8, KEY_HEADS = 2, TOKENS = 5, DIM = 4 };

static float q[BATCH][HEADS][TOKENS][DIM], k[BATCH][KEY_HEADS][TOKENS][DIM], v[BATCH][KEY_HEADS][TOKENS][DIM];
static float o[BATCH][HEADS][TOKENS][DIM], lse[BATCH][HEADS][TOKENS];

static void fill(float *x, int count, int seed) {
    for (int i = 0; i < count; i++)
        x[i] = sinf((float)(seed * 1000 + i));
}

int main(void) {
    const int64_t queries[] = {BATCH, HEADS, TOKENS, DIM}, keys[] = {BATCH, KEY_HEADS, TOKENS, DIM};
    clattn_context *context = NULL;
    fill(&q[0][0][0][0], BATCH * HEADS * TOKENS * DIM, 1);
    fill(&k[0][0][0][0], BATCH * KEY_HEADS * TOKENS * DIM, 2);
    fill(&v[0][0][0][0], BATCH * KEY_HEADS * TOKENS * DIM, 3);

    /* What is not named here keeps its default: scale 1 / sqrt(DIM), no masks, the best algorithm. */
    const clattn_attention_args args = {
        .q = clattn_tensor_host(q, CLATTN_F32, 4, queries),
        .k = clattn_tensor_host(k, CLATTN_F32, 4, keys),
        .v = clattn_tensor_host(v, CLATTN_F32, 4, keys),
        .o = clattn_tensor_host(o, CLATTN_F32, 4, queries),
        .lse = clattn_tensor_host(lse, CLATTN_F32, 3, queries), /* the first three sizes: one number a query */
        .causal = true,
    };
    clattn_status status = clattn_context_create(NULL, NULL, &context);
    if (status == CLATTN_OK)
        status = clattn_attention(context, &args);
    if (status != CLATTN_OK)
        fprintf(stderr, "%s: %s\n", clattn_status_name(status), clattn_last_error());
    clattn_context_destroy(context);
    if (status != CLATTN_OK)
        return 1;

    /* The first query of each head sees the first key alone, so that its result is that key's value. */
    float worst = 0;
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < HEADS; h++)
            for (int d = 0; d < DIM; d++)
                worst = fmaxf(worst, fabsf(o[b][h][0][d] - v[b][h / (HEADS / KEY_HEADS)][0][d]));
    printf("o[0][0][4] = %.6f %.6f %.6f %.6f\n", (double)o[0][0][4][0], (double)o[0][0][4][1], (double)o[0][0][4][2],
           (double)o[0][0][4][3]);
    printf("first rows are off by %g\n", (double)worst);
    return worst <= 1e-6f ? 0 : 1;
}
