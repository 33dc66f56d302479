/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_linear.h"

#include "interrupt.h"
#include "job.h"
#include "outputs.h"
#include "progress.h"
#include "samples.h"
#include <cJSON.h>
#include <clattn/clattn.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 9, REPEATS_MOST = 1000, TENSORS = 4 };

typedef struct {
    const char *text;
    int64_t m, n, k;
    clattn_dtype dtype, w_dtype;
    bool bias;
    clattn_activation activation;
    clattn_array arrays[TENSORS]; /* x w bias y */
    double *first;                /* y of the first way, m * n */
} layer;

typedef struct {
    clattn_device_info info;
    const char *algorithm;
    double median_ms, min_ms, max_ms, gflops;
} timing;

/* ---- problems ---- */

static bool read_dtype(const char *text, clattn_dtype *dtype) {
#define NAME(name, value, length, bytes, text) text,
    static const char *const names[] = {CLATTN_DTYPE_LIST(NAME) NULL};
#undef NAME
    const int index = cla_index_of(text, names);
    if (index >= 0)
        *dtype = (clattn_dtype)index;
    return index >= 0;
}

static bool read_word(layer *l, const char *word) {
#define NAME(name, value, text) text,
    static const char *const activations[] = {CLATTN_ACTIVATION_LIST(NAME) NULL};
#undef NAME
    const int activation = cla_index_of(word, activations);
    if (strcmp(word, "linear") == 0)
        return true;
    if (strcmp(word, "bias") == 0)
        return l->bias = true;
    if (activation >= 0) {
        l->activation = (clattn_activation)activation;
        return true;
    }
    if (strncmp(word, "w=", 2) == 0)
        return read_dtype(word + 2, &l->w_dtype);
    if (read_dtype(word, &l->dtype)) {
        l->w_dtype = l->dtype;
        return l->dtype <= CLATTN_BF16;
    }
    int64_t *size = *word == 'm' ? &l->m : *word == 'n' ? &l->n : *word == 'k' ? &l->k : NULL;
    return size && cla_parse_i64(word + 1, size) && *size > 0;
}

static int read_layer(const char *text, layer *l) {
    char copy[256], *rest = copy;
    *l = (layer){.text = text};
    snprintf(copy, sizeof copy, "%s", text);
    while (*rest) {
        char *word = rest + strspn(rest, " \t");
        const size_t length = strcspn(word, " \t");
        rest = word[length] ? word + length + 1 : word + length;
        word[length] = '\0';
        if (length > 0 && !read_word(l, word))
            return cla_fail(CLA_EXIT_USAGE, "bench: --linear '%s': '%s' is no word of a linear layer", text, word);
    }
    if (l->m == 0 || l->n == 0 || l->k == 0)
        return cla_fail(CLA_EXIT_USAGE, "bench: --linear '%s': m, n and k are needed", text);
    if (l->k % (int64_t)clattn_dtype_length(l->w_dtype) != 0)
        return cla_fail(CLA_EXIT_USAGE, "bench: --linear '%s': k is no whole number of blocks of %s", text,
                        clattn_dtype_name(l->w_dtype));
    return CLA_EXIT_OK;
}

/* Numbers in [-1, 1), those of w such that sums are about 1. */
static clattn_status fill(clattn_array *array, clattn_dtype dtype, int rank, const int64_t *shape, double scale,
                          uint64_t seed) {
    clattn_array plain = {0};
    clattn_status status = clattn_array_create(CLATTN_F32, rank, shape, &plain);
    const size_t count = plain.bytes / sizeof(float);
    for (size_t i = 0; status == CLATTN_OK && i < count; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        ((float *)plain.data)[i] = (float)(((double)(seed >> 40) * 0x1p-23 - 1.0) * scale);
    }
    if (status == CLATTN_OK)
        status = clattn_array_create(dtype, rank, shape, array);
    if (status == CLATTN_OK)
        status = clattn_convert(array->data, dtype, plain.data, CLATTN_F32, count);
    clattn_array_free(&plain);
    return status;
}

