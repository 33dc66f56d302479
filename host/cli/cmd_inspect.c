/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn inspect`: what is in a tensor file. */
#include "args.h"
#include "commands.h"
#include "tensors.h"

#include <stdio.h>
#include <string.h>

const char *const cla_help_inspect =
    "Usage: clattn inspect FILE\n"
    "\n"
    "Prints name, type and shape of every tensor in an npy, safetensors or GGUF file, and its metadata.\n"
    "Columns: name, type, shape, bytes. Names are those behind the colon of FILE.safetensors:NAME.\n"
    "Types that clattn cannot compute with are listed too, in brackets.\n";

/* Counts as wrong use whatever keeps an input from being read; only memory is not the user's. */
static int fail_read(clattn_status status) {
    return cla_fail(status == CLATTN_E_MEMORY ? CLA_EXIT_FAILED : CLA_EXIT_USAGE, "inspect: %s", clattn_last_error());
}

static int inspect_npy(const char *path) {
    clattn_array array = {0};
    char text[200];
    const clattn_status status = clattn_npy_read(path, &array);
    if (status != CLATTN_OK)
        return fail_read(status);
    printf("%s  %s  %zu bytes\n", clattn_dtype_name(array.dtype),
           cla_dims_text(array.rank, array.shape, text, sizeof text), array.bytes);
    clattn_array_free(&array);
    return CLA_EXIT_OK;
}

/* Control characters as '?', so that a file cannot steer the terminal. */
static void print_clean(const char *text, size_t most) {
    for (size_t i = 0; i < most && text[i]; i++)
        putchar((unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i]);
    if (strlen(text) > most)
        fputs("...", stdout);
}

static void print_entry(const clattn_safetensors_entry *entry, int name_width, int shape_width) {
    char shape[200], dtype[40];
    snprintf(dtype, sizeof dtype, entry->readable ? "%s" : "[%s]",
             entry->readable ? clattn_dtype_name(entry->dtype) : entry->dtype_text);
    const int length = (int)strlen(entry->name), pad = name_width > length ? name_width - length : 0;
    print_clean(entry->name, SIZE_MAX);
    printf("%*s  %-6s  %-*s  %llu bytes\n", pad, "", dtype, shape_width,
           cla_dims_text(entry->rank, entry->shape, shape, sizeof shape), (unsigned long long)entry->bytes);
}

typedef bool next_entry(const void *file, size_t index, clattn_safetensors_entry *entry);

static bool next_of_safetensors(const void *file, size_t index, clattn_safetensors_entry *entry) {
    return clattn_safetensors_entry_at(file, index, entry);
}

static bool next_of_gguf(const void *file, size_t index, clattn_safetensors_entry *entry) {
    return clattn_gguf_entry_at(file, index, entry);
}

static void print_tensors(const void *file, next_entry *next) {
    clattn_safetensors_entry entry;
    size_t name_width = 0, shape_width = 0;
    char shape[200];
    for (size_t i = 0; next(file, i, &entry); i++) {
        const size_t name = strlen(entry.name);
        const size_t dims = strlen(cla_dims_text(entry.rank, entry.shape, shape, sizeof shape));
        name_width = name > name_width && name <= 80 ? name : name_width;
        shape_width = dims > shape_width ? dims : shape_width;
    }
    for (size_t i = 0; next(file, i, &entry); i++)
        print_entry(&entry, (int)name_width, (int)shape_width);
}

static void print_counts(size_t tensors, size_t keys) {
    printf("%s%zu tensor%s, %zu metadata key%s\n", tensors || keys ? "\n" : "", tensors, tensors == 1 ? "" : "s", keys,
           keys == 1 ? "" : "s");
}

static int inspect_safetensors(const char *path) {
    clattn_safetensors *file = NULL;
    const clattn_status status = clattn_safetensors_open(path, &file);
    if (status != CLATTN_OK)
        return fail_read(status);
    const size_t tensors = clattn_safetensors_count(file), keys = clattn_safetensors_metadata_count(file);
    print_tensors(file, next_of_safetensors);
    for (size_t i = 0; i < keys; i++) {
        const char *key = clattn_safetensors_metadata_key(file, i), *value = clattn_safetensors_metadata(file, key);
        fputs(i ? "  " : "\nmetadata\n  ", stdout);
        print_clean(key, 80);
        fputs(": ", stdout);
        print_clean(value ? value : "", 70);
        putchar('\n');
    }
    print_counts(tensors, keys);
    clattn_safetensors_close(file);
    return CLA_EXIT_OK;
}

/* "u32 7", "string llama", "49152 of i32"; the texts of arrays are left out, which may be a vocabulary. */
static void print_value(const clattn_gguf *file, const clattn_gguf_value *value) {
    const char *type = clattn_gguf_type_name(value->type), *text;
    int64_t whole;
    double number;
    print_clean(value->key, 80);
    if (value->is_array)
        printf(": %zu of %s\n", value->count, type);
    else if (clattn_gguf_integer(file, value->key, &whole) == CLATTN_OK)
        printf(": %s %lld\n", type, (long long)whole);
    else if (clattn_gguf_number(file, value->key, &number) == CLATTN_OK)
        printf(": %s %.9g\n", type, number);
    else if (clattn_gguf_text(file, value->key, &text) == CLATTN_OK) {
        printf(": %s ", type);
        print_clean(text, 70);
        putchar('\n');
    } else
        printf(": %s that is not shown\n", type); /* above INT64_MAX, or with a byte 0 */
}

static int inspect_gguf(const char *path) {
    clattn_gguf *file = NULL;
    clattn_gguf_value value;
    const clattn_status status = clattn_gguf_open(path, &file);
    if (status != CLATTN_OK)
        return fail_read(status);
    print_tensors(file, next_of_gguf);
    for (size_t i = 0; clattn_gguf_metadata_at(file, i, &value); i++) {
        fputs(i ? "  " : "\nmetadata\n  ", stdout);
        print_value(file, &value);
    }
    print_counts(clattn_gguf_count(file), clattn_gguf_metadata_count(file));
    clattn_gguf_close(file);
    return CLA_EXIT_OK;
}

int cla_cmd_inspect(int argc, char **argv) {
    static const cla_arg_spec specs[] = {{NULL, 0, CLA_ARG_FLAG}};
    cla_args args;
    const int exit_status = cla_args_parse("inspect", argc, argv, specs, 1, 1, "a file", &args);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    const char *path = args.words[0];
    const size_t length = strlen(path);
    if (length >= 4 && strcmp(path + length - 4, ".npy") == 0)
        return inspect_npy(path);
    if (length >= 12 && strcmp(path + length - 12, ".safetensors") == 0)
        return inspect_safetensors(path);
    if (length >= 5 && strcmp(path + length - 5, ".gguf") == 0)
        return inspect_gguf(path);
    return cla_fail(CLA_EXIT_USAGE, "inspect: %s is none of X.npy, X.safetensors and X.gguf by its name", path);
}
