/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers: checks, and the choice of the way to compute them. */
#include "ops/linear.h"

#include "base/error.h"
#include "base/mem.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "runtime/buffer.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include <stdio.h>
#include <string.h>

enum { MOST = INT32_MAX - 65536, REASON = 200 };

_Static_assert((int)CLATTN_ACTIVATION_RELU == CLA_ACT_RELU && (int)CLATTN_ACTIVATION_GELU == CLA_ACT_GELU &&
                   (int)CLATTN_ACTIVATION_GELU_TANH == CLA_ACT_GELU_TANH && (int)CLATTN_ACTIVATION_SILU == CLA_ACT_SILU,
               "activations of kernels are the public ones");

#define NAME(name, value, text) [value] = text,
static const char *const activation_names[] = {CLATTN_ACTIVATION_LIST(NAME)};
#undef NAME
enum { ACTIVATIONS = sizeof activation_names / sizeof *activation_names };

const char *clattn_activation_name(clattn_activation activation) {
    return (unsigned)activation < ACTIVATIONS ? activation_names[activation] : "?";
}

/* ---- checks ---- */

/* x and y may be of rank 1, a single row. */
static clattn_status take_rows(clattn_context *context, const clattn_tensor *given, const char *name, int kind,
                               clattn_tensor *out) {
    clattn_tensor t = *given;
    if (t.rank == 1) {
        t.rank = 2;
        t.shape[1] = t.shape[0], t.stride[1] = t.stride[0];
        t.shape[0] = 1, t.stride[0] = 0;
    }
    return cla_operand_take(context, &t, name, kind, out);
}

static clattn_status take_bias(clattn_context *context, const clattn_linear_args *args, cla_linear *a) {
    clattn_status status = CLATTN_OK;
    char text[200];
    clattn_tensor row;
    if (!cla_present(&args->bias))
        goto done;
    CLA_CHECK(args->bias.rank == 1, CLATTN_E_SHAPE, "bias %s: should be [%lld], one number for each row of w",
              cla_shape_text(&args->bias, text, sizeof text), (long long)a->w.shape[0]);
    CLA_TRY(take_rows(context, &args->bias, "bias", CLA_OPERAND_FLOATS, &row));
    CLA_CHECK(row.shape[3] == a->w.shape[0], CLATTN_E_SHAPE, "bias %s: should be [%lld], one number for each row of w",
              cla_shape_text(&args->bias, text, sizeof text), (long long)a->w.shape[0]);
    CLA_TRY(cla_operand_apart(&args->bias, "bias", &args->y, "y"));
    a->bias = args->bias;
done:
    return status;
}

static clattn_dtype sum_type(const cla_linear *a) {
    const clattn_tensor *const all[] = {&a->x, &a->w, &a->bias, &a->y};
    for (int i = 0; i < 4; i++)
        if (cla_present(all[i]) && all[i]->dtype == CLATTN_F64)
            return CLATTN_F64;
    return CLATTN_F32;
}

static clattn_status take(clattn_context *context, const clattn_linear_args *args, cla_linear *a) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    *a = (cla_linear){.activation = args->activation, .gated = args->gated};
    CLA_TRY(CLA_RESERVED(clattn_linear_args, args));
    CLA_CHECK((unsigned)args->activation < ACTIVATIONS, CLATTN_E_ARGUMENT, "linear: %d is no activation",
              (int)args->activation);
    CLA_TRY(take_rows(context, &args->x, "x", CLA_OPERAND_FLOATS, &a->x));
    CLA_CHECK(args->w.rank <= 2, CLATTN_E_SHAPE, "w %s: should be [N, K]: it has rank 2",
              cla_shape_text(&args->w, text, sizeof text));
    CLA_TRY(cla_operand_take(context, &args->w, "w", CLA_OPERAND_BLOCKS, &a->w));
    a->w = args->w;
    CLA_TRY(take_rows(context, &args->y, "y", CLA_OPERAND_OUTPUT, &a->y));
    CLA_CHECK(!a->gated || a->w.shape[0] % 2 == 0, CLATTN_E_SHAPE,
              "w %s: gated, it has rows of the gate and as many of what is gated",
              cla_shape_text(&args->w, text, sizeof text));
    a->N = a->w.shape[0] / (a->gated ? 2 : 1), a->K = a->w.shape[1];
    CLA_CHECK(a->x.shape[3] == a->K, CLATTN_E_SHAPE,
              "x %s: its last axis should be %lld, as w %s has it; a matrix [K, N] needs clattn_tensor_permute",
              cla_shape_text(&args->x, text, sizeof text), (long long)a->K,
              cla_shape_text(&args->w, other, sizeof other));
    CLA_CHECK(args->y.rank == args->x.rank && memcmp(a->x.shape, a->y.shape, 3 * sizeof *a->x.shape) == 0 &&
                  a->y.shape[3] == a->N,
              CLATTN_E_SHAPE, "y %s: should be x %s with a last axis of %lld, the rows of w%s",
              cla_shape_text(&args->y, text, sizeof text), cla_shape_text(&args->x, other, sizeof other),
              (long long)a->N, a->gated ? ", or half of them where it is gated" : "");
    a->M = a->x.shape[0] * a->x.shape[1];
    CLA_CHECK(cla_mul(a->M, a->x.shape[2], &a->M) && a->M <= MOST, CLATTN_E_SHAPE, "x %s: more than %d rows",
              cla_shape_text(&args->x, text, sizeof text), MOST);
    CLA_TRY(cla_operand_apart(&a->x, "x", &a->y, "y"));
    CLA_TRY(cla_operand_apart(&a->w, "w", &a->y, "y"));
    CLA_TRY(take_bias(context, args, a));
    a->dtype = sum_type(a);
    CLA_CHECK(a->dtype != CLATTN_F64 || cla_context_is_cpu(context) || cla_context_device(context)->has_f64,
              CLATTN_E_UNSUPPORTED, "linear: f64 needs cl_khr_fp64, which %.100s lacks",
              cla_context_device(context)->name);
