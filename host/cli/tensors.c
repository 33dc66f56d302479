/* SPDX-License-Identifier: Apache-2.0 */
#include "tensors.h"

#include "args.h"
#include "call_facts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const cla_layout_names[] = {"", "bhsd", "bshd", "bse", "sd", NULL};

const char *cla_dims_text(int rank, const int64_t *shape, char *text, size_t size) {
    size_t at = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < rank && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (at < size)
        snprintf(text + at, size - at, "]");
    return text;
}

int cla_input_load(cla_input *input, const char *name, const char *spec) {
    *input = (cla_input){.name = name, .spec = spec};
    const clattn_status status = clattn_array_load(spec, &input->array);
    if (status == CLATTN_E_IO) /* an input that cannot be read is wrong use */
        return cla_fail(CLA_EXIT_USAGE, "%s: %s", name, clattn_last_error());
    if (status != CLATTN_OK)
        return cla_fail_status(status, name);
    input->view = clattn_array_tensor(&input->array);
    return CLA_EXIT_OK;
}

/* ---- q, k, v ---- */

/* Leading axes of size 1 up to rank 4. */
static clattn_tensor lift(const clattn_tensor *t) {
    clattn_tensor r = *t;
    const int more = 4 - t->rank;
    r.rank = 4;
    for (int i = 3; i >= 0; i--) {
        r.shape[i] = i >= more ? t->shape[i - more] : 1;
        r.stride[i] = i >= more ? t->stride[i - more] : 0;
    }
    return r;
}

static int fail_rank(const cla_input *input, cla_layout layout) {
    static const char *const wanted[] = {
        "rank 2 [S, D], 3 [H, S, D] or 4 [B, H, S, D]", "rank 2 [S, D], 3 [H, S, D] or 4 [B, H, S, D]",
        "rank 3 [S, H, D] or 4 [B, S, H, D]", "rank 2 [S, E] or 3 [B, S, E]", "rank 2 [S, D]"};
    char text[200];
    return cla_fail(CLA_EXIT_USAGE, "%s (%s) is %s, rank %d; %s%s takes %s", input->name, input->spec,
                    cla_dims_text(input->array.rank, input->array.shape, text, sizeof text), input->array.rank,
                    layout == CLA_LAYOUT_UNSET ? "attention" : "--layout ", cla_layout_names[layout], wanted[layout]);
}

/* [.., S, E] as [.., H, S, D]. */
static int view_side_by_side(cla_input *input, int64_t heads) {
    const clattn_tensor t = input->view;
    const int64_t columns = t.shape[t.rank - 1];
    if (heads == 0)
        return cla_fail(CLA_EXIT_USAGE, "%s (%s): --layout bse needs --heads H, to split its %lld columns", input->name,
                        input->spec, (long long)columns);
    if (columns % heads != 0)
        return cla_fail(CLA_EXIT_USAGE,
                        "%s (%s): its %lld columns do not divide into %lld heads; --heads H/HK takes "
                        "divisors: H of q's columns, HK of k's and v's",
                        input->name, input->spec, (long long)columns, (long long)heads);
    clattn_tensor split = clattn_tensor_split(t, t.rank - 1, heads);
    split = lift(&split);
    input->view = clattn_tensor_permute(split, (const int[]){0, 2, 1, 3});
    return CLA_EXIT_OK;
}

int cla_input_view(cla_input *input, cla_layout layout, int64_t heads) {
    const int rank = input->array.rank;
    static const int least[] = {2, 2, 3, 2, 2}, most[] = {4, 4, 4, 3, 2};
    if (rank < least[layout] || rank > most[layout])
        return fail_rank(input, layout);
    if (layout == CLA_LAYOUT_UNSET && heads > 0 && rank == 3)
        return cla_fail(CLA_EXIT_USAGE,
                        "%s (%s) has rank 3: with --heads say --layout bse for [B, S, E], or leave "
                        "--heads away for [H, S, D]",
                        input->name, input->spec);
    if (layout == CLA_LAYOUT_BSE || (layout == CLA_LAYOUT_UNSET && rank == 2 && heads > 0))
        return view_side_by_side(input, heads);
    input->view = lift(&input->view);
    if (layout == CLA_LAYOUT_BSHD)
        input->view = clattn_tensor_permute(input->view, (const int[]){0, 2, 1, 3});
    if (heads > 0 && input->view.shape[1] != heads) {
        char text[200];
        return cla_fail(CLA_EXIT_USAGE, "%s (%s) is %s with %lld heads, but --heads says %lld", input->name,
                        input->spec, cla_dims_text(rank, input->array.shape, text, sizeof text),
                        (long long)input->view.shape[1], (long long)heads);
    }
    return CLA_EXIT_OK;
}

