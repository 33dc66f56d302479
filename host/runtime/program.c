/* SPDX-License-Identifier: Apache-2.0 */
/* The program cache of a context. A program is made once for each options text: from disk, or built. */
#include "runtime/program.h"

#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "runtime/kernel.h"
#include "runtime/state.h"
#include <stdio.h>
#include <string.h>

/* Text that every program starts with, in this order. */
static const char *const preludes[] = {"args.h", "real.clh", "reduce.clh", "mask.clh"};
enum { PRELUDES = sizeof preludes / sizeof *preludes, OWN_FILES = 5, MOST_FILES = PRELUDES + OWN_FILES };

/* A program's text: for each file a #line, then the file. */
typedef struct program_text {
    const char *texts[2 * MOST_FILES];
    size_t lengths[2 * MOST_FILES];
    char lines[MOST_FILES][64];
    cl_uint count;
} program_text;

/* -w: PoCL prints the number of its optimizer's warnings to stderr. tools/check_kernels.sh lets no warning through. */
cla_key cla_key_make(const char *file, const char *kernel) {
    cla_key key = {.file = file, .kernel = kernel};
    static const char first[] = "-cl-std=CL1.2 -w";
    memcpy(key.options, first, sizeof first);
    key.length = sizeof first - 1;
    return key;
}

/* " -DNAME=VALUE": the options' parts, one after another. printf would take a microsecond for each call that looks a
 * kernel up. */
static void add_parts(cla_key *key, const char *const *parts, int count) {
    size_t lengths[4], all = 0;
    for (int i = 0; i < count; i++)
        all += lengths[i] = strlen(parts[i]);
    if (key->failed || all + 1 > sizeof key->options - key->length) {
        key->failed = true;
        return;
    }
    for (int i = 0; i < count; i++) {
        memcpy(key->options + key->length, parts[i], lengths[i]);
        key->length += lengths[i];
    }
    key->options[key->length] = '\0';
}

void cla_key_add(cla_key *key, const char *option) {
    const char *const parts[] = {" ", option};
    add_parts(key, parts, 2);
}

void cla_key_define_text(cla_key *key, const char *name, const char *value) {
    const char *const parts[] = {" -D", name, "=", value};
    add_parts(key, parts, 4);
}

void cla_key_define(cla_key *key, const char *name, int64_t value) {
    char text[24];
    char *at = text + sizeof text - 1;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    *at = '\0';
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        *--at = '-';
    cla_key_define_text(key, name, at);
}

void cla_key_define_hint(cla_key *key, const clattn_device_info *device) {
    char hint[64] = "";
    if (device->least_subgroup > 0)
        snprintf(hint, sizeof hint, "__attribute__((intel_reqd_sub_group_size(%u)))", device->least_subgroup);
    cla_key_define_text(key, "HINT", hint);
}