done:
    return status;
}

/* ---- the table ---- */

typedef struct {
    const char *name;
    bool on_opencl, on_cpu_class_only, gates; /* gates: itself, without another pass */
    clattn_status (*run)(clattn_context *context, const cla_linear *a);
} algorithm;

static clattn_status run_reference(clattn_context *context, const cla_linear *a) {
    (void)context;
    cla_ref_linear(a);
    return CLATTN_OK;
}

/* In the order of choice. */
static const algorithm table[] = {
    {"gemv", true, true, true, cla_linear_gemv},         {"linear", true, true, false, cla_linear_lanes},
    {"clblast", true, false, false, cla_linear_clblast}, {"blas", false, false, false, cla_linear_blas},
    {"reference", false, false, true, run_reference},
};
enum { COUNT = sizeof table / sizeof *table };

const char *clattn_linear_algorithm(size_t index) { return index < COUNT ? table[index].name : NULL; }

static bool applies(const clattn_context *context, const cla_linear *a, const algorithm *x, char reason[REASON]) {
    const bool opencl = !cla_context_is_cpu(context);
    reason[0] = '\0';
    if (x->on_opencl != opencl)
        snprintf(reason, REASON, "runs on %s, and this is %s", opencl ? "the cpu context" : "OpenCL devices",
                 opencl ? "an OpenCL device" : "the cpu context");
    else if (x->on_cpu_class_only && cla_context_device(context)->device_class != CLATTN_DEVICE_CPU)
        snprintf(reason, REASON, "is for CPUs: it takes a quarter of a MiB of private memory a work-item");
    else if (x->run == cla_linear_gemv && a->w.stride[1] != 1 && a->K > 1)
        snprintf(reason, REASON, "reads w along its last axis, whose stride is %lld", (long long)a->w.stride[1]);
    return reason[0] == '\0';
}

static clattn_status choose(const clattn_context *context, const clattn_linear_args *args, const cla_linear *a,
                            const algorithm **out) {
    char reason[REASON], names[200] = "";
    for (int i = 0; i < COUNT; i++) {
        const algorithm *x = &table[i];
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", x->name);
        *out = x;
        if (args->algorithm && strcmp(args->algorithm, x->name) == 0)
            return applies(context, a, x, reason)
                       ? CLATTN_OK
                       : cla_error(CLATTN_E_UNSUPPORTED, "linear: algorithm %s: %s", x->name, reason);
        if (!args->algorithm && applies(context, a, x, reason) && (x->run != cla_linear_gemv || a->M <= CLA_GEMV_ROWS))
            return CLATTN_OK;
    }
    return cla_error(CLATTN_E_ARGUMENT, "linear: algorithm \"%s\": there are %s", args->algorithm, names);
}

clattn_status clattn_linear_applies(clattn_context *context, const clattn_linear_args *args, size_t index, bool *yes,
                                    const char **reason) {
    clattn_status status = CLATTN_OK;
    cla_linear a;
    char text[REASON];
    CLA_CHECK(yes, CLATTN_E_ARGUMENT, "linear_applies: applies is NULL");
    *yes = false;
    CLA_CHECK(context && args && index < COUNT, CLATTN_E_ARGUMENT, "linear_applies: %s",
              !context ? "context is NULL"
              : !args  ? "args is NULL"
                       : "there are not so many algorithms");
    CLA_TRY(take(context, args, &a));
    *yes = applies(context, &a, &table[index], text);
    if (!*yes)
        cla_error(CLATTN_E_UNSUPPORTED, "linear: algorithm %s: %s", table[index].name, text);
    if (reason)
        *reason = *yes ? "" : clattn_last_error();
done:
    return status;
}

