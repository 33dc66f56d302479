/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of `fused_tiles`: problems of several tiles, in which options meet the edges of tiles; NaN inside
 * the tiles that masks cut; the same bits in each run. PoCL takes seconds for a kernel, so that tests share few: a
 * context is told that its device is a GPU with small work-groups. */
#include "attention/tiles_key.h"
#include "oracle.h"
#include "runtime/state.h"
#include "testing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "fused_tiles";

static clattn_context *open_device(void) {
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("there is no OpenCL device");
    return context;
}

static clattn_context *open_gpu(void) {
    clattn_context *context = open_device();
    context->info.device_class = CLATTN_DEVICE_GPU;
    context->info.unified_memory = false;
    context->info.local_bytes = 32768;
    context->info.max_work_group = 16;
    snprintf(context->info.vendor, sizeof context->info.vendor, "someone");
    return context;
}

static void check(clattn_context *context, const oracle_config *config) {
    char text[ORACLE_TEXT] = "";
    oracle_case *c = oracle_make(config);
    oracle_backward *g = oracle_backward_make(c);
    cr_expect(oracle_backward_exact(g, text) && oracle_backward_run(g, context, name, name, text) &&
                  oracle_backward_compare(g, name, text),
              "%s", text);
    oracle_backward_free(g);
    oracle_free(c);
}

static void check_all(clattn_context *context, const oracle_config *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        check(context, &list[i]);
    fprintf(stderr, "backward of fused_tiles: %zu cases, %zu builds\n", count, context->builds);
    clattn_context_destroy(context);
}
#define CHECK_ALL(context, list) check_all(context, list, sizeof list / sizeof *list)

/* ---- results ---- */

Test(backward_tiles, whole_fours_without_masks, .timeout = 600) {
    const oracle_config list[] = {{.N = 51, .M = 67, .D = 40, .Dv = 24, .guard = 16},
                                  {.B = 2, .H = 4, .N = 33, .M = 32, .D = 64, .layout = ORACLE_BSHD, .guard = 16},
                                  {.H = 6, .Hk = 3, .N = 1, .M = 40, .D = 20, .guard = 16},
                                  {.H = 2, .N = 40, .M = 1, .D = 8, .Dv = 60, .guard = 16}};
    CHECK_ALL(open_gpu(), list);
}

Test(backward_tiles, whole_fours_in_intervals, .timeout = 600) {
    const oracle_config list[] = {
        {.H = 4, .Hk = 2, .N = 40, .M = 70, .D = 20, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .guard = 16},
        {.H = 2, .N = 40, .M = 70, .D = 20, .causal = true, .align = CLATTN_ALIGN_TOP_LEFT, .guard = 16},
        {.B = 2,
         .N = 70,
         .D = 16,
         .causal = true,
         .has_window = true,
         .window_left = 30,
         .window_right = 9,
         .lengths = true,
         .query_lengths = true,
         .align = CLATTN_ALIGN_TOP_LEFT,
         .guard = 16},
        {.B = 3,
         .H = 2,
         .N = 30,
         .M = 50,
         .D = 24,
         .causal = true,
         .prefix = true,
         .lengths = true,
         .sinks = true,
         .align = CLATTN_ALIGN_OFFSET,
         .guard = 16},
        {.B = 4, .H = 2, .Hk = 1, .N = 40, .M = 50, .D = 12, .sequences = true, .buffers = true, .guard = 16}};
    CHECK_ALL(open_gpu(), list);
}

