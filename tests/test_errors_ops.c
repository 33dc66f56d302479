/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong calls of operations, rotary embedding and cache append: each is a right call with one thing changed, and is
 * refused with a status and words that say what. */
#include "errors.h"
#include "op_arrays.h"
#include "ops/rotary.h"
#include <clattn/clattn.h>

static clattn_context *context;

static void begin(void) {
    fill_slots();
    context = op_open("cpu");
}
/* Refused calls wrote nothing. */
static void end(void) {
    expect_unwritten();
    clattn_context_destroy(context);
}
TestSuite(errors_ops, .init = begin, .fini = end);

Test(errors_ops, no_context_and_no_args) {
#define NEITHER(call)                                                                                                  \
    FAILS(call(NULL, NULL), CLATTN_E_ARGUMENT, ": context is NULL");                                                   \
    FAILS(call(context, NULL), CLATTN_E_ARGUMENT, ": args is NULL")
    NEITHER(clattn_activate);
    NEITHER(clattn_activate_backward);
    NEITHER(clattn_adam_step);
    NEITHER(clattn_add);
    NEITHER(clattn_cache_append);
    NEITHER(clattn_cross_entropy);
    NEITHER(clattn_embed);
    NEITHER(clattn_embed_backward);
    NEITHER(clattn_gradient_norm);
    NEITHER(clattn_linear);
    NEITHER(clattn_linear_backward);
    NEITHER(clattn_norm);
    NEITHER(clattn_norm_backward);
    NEITHER(clattn_pool);
    NEITHER(clattn_positions);
    NEITHER(clattn_random);
    NEITHER(clattn_rotary);
    NEITHER(clattn_sgd_step);
    NEITHER(clattn_softmax);
    NEITHER(clattn_softmax_backward);
    NEITHER(clattn_sum);
}

/* A device's OpenCL without cl_khr_fp64, which is asked before anything is built. */
Test(errors_ops, f64_where_the_device_has_none) {
    clattn_context *device = op_open("opencl");
    device->info.has_f64 = false;
    const clattn_tensor x = as_type(mat(0, 4, 6), CLATTN_F64), y = as_type(mat(1, 4, 6), CLATTN_F64);
#define WIDE(call, type, ...) FAILS(call(device, &(type){__VA_ARGS__}), CLATTN_E_UNSUPPORTED, "f64 needs cl_khr_fp64")
    WIDE(clattn_activate, clattn_activate_args, .x = x, .y = y);
    WIDE(clattn_activate_backward, clattn_activate_backward_args, .x = x, .d_y = x, .d_x = y);
    WIDE(clattn_adam_step, clattn_adam_args, .parameter = x, .gradient = y, .moment1 = mat(2, 4, 6),
         .moment2 = mat(3, 4, 6), .step = 1);
    WIDE(clattn_add, clattn_add_args, .a = x, .b = x, .y = y);
    WIDE(clattn_cross_entropy, clattn_cross_entropy_args, .logits = x, .targets = ids(4), .d_logits = y);
    WIDE(clattn_embed, clattn_embed_args, .table = x, .ids = ids(4), .y = y);
    WIDE(clattn_embed_backward, clattn_embed_backward_args, .ids = ids(4), .d_y = x, .d_table = y);
    WIDE(clattn_gradient_norm, clattn_gradient_norm_args, .gradients = &x, .count = 1);
    WIDE(clattn_gradient_norm, clattn_gradient_norm_args, .norm = as_type(vec(0, 1), CLATTN_F64));
    WIDE(clattn_linear, clattn_linear_args, .x = x, .w = mat(2, 6, 6), .y = y);
    WIDE(clattn_linear_backward, clattn_linear_backward_args, .d_y = x, .w = mat(2, 6, 6), .d_x = y);
    WIDE(clattn_norm, clattn_norm_args, .x = x, .y = y);
    WIDE(clattn_norm_backward, clattn_norm_backward_args, .x = x, .d_y = x, .d_x = y);
    WIDE(clattn_pool, clattn_pool_args, .x = clattn_tensor_split(x, 0, 2), .y = mat(2, 2, 6));
    WIDE(clattn_positions, clattn_positions_args, .y = y);
    WIDE(clattn_random, clattn_random_args, .y = y);
    WIDE(clattn_rotary, clattn_rotary_args, .x = x, .y = y);
    WIDE(clattn_rotary, clattn_rotary_args, .x = mat(2, 4, 6), .y = y);
    WIDE(clattn_softmax, clattn_softmax_args, .x = x, .y = y);
    WIDE(clattn_softmax_backward, clattn_softmax_backward_args, .y = x, .d_y = x, .d_x = y);
    WIDE(clattn_sum, clattn_sum_args, .x = x, .y = y);
    WIDE(clattn_cache_append, clattn_cache_append_args, .k = clattn_tensor_slice(x, 0, 0, 1), .k_cache = y,
         .cache_lengths = (const int64_t[]){0});
    WIDE(clattn_cache_append, clattn_cache_append_args, .k = as_type(mat(0, 1, 32), CLATTN_F64),
         .k_cache = as_type(mat(1, 4, 32), CLATTN_Q8_0), .cache_lengths = (const int64_t[]){0});
    clattn_context_destroy(device);
}

