/* SPDX-License-Identifier: Apache-2.0 */
#include "study_data.h"

#include "args.h"
#include <cjson/cJSON.h>
#include <string.h>

/* The JSON at the head of a safetensors file, behind its length in eight bytes. */
static cJSON *read_header(size_t *end) {
    uint64_t length = 0;
    for (size_t i = 8; i-- > 0;)
        length = length << 8 | cla_study_bytes[i];
    *end = 8 + (size_t)length;
    return cJSON_ParseWithLength((const char *)cla_study_bytes + 8, (size_t)length);
}

static bool read_dtype(const cJSON *entry, clattn_dtype *dtype) {
    static const struct {
        const char *text;
        clattn_dtype dtype;
    } dtypes[] = {{"F64", CLATTN_F64}, {"F32", CLATTN_F32}, {"I64", CLATTN_I64}, {"BOOL", CLATTN_BOOL}};
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "dtype"));
    for (size_t i = 0; text && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(text, dtypes[i].text) == 0) {
            *dtype = dtypes[i].dtype;
            return true;
        }
    return false;
}

static bool read_entry(const cJSON *entry, size_t data, clattn_array *array) {
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets"), *axis;
    int64_t shape[CLATTN_MAX_RANK] = {0};
    int rank = 0;
    clattn_dtype dtype;
    cJSON_ArrayForEach(axis, cJSON_GetObjectItemCaseSensitive(entry, "shape")) {
        if (rank == CLATTN_MAX_RANK)
            return false;
        shape[rank++] = (int64_t)axis->valuedouble;
    }
    if (cJSON_GetArraySize(offsets) != 2 || !read_dtype(entry, &dtype) ||
        clattn_array_create(dtype, rank, shape, array) != CLATTN_OK)
        return false;
    const size_t begin = data + (size_t)cJSON_GetArrayItem(offsets, 0)->valuedouble;
    if (begin > cla_study_byte_count || array->bytes > cla_study_byte_count - begin) {
        clattn_array_free(array);
        return false;
    }
    memcpy(array->data, cla_study_bytes + begin, array->bytes);
    return true;
}

bool cla_study_load(const char *name, clattn_array *array) {
    size_t data = 0;
    cJSON *header = read_header(&data);
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(header, name);
    const bool ok = entry && read_entry(entry, data, array);
    cJSON_Delete(header);
    if (!ok)
        cla_fail(CLA_EXIT_FAILED, "study: the stored tensor %s cannot be read", name);
    return ok;
}
