/* SPDX-License-Identifier: Apache-2.0 */
/* strcasestr and sysconf */
#define _GNU_SOURCE
/* Platforms and devices: listing, describing, and finding the one that a text names. */
#include "base/mem.h"
#include "runtime/state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { MAX_PLATFORMS = 32, MAX_DEVICES = 64, NO_PLATFORM = -1001 /* the loader's: no driver at all */ };

static bool ask(cl_device_id device, cl_device_info what, void *value, size_t bytes) {
    return clGetDeviceInfo(device, what, bytes, value, NULL) == CL_SUCCESS;
}

/* What an older device need not know stays as it is. */
static bool ask_newer(cl_device_id device, cl_device_info what, void *value, size_t bytes) {
    const cl_int code = clGetDeviceInfo(device, what, bytes, value, NULL);
    return code == CL_SUCCESS || code == CL_INVALID_VALUE;
}

static void ask_text(cl_device_id device, cl_device_info what, char *text, size_t size) {
    char long_text[1024] = "";
    ask(device, what, long_text, sizeof long_text - 1);
    snprintf(text, size, "%.*s", (int)size - 1, long_text);
}

static bool has_extension(cl_device_id device, const char *name) {
    size_t size = 0;
    char *text = NULL;
    bool found = false;
    if (clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &size) == CL_SUCCESS &&
        cla_alloc(size + 1, 1, "extensions", &text) == CLATTN_OK)
        found = clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, size, text, NULL) == CL_SUCCESS && strstr(text, name);
    cla_free(text);
    return found;
}

/* The extension lists the widths. */
static uint32_t least_subgroup(cl_device_id device) {
    enum { SUB_GROUP_SIZES_INTEL = 0x4108, MOST = 16 };
    size_t sizes[MOST] = {0}, bytes = 0, least = 0;
    if (!has_extension(device, "cl_intel_required_subgroup_size") ||
        clGetDeviceInfo(device, SUB_GROUP_SIZES_INTEL, sizeof sizes, sizes, &bytes) != CL_SUCCESS)
        return 0;
    for (size_t i = 0; i < bytes / sizeof *sizes; i++)
        least = least == 0 || sizes[i] < least ? sizes[i] : least;
    return (uint32_t)least;
}

bool cla_device_describe(cl_platform_id platform, cl_device_id device, clattn_device_info *info) {
    cl_device_type type = 0;
    cl_bool unified = CL_FALSE, available = CL_FALSE, compiler = CL_FALSE;
    cl_device_local_mem_type local_type = CL_GLOBAL;
    cl_uint units = 0, width = 0;
    cl_ulong global = 0, allocation = 0, local = 0;
    cl_device_fp_config f64 = 0;
    size_t group = 0;
    *info = (clattn_device_info){.is_opencl = true};
    if (platform)
        clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof info->platform - 1, info->platform, NULL);
    ask_text(device, CL_DEVICE_NAME, info->name, sizeof info->name);
    ask_text(device, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    ask_text(device, CL_DEVICE_VERSION, info->version, sizeof info->version);
    ask_text(device, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    bool right = ask(device, CL_DEVICE_TYPE, &type, sizeof type) &&
                 ask(device, CL_DEVICE_AVAILABLE, &available, sizeof available) &&
                 ask(device, CL_DEVICE_COMPILER_AVAILABLE, &compiler, sizeof compiler) &&
                 ask(device, CL_DEVICE_MAX_COMPUTE_UNITS, &units, sizeof units) &&
                 ask(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, &group, sizeof group) &&
                 ask(device, CL_DEVICE_GLOBAL_MEM_SIZE, &global, sizeof global) &&
                 ask(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &allocation, sizeof allocation) &&
                 ask(device, CL_DEVICE_LOCAL_MEM_SIZE, &local, sizeof local) &&
                 ask(device, CL_DEVICE_LOCAL_MEM_TYPE, &local_type, sizeof local_type) &&
                 ask_newer(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, &width, sizeof width) &&
                 ask_newer(device, CL_DEVICE_HOST_UNIFIED_MEMORY, &unified, sizeof unified) &&
                 ask_newer(device, CL_DEVICE_DOUBLE_FP_CONFIG, &f64, sizeof f64);
    info->usable = right && available && compiler;
    info->device_class = type & CL_DEVICE_TYPE_GPU   ? CLATTN_DEVICE_GPU
                         : type & CL_DEVICE_TYPE_CPU ? CLATTN_DEVICE_CPU
                                                     : CLATTN_DEVICE_OTHER;
    info->has_f64 = f64 != 0;
    info->has_f16 = has_extension(device, "cl_khr_fp16");
    info->least_subgroup = info->device_class == CLATTN_DEVICE_GPU ? least_subgroup(device) : 0;
    info->unified_memory = unified;
    info->dedicated_local_memory = local_type == CL_LOCAL;
    info->compute_units = units;
    info->vector_floats = width;
    info->max_work_group = group;
    info->global_bytes = global;
    info->max_alloc_bytes = allocation;
    info->local_bytes = local;
    return right;
}

static void cpu_name(char *name, size_t size) {
    snprintf(name, size, "host CPU");
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':')) {
            snprintf(name, size, "%.*s", (int)size - 1, strchr(line, ':') + 2);
            name[strcspn(name, "\n")] = '\0';
            break;
        }
    if (f)
        fclose(f);
}

