/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700 /* stat */

#include "outputs_kept.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* *file: NULL where there is nothing to keep. */
static clattn_status open_older(const char *path, clattn_safetensors **file) {
    struct stat info;
    *file = NULL;
    const bool is_none = stat(path, &info) != 0 ? errno == ENOENT : info.st_size == 0;
    return is_none ? CLATTN_OK : clattn_safetensors_open(path, file);
}

clattn_status cla_kept_check(const char *path, char **unreadable) {
    clattn_safetensors *file;
    clattn_safetensors_entry entry;
    clattn_status status = open_older(path, &file);
    *unreadable = NULL;
    for (size_t i = 0; status == CLATTN_OK && clattn_safetensors_entry_at(file, i, &entry); i++)
        if (!entry.readable) {
            status = CLATTN_E_DTYPE;
            *unreadable = malloc(strlen(entry.name) + 1);
            if (*unreadable)
                strcpy(*unreadable, entry.name);
        }
    clattn_safetensors_close(file);
    return status;
}

static bool is_among(const char *name, const clattn_named_array *arrays, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(arrays[i].name, name) == 0)
            return true;
    return false;
}

/* Reads tensors that are not among the new ones behind these. */
static clattn_status read_others(clattn_safetensors *file, clattn_named_array *all, size_t count, size_t *total) {
    clattn_safetensors_entry entry;
    clattn_status status = CLATTN_OK;
    *total = count;
    for (size_t i = 0; status == CLATTN_OK && clattn_safetensors_entry_at(file, i, &entry); i++) {
        if (is_among(entry.name, all, count))
            continue;
        all[*total].name = entry.name;
        status = clattn_safetensors_read(file, entry.name, &all[*total].array);
        *total += status == CLATTN_OK;
    }
    return status;
}

clattn_status cla_kept_write(const char *from, const char *to, const clattn_named_array *arrays, size_t count) {
    clattn_safetensors *file;
    clattn_status status = open_older(from, &file);
    if (status != CLATTN_OK || !file)
        return status == CLATTN_OK ? clattn_safetensors_write(to, arrays, count, NULL, 0) : status;
    const size_t pairs = clattn_safetensors_metadata_count(file);
    size_t total = count;
    clattn_named_array *all = calloc(count + clattn_safetensors_count(file), sizeof *all);
    clattn_metadata_pair *metadata = calloc(pairs + 1, sizeof *metadata);
    if (!all || !metadata)
        status = CLATTN_E_MEMORY;
    for (size_t i = 0; status == CLATTN_OK && i < count; i++)
        all[i] = arrays[i];
    for (size_t i = 0; status == CLATTN_OK && i < pairs; i++) {
        metadata[i].key = clattn_safetensors_metadata_key(file, i);
        metadata[i].value = clattn_safetensors_metadata(file, metadata[i].key);
    }
    if (status == CLATTN_OK)
        status = read_others(file, all, count, &total);
    if (status == CLATTN_OK)
        status = clattn_safetensors_write(to, all, total, metadata, pairs);
    for (size_t i = count; i < total; i++)
        clattn_array_free(&all[i].array);
    free(all);
    free(metadata);
    clattn_safetensors_close(file);
    return status;
}
