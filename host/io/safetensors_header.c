/* SPDX-License-Identifier: Apache-2.0 */
#include "io/safetensors_header.h"

#include "base/error.h"
#include "base/mem.h"
#include "io/json_scan.h"
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

static const cla_safetensors_type types[] = {
    {"BOOL", 8, true, CLATTN_BOOL},
    {"F4", 4, false, CLATTN_F32},
    {"F6_E2M3", 6, false, CLATTN_F32},
    {"F6_E3M2", 6, false, CLATTN_F32},
    {"U8", 8, true, CLATTN_U8},
    {"I8", 8, false, CLATTN_F32},
    {"F8_E5M2", 8, false, CLATTN_F32},
    {"F8_E4M3", 8, false, CLATTN_F32},
    {"F8_E8M0", 8, false, CLATTN_F32},
    {"F8_E4M3FNUZ", 8, false, CLATTN_F32},
    {"F8_E5M2FNUZ", 8, false, CLATTN_F32},
    {"I16", 16, false, CLATTN_F32},
    {"U16", 16, false, CLATTN_F32},
    {"F16", 16, true, CLATTN_F16},
    {"BF16", 16, true, CLATTN_BF16},
    {"I32", 32, true, CLATTN_I32},
    {"U32", 32, false, CLATTN_F32},
    {"F32", 32, true, CLATTN_F32},
    {"C64", 64, false, CLATTN_F32},
    {"F64", 64, true, CLATTN_F64},
    {"I64", 64, true, CLATTN_I64},
    {"U64", 64, false, CLATTN_F32},
};
#define TYPES (sizeof types / sizeof *types)

const cla_safetensors_type *cla_safetensors_type_named(const char *text) {
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(types[i].text, text) == 0)
            return &types[i];
    return NULL;
}

const cla_safetensors_type *cla_safetensors_type_of(clattn_dtype dtype) {
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].readable && types[i].dtype == dtype)
            return &types[i];
    return NULL;
}

/* ---- one tensor ---- */

static clattn_status whole_number(const char *path, const char *name, const cJSON *item, int64_t *out) {
    if (item->valuedouble >= 0x1p53) /* the scan let no fraction through */
        return cla_error(CLATTN_E_FORMAT, "%s: tensor \"%s\" has a number of 2^53 or more", path, name);
    *out = (int64_t)item->valuedouble;
    return CLATTN_OK;
}

/* Shape, range and type agree, and the range is inside the data. */
static clattn_status check_range(const char *path, const char *name, const cla_safetensors_record *record, int64_t end,
                                 const cla_safetensors_type *type, int64_t data_bytes) {
    const clattn_safetensors_entry *entry = &record->entry;
    const clattn_tensor t = clattn_tensor_host(NULL, CLATTN_F32, entry->rank, entry->shape);
    int64_t bits = clattn_tensor_elements(&t);
    if (bits < 0 || !cla_mul(bits, type->bits, &bits))
        return cla_error(CLATTN_E_FORMAT, "%s: the shape of tensor \"%s\" has more bits than 63 bits count", path,
                         name);
    if (record->begin > end || end > data_bytes)
        return cla_error(CLATTN_E_FORMAT, "%s: tensor \"%s\" claims the bytes %lld to %lld of %lld bytes of data", path,
                         name, (long long)record->begin, (long long)end, (long long)data_bytes);
    if (bits % 8 != 0 || bits / 8 != end - record->begin)
        return cla_error(CLATTN_E_FORMAT,
                         "%s: tensor \"%s\" of %s has %lld bytes, but its shape needs %lld bits = %lld bytes", path,
                         name, type->text, (long long)(end - record->begin), (long long)bits, (long long)(bits / 8));
    return CLATTN_OK;
}

static clattn_status read_numbers(const char *path, const char *name, const cJSON *list, int64_t *out, int *count) {
    const cJSON *item;
    *count = 0;
    cJSON_ArrayForEach(item, list) { /* at most CLATTN_MAX_RANK: the scan counted */
        const clattn_status status = whole_number(path, name, item, &out[(*count)++]);
        if (status != CLATTN_OK)
            return status;
    }
    return CLATTN_OK;
}