void cla_device_describe_cpu(clattn_device_info *info) {
    *info = (clattn_device_info){.usable = true,
                                 .device_class = CLATTN_DEVICE_CPU,
                                 .has_f64 = true,
                                 .unified_memory = true,
                                 .vector_floats = 1,
                                 .max_work_group = 1};
    snprintf(info->spec, sizeof info->spec, "cpu");
    snprintf(info->platform, sizeof info->platform, "clattn");
    snprintf(info->vendor, sizeof info->vendor, "-");
    snprintf(info->version, sizeof info->version, "OpenBLAS and OpenMP, no OpenCL");
    cpu_name(info->name, sizeof info->name);
    const long units = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    info->compute_units = units > 0 ? (uint32_t)units : 1;
    info->global_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    info->max_alloc_bytes = info->global_bytes;
}

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

void cla_opening_lock(void) { pthread_mutex_lock(&opening); }
void cla_opening_unlock(void) { pthread_mutex_unlock(&opening); }

typedef struct {
    cl_device_id device; /* NULL: a platform without devices */
    clattn_device_info info;
} found_device;

/* Every device of every platform; a platform without one is an entry that is not usable. */
static clattn_status list_devices(found_device **list, size_t *count) {
    clattn_status status = CLATTN_OK;
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_device_id devices[MAX_DEVICES];
    cl_uint platform_count = 0;
    *list = NULL;
    *count = 0;
    const cl_int code = clGetPlatformIDs(MAX_PLATFORMS, platforms, &platform_count);
    if (code == NO_PLATFORM)
        return CLATTN_OK;
    CLA_TRY_CL(code, "list of OpenCL drivers");
    platform_count = platform_count < MAX_PLATFORMS ? platform_count : MAX_PLATFORMS;
    for (cl_uint p = 0; p < platform_count; p++) {
        cl_uint device_count = 0;
        const cl_int asked = clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &device_count);
        if (asked != CL_SUCCESS)
            device_count = 0;
        device_count = device_count < MAX_DEVICES ? device_count : MAX_DEVICES;
        CLA_TRY(cla_realloc(list, *count + device_count + 1, sizeof **list, "devices"));
        for (cl_uint d = 0; d < device_count; d++) {
            found_device *f = &(*list)[(*count)++];
            f->device = devices[d];
            cla_device_describe(platforms[p], devices[d], &f->info);
            snprintf(f->info.spec, sizeof f->info.spec, "opencl:%u:%u", p, d);
        }
        if (device_count == 0) {
            found_device *f = &(*list)[(*count)++];
            *f = (found_device){.info = {.is_opencl = true}};
            clGetPlatformInfo(platforms[p], CL_PLATFORM_NAME, sizeof f->info.platform - 1, f->info.platform, NULL);
            snprintf(f->info.spec, sizeof f->info.spec, "opencl:%u:-", p);
            if (asked == CL_SUCCESS || asked == CL_DEVICE_NOT_FOUND)
                snprintf(f->info.name, sizeof f->info.name, "(no device)");
            else
                snprintf(f->info.name, sizeof f->info.name, "(no device: OpenCL %d)", (int)asked);
        }
    }
done:
    if (status != CLATTN_OK) {
        cla_free(*list);
        *list = NULL;
        *count = 0;
    }
    return status;
}