/* ---- the call ---- */

cla_linear_args cla_linear_args_of(const cla_linear *a) {
    const clattn_tensor *x = &a->x, *y = &a->y, *w = &a->w, *b = &a->bias;
    return (cla_linear_args){
        .x_0 = x->offset,
        .x_s0 = x->stride[0],
        .x_s1 = x->stride[1],
        .x_s2 = x->stride[2],
        .x_k = x->stride[3],
        .y_0 = y->offset,
        .y_s0 = y->stride[0],
        .y_s1 = y->stride[1],
        .y_s2 = y->stride[2],
        .y_n = y->stride[3],
        .w_0 = w->offset,
        .w_n = w->stride[0],
        .w_k = w->stride[1],
        .b_0 = b->offset,
        .b_n = b->stride[0],
        .M = (cl_int)a->M,
        .N = (cl_int)a->N,
        .K = (cl_int)a->K,
        .n1 = (cl_int)x->shape[1],
        .n2 = (cl_int)x->shape[2],
        .act = (cl_int)a->activation,
        .has_bias = cla_present(b),
        .x_type = (cl_int)x->dtype,
        .w_type = (cl_int)w->dtype,
        .b_type = (cl_int)b->dtype,
        .y_type = (cl_int)y->dtype,
        .gated = a->gated,
    };
}

/* On the `cpu` context buffers are host arrays too. */
static void to_host(clattn_tensor *t) {
    if (t->buffer)
        t->host = cla_buffer_host(t->buffer);
}

/* Both products side by side in scratch, then what they give together. */
static clattn_status run_gated(clattn_context *context, const cla_linear *a, const algorithm *way) {
    clattn_status status = CLATTN_OK;
    clattn_buffer *scratch = NULL;
    cla_linear both = *a;
    const int64_t *n = a->y.shape, shape[] = {n[0], n[1], n[2], 2 * a->N};
    int64_t count;
    CLA_CHECK(cla_mul(a->M, 2 * 8 * a->N, &count), CLATTN_E_MEMORY, "linear: %lld rows of %lld numbers are too many",
              (long long)a->M, (long long)(2 * a->N));
    CLA_TRY(clattn_buffer_create(context, (size_t)(a->M * 2 * a->N) * clattn_dtype_size(a->dtype), &scratch));
    const clattn_tensor z = clattn_tensor_buffer(scratch, a->dtype, 4, shape);
    both.y = z;
    both.N = 2 * a->N;
    both.gated = false;
    both.activation = CLATTN_ACTIVATION_NONE;
    if (cla_context_is_cpu(context))
        to_host(&both.y);
    CLA_TRY(way->run(context, &both));
    clattn_activate_args args = {.x = clattn_tensor_slice(z, 3, 0, a->N),
                                 .up = clattn_tensor_slice(z, 3, a->N, a->N),
                                 .y = a->y,
                                 .activation = a->activation};
    if (args.y.buffer)
        args.y.host = NULL; /* of a buffer of the `cpu` context */
    CLA_TRY(clattn_activate(context, &args));
done:
    clattn_buffer_destroy(scratch);
    return status;
}

clattn_status clattn_linear(clattn_context *context, const clattn_linear_args *args) {
    clattn_status status = CLATTN_OK;
    cla_linear a;
    cla_staging staging;
    const algorithm *way = NULL;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "linear: %s is NULL", context ? "args" : "context");
    CLA_TRY(take(context, args, &a));
    CLA_TRY(choose(context, args, &a, &way));
    if (a.M == 0 || a.N == 0)
        goto done;
    clattn_tensor *const all[] = {&a.x, &a.w, &a.bias, &a.y};
    for (int i = 0; i < 4 && cla_context_is_cpu(context); i++)
        to_host(all[i]);
    const cla_staged tensors[] = {{&a.x, CLA_IN}, {&a.w, CLA_IN}, {&a.bias, CLA_IN}, {&a.y, CLA_OUT}};
    status = cla_staging_begin(context, tensors, 4, &staging);
    if (status == CLATTN_OK)
        status = a.gated && !way->gates ? run_gated(context, &a, way) : way->run(context, &a);
    status = cla_staging_end(&staging, status);
done:
    return status;
}