Test(errors_ops, activations_and_sums) {
#define ACTIVATE(code, part, ...)                                                                                      \
    REFUSED(clattn_activate_args, clattn_activate(context, &a), code, part,                                            \
            ARGS(.x = mat(0, 3, 4), .up = mat(1, 3, 4), .y = mat(2, 3, 4)), __VA_ARGS__)
    ACTIVATE(CLATTN_E_ARGUMENT, "-1 is no activation", a.activation = (clattn_activation)-1);
    ACTIVATE(CLATTN_E_DTYPE, "x: is i32", a.x = ids(12));
    ACTIVATE(CLATTN_E_SHAPE, "y: rank 9", a.y.rank = 9);
    ACTIVATE(CLATTN_E_SHAPE, "y [4, 3]: differs from x [3, 4]", a.y = mat(2, 4, 3));
    ACTIVATE(CLATTN_E_SHAPE, "y [3]: differs from x", a.y = vec(2, 3));
    ACTIVATE(CLATTN_E_ARGUMENT, "y: shares memory with x; it may be the same view", a.y = a.x, a.y.offset = 1);
    ACTIVATE(CLATTN_E_ARGUMENT, "y: shares memory with up", a.y = a.up, a.y.offset = 1);
    ACTIVATE(CLATTN_E_ARGUMENT, "up: has neither", a.up.host = NULL);
    ACTIVATE(CLATTN_E_SHAPE, "x [2147483647]: axis 0 is too long", a.x = repeated(1, INT32_MAX, 1, 1));
#define ADD(code, part, ...)                                                                                           \
    REFUSED(clattn_add_args, clattn_add(context, &a), code, part,                                                      \
            ARGS(.a = mat(0, 3, 4), .b = mat(1, 3, 4), .y = mat(2, 3, 4)), __VA_ARGS__)
    ADD(CLATTN_E_DTYPE, "a: is i32", a.a = ids(12));
    ADD(CLATTN_E_DTYPE, "y: 99 is no dtype", a.y.dtype = (clattn_dtype)99);
    ADD(CLATTN_E_SHAPE, "y [4, 3]: differs from a", a.y = mat(2, 4, 3));
    ADD(CLATTN_E_ARGUMENT, "y: shares memory with a", a.y = a.a, a.y.offset = 4);
    ADD(CLATTN_E_SHAPE, "b [2, 4]: does not broadcast", a.b = mat(1, 2, 4));
#define SUM(code, part, ...)                                                                                           \
    REFUSED(clattn_sum_args, clattn_sum(context, &a), code, part, ARGS(.x = mat(0, 3, 4), .y = vec(1, 4)), __VA_ARGS__)
    SUM(CLATTN_E_ARGUMENT, "x: is missing", a.x.rank = 0);
    SUM(CLATTN_E_DTYPE, "y: is i32", a.y = ids(4));
    SUM(CLATTN_E_ARGUMENT, "y: shares memory with x", a.y = vec(0, 4));
    SUM(CLATTN_E_SHAPE, "y [3]: does not broadcast", a.y = vec(1, 3));
    SUM(CLATTN_E_LIMIT, "sum over 8 axes: join some", a.x = repeated(8, 2, 2, 2), a.y = vec(1, 1));
    SUM(CLATTN_E_LIMIT, "rows of 4294967296 elements", a.x = repeated(3, 2, 65536, 65536),
        a.y = vast(2, 65536, 65536, 1));
}

