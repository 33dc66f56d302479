/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in what stands around attention: lists of devices, the caller's queues, kept plans, profiles, checks, files,
 * the tuner's record, programs on disk: see faults/sweep.h. */
#include "io_testing.h"

#include "faults/numbers.h"
#include "own_queue.h"
#include <clattn/clattn.h>
#include <clattn/lint.h>
#include <clattn/measure.h>
#include <clattn/tune.h>
#include <clattn/verify.h>

/* ---- one or two problems of attention ---- */

typedef struct {
    const char *algorithm;
    oracle_case *c[2]; /* the second may be NULL */
    const own *queue;  /* the caller's */
} problems;

static problems made(const char *algorithm, const oracle_config *first, const oracle_config *second) {
    problems p = {.algorithm = algorithm, .c = {oracle_make(first), second ? oracle_make(second) : NULL}};
    char text[ORACLE_TEXT] = "";
    for (int i = 0; i < 2 && p.c[i]; i++)
        cr_assert(oracle_exact(p.c[i], text), "%s", text);
    return p;
}

static void freed(problems *p) {
    for (int i = 0; i < 2; i++)
        oracle_free(p->c[i]);
}

static bool right_problems(const void *data, char text[ORACLE_TEXT]) {
    const problems *p = data;
    return oracle_compare(p->c[0], p->algorithm, text) && (!p->c[1] || oracle_compare(p->c[1], p->algorithm, text));
}

static const oracle_config small = {.H = 2, .N = 3, .M = 6, .D = 8, .lse = true};
static const oracle_config pages = {.B = 2, .H = 2, .N = 3, .M = 8, .D = 8, .page_size = 4, .lse = true};
static const oracle_config sequences = {
    .B = 2, .H = 2, .N = 4, .M = 5, .D = 8, .sequences = true, .align = CLATTN_ALIGN_TOP_LEFT, .causal = true};

/* The first again at the end, by the plan that was kept. */
static bool run_kept(clattn_context *context, const void *data, char text[ORACLE_TEXT]) {
    const problems *p = data;
    return oracle_run(p->c[0], context, p->algorithm, text) && oracle_run(p->c[1], context, p->algorithm, text) &&
           oracle_run(p->c[0], context, p->algorithm, text);
}

static void sweep_problems(const char *name, bool profile, problems p,
                           bool (*run)(clattn_context *context, const void *data, char text[ORACLE_TEXT])) {
    sweep(&(run_of){.name = name, .profile = profile, .data = &p, .run = run, .right = right_problems});
    freed(&p);
}

Test(faults_parts, plans_are_kept) { sweep_problems("kept plans", false, made(NULL, &small, &pages), run_kept); }
Test(faults_parts, tables) { sweep_problems("sequences, pages", false, made(NULL, &sequences, &pages), run_kept); }
Test(faults_parts, self_tests) {
    setenv("CLATTN_SELF_TEST", "on", 1);
    sweep_problems("self-tests", false, made("fused_lanes", &small, &pages), run_kept);
}

static bool run_profile(clattn_context *context, const void *data, char text[ORACLE_TEXT]) {
    const problems *p = data;
    clattn_profile_entry entries[8];
    size_t count = 0;
    if (!oracle_run(p->c[0], context, "fused_lanes", text) || !oracle_run(p->c[0], context, "materialised", text) ||
        !succeeded(clattn_context_profile(context, entries, 8, &count), text))
        return false;
    clattn_context_profile_reset(context);
    snprintf(text, ORACLE_TEXT, "%zu kernels", count);
    return count >= 3;
}

Test(faults_parts, profiles) { sweep_problems("profile", true, made(NULL, &small, NULL), run_profile); }

static bool run_own(clattn_context *unused, const void *data, char text[ORACLE_TEXT]) {
    const problems *p = data;
    clattn_context *context = NULL;
    (void)unused;
    const bool ran = succeeded(clattn_context_from_opencl(p->queue->context, p->queue->queue, NULL, &context), text) &&
                     oracle_run(p->c[0], context, "fused_lanes", text) &&
                     oracle_run(p->c[1], context, "materialised", text);
    clattn_context_destroy(context);
    return ran;
}

