/* SPDX-License-Identifier: Apache-2.0 */
/* Masks compose: two sentences of different lengths in one padded batch, causal, each query with a window of keys, and
 * a boolean mask that hides one key from all. A key is seen where every mask lets it through. The same is computed
 * here with plain loops. */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>

enum { BATCH = 2, HEADS = 2, TOKENS = 12, DIM = 8, WINDOW = 4, HIDDEN = 3 };

typedef float tokens[BATCH][HEADS][TOKENS][DIM];
static tokens q, k, v, o;
static uint8_t keep[TOKENS]; /* 1: may be seen; one row for all batches, heads and queries */
static const int64_t lengths[BATCH] = {TOKENS, 7};

static void fill(tokens x, int seed) {
    float *flat = &x[0][0][0][0];
    for (int i = 0; i < BATCH * HEADS * TOKENS * DIM; i++)
        flat[i] = sinf((float)(seed * 1000 + i));
}

static bool sees(int b, int i, int j) { return j < lengths[b] && j <= i && j >= i - WINDOW && keep[j]; }

/* The largest difference of row i of a head. */
static double difference(int b, int h, int i) {
    double sum = 0, row[DIM] = {0}, worst = 0;
    for (int j = 0; j < TOKENS; j++) {
        double score = 0;
        if (!sees(b, i, j))
            continue;
        for (int d = 0; d < DIM; d++)
            score += (double)q[b][h][i][d] * (double)k[b][h][j][d];
        const double weight = exp(score / sqrt(DIM));
        sum += weight;
        for (int d = 0; d < DIM; d++)
            row[d] += weight * (double)v[b][h][j][d];
    }
    for (int d = 0; d < DIM; d++)
        worst = fmax(worst, fabs((sum > 0 ? row[d] / sum : 0) - (double)o[b][h][i][d]));
    return worst;
}

int main(void) {
    const int64_t shape[] = {BATCH, HEADS, TOKENS, DIM}, mask_shape[] = {1, TOKENS};
    clattn_context *context = NULL;
    fill(q, 1);
    fill(k, 2);
    fill(v, 3);
    for (int j = 0; j < TOKENS; j++)
        keep[j] = j != HIDDEN;
    for (int d = 0; d < DIM; d++) /* padding may hold anything: what no query sees does not reach a result */
        k[1][0][TOKENS - 1][d] = v[1][0][TOKENS - 1][d] = NAN;

    const clattn_attention_args args = {
        .q = clattn_tensor_host(q, CLATTN_F32, 4, shape),
        .k = clattn_tensor_host(k, CLATTN_F32, 4, shape),
        .v = clattn_tensor_host(v, CLATTN_F32, 4, shape),
        .o = clattn_tensor_host(o, CLATTN_F32, 4, shape),
        .keep = clattn_tensor_host(keep, CLATTN_BOOL, 2, mask_shape),
        .key_lengths = lengths,
        .causal = true,
        .has_window = true,
        .window_left = WINDOW,
        .window_right = CLATTN_UNLIMITED,
    };
    clattn_status status = clattn_context_create(NULL, NULL, &context);
    if (status == CLATTN_OK)
        status = clattn_attention(context, &args);
    if (status != CLATTN_OK)
        fprintf(stderr, "%s: %s\n", clattn_status_name(status), clattn_last_error());
    clattn_context_destroy(context);
    if (status != CLATTN_OK)
        return 1;

    double worst = 0;
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < TOKENS; i++)
                worst = fmax(worst, difference(b, h, i));
    printf("keys that query 5 of the first sentence sees:");
    for (int j = 0; j < TOKENS; j++)
        if (sees(0, 5, j))
            printf(" %d", j);
    printf("\nlargest difference to plain loops: %.1e\n", worst);
    return worst <= 1e-6 ? 0 : 1;
}