int cla_inputs_check(const cla_input *q, const cla_input *k, const cla_input *v) {
    const cla_input *const all[] = {q, k, v};
    for (int i = 0; i < 3; i++)
        if (!cla_is_float(all[i]->array.dtype))
            return cla_fail(CLA_EXIT_USAGE,
                            "%s (%s) is %s; attention takes f32, f64, f16 and bf16: convert it, in Python: "
                            "%s.astype('float32')",
                            all[i]->name, all[i]->spec, clattn_dtype_name(all[i]->array.dtype), all[i]->name);
    return CLA_EXIT_OK;
}

int cla_input_retype(cla_input *input, clattn_dtype dtype) {
    clattn_array other;
    if (input->array.dtype == dtype)
        return CLA_EXIT_OK;
    const clattn_status status = clattn_array_convert(&input->array, dtype, &other);
    if (status != CLATTN_OK)
        return cla_fail(cla_exit_of(status), "--kv-type %s: %s (%s): %s", clattn_dtype_name(dtype), input->name,
                        input->spec, clattn_last_error());
    clattn_array_free(&input->array);
    input->array = other;
    input->view = clattn_array_tensor(&input->array);
    return CLA_EXIT_OK;
}

int cla_ranks_check(const cla_input *q, const cla_input *k, const cla_input *v) {
    if (k->array.rank != q->array.rank || v->array.rank != q->array.rank)
        return cla_fail(CLA_EXIT_USAGE, "q (%s) has rank %d, k (%s) %d, v (%s) %d: they must have the same rank",
                        q->spec, q->array.rank, k->spec, k->array.rank, v->spec, v->array.rank);
    return CLA_EXIT_OK;
}

/* ---- masks ---- */

static int check_mask_rank(const cla_input *mask) {
    char text[200];
    if (mask->array.rank >= 2 && mask->array.rank <= 4)
        return CLA_EXIT_OK;
    return cla_fail(CLA_EXIT_USAGE,
                    "%s (%s) is %s, rank %d; it takes rank 2 [N, M], 3 [H, N, M] or 4 [B, H, N, M], "
                    "each axis the full size or 1",
                    mask->name, mask->spec, cla_dims_text(mask->array.rank, mask->array.shape, text, sizeof text),
                    mask->array.rank);
}

int cla_mask_check(cla_input *mask) {
    const clattn_dtype dtype = mask->array.dtype;
    if (cla_is_float(dtype))
        return cla_fail(CLA_EXIT_USAGE,
                        "%s (%s) is %s; --%s takes bool or u8. Numbers that are added to the scores go "
                        "to --bias",
                        mask->name, mask->spec, clattn_dtype_name(dtype), mask->name);
    if (dtype != CLATTN_BOOL && dtype != CLATTN_U8)
        return cla_fail(CLA_EXIT_USAGE,
                        "%s (%s) is %s; --%s takes bool or u8: convert it, in Python: "
                        "mask.astype('bool')",
                        mask->name, mask->spec, clattn_dtype_name(dtype), mask->name);
    return check_mask_rank(mask);
}

int cla_bias_check(cla_input *bias) {
    const clattn_dtype dtype = bias->array.dtype;
    if (dtype == CLATTN_BOOL || dtype == CLATTN_U8)
        return cla_fail(CLA_EXIT_USAGE,
                        "bias (%s) is %s; --bias takes numbers that are added to the scores. A mask goes to "
                        "--keep (nonzero = may be seen) or --drop (nonzero = may not)",
                        bias->spec, clattn_dtype_name(dtype));
    if (!cla_is_float(dtype))
        return cla_fail(CLA_EXIT_USAGE,
                        "bias (%s) is %s; --bias takes f32, f64, f16 and bf16: convert it, in Python: "
                        "bias.astype('float32')",
                        bias->spec, clattn_dtype_name(dtype));
    return check_mask_rank(bias);
}