clattn_status cla_device_spec(cl_device_id device, clattn_device_info *info) {
    found_device *list = NULL;
    size_t count = 0;
    const clattn_status status = list_devices(&list, &count);
    for (size_t i = 0; i < count; i++)
        if (list[i].device == device)
            memcpy(info->spec, list[i].info.spec, sizeof info->spec);
    cla_free(list);
    return status;
}

clattn_status clattn_devices(clattn_device_info *devices, size_t capacity, size_t *count) {
    clattn_status status = CLATTN_OK;
    found_device *list = NULL;
    size_t n = 0;
    CLA_CHECK(count && (devices || capacity == 0), CLATTN_E_ARGUMENT, "devices: count, or devices, is NULL");
    cla_opening_lock();
    status = list_devices(&list, &n);
    cla_opening_unlock();
    CLA_TRY(status);
    for (size_t i = 0; i < n && i < capacity; i++)
        devices[i] = list[i].info;
    if (n < capacity)
        cla_device_describe_cpu(&devices[n]);
    *count = n + 1;
done:
    cla_free(list);
    return status;
}

/* "PLATFORM:DEVICE", each a number or a part of the name. */
static bool matches(const char *want, const char *number, const char *name) {
    if (*want == '\0')
        return true;
    char *end;
    strtoul(want, &end, 10);
    return *end == '\0' ? strcmp(want, number) == 0 : strcasestr(name, want) != NULL;
}

static bool selected(const char *want, const clattn_device_info *info) {
    char platform[128], numbers[32];
    if (strcmp(want, "gpu") == 0)
        return info->device_class == CLATTN_DEVICE_GPU;
    if (strcmp(want, "cpu") == 0)
        return info->device_class == CLATTN_DEVICE_CPU;
    snprintf(numbers, sizeof numbers, "%s", info->spec + strlen("opencl:"));
    char *device_number = strchr(numbers, ':');
    *device_number++ = '\0';
    const char *colon = strchr(want, ':');
    snprintf(platform, sizeof platform, "%.*s", colon ? (int)(colon - want) : (int)strlen(want), want);
    return matches(platform, numbers, info->platform) && (!colon || matches(colon + 1, device_number, info->name));
}

static clattn_status no_device(const char *spec, const found_device *list, size_t count) {
    char text[600] = "";
    for (size_t i = 0; i < count; i++) {
        const size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%s%s (%.60s%s)", i ? ", " : "", list[i].info.spec, list[i].info.name,
                 list[i].device && !list[i].info.usable ? ", not usable" : "");
    }
    if (count == 0)
        return cla_error(CLATTN_E_NO_DEVICE,
                         "device \"%s\": there is no OpenCL driver; install one (pocl-opencl-icd runs on any CPU), "
                         "use the device \"cpu\", or ask `clattn doctor`",
                         spec);
    return cla_error(CLATTN_E_NO_DEVICE, "device \"%s\": none fits; there are %s, and cpu", spec, text);
}

clattn_status cla_device_find(const char *spec, cl_device_id *device, clattn_device_info *info, bool *is_cpu) {
    clattn_status status = CLATTN_OK;
    found_device *list = NULL;
    const found_device *best = NULL;
    size_t count = 0;
    const bool any = !spec || *spec == '\0';
    *is_cpu = !any && strcmp(spec, "cpu") == 0;
    *device = NULL;
    if (*is_cpu) {
        cla_device_describe_cpu(info);
        goto done;
    }
    CLA_CHECK(any || strcmp(spec, "opencl") == 0 || strncmp(spec, "opencl:", 7) == 0, CLATTN_E_ARGUMENT,
              "device \"%s\": not one of opencl, opencl:gpu, opencl:cpu, opencl:PLATFORM:DEVICE, cpu", spec);
    const char *want = any || spec[6] == '\0' ? "" : spec + 7;
    CLA_TRY(list_devices(&list, &count));
    for (size_t i = 0; i < count; i++)
        if (list[i].info.usable && selected(want, &list[i].info) &&
            (!best || (best->info.device_class != CLATTN_DEVICE_GPU && list[i].info.device_class == CLATTN_DEVICE_GPU)))
            best = &list[i];
    if (!best && any) {
        *is_cpu = true;
        cla_device_describe_cpu(info);
        goto done;
    }
    if (!best) {
        status = no_device(spec, list, count);
        goto done;
    }
    *device = best->device;
    *info = best->info;
done:
    cla_free(list);
    return status;
}
