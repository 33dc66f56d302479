/* SPDX-License-Identifier: Apache-2.0 */
/* Structs passed to kernels by value have the same size and offsets on each device as in C. */
#include "args.h"
#include "base/str.h"
#include "runtime/program.h"
#include "testing.h"
#include <CL/cl.h>
#include <clattn/context.h>
#include <clattn/opencl.h>
#include <stddef.h>

typedef struct {
    const char *type, *field;
    size_t offset, size; /* of the struct where field is NULL */
} entry;

#define STRUCT(type)                                                                                                   \
    { #type, NULL, 0, sizeof(type) }
#define FIELD(type, field)                                                                                             \
    { #type, #field, offsetof(type, field), sizeof(((type *)NULL)->field) }
#define FIELD4(type, a, b, c, d) FIELD(type, a), FIELD(type, b), FIELD(type, c), FIELD(type, d)
#define FIELD5(type, a, b, c, d, e) FIELD4(type, a, b, c, d), FIELD(type, e)

static const entry entries[] = {
    STRUCT(cla_span),
    FIELD(cla_span, q_row),
    FIELD(cla_span, k_row),
    FIELD4(cla_span, keys, queries, offset, prefix),
    STRUCT(cla_mask_args),
    FIELD5(cla_mask_args, keep_b, keep_h, keep_i, keep_j, keep_0),
    FIELD5(cla_mask_args, drop_b, drop_h, drop_i, drop_j, drop_0),
    FIELD5(cla_mask_args, bias_b, bias_h, bias_i, bias_j, bias_0),
    FIELD5(cla_mask_args, left, right, sinks_0, softcap_bits, N),
    FIELD5(cla_mask_args, M, causal, windowed, has_keep, has_drop),
    FIELD5(cla_mask_args, has_bias, bias_type, has_slopes, has_segments, has_sinks),
    FIELD(cla_mask_args, softcap),
    STRUCT(cla_attention_args),
    FIELD4(cla_attention_args, q_b, q_h, q_i, q_0),
    FIELD4(cla_attention_args, k_b, k_h, k_j, k_0),
    FIELD4(cla_attention_args, v_b, v_h, v_j, v_0),
    FIELD4(cla_attention_args, o_b, o_h, o_i, o_0),
    FIELD4(cla_attention_args, lse_b, lse_h, lse_i, lse_0),
    FIELD4(cla_attention_args, st_b, st_h, st_i, st_0),
    FIELD5(cla_attention_args, k_page, v_page, mask, scale_bits, part_0),
    FIELD5(cla_attention_args, added_0, added_b, dropout_key, kept_bits, N),
    FIELD(cla_attention_args, M),
    FIELD(cla_attention_args, D),
    FIELD(cla_attention_args, Dv),
    FIELD(cla_attention_args, H),
    FIELD5(cla_attention_args, group, rows, tiles, columns, chunks),
    FIELD5(cla_attention_args, long_first, has_lse, ragged, q_type, k_type),
    FIELD4(cla_attention_args, v_type, o_type, page_size, pages),
    FIELD5(cla_attention_args, splits, split_keys, part, scale, has_counts),
    FIELD4(cla_attention_args, has_state, dropout_bound, kept, pad),
    STRUCT(cla_lanes_inputs),
    FIELD5(cla_lanes_inputs, forward, g_b, g_h, g_i, g_0),
    FIELD5(cla_lanes_inputs, del_b, del_h, del_0, room, room_0),
    FIELD(cla_lanes_inputs, g_type),
    FIELD(cla_lanes_inputs, B),
    STRUCT(cla_lanes_backward_args),
    FIELD5(cla_lanes_backward_args, in, dk_b, dk_h, dk_j, dk_0),
    FIELD4(cla_lanes_backward_args, dv_b, dv_h, dv_j, dv_0),
    FIELD5(cla_lanes_backward_args, sums_s, sums_b, sums_h, sums_i, sums_0),
    FIELD4(cla_lanes_backward_args, splits, wanted, dk_type, dv_type),
    STRUCT(cla_tiles_backward_args),
    FIELD5(cla_tiles_backward_args, in, x_b, x_h, x_i, x_0),
    FIELD4(cla_tiles_backward_args, y_b, y_h, y_i, y_0),
    FIELD4(cla_tiles_backward_args, x_type, y_type, wanted, pad),
    STRUCT(cla_lanes_result_args),
    FIELD4(cla_lanes_result_args, dq_b, dq_h, dq_i, dq_0),
    FIELD4(cla_lanes_result_args, sinks_h, sinks_0, dq_type, sinks_type),
    STRUCT(cla_lanes_bias_args),
    FIELD5(cla_lanes_bias_args, in, db_b, db_h, db_i, db_j),
    FIELD5(cla_lanes_bias_args, db_0, db_part, batches, heads, rows),
    FIELD5(cla_lanes_bias_args, columns, parts_b, parts_h, parts_i, parts_j),
    FIELD(cla_lanes_bias_args, db_type),
    FIELD(cla_lanes_bias_args, pad),
    STRUCT(cla_softmax_args),
    FIELD4(cla_softmax_args, s_b, s_h, s_i, s_0),
    FIELD5(cla_softmax_args, w_b, w_h, w_i, w_j, w_0),
    FIELD4(cla_softmax_args, lse_b, lse_h, lse_i, lse_0),
    FIELD4(cla_softmax_args, st_b, st_h, st_i, st_0),
    FIELD(cla_softmax_args, sum_0),
    FIELD5(cla_softmax_args, mask, scale_bits, b0, h0, i0),
    FIELD5(cla_softmax_args, H, N, M, has_weights, has_lse),
    FIELD4(cla_softmax_args, form, paged, scale, power),
    FIELD(cla_softmax_args, has_state),
    FIELD(cla_softmax_args, pad),
    STRUCT(cla_drop_args),
    FIELD5(cla_drop_args, x_0, key, kept_bits, b0, h0),
    FIELD5(cla_drop_args, i0, B, H, N, M),
    FIELD(cla_drop_args, quads),
    FIELD(cla_drop_args, bound),
    FIELD(cla_drop_args, kept),
    STRUCT(cla_scores_args),
    FIELD5(cla_scores_args, s_0, g_0, row_0, mask, scale_bits),
    FIELD5(cla_scores_args, b0, h0, i0, B, H),
    FIELD5(cla_scores_args, N, M, by_scores, scale, pad),
    STRUCT(cla_scores_sum_args),
    FIELD5(cla_scores_sum_args, y_b, y_h, y_i, y_j, y_0),
    FIELD4(cla_scores_sum_args, batches, heads, rows, columns),
    FIELD(cla_scores_sum_args, of_sinks),
    FIELD(cla_scores_sum_args, pad),
    STRUCT(cla_special_args),
    FIELD4(cla_special_args, x_b, x_h, x_i, x_0),
    FIELD4(cla_special_args, y_b, y_h, y_i, y_0),
    FIELD5(cla_special_args, c_0, w_0, pairs, c_x, c_y),
    FIELD5(cla_special_args, flag_0, B, H, N, columns),
    FIELD4(cla_special_args, X, blocks, share, members),
    STRUCT(cla_weights_args),
    FIELD4(cla_weights_args, q_b, q_h, q_i, q_0),
    FIELD5(cla_weights_args, k_b, k_h, k_j, k_0, k_page),
    FIELD5(cla_weights_args, w_b, w_h, w_i, w_j, w_0),
    FIELD4(cla_weights_args, c_b, c_h, c_j, c_0),
    FIELD4(cla_weights_args, e_b, e_h, e_i, e_0),
    FIELD4(cla_weights_args, sum_0, part_0, mask, scale_bits),
    FIELD(cla_weights_args, B),
    FIELD(cla_weights_args, H),
    FIELD(cla_weights_args, group),
    FIELD5(cla_weights_args, N, M, D, heads, queries),
    FIELD4(cla_weights_args, has_heads, has_queries, form, mean),
    FIELD5(cla_weights_args, interval, ragged, paged, row_tiles, key_tiles),
    FIELD5(cla_weights_args, chunks, chunk_tiles, has_entropy, q_type, k_type),
    FIELD4(cla_weights_args, page_size, pages, scale, pad),
    STRUCT(cla_peak_args),
    FIELD4(cla_peak_args, steps, pad, factor, addend),
    STRUCT(cla_values_args),
    FIELD4(cla_values_args, v_b, v_h, v_j, v_0),
    FIELD(cla_values_args, y_0),
    FIELD(cla_values_args, flag_0),
    FIELD4(cla_values_args, H, M, columns, blocks),
    STRUCT(cla_outputs_args),
    FIELD5(cla_outputs_args, s_0, v_b, v_h, v_j, v_0),
    FIELD4(cla_outputs_args, o_b, o_h, o_i, o_0),
    FIELD(cla_outputs_args, sum_0),
    FIELD(cla_outputs_args, flag_0),
    FIELD4(cla_outputs_args, B, H, N, M),
    FIELD4(cla_outputs_args, Hk, group, columns, blocks),
    STRUCT(cla_rotary_args),
    FIELD5(cla_rotary_args, x_b, x_h, x_i, x_d, x_0),
    FIELD5(cla_rotary_args, y_b, y_h, y_i, y_d, y_0),
    FIELD4(cla_rotary_args, cos_b, cos_i, cos_d, cos_0),
    FIELD4(cla_rotary_args, sin_b, sin_i, sin_d, sin_0),
    FIELD4(cla_rotary_args, B, H, N, D),
    FIELD4(cla_rotary_args, pairs, adjacent, has_rows, has_places),
    FIELD4(cla_rotary_args, x_type, y_type, cos_type, sin_type),
    STRUCT(cla_rotary_sets),
    FIELD(cla_rotary_sets, set),
    FIELD(cla_rotary_sets, ends),
    STRUCT(cla_merge_part),
    FIELD5(cla_merge_part, o_b, o_h, o_i, o_d, o_0),
    FIELD4(cla_merge_part, lse_b, lse_h, lse_i, lse_0),
    FIELD(cla_merge_part, o_type),
    FIELD(cla_merge_part, pad),
    STRUCT(cla_merge_args),
    FIELD5(cla_merge_args, parts, out, H, N, Dv),
    FIELD5(cla_merge_args, count, continues, last, has_lse, pad),
    STRUCT(cla_linear_args),
    FIELD5(cla_linear_args, x_0, x_s0, x_s1, x_s2, x_k),
    FIELD5(cla_linear_args, y_0, y_s0, y_s1, y_s2, y_n),
    FIELD5(cla_linear_args, w_0, w_n, w_k, b_0, b_n),
    FIELD5(cla_linear_args, M, N, K, n1, n2),
    FIELD5(cla_linear_args, rows, row_blocks, panels, act, has_bias),
    FIELD4(cla_linear_args, x_type, w_type, b_type, y_type),
    FIELD(cla_linear_args, terms),
    FIELD(cla_linear_args, gated),
    STRUCT(cla_axes),
    FIELD5(cla_axes, n, rows, outer, count, length),
    FIELD(cla_axes, pad),
    STRUCT(cla_axes_tensor),
    FIELD4(cla_axes_tensor, s, first, type, how),
    STRUCT(cla_norm_args),
    FIELD4(cla_norm_args, x, residual, weight, bias),
    FIELD5(cla_norm_args, y, sum, mean, inv_std, axes),
    FIELD5(cla_norm_args, epsilon_bits, rows, rms, epsilon, pad),
    STRUCT(cla_soft_args),
    FIELD5(cla_soft_args, x, y, axes, rows, pad),
    STRUCT(cla_point_args),
    FIELD4(cla_point_args, x, other, y, axes),
    FIELD4(cla_point_args, chunk, act, with, pad),
    STRUCT(cla_embed_args),
    FIELD5(cla_embed_args, table, ids, add, y, axes),
    FIELD4(cla_embed_args, entries, scale_bits, rows, scale),
    STRUCT(cla_sums_args),
    FIELD4(cla_sums_args, x, y, axes, y_step),
    FIELD4(cla_sums_args, block, chunks, columns, add),
    STRUCT(cla_norm_back_args),
    FIELD4(cla_norm_back_args, x, residual, weight, d_y),
    FIELD4(cla_norm_back_args, d_sum, d_x, axes, epsilon_bits),
    FIELD4(cla_norm_back_args, rows, rms, epsilon, has_terms),
    STRUCT(cla_soft_back_args),
    FIELD4(cla_soft_back_args, y, d_y, d_x, axes),
    FIELD(cla_soft_back_args, rows),
    FIELD(cla_soft_back_args, pad),
    STRUCT(cla_loss_args),
    FIELD5(cla_loss_args, logits, targets, row_losses, d_logits, axes),
    FIELD4(cla_loss_args, classes, ignore, scale_bits, smoothing_bits),
    FIELD(cla_loss_args, loss_0),
    FIELD4(cla_loss_args, has_ignore, mean, rows, loss_type),
    FIELD(cla_loss_args, scale),
    FIELD(cla_loss_args, smoothing),
    STRUCT(cla_point_back_args),
    FIELD4(cla_point_back_args, x, up, d_y, d_x),
    FIELD4(cla_point_back_args, d_up, axes, chunk, act),
    STRUCT(cla_embed_back_args),
    FIELD5(cla_embed_back_args, ids, d_y, table, axes, padding),
    FIELD4(cla_embed_back_args, scale_bits, entries, share, has_padding),
    FIELD5(cla_embed_back_args, chunks, columns, add, scale, pad),
    STRUCT(cla_step_args),
    FIELD5(cla_step_args, parameter, gradient, state1, state2, axes),
    FIELD4(cla_step_args, bits, numbers, factor_0, has_factor),
    FIELD5(cla_step_args, factor_type, first, nesterov, chunk, pad),
    STRUCT(cla_squares_args),
    FIELD5(cla_squares_args, x, axes, most_bits, norm_0, factor_0),
    FIELD4(cla_squares_args, chunk, first, count, has_norm),
    FIELD4(cla_squares_args, has_factor, norm_type, factor_type, most),
    STRUCT(cla_pool_args),
    FIELD5(cla_pool_args, x, y, axes, normalise, pad),
    STRUCT(cla_random_args),
    FIELD5(cla_random_args, y, axes, seed, stream, first),
    FIELD(cla_random_args, chunk),
    FIELD(cla_random_args, uniform),
    STRUCT(cla_copy_args),
    FIELD4(cla_copy_args, n0, n1, n2, n3),
    FIELD5(cla_copy_args, x_0, x_s0, x_s1, x_s2, x_s3),
    FIELD5(cla_copy_args, y_0, y_s0, y_s1, y_s2, y_s3),
    FIELD4(cla_copy_args, x_type, y_type, page_size, pages),
    FIELD(cla_copy_args, columns),
    FIELD(cla_copy_args, excludes),
};
enum { ENTRIES = sizeof entries / sizeof *entries };

/* Fields fill their struct without a hole, so that none is missing above and no compiler has a choice. */
Test(args, fields_fill_their_structs_widest_first) {
    size_t end = 0, last = 0, size = 0;
    for (int i = 0; i < ENTRIES; i++) {
        const entry *e = &entries[i];
        if (!e->field) {
            cr_expect_eq(end, size, "before %s", e->type);
            cr_expect_eq(e->size % 8, 0, "%s", e->type);
            cr_expect_leq(e->size, 768, "%s: all arguments have 1024 bytes on some devices", e->type);
            size = e->size;
            end = 0;
            last = SIZE_MAX;
            continue;
        }
        cr_expect_eq(e->offset, end, "%s.%s", e->type, e->field);
        cr_expect(e->size <= last || strcmp(e->field, "mask") == 0 || last > 8, "%s.%s is wider than the one before",
                  e->type, e->field);
        end = e->offset + e->size;
        last = e->size;
    }
    cr_expect_eq(end, size);
}

static void append_kernel(cla_str *s) {
    cla_str_append(s, "\n__kernel void measure(__global long *out) {\n");
    for (int i = 0; i < ENTRIES; i++)
        if (entries[i].field)
            cla_str_append(s, "    out[%d] = (__private char *)&x_%s.%s - (__private char *)&x_%s;\n", i,
                           entries[i].type, entries[i].field, entries[i].type);
        else
            cla_str_append(s, "    %s x_%s;\n    out[%d] = sizeof(%s);\n", entries[i].type, entries[i].type, i,
                           entries[i].type);
    cla_str_append(s, "}\n");
}

static cl_program build(cl_context context, cl_device_id device, const char *kernel) {
    const cla_source *args = cla_sources;
    while (args->name && strcmp(args->name, "args.h") != 0)
        args++;
    cr_assert_not_null(args->name);
    const char *texts[] = {(const char *)args->text, kernel};
    const size_t lengths[] = {args->bytes, strlen(kernel)};
    cl_int code;
    cl_program program = clCreateProgramWithSource(context, 2, texts, lengths, &code);
    cr_assert_eq(code, CL_SUCCESS);
    cr_assert_eq(clBuildProgram(program, 1, &device, "-cl-std=CL1.2", NULL, NULL), CL_SUCCESS);
    return program;
}

static void measure(const clattn_device_info *info) {
    clattn_context *context = NULL;
    clattn_buffer *buffer = NULL;
    cla_str text = {0};
    cl_long got[ENTRIES];
    cl_context cl = NULL;
    cl_device_id device = NULL;
    cl_int code;
    SUCCEEDS(clattn_context_create(info->spec, NULL, &context));
    SUCCEEDS(clattn_buffer_create(context, sizeof got, &buffer));
    cl_mem memory = clattn_buffer_opencl(buffer);
    clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof cl, &cl, NULL);
    clGetContextInfo(cl, CL_CONTEXT_DEVICES, sizeof device, &device, NULL);
    append_kernel(&text);
    cl_program program = build(cl, device, cla_str_text(&text));
    cl_kernel kernel = clCreateKernel(program, "measure", &code);
    cr_assert_eq(code, CL_SUCCESS);
    cl_command_queue queue = clCreateCommandQueue(cl, device, 0, &code);
    cr_assert_eq(code, CL_SUCCESS);
    clSetKernelArg(kernel, 0, sizeof memory, &memory);
    cr_assert_eq(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, (const size_t[]){1}, NULL, 0, NULL, NULL), CL_SUCCESS);
    cr_assert_eq(clFinish(queue), CL_SUCCESS);
    SUCCEEDS(clattn_buffer_download(buffer, 0, got, sizeof got));
    for (int i = 0; i < ENTRIES; i++)
        cr_expect_eq((size_t)got[i], entries[i].field ? entries[i].offset : entries[i].size, "%s: %s.%s: %ld",
                     info->name, entries[i].type, entries[i].field ? entries[i].field : "(size)", (long)got[i]);
    clReleaseCommandQueue(queue);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(context);
    cla_str_free(&text);
}

Test(args, sizes_and_offsets_are_the_same_on_every_device) {
    clattn_device_info devices[16];
    size_t count = 0;
    SUCCEEDS(clattn_devices(devices, 16, &count));
    for (size_t i = 0; i < count && i < 16; i++)
        if (devices[i].is_opencl && devices[i].usable)
            measure(&devices[i]);
}