/* Of devices: plain loops would take their time. */
Test(errors_ops, sums_of_too_many_rows) {
    clattn_context *device = op_open("opencl");
    FAILS(clattn_sum(device, &(clattn_sum_args){.x = repeated(2, 1 << 20, 1 << 20, 1), .y = vec(1, 1)}), CLATTN_E_LIMIT,
          "1099511627776 rows are too many");
    clattn_context_destroy(device);
}

Test(errors_ops, softmax_norm_and_pool) {
#define SOFTMAX(code, part, ...)                                                                                       \
    REFUSED(clattn_softmax_args, clattn_softmax(context, &a), code, part, ARGS(.x = mat(0, 3, 4), .y = mat(1, 3, 4)),  \
            __VA_ARGS__)
    SOFTMAX(CLATTN_E_DTYPE, "y: is i32", a.y = ids(12));
    SOFTMAX(CLATTN_E_SHAPE, "axis -3 of x", a.has_axis = true, a.axis = -3);
    SOFTMAX(CLATTN_E_SHAPE, "axis 2 of x", a.has_axis = true, a.axis = 2);
#define NORM(code, part, ...)                                                                                          \
    REFUSED(clattn_norm_args, clattn_norm(context, &a), code, part, ARGS(.x = mat(0, 3, 4), .y = mat(1, 3, 4)),        \
            __VA_ARGS__)
    NORM(CLATTN_E_SHAPE, "weight: rank -1", a.weight = clattn_tensor_slice(vec(2, 4), 0, 1, 4));
    NORM(CLATTN_E_ARGUMENT, "2 is no kind of norm", a.kind = (clattn_norm_kind)2);
    NORM(CLATTN_E_ARGUMENT, "epsilon -1", a.epsilon = -1);
    NORM(CLATTN_E_ARGUMENT, "epsilon inf", a.epsilon = (double)INFINITY);
    NORM(CLATTN_E_SHAPE, "-1 axes", a.axes = -1);
    NORM(CLATTN_E_SHAPE, "3 axes", a.axes = 3);
    NORM(CLATTN_E_SHAPE, "mean [3, 4]: should be", a.mean = mat(2, 3, 4));
    NORM(CLATTN_E_SHAPE, "mean [4]: should be", a.mean = vec(2, 4));
    NORM(CLATTN_E_SHAPE, "inv_std [1, 1, 1]: should be", a.inv_std = cube(2, 1, 1, 1));
    NORM(CLATTN_E_LIMIT, "rows of 4294967296 elements", a.x = repeated(3, 2, 65536, 65536),
         a.y = vast(3, 2, 65536, 65536), a.axes = 2);
#define POOL(code, part, ...)                                                                                          \
    REFUSED(clattn_pool_args, clattn_pool(context, &a), code, part, ARGS(.x = cube(0, 2, 3, 4), .y = mat(1, 2, 4)),    \
            __VA_ARGS__)
    POOL(CLATTN_E_DTYPE, "x: is i32", a.x = ids(24));
    POOL(CLATTN_E_DTYPE, "y: is i32", a.y = ids(8));
    POOL(CLATTN_E_SHAPE, "x [2, 4]: should be [B, N, E]", a.x = mat(0, 2, 4));
    POOL(CLATTN_E_SHAPE, "y [4]: should be [2, 4]", a.y = vec(1, 4));
    POOL(CLATTN_E_SHAPE, "y [3, 4]: should be [2, 4]", a.y = mat(1, 3, 4));
    POOL(CLATTN_E_SHAPE, "y [2, 3]: should be [2, 4]", a.y = mat(1, 2, 3));
    POOL(CLATTN_E_ARGUMENT, "y: shares memory with x", a.y = mat(0, 2, 4));
    POOL(CLATTN_E_ARGUMENT, "number 1 is -1", a.lengths = (const int64_t[]){0, -1});
    POOL(CLATTN_E_ARGUMENT, "number 0 is 4; x has 3 rows", a.lengths = (const int64_t[]){4, 0});
}