static clattn_status read_tensor(const char *path, const cJSON *object, int64_t data_bytes,
                                 cla_safetensors_record *record) {
    clattn_status status = CLATTN_OK;
    char name[CLA_NAME_TEXT], text[CLA_NAME_TEXT];
    const cJSON *dtype = NULL, *shape = NULL, *offsets = NULL, *item;
    int64_t range[CLATTN_MAX_RANK] = {0};
    int range_count;
    cla_name_text(object->string, name, sizeof name);
    cJSON_ArrayForEach(item, object) {
        const cJSON **field = strcmp(item->string, "dtype") == 0          ? &dtype
                              : strcmp(item->string, "shape") == 0        ? &shape
                              : strcmp(item->string, "data_offsets") == 0 ? &offsets
                                                                          : NULL;
        CLA_CHECK(field && !*field, CLATTN_E_FORMAT, "%s: tensor \"%s\" has %s key \"%s\"", path, name,
                  field ? "twice the" : "the unknown", cla_name_text(item->string, text, sizeof text));
        CLA_CHECK(cJSON_IsString(item) == (field == &dtype), CLATTN_E_FORMAT, "%s: tensor \"%s\": %s is no %s", path,
                  name, item->string, field == &dtype ? "string" : "list of numbers");
        *field = item;
    }
    CLA_CHECK(dtype && shape && offsets, CLATTN_E_FORMAT, "%s: tensor \"%s\" has no %s", path, name,
              !dtype   ? "dtype"
              : !shape ? "shape"
                       : "data_offsets");
    const cla_safetensors_type *type = cla_safetensors_type_named(dtype->valuestring);
    CLA_CHECK(type, CLATTN_E_FORMAT, "%s: tensor \"%s\" has the unknown dtype \"%s\"", path, name,
              cla_name_text(dtype->valuestring, text, sizeof text));
    CLA_TRY(read_numbers(path, name, offsets, range, &range_count));
    CLA_CHECK(range_count == 2, CLATTN_E_FORMAT, "%s: tensor \"%s\" has %d data_offsets instead of 2", path, name,
              range_count);
    record->entry = (clattn_safetensors_entry){
        .name = object->string, .dtype_text = type->text, .readable = type->readable, .dtype = type->dtype};
    CLA_TRY(read_numbers(path, name, shape, record->entry.shape, &record->entry.rank));
    record->begin = range[0];
    CLA_TRY(check_range(path, name, record, range[1], type, data_bytes));
    record->entry.bytes = (uint64_t)(range[1] - range[0]);
done:
    return status;
}

/* ---- all of them ---- */

static clattn_status read_metadata(const char *path, const cJSON *object, cla_safetensors_header *header) {
    char name[CLA_NAME_TEXT];
    const cJSON *item;
    if (header->metadata)
        return cla_error(CLATTN_E_FORMAT, "%s: the header has two " CLA_SAFETENSORS_METADATA, path);
    const clattn_status status =
        cla_alloc((size_t)cJSON_GetArraySize(object), sizeof *header->metadata, "metadata", &header->metadata);
    if (status != CLATTN_OK)
        return status;
    cJSON_ArrayForEach(item, object) {
        if (!cJSON_IsString(item))
            return cla_error(CLATTN_E_FORMAT, "%s: the metadata \"%s\" is no string", path,
                             cla_name_text(item->string, name, sizeof name));
        header->metadata[header->metadata_count++] =
            (clattn_metadata_pair){.key = item->string, .value = item->valuestring};
    }
    return CLATTN_OK;
}