static const oracle_config any[] = {
    {.B = 2, .H = 4, .Hk = 2, .N = 40, .M = 50, .D = 32, .keep = {4, 11}, .bias = {2, 3}, .softcap = 3, .sinks = true},
    {.B = 2, .H = 2, .N = 30, .M = 50, .D = 13, .bias = {4, 9}, .alibi = true, .align = CLATTN_ALIGN_TOP_LEFT},
    {.B = 2, .H = 2, .N = 50, .M = 30, .D = 16, .bias = {3, 6}, .segments = true, .sinks = true},
    {.B = 4, .H = 2, .Hk = 1, .N = 40, .M = 50, .D = 9, .sequences = true, .buffers = true, .guard = 7},
    {.H = 2, .N = 40, .D = 70, .Dv = 5, .bias = {4, 6}, .causal = true, .align = CLATTN_ALIGN_TOP_LEFT},
    {.H = 2,
     .N = 30,
     .M = 40,
     .D = 32,
     .typed = true,
     .bias = {4, 15},
     .q_type = CLATTN_F16,
     .k_type = CLATTN_BF16,
     .v_type = CLATTN_F16,
     .bias_type = CLATTN_BF16,
     .o_type = CLATTN_F32},
    {.H = 2, .N = 20, .M = 40, .D = 64, .typed = true, .k_type = CLATTN_Q8_0, .v_type = CLATTN_Q4_0}};

Test(backward_tiles, score_masks_and_any_storage, .timeout = 600) { CHECK_ALL(open_device(), any); }
Test(backward_tiles, score_masks_and_any_storage_on_gpus, .timeout = 600) { CHECK_ALL(open_gpu(), any); }

Test(backward_tiles, score_masks_and_any_storage_in_f64, .timeout = 600) {
    clattn_context *context = open_device();
    if (context->info.has_f64)
        for (size_t i = 0; i < sizeof any / sizeof *any; i++) {
            oracle_config c = any[i];
            c.dtype = CLATTN_F64;
            c.q_type = c.typed ? CLATTN_F64 : c.q_type;
            check(context, &c);
        }
    clattn_context_destroy(context);
}

Test(backward_tiles, dropout, .timeout = 600) {
    const oracle_config list[] = {{.H = 2, .N = 50, .M = 40, .D = 16, .bias = {4, 4}, .drop = {2, 3}, .dropout = 0.3},
                                  {.B = 2,
                                   .H = 4,
                                   .Hk = 2,
                                   .N = 30,
                                   .M = 50,
                                   .D = 24,
                                   .dropout = 0.1,
                                   .causal = true,
                                   .align = CLATTN_ALIGN_TOP_LEFT,
                                   .sinks = true}};
    CHECK_ALL(open_device(), list);
}

/* Inputs so large that weights are peaked: S needs the bits of the forward pass, whose slices of dims these are. */
Test(backward_tiles, peaked_weights_are_the_forward_pass_s, .timeout = 600) {
    const oracle_config list[] = {{.H = 2, .N = 60, .M = 60, .D = 64, .has_scale = true, .scale = 1.2, .guard = 16},
                                  {.H = 2, .N = 60, .M = 60, .D = 64, .has_scale = true, .scale = 12, .guard = 16},
                                  {.H = 2, .N = 60, .M = 60, .D = 72, .has_scale = true, .scale = 12, .guard = 16}};
    CHECK_ALL(open_gpu(), list);
}

/* ---- bits ---- */

Test(backward_tiles, each_run_has_the_same_bits, .timeout = 600) {
    clattn_context *context = open_gpu();
    const oracle_config config = {.H = 3, .Hk = 1, .N = 50, .M = 70, .D = 24, .guard = 16};
    const int64_t count[] = {3 * 50 * 24, 70 * 24, 70 * 24};
    char text[ORACLE_TEXT] = "";
    double *kept[3];
    oracle_case *c = oracle_make(&config);
    oracle_backward *g = oracle_backward_make(c);
    cr_assert(oracle_backward_run(g, context, name, name, text), "%s", text);
    for (int i = 0; i < 3; i++) {
        kept[i] = malloc((size_t)count[i] * sizeof(double));
        memcpy(kept[i], g->got.of[i], (size_t)count[i] * sizeof(double));
    }
    for (int run = 0; run < 3; run++) {
        cr_assert(oracle_backward_run(g, context, name, name, text), "%s", text);
        for (int i = 0; i < 3; i++)
            cr_expect_arr_eq(g->got.of[i], kept[i], (size_t)count[i] * sizeof(double), "gradient %d", i);
    }
    for (int i = 0; i < 3; i++)
        free(kept[i]);
    oracle_backward_free(g);
    oracle_free(c);
    clattn_context_destroy(context);
}

