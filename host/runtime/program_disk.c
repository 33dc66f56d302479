/* SPDX-License-Identifier: Apache-2.0 */
/* Programs in the cache on disk. A program is saved after its kernels have run: drivers compile as late as that, and
 * fetching a binary may cost as much as the first result, which therefore comes first. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "runtime/disk_cache.h"
#include "runtime/kernel.h"
#include "runtime/state.h"
#include <clattn/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A process that lives on saves when it waits next after so long; others when they destroy the context. */
enum { SAVE_AFTER_SECONDS = 5 };

static int64_t seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec + 1; /* never 0 */
}

/* ---- keys ---- */

static cl_int add_info(cla_str *text, clattn_context *context, cl_device_info what) {
    char value[512] = "";
    const cl_int code = clGetDeviceInfo(context->device, what, sizeof value - 1, value, NULL);
    cla_str_append(text, "%s\n", value);
    return code;
}

/* What a driver says of itself and its device. */
static cl_int add_device(cla_str *text, clattn_context *context) {
    static const cl_device_info what[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION};
    cl_platform_id platform = NULL;
    char value[512] = "";
    cl_int code = clGetDeviceInfo(context->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    if (code == CL_SUCCESS)
        code = clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof value - 1, value, NULL);
    cla_str_append(text, "%s\n", value);
    for (size_t i = 0; i < sizeof what / sizeof *what && code == CL_SUCCESS; i++)
        code = add_info(text, context, what[i]);
    return code;
}

bool cla_program_disk_device(clattn_context *context, cla_str *text) {
    cla_str_append(text, "clattn %s\n%s\n", clattn_version(), context->info.platform);
    return add_device(text, context) == CL_SUCCESS;
}

clattn_status cla_program_disk_key(clattn_context *context, const cla_key *key, const unsigned char *sources,
                                   char **text) {
    clattn_status status = CLATTN_OK;
    cla_str s = {0};
    *text = NULL;
    if (!cla_program_disk_device(context, &s))
        goto done; /* another driver's program may not be taken for this one's */
    for (int i = 0; i < CLA_SHA256_BYTES; i++)
        cla_str_append(&s, "%02x", sources[i]);
    cla_str_append(&s, "\n%s\n%s", key->file, key->options);
    CLA_TRY(cla_str_status(&s));
    *text = s.text;
    s = (cla_str){0};
done:
    cla_str_free(&s);
    return status;
}

/* ---- restoring ---- */

/* Lines "kernel ran". */
static void read_note(const char *note, cla_program *p) {
    while (p->kernel_count < CLA_PROGRAM_KERNELS) {
        const size_t length = strcspn(note, " ");
        char *end;
        if (length == 0 || length >= sizeof p->kernels[0].name || note[length] == '\0')
            return;
        const unsigned long ran = strtoul(note + length, &end, 10);
        if (end == note + length)
            return;
        snprintf(p->kernels[p->kernel_count].name, sizeof p->kernels[0].name, "%.*s", (int)length, note);
        p->kernels[p->kernel_count++].ran = (unsigned)ran;
        note = end + strspn(end, "\n");
    }
}

void cla_program_restore(clattn_context *context, const cla_key *key, cla_program *p) {
    cla_disk_entry entry;
    cl_program program = NULL;
    cl_kernel kernel = NULL;
    cl_int code, loaded = CL_SUCCESS;
    if (!cla_disk_load(context->cache_folder, p->disk_key, &entry))
        return;
    const unsigned char *bytes = entry.bytes;
    program = clCreateProgramWithBinary(context->cl, 1, &context->device, &entry.size, &bytes, &loaded, &code);
    if (code == CL_SUCCESS && loaded == CL_SUCCESS)
        code = clBuildProgram(program, 1, &context->device, key->options, NULL, NULL);
    if (code == CL_SUCCESS && loaded == CL_SUCCESS)
        kernel = clCreateKernel(program, key->kernel, &code);
    if (code == CL_SUCCESS && loaded == CL_SUCCESS) {
        read_note(entry.note, p);
        p->program = program;
        context->restored++;
        program = NULL;
    }
    if (kernel)
        clReleaseKernel(kernel);
    if (program)
        clReleaseProgram(program);
    cla_disk_entry_free(&entry);
}

