/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of linear layers: two products that clattn_linear computes of transposed views, and sums over rows. */
#include "base/error.h"
#include "ops/copy.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "ops/sums.h"
#include "runtime/buffer.h"
#include "tensor/view.h"
#include "tensor/walk.h"
#include <string.h>

/* The caller's tensors; outputs from D_X on. */
enum { X, W, Z, D_Y, D_X, D_W, D_BIAS, TENSORS };
static const char *const names[TENSORS] = {"x", "w", "z", "d_y", "d_x", "d_w", "d_bias"};
enum { SCRATCH = 5 };

typedef struct {
    clattn_tensor t[TENSORS];
    clattn_activation activation;
    bool accumulate;
    const char *algorithm;
    int64_t M, N, K;
    clattn_dtype dtype;
    clattn_buffer *scratch[SCRATCH];
    int used;
} linear;

/* ---- checks ---- */

/* Of d_y's shape, but for the last axis. */
static clattn_status check_rows(const linear *a, int i, int64_t columns) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    const clattn_tensor *t = &a->t[i], *d_y = &a->t[D_Y];
    bool fits = t->rank == d_y->rank && t->shape[t->rank - 1] == columns;
    for (int k = 0; fits && k + 1 < t->rank; k++)
        fits = t->shape[k] == d_y->shape[k];
    CLA_CHECK(fits, CLATTN_E_SHAPE, "%s %s: should be d_y %s with a last axis of %lld", names[i],
              cla_shape_text(t, text, sizeof text), cla_shape_text(d_y, other, sizeof other), (long long)columns);
done:
    return status;
}

static clattn_status check_shapes(linear *a) {
    clattn_status status = CLATTN_OK;
    char text[200];
    const clattn_tensor *d_y = &a->t[D_Y];
    CLA_CHECK(d_y->rank <= 4, CLATTN_E_SHAPE, "d_y %s: rank %d; it has rank 1 to 4",
              cla_shape_text(d_y, text, sizeof text), d_y->rank);
    a->N = d_y->shape[d_y->rank - 1];
    a->M = 1;
    for (int i = 0; i + 1 < d_y->rank; i++) { /* no axis is longer than that */
        a->M *= d_y->shape[i];
        CLA_CHECK(a->M <= CLA_WALK_MOST, CLATTN_E_SHAPE, "d_y %s: more than %d rows",
                  cla_shape_text(d_y, text, sizeof text), CLA_WALK_MOST);
    }
    const clattn_tensor *of_k = cla_present(&a->t[D_X]) ? &a->t[D_X] : &a->t[D_W];
    a->K = cla_present(of_k) ? of_k->shape[of_k->rank - 1] : 0;
    for (int i = X; i < TENSORS; i++) {
        const clattn_tensor *t = &a->t[i];
        if (!cla_present(t) || i == D_Y)
            continue;
        if (i == X || i == D_X || i == Z)
            CLA_TRY(check_rows(a, i, i == Z ? a->N : a->K));
        else if (i == D_BIAS)
            CLA_CHECK(t->rank == 1 && t->shape[0] == a->N, CLATTN_E_SHAPE, "d_bias %s: should be [%lld], as d_y has it",
                      cla_shape_text(t, text, sizeof text), (long long)a->N);
        else
            CLA_CHECK(t->rank == 2 && t->shape[0] == a->N && t->shape[1] == a->K, CLATTN_E_SHAPE,
                      "%s %s: should be [%lld, %lld]; a matrix [K, N] needs clattn_tensor_permute", names[i],
                      cla_shape_text(t, text, sizeof text), (long long)a->N, (long long)a->K);
    }
done:
    return status;
}

static clattn_status check_apart(const linear *a) {
    clattn_status status = CLATTN_OK;
    for (int out = D_X; out < TENSORS; out++)
        for (int in = X; in < out; in++)
            if (cla_present(&a->t[in]) && cla_present(&a->t[out]))
                CLA_TRY(cla_operand_apart(&a->t[in], names[in], &a->t[out], names[out]));
done:
    return status;
}