static const cla_source *source_named(const char *name) {
    for (const cla_source *s = cla_sources; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

/* The first line of the log that says "error", else its first line; with the next one where it only announces it
 * ("Error(s) while linking:"). */
static void first_error(const char *log, char *line, size_t size) {
    const char *at = strstr(log, "error");
    while (at && at > log && at[-1] != '\n')
        at--;
    at = at ? at : log;
    size_t end = strcspn(at, "\n"), last = end;
    while (last > 0 && at[last - 1] == ' ')
        last--;
    if (last > 0 && at[last - 1] == ':' && at[end] == '\n')
        end += 1 + strcspn(at + end + 1, "\n");
    snprintf(line, size, "%.*s", (int)end, at);
}

static clattn_status build_failed(clattn_context *context, cl_program program, const cla_key *key, cl_int code) {
    clattn_status status = CLATTN_OK;
    size_t size = 0;
    char *log = NULL, line[400];
    if (code != CL_BUILD_PROGRAM_FAILURE)
        return cla_cl_error(code, key->file);
    clGetProgramBuildInfo(program, context->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    CLA_TRY(cla_alloc(size + 1, 1, "build log", &log));
    clGetProgramBuildInfo(program, context->device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    first_error(log, line, sizeof line);
    status = cla_error(CLATTN_E_BUILD, "%s does not build on %s: %s (options %s)", key->file, context->info.name, line,
                       key->options);
done:
    cla_free(log);
    return status;
}

/* The files of a program's text, in their order. */
static int names_of(const cla_key *key, const char *names[MOST_FILES]) {
    const char *const own[OWN_FILES] = {key->helper, key->more_helpers[0], key->more_helpers[1], key->more_helpers[2],
                                        key->file};
    int files = 0;
    for (int i = 0; i < PRELUDES; i++)
        names[files++] = preludes[i];
    for (int i = 0; i < OWN_FILES; i++)
        if (own[i])
            names[files++] = own[i];
    return files;
}

static clattn_status text_of(const cla_key *key, program_text *t) {
    const char *names[MOST_FILES];
    const int files = names_of(key, names);
    *t = (program_text){.count = 0};
    for (int i = 0; i < files; i++) {
        const char *name = names[i];
        const cla_source *s = source_named(name);
        if (!s)
            return cla_error(CLATTN_E_BUILD, "%s: is not in kernels/CMakeLists.txt", name);
        snprintf(t->lines[i], sizeof t->lines[i], "\n#line 1 \"%s\"\n", s->name);
        t->texts[2 * i] = t->lines[i];
        t->lengths[2 * i] = strlen(t->lines[i]);
        t->texts[2 * i + 1] = (const char *)s->text;
        t->lengths[2 * i + 1] = s->bytes;
    }
    t->count = (cl_uint)(2 * files);
    return CLATTN_OK;
}

static void digest_of(const program_text *t, unsigned char digest[CLA_SHA256_BYTES]) {
    cla_sha256 hash;
    cla_sha256_begin(&hash);
    for (cl_uint i = 0; i < t->count; i++)
        cla_sha256_add(&hash, t->texts[i], t->lengths[i]);
    cla_sha256_end(&hash, digest);
}

static clattn_status build(clattn_context *context, const cla_key *key, program_text *t, cl_program *out) {
    clattn_status status = CLATTN_OK;
    cl_program program = NULL;
    cl_int code;
    program = clCreateProgramWithSource(context->cl, t->count, t->texts, t->lengths, &code);
    CLA_TRY_CL(code, "clCreateProgramWithSource");
    code = clBuildProgram(program, 1, &context->device, key->options, NULL, NULL);
    if (code != CL_SUCCESS) {
        status = build_failed(context, program, key, code);
        goto done;
    }
    context->builds++;
    *out = program;
    program = NULL;
done:
    if (program)
        clReleaseProgram(program);
    return status;
}

static void free_kernel(cla_kernel *k) {
    if (k && k->kernel)
        clReleaseKernel(k->kernel);
    cla_free(k);
}

static void free_program(cla_program *p) {
    if (!p)
        return;
    while (p->idle) {
        cla_kernel *next = p->idle->next;
        free_kernel(p->idle);
        p->idle = next;
    }
    if (p->program)
        clReleaseProgram(p->program);
    cla_free(p->key);
    cla_free(p->disk_key);
    cla_free(p);
}

static clattn_status make_program(clattn_context *context, const cla_key *key, cla_program *p) {
    clattn_status status = CLATTN_OK;
    program_text t;
    unsigned char digest[CLA_SHA256_BYTES];
    CLA_TRY(text_of(key, &t));
    if (context->cache_folder) {
        digest_of(&t, digest);
        CLA_TRY(cla_program_disk_key(context, key, digest, &p->disk_key));
        if (p->disk_key)
            cla_program_restore(context, key, p);
    }
    if (!p->program)
        CLA_TRY(build(context, key, &t, &p->program));
done:
    return status;
}

static bool is_of(const cla_program *p, const cla_key *key) {
    const size_t length = strlen(key->file);
    return strncmp(p->key, key->file, length) == 0 && p->key[length] == '\n' &&
           strcmp(p->key + length + 1, key->options) == 0;
}

/* The lock is held while building, so that two threads never build the same program. */
static clattn_status program_of(clattn_context *context, const cla_key *key, cla_program **out) {
    clattn_status status = CLATTN_OK;
    cla_program *p, *made = NULL;
    cla_str text = {0};
    for (p = context->programs; p; p = p->next)
        if (is_of(p, key))
            break;
    if (!p) {
        cla_str_append(&text, "%s\n%s", key->file, key->options);
        CLA_TRY(cla_str_status(&text));
        CLA_TRY(cla_alloc(1, sizeof *made, "program", &made));
        CLA_TRY(make_program(context, key, made));
        made->key = text.text;
        text = (cla_str){0};
        made->next = context->programs;
        context->programs = p = made;
        made = NULL;
    }
    *out = p;
done:
    free_program(made);
    cla_str_free(&text);
    return status;
}

static clattn_status check_kernel(clattn_context *context, const cla_key *key, cla_kernel *k) {
    clattn_status status = CLATTN_OK;
    cl_ulong local = 0;
    size_t group = 0;
    CLA_TRY_CL(
        clGetKernelWorkGroupInfo(k->kernel, context->device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local, NULL),
        key->kernel);
    CLA_TRY_CL(
        clGetKernelWorkGroupInfo(k->kernel, context->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof group, &group, NULL),
        key->kernel);
    CLA_CHECK(local <= context->info.local_bytes, CLATTN_E_LIMIT, "%s needs %llu bytes of local memory, %s has %llu",
              key->kernel, (unsigned long long)local, context->info.name,
              (unsigned long long)context->info.local_bytes);
    CLA_CHECK(k->work_group <= group, CLATTN_E_LIMIT, "%s needs work-groups of %zu, %s allows %zu for it", key->kernel,
              k->work_group, context->info.name, group);
done:
    return status;
}

/* An idle kernel of the program, which becomes the caller's; NULL where there is none. */
static cla_kernel *take_idle(cla_program *program, const char *name, size_t work_group) {
    for (cla_kernel **at = &program->idle; *at; at = &(*at)->next) {
        cla_kernel *k = *at;
        if (k->work_group != work_group || strcmp(k->name, name) != 0)
            continue;
        *at = k->next;
        k->operations = k->moved_bytes = 0;
        return k;
    }
    return NULL;
}

clattn_status cla_kernel_create(clattn_context *context, const cla_key *key, size_t work_group, cla_kernel **kernel) {
    clattn_status status = CLATTN_OK;
    cla_kernel *k = NULL;
    cla_program *program = NULL;
    cl_int code;
    *kernel = NULL;
    pthread_mutex_lock(&context->lock);
    CLA_TRY(cla_context_usable(context));
    CLA_CHECK(!key->failed, CLATTN_E_BUILD, "%s: its options take more than %zu bytes", key->file, sizeof key->options);
    CLA_TRY(program_of(context, key, &program));
    *kernel = take_idle(program, key->kernel, work_group);
    if (*kernel)
        goto done;
    CLA_TRY(cla_alloc(1, sizeof *k, "kernel", &k));
    k->context = context;
    k->program = program;
    k->work_group = work_group;
    snprintf(k->name, sizeof k->name, "%s", key->kernel);
    k->kernel = clCreateKernel(program->program, key->kernel, &code);
    CLA_TRY_CL(code, key->kernel);
    CLA_TRY(check_kernel(context, key, k));
    *kernel = k;
    k = NULL;
done:
    pthread_mutex_unlock(&context->lock);
    free_kernel(k);
    return status;
}

void cla_kernel_destroy(cla_kernel *kernel) {
    int idle = 0;
    if (!kernel || !kernel->program) {
        free_kernel(kernel);
        return;
    }
    pthread_mutex_t *lock = &kernel->context->lock;
    pthread_mutex_lock(lock);
    for (const cla_kernel *k = kernel->program->idle; k; k = k->next)
        idle++;
    if (idle < CLA_PROGRAM_IDLE) {
        kernel->next = kernel->program->idle;
        kernel->program->idle = kernel;
        kernel = NULL;
    }
    pthread_mutex_unlock(lock);
    free_kernel(kernel);
}

size_t cla_program_builds(clattn_context *context) {
    pthread_mutex_lock(&context->lock);
    const size_t builds = context->builds;
    pthread_mutex_unlock(&context->lock);
    return builds;
}

size_t cla_program_restores(clattn_context *context) {
    pthread_mutex_lock(&context->lock);
    const size_t restored = context->restored;
    pthread_mutex_unlock(&context->lock);
    return restored;
}

void cla_programs_destroy(clattn_context *context) {
    cla_programs_save(context);
    while (context->programs) {
        cla_program *p = context->programs;
        context->programs = p->next;
        free_program(p);
    }
}