Test(errors_ops, embeddings_positions_and_random) {
#define EMBED(code, part, ...)                                                                                         \
    REFUSED(clattn_embed_args, clattn_embed(context, &a), code, part,                                                  \
            ARGS(.table = mat(0, 5, 4), .ids = ids(3), .add = vec(1, 4), .y = mat(2, 3, 4)), __VA_ARGS__)
    EMBED(CLATTN_E_ARGUMENT, "scale nan", a.has_scale = true, a.scale = (double)NAN);
    EMBED(CLATTN_E_DTYPE, "table: is i32", a.table = ids(12));
    EMBED(CLATTN_E_SHAPE, "table [4]: should be [V, E]", a.table = vec(0, 4));
    EMBED(CLATTN_E_DTYPE, "ids: is f32", a.ids = vec(3, 3));
    EMBED(CLATTN_E_DTYPE, "y: is i32", a.y = ids(12));
    EMBED(CLATTN_E_SHAPE, "y [3, 3]: should be ids [3] and then 4", a.y = mat(2, 3, 3));
    EMBED(CLATTN_E_SHAPE, "y [2, 4]: should be ids [3]", a.y = mat(2, 2, 4));
    EMBED(CLATTN_E_SHAPE, "y [4]: should be ids [3]", a.y = vec(2, 4));
    EMBED(CLATTN_E_ARGUMENT, "y: shares memory with table", a.y = mat(0, 3, 4));
    EMBED(CLATTN_E_ARGUMENT, "y: shares memory with ids", a.y.host = a.ids.host);
    EMBED(CLATTN_E_DTYPE, "add: is i32", a.add = ids(4));
    EMBED(CLATTN_E_ARGUMENT, "y: shares memory with add", a.add = vec(2, 4));
    EMBED(CLATTN_E_SHAPE, "add [3]: does not broadcast", a.add = vec(1, 3));
    EMBED(CLATTN_E_ARGUMENT, "ids: number 1 is -1, and the table has 5 rows",
          a.ids = clattn_tensor_host(bad_ids, CLATTN_I32, 1, (const int64_t[]){3}));
    EMBED(CLATTN_E_ARGUMENT, "ids: number 0 is 0, and the table has 0 rows", a.table = mat(0, 0, 4));
#define POSITIONS(code, part, ...)                                                                                     \
    REFUSED(clattn_positions_args, clattn_positions(context, &a), code, part, ARGS(.y = mat(0, 3, 4)), __VA_ARGS__)
    POSITIONS(CLATTN_E_DTYPE, "y: is i32", a.y = ids(4));
    POSITIONS(CLATTN_E_SHAPE, "y [3]: should be [N, E]", a.y = vec(0, 3));
    POSITIONS(CLATTN_E_ARGUMENT, "base -1", a.base = -1);
    POSITIONS(CLATTN_E_ARGUMENT, "base inf", a.base = (double)INFINITY);
    POSITIONS(CLATTN_E_ARGUMENT, "reach beyond the 2^53", a.start = ((int64_t)1 << 53) - 2);
    POSITIONS(CLATTN_E_ARGUMENT, "reach beyond the 2^53", a.start = -((int64_t)1 << 53) - 1);
    REFUSED(clattn_random_args, clattn_random(context, &a), CLATTN_E_ARGUMENT, "2 is no distribution",
            ARGS(.y = mat(0, 3, 4)), a.distribution = (clattn_distribution)2);
    REFUSED(clattn_random_args, clattn_random(context, &a), CLATTN_E_DTYPE, "y: is i32", ARGS(.y = ids(4)), (void)a);
}