static int fill_layer(layer *l) {
    const int64_t x[] = {l->m, l->k}, w[] = {l->n, l->k}, b[] = {l->n}, y[] = {l->m, l->n};
    clattn_status status = fill(&l->arrays[0], l->dtype, 2, x, 1, 1);
    if (status == CLATTN_OK)
        status = fill(&l->arrays[1], l->w_dtype, 2, w, 3 / sqrt((double)l->k), 2);
    if (status == CLATTN_OK && l->bias)
        status = fill(&l->arrays[2], l->dtype, 1, b, 1, 3);
    if (status == CLATTN_OK)
        status = clattn_array_create(l->dtype, 2, y, &l->arrays[3]);
    return status == CLATTN_OK ? CLA_EXIT_OK : cla_fail_status(status, "bench");
}

/* ---- one way on one device ---- */

static clattn_status place(clattn_context *context, const layer *l, clattn_buffer *buffers[TENSORS],
                           clattn_linear_args *args) {
    clattn_tensor *const tensors[TENSORS] = {&args->x, &args->w, &args->bias, &args->y};
    *args = (clattn_linear_args){.activation = l->activation};
    for (int i = 0; i < TENSORS; i++) {
        const clattn_array *a = &l->arrays[i];
        if (a->rank == 0)
            continue;
        clattn_status status = clattn_buffer_create(context, a->bytes, &buffers[i]);
        if (status == CLATTN_OK)
            status = clattn_buffer_upload(buffers[i], 0, a->data, a->bytes);
        if (status != CLATTN_OK)
            return status;
        *tensors[i] = clattn_tensor_buffer(buffers[i], a->dtype, a->rank, a->shape);
    }
    return CLATTN_OK;
}

static clattn_status run_once(clattn_context *context, const clattn_linear_args *args, double *ms) {
    const double start = cla_seconds();
    clattn_status status = clattn_linear(context, args);
    if (status == CLATTN_OK)
        status = clattn_context_sync(context);
    *ms = 1e3 * (cla_seconds() - start);
    return status;
}

/* The largest difference to the first way's result, which the first one leaves. */
static clattn_status compare(layer *l, const clattn_buffer *y, double *worst) {
    const size_t count = (size_t)(l->m * l->n);
    double *mine = malloc((count + 1) * sizeof *mine);
    clattn_status status = mine ? CLATTN_OK : CLATTN_E_MEMORY;
    *worst = 0;
    if (status == CLATTN_OK)
        status = clattn_buffer_download((clattn_buffer *)(uintptr_t)y, 0, l->arrays[3].data, l->arrays[3].bytes);
    if (status == CLATTN_OK)
        status = clattn_convert(mine, CLATTN_F64, l->arrays[3].data, l->dtype, count);
    for (size_t i = 0; status == CLATTN_OK && l->first && i < count; i++) {
        const double d = fabs(mine[i] - l->first[i]);
        *worst = d > *worst ? d : isnan(d) ? INFINITY : *worst;
    }
    if (status == CLATTN_OK && !l->first) {
        l->first = mine;
        mine = NULL;
    }
    free(mine);
    return status;
}

static clattn_status measure(clattn_context *context, layer *l, const char *algorithm, int repeats, timing *t,
                             double *worst) {
    clattn_buffer *buffers[TENSORS] = {NULL};
    clattn_linear_args args;
    double ms[REPEATS_MOST], cold;
    clattn_status status = place(context, l, buffers, &args);
    args.algorithm = algorithm;
    if (status == CLATTN_OK)
        status = run_once(context, &args, &cold);
    if (status == CLATTN_OK)
        status = compare(l, buffers[3], worst);
    if (status == CLATTN_OK)
        status = clattn_context_save_programs(context); /* else a sample pays for it */
    if (status == CLATTN_OK)
        status = run_once(context, &args, &cold);
    for (int i = 0; i < repeats && status == CLATTN_OK; i++)
        status = run_once(context, &args, &ms[i]);
    if (status == CLATTN_OK) {
        t->median_ms = cla_median(ms, repeats);
        t->algorithm = algorithm;
        t->min_ms = ms[0], t->max_ms = ms[repeats - 1];
        t->gflops = 2e-6 * (double)l->m * (double)l->n * (double)l->k / t->median_ms;
    }
    for (int i = 0; i < TENSORS; i++)
        clattn_buffer_destroy(buffers[i]);
    return status;
}