static clattn_status take(clattn_context *context, const clattn_linear_backward_args *args, linear *a) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor given[TENSORS] = {args->x, args->w, args->z, args->d_y, args->d_x, args->d_w, args->d_bias};
    const bool activated = args->activation != CLATTN_ACTIVATION_NONE;
    const bool needed[TENSORS] = {args->d_w.rank != 0, args->d_x.rank != 0, activated, true};
    clattn_tensor *all[TENSORS];
    CLA_CHECK((unsigned)args->activation <= CLATTN_ACTIVATION_SILU, CLATTN_E_ARGUMENT,
              "linear_backward: %d is no activation", (int)args->activation);
    for (int i = 0; i < TENSORS; i++) {
        all[i] = &a->t[i];
        if (i < D_X && !needed[i]) /* what is not read need not be there, nor be right */
            continue;
        a->t[i] = given[i];
        if (i < D_X || given[i].rank != 0)
            CLA_TRY(cla_operand_check(context, &given[i], names[i],
                                      i < D_X ? CLA_OPERAND_FLOATS : cla_operand_sum(i > D_X && args->accumulate)));
    }
    a->activation = args->activation;
    a->accumulate = args->accumulate;
    a->algorithm = args->algorithm;
    CLA_TRY(check_shapes(a));
    CLA_TRY(check_apart(a));
    CLA_TRY(cla_operand_sums(context, "linear_backward", all, TENSORS, &a->dtype));
done:
    return status;
}

/* ---- parts ---- */

static clattn_status make_dense(clattn_context *context, linear *a, int rank, const int64_t *shape, clattn_tensor *t) {
    clattn_status status = CLATTN_OK;
    clattn_tensor dense = clattn_tensor_buffer(NULL, a->dtype, rank, shape);
    const int64_t elements = clattn_tensor_elements(&dense);
    clattn_buffer **buffer = &a->scratch[a->used];
    CLA_CHECK((uint64_t)elements <= SIZE_MAX / 8, CLATTN_E_LIMIT,
              "linear_backward: scratch of more elements than 64 bits count");
    CLA_TRY(clattn_buffer_create(context, (size_t)elements * clattn_dtype_size(a->dtype), buffer));
    a->used++;
    *t = dense;
    t->buffer = *buffer;
done:
    return status;
}

/* A dense copy of t, of rank 4 at most, as a tensor of this shape. */
static clattn_status copy_dense(clattn_context *context, linear *a, clattn_tensor t, int rank, const int64_t *shape,
                                clattn_tensor *out) {
    clattn_status status = CLATTN_OK;
    cla_kernel *kernel = NULL;
    CLA_TRY(make_dense(context, a, rank, shape, out));
    clattn_tensor to = clattn_tensor_buffer(out->buffer, a->dtype, t.rank, t.shape);
    CLA_TRY(cla_copy_kernel(context, a->dtype == CLATTN_F64, "copy_strided", &kernel));
    cla_operand_to_host(context, (clattn_tensor *[]){&t, &to}, 2);
    CLA_TRY(cla_copy_strided(context, kernel, &t, &to));
done:
    cla_kernel_destroy(kernel);
    return status;
}

/* t [..., columns] as [M, columns] with one step from row to row: in place, or copied. */
static clattn_status flatten(clattn_context *context, linear *a, const clattn_tensor *given, clattn_tensor *out) {
    clattn_status status = CLATTN_OK;
    clattn_tensor merged = *given;
    clattn_tensor *const all[] = {&merged};
    const int64_t columns = given->shape[given->rank - 1], shape[] = {a->M, columns};
    int outer = given->rank - 1;
    if (clattn_tensor_elements(given) > 0)
        cla_walk_merge(all, 1, &outer);
    if (outer <= 1) {
        *out = merged;
        out->rank = 2;
        out->shape[1] = columns, out->stride[1] = merged.stride[outer];
        out->shape[0] = a->M, out->stride[0] = outer == 1 ? merged.stride[0] : 0;
        goto done;
    }
    CLA_TRY(copy_dense(context, a, *given, 2, shape, out));
done:
    return status;
}

