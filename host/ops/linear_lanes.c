/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers by linear.cl and gemv.cl: blocks by the device's vectors, work-items by its cores. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/linear.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

/* Register blocks, by lanes of a vector: with 16 lanes there are 32 registers, else 16. Private memory of a work-item,
 * in KiB: a panel of W, which should stay in the second cache (1 MiB or more where there are 16 lanes), and sums. Of W,
 * panel_kib at a time are laid out where not all fits; each row of sums takes as much as a term. */
typedef struct {
    int lanes, rows, vectors, room_kib, panel_kib;
} blocks;
static const blocks block_table[] = {{16, 8, 3, 512, 216}, {8, 4, 3, 224, 96}, {4, 4, 3, 224, 96}};

/* Work-items: FEW a core are reason enough not to cut rows into more blocks, MANY a core share the work evenly. */
enum { MOST_ROWS = 768, FEW = 4, MANY = 16, ROWS_AT_LEAST = 32, CONVERTED = 16384 };
/* gemv: rows of x together at most; numbers of W of a work-item at least: a second thread takes 10 us to join in. */
enum { TOKENS = 8, PIECE = 40000, PIECES_A_CORE = 32 };

static const blocks *blocks_for(const clattn_device_info *device, clattn_dtype dtype) {
    const int width = (int)device->vector_floats / (dtype == CLATTN_F64 ? 2 : 1);
    const size_t last = sizeof block_table / sizeof *block_table - 1;
    for (size_t i = 0; i < last; i++)
        if (width >= block_table[i].lanes)
            return &block_table[i];
    return &block_table[last];
}

static cla_key key_of(const char *file, const char *kernel, clattn_dtype dtype, int lanes, bool staged) {
    cla_key key = cla_key_make(file, kernel);
    key.helper = "lanes.clh";
    key.more_helpers[0] = "act.clh";
    key.more_helpers[1] = "linear.clh";
    cla_key_define(&key, "REAL", dtype == CLATTN_F64 ? 64 : 32);
    cla_key_define(&key, "LANES", lanes);
    cla_key_define(&key, "STAGED", staged);
    return key;
}

static clattn_status launch(clattn_context *context, const cla_key *key, const cla_linear *a,
                            const cla_linear_args *args, int64_t groups) {
    clattn_status status = CLATTN_OK;
    cla_kernel *kernel = NULL;
    const cla_arg list[] = {CLA_ARG_BUFFER(a->x.buffer), CLA_ARG_BUFFER(a->w.buffer), CLA_ARG_BUFFER(a->bias.buffer),
                            CLA_ARG_BUFFER(a->y.buffer), CLA_ARG_VALUE(*args)};
    CLA_TRY(cla_kernel_create(context, key, 1, &kernel));
    CLA_TRY(cla_launch(context, kernel, groups, list, 5));
done:
    cla_kernel_destroy(kernel);
    return status;
}

/* x as dense rows of the type of the sums, in *scratch. */
static clattn_status convert_rows(clattn_context *context, cla_linear *a, int lanes, clattn_buffer **scratch) {
    clattn_status status = CLATTN_OK;
    cla_kernel *kernel = NULL;
    cla_linear_args args = cla_linear_args_of(a);
    cla_key key = key_of("linear_parts.cl", "linear_rows", a->dtype, lanes, true);
    const int64_t shape[] = {1, 1, a->M, a->K};
    cla_key_define(&key, "WG", 1);
    CLA_TRY(clattn_buffer_create(context, (size_t)(a->M * a->K) * clattn_dtype_size(a->dtype), scratch));
    CLA_TRY(cla_kernel_create(context, &key, 1, &kernel));
    args.rows = (cl_int)cla_max(1, CONVERTED / cla_max(a->K, 1));
    const cla_arg list[] = {CLA_ARG_BUFFER(a->x.buffer), CLA_ARG_BUFFER(*scratch), CLA_ARG_VALUE(args)};
    CLA_TRY(cla_launch(context, kernel, cla_ceil_div(a->M, args.rows), list, 3));
    a->x = clattn_tensor_buffer(*scratch, a->dtype, 4, shape);
    const int64_t *n = a->y.shape;
    a->x.shape[0] = n[0], a->x.shape[1] = n[1], a->x.shape[2] = n[2];
    a->x.stride[0] = n[1] * n[2] * a->K, a->x.stride[1] = n[2] * a->K;
done:
    cla_kernel_destroy(kernel);
    return status;
}

