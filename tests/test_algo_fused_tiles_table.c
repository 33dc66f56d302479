/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the table of tiles against the oracle, whichever device it is for: in the kernel for storage of the type
 * of the sums in multiples of 4, and in that for any other, at sizes that cut tiles and slices. */
#include "attention/tiles.h"
#include "oracle.h"
#include "runtime/state.h"
#include "testing.h"
#include <stdlib.h>
#include <string.h>

/* A device that has room for all rows. */
static clattn_context *open_device(void) {
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create("opencl", NULL, &context));
    context->info.device_class = CLATTN_DEVICE_GPU;
    context->info.local_bytes = 65536;
    context->info.max_work_group = 256;
    context->info.unified_memory = false;
    return context;
}

static void check(clattn_context *context, oracle_case *c) {
    char text[ORACLE_TEXT] = "";
    cr_expect(oracle_check(c, context, "fused_tiles", text), "%s, %s", c->config.variant, text);
    oracle_free(c);
}

static int word(const char *variant, const char *name) {
    const char *at = strstr(variant, name);
    cr_assert_not_null(at);
    return atoi(at + strlen(name));
}

/* N, M and Dv around the edges of a tile. */
static oracle_config around(oracle_config c, const char *variant, int n) {
    const int rows = word(variant, "tr=") * word(variant, "nr="), keys = word(variant, "tc=") * word(variant, "nc=");
    c.B = 1, c.H = 2, c.Hk = 1, c.guard = 16, c.lse = true;
    c.N = n == 0 ? 1 : rows + 3 * n - 4;
    c.M = n == 0 ? keys : 2 * keys + 9 * n - 10;
    c.Dv = 4 * word(variant, "tc=") * word(variant, "nv=") - 4;
    c.variant = variant;
    c.seed = (uint64_t)(rows + keys + n);
    return c;
}

/* Every fourth variant from `first` on of a type, or of storage of mixed types with every kind of mask. */
static int check_variants(int first, clattn_dtype dtype, bool mixed) {
    clattn_context *context = open_device();
    char variants[ORACLE_VARIANTS][ORACLE_VARIANT], text[ORACLE_TEXT] = "";
    oracle_config config = {.dtype = dtype, .N = 2, .M = 2, .D = 60, .Dv = 4};
    if (mixed) {
        config.typed = true, config.D = 59, config.causal = true, config.align = CLATTN_ALIGN_BOTTOM_RIGHT;
        config.keep = (oracle_mask){4, 15}, config.bias = (oracle_mask){2, 1};
        config.q_type = config.k_type = CLATTN_F16, config.v_type = CLATTN_BF16;
    }
    oracle_case *c = oracle_make(&config);
    const int count = (int)oracle_variants(c, context, "fused_tiles", variants, text);
    oracle_free(c);
    for (int i = first; i < count; i += 4)
        for (int n = mixed ? 2 : 0; n < 3; n++) {
            config.causal = mixed || i % 2;
            config.align = CLATTN_ALIGN_BOTTOM_RIGHT;
            const oracle_config sized = around(config, variants[i], n);
            check(context, oracle_make(&sized));
        }
    clattn_context_destroy(context);
    return count;
}

/* Criterion runs tests of a program at once. */
Test(fused_tiles_table, variants_0_4_8) { check_variants(0, CLATTN_F32, false); }
Test(fused_tiles_table, variants_1_5_9) { check_variants(1, CLATTN_F32, false); }
Test(fused_tiles_table, variants_2_6_10) { check_variants(2, CLATTN_F32, false); }
Test(fused_tiles_table, variants_3_7_11) { check_variants(3, CLATTN_F32, false); }
Test(fused_tiles_table, variants_0_4_8_mixed) { check_variants(0, CLATTN_F32, true); }
Test(fused_tiles_table, variants_1_5_9_mixed) { check_variants(1, CLATTN_F32, true); }
Test(fused_tiles_table, variants_2_6_10_mixed) { check_variants(2, CLATTN_F32, true); }
Test(fused_tiles_table, variants_3_7_11_mixed) { check_variants(3, CLATTN_F32, true); }
Test(fused_tiles_table, variants_of_f64) {
    clattn_context *context = open_device();
    const bool has_f64 = context->info.has_f64;
    clattn_context_destroy(context);
    if (!has_f64)
        cr_skip_test("this device has no f64");
    for (int i = 0; i < 4; i++)
        check_variants(i, CLATTN_F64, false);
}

/* None is left out above: rows of f32 and f64 are all there is. */
Test(fused_tiles_table, every_row_is_a_variant) {
    clattn_context *context = open_device();
    bool seen[CLA_TILES_ROWS] = {false};
    for (int wide = 0; wide < 2; wide++) {
        const cla_tiles_problem p = {.dtype = wide ? CLATTN_F64 : CLATTN_F32, .D = 60, .Dv = 4};
        cla_tiling list[CLA_TILES_ROWS];
        for (int i = cla_tiles_list(&context->info, &p, list) - 1; i >= 0; i--)
            seen[list[i].row] = true;
    }
    for (int row = 0; row < CLA_TILES_ROWS; row++)
        cr_expect(seen[row], "row %d", row);
    clattn_context_destroy(context);
}
