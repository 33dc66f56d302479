/* SPDX-License-Identifier: Apache-2.0 */
/* What a device can do at most, by two kernels that do nothing else (kernels/peak.cl). */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "args.h"
#include "base/mem.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "runtime/state.h"
#include <clattn/measure.h>
#include <time.h>

#define SAMPLE_SECONDS 0.01
#define SAMPLES 7         /* of each, for clattn_device_peak */
#define LAUNCHES_MOST 256 /* of a sample */
#define MEMORY_LEAST (UINT64_C(256) << 20)
#define CACHED_BYTES (UINT64_C(256) << 10) /* of each compute unit */

enum { CHAINS = 12, UNROLLED = 4 }; /* peak.cl: 12 vectors and two constants fit in 16 registers */

struct clattn_meter {
    clattn_context *context;
    cla_kernel *fma, *read;
    clattn_buffer *out, *data;
    uint64_t memory_bytes; /* more than caches hold */
    int64_t most_groups;
    int lanes, work_group;
    cl_int steps; /* of a sample of peak_fma */
};

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Four times the caches, but no more than a quarter of the memory. */
static uint64_t bytes_beyond_caches(const clattn_context *context) {
    cl_ulong cache = 0;
    uint64_t bytes = MEMORY_LEAST;
    const uint64_t quarter = context->info.global_bytes / 4;
    if (clGetDeviceInfo(context->device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof cache, &cache, NULL) == CL_SUCCESS &&
        4 * cache > bytes)
        bytes = 4 * cache;
    bytes = bytes < quarter ? bytes : quarter;
    return bytes < context->info.max_alloc_bytes ? bytes : context->info.max_alloc_bytes;
}

static clattn_status make_kernels(clattn_meter *m) {
    clattn_status status = CLATTN_OK;
    cla_kernel **const kernels[] = {&m->fma, &m->read};
    static const char *const names[] = {"peak_fma", "peak_read"};
    for (int i = 0; i < 2; i++) {
        cla_key key = cla_key_make("peak.cl", names[i]);
        cla_key_define(&key, "REAL", 32);
        cla_key_define(&key, "LANES", m->lanes);
        cla_key_define(&key, "WG", m->work_group);
        cla_key_define(&key, "CHAINS", CHAINS);
        cla_key_define_hint(&key, &m->context->info);
        CLA_TRY(cla_kernel_create(m->context, &key, (size_t)m->work_group, kernels[i]));
    }
done:
    return status;
}

clattn_status clattn_meter_create(clattn_context *context, clattn_meter **meter) {
    clattn_status status = CLATTN_OK;
    clattn_meter *m = NULL;
    CLA_CHECK(meter, CLATTN_E_ARGUMENT, "meter_create: meter is NULL");
    *meter = NULL;
    CLA_CHECK(context, CLATTN_E_ARGUMENT, "meter_create: context is NULL");
    CLA_CHECK(context->cl, CLATTN_E_UNSUPPORTED,
              "meter_create: the cpu context runs no kernels; measure its CPU as an OpenCL device (PoCL)");
    const clattn_device_info *info = &context->info;
    const bool is_cpu = info->device_class == CLATTN_DEVICE_CPU;
    CLA_TRY(cla_alloc(1, sizeof *m, "meter", &m));
    m->context = context;
    m->lanes = info->vector_floats >= 16 ? 16 : info->vector_floats >= 8 ? 8 : 4;
    m->work_group = is_cpu ? 1 : (int)cla_min(64, (int64_t)info->max_work_group);
    m->most_groups = (int64_t)(info->compute_units > 0 ? info->compute_units : 1) * (is_cpu ? 8 : 32);
    m->memory_bytes = bytes_beyond_caches(context);
    CLA_TRY(make_kernels(m));
    CLA_TRY(
        clattn_buffer_create(context, (size_t)(m->most_groups * m->work_group * m->lanes) * sizeof(cl_float), &m->out));
    *meter = m;
    m = NULL;
done:
    clattn_meter_destroy(m);
    return status;
}

void clattn_meter_destroy(clattn_meter *meter) {
    if (!meter)
        return;
    cla_kernel_destroy(meter->fma);
    cla_kernel_destroy(meter->read);
    clattn_buffer_destroy(meter->out);
    clattn_buffer_destroy(meter->data);
    cla_free(meter);
}

/* ---- multiply-adds ---- */

static clattn_status time_fma(clattn_meter *m, cl_int steps, double *seconds) {
    clattn_status status = CLATTN_OK;
    const cla_peak_args a = {.steps = steps, .factor = 0.5f, .addend = 1.0f};
    const cla_arg args[] = {CLA_ARG_BUFFER(m->out), CLA_ARG_VALUE(a)};
    const double start = seconds_now();
    CLA_TRY(cla_launch(m->context, m->fma, m->most_groups, args, 2));
    CLA_TRY(clattn_context_sync(m->context));
    *seconds = seconds_now() - start;
done:
    return status;
}

/* Steps that take a sample's time: doubled until a launch takes a tenth of it, so that its own cost is small. */
static clattn_status find_steps(clattn_meter *m) {
    clattn_status status = CLATTN_OK;
    double seconds = 0;
    cl_int steps = 64;
    CLA_TRY(time_fma(m, 1, &seconds)); /* the first launch of a kernel may build it */
    for (; steps < 1 << 28; steps *= 2) {
        CLA_TRY(time_fma(m, steps, &seconds));
        if (seconds > 0.1 * SAMPLE_SECONDS)
            break;
    }
    const double wanted = SAMPLE_SECONDS / seconds * steps;
    m->steps = wanted < steps ? steps : wanted > 1 << 30 ? 1 << 30 : (cl_int)wanted;
done:
    return status;
}