Test(backward_tiles, a_query_with_one_key_has_a_gradient_of_exactly_0, .timeout = 600) {
    clattn_context *context = open_gpu();
    const oracle_config config = {
        .H = 2, .N = 40, .D = 40, .causal = true, .align = CLATTN_ALIGN_TOP_LEFT, .guard = 16};
    char text[ORACLE_TEXT] = "";
    oracle_case *c = oracle_make(&config);
    oracle_backward *g = oracle_backward_make(c);
    cr_assert(oracle_backward_run(g, context, name, name, text), "%s", text);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t d = 0; d < 40; d++)
            cr_expect_eq(g->got.of[ORACLE_DQ][h * 40 * 40 + d], 0);
    oracle_backward_free(g);
    oracle_free(c);
    clattn_context_destroy(context);
}

/* ---- tiles ---- */

/* Tiles that the kernels can take, in the room that they say, however wide results are. */
Test(backward_tiles, every_device_has_tiles_for_every_width) {
    static const struct {
        const char *vendor, *name;
        uint64_t local_bytes, work_group;
    } devices[] = {{"NVIDIA Corporation", "a GPU", 49152, 1024},  {"AMD", "gfx90a", 65536, 256},
                   {"Intel(R) Corporation", "a GPU", 65536, 512}, {"someone", "a GPU", 32768, 256},
                   {"someone", "a small GPU", 16384, 64},         {"someone", "a smaller GPU", 8192, 16}};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        for (int wide = 0; wide < 8; wide++)
            for (int64_t columns = 1; columns < 700; columns++) {
                clattn_device_info d = {.device_class = CLATTN_DEVICE_GPU,
                                        .local_bytes = devices[i].local_bytes,
                                        .max_work_group = devices[i].work_group,
                                        .unified_memory = wide & 2};
                const clattn_dtype dtype = wide % 2 ? CLATTN_F64 : CLATTN_F32;
                const cla_tiles_problem p = {.dtype = dtype, .lean = wide & 4, .D = columns, .Dv = columns};
                cla_tiling forward, t;
                snprintf(d.vendor, sizeof d.vendor, "%s", devices[i].vendor);
                snprintf(d.name, sizeof d.name, "%s", devices[i].name);
                cr_assert(cla_tiles_choose(&d, &p, 0, &forward));
                for (int rank = 0; cla_tiles_choose_backward(&d, &p, &forward.tile, columns, rank, &t) || rank == 0;
                     rank++) {
                    const cla_tile *x = &t.tile;
                    const int wg = t.work_group, step = wg / (x->dc / 4);
                    cr_assert(x->dc == forward.tile.dc && x->sliced == forward.tile.sliced);
                    cr_assert(wg == x->tr * x->tc && wg <= (int)d.max_work_group && wg % (x->dc / 4) == 0);
                    cr_assert(t.local_bytes <= (int64_t)d.local_bytes && t.local_bytes <= 32768);
                    cr_assert(t.rows % step == 0 && t.keys % step == 0 && x->tr % 4 == 0 && t.rows % 4 == 0);
                    cr_assert(x->tr <= x->jc && 4 * x->tc % x->jc == 0 && x->jc * x->tc * x->nv % wg == 0);
                    cr_assert(t.columns % 4 == 0 && t.columns <= 4 * x->tc * x->nv);
                    cr_assert((int64_t)t.columns * t.chunks >= columns && t.columns * (t.chunks - 1) < columns);
                }
            }
}
