/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of attention, norms and rotary embedding with one thing changed (changed_case.h). */
#include "changed_case.h"

#include <criterion/criterion.h>

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
        {CASE_RANK3, "\"V\"]", "\"V\",\"attn_mask\"]", "attn_mask i64 4 6", "1 passed"},
        {CASE_RANK3, "\"V\"]", "\"V\",\"\",\"\"]", NULL, "1 passed"},
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
        {SOFTMAX, "\"opset\":13", "\"opset\":26", NULL, "its opset is 26, not 1 to 25"},
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
#define RANK5 "broadcast:grad_rank5_mask"
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
        {SDPA, NULL, NULL, "K f32 8", "Q, K and V have ranks 4, 1 and 4"},
        {SDPA, NULL, NULL, "V f32 8", "Q, K and V have ranks 4, 4 and 1"},
        {SDPA, NULL, NULL, "Q f32 1 1 1 1 1 1 5 8", "Q, K and V have ranks 8, 4 and 4"},
        {SDPA, NULL, NULL, "Q f32 3 4 5 8", "do not broadcast: axis 4 from the right is 3, 2 and 2"},
        {SDPA, NULL, NULL, "V f32 3 2 9 8", "do not broadcast: axis 4 from the right is 2, 2 and 3"},
        {SDPA, NULL, NULL, "V f32 2 3 9 8", "heads or keys differ"},
        {SDPA, NULL, NULL, "V f32 2 0 9 8", "heads or keys differ"},
        {SDPA, NULL, NULL, "K f32 2 0 9 8", "0 key heads do not divide 4 query heads"},
        {SDPA, NULL, NULL, "Q f32 1 2 4 5 8", "Y_f64: its shape does not follow from those of the inputs"},
        {"broadcast:sdpa_rank5_groups", NULL, NULL, "V f32 1 2 3 4 2",
         "k [4, 2, 4, 5] and v [4, 3, 4, 2]: heads or keys differ"},
        {"broadcast:sdpa_rank5_groups", NULL, NULL, "K f32 2 2 2 4 6", "k [4, 2, 4, 6]: head dim 6, but q has 5"},
        {PLAIN, NULL, NULL, "V f32 1 3 17 64", "K and V have 2 and 3 heads"},
        {RANK5, NULL, NULL, "attn_mask f32 2 3 1 3 5", "mask"},
        {RANK5, NULL, NULL, "attn_mask bool 2 2 1 3 4",
         "the mask does not broadcast: axis 4 from the right is 2, not 3"},
        {RANK5, NULL, NULL, "attn_mask bool 1 1 1 1 1 1", "the mask has rank 6, and Q, K and V 5"},
        {RANK5, NULL, NULL, "Q f32 20000000 1 0 3 5", "Q, K and V do not broadcast"},
        {RANK5, NULL, NULL, "V f32 2 3 2 0 100000000", "more than 67108864 elements"},
        {RANK5, NULL, NULL, "dY f32 2 3 2 3 1", "dY: its shape does not follow"},
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
        {"torch:grad_gqa", NULL, NULL, "dY f32 2 6 5 7", "dY: its shape does not follow"},
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
