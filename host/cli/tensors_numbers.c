/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for each batch, head, query or key: lists in the command line, or files. */
#include "tensors.h"

#include "args.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail_count(const char *option, const char *text, long long count, int64_t wanted, const char *what) {
    return cla_fail(CLA_EXIT_USAGE, "--%s %s: %lld number%s for %lld %s%s; give one for each", option, text, count,
                    count == 1 ? "" : "s", (long long)wanted, what,
                    wanted == 1                  ? ""
                    : strcmp(what, "batch") == 0 ? "es"
                                                 : "s");
}

/* A file of integers as i32 or i64. */
static int load_integers(const char *option, const char *text, clattn_dtype dtype, clattn_array *numbers) {
    cla_input in;
    int exit_status = cla_input_load(&in, option, text);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    if (in.array.dtype != CLATTN_I32 && in.array.dtype != CLATTN_I64) {
        exit_status = cla_fail(CLA_EXIT_USAGE, "--%s %s is %s; it takes i32 or i64", option, text,
                               clattn_dtype_name(in.array.dtype));
    } else {
        const clattn_status status = clattn_array_convert(&in.array, dtype, numbers);
        if (status != CLATTN_OK)
            exit_status = cla_fail_status(status, option);
    }
    clattn_array_free(&in.array);
    return exit_status;
}

/* The numbers of an array of rank 1, malloc'ed. */
static int take_numbers(const char *option, const char *text, const clattn_array *array, int64_t **numbers,
                        int64_t *count) {
    if (array->rank != 1)
        return cla_fail(CLA_EXIT_USAGE, "--%s %s has rank %d; it takes rank 1", option, text, array->rank);
    *numbers = malloc(array->bytes ? array->bytes : 1);
    if (!*numbers)
        return cla_fail(CLA_EXIT_FAILED, "--%s: out of memory for %lld numbers", option, (long long)array->shape[0]);
    memcpy(*numbers, array->data, array->bytes);
    *count = array->shape[0];
    return CLA_EXIT_OK;
}

int cla_numbers_load_all(const char *option, const char *text, int64_t **numbers, int64_t *count) {
    clattn_array file = {0};
    size_t parts = 1, n = 0;
    for (const char *c = text; *c; c++)
        parts += *c == ',';
    int64_t *list = malloc(parts * sizeof *list);
    *numbers = NULL;
    if (!list)
        return cla_fail(CLA_EXIT_FAILED, "--%s: out of memory for %zu numbers", option, parts);
    if (cla_parse_i64_list(text, list, parts, &n)) {
        *numbers = list;
        *count = (int64_t)n;
        return CLA_EXIT_OK;
    }
    free(list);
    int exit_status = load_integers(option, text, CLATTN_I64, &file);
    if (exit_status == CLA_EXIT_OK)
        exit_status = take_numbers(option, text, &file, numbers, count);
    clattn_array_free(&file);
    return exit_status;
}

int cla_numbers_load(const char *option, const char *text, int64_t batch, int64_t **numbers) {
    int64_t count = 0;
    int exit_status = cla_numbers_load_all(option, text, numbers, &count);
    if (exit_status == CLA_EXIT_OK && count != batch) {
        exit_status = fail_count(option, text, (long long)count, batch, "batch");
        free(*numbers);
        *numbers = NULL;
    }
    return exit_status;
}

/* "0.5,0.25": false when a part is no number. */
static bool parse_reals(const char *text, float *values, int64_t capacity, int64_t *count) {
    char part[64];
    *count = 0;
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        double x;
        if (length >= sizeof part)
            return false;
        memcpy(part, at, length);
        part[length] = '\0';
        if (!cla_parse_f64(part, &x))
            return false;
        if (*count < capacity)
            values[*count] = (float)x;
        ++*count;
        at += length;
        if (*at == '\0')
            return true;
    }
}

static int reals_from_file(const char *option, const char *text, int64_t heads, float *list, int64_t *count) {
    cla_input in;
    clattn_array wide = {0};
    int exit_status = cla_input_load(&in, option, text);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    if (in.array.rank != 1) {
        exit_status = cla_fail(CLA_EXIT_USAGE, "--%s %s has rank %d; it takes rank 1", option, text, in.array.rank);
    } else {
        const clattn_status status = clattn_array_convert(&in.array, CLATTN_F32, &wide);
        *count = in.array.shape[0];
        if (status != CLATTN_OK)
            exit_status = cla_fail_status(status, option);
        else if (*count == heads && heads > 0)
            memcpy(list, wide.data, (size_t)heads * sizeof *list);
    }
    clattn_array_free(&wide);
    clattn_array_free(&in.array);
    return exit_status;
}

int cla_reals_load(const char *option, const char *text, int64_t heads, float **numbers) {
    int64_t count = 0;
    int exit_status = CLA_EXIT_OK;
    float *list = calloc(heads > 0 ? (size_t)heads : 1, sizeof *list);
    if (!list)
        return cla_fail(CLA_EXIT_FAILED, "--%s: out of memory for %lld numbers", option, (long long)heads);
    if (!parse_reals(text, list, heads, &count))
        exit_status = reals_from_file(option, text, heads, list, &count);
    if (exit_status == CLA_EXIT_OK && count != heads)
        exit_status = fail_count(option, text, (long long)count, heads, "head");
    if (exit_status != CLA_EXIT_OK) {
        free(list);
        list = NULL;
    }
    *numbers = list;
    return exit_status;
}

int cla_table_load(const char *option, const char *text, int64_t rows, int64_t columns, int32_t **numbers,
                   int64_t *columns_out) {
    clattn_array file = {0};
    char dims[200];
    int exit_status = load_integers(option, text, CLATTN_I32, &file);
    *numbers = NULL;
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    const bool one_row = file.rank == 1 && rows == 1; /* without the axis of the batch */
    const int64_t wide = one_row ? file.shape[0] : file.rank == 2 ? file.shape[1] : -1;
    if (wide < 0 || (!one_row && file.shape[0] != rows) || (columns >= 0 && wide != columns)) {
        char wanted[32] = "pages";
        if (columns >= 0)
            snprintf(wanted, sizeof wanted, "%lld", (long long)columns);
        exit_status = cla_fail(CLA_EXIT_USAGE, "--%s %s is %s; it takes [%lld, %s], a row for each batch", option, text,
                               cla_dims_text(file.rank, file.shape, dims, sizeof dims), (long long)rows, wanted);
    } else if (!(*numbers = malloc(file.bytes ? file.bytes : 1))) {
        exit_status = cla_fail(CLA_EXIT_FAILED, "--%s: out of memory for %zu bytes", option, file.bytes);
    } else {
        memcpy(*numbers, file.data, file.bytes);
        *columns_out = wide;
    }
    clattn_array_free(&file);
    return exit_status;
}