/* ---- all of them ---- */

static bool add_json(cJSON *list, const layer *l, const timing *t) {
    cJSON *o = cJSON_CreateObject();
    const bool ok =
        cJSON_AddStringToObject(o, "linear", l->text) && cJSON_AddStringToObject(o, "device", t->info.spec) &&
        cJSON_AddStringToObject(o, "device_name", t->info.name) &&
        cJSON_AddStringToObject(o, "algorithm", t->algorithm) &&
        cJSON_AddNumberToObject(o, "median_ms", t->median_ms) && cJSON_AddNumberToObject(o, "min_ms", t->min_ms) &&
        cJSON_AddNumberToObject(o, "max_ms", t->max_ms) && cJSON_AddNumberToObject(o, "gflops", t->gflops) &&
        cJSON_AddStringToObject(o, "version", clattn_version());
    if (ok && cJSON_AddItemToArray(list, o))
        return true;
    cJSON_Delete(o);
    return false;
}

static int check_algorithms(const char *list) {
    enum { MOST = 16 };
    const char *names[MOST + 1] = {NULL};
    for (size_t i = 0; i < MOST && clattn_linear_algorithm(i); i++)
        names[i] = clattn_linear_algorithm(i);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char part[64];
        snprintf(part, sizeof part, "%.*s", (int)strcspn(at, ","), at);
        const char *near_name = cla_index_of(part, names) < 0 ? cla_nearest(part, names) : "";
        if (!near_name || *near_name)
            return cla_fail(CLA_EXIT_USAGE, "bench: --linear: there is no algorithm '%s'%s%s%s", part,
                            near_name ? "; did you mean " : "", near_name ? near_name : "", near_name ? "?" : "");
    }
    return CLA_EXIT_OK;
}

