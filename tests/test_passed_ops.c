/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of what operations call, on an OpenCL device that is asked for buffers alone. */
#include "oclgrind_ops.h"
#include "ops/gemm_sets.h"
#include "ops/scores_backward.h"
#include "ops/softmax.h"
#include "passed_on.h"

/* ---- rows, elements, tokens and caches in buffers ---- */

static size_t problem;
static clattn_status run_problem(clattn_context *context) { return ops_run(context, problem, true); }

Test(passed_ops, failures_of_what_they_call_are_those_of_operations) {
    clattn_context *context = op_open("opencl");
    for (problem = 0; ops_name(problem); problem++)
        if (strcmp(ops_name(problem), "column sums") != 0 && strcmp(ops_name(problem), "merge") != 0)
            sweep(ops_name(problem), context, run_problem);
    clattn_context_destroy(context);
}

/* ---- others, of host arrays ---- */

static clattn_status place_rows(clattn_context *context) {
    return clattn_positions(context, &(clattn_positions_args){.y = mat(0, 4, 6)});
}
static clattn_status draw(clattn_context *context) {
    return clattn_random(context, &(clattn_random_args){.y = mat(0, 4, 6)});
}
static clattn_status turn_by_tables(clattn_context *context) {
    return clattn_rotary(context, &(clattn_rotary_args){.x = four(0, 2, 1, 3, 4),
                                                        .y = four(1, 2, 1, 3, 4),
                                                        .cos = mat(2, 5, 2),
                                                        .sin = mat(3, 5, 2),
                                                        .positions = (const int64_t[]){0, 1, 2, 2, 3, 4}});
}
static clattn_status turn_by_angles(clattn_context *context) {
    return clattn_rotary(
        context,
        &(clattn_rotary_args){.x = four(0, 2, 1, 3, 4), .y = four(1, 2, 1, 3, 4), .offsets = (const int64_t[]){0, 7}});
}
/* In pages, rotated by angles or by tables, beside values in blocks. */
static clattn_status append_rows(clattn_context *context, bool tables) {
    const clattn_tensor none = {0};
    const clattn_cache_append_args args = {.k = four(0, 2, 1, 2, 32),
                                           .v = four(1, 2, 1, 2, 32),
                                           .k_cache = four(2, 2, 1, 3, 32),
                                           .v_cache = as_type(four(3, 2, 1, 3, 32), CLATTN_Q8_0),
                                           .cache_lengths = (const int64_t[]){1, 0},
                                           .block_table = (const int32_t[]){1, 0},
                                           .table_pages = 1,
                                           .rotate = true,
                                           .q = four(4, 2, 3, 2, 32),
                                           .cos = tables ? mat(5, 5, 16) : none,
                                           .sin = tables ? mat(6, 5, 16) : none};
    return clattn_cache_append(context, &args);
}
static clattn_status append_by_tables(clattn_context *context) { return append_rows(context, true); }
static clattn_status append_by_angles(clattn_context *context) { return append_rows(context, false); }

static clattn_status lose(clattn_context *context) {
    return clattn_cross_entropy(
        context, &(clattn_cross_entropy_args){
                     .logits = mat(0, 3, 4), .targets = ids(3), .loss = vec(1, 1), .d_logits = mat(2, 3, 4)});
}
/* So many rows that they are summed in blocks. */
static clattn_status sum_rows(clattn_context *context) {
    return clattn_sum(context, &(clattn_sum_args){.x = mat(0, 300, 3), .y = vec(1, 3)});
}

static clattn_status make_softmax(clattn_context *context) {
    cla_softmax softmax = {.rows = NULL};
    clattn_status status = CLATTN_OK;
    for (int way = 0; way < 4 && status == CLATTN_OK; way++) {
        const cla_softmax_key key = {
            .dtype = CLATTN_F32, .keys = way & 1 ? 100 : 2000, .drops = way & 1, .backward = way & 2};
        status = cla_softmax_create(context, &key, &softmax);
        cla_softmax_destroy(&softmax);
    }
    return status;
}
static clattn_status make_scores(clattn_context *context) {
    cla_scores scores = {.sums = NULL};
    const cla_scores_key key = {.dtype = CLATTN_F32, .keys = 100, .bias = true, .rest = true};
    const clattn_status status = cla_scores_create(context, &key, &scores);
    cla_scores_destroy(&scores);
    return status;
}

/* ---- linear layers ---- */

