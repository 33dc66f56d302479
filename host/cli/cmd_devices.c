/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn devices`: every device, its limits, and which algorithm it would use for a typical problem. */
#include "args.h"
#include "commands.h"
#include "devices_build.h"
#include "job.h"
#include "json_put.h"
#include "progress.h"

#include <clattn/clattn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const cla_help_devices =
    "Usage: clattn devices [--json] [--device D] [--peak] [--build]\n"
    "\n"
    "Prints every platform and device: what --device takes, limits, and which algorithm it would use for the\n"
    "problem b1 h8 n1024 d64 f32, and why not the others. --json: the same as a JSON list.\n"
    "-d, --device D: that one alone. --peak: measures what an OpenCL device can do at most: multiply-adds in f32, and\n"
    "reading from memory and from caches; the best of a few samples, so let nothing else run.\n"
    "--build: compiles what usual calls need on each OpenCL device, so that later ones find it in the cache on disk\n"
    "(CLATTN_CACHE_DIR, default ~/.cache/clattn); a minute or more the first time.\n"
    "The first use of a device builds its kernels, which may take some seconds.\n";

enum { ALGORITHMS_MAX = 16, REASON_MAX = 300 };

typedef struct verdicts {
    char chosen[48];                          /* "" when there is none */
    char error[REASON_MAX];                   /* then why */
    char reasons[ALGORITHMS_MAX][REASON_MAX]; /* by algorithm: why not; "" for the chosen one */
    bool tried, built;                        /* build holds; without an error */
    cla_build_report build;
    bool measured; /* peak holds */
    clattn_peak peak;
} verdicts;

/* ---- what it would use ---- */

typedef struct probe {
    clattn_buffer *buffers[4];
    clattn_attention_args args;
} probe;

static clattn_status probe_create(clattn_context *context, probe *p) {
    const int64_t shape[4] = {1, 8, 1024, 64};
    clattn_tensor *const tensors[4] = {&p->args.q, &p->args.k, &p->args.v, &p->args.o};
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < 4 && status == CLATTN_OK; i++) {
        status = clattn_buffer_create(context, sizeof(float) * 8 * 1024 * 64, &p->buffers[i]);
        *tensors[i] = clattn_tensor_buffer(p->buffers[i], CLATTN_F32, 4, shape);
    }
    return status;
}

static void reasons_of(clattn_context *context, const probe *p, verdicts *v) {
    for (size_t i = 0; i < clattn_algorithm_count() && i < ALGORITHMS_MAX; i++) {
        bool applies = false;
        const char *reason = NULL;
        if (strcmp(clattn_algorithm_name(i), v->chosen) == 0)
            continue;
        if (clattn_algorithm_applies(context, &p->args, i, &applies, &reason) != CLATTN_OK)
            snprintf(v->reasons[i], REASON_MAX, "%s", clattn_last_error());
        else if (!applies)
            snprintf(v->reasons[i], REASON_MAX, "%s", reason ? reason : "no reason given");
        else
            snprintf(v->reasons[i], REASON_MAX, "can, but %s is preferred here", v->chosen);
    }
}

static void judge(const clattn_device_info *device, bool peak, bool build, verdicts *v) {
    clattn_context *context = NULL;
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    probe p = {0};
    if (build && device->is_opencl) {
        v->tried = true;
        v->built = cla_devices_build(device, &v->build);
    }
    if (device->is_opencl)
        cla_note_begin(-1, "building kernels (longest the first time) for", device->name);
    clattn_status status = clattn_context_create(device->spec, NULL, &context);
    if (status == CLATTN_OK)
        status = probe_create(context, &p);
    if (status == CLATTN_OK)
        status = clattn_plan_create(context, &p.args, &plan);
    if (status == CLATTN_OK)
        status = clattn_plan_info_get(plan, &info);
    cla_note_end();
    if (status == CLATTN_OK)
        snprintf(v->chosen, sizeof v->chosen, "%s", info.algorithm);
    else
        snprintf(v->error, sizeof v->error, "%s", clattn_last_error());
    if (context)
        reasons_of(context, &p, v);
    if (context && peak && device->is_opencl) {
        v->measured = clattn_device_peak(context, &v->peak) == CLATTN_OK;
        if (!v->measured)
            snprintf(v->error, sizeof v->error, "%s", clattn_last_error());
    }
    clattn_plan_destroy(plan);
    for (int i = 0; i < 4; i++)
        clattn_buffer_destroy(p.buffers[i]);
    clattn_context_destroy(context);
}

/* ---- text ---- */

static const char *class_name(const clattn_device_info *d) {
    static const char *const names[] = {"CPU", "GPU", "other"};
    return (unsigned)d->device_class < 3 ? names[d->device_class] : "other";
}

static const char *bytes_text(uint64_t bytes, char *text, size_t size) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)bytes;
    int unit = 0;
    while (x >= 1024 && unit < 4) {
        x /= 1024;
        unit++;
    }
    snprintf(text, size, x < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", x, units[unit]);
    return text;
}

static void print_limits(const clattn_device_info *d) {
    char memory[40], largest[40], local[40];
    printf("  memory       %s, largest allocation %s\n", bytes_text(d->global_bytes, memory, sizeof memory),
           bytes_text(d->max_alloc_bytes, largest, sizeof largest));
    printf("  units        %u", (unsigned)d->compute_units);
    if (d->is_opencl && d->vector_floats > 1)
        printf(", vectors of %u f32", (unsigned)d->vector_floats);
    printf("\n");
    if (d->is_opencl)
        printf("  work-group   up to %llu, local memory %s (%s)\n", (unsigned long long)d->max_work_group,
               bytes_text(d->local_bytes, local, sizeof local),
               d->dedicated_local_memory ? "of its own" : "in main memory");
    printf("  types        computes in f32%s; stores f16, bf16, q8_0, q4_0 too\n",
           d->has_f64 ? ", f64" : ", not in f64");
}

static void print_peak(const clattn_peak *p) {
    char memory[40], cached[40];
    printf("  peak         %.1f GFLOP/s (f32 multiply-adds), reads %.1f GB/s from memory (%s), %.1f from caches (%s)\n",
           p->gflops, p->gbytes, bytes_text(p->memory_bytes, memory, sizeof memory), p->cached_gbytes,
           bytes_text(p->cached_bytes, cached, sizeof cached));
}

static void print_build(const verdicts *v) {
    const cla_build_report *b = &v->build;
    if (!v->built)
        printf("  kernels      failed: %s\n", b->error);
    printf("  kernels      %zu programs compiled, %zu already there, in %.1f s", b->compiled, b->restored, b->seconds);
    if (b->refused > 0)
        printf("; %zu of %zu calls are not possible here", b->refused, b->problems);
    printf("; %s%s\n", b->folder[0] ? "kept in " : "not kept: the cache is off", b->folder);
}

static void print_device(const clattn_device_info *d, const verdicts *v) {
    printf("%s  %s (%s)\n", d->spec, d->name, class_name(d));
    if (d->is_opencl)
        printf("  platform     %s, %s, driver %s\n", d->platform, d->version, d->driver);
    else
        printf("  platform     %s %s\n", d->platform, d->version);
    if (!d->usable) {
        printf("  not usable\n");
        return;
    }
    print_limits(d);
    if (v->measured)
        print_peak(&v->peak);
    if (v->tried)
        print_build(v);
    if (!v->chosen[0])
        printf("  would use    nothing: %s\n", v->error);
    else
        printf("  would use    %s\n", v->chosen);
    for (size_t i = 0; i < clattn_algorithm_count() && i < ALGORITHMS_MAX; i++)
        if (v->reasons[i][0])
            printf("  not          %s: %s\n", clattn_algorithm_name(i), v->reasons[i]);
}

/* ---- JSON ---- */

static cJSON *json_device(const clattn_device_info *d, const verdicts *v, bool *whole) {
    cJSON *o = cJSON_CreateObject();
    cla_json_put(o, "device", cJSON_CreateString(d->spec), whole);
    cla_json_put(o, "name", cJSON_CreateString(d->name), whole);
    cla_json_put(o, "class", cJSON_CreateString(class_name(d)), whole);
    cla_json_put(o, "platform", cJSON_CreateString(d->platform), whole);
    cla_json_put(o, "vendor", cJSON_CreateString(d->vendor), whole);
    cla_json_put(o, "version", cJSON_CreateString(d->version), whole);
    cla_json_put(o, "driver", cJSON_CreateString(d->driver), whole);
    cla_json_put(o, "opencl", cJSON_CreateBool(d->is_opencl), whole);
    cla_json_put(o, "usable", cJSON_CreateBool(d->usable && v->chosen[0]), whole);
    cla_json_put(o, "f64", cJSON_CreateBool(d->has_f64), whole);
    cla_json_put(o, "f16", cJSON_CreateBool(d->has_f16), whole);
    cla_json_put(o, "unified_memory", cJSON_CreateBool(d->unified_memory), whole);
    cla_json_put(o, "dedicated_local_memory", cJSON_CreateBool(d->dedicated_local_memory), whole);
    cla_json_put(o, "compute_units", cJSON_CreateNumber(d->compute_units), whole);
    cla_json_put(o, "vector_floats", cJSON_CreateNumber(d->vector_floats), whole);
    cla_json_put(o, "max_work_group", cJSON_CreateNumber((double)d->max_work_group), whole);
    cla_json_put(o, "global_bytes", cJSON_CreateNumber((double)d->global_bytes), whole);
    cla_json_put(o, "max_alloc_bytes", cJSON_CreateNumber((double)d->max_alloc_bytes), whole);
    cla_json_put(o, "local_bytes", cJSON_CreateNumber((double)d->local_bytes), whole);
    cla_json_put(o, "problem", cJSON_CreateString("b1 h8 n1024 d64 f32"), whole);
    if (v->chosen[0])
        cla_json_put(o, "algorithm", cJSON_CreateString(v->chosen), whole);
    else
        cla_json_put(o, "algorithm", cJSON_CreateNull(), whole);
    if (v->error[0])
        cla_json_put(o, "error", cJSON_CreateString(v->error), whole);
    if (v->tried) {
        cJSON *build = cJSON_AddObjectToObject(o, "build");
        cla_json_put(build, "compiled", cJSON_CreateNumber((double)v->build.compiled), whole);
        cla_json_put(build, "restored", cJSON_CreateNumber((double)v->build.restored), whole);
        cla_json_put(build, "seconds", cJSON_CreateNumber(v->build.seconds), whole);
        cla_json_put(build, "folder", cJSON_CreateString(v->build.folder), whole);
        if (!v->built)
            cla_json_put(build, "error", cJSON_CreateString(v->build.error), whole);
    }
    if (v->measured) {
        cJSON *peak = cJSON_AddObjectToObject(o, "peak");
        cla_json_put(peak, "gflops", cJSON_CreateNumber(v->peak.gflops), whole);
        cla_json_put(peak, "gbytes", cJSON_CreateNumber(v->peak.gbytes), whole);
        cla_json_put(peak, "memory_bytes", cJSON_CreateNumber((double)v->peak.memory_bytes), whole);
        cla_json_put(peak, "cached_gbytes", cJSON_CreateNumber(v->peak.cached_gbytes), whole);
        cla_json_put(peak, "cached_bytes", cJSON_CreateNumber((double)v->peak.cached_bytes), whole);
    }
    cJSON *not_used = cJSON_AddObjectToObject(o, "not");
    *whole = *whole && not_used;
    for (size_t i = 0; i < clattn_algorithm_count() && i < ALGORITHMS_MAX; i++)
        if (v->reasons[i][0])
            cla_json_put(not_used, clattn_algorithm_name(i), cJSON_CreateString(v->reasons[i]), whole);
    return o;
}

static int print_json(const clattn_device_info *devices, const verdicts *v, size_t count) {
    bool whole = true;
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < count; i++)
        cla_json_put(list, NULL, json_device(&devices[i], &v[i], &whole), &whole);
    char *text = whole ? cJSON_Print(list) : NULL;
    cJSON_Delete(list);
    if (!text)
        return cla_fail(CLA_EXIT_FAILED, "devices: out of memory for the list");
    puts(text);
    cJSON_free(text);
    return CLA_EXIT_OK;
}

/* All devices, or the one that is named: *devices is to be freed. */
static int find_devices(const char *name, clattn_device_info **devices, size_t *count) {
    size_t written = 0;
    clattn_context *context = NULL;
    clattn_status status = clattn_devices(NULL, 0, count);
    if (name) {
        const int exit_status = cla_open(name, &context);
        if (exit_status != CLA_EXIT_OK)
            return exit_status;
        *count = 1;
    }
    *devices = status == CLATTN_OK ? calloc(*count + 1, sizeof **devices) : NULL;
    if (name && *devices)
        status = clattn_context_info(context, *devices);
    else if (*devices)
        status = clattn_devices(*devices, *count, &written);
    clattn_context_destroy(context);
    if (status != CLATTN_OK)
        return cla_fail_status(status, "devices");
    if (!*devices)
        return cla_fail(CLA_EXIT_FAILED, "devices: out of memory for %zu devices", *count);
    *count = name || *count < written ? *count : written;
    return CLA_EXIT_OK;
}

int cla_cmd_devices(int argc, char **argv) {
    static const cla_arg_spec specs[] = {{"json", 0, CLA_ARG_FLAG},
                                         {"device", 'd', CLA_ARG_VALUE},
                                         {"peak", 0, CLA_ARG_FLAG},
                                         {"build", 0, CLA_ARG_FLAG},
                                         {NULL, 0, CLA_ARG_FLAG}};
    cla_args args;
    clattn_device_info *devices = NULL;
    size_t count = 0;
    int exit_status = cla_args_parse("devices", argc, argv, specs, 0, 0, "", &args);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    const bool build = cla_args_given(&args, "build");
    bool failed = false;
    exit_status = find_devices(cla_args_value(&args, "device"), &devices, &count);
    verdicts *v = calloc(count + 1, sizeof *v);
    if (exit_status == CLA_EXIT_OK && !v)
        exit_status = cla_fail(CLA_EXIT_FAILED, "devices: out of memory for %zu devices", count);
    for (size_t i = 0; exit_status == CLA_EXIT_OK && v && devices && i < count; i++) {
        if (devices[i].usable)
            judge(&devices[i], cla_args_given(&args, "peak"), build, &v[i]);
        failed |= v[i].tried && !v[i].built;
        if (!cla_args_given(&args, "json"))
            print_device(&devices[i], &v[i]);
    }
    if (exit_status == CLA_EXIT_OK && v && devices && cla_args_given(&args, "json"))
        exit_status = print_json(devices, v, count);
    free(devices);
    free(v);
    return exit_status == CLA_EXIT_OK && failed ? CLA_EXIT_FAILED : exit_status;
}
