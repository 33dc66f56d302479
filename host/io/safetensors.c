/* SPDX-License-Identifier: Apache-2.0 */
/* Opening safetensors files: a length of 8 bytes, a JSON header, data. Only the header stays in memory. */
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "io/file_kind.h"
#include "io/safetensors_header.h"
#include <string.h>

enum { PREFIX = 8 };

struct clattn_safetensors {
    cla_file *file;
    cla_safetensors_header header;
    int64_t data; /* where it begins in the file */
};

static clattn_status header_length(const cla_file *file, size_t *length) {
    unsigned char p[PREFIX];
    char kind[CLA_FILE_KIND_TEXT];
    uint64_t n = 0;
    if (file->bytes < PREFIX)
        return cla_error(CLATTN_E_FORMAT, "%s: has %lld bytes, fewer than the 8 of a safetensors header's length",
                         file->path, (long long)file->bytes);
    const clattn_status status = cla_file_read(file, 0, p, sizeof p);
    if (status != CLATTN_OK)
        return status;
    for (int i = PREFIX - 1; i >= 0; i--)
        n = n << 8 | p[i];
    if (n >> 32 && *cla_file_kind(file, kind))
        return cla_error(CLATTN_E_FORMAT, "%s: is no safetensors file%s", file->path, kind);
    if (n > CLA_SAFETENSORS_MAX_HEADER)
        return cla_error(CLATTN_E_FORMAT, "%s: claims a header of %llu bytes; more than %d are refused", file->path,
                         (unsigned long long)n, CLA_SAFETENSORS_MAX_HEADER);
    if ((int64_t)n > file->bytes - PREFIX)
        return cla_error(CLATTN_E_FORMAT, "%s: claims a header of %llu bytes, but only %lld follow in the file",
                         file->path, (unsigned long long)n, (long long)(file->bytes - PREFIX));
    *length = (size_t)n;
    return CLATTN_OK;
}

clattn_status clattn_safetensors_open(const char *path, clattn_safetensors **out) {
    clattn_status status = CLATTN_OK;
    clattn_safetensors *s = NULL;
    char *text = NULL;
    size_t length = 0;
    CLA_CHECK(out, CLATTN_E_ARGUMENT, "safetensors: the result is NULL");
    *out = NULL;
    CLA_TRY(cla_alloc(1, sizeof *s, "safetensors", &s));
    CLA_TRY(cla_file_open(path, &s->file));
    CLA_TRY(header_length(s->file, &length));
    CLA_TRY(cla_alloc(length + 1, 1, "safetensors header", &text));
    CLA_TRY(cla_file_read(s->file, PREFIX, text, length));
    s->data = PREFIX + (int64_t)length;
    CLA_TRY(cla_safetensors_header_parse(path, text, length, s->file->bytes - s->data, &s->header));
    *out = s;
    s = NULL;
done:
    cla_free(text);
    clattn_safetensors_close(s);
    return status;
}

void clattn_safetensors_close(clattn_safetensors *s) {
    if (!s)
        return;
    cla_safetensors_header_free(&s->header);
    cla_file_close(s->file);
    cla_free(s);
}

size_t clattn_safetensors_count(const clattn_safetensors *s) { return s ? s->header.count : 0; }

bool clattn_safetensors_entry_at(const clattn_safetensors *s, size_t index, clattn_safetensors_entry *entry) {
    if (index >= clattn_safetensors_count(s) || !entry)
        return false;
    *entry = s->header.records[index].entry;
    return true;
}

bool clattn_safetensors_find(const clattn_safetensors *s, const char *name, size_t *index) {
    size_t at;
    if (!s || !name || !cla_names_find(s->header.names, s->header.count, name, &at))
        return false;
    if (index)
        *index = at;
    return true;
}

static clattn_status no_such_tensor(const clattn_safetensors *s, const char *name) {
    char wanted[CLA_NAME_TEXT], near[4 * CLA_NAME_TEXT];
    if (s->header.count == 0)
        return cla_error(CLATTN_E_ARGUMENT, "%s: holds no tensors", s->file->path);
    return cla_error(CLATTN_E_ARGUMENT, "%s: no tensor \"%s\" among its %zu; near names: %s", s->file->path,
                     cla_name_text(name, wanted, sizeof wanted), s->header.count,
                     cla_names_near(s->header.names, s->header.count, name, near, sizeof near));
}

clattn_status clattn_safetensors_read(clattn_safetensors *s, const char *name, clattn_array *array) {
    clattn_status status = CLATTN_OK;
    char text[CLA_NAME_TEXT];
    size_t index = 0;
    CLA_CHECK(array, CLATTN_E_ARGUMENT, "safetensors: the result is NULL");
    *array = (clattn_array){0};
    CLA_CHECK(s && name, CLATTN_E_ARGUMENT, "safetensors: the %s is NULL", s ? "name" : "file");
    CLA_TRY(clattn_safetensors_find(s, name, &index) ? CLATTN_OK : no_such_tensor(s, name));
    const cla_safetensors_record *record = &s->header.records[index];
    CLA_CHECK(record->entry.readable, CLATTN_E_DTYPE,
              "%s: tensor \"%s\" is of %s; clattn reads F32 F64 F16 BF16 I32 I64 U8 BOOL, so convert it first",
              s->file->path, cla_name_text(name, text, sizeof text), record->entry.dtype_text);
    CLA_TRY(clattn_array_create(record->entry.dtype, record->entry.rank, record->entry.shape, array));
    CLA_TRY(cla_file_read(s->file, s->data + record->begin, array->data, array->bytes));
done:
    if (status != CLATTN_OK && array)
        clattn_array_free(array);
    return status;
}

size_t clattn_safetensors_metadata_count(const clattn_safetensors *s) { return s ? s->header.metadata_count : 0; }

const char *clattn_safetensors_metadata_key(const clattn_safetensors *s, size_t index) {
    return index < clattn_safetensors_metadata_count(s) ? s->header.metadata[index].key : NULL;
}

const char *clattn_safetensors_metadata(const clattn_safetensors *s, const char *key) {
    size_t at;
    if (!s || !key || !cla_names_find(s->header.keys, s->header.metadata_count, key, &at))
        return NULL;
    return s->header.metadata[at].value;
}
