/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test of a device: a small problem with masks at odd sizes, all of whose rows are computed again. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "doctor.h"

#include <clattn/clattn.h>
#include <time.h>

enum { H = 2, N = 33, M = 47, D = 20 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Numbers between -2 and 2, the same everywhere. */
static void fill(float *x, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        x[i] = (float)(seed >> 8) * 0x1p-22F - 2;
    }
}

typedef struct problem {
    double q[H * N * D], k[H * M * D], v[H * M * D], o[H * N * D]; /* of any of the types */
} problem;

static clattn_status compute(clattn_context *context, clattn_dtype dtype) {
    static problem p;
    static float numbers[H * M * D];
    const int64_t queries[] = {1, H, N, D}, keys[] = {1, H, M, D}, lengths[] = {M - 3};
    double *const to[] = {p.q, p.k, p.v};
    for (uint32_t i = 0; i < 3; i++) {
        fill(numbers, H * M * D, i + 1);
        const clattn_status status = clattn_convert(to[i], dtype, numbers, CLATTN_F32, (size_t)(H * (i ? M : N) * D));
        if (status != CLATTN_OK)
            return status;
    }
    const clattn_attention_args args = {.q = clattn_tensor_host(p.q, dtype, 4, queries),
                                        .k = clattn_tensor_host(p.k, dtype, 4, keys),
                                        .v = clattn_tensor_host(p.v, dtype, 4, keys),
                                        .o = clattn_tensor_host(p.o, dtype, 4, queries),
                                        .causal = true,
                                        .align = CLATTN_ALIGN_BOTTOM_RIGHT,
                                        .key_lengths = lengths,
                                        .self_check = CLATTN_ALL_ROWS};
    return clattn_attention(context, &args);
}

void cla_doctor_test(cla_doctor *doctor, const char *device) {
    static const clattn_dtype dtypes[] = {CLATTN_F32, CLATTN_F64, CLATTN_F16};
    clattn_context *context = NULL;
    clattn_device_info info;
    const clattn_context_options options = {.self_test = -1}; /* which would take another algorithm and say nothing */
    if (clattn_context_create(device, &options, &context) != CLATTN_OK) {
        cla_doctor_bad(doctor, "update the driver; meanwhile other devices work, `--device cpu` always",
                       "%s cannot be opened: %s", device, clattn_last_error());
        return;
    }
    clattn_context_info(context, &info);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const char *type = clattn_dtype_name(dtypes[i]);
        if (dtypes[i] == CLATTN_F64 && !info.has_f64) {
            cla_doctor_note("%s f64: the device has none (cl_khr_fp64); others are not concerned", device);
            continue;
        }
        const double start = seconds();
        if (compute(context, dtypes[i]) == CLATTN_OK)
            cla_doctor_good("%s %s: right, %.2f s", device, type, seconds() - start);
        else
            cla_doctor_bad(doctor, "update the driver, and report it with this text; meanwhile other devices work",
                           "%s %s: %s", device, type, clattn_last_error());
    }
    clattn_context_destroy(context);
}