/* x of another type and w turned, so that both are copied; in blocks of rows where the context bounds launches. */
static clattn_status linear(clattn_context *context, const char *algorithm, bool copied, bool gated) {
    clattn_linear_args a = {.x = mat(0, 130, 4),
                            .w = mat(1, 6, 4),
                            .bias = vec(2, 6),
                            .y = mat(3, 130, gated ? 3 : 6),
                            .activation = CLATTN_ACTIVATION_RELU,
                            .gated = gated,
                            .algorithm = algorithm};
    if (copied) {
        a.x.dtype = CLATTN_F16;
        a.w.stride[0] = 2, a.w.stride[1] = 3;
        a.y.stride[0] = 7, a.y.stride[1] = 1;
        a.y.dtype = CLATTN_F16;
    }
    return clattn_linear(context, &a);
}
static clattn_status by_linear(clattn_context *context) { return linear(context, "linear", true, false); }
static clattn_status by_gemv(clattn_context *context) {
    clattn_linear_args a = {.x = as_type(mat(0, 3, 4), CLATTN_F16), .w = mat(1, 6, 4), .y = mat(2, 3, 6)};
    a.algorithm = "gemv";
    return clattn_linear(context, &a);
}
static clattn_status by_clblast(clattn_context *context) { return linear(context, "clblast", false, false); }
static clattn_status by_clblast_copied(clattn_context *context) { return linear(context, "clblast", true, false); }
static clattn_status by_clblast_gated(clattn_context *context) { return linear(context, "clblast", false, true); }
static clattn_status by_clblast_of_no_terms(clattn_context *context) {
    return clattn_linear(context, &(clattn_linear_args){
                                      .x = mat(0, 3, 0), .w = mat(1, 6, 0), .y = mat(2, 3, 6), .algorithm = "clblast"});
}

/* Rows that lie in two axes no step joins, with an activation, added to what is there. */
static clattn_status linear_back(clattn_context *context) {
    clattn_linear_backward_args a = {.x = cube(0, 2, 3, 4),
                                     .w = mat(1, 6, 4),
                                     .z = cube(2, 2, 3, 6),
                                     .d_y = cube(3, 2, 3, 6),
                                     .d_x = cube(4, 2, 3, 4),
                                     .d_w = mat(5, 6, 4),
                                     .d_bias = vec(6, 6),
                                     .activation = CLATTN_ACTIVATION_GELU,
                                     .accumulate = true};
    a.x.stride[0] = 50;
    return clattn_linear_backward(context, &a);
}

Test(passed_ops, failures_of_what_they_call_are_those_of_host_arrays) {
    static const struct {
        const char *name;
        clattn_status (*run)(clattn_context *context);
    } runs[] = {{"CLBlast", by_clblast},
                {"CLBlast of copies", by_clblast_copied},
                {"CLBlast, gated", by_clblast_gated},
                {"CLBlast of no terms", by_clblast_of_no_terms},
                {"linear", by_linear},
                {"gemv", by_gemv},
                {"linear backward", linear_back},
                {"positions", place_rows},
                {"random numbers", draw},
                {"rotary embedding by tables", turn_by_tables},
                {"rotary embedding by angles", turn_by_angles},
                {"cache by tables", append_by_tables},
                {"cache by angles", append_by_angles},
                {"cross-entropy", lose},
                {"sum", sum_rows},
                {"softmax of scores", make_softmax},
                {"gradients of scores", make_scores}};
    clattn_context *context = op_open("opencl");
    context->info.device_class = CLATTN_DEVICE_CPU;
    context->launch_seconds = 1e-12; /* products in pieces */
    fill_slots();
    cla_gemm_set_for(context, CLATTN_F32); /* reads the tuner's record, without which products would go on */
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        sweep(runs[i].name, context, runs[i].run);
    context->info.device_class = CLATTN_DEVICE_GPU; /* other groups */
    sweep("softmax of scores", context, make_softmax);
    clattn_context_destroy(context);
}

/* What the plain loops take: f64, since no layer is of the array's type then. */
static clattn_status by_blas(clattn_context *context) { return linear(context, "blas", true, false); }
static clattn_status norm_of_many(clattn_context *context) {
    const clattn_tensor two[] = {mat(0, 3, 4), vec(1, 5)};
    return clattn_gradient_norm(context, &(clattn_gradient_norm_args){.gradients = two, .count = 2, .norm = vec(2, 1)});
}
static clattn_status embed_back(clattn_context *context) {
    return clattn_embed_backward(
        context, &(clattn_embed_backward_args){.ids = ids(3), .d_y = mat(0, 3, 4), .d_table = mat(1, 5, 4)});
}
static clattn_status pool_rows(clattn_context *context) {
    return clattn_pool(context, &(clattn_pool_args){.x = cube(0, 2, 3, 4), .y = mat(1, 2, 4)});
}

Test(passed_ops, failures_of_what_they_call_are_those_of_plain_loops) {
    static const struct {
        const char *name;
        clattn_status (*run)(clattn_context *context);
    } runs[] = {{"BLAS", by_blas},
                {"norm of gradients", norm_of_many},
                {"embeddings backward", embed_back},
                {"pool", pool_rows},
                {"cross-entropy", lose},
                {"positions", place_rows},
                {"linear backward", linear_back},
                {"rotary embedding by tables", turn_by_tables}};
    clattn_context *context = op_open("cpu");
    fill_slots();
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        sweep(runs[i].name, context, runs[i].run);
    clattn_context_destroy(context);
}