clattn_status clattn_meter_fma(clattn_meter *meter, double *gflops) {
    clattn_status status = CLATTN_OK;
    double seconds = 0;
    CLA_CHECK(meter && gflops, CLATTN_E_ARGUMENT, "meter_fma: %s is NULL", meter ? "gflops" : "meter");
    *gflops = 0;
    if (meter->steps == 0)
        CLA_TRY(find_steps(meter));
    CLA_TRY(time_fma(meter, 1 + meter->steps / 64, &seconds)); /* threads that sleep wake up */
    CLA_TRY(time_fma(meter, meter->steps, &seconds));
    const double items = (double)(meter->most_groups * meter->work_group);
    *gflops = 2e-9 * items * meter->lanes * CHAINS * UNROLLED * meter->steps / seconds;
done:
    return status;
}

/* ---- reading ---- */

/* A buffer of that size at least, written once: memory that was never written is one page of zeros. */
static clattn_status hold(clattn_meter *m, uint64_t bytes) {
    clattn_status status = CLATTN_OK;
    const cl_float some = 0.25f;
    const uint64_t whole = (bytes + 127) / 128 * 128;
    if (clattn_buffer_bytes(m->data) >= bytes)
        return CLATTN_OK;
    clattn_buffer_destroy(m->data);
    m->data = NULL;
    CLA_TRY(clattn_buffer_create(m->context, (size_t)whole, &m->data));
    CLA_TRY(cla_enqueued(
        m->context,
        clEnqueueFillBuffer(m->context->queue, m->data->memory, &some, sizeof some, 0, (size_t)whole, 0, NULL, NULL),
        "fill"));
    CLA_TRY(cla_queue_barrier(m->context));
done:
    return status;
}

static clattn_status time_read(clattn_meter *m, int64_t groups, cl_int steps, int launches, double *seconds) {
    clattn_status status = CLATTN_OK;
    const cla_peak_args a = {.steps = steps};
    const cla_arg args[] = {CLA_ARG_BUFFER(m->data), CLA_ARG_BUFFER(m->out), CLA_ARG_VALUE(a)};
    const double start = seconds_now();
    for (int i = 0; i < launches; i++)
        CLA_TRY(cla_launch(m->context, m->read, groups, args, 3));
    CLA_TRY(clattn_context_sync(m->context));
    *seconds = seconds_now() - start;
done:
    return status;
}

clattn_status clattn_meter_read(clattn_meter *meter, uint64_t bytes, double *gbytes) {
    clattn_status status = CLATTN_OK;
    double seconds = 0;
    CLA_CHECK(meter && gbytes, CLATTN_E_ARGUMENT, "meter_read: %s is NULL", meter ? "gbytes" : "meter");
    *gbytes = 0;
    bytes = bytes > 0 ? bytes : meter->memory_bytes;
    CLA_CHECK(bytes <= meter->context->info.max_alloc_bytes, CLATTN_E_LIMIT,
              "meter_read: %llu bytes are above the largest allocation of %s, %llu bytes", (unsigned long long)bytes,
              meter->context->info.name, (unsigned long long)meter->context->info.max_alloc_bytes);
    const int64_t step_bytes = (int64_t)sizeof(cl_float) * CHAINS * meter->work_group * meter->lanes;
    const int64_t groups = cla_max(1, cla_min((int64_t)bytes / step_bytes, meter->most_groups));
    int64_t steps = cla_ceil_div((int64_t)bytes, groups * step_bytes);
    if (steps > 1 && (uint64_t)(groups * steps * step_bytes) > meter->context->info.max_alloc_bytes)
        steps--;
    CLA_CHECK(steps <= INT32_MAX, CLATTN_E_LIMIT, "meter_read: %llu bytes are too many", (unsigned long long)bytes);
    const double read = (double)(groups * steps * step_bytes);
    CLA_TRY(hold(meter, (uint64_t)(groups * steps * step_bytes)));
    CLA_TRY(time_read(meter, 1, 1, 1, &seconds)); /* the first launch of a kernel may build it */
    CLA_TRY(time_read(meter, groups, (cl_int)steps, 1, &seconds));
    const double fitting = SAMPLE_SECONDS / seconds;
    const int launches = fitting < 1 ? 1 : fitting > LAUNCHES_MOST ? LAUNCHES_MOST : (int)fitting;
    CLA_TRY(time_read(meter, groups, (cl_int)steps, launches, &seconds));
    *gbytes = 1e-9 * read * launches / seconds;
done:
    return status;
}

/* ---- both ---- */

clattn_status clattn_device_peak(clattn_context *context, clattn_peak *peak) {
    clattn_status status = CLATTN_OK;
    clattn_meter *m = NULL;
    CLA_CHECK(peak, CLATTN_E_ARGUMENT, "device_peak: peak is NULL");
    *peak = (clattn_peak){0};
    CLA_TRY(clattn_meter_create(context, &m));
    clattn_peak best = {.memory_bytes = m ? m->memory_bytes : 0};
    best.cached_bytes = CACHED_BYTES * (context->info.compute_units > 0 ? context->info.compute_units : 1);
    for (int i = 0; i < SAMPLES; i++) {
        double gflops = 0, memory = 0, cached = 0;
        CLA_TRY(clattn_meter_fma(m, &gflops));
        CLA_TRY(clattn_meter_read(m, 0, &memory));
        CLA_TRY(clattn_meter_read(m, best.cached_bytes, &cached));
        best.gflops = gflops > best.gflops ? gflops : best.gflops;
        best.gbytes = memory > best.gbytes ? memory : best.gbytes;
        best.cached_gbytes = cached > best.cached_gbytes ? cached : best.cached_gbytes;
    }
    *peak = best;
done:
    clattn_meter_destroy(m);
    return status;
}
