/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn check` on a case of tests/vectors in which one thing is changed: words of its text, or a tensor. It says what
 * is wrong by name, or still holds. */
#include "command.h"

#include <clattn/io.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct change {
    const char *base;      /* FILE:CASE */
    const char *from, *to; /* in its text; NULL: none */
    const char *tensor;    /* "NAME TYPE SIZE SIZE ...": zeros in its place, or one more; NULL: none */
    const char *says;      /* of the report; "1 passed" where it holds */
} change;

enum { TENSORS = 64, TEXT = 4000 };

static clattn_dtype dtype_named(const char *text) {
    for (int d = CLATTN_F32; d <= CLATTN_BOOL; d++)
        if (strcmp(clattn_dtype_name((clattn_dtype)d), text) == 0)
            return (clattn_dtype)d;
    cr_assert_fail("no type %s", text);
    return CLATTN_F32;
}

/* The tensor of a change, under its case. */
static void make_tensor(const char *text, const char *name_of_case, char *name, size_t size, clattn_array *array) {
    char words[100], *at = words;
    int64_t shape[CLATTN_MAX_RANK];
    int rank = 0;
    cr_assert(strlen(text) < sizeof words);
    snprintf(words, sizeof words, "%s", text);
    char *const blank = strchr(at, ' ');
    cr_assert(blank, "%s", text);
    *blank = '\0';
    snprintf(name, size, "%s/%s", name_of_case, at);
    at = blank + 1;
    const size_t length = strcspn(at, " ");
    char *sizes = at[length] ? at + length + 1 : at + length;
    at[length] = '\0';
    while (*sizes)
        shape[rank++] = strtoll(sizes, &sizes, 10);
    cr_assert_eq(clattn_array_create(dtype_named(at), rank, shape, array), CLATTN_OK, "%s: %s", text,
                 clattn_last_error());
}

/* The text with the change, which must be possible. */
static const char *changed_text(const char *text, const change *x) {
    static char result[2 * TEXT];
    const char *at = x->from ? strstr(text, x->from) : text;
    cr_assert(strlen(text) < TEXT && at, "%s: %s is not there: %s", x->base, x->from, text);
    snprintf(result, sizeof result, "%.*s%s%s", (int)(at - text), text, x->to ? x->to : "",
             at + (x->from ? strlen(x->from) : 0));
    return result;
}

/* The case alone in a file. */
static void write_case(const change *x) {
    static char names[TENSORS][200], path[400];
    clattn_named_array list[TENSORS];
    clattn_array added = {0};
    clattn_safetensors *file = NULL;
    clattn_safetensors_entry entry;
    size_t count = 0;
    const char *colon = strchr(x->base, ':'), *name = colon + 1;
    const size_t length = strlen(name);
    snprintf(path, sizeof path, "%s/vectors/%.*s.safetensors", TESTS_DIR, (int)(colon - x->base), x->base);
    cr_assert_eq(clattn_safetensors_open(path, &file), CLATTN_OK, "%s", clattn_last_error());
    if (x->tensor) {
        make_tensor(x->tensor, name, names[0], sizeof names[0], &added);
        list[count++] = (clattn_named_array){names[0], added};
    }
    for (size_t i = 0; clattn_safetensors_entry_at(file, i, &entry); i++)
        if (strncmp(entry.name, name, length) == 0 && entry.name[length] == '/' &&
            (!x->tensor || strcmp(entry.name, names[0]) != 0)) {
            cr_assert(count < TENSORS);
            list[count].name = entry.name;
            cr_assert_eq(clattn_safetensors_read(file, entry.name, &list[count].array), CLATTN_OK, "%s",
                         clattn_last_error());
            count++;
        }
    const char *text = clattn_safetensors_metadata(file, name);
    cr_assert(text && count > 1, "%s is not there", x->base);
    const clattn_metadata_pair metadata = {name, changed_text(text, x)};
    cr_assert_eq(clattn_safetensors_write("case.safetensors", list, count, &metadata, 1), CLATTN_OK, "%s",
                 clattn_last_error());
    for (size_t i = 0; i < count; i++)
        clattn_array_free(&list[i].array);
    clattn_safetensors_close(file);
}

static void hold(const change *changes, size_t count) {
    static command_result r;
    command_folder("cases");
    for (size_t i = 0; i < count; i++) {
        const change *x = &changes[i];
        write_case(x);
        command_run("check case.safetensors --device cpu", &r);
        const bool holds = strncmp(x->says, "1 passed", 8) == 0;
        cr_expect(r.status == (holds ? 0 : 1), "%s, %s -> %s, %s: exit status %d: %s", x->base, x->from, x->to,
                  x->tensor, r.status, r.out);
        cr_expect(strstr(r.out, x->says), "%s, %s -> %s, %s: no \"%s\" in: %s%s", x->base, x->from, x->to, x->tensor,
                  x->says, r.out, r.err);
    }
    command_folder(NULL);
}
#define HOLD(changes) hold(changes, sizeof(changes) / sizeof *(changes))

#define CASE_RANK3 "onnx:test_attention_3d_gqa_softcap"
#define CASE_PAST "onnx:test_attention_4d_with_past_and_present_qk_matmul_bias"
Test(command_cases, attention_of_onnx) {
    static const change changes[] = {
        {CASE_RANK3, NULL, NULL, NULL, "1 passed"},
        {CASE_RANK3, "\"q_num_heads\":9", "\"q_num_heads\":\"9\"", NULL, "q_num_heads is not a number"},
        {CASE_RANK3, "\"q_num_heads\":9", "\"q_num_heads\":9.5", NULL, "q_num_heads is 9.5, not a whole number"},
        {CASE_RANK3, "\"q_num_heads\":9", "\"q_num_heads\":1e300", NULL, "not a whole number"},
        {CASE_RANK3, "\"q_num_heads\":9", "\"q_num_heads\":7", NULL, "q_num_heads is 7, for 72 columns"},
        {CASE_RANK3, "\"kv_num_heads\":3", "\"kv_num_heads\":-3", NULL, "kv_num_heads is -3, for 24 columns"},
        {CASE_RANK3, NULL, NULL, "V f32 2 6 25", "kv_num_heads is 3, for 25 columns"},
        {CASE_RANK3, "\"is_causal\":0", "\"is_causal\":\"no\"", NULL, "is_causal is not a number"},
        {CASE_RANK3, "\"is_causal\":0", "\"is_causal\":-1", NULL, "is_causal is -1, not 0 or 1"},
        {CASE_RANK3, "\"is_causal\":0", "\"is_causal\":false", NULL, "1 passed"},
        {CASE_RANK3, "\"scale\":null", "\"scale\":[1]", NULL, "scale is not a number"},
        {CASE_RANK3, "\"softcap\":3.0", "\"softcap\":\"3\"", NULL, "softcap is not a number"},
        {CASE_RANK3, "\"softmax_precision\":null", "\"softmax_precision\":\"f32\"", NULL,
         "softmax_precision is not a number"},
        {CASE_RANK3, "\"softmax_precision\":null", "\"softmax_precision\":1", NULL, "1 passed"},
        {CASE_RANK3, "\"softmax_precision\":null", "\"softmax_precision\":10", NULL, "1 passed"},
        {CASE_RANK3, "\"softmax_precision\":null", "\"softmax_precision\":11", NULL, "1 passed"},
        {CASE_RANK3, "\"softmax_precision\":null", "\"softmax_precision\":16", NULL, "1 passed"},
        {CASE_RANK3, "\"softmax_precision\":null", "\"softmax_precision\":17", NULL, "none of 1, 10, 11 and 16"},
        {CASE_RANK3, "\"K\"", "7", NULL, "the input without a name is not known"},
        {CASE_RANK3, "\"attrs\":{", "\"attrs\":[1],\"more\":{", NULL, "the attribute without a name is not known"},
        {CASE_RANK3, NULL, NULL, "K f32 2 3 6 8", "Q, K and V have ranks 3, 4 and 3"},
        {CASE_RANK3, NULL, NULL, "V f32 2 3 6 8", "Q, K and V have ranks 3, 3 and 4"},
        {CASE_RANK3, NULL, NULL, "Q f32 2 4 72 1 1", "ranks 5"},
        {CASE_RANK3, "\"V\"]", "\"V\",\"attn_mask\"]", "attn_mask f32", "attn_mask is a single number"},
        {CASE_RANK3, "\"V\"]", "\"V\",\"attn_mask\"]", "attn_mask i64 4 6", "the mask is i64, neither bool"},
        {CASE_RANK3, "\"V\"]", "\"V\",\"attn_mask\"]", "attn_mask f32 4 6", "1 passed"},
        {CASE_RANK3, "23", "24.5", NULL, "1 passed"},
        {CASE_RANK3, "\"opset\":23", "\"opset\":null", NULL, "its opset is 0, not 23 to 25"},
        {CASE_RANK3, "\"Y\":[0.001,1e-07]", "\"Y\":[\"a\",1e-07]", NULL, "its tolerances are not [rtol, atol]"},
        {CASE_RANK3, "\"Y\":[0.001,1e-07]", "\"Y\":[0.001,\"b\"]", NULL, "its tolerances are not [rtol, atol]"},
        {CASE_RANK3, "\"Y\":[0.001,1e-07]", "\"Y\":[0.001,-1]", NULL, "its tolerances are not [rtol, atol]"},
        {CASE_RANK3, NULL, NULL, "Y f32 2 4 71", "Y: its shape does not follow from those of the inputs"},
        {CASE_RANK3, NULL, NULL, "Y f32 2 4", "Y: its shape does not follow from those of the inputs"},
        {CASE_PAST, NULL, NULL, NULL, "1 passed"},
        {CASE_PAST, "\"past_value\"", "\"past_value\",\"past_value\"", NULL, "1 passed"},
        {CASE_PAST, NULL, NULL, "past_key f32 2 3 12", "past_key and past_value are not of rank 4"},
        {CASE_PAST, NULL, NULL, "past_value f32 2 3 12", "past_key and past_value are not of rank 4"},
        {CASE_PAST, NULL, NULL, "past_value f32 2 3 11 8",
         "past_key and past_value are not of rank 4 and the same length"},
        {CASE_PAST, "\"qk_matmul_output_mode\":2", "\"qk_matmul_output_mode\":4", NULL, "not 0 to 3"},
        {CASE_PAST, "\"qk_matmul_output_mode\":2", "\"qk_matmul_output_mode\":-1", NULL, "not 0 to 3"},
        {CASE_PAST, "\"qk_matmul_output_mode\":2", "\"qk_matmul_output_mode\":{}", NULL,
         "qk_matmul_output_mode is not a number"},
        {CASE_PAST, "\"q_num_heads\":null", "\"q_num_heads\":4", NULL, "q_num_heads is 4, for 3 heads"},
        {CASE_PAST, "\"q_num_heads\":null", "\"q_num_heads\":3", NULL, "1 passed"},
        {CASE_PAST, "\"present_key\":[0.001,1e-07],", "", NULL, "1 passed"},
        {CASE_PAST, "\"qk_matmul_output\":", "\"qk_output\":", NULL, "the output qk_output is not known"},
        {CASE_PAST, "\"opset\":23,\"attrs\":{", "\"opset\":25,\"attrs\":{\"left_window_size\":\"a\",", NULL,
         "left_window_size is not a number"},
        {CASE_PAST, "\"opset\":23,\"attrs\":{", "\"opset\":25,\"attrs\":{\"right_window_size\":\"a\",", NULL,
         "right_window_size is not a number"},
        {CASE_PAST, "\"opset\":23,\"attrs\":{", "\"opset\":25,\"attrs\":{\"right_window_size\":-2,", NULL,
         "a window of -1 and -2 keys"},
        {CASE_PAST, "\"opset\":23,\"attrs\":{", "\"opset\":25,\"attrs\":{\"right_window_size\":30,", NULL, "1 passed"},
        {CASE_PAST, "\"opset\":23,\"attrs\":{", "\"opset\":25,\"attrs\":{\"left_window_size\":30,", NULL, "1 passed"},
        {CASE_RANK3, "\"opset\":23,\"attrs\":{", "\"opset\":25,\"attrs\":{\"left_window_size\":30,", NULL, "1 passed"},
        {CASE_RANK3, "\"opset\":23", "\"opset\":24", NULL, "1 passed"},
    };
    HOLD(changes);
}

#define ATTRS                                                                                                          \
    "\"attrs\":{\"is_causal\":0,\"kv_num_heads\":3,\"q_num_heads\":9,\"qk_matmul_output_mode\":0,\"scale\":null,"
#define TO_LENGTHS                                                                                                     \
    "23," ATTRS "\"softcap\":3.0,\"softmax_precision\":null},\"in\":[\"Q\",\"K\",\"V\"]",                              \
        "24," ATTRS "\"softcap\":3.0},\"in\":[\"Q\",\"K\",\"V\",\"nonpad_kv_seqlen\"]"
Test(command_cases, lengths_of_onnx) {
    static const change changes[] = {
        {CASE_RANK3, TO_LENGTHS, "nonpad_kv_seqlen i64 2", "FAIL"}, /* no key is seen */
        {CASE_RANK3, TO_LENGTHS, NULL, "nonpad_kv_seqlen"},
        {CASE_RANK3, TO_LENGTHS, "nonpad_kv_seqlen i32 2", "nonpad_kv_seqlen is not one i64 for each of 2 batches"},
        {CASE_RANK3, TO_LENGTHS, "nonpad_kv_seqlen i64 3", "nonpad_kv_seqlen is not one i64 for each of 2 batches"},
        {CASE_RANK3, TO_LENGTHS, "nonpad_kv_seqlen i64 2 1", "nonpad_kv_seqlen is not one i64 for each of 2 batches"},
    };
    HOLD(changes);
}

Test(command_cases, norms_of_onnx) {
#define NORM "onnx:test_layer_normalization_3d_axis_negative_2_epsilon"
#define RMS "onnx:test_rms_normalization_4d_axis0"
#define SOFTMAX "onnx:test_softmax_axis_0"
    static const change changes[] = {
        {NORM, NULL, NULL, NULL, "1 passed"},
        {NORM, "\"axis\":-2", "\"axis\":\"last\"", NULL, "axis is not a number"},
        {NORM, "\"axis\":-2", "\"axis\":-4", NULL, "axis is -4, of 3 axes"},
        {NORM, "\"axis\":-2", "\"axis\":3", NULL, "axis is 3, of 3 axes"},
        {NORM, "\"axis\":-2", "\"axis\":1", NULL, "1 passed"},
        {NORM, "\"stash_type\":1", "\"stash_type\":2", NULL, "stash_type is 2, which is none of 1, 10, 11 and 16"},
        {NORM, "\"stash_type\":1", "\"stash_type\":[]", NULL, "stash_type is not a number"},
        {NORM, "\"stash_type\":1", "\"stash_type\":11", NULL, "1 passed"},
        {NORM, "\"epsilon\":0.1", "\"epsilon\":\"0\",\"e\":0.1", NULL, "is not known"},
        {NORM, "\"epsilon\":0.10000000149011612", "\"epsilon\":\"0\"", NULL, "epsilon is not a number"},
        {NORM, "\"epsilon\":0.10000000149011612", "\"epsilon\":0", NULL, "FAIL"},
        {NORM, "\"Mean\"", "\"Median\"", NULL, "the output Median is not known"},
        {NORM, "\"opset\":17", "\"opset\":16", NULL, "its opset is 16, not 17 to 25"},
        {NORM, "\"opset\":17", "\"opset\":26", NULL, "its opset is 26, not 17 to 25"},
        {NORM, NULL, NULL, "X i64 2 3 5", "x: is i64"},
        {NORM, NULL, NULL, "Mean f32 2 1", "Mean: its shape does not follow"},
        {NORM, "\"InvStdDev\":[0.001,1e-07]", "\"InvStdDev\":[]", NULL, "its tolerances are not"},
        {RMS, NULL, NULL, NULL, "1 passed"},
        {RMS, "\"opset\":23", "\"opset\":22", NULL, "its opset is 22, not 23 to 25"},
        {RMS, "\"stash_type\":1", "\"stash_type\":9", NULL, "stash_type is 9"},
        {RMS, "\"out\":{", "\"out\":{\"Mean\":[1,1],", NULL, "the output Mean is not known"},
        {RMS, "\"axis\"", "\"axes\"", NULL, "the attribute axes is not known"},
        {SOFTMAX, NULL, NULL, NULL, "1 passed"},
        {SOFTMAX, "\"axis\":0", "\"axis\":[0]", NULL, "axis is not a number"},
        {SOFTMAX, "\"axis\":0", "\"axis\":5", NULL, "axis is 5, of 3 axes"},
        {SOFTMAX, "\"axis\":0", "\"axes\":0", NULL, "the attribute axes is not known"},
        {SOFTMAX, "\"opset\":13", "\"opset\":12", NULL, "its opset is 12, not 13 to 25"},
        {SOFTMAX, "\"output\":", "\"result\":", NULL, "the output result is not known"},
        {SOFTMAX, "\"output\":[0.001", "\"output\":[\"a\"", NULL, "its tolerances are not"},
    };
    HOLD(changes);
}

Test(command_cases, rotary_embedding_of_onnx) {
#define ROTARY "onnx:test_rotary_embedding_interleaved"
#define ROTARY_PLAIN "onnx:test_rotary_embedding_no_position_ids_interleaved"
    static const change changes[] = {
        {ROTARY, NULL, NULL, NULL, "1 passed"},
        {ROTARY, NULL, NULL, "cos_cache f32 50 4 1",
         "cos_cache and sin_cache have rank 3 and 2, not 2, with position_ids"},
        {ROTARY, NULL, NULL, "sin_cache f32 50 4 1",
         "cos_cache and sin_cache have rank 2 and 3, not 2, with position_ids"},
        {ROTARY_PLAIN, NULL, NULL, "cos_cache f32 2 12", "not 3, without position_ids"},
        {ROTARY, NULL, NULL, "position_ids i32 2 3", "position_ids is not an i64 for each of 2 x 3 rows"},
        {ROTARY, NULL, NULL, "position_ids i64 6", "position_ids is not an i64"},
        {ROTARY, NULL, NULL, "position_ids i64 3 3", "position_ids is not an i64"},
        {ROTARY, NULL, NULL, "position_ids i64 2 4", "position_ids is not an i64"},
        {ROTARY, "\"interleaved\":1", "\"interleaved\":2", NULL, "interleaved is 2, not 0 or 1"},
        {ROTARY, "\"rotary_embedding_dim\":0", "\"rotary_embedding_dim\":\"a\"", NULL,
         "rotary_embedding_dim is not a number"},
        {ROTARY, "\"num_heads\":null", "\"num_heads\":5", NULL, "num_heads is 5, for 4 heads"},
        {ROTARY, "\"num_heads\":null", "\"num_heads\":\"5\"", NULL, "num_heads is not a number"},
        {ROTARY, NULL, NULL, "X f32 2 12", "its inputs have rank 2, not 3 or 4"},
        {ROTARY, "\"Y\":", "\"Z\":", NULL, "the output Z is not known"},
        {ROTARY, "\"Y\":[0.001", "\"Y\":[null", NULL, "its tolerances are not"},
        {ROTARY, "\"interleaved\"", "\"interlaced\"", NULL, "the attribute interlaced is not known"},
    };
    HOLD(changes);
}

Test(command_cases, sdpa) {
#define SDPA "torch:sdpa_gqa_mask"
#define PLAIN "torch:sdpa_dk80_dv64"
#define MATRICES "seed:s000_sdpa"
    static const change changes[] = {
        {SDPA, NULL, NULL, NULL, "1 passed"},
        {SDPA, "\"Y_f32\":", "\"Z_f32\":", NULL, "the output Z_f32 is not known"},
        {SDPA, "\"Y_f32\":", "\"YY\":", NULL, "the output YY is not known"},
        {SDPA, "\"Y_f32\":", "\"Y_f8\":", NULL, "the output Y_f8 is not known"},
        {SDPA, "\"layout\":\"BHSD\"", "\"layout\":7", NULL, "layout is not a text"},
        {SDPA, "\"layout\":\"BHSD\"", "\"layout\":\"SBHD\"", NULL, "the layout SBHD is not known"},
        {SDPA, "\"enable_gqa\":1", "\"enable_gqa\":0", NULL, "enable_gqa is 0, for 4 query and 2 key heads"},
        {SDPA, "\"enable_gqa\":1", "\"enable_gqa\":3", NULL, "enable_gqa is 3, not 0 or 1"},
        {SDPA, "\"is_causal\":0", "\"is_causal\":3", NULL, "is_causal is 3, not 0 or 1"},
        {SDPA, "\"causal_lower_right\":0", "\"causal_lower_right\":3", NULL, "causal_lower_right is 3, not 0 or 1"},
        {SDPA, "\"is_causal\":0,\"causal_lower_right\":0", "\"is_causal\":1,\"causal_lower_right\":1", NULL,
         "it is causal in two ways"},
        {SDPA, "\"scale\":null", "\"scale\":\"x\"", NULL, "scale is not a number"},
        {SDPA, "\"attn_mask\"]", "\"attn_mask\",\"mask\"]", "mask f32 5 9", "it has both attn_mask and mask"},
        {SDPA, "\"attn_mask\"]", "\"mask\"]", "mask f32 5 9", "FAIL"},
        {SDPA, "\"attn_mask\"]", "\"mask\"]", NULL, "no tensor"},
        {SDPA, NULL, NULL, "attn_mask i32 5 9", "the mask is i32, neither bool nor of a float type"},
        {SDPA, NULL, NULL, "Q f32 8", "Q, K and V have ranks 1, 4 and 4"},
        {SDPA, NULL, NULL, "K f32 9 8", "Q, K and V have ranks 4, 2 and 4"},
        {SDPA, NULL, NULL, "V f32 9 8", "Q, K and V have ranks 4, 4 and 2"},
        {SDPA, NULL, NULL, "Q f32 1 1 1 1 8", "Q, K and V have ranks 5, 4 and 4"},
        {PLAIN, "\"layout\":\"BHSD\"", "\"layout\":\"BSHD\"", "Q f32 7 80", "the layout BSHD needs tensors of rank 4"},
        {PLAIN, "\"layout\":\"BHSD\"", "\"layout\":\"BHDS\"", "K f32 7 80", "the layout BHDS needs tensors of rank 4"},
        {PLAIN, "\"layout\":\"BHSD\"", "\"layout\":\"BHDS\"", "V f32 7 80", "the layout BHDS needs tensors of rank 4"},
        {PLAIN, "\"Y_f64\":", "\"weights_f64\":", "weights_f64 f64 1 2 7 16", "weights_f64: its shape does not follow"},
        {MATRICES, NULL, NULL, NULL, "1 passed"},
        {MATRICES, "\"attrs\":{}", "\"attrs\":{\"enable_gqa\":0}", NULL, "1 passed"},
        {MATRICES, "\"op\":\"sdpa_weights\"", "\"op\":7", NULL, "its description"},
        {MATRICES, "\"attrs\":{}", "\"attrs\":{\"is_causal\":1}", NULL, "FAIL"},
        {"torch:grad_gqa", "\"dQ_f64\"", "\"dZ_f64\"", NULL, "the output dZ_f64 is not known"},
        {"torch:grad_gqa", "\"scale\":null", "\"scale\":\"x\"", NULL, "scale is not a number"},
        {"torch:grad_gqa", "\"attrs\":{", "\"attrs\":{\"dropout\":0.5,", NULL, "the attribute dropout is not known"},
        {"torch:grad_gqa", NULL, NULL, "dY f32 2 6 5 7", "d_o"},
    };
    HOLD(changes);
}

Test(command_cases, replaced_scores) {
#define REPLACED "seed:s001_mask"
    static const change changes[] = {
        {REPLACED, NULL, NULL, NULL, "1 passed"},
        {REPLACED, NULL, NULL, "Q f32 1 4 8", "not matrices in f64 that fit together"},
        {REPLACED, NULL, NULL, "K f64 8", "not matrices in f64 that fit together"},
        {REPLACED, NULL, NULL, "V f64 1 1 1 1 1 4 8", "not matrices in f64 that fit together"},
        {REPLACED, NULL, NULL, "mask f64 2 4 4", "not matrices in f64 that fit together"},
        {REPLACED, NULL, NULL, "K f64 1 4 7", "not matrices in f64 that fit together"},
        {REPLACED, NULL, NULL, "V f64 1 5 8", "not matrices in f64 that fit together"},
        {REPLACED, NULL, NULL, "mask f64 1 5 4", "not matrices in f64 that fit together"},
        {REPLACED, NULL, NULL, "mask f64 1 4 5", "not matrices in f64 that fit together"},
        {REPLACED, "\"Y_1e9\":", "\"X_1e9\":", NULL, "the output X_1e9 is not known"},
        {REPLACED, "\"Y_1e9\":[1e-12", "\"Y_1e9\":[\"a\"", NULL, "its tolerances are not"},
        {REPLACED, NULL, NULL, "Y_1e9 f64 1 4 7", "Y_1e9: its shape does not follow"},
    };
    HOLD(changes);
}

Test(command_cases, multihead) {
#define MHA "torch:mha_causal_bool"
#define CROSS "torch:mha_zero_attn"
    static const change changes[] = {
        {MHA, NULL, NULL, NULL, "1 passed"},
        {MHA, "\"num_heads\":4", "\"num_heads\":\"4\"", NULL, "num_heads is not a number"},
        {MHA, "\"bias\":1", "\"bias\":2", NULL, "bias is 2, not 0 or 1"},
        {MHA, "\"bias\":1", "\"bias\":0", NULL, "the input in_proj_bias is there, and bias says otherwise"},
        {MHA, "\"embed_dim\":16", "\"embed_dim\":17", NULL, "embed_dim is 17, and the last axis is not"},
        {MHA, "\"kdim\":null", "\"kdim\":5", NULL, "kdim is 5, and the last axis is not"},
        {MHA, "\"vdim\":null", "\"vdim\":5", NULL, "vdim is 5, and the last axis is not"},
        {MHA, "\"kdim\":null,\"vdim\":null", "\"kdim\":16,\"vdim\":16", NULL, "1 passed"},
        {CROSS, "\"kdim\":null,\"vdim\":null", "\"kdim\":16,\"vdim\":16", NULL, "1 passed"},
        {CROSS, "\"kdim\":null", "\"kdim\":16", "key f32", "kdim is 16, and the last axis is not"},
        {MHA, "\"attrs\":{", "\"attrs\":{\"dropout\":0.1,", NULL, "dropout is 0.1: this is inference"},
        {MHA, "\"attrs\":{", "\"attrs\":{\"dropout\":0,", NULL, "1 passed"},
        {MHA, "\"attrs\":{", "\"attrs\":{\"dropout\":\"no\",", NULL, "dropout is not a number"},
        {MHA, "\"out_f32\":", "\"outs_f32\":", NULL, "the output outs_f32 is not known"},
        {MHA, "\"need_weights\":1", "\"need_weights\":0", NULL, "the output attn_weights_f64 is not known"},
        {MHA, "\"add_bias_kv\":0", "\"add_bias_kv\":1", NULL,
         "the input bias_k is missing, and add_bias_kv says otherwise"},
        {MHA, "\"self_attention\":1", "\"self_attention\":0", NULL,
         "the input key is missing, and self_attention says otherwise"},
        {MHA, "\"out_proj.bias\"]", "\"out_proj.bias\",\"q_proj_weight\"]", "q_proj_weight f32 16 16",
         "the input q_proj_weight is there, and in_proj_weight says otherwise"},
        {MHA, "\"out_proj.bias\"]", "\"out_proj.bias\",\"bias_v\"]", "bias_v f32 1 1 16",
         "the input bias_v is there, and add_bias_kv says otherwise"},
        {CROSS, "\"value\",", "", NULL, "the input value is missing, and self_attention says otherwise"},
        {MHA, "\"in_proj_bias\",\"out_proj.weight\",\"out_proj.bias\"", "\"in_proj_bias\",\"out_proj.weight\"", NULL,
         "the input out_proj.bias is missing, and bias says otherwise"},
        {MHA, NULL, NULL, "query f32 16", "the query has rank 1, not 2 or 3"},
        {MHA, NULL, NULL, "query f32 1 2 7 16", "the query has rank 4, not 2 or 3"},
        {CROSS, NULL, NULL, "key f32 7 16", "attn_weights_f64: its shape does not follow"},
        {MHA, "\"num_heads\":4", "\"num_heads\":0", NULL, "attn_weights"},
        {MHA, "\"num_heads\":4", "\"num_heads\":17", NULL, "attn_weights"},
        {MHA, "\"out_f64\":[1e-11,2.4e-13],", "", NULL, "1 passed"},
        {MHA,
         "\"out_f64\":[1e-11,2.4e-13],\"attn_weights_f64\":[1e-11,1e-13],\"out_f32\":[1e-05,4.79e-06],\"attn_weights_"
         "f32\":[1e-05,2e-06]",
         "\"out_f64\":[1e-11,2.4e-13]", "out_proj.bias f32 15", "out_bias [15]: should be [16]"},
        {MHA, NULL, NULL, "attn_mask bool 7 8", "attn mask [7, 8]"},
        {MHA, NULL, NULL, "attn_mask bool 8 7 7", "out_f64["},
        {MHA, "\"attn_mask\",", "\"key_padding_mask\",", "key_padding_mask bool 2 6", "key_padding"},
    };
    HOLD(changes);
}

Test(command_cases, layers) {
#define ENCODER "torch:enc_post_relu"
#define DECODER "torch:dec_pre_relu"
    static const change changes[] = {
        {ENCODER, NULL, NULL, NULL, "1 passed"},
        {ENCODER, "\"d_model\":16", "\"d_model\":\"a\"", NULL, "d_model is not a number"},
        {ENCODER, "\"nhead\":4", "\"nhead\":\"a\"", NULL, "nhead is not a number"},
        {ENCODER, "\"dim_feedforward\":24", "\"dim_feedforward\":\"a\"", NULL, "dim_feedforward is not a number"},
        {ENCODER, "\"norm_first\":0", "\"norm_first\":2", NULL, "norm_first is 2, not 0 or 1"},
        {ENCODER, "\"norm_first\":0", "\"norm_first\":\"a\"", NULL, "norm_first is not a number"},
        {ENCODER, "\"bias\":1", "\"bias\":-1", NULL, "bias is -1, not 0 or 1"},
        {ENCODER, "\"batch_first\":1", "\"batch_first\":2", NULL, "batch_first is 2, not 0 or 1"},
        {ENCODER, "\"attrs\":{", "\"attrs\":{\"is_causal\":2,", NULL, "is_causal is 2, not 0 or 1"},
        {DECODER, "\"attrs\":{", "\"attrs\":{\"tgt_is_causal\":2,", NULL, "tgt_is_causal is 2, not 0 or 1"},
        {DECODER, "\"attrs\":{", "\"attrs\":{\"memory_is_causal\":2,", NULL, "memory_is_causal is 2, not 0 or 1"},
        {ENCODER, "\"layer_norm_eps\":1e-05", "\"layer_norm_eps\":\"a\"", NULL, "layer_norm_eps is not a number"},
        {ENCODER, "\"attrs\":{", "\"attrs\":{\"dropout\":\"a\",", NULL, "dropout is not a number"},
        {ENCODER, "\"attrs\":{", "\"attrs\":{\"dropout\":0.5,", NULL, "dropout is 0.5: this is inference"},
        {ENCODER, "\"activation\":\"relu\"", "\"activation\":1", NULL, "activation is not a text"},
        {ENCODER, "\"activation\":\"relu\"", "\"activation\":\"silu\"", NULL, "the activation silu is not known"},
        {ENCODER, "\"bias\":1", "\"bias\":0", NULL, "is there, and bias says otherwise"},
        {ENCODER, "\"dim_feedforward\":24", "\"dim_feedforward\":25", NULL,
         "dim_feedforward is 25, and linear1.weight has 24 rows"},
        {ENCODER, "\"dim_feedforward\":24", "\"dim_feedforward\":null", NULL, "1 passed"},
        {ENCODER, "\"d_model\":16", "\"d_model\":17", NULL, "d_model is 17, and linear1.weight has 16 columns"},
        {ENCODER, "\"d_model\":16", "\"d_model\":null", NULL, "1 passed"},
        {ENCODER, NULL, NULL, "linear1.weight f32 24", "linear1"},
        {ENCODER, "\"linear1.weight\",", "", NULL, "linear1"},
        {ENCODER, "\"src\",", "\"src\",\"src_mask\",", "src_mask f32 5 5", "1 passed"},
        {ENCODER, "\"src\",", "\"src\",\"src_key_padding_mask\",", "src_key_padding_mask f32 2 5", "1 passed"},
        {ENCODER, "\"src\",", "\"src\",\"src_key_padding_mask\",", NULL, "src_key_padding_mask"},
        {ENCODER, "\"src\",", "\"src\",\"src_mask\",", NULL, "src_mask"},
        {ENCODER, "\"out_f32\"", "\"y_f32\"", NULL, "the output y_f32 is not known"},
        {ENCODER, "\"out_f32\":[1e-05,", "\"out_f32\":[\"a\",", NULL, "its tolerances are not"},
        {ENCODER, "\"attrs\":{", "\"attrs\":{\"is_causal\":1,", NULL, "FAIL"},
        {DECODER, NULL, NULL, NULL, "1 passed"},
        {DECODER, "\"memory\",", "\"memory\",\"memory_mask\",", NULL, "memory_mask"},
        {DECODER, "\"memory\",", "\"memory\",\"memory_key_padding_mask\",", NULL, "memory_key_padding_mask"},
        {DECODER, "\"memory\",", "\"memory\",\"memory_key_padding_mask\",", "memory_key_padding_mask f32 2 7",
         "1 passed"},
        {DECODER, "\"attrs\":{", "\"attrs\":{\"memory_is_causal\":1,", NULL, "FAIL"},
        {DECODER, "\"tgt\",", "\"tgt\",\"tgt_key_padding_mask\",", NULL, "tgt_key_padding_mask"},
    };
    HOLD(changes);
}

Test(command_cases, probes) {
#define CAUSAL "seed:s000_causal"
#define PERMUTED "seed:s000_permutation_pe"
    static const change changes[] = {
        {CAUSAL, NULL, NULL, NULL, "1 passed"},
        {CAUSAL, "\"num_heads\":4", "\"num_heads\":\"a\"", NULL, "num_heads is not a number"},
        {CAUSAL, "\"num_heads\":4", "\"num_heads\":4,\"shift\":1", NULL, "the attribute shift is not known"},
        {PERMUTED, "\"shift\":5", "\"shift\":\"a\"", NULL, "shift is not a number"},
        {CAUSAL, "\"query2\",", "", NULL, "the input query2 is missing"},
        {CAUSAL, "\"diff_causal\":", "\"diff\":", NULL, "the output diff is not known"},
        {CAUSAL, ",\"diff_causal\":[1e-12,1e-14]", "", NULL, "the output diff_causal is missing"},
        {CAUSAL, "\"diff_causal\":[1e-12", "\"diff_causal\":[\"a\"", NULL, "its tolerances are not"},
        {CAUSAL, NULL, NULL, "query f64 8 16", "the query is not [1, N, E] in f64"},
        {CAUSAL, NULL, NULL, "query f64 2 8 16", "the query is not [1, N, E] in f64"},
        {CAUSAL, NULL, NULL, "query f32 1 8 16", "the query is not [1, N, E] in f64"},
        {CAUSAL, NULL, NULL, "query2 f64 1 8 15", "inputs and outputs do not fit together"},
        {CAUSAL, NULL, NULL, "query2 f64 8 16", "inputs and outputs do not fit together"},
        {CAUSAL, NULL, NULL, "y_causal f32 1 8 16", "inputs and outputs do not fit together"},
        {CAUSAL, NULL, NULL, "y_causal f64 1 9 16", "inputs and outputs do not fit together"},
        {CAUSAL, NULL, NULL, "diff_causal f64 9", "inputs and outputs do not fit together"},
        {CAUSAL, NULL, NULL, "diff_causal f64 8 1", "inputs and outputs do not fit together"},
        {CAUSAL, NULL, NULL, "diff_causal f32 8", "inputs and outputs do not fit together"},
        {PERMUTED, NULL, NULL, NULL, "1 passed"},
        {PERMUTED, NULL, NULL, "perm i32 7", "inputs and outputs do not fit together"},
        {PERMUTED, NULL, NULL, "perm i64 7 1", "inputs and outputs do not fit together"},
        {PERMUTED, NULL, NULL, "perm i64 6", "inputs and outputs do not fit together"},
        {PERMUTED, NULL, NULL, "y f64 1 6 16", "inputs and outputs do not fit together"},
        {PERMUTED, NULL, NULL, "z_perm f32 1 7 16", "inputs and outputs do not fit together"},
        {PERMUTED, "\"pe_7x16\"", "\"pf_7x16\"", NULL, "the output pf_7x16 is not known"},
    };
    HOLD(changes);
}
