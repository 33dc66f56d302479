/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of modules, the articles' experiments and dumps with one thing changed (changed_case.h). */
#include "changed_case.h"

#include <criterion/criterion.h>

Test(command_modules, multihead) {
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
        {"torch:mha_causal_hint", "\"add_zero_attn\":0", "\"add_zero_attn\":1", NULL,
         "1 passed"}, /* no query sees it */
        {CROSS, "\"is_causal\":0", "\"is_causal\":1", "key f32 2 4 16", "is_causal with more queries than keys"},
        {CROSS, "\"is_causal\":0", "\"is_causal\":1", "key f32 4 16", "is_causal with more queries than keys"},
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

Test(command_modules, layers) {
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

Test(command_modules, probes) {
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

Test(command_modules, dumps) {
#define DUMP "dump:run"
#define PAGES "dump_pages:run"
#define BLOCKS "dump_blocks:run"
    static const change changes[] = {
        {DUMP, NULL, NULL, NULL, "1 passed"},
        {DUMP, NULL, NULL, "Q f32 2 3 4", "Q, K and V have ranks 3, 4 and 4, not 4"},
        {DUMP, NULL, NULL, "K f32 2 5 4", "Q, K and V have ranks 4, 3 and 4, not 4"},
        {DUMP, NULL, NULL, "V f32 2 5 4", "Q, K and V have ranks 4, 4 and 3, not 4"},
        {DUMP, "\"align\":\"bottom-right\"", "\"align\":\"left\"", NULL, "the alignment left is not known"},
        {DUMP, "\"align\":\"bottom-right\"", "\"align\":1", NULL, "align is not a text"},
        {DUMP, "\"window\":[2,1]", "\"window\":[-1,-1]", NULL, "FAIL"},
        {DUMP, "\"window\":[2,1]", "\"window\":[2]", NULL, "the attribute window is no list of 2 numbers"},
        {DUMP, "\"window\":[2,1]", "\"window\":2", NULL, "the attribute window is no list of 2 numbers"},
        {DUMP, "\"window\":[2,1]", "\"window\":[2,0.5]", NULL, "window has an entry that is no whole number"},
        {DUMP, "\"window\":[2,1]", "\"window\":[2,\"x\"]", NULL, "window has an entry that is no whole number"},
        {DUMP, "\"window\":[2,1]", "\"window\":[1e300,1]", NULL, "window has an entry that is no whole number"},
        {DUMP, "\"lengths\":[4]", "\"lengths\":[4,4]", NULL, "the attribute lengths is no list of 1 numbers"},
        {DUMP, "\"query_lengths\":null", "\"query_lengths\":7", NULL, "the attribute query_lengths is no list"},
        {DUMP, "\"query_lengths\":null", "\"query_lengths\":[3]", NULL, "1 passed"},
        {DUMP, "\"prefix_lengths\":null", "\"prefix_lengths\":7", NULL, "the attribute prefix_lengths is no list"},
        {DUMP, "\"prefix_lengths\":null", "\"prefix_lengths\":[0]", NULL, "1 passed"},
        {DUMP, "\"offsets\":null", "\"offsets\":7", NULL, "the attribute offsets is no list"},
        {DUMP, "\"cu_queries\":null", "\"cu_queries\":7", NULL, "the attribute cu_queries is no list"},
        {DUMP, "\"cu_keys\":null", "\"cu_keys\":7", NULL, "the attribute cu_keys is no list"},
        {DUMP, "\"softcap\":2", "\"softcap\":\"a\"", NULL, "softcap is not a number"},
        {DUMP, "\"scale\":0.5", "\"scale\":\"a\"", NULL, "scale is not a number"},
        {DUMP, "\"causal\":true", "\"causal\":2", NULL, "causal is 2, not 0 or 1"},
        {DUMP, "\"short_masks\":false", "\"short_masks\":2", NULL, "short_masks is 2, not 0 or 1"},
        {DUMP, "\"batch_invariant\":false", "\"batch_invariant\":2", NULL, "batch_invariant is 2, not 0 or 1"},
        {DUMP, "\"batch_invariant\":false", "\"batch_invariant\":true", NULL, "1 passed"},
        {DUMP, NULL, NULL, "slopes f64 2", "slopes has another type or shape than the call needs"},
        {DUMP, NULL, NULL, "slopes f32 3", "slopes has another type or shape than the call needs"},
        {DUMP, NULL, NULL, "slopes f32 1 2", "slopes has another type or shape than the call needs"},
        {DUMP, "\"slopes\"]", "\"slopes\",\"query_segments\"]", NULL, "query_segments"},
        {DUMP, "\"slopes\"]", "\"slopes\",\"key_segments\"]", "key_segments i32 2 5",
         "key_segments has another type or shape"},
        {DUMP, "\"slopes\"]", "\"slopes\",\"query_segments\"]", "query_segments i32 1 4",
         "query_segments has another type"},
        {DUMP, "\"slopes\"]", "\"slopes\",\"block_table\"]", "block_table i32 1 0", "P: its shape does not follow"},
        {DUMP, "\"out\":{", "\"out\":{\"Z\":[0,0],", NULL, "the output Z is not known"},
        {DUMP, "\"LSE\":[1e-05", "\"LSE\":[\"a\"", NULL, "its tolerances are not"},
        {DUMP, "\"Y\":[1e-05,4e-06],", "", NULL, "1 passed"},
        {DUMP, NULL, NULL, "LSE f32 2 3", "LSE: its shape does not follow"},
        {DUMP, "\"version\"", "\"versions\"", NULL, "the attribute versions is not known"},
        {PAGES, NULL, NULL, NULL, "1 passed"},
        {PAGES, NULL, NULL, "block_table i64 2 2", "block_table has another type or shape"},
        {PAGES, NULL, NULL, "block_table i32 3 2", "block_table has another type or shape"},
        {PAGES, NULL, NULL, "block_table i32 4", "block_table has another type or shape"},
        {BLOCKS, NULL, NULL, NULL, "1 passed"},
        {BLOCKS, "\"k_type\":\"q8_0\"", "\"k_type\":\"q5_0\"", NULL, "the attribute k_type is no type of blocks"},
        {BLOCKS, "\"k_type\":\"q8_0\"", "\"k_type\":5", NULL, "the attribute k_type is no type of blocks"},
        {BLOCKS, "\"v_type\":\"q4_0\"", "\"v_type\":5", NULL, "the attribute v_type is no type of blocks"},
        {BLOCKS, NULL, NULL, "K f32 1 1 2 30", "or rows are not whole blocks of 32"},
        {BLOCKS, NULL, NULL, "K i32 1 1 2 32", "1 passed"},
    };
    HOLD(changes);
}
