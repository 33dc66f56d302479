/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays for results: o in the layout of q, the others with the axes that q has. */
#include "tensors.h"

#include "args.h"

/* Whether the file's last axis holds the heads side by side. */
static bool side_by_side(const cla_input *q, cla_layout layout) {
    return layout == CLA_LAYOUT_BSE || (layout == CLA_LAYOUT_UNSET && q->array.rank == 2 && q->view.shape[1] != 1);
}

int cla_output_create(const cla_input *q, cla_layout layout, clattn_dtype dtype, int64_t value_dim, clattn_array *array,
                      clattn_tensor *view) {
    const int rank = q->array.rank;
    const int64_t heads = q->view.shape[1];
    const bool merged = side_by_side(q, layout);
    int64_t shape[4];
    for (int i = 0; i < rank; i++)
        shape[i] = q->array.shape[i];
    if (merged && heads > 0 && value_dim > INT64_MAX / heads)
        return cla_fail(CLA_EXIT_USAGE, "o: %lld heads of %lld columns are too many", (long long)heads,
                        (long long)value_dim);
    shape[rank - 1] = merged ? heads * value_dim : value_dim;
    const clattn_status status = clattn_array_create(dtype, rank, shape, array);
    if (status != CLATTN_OK)
        return cla_fail_status(status, "o");
    cla_input o = {.name = "o", .spec = "output", .array = *array, .view = clattn_array_tensor(array)};
    const int exit_status = cla_input_view(&o, layout, merged ? heads : 0);
    *view = o.view;
    return exit_status;
}

int cla_extra_create(const char *name, const cla_input *q, cla_layout layout, clattn_dtype dtype, int rank,
                     const int64_t *shape, clattn_array *array, clattn_tensor *view) {
    const int dropped = 4 - q->array.rank - (side_by_side(q, layout) ? 1 : 0);
    const clattn_status status = clattn_array_create(dtype, rank - dropped, shape + dropped, array);
    if (status != CLATTN_OK)
        return cla_fail_status(status, name);
    *view = clattn_tensor_host(array->data, array->dtype, rank, shape);
    return CLA_EXIT_OK;
}