/* ---- saving ---- */

void cla_program_ran(clattn_context *context, cla_kernel *kernel, unsigned ran) {
    cla_program *p = kernel->program;
    size_t i = 0;
    kernel->ran |= ran;
    pthread_mutex_lock(&context->lock);
    while (i < p->kernel_count && strcmp(p->kernels[i].name, kernel->name) != 0)
        i++;
    if (p->disk_key && i < CLA_PROGRAM_KERNELS && (i == p->kernel_count || (p->kernels[i].ran & ran) != ran)) {
        if (i == p->kernel_count)
            snprintf(p->kernels[p->kernel_count++].name, sizeof p->kernels[i].name, "%s", kernel->name);
        p->kernels[i].ran |= ran;
        p->unsaved = true;
        atomic_store(&context->save_at, seconds() + SAVE_AFTER_SECONDS);
    }
    pthread_mutex_unlock(&context->lock);
}

/* The binary for the context's device; the program may know others too. *bytes is NULL where the driver gives none. */
static clattn_status fetch(clattn_context *context, cl_program program, unsigned char **bytes, size_t *size) {
    clattn_status status = CLATTN_OK;
    cl_uint count = 0, at = 0;
    cl_device_id *devices = NULL;
    size_t *sizes = NULL;
    unsigned char **pointers = NULL;
    *bytes = NULL;
    *size = 0;
    CLA_TRY_CL(clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, NULL), "devices of a program");
    CLA_TRY(cla_alloc(count, sizeof(cl_device_id), "devices of a program", &devices));
    CLA_TRY(cla_alloc(count, sizeof *sizes, "sizes of binaries", &sizes));
    CLA_TRY(cla_alloc(count, sizeof *pointers, "binaries", &pointers));
    CLA_TRY_CL(clGetProgramInfo(program, CL_PROGRAM_DEVICES, count * sizeof(cl_device_id), devices, NULL), "devices");
    CLA_TRY_CL(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, count * sizeof *sizes, sizes, NULL), "binary sizes");
    while (at < count && devices[at] != context->device)
        at++;
    if (at == count || sizes[at] == 0)
        goto done;
    CLA_TRY(cla_alloc(sizes[at], 1, "binary", &pointers[at]));
    *bytes = pointers[at];
    *size = sizes[at];
    CLA_TRY_CL(clGetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof *pointers, pointers, NULL), "binaries");
done:
    if (status != CLATTN_OK) {
        cla_free(*bytes);
        *bytes = NULL;
    }
    cla_free(devices);
    cla_free(sizes);
    cla_free(pointers);
    return status;
}

static bool save(clattn_context *context, const cla_program *p) {
    unsigned char *bytes = NULL;
    size_t size = 0;
    cla_str note = {0};
    for (size_t i = 0; i < p->kernel_count; i++)
        cla_str_append(&note, "%s %u\n", p->kernels[i].name, p->kernels[i].ran);
    const bool kept = !note.failed && fetch(context, p->program, &bytes, &size) == CLATTN_OK && bytes &&
                      cla_disk_store(context->cache_folder, p->disk_key, cla_str_text(&note), bytes, size);
    cla_str_free(&note);
    cla_free(bytes);
    return kept;
}

void cla_programs_save(clattn_context *context) {
    bool any = false;
    atomic_store(&context->save_at, 0);
    for (cla_program *p = context->programs; p; p = p->next) {
        if (p->unsaved)
            any |= save(context, p);
        p->unsaved = false;
    }
    if (any)
        cla_disk_trim(context->cache_folder, CLA_DISK_LIMIT);
}

void cla_programs_waited(clattn_context *context) {
    const int64_t at = atomic_load(&context->save_at);
    if (at == 0 || seconds() < at)
        return;
    if (pthread_mutex_trylock(&context->lock) != 0) /* the profile's downloads hold it */
        return;
    cla_programs_save(context);
    pthread_mutex_unlock(&context->lock);
}

clattn_status clattn_context_save_programs(clattn_context *context) {
    const clattn_status status = clattn_context_sync(context);
    if (status == CLATTN_OK && context->queue) {
        pthread_mutex_lock(&context->lock);
        cla_programs_save(context);
        pthread_mutex_unlock(&context->lock);
    }
    return status;
}