Test(errors_ops, rotary_embedding) {
    const int64_t far = ((int64_t)1 << 53) + 1;
#define ROTARY(code, part, ...)                                                                                        \
    REFUSED(clattn_rotary_args, clattn_rotary(context, &a), code, part,                                                \
            ARGS(.x = cube(0, 2, 3, 4), .y = cube(1, 2, 3, 4)), __VA_ARGS__)
    ROTARY(CLATTN_E_SHAPE, "x [24]: rank 1; it has rank 2 to 4", a.x = vec(0, 24));
    ROTARY(CLATTN_E_SHAPE, "x [2, 2, 2, 3, 4]: rank 5", a.x = repeated(5, 2, 3, 4));
    ROTARY(CLATTN_E_DTYPE, "y: is i32", a.y = ids(24));
    ROTARY(CLATTN_E_SHAPE, "differs from x", a.y = cube(1, 2, 4, 3));
    ROTARY(CLATTN_E_ARGUMENT, "y: shares memory with x", a.y = a.x, a.y.offset = 4);
    ROTARY(CLATTN_E_ARGUMENT, "offsets and positions; give one", a.offsets = a.positions = (const int64_t[]){0, 1, 2});
    ROTARY(CLATTN_E_SHAPE, "6 dims of a head dim of 4", a.options.dims = 6);
    ROTARY(CLATTN_E_SHAPE, "3 dims of", a.options.dims = 3);
    ROTARY(CLATTN_E_SHAPE, "-2 dims of", a.options.dims = -2);
    ROTARY(CLATTN_E_ARGUMENT, "2 is no way to pair dims", a.options.pairs = (clattn_rotary_pairs)2);
    ROTARY(CLATTN_E_ARGUMENT, "base -1", a.options.base = -1);
    ROTARY(CLATTN_E_ARGUMENT, "base inf", a.options.base = (double)INFINITY);
    ROTARY(CLATTN_E_ARGUMENT, "frequency 1 is nan", a.options.frequencies = (const double[]){1, (double)NAN});
    ROTARY(CLATTN_E_ARGUMENT, "offsets: number 0 is 9007199254740993", a.offsets = &far);
    ROTARY(CLATTN_E_ARGUMENT, "positions: number 2 is -9007199254740993", a.positions = (const int64_t[]){0, 1, -far});
#define TABLES(code, part, ...)                                                                                        \
    REFUSED(clattn_rotary_args, clattn_rotary(context, &a), code, part,                                                \
            ARGS(.x = four(0, 2, 2, 3, 4), .y = four(1, 2, 2, 3, 4), .cos = mat(2, 5, 2), .sin = mat(3, 5, 2)),        \
            __VA_ARGS__)
    TABLES(CLATTN_E_ARGUMENT, "cos: is missing", a.cos.rank = 0);
    TABLES(CLATTN_E_ARGUMENT, "sin: is missing", a.sin.rank = 0);
    TABLES(CLATTN_E_DTYPE, "cos: is i32", a.cos = ids(4));
    TABLES(CLATTN_E_SHAPE, "sin [1, 3, 2]: should be", a.sin = cube(3, 1, 3, 2));
    TABLES(CLATTN_E_SHAPE, "cos [1, 1, 3, 2]: should be", a.cos = a.sin = four(2, 1, 1, 3, 2));
    TABLES(CLATTN_E_SHAPE, "cos [5, 3]: should be", a.cos = mat(2, 5, 3));
    TABLES(CLATTN_E_SHAPE, "a row for each of x", a.cos = a.sin = cube(2, 3, 3, 2));
    TABLES(CLATTN_E_SHAPE, "a row for each of x", a.cos = a.sin = cube(2, 2, 4, 2));
    TABLES(CLATTN_E_ARGUMENT, "y: shares memory with sin", a.sin = mat(1, 5, 2));
    TABLES(CLATTN_E_ARGUMENT, "are looked up in tables of rank 2", a.cos = a.sin = cube(2, 2, 3, 2),
           a.offsets = (const int64_t[]){0, 0});
    TABLES(CLATTN_E_ARGUMENT, "are looked up in tables of rank 2", a.cos = a.sin = cube(2, 2, 3, 2),
           a.positions = (const int64_t[]){0, 0, 0, 0, 0, 0});
    TABLES(CLATTN_E_ARGUMENT, "row 0 of batch 0 stands at -1", a.offsets = (const int64_t[]){-1, 0});
    TABLES(CLATTN_E_ARGUMENT, "row 2 of batch 1 stands at 5, and the tables have 5",
           a.offsets = (const int64_t[]){0, 3});
    TABLES(CLATTN_E_ARGUMENT, "row 2 of batch 0 stands at 2, and the tables have 2", a.sin = mat(3, 2, 2));
    const clattn_rotary_options plain = {.dims = 0};
    double *table = NULL;
    FAILS(cla_rotary_table(&plain, 1 << 30, NULL, INT64_MAX / 2, &table), CLATTN_E_MEMORY, "angles are too many");
    FAILS(cla_rotary_table(&plain, 1 << 30, NULL, (int64_t)1 << 32, &table), CLATTN_E_MEMORY, "angles are too many");
}