/* What was asked for, or all but plain loops. */
static bool is_wanted(const char *list, const char *name) {
    const size_t length = strlen(name);
    if (!list)
        return strcmp(name, "reference") != 0;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

static int bench_device(layer *l, const char *device, const cla_args *args, int repeats, cJSON *json) {
    clattn_context *context = NULL;
    timing t = {.algorithm = NULL};
    int exit_status = cla_open(device, &context);
    const double allowed = l->dtype == CLATTN_F64 ? 1e-10 : l->dtype == CLATTN_F32 ? 1e-4 : 5e-2;
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    clattn_context_info(context, &t.info);
    for (size_t i = 0; clattn_linear_algorithm(i) && !cla_interrupted(); i++) {
        const char *name = clattn_linear_algorithm(i);
        double worst = 0;
        if (!is_wanted(cla_args_value(args, "algorithms"), name))
            continue;
        const clattn_status status = measure(context, l, name, repeats, &t, &worst);
        if (status == CLATTN_E_UNSUPPORTED)
            continue;
        if (status != CLATTN_OK) {
            exit_status = cla_fail_status(status, "bench");
            break;
        }
        printf("  %-10s  %-9s  %10.3f  %9.3f  %9.3f  %7.1f\n", t.info.spec, name, t.median_ms, t.min_ms, t.max_ms,
               t.gflops);
        fflush(stdout);
        if (!(worst <= allowed)) {
            exit_status =
                cla_fail(CLA_EXIT_FAILED, "bench: %s on %s: off by %.3g from the first way", name, device, worst);
            break;
        }
        if (json && !add_json(json, l, &t))
            exit_status = cla_fail(CLA_EXIT_FAILED, "bench: --json: out of memory");
    }
    clattn_context_destroy(context);
    return exit_status;
}

static int bench_layer(const char *text, const cla_args *args, int repeats, cJSON *json) {
    layer l;
    const char *devices = cla_args_value(args, "devices");
    char list[256];
    int exit_status = read_layer(text, &l);
    snprintf(list, sizeof list, "%s", devices ? devices : "opencl,cpu");
    if (exit_status == CLA_EXIT_OK)
        exit_status = fill_layer(&l);
    if (exit_status == CLA_EXIT_OK)
        printf("\n%s\n  %-10s  %-9s  %10s  %9s  %9s  %7s\n", text, "device", "algorithm", "median ms", "min", "max",
               "GFLOP/s");
    for (char *device = list; device && exit_status == CLA_EXIT_OK;) {
        char *comma = strchr(device, ',');
        if (comma)
            *comma = '\0';
        exit_status = bench_device(&l, device, args, repeats, json);
        device = comma ? comma + 1 : NULL;
    }
    for (int i = 0; i < TENSORS; i++)
        clattn_array_free(&l.arrays[i]);
    free(l.first);
    return exit_status;
}

static int write_json(const cJSON *json, cla_output *file) {
    char *text = cJSON_Print(json);
    FILE *f = text ? fopen(file->staged, "wb") : NULL;
    bool ok = f && fprintf(f, "%s\n", text) > 0;
    if (f)
        ok = fclose(f) == 0 && ok;
    free(text);
    file->complete = ok;
    return ok ? CLA_EXIT_OK : cla_fail(CLA_EXIT_FAILED, "bench: --json: %s cannot be written", file->path);
}

int cla_bench_linear(int argc, char **argv) {
    static const cla_arg_spec specs[] = {{"linear", 0, CLA_ARG_FLAG},      {"devices", 'd', CLA_ARG_VALUE},
                                         {"algorithms", 0, CLA_ARG_VALUE}, {"repeat", 0, CLA_ARG_VALUE},
                                         {"json", 0, CLA_ARG_VALUE},       {"launch-ms", 0, CLA_ARG_VALUE},
                                         {NULL, 0, CLA_ARG_FLAG}};
    cla_args args;
    cla_outputs outputs = {0};
    int64_t repeats = REPEATS;
    int index = -1;
    int exit_status = cla_args_parse("bench", argc, argv, specs, 1, -1, "'LINEAR LAYER'...", &args);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    const char *repeat = cla_args_value(&args, "repeat"), *path = cla_args_value(&args, "json");
    if (repeat && (!cla_parse_i64(repeat, &repeats) || repeats < 1 || repeats > REPEATS_MOST))
        return cla_fail(CLA_EXIT_USAGE, "bench: --repeat %s: a number from 1 to %d is needed", repeat, REPEATS_MOST);
    exit_status = cla_launch_option("bench", &args);
    if (exit_status == CLA_EXIT_OK)
        exit_status = check_algorithms(cla_args_value(&args, "algorithms"));
    for (int i = 0; i < args.word_count && exit_status == CLA_EXIT_OK; i++)
        exit_status = read_layer(args.words[i], &(layer){0}); /* all of them before any is run */
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    cJSON *json = path ? cJSON_CreateArray() : NULL;
    exit_status = cla_outputs_add_file(&outputs, "--json", path, &index);
    if (exit_status == CLA_EXIT_OK)
        exit_status = cla_outputs_check(&outputs, NULL, 0);
    if (exit_status == CLA_EXIT_OK)
        printf("clattn %s\n", clattn_version());
    cla_interrupt_watch();
    for (int i = 0; i < args.word_count && exit_status == CLA_EXIT_OK && !cla_interrupted(); i++)
        exit_status = bench_layer(args.words[i], &args, (int)repeats, json);
    if (cla_interrupted())
        printf("interrupted\n");
    if (exit_status == CLA_EXIT_OK && index >= 0 && (!cla_interrupted() || cJSON_GetArraySize(json) > 0)) {
        exit_status = write_json(json, &outputs.files[index]);
        if (exit_status == CLA_EXIT_OK)
            exit_status = cla_outputs_commit(&outputs);
    }
    cla_outputs_free(&outputs);
    cJSON_Delete(json);
    return exit_status;
}
