/* SPDX-License-Identifier: Apache-2.0 */
/* A plan: made once, executed often on buffers that stay on the device. Queries come block by block, as in a model
 * that reads a long text; keys and values are uploaded once. The last block is compared with one call on the CPU. */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>

enum { HEADS = 4, BLOCK = 16, BLOCKS = 8, KEYS = BLOCK * BLOCKS, DIM = 32 };
enum { BLOCK_BYTES = HEADS * BLOCK * DIM * (int)sizeof(float), KEY_BYTES = HEADS * KEYS * DIM * (int)sizeof(float) };

static float q[BLOCKS][HEADS][BLOCK][DIM], k[HEADS][KEYS][DIM], v[HEADS][KEYS][DIM];
static float o[HEADS][BLOCK][DIM], expected[HEADS][BLOCK][DIM];

static const int64_t block_shape[] = {HEADS, BLOCK, DIM}, key_shape[] = {HEADS, KEYS, DIM};

static void fill(float *x, int count, int seed) {
    for (int i = 0; i < count; i++)
        x[i] = sinf((float)(seed * 1000 + i));
}

/* Every block through one plan; o holds the last block's result. */
static clattn_status run_blocks(clattn_context *context, clattn_buffer *const *buffers, clattn_plan **plan) {
    const clattn_attention_args args = {
        .q = clattn_tensor_buffer(buffers[0], CLATTN_F32, 3, block_shape),
        .k = clattn_tensor_buffer(buffers[1], CLATTN_F32, 3, key_shape),
        .v = clattn_tensor_buffer(buffers[2], CLATTN_F32, 3, key_shape),
        .o = clattn_tensor_buffer(buffers[3], CLATTN_F32, 3, block_shape),
    };
    clattn_status status = clattn_buffer_upload(buffers[1], 0, k, KEY_BYTES);
    if (status == CLATTN_OK)
        status = clattn_buffer_upload(buffers[2], 0, v, KEY_BYTES);
    if (status == CLATTN_OK)
        status = clattn_plan_create(context, &args, plan); /* chooses, builds kernels, allocates */
    if (status == CLATTN_OK)
        printf("%s", clattn_plan_explain(*plan));
    for (int i = 0; i < BLOCKS && status == CLATTN_OK; i++) {
        status = clattn_buffer_upload(buffers[0], 0, q[i], BLOCK_BYTES);
        if (status == CLATTN_OK)
            status = clattn_plan_execute(*plan, NULL); /* enqueues and returns */
    }
    if (status == CLATTN_OK)
        status = clattn_buffer_download(buffers[3], 0, o, BLOCK_BYTES); /* waits */
    return status;
}

static clattn_status run_on_cpu(void) {
    clattn_context *cpu = NULL;
    const clattn_attention_args args = {
        .q = clattn_tensor_host(q[BLOCKS - 1], CLATTN_F32, 3, block_shape),
        .k = clattn_tensor_host(k, CLATTN_F32, 3, key_shape),
        .v = clattn_tensor_host(v, CLATTN_F32, 3, key_shape),
        .o = clattn_tensor_host(expected, CLATTN_F32, 3, block_shape),
    };
    clattn_status status = clattn_context_create("cpu", NULL, &cpu);
    if (status == CLATTN_OK)
        status = clattn_attention(cpu, &args);
    clattn_context_destroy(cpu);
    return status;
}

int main(void) {
    const size_t bytes[] = {BLOCK_BYTES, KEY_BYTES, KEY_BYTES, BLOCK_BYTES};
    clattn_context *context = NULL;
    clattn_buffer *buffers[4] = {NULL};
    clattn_plan *plan = NULL;
    fill(&q[0][0][0][0], BLOCKS * HEADS * BLOCK * DIM, 1);
    fill(&k[0][0][0], HEADS * KEYS * DIM, 2);
    fill(&v[0][0][0], HEADS * KEYS * DIM, 3);

    clattn_status status = clattn_context_create(NULL, NULL, &context);
    for (int i = 0; i < 4 && status == CLATTN_OK; i++)
        status = clattn_buffer_create(context, bytes[i], &buffers[i]);
    if (status == CLATTN_OK)
        status = run_blocks(context, buffers, &plan);
    if (status == CLATTN_OK)
        status = run_on_cpu();
    if (status != CLATTN_OK)
        fprintf(stderr, "%s: %s\n", clattn_status_name(status), clattn_last_error());
    clattn_plan_destroy(plan); /* before its buffers and context */
    for (int i = 0; i < 4; i++)
        clattn_buffer_destroy(buffers[i]);
    clattn_context_destroy(context);
    if (status != CLATTN_OK)
        return 1;

    float worst = 0;
    for (int i = 0; i < HEADS * BLOCK * DIM; i++)
        worst = fmaxf(worst, fabsf((&o[0][0][0])[i] - (&expected[0][0][0])[i]));
    printf("the last of %d blocks differs from the CPU by %g\n", BLOCKS, (double)worst);
    return worst <= 1e-5f ? 0 : 1;
}