Test(errors_ops, appending_to_caches) {
    static const int64_t none[] = {0, 0};
#define APPEND(code, part, ...)                                                                                        \
    REFUSED(clattn_cache_append_args, clattn_cache_append(context, &a), code, part,                                    \
            ARGS(.k = four(0, 2, 2, 3, 4), .v = four(1, 2, 2, 3, 6), .k_cache = four(2, 2, 2, 5, 4),                   \
                 .v_cache = four(3, 2, 2, 5, 6), .cache_lengths = none),                                               \
            __VA_ARGS__)
    APPEND(CLATTN_E_ARGUMENT, "k_cache: is missing, and k is given", a.k_cache.rank = 0);
    APPEND(CLATTN_E_ARGUMENT, "v: is missing, and v_cache is given", a.v.rank = 0);
    APPEND(CLATTN_E_DTYPE, "k: is i32", a.k = ids(48));
    APPEND(CLATTN_E_DTYPE, "v_cache: is i32", a.v_cache = ids(48));
    APPEND(CLATTN_E_SHAPE, "k_cache [2, 1, 5, 4]: heads, dims or batch", a.k_cache = four(2, 2, 1, 5, 4));
    APPEND(CLATTN_E_SHAPE, "k_cache [2, 2, 5, 2]: heads, dims or batch", a.k_cache = four(2, 2, 2, 5, 2));
    APPEND(CLATTN_E_SHAPE, "k_cache [1, 2, 5, 4]: heads, dims or batch", a.k_cache = four(2, 1, 2, 5, 4));
    APPEND(CLATTN_E_ARGUMENT, "neither k nor v", a.k.rank = a.v.rank = a.k_cache.rank = a.v_cache.rank = 0);
    APPEND(CLATTN_E_SHAPE, "v: [1, 2, 3]", a.v = four(1, 1, 2, 3, 6), a.v_cache = four(3, 1, 2, 5, 6));
    APPEND(CLATTN_E_SHAPE, "v: [2, 1, 3]", a.v = four(1, 2, 1, 3, 6), a.v_cache = four(3, 2, 1, 5, 6));
    APPEND(CLATTN_E_SHAPE, "v: [2, 2, 2]", a.v = four(1, 2, 2, 2, 6));
    APPEND(CLATTN_E_SHAPE, "v_cache: 2 x 4 slots, and k_cache has 2 x 5", a.v_cache = four(3, 2, 2, 4, 6));
    APPEND(CLATTN_E_ARGUMENT, "v_cache: lies over k_cache", a.v_cache = four(2, 2, 2, 5, 6));
    APPEND(CLATTN_E_ARGUMENT, "k_cache: shares memory with v", a.v = four(2, 2, 2, 3, 6));
    APPEND(CLATTN_E_ARGUMENT, "block_table: is NULL, and table_pages 1", a.table_pages = 1);
    APPEND(CLATTN_E_ARGUMENT, "cache_lengths: are missing", a.cache_lengths = NULL);
    APPEND(CLATTN_E_SHAPE, "cache_lengths: batch 1 has -1", a.cache_lengths = (const int64_t[]){0, -1});
    APPEND(CLATTN_E_SHAPE, "cache_lengths: batch 0 has 6, outside 0 to 5", a.cache_lengths = (const int64_t[]){6, 0});
    APPEND(CLATTN_E_SHAPE, "new_lengths: batch 1 has -1", a.new_lengths = (const int64_t[]){0, -1});
    APPEND(CLATTN_E_SHAPE, "new_lengths: batch 0 has 4, outside 0 to 3", a.new_lengths = (const int64_t[]){4, 0});
    APPEND(CLATTN_E_LIMIT, "batch 1 holds 3 of 5 slots, and 3 rows", a.cache_lengths = (const int64_t[]){0, 3});
    APPEND(CLATTN_E_ARGUMENT, "q: is given, and rotate is not set", a.q = four(4, 2, 2, 3, 4));
    APPEND(CLATTN_E_ARGUMENT, "cos: is given, and rotate is not set", a.sin = mat(4, 5, 2));
    APPEND(CLATTN_E_UNSUPPORTED, "clattn_rotary_options: reserved[0]", a.rotary.reserved[0] = 1);
    APPEND(CLATTN_E_ARGUMENT, "no k to rotate", a.rotate = true, a.k.rank = a.k_cache.rank = 0);
#define PAGES(code, part, ...)                                                                                         \
    APPEND(code, part, a.block_table = (const int32_t[]){0, 1}, a.table_pages = 1, __VA_ARGS__)
    PAGES(CLATTN_E_SHAPE, "k_cache: rank 3; in pages it has rank 4", a.k_cache = cube(2, 2, 5, 4));
    PAGES(CLATTN_E_SHAPE, "v_cache: 3 x 5 slots", a.v_cache = four(3, 3, 2, 5, 6));
    PAGES(CLATTN_E_SHAPE, "block_table: -1 pages", a.table_pages = -1);
    PAGES(CLATTN_E_SHAPE, "block_table: 1 pages of 0 slots", a.k_cache = four(2, 2, 2, 0, 4),
          a.v_cache = four(3, 2, 2, 0, 6));
    PAGES(CLATTN_E_SHAPE, "block_table: 9223372036854775807 pages", a.table_pages = INT64_MAX);
    PAGES(CLATTN_E_ARGUMENT, "block_table: batch 1 writes to entry 0, and it is -1",
          a.block_table = (const int32_t[]){0, -1});
    PAGES(CLATTN_E_ARGUMENT, "block_table: batch 0 writes to entry 0, and it is 2, outside 0 to 1",
          a.block_table = (const int32_t[]){2, 1});
    PAGES(CLATTN_E_ARGUMENT, "page 1 is written for two entries", a.block_table = (const int32_t[]){1, 1});
#define ROTATED(code, part, ...)                                                                                       \
    APPEND(code, part, a.rotate = true, a.q = four(4, 2, 3, 3, 4), a.cos = mat(5, 5, 2), a.sin = mat(6, 5, 2),         \
           __VA_ARGS__)
    ROTATED(CLATTN_E_DTYPE, "q: is i32", a.q = ids(48));
    ROTATED(CLATTN_E_SHAPE, "q [1, 3, 3, 4]: should be", a.q = four(4, 1, 3, 3, 4));
    ROTATED(CLATTN_E_SHAPE, "q [2, 3, 2, 4]: should be", a.q = four(4, 2, 3, 2, 4));
    ROTATED(CLATTN_E_SHAPE, "q [2, 3, 3, 2]: should be", a.q = four(4, 2, 3, 3, 2));
    ROTATED(CLATTN_E_SHAPE, "q [2, 3, 3, 4]: should be [2, heads, 3, 0]", a.k.rank = a.k_cache.rank = 0);
    ROTATED(CLATTN_E_ARGUMENT, "q: shares elements with v", a.q = four(1, 2, 3, 3, 4));
    ROTATED(CLATTN_E_ARGUMENT, "q: shares memory with v_cache", a.q = four(3, 2, 3, 3, 4));
    ROTATED(CLATTN_E_SHAPE, "3 dims of a head dim of 4", a.rotary.dims = 3);
    ROTATED(CLATTN_E_ARGUMENT, "offsets: number 1 is", a.offsets = (const int64_t[]){0, INT64_MAX});
    ROTATED(CLATTN_E_ARGUMENT, "cos: is missing", a.cos.rank = 0);
    ROTATED(CLATTN_E_ARGUMENT, "sin: is missing", a.sin.rank = 0);
    ROTATED(CLATTN_E_SHAPE, "cos [1, 5, 2]: should be [positions, 2]", a.cos = cube(5, 1, 5, 2));
    ROTATED(CLATTN_E_SHAPE, "sin [5, 1]: should be [positions, 2]", a.sin = mat(6, 5, 1));
    ROTATED(CLATTN_E_ARGUMENT, "k_cache: shares memory with cos", a.cos = mat(2, 5, 2));
    ROTATED(CLATTN_E_ARGUMENT, "q: shares memory with sin", a.sin = mat(4, 5, 2));
    ROTATED(CLATTN_E_ARGUMENT, "row 0 of batch 0 stands at -1", a.offsets = (const int64_t[]){-1, -1});
    ROTATED(CLATTN_E_ARGUMENT, "row 2 of batch 1 stands at 5, and the tables have 5",
            a.offsets = (const int64_t[]){0, 3});
    ROTATED(CLATTN_E_ARGUMENT, "row 2 of batch 0 stands at 2, and the tables have 2", a.sin = mat(6, 2, 2));
}