Test(faults_parts, queues_out_of_order) {
    own o = {0};
    open_own(&o, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    oracle_config buffers = small;
    buffers.buffers = true;
    problems p = made(NULL, &small, &buffers);
    p.queue = &o;
    sweep_problems("the caller's queue", false, p, run_own);
    close_own(&o);
}

/* After the caller's event, with an event for the caller, over the caller's memory object. */
static clattn_status enqueue(clattn_context *context, const char *how, float *out) {
    const int64_t shape[] = {1, 2, 3, 4};
    const size_t bytes = 24 * sizeof *out;
    clattn_buffer *made_buffer = NULL, *buffer = NULL;
    clattn_plan *plan = NULL;
    cl_event event = NULL;
    clattn_attention_args a = {.q = clattn_tensor_host(numbers_in, CLATTN_F32, 4, shape),
                               .o = clattn_tensor_host(out, CLATTN_F32, 4, shape),
                               .algorithm = how};
    a.k = a.v = a.q;
    if (!how)
        return clattn_attention(context, &a);
    clattn_status status = clattn_buffer_create(context, 2 * bytes, &made_buffer);
    if (status == CLATTN_OK)
        status = clattn_buffer_from_opencl(context, clattn_buffer_opencl(made_buffer), &buffer);
    if (status == CLATTN_OK)
        status = clattn_buffer_upload(buffer, 0, numbers_in, bytes);
    a.q = a.k = a.v = a.o = clattn_tensor_buffer(buffer, CLATTN_F32, 4, shape);
    a.o.offset = 24;
    if (status == CLATTN_OK)
        status = clattn_plan_create(context, &a, &plan);
    for (int i = 0; i < 2 && status == CLATTN_OK; i++) {
        cl_event before = event;
        status = clattn_plan_enqueue(plan, NULL, before ? 1 : 0, before ? &before : NULL, &event);
        if (before)
            clReleaseEvent(before);
    }
    if (event)
        clReleaseEvent(event);
    if (status == CLATTN_OK)
        status = clattn_buffer_download(buffer, bytes, out, bytes);
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(buffer);
    clattn_buffer_destroy(made_buffer);
    return status;
}

Test(faults_parts, events) { sweep_numbers("the caller's events", NULL, "fused_lanes", enqueue); }

/* ---- checks, and sums of parts ---- */

static void take_warning(void *user, const clattn_warning *warning) { *(int *)user += warning->text != NULL; }

static clattn_status checks(clattn_context *context, const char *how, float *out) {
    static unsigned char keep[3 * 5];
    const int64_t q[] = {1, 2, 3, 8}, k[] = {1, 2, 5, 8}, lse[] = {1, 2, 3}, mask[] = {3, 5};
    clattn_verification result;
    int warnings = 0;
    clattn_attention_args a = {.q = clattn_tensor_host(numbers_in, CLATTN_F32, 4, q),
                               .k = clattn_tensor_host(numbers_in + 50, CLATTN_F32, 4, k),
                               .v = clattn_tensor_host(numbers_in + 150, CLATTN_F32, 4, k),
                               .o = clattn_tensor_host(out, CLATTN_F32, 4, q),
                               .lse = clattn_tensor_host(out + 48, CLATTN_F32, 3, lse),
                               .keep = clattn_tensor_host(keep, CLATTN_BOOL, 2, mask),
                               .self_check = 4,
                               .algorithm = how};
    const clattn_partial parts[] = {{a.o, a.lse}, {a.o, a.lse}};
    const clattn_merge_args merge = {.parts = parts, .count = 2, .o = clattn_tensor_host(out + 60, CLATTN_F32, 4, q)};
    for (int i = 0; i < 15; i++)
        keep[i] = i % 5 != 1 && i < 10; /* a row that sees nothing, of which clattn_lint warns */
    clattn_status status = clattn_attention(context, &a);
    if (status == CLATTN_OK)
        status = clattn_merge(context, &merge);
    if (status == CLATTN_OK)
        status = clattn_verify(&a, CLATTN_ALL_ROWS, NULL, &result);
    if (status == CLATTN_OK)
        status = clattn_lint(&a, take_warning, &warnings);
    out[200] = status == CLATTN_OK ? (float)(warnings + result.ok) : 0;
    return status;
}

Test(faults_parts, checks) { sweep_numbers("self-check, verify, lint, merge", NULL, "fused_lanes", checks); }

/* ---- devices ---- */

static bool run_devices(clattn_context *context, const void *data, char text[ORACLE_TEXT]) {
    clattn_device_info devices[16];
    size_t count = 0;
    (void)context, (void)data;
    return succeeded(clattn_devices(devices, 16, &count), text) && count > 0;
}

Test(faults_parts, devices) { sweep(&(run_of){.name = "list of devices", .run = run_devices}); }

static bool run_meter(clattn_context *context, const void *data, char text[ORACLE_TEXT]) {
    clattn_meter *meter = NULL;
    double gflops = 0, gbytes = 0;
    (void)data;
    const bool ran = succeeded(clattn_meter_create(context, &meter), text) &&
                     succeeded(clattn_meter_fma(meter, &gflops), text) &&
                     succeeded(clattn_meter_read(meter, 1 << 20, &gbytes), text);
    clattn_meter_destroy(meter);
    return ran;
}

Test(faults_parts, meter) { sweep(&(run_of){.name = "meter", .run = run_meter}); }

/* ---- files ---- */

enum { ROWS = 24, COLUMNS = 8 };

static clattn_array array_of(int64_t rows, int64_t columns) {
    clattn_array a = {0};
    SUCCEEDS(clattn_array_create(CLATTN_F32, columns > 0 ? 2 : 1, (const int64_t[]){rows, columns}, &a));
    for (int64_t i = 0; i < rows * (columns > 0 ? columns : 1); i++)
        ((float *)a.data)[i] = (float)(i % 13) / 8 - 0.5F;
    return a;
}

/* Parameters of a module from a file, then the module. */
static clattn_status load(clattn_context *context, const char *how, float *out) {
    const clattn_tensor x = numbers_view(numbers_in, 3, 2, 3, COLUMNS);
    const clattn_multihead_args args = {.query = x, .y = numbers_out(&out, x)};
    const clattn_multihead_options options = {.heads = 2};
    const clattn_parameters_options converted = {.convert = true, .dtype = CLATTN_BF16};
    clattn_parameters *parameters = NULL;
    clattn_multihead *m = NULL;
    (void)how;
    clattn_status status = clattn_parameters_create(context, &parameters);
    if (status == CLATTN_OK)
        status = clattn_parameters_load(parameters, temp_path("module.safetensors"), &converted);
    if (status == CLATTN_OK)
        status = clattn_multihead_load(context, parameters, NULL, &options, &m);
    if (status == CLATTN_OK)
        status = clattn_multihead_run(m, &args);
    clattn_multihead_destroy(m);
    clattn_parameters_destroy(parameters);
    return status;
}

Test(faults_parts, parameters, .init = temp_dir_make, .fini = temp_dir_remove) {
    clattn_array arrays[] = {array_of(ROWS, COLUMNS), array_of(ROWS, 0), array_of(COLUMNS, COLUMNS),
                             array_of(COLUMNS, 0)};
    static const char *const names[] = {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"};
    clattn_named_array named[4];
    for (int i = 0; i < 4; i++)
        named[i] = (clattn_named_array){.name = names[i], .array = arrays[i]};
    SUCCEEDS(clattn_safetensors_write(temp_path("module.safetensors"), named, 4, NULL, 0));
    sweep_numbers("parameters", NULL, NULL, load);
    for (int i = 0; i < 4; i++)
        clattn_array_free(&arrays[i]);
}

/* npy and safetensors, written, read and converted: nothing half written, nothing else in the folder. */
static bool run_files(clattn_context *context, const void *data, char text[ORACLE_TEXT]) {
    const clattn_array *a = data;
    clattn_array read = {0}, half = {0}, again = {0};
    const clattn_named_array named[] = {{.name = "x", .array = *a}};
    char spec[TEMP_PATH + 8];
    (void)context;
    snprintf(spec, sizeof spec, "%s:x", temp_path("a.safetensors"));
    const bool ran = succeeded(clattn_npy_write(temp_path("a.npy"), a), text) &&
                     succeeded(clattn_safetensors_write(temp_path("a.safetensors"), named, 1, NULL, 0), text) &&
                     succeeded(clattn_array_load(temp_path("a.npy"), &read), text) &&
                     succeeded(clattn_array_load(spec, &again), text) &&
                     succeeded(clattn_array_convert(&read, CLATTN_F16, &half), text) &&
                     memcmp(again.data, a->data, ROWS * COLUMNS * sizeof(float)) == 0;
    clattn_array_free(&read);
    clattn_array_free(&again);
    clattn_array_free(&half);
    return ran;
}

Test(faults_parts, files, .init = temp_dir_make, .fini = temp_dir_remove) {
    clattn_array a = array_of(ROWS, COLUMNS);
    sweep(&(run_of){.name = "files", .device = "cpu", .data = &a, .run = run_files});
    cr_expect_eq(temp_dir_count(), 2);
    clattn_array_free(&a);
}

/* ---- the tuner's record, and programs on disk ---- */

static bool run_tuning(clattn_context *context, const void *data, char text[ORACLE_TEXT]) {
    const problems *p = data;
    const clattn_tuned entry = {.key = "a", .value = "b", .ms = 1, .default_ms = 2};
    clattn_tuned found;
    if (!succeeded(clattn_tuning_set(context, &entry), text) || !succeeded(clattn_tuning_save(context, NULL), text) ||
        !oracle_run(p->c[0], context, NULL, text))
        return false;
    snprintf(text, ORACLE_TEXT, "the entry is lost");
    return clattn_tuning_entry(context, 0, &found) && strcmp(found.value, "b") == 0;
}

Test(faults_parts, record_of_the_tuner, .init = temp_dir_make, .fini = temp_dir_remove) {
    setenv("CLATTN_TUNING_FILE", temp_path("tuning.txt"), 1);
    sweep_problems("record of the tuner", false, made(NULL, &small, NULL), run_tuning);
    cr_expect_eq(temp_dir_count(), 1);
}

/* A context that writes, and one that reads. */
static bool run_disk(clattn_context *unused, const void *data, char text[ORACLE_TEXT]) {
    const problems *p = data;
    (void)unused;
    for (int i = 0; i < 2; i++) {
        clattn_context *context = NULL;
        const bool ran = succeeded(clattn_context_create("opencl", NULL, &context), text) &&
                         oracle_run(p->c[0], context, "fused_lanes", text);
        clattn_context_destroy(context);
        if (!ran)
            return false;
    }
    return true;
}

static bool run_cold_disk(clattn_context *unused, const void *data, char text[ORACLE_TEXT]) {
    temp_dir_remove();
    return run_disk(unused, data, text);
}

Test(faults_parts, programs_on_disk, .init = temp_dir_make, .fini = temp_dir_remove) {
    setenv("CLATTN_CACHE_DIR", temp_dir, 1);
    sweep_problems("programs on disk", false, made(NULL, &small, NULL), run_disk);
}

Test(faults_parts, programs_on_a_cold_disk, .init = temp_dir_make, .fini = temp_dir_remove) {
    setenv("CLATTN_CACHE_DIR", temp_dir, 1);
    sweep_problems("programs on a cold disk", false, made(NULL, &small, NULL), run_cold_disk);
}