/* Rows, columns and terms of a work-item: few blocks of rows, since each lays W out again, but enough for every core.
 */
static int64_t share(const clattn_device_info *device, const blocks *x, int64_t room, cla_linear_args *args) {
    const int64_t few = FEW * (int64_t)device->compute_units, many = MANY * (int64_t)device->compute_units;
    const int64_t width = x->lanes * x->vectors;
    const int64_t panels = cla_ceil_div(args->N, width), most_terms = room * x->panel_kib / x->room_kib;
    const bool whole = args->K <= room - x->rows;
    const int64_t passes = whole ? 1 : cla_ceil_div(args->K, most_terms);
    const int64_t terms = whole ? cla_max(args->K, 1) : cla_round_up(cla_ceil_div(args->K, passes), 32);
    const int64_t most_rows = whole ? MOST_ROWS : cla_min(MOST_ROWS, (room - terms) / x->rows * x->rows);
    int64_t row_blocks = cla_ceil_div(args->M, most_rows);
    if (row_blocks * panels < few)
        row_blocks = cla_max(row_blocks, cla_min(cla_ceil_div(few, panels), args->M / ROWS_AT_LEAST));
    const int64_t splits = cla_min(panels, cla_ceil_div(many, row_blocks));
    args->terms = (cl_int)terms;
    args->rows = (cl_int)cla_round_up(cla_ceil_div(args->M, row_blocks), x->rows);
    args->row_blocks = (cl_int)cla_ceil_div(args->M, args->rows);
    args->panels = (cl_int)cla_ceil_div(panels, splits);
    return args->row_blocks * cla_ceil_div(panels, args->panels);
}

clattn_status cla_linear_lanes(clattn_context *context, const cla_linear *given) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    const blocks *x = blocks_for(device, given->dtype);
    const int width = x->lanes * x->vectors * (int)clattn_dtype_size(given->dtype), room = x->room_kib * 1024 / width;
    cla_linear a = *given;
    clattn_buffer *scratch = NULL;
    const bool staged =
        a.w.dtype != a.dtype || a.y.dtype != a.dtype || (cla_present(&a.bias) && a.bias.dtype != a.dtype);
    if (a.x.dtype != a.dtype && a.K > 0)
        CLA_TRY(convert_rows(context, &a, x->lanes, &scratch));
    cla_key key = key_of("linear.cl", "linear", a.dtype, x->lanes, staged);
    cla_key_define(&key, "MR", x->rows);
    cla_key_define(&key, "NV", x->vectors);
    cla_key_define(&key, "ROWS", MOST_ROWS);
    cla_key_define(&key, "ROOM", room);
    cla_linear_args args = cla_linear_args_of(&a);
    const int64_t groups = share(device, x, room, &args);
    CLA_TRY(launch(context, &key, &a, &args, groups));
done:
    clattn_buffer_destroy(scratch);
    return status;
}

clattn_status cla_linear_gemv(clattn_context *context, const cla_linear *given) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    const int lanes = blocks_for(device, given->dtype)->lanes;
    cla_linear a = *given;
    clattn_buffer *scratch = NULL;
    int tokens = 1;
    if ((a.x.dtype != a.dtype || a.x.stride[3] != 1) && a.K > 0)
        CLA_TRY(convert_rows(context, &a, lanes, &scratch));
    while (tokens < TOKENS && tokens < a.M)
        tokens *= 2;
    cla_key key = key_of("gemv.cl", "gemv", a.dtype, lanes, true);
    cla_key_define(&key, "STORAGE", (int64_t)a.w.dtype);
    cla_key_define(&key, "TOKENS", tokens);
    cla_linear_args args = cla_linear_args_of(&a);
    const int64_t columns = cla_ceil_div(a.N, lanes), cores = (int64_t)device->compute_units;
    const int64_t work = cla_ceil_div(a.M, tokens) * a.N * (a.gated ? 2 : 1) * a.K;
    const int64_t wanted = cla_max(1, cla_min(PIECES_A_CORE * cores, work / PIECE));
    args.row_blocks = 1;
    args.rows = (cl_int)a.M;
    args.panels = (cl_int)cla_ceil_div(columns, wanted);
    CLA_TRY(launch(context, &key, &a, &args, cla_ceil_div(columns, args.panels)));
done:
    clattn_buffer_destroy(scratch);
    return status;
}
