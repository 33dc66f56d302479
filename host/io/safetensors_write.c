/* SPDX-License-Identifier: Apache-2.0 */
/* Writing safetensors files: the bytes that the reference writer would make of the same tensors. */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/array.h"
#include "io/file.h"
#include "io/json_scan.h"
#include "io/safetensors_header.h"
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 8, ALIGNMENT = 8 };

typedef struct {
    const clattn_named_array *named;
    const cla_safetensors_type *type;
} item;

/* Wide types first, so that each tensor is aligned to its elements; then by name. */
static int by_type_and_name(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->type != y->type)
        return x->type > y->type ? -1 : 1;
    return strcmp(x->named->name, y->named->name);
}

static clattn_status check_texts(const char *path, const clattn_named_array *arrays, size_t count,
                                 const clattn_metadata_pair *metadata, size_t metadata_count) {
    clattn_status status = CLATTN_OK;
    cla_name *names = NULL;
    char text[CLA_NAME_TEXT];
    CLA_TRY(cla_alloc(count > metadata_count ? count : metadata_count, sizeof *names, "names", &names));
    for (size_t i = 0; i < count; i++) {
        CLA_CHECK(arrays[i].name, CLATTN_E_ARGUMENT, "%s: the name of tensor %zu is NULL", path, i);
        names[i].text = arrays[i].name;
    }
    cla_names_sort(names, count);
    const char *twice = cla_names_twice(names, count);
    CLA_CHECK(!twice, CLATTN_E_ARGUMENT, "%s: two tensors are named \"%s\"", path,
              cla_name_text(twice, text, sizeof text));
    for (size_t i = 0; i < metadata_count; i++) {
        CLA_CHECK(metadata[i].key && metadata[i].value, CLATTN_E_ARGUMENT, "%s: the %s of metadata %zu is NULL", path,
                  metadata[i].key ? "value" : "key", i);
        names[i].text = metadata[i].key;
    }
    cla_names_sort(names, metadata_count);
    twice = cla_names_twice(names, metadata_count);
    CLA_CHECK(!twice, CLATTN_E_ARGUMENT, "%s: two metadata are named \"%s\"", path,
              cla_name_text(twice, text, sizeof text));
done:
    cla_free(names);
    return status;
}

static clattn_status sort_items(const char *path, const clattn_named_array *arrays, size_t count, item *items) {
    clattn_status status = CLATTN_OK;
    char text[CLA_NAME_TEXT];
    for (size_t i = 0; i < count; i++) {
        cla_name_text(arrays[i].name, text, sizeof text);
        CLA_CHECK(strcmp(arrays[i].name, CLA_SAFETENSORS_METADATA) != 0, CLATTN_E_ARGUMENT,
                  "%s: no tensor can be named " CLA_SAFETENSORS_METADATA, path);
        CLA_TRY(cla_array_check(&arrays[i].array, text));
        items[i] = (item){.named = &arrays[i], .type = cla_safetensors_type_of(arrays[i].array.dtype)};
        CLA_CHECK(items[i].type, CLATTN_E_DTYPE, "%s: safetensors has no %s; convert %s to f16", path,
                  clattn_dtype_name(arrays[i].array.dtype), text);
    }
    if (count > 1)
        qsort(items, count, sizeof *items, by_type_and_name);
done:
    return status;
}

static clattn_status append_text(cla_str *s, const char *path, const char *text) {
    char shown[CLA_NAME_TEXT];
    if (strlen(text) > CLA_SAFETENSORS_MAX_HEADER)
        return cla_error(CLATTN_E_ARGUMENT, "%s: a name or metadata of %zu bytes; a header has %d at most", path,
                         strlen(text), CLA_SAFETENSORS_MAX_HEADER);
    return cla_json_append(s, text) ? CLATTN_OK
                                    : cla_error(CLATTN_E_ARGUMENT, "%s: \"%s\" is not UTF-8", path,
                                                cla_name_text(text, shown, sizeof shown));
}

static clattn_status write_header(cla_str *s, const char *path, const item *items, size_t count,
                                  const clattn_metadata_pair *metadata, size_t metadata_count) {
    clattn_status status = CLATTN_OK;
    int64_t begin = 0;
    cla_str_append(s, "{");
    for (size_t i = 0; i < metadata_count; i++) {
        cla_str_append(s, "%s", i ? "," : "\"" CLA_SAFETENSORS_METADATA "\":{");
        CLA_TRY(append_text(s, path, metadata[i].key));
        cla_str_append(s, ":");
        CLA_TRY(append_text(s, path, metadata[i].value));
    }
    cla_str_append(s, "%s%s", metadata_count ? "}" : "", metadata_count && count ? "," : "");
    for (size_t i = 0; i < count; i++) {
        const clattn_array *array = &items[i].named->array;
        cla_str_append(s, "%s", i ? "," : "");
        CLA_TRY(append_text(s, path, items[i].named->name));
        cla_str_append(s, ":{\"dtype\":\"%s\",\"shape\":[", items[i].type->text);
        for (int axis = 0; axis < array->rank; axis++)
            cla_str_append(s, "%s%lld", axis ? "," : "", (long long)array->shape[axis]);
        cla_str_append(s, "],\"data_offsets\":[%lld,%lld]}", (long long)begin,
                       (long long)(begin + (int64_t)array->bytes));
        begin += (int64_t)array->bytes;
    }
    cla_str_append(s, "}");
    cla_str_append(s, "%*s", (int)((ALIGNMENT - s->length % ALIGNMENT) % ALIGNMENT), "");
    CLA_TRY(cla_str_status(s));
    CLA_CHECK(s->length <= CLA_SAFETENSORS_MAX_HEADER, CLATTN_E_ARGUMENT,
              "%s: names and metadata make a header of %zu bytes; readers take %d", path, s->length,
              CLA_SAFETENSORS_MAX_HEADER);
done:
    return status;
}

clattn_status clattn_safetensors_write(const char *path, const clattn_named_array *arrays, size_t count,
                                       const clattn_metadata_pair *metadata, size_t metadata_count) {
    clattn_status status = CLATTN_OK;
    cla_writer *writer = NULL;
    cla_str header = {0};
    item *items = NULL;
    unsigned char prefix[PREFIX];
    CLA_CHECK(path, CLATTN_E_ARGUMENT, "safetensors: the path is NULL");
    CLA_CHECK((arrays || !count) && (metadata || !metadata_count), CLATTN_E_ARGUMENT, "%s: the %s are NULL", path,
              arrays || !count ? "metadata" : "arrays");
    CLA_TRY(check_texts(path, arrays, count, metadata, metadata_count));
    CLA_TRY(cla_alloc(count, sizeof *items, "tensors", &items));
    CLA_TRY(sort_items(path, arrays, count, items));
    CLA_TRY(write_header(&header, path, items, count, metadata, metadata_count));
    for (int i = 0; i < PREFIX; i++)
        prefix[i] = (unsigned char)((uint64_t)header.length >> 8 * i & 0xff);
    CLA_TRY(cla_writer_open(path, &writer));
    CLA_TRY(cla_writer_put(writer, prefix, sizeof prefix));
    CLA_TRY(cla_writer_put(writer, header.text, header.length));
    for (size_t i = 0; i < count; i++)
        CLA_TRY(cla_writer_put(writer, items[i].named->array.data, items[i].named->array.bytes));
    CLA_TRY(cla_writer_commit(writer));
done:
    cla_writer_close(writer);
    cla_str_free(&header);
    cla_free(items);
    return status;
}
