/* SPDX-License-Identifier: Apache-2.0 */
#include "io/gguf_types.h"

/* By ggml's numbers; those left out were withdrawn. */
static const cla_gguf_tensor_type types[] = {
    [0] = {"F32", 1, 4, true, CLATTN_F32},          [1] = {"F16", 1, 2, true, CLATTN_F16},
    [2] = {"Q4_0", 32, 18, true, CLATTN_Q4_0},      [3] = {"Q4_1", 32, 20, true, CLATTN_Q4_1},
    [6] = {"Q5_0", 32, 22, false, CLATTN_F32},      [7] = {"Q5_1", 32, 24, false, CLATTN_F32},
    [8] = {"Q8_0", 32, 34, true, CLATTN_Q8_0},      [9] = {"Q8_1", 32, 36, false, CLATTN_F32},
    [10] = {"Q2_K", 256, 84, false, CLATTN_F32},    [11] = {"Q3_K", 256, 110, false, CLATTN_F32},
    [12] = {"Q4_K", 256, 144, false, CLATTN_F32},   [13] = {"Q5_K", 256, 176, false, CLATTN_F32},
    [14] = {"Q6_K", 256, 210, false, CLATTN_F32},   [15] = {"Q8_K", 256, 292, false, CLATTN_F32},
    [16] = {"IQ2_XXS", 256, 66, false, CLATTN_F32}, [17] = {"IQ2_XS", 256, 74, false, CLATTN_F32},
    [18] = {"IQ3_XXS", 256, 98, false, CLATTN_F32}, [19] = {"IQ1_S", 256, 50, false, CLATTN_F32},
    [20] = {"IQ4_NL", 32, 18, false, CLATTN_F32},   [21] = {"IQ3_S", 256, 110, false, CLATTN_F32},
    [22] = {"IQ2_S", 256, 82, false, CLATTN_F32},   [23] = {"IQ4_XS", 256, 136, false, CLATTN_F32},
    [24] = {"I8", 1, 1, false, CLATTN_F32},         [25] = {"I16", 1, 2, false, CLATTN_F32},
    [26] = {"I32", 1, 4, true, CLATTN_I32},         [27] = {"I64", 1, 8, true, CLATTN_I64},
    [28] = {"F64", 1, 8, true, CLATTN_F64},         [29] = {"IQ1_M", 256, 56, false, CLATTN_F32},
    [30] = {"BF16", 1, 2, true, CLATTN_BF16},       [34] = {"TQ1_0", 256, 54, false, CLATTN_F32},
    [35] = {"TQ2_0", 256, 66, false, CLATTN_F32},   [39] = {"MXFP4", 32, 17, false, CLATTN_F32},
};

const cla_gguf_tensor_type *cla_gguf_tensor_type_of(uint32_t number) {
    return number < sizeof types / sizeof *types && types[number].text ? &types[number] : NULL;
}
