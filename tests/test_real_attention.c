/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on what a language model really computes: grouped heads of SmolLM2, layers 0, 15 and 29, after rotation. */
#include "testing.h"

#include <clattn/attention.h>
#include <clattn/io.h>
#include <math.h>
#include <stdio.h>

enum { H = 9, HK = 3, N = 11, D = 64 };
static const double allowed = 1e-5; /* of design models.md: the reference is f32 */

static clattn_array read_part(char part, int layer) {
    char spec[400];
    clattn_array a;
    snprintf(spec, sizeof spec, TESTS_DIR "/vectors/smollm2.safetensors:prompt2_attention/%c%d", part, layer);
    SUCCEEDS(clattn_array_load(spec, &a));
    return a;
}

static void check_layer(clattn_context *context, int layer) {
    static const char parts[] = "qkvo";
    clattn_array a[4];
    float o[N * H * D];
    for (int i = 0; i < 4; i++)
        a[i] = read_part(parts[i], layer);
    cr_assert(a[0].shape[0] == H && a[1].shape[0] == HK && a[3].shape[0] == N && a[3].shape[1] == H * D);
    const clattn_tensor rows = clattn_tensor_host(o, CLATTN_F32, 2, (const int64_t[]){N, H * D});
    const clattn_attention_args args = {
        .q = clattn_array_tensor(&a[0]),
        .k = clattn_array_tensor(&a[1]),
        .v = clattn_array_tensor(&a[2]),
        .o = clattn_tensor_permute(clattn_tensor_split(rows, 1, H), (const int[]){1, 0, 2}),
        .causal = true,
    };
    SUCCEEDS(clattn_attention(context, &args));
    double worst = 0;
    for (int i = 0; i < N * H * D; i++) {
        const double d = fabs((double)o[i] - (double)((const float *)a[3].data)[i]);
        worst = d <= worst ? worst : d;
    }
    cr_expect_leq(worst, allowed, "layer %d: %g", layer, worst);
    for (int i = 0; i < 4; i++)
        clattn_array_free(&a[i]);
}

static void check_device(const char *device) {
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create(device, NULL, &context));
    check_layer(context, 0);
    check_layer(context, 15);
    check_layer(context, 29);
    clattn_context_destroy(context);
}

Test(real_attention, of_smollm2_on_the_device) { check_device(NULL); }
Test(real_attention, of_smollm2_on_cpu) { check_device("cpu"); }