static clattn_tensor transposed(const clattn_tensor *t) {
    static const int axes[] = {1, 0};
    return clattn_tensor_permute(*t, axes);
}

/* d_x = d_z W */
static clattn_status find_dx(clattn_context *context, const linear *a, const clattn_tensor *d_z) {
    const clattn_linear_args args = {.x = *d_z, .w = transposed(&a->t[W]), .y = a->t[D_X], .algorithm = a->algorithm};
    return clattn_linear(context, &args);
}

/* d_w = d_z^T x. Kernels read rows of d_z^T term by term, so that they are laid out first; BLAS does that itself. */
static clattn_status find_dw(clattn_context *context, linear *a, const clattn_tensor *d_z) {
    clattn_status status = CLATTN_OK;
    clattn_tensor rows = {0}, x = {0};
    if (a->M == 0 && a->accumulate)
        goto done;
    CLA_TRY(flatten(context, a, d_z, &rows));
    CLA_TRY(flatten(context, a, &a->t[X], &x));
    clattn_linear_args args = {.x = transposed(&rows), .w = transposed(&x), .y = a->t[D_W], .algorithm = a->algorithm};
    if (!cla_context_is_cpu(context) && a->M > 1) {
        CLA_TRY(make_dense(context, a, 2, (const int64_t[]){a->N, a->M}, &args.x));
        CLA_TRY(cla_turn_rows(context, &rows, &args.x));
    }
    if (a->accumulate)
        CLA_TRY(make_dense(context, a, 2, a->t[D_W].shape, &args.y));
    CLA_TRY(clattn_linear(context, &args));
    if (a->accumulate)
        CLA_TRY(clattn_add(context, &(clattn_add_args){.a = a->t[D_W], .b = args.y, .y = a->t[D_W]}));
done:
    return status;
}

static clattn_status find_dbias(clattn_context *context, const linear *a, const clattn_tensor *d_z) {
    cla_sums sums = {.x = *d_z, .y = a->t[D_BIAS], .add = a->accumulate, .dtype = a->dtype};
    cla_walk_broadcast(&sums.y, d_z->rank, d_z->shape);
    cla_operand_to_host(context, (clattn_tensor *[]){&sums.x, &sums.y}, 2);
    return cla_sums_run(context, &sums);
}

static clattn_status run(clattn_context *context, linear *a) {
    clattn_status status = CLATTN_OK;
    clattn_tensor d_z = a->t[D_Y];
    if (a->activation != CLATTN_ACTIVATION_NONE) {
        CLA_TRY(make_dense(context, a, d_z.rank, d_z.shape, &d_z));
        CLA_TRY(clattn_activate_backward(
            context,
            &(clattn_activate_backward_args){.x = a->t[Z], .d_y = a->t[D_Y], .d_x = d_z, .activation = a->activation}));
    }
    if (cla_present(&a->t[D_X]))
        CLA_TRY(find_dx(context, a, &d_z));
    if (cla_present(&a->t[D_W]))
        CLA_TRY(find_dw(context, a, &d_z));
    if (cla_present(&a->t[D_BIAS]) && a->N > 0)
        CLA_TRY(find_dbias(context, a, &d_z));
done:
    return status;
}

clattn_status clattn_linear_backward(clattn_context *context, const clattn_linear_backward_args *args) {
    clattn_status status = CLATTN_OK;
    linear a = {0};
    clattn_tensor *all[TENSORS];
    cla_staged staged[TENSORS];
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "linear_backward: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_linear_backward_args, args));
    CLA_TRY(take(context, args, &a));
    for (int i = 0; i < TENSORS; i++) {
        all[i] = &a.t[i];
        staged[i] = (cla_staged){all[i], i < D_X ? CLA_IN : i > D_X && a.accumulate ? CLA_INOUT : CLA_OUT};
    }
    cla_operand_to_host(context, all, TENSORS);
    status = cla_staging_begin(context, staged, TENSORS, &staging);
    if (status == CLATTN_OK)
        status = run(context, &a);
    status = cla_staging_end(&staging, status);
done:
    for (int i = 0; i < SCRATCH; i++)
        clattn_buffer_destroy(a.scratch[i]);
    return status;
}