static clattn_status sort_names(const char *path, cla_safetensors_header *header) {
    clattn_status status = CLATTN_OK;
    char name[CLA_NAME_TEXT];
    CLA_TRY(cla_alloc(header->count, sizeof *header->names, "names", &header->names));
    CLA_TRY(cla_alloc(header->metadata_count, sizeof *header->keys, "names", &header->keys));
    for (size_t i = 0; i < header->count; i++)
        header->names[i] = (cla_name){.text = header->records[i].entry.name, .index = i};
    for (size_t i = 0; i < header->metadata_count; i++)
        header->keys[i] = (cla_name){.text = header->metadata[i].key, .index = i};
    cla_names_sort(header->names, header->count);
    cla_names_sort(header->keys, header->metadata_count);
    const char *tensor = cla_names_twice(header->names, header->count);
    const char *key = cla_names_twice(header->keys, header->metadata_count);
    CLA_CHECK(!tensor && !key, CLATTN_E_FORMAT, "%s: two %s are named \"%s\"", path, tensor ? "tensors" : "metadata",
              cla_name_text(tensor ? tensor : key, name, sizeof name));
done:
    return status;
}

static int by_range(const void *a, const void *b) {
    const cla_safetensors_record *x = *(const cla_safetensors_record *const *)a;
    const cla_safetensors_record *y = *(const cla_safetensors_record *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->entry.bytes < y->entry.bytes ? -1 : x->entry.bytes > y->entry.bytes;
}

/* The format allows neither overlaps nor holes: sorted, each range begins where the last one ended. */
static clattn_status check_cover(const char *path, const cla_safetensors_header *header, int64_t data_bytes) {
    clattn_status status = CLATTN_OK;
    char name[CLA_NAME_TEXT];
    const cla_safetensors_record **sorted = NULL;
    int64_t end = 0;
    CLA_TRY(cla_alloc(header->count, sizeof *sorted, "ranges", &sorted));
    for (size_t i = 0; i < header->count; i++)
        sorted[i] = &header->records[i];
    if (header->count > 1)
        qsort(sorted, header->count, sizeof *sorted, by_range);
    for (size_t i = 0; i < header->count; i++) {
        CLA_CHECK(sorted[i]->begin == end, CLATTN_E_FORMAT,
                  "%s: tensor \"%s\" begins at byte %lld of the data, the one before it ends at %lld: %s", path,
                  cla_name_text(sorted[i]->entry.name, name, sizeof name), (long long)sorted[i]->begin, (long long)end,
                  sorted[i]->begin < end ? "they overlap" : "a hole, which the format forbids");
        end += (int64_t)sorted[i]->entry.bytes;
    }
    CLA_CHECK(end == data_bytes, CLATTN_E_FORMAT, "%s: the tensors end at byte %lld of the data, the file at %lld",
              path, (long long)end, (long long)data_bytes);
done:
    cla_free(sorted);
    return status;
}

clattn_status cla_safetensors_header_parse(const char *path, const char *text, size_t length, int64_t data_bytes,
                                           cla_safetensors_header *header) {
    clattn_status status = CLATTN_OK;
    const cJSON *item;
    *header = (cla_safetensors_header){0};
    CLA_TRY(cla_json_scan(path, text, length));
    header->json = cJSON_ParseWithLengthOpts(text, length + 1, NULL, true);
    CLA_CHECK(header->json, CLATTN_E_MEMORY, "%s: out of memory for a header of %zu bytes", path, length);
    CLA_TRY(cla_alloc((size_t)cJSON_GetArraySize(header->json), sizeof *header->records, "tensors", &header->records));
    cJSON_ArrayForEach(item, (const cJSON *)header->json) {
        if (strcmp(item->string, CLA_SAFETENSORS_METADATA) == 0)
            CLA_TRY(read_metadata(path, item, header));
        else
            CLA_TRY(read_tensor(path, item, data_bytes, &header->records[header->count++]));
    }
    CLA_TRY(sort_names(path, header));
    CLA_TRY(check_cover(path, header, data_bytes));
done:
    if (status != CLATTN_OK)
        cla_safetensors_header_free(header);
    return status;
}

void cla_safetensors_header_free(cla_safetensors_header *header) {
    cJSON_Delete(header->json);
    cla_free(header->records);
    cla_free(header->metadata);
    cla_free(header->names);
    cla_free(header->keys);
    *header = (cla_safetensors_header){0};
}
