/* SPDX-License-Identifier: Apache-2.0 */
/* Owned arrays on the host, and the specs "X.npy" and "FILE.safetensors:NAME". Knows no header. */
#include "io/array.h"

#include "base/error.h"
#include "base/mem.h"
#include "io/names.h"
#include "tensor/view.h"
#include <string.h>

#define DOT_SAFETENSORS ".safetensors"

void clattn_array_free(clattn_array *array) {
    if (!array)
        return;
    cla_free(array->data);
    *array = (clattn_array){0};
}

static clattn_status count_bytes(const char *what, clattn_dtype dtype, int rank, const int64_t *shape, size_t *bytes) {
    char text[200];
    int64_t n;
    const int64_t length = (int64_t)clattn_dtype_length(dtype);
    if (length == 0)
        return cla_error(CLATTN_E_DTYPE, "%s: %d is no dtype", what, (int)dtype);
    if (rank < 0 || rank > CLATTN_MAX_RANK)
        return cla_error(CLATTN_E_SHAPE, "%s: rank %d is not from 0 to %d", what, rank, CLATTN_MAX_RANK);
    if (rank > 0 && !shape)
        return cla_error(CLATTN_E_ARGUMENT, "%s: the shape is NULL at rank %d", what, rank);
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0)
            return cla_error(CLATTN_E_SHAPE, "%s: axis %d has the negative size %lld", what, i, (long long)shape[i]);
    const clattn_tensor t = clattn_tensor_host(NULL, dtype, rank, shape);
    n = clattn_tensor_elements(&t);
    if (rank > 0 ? shape[rank - 1] % length != 0 : length > 1)
        return cla_error(CLATTN_E_SHAPE, "%s: %s of %s is not made of whole blocks of %lld", what,
                         cla_shape_text(&t, text, sizeof text), clattn_dtype_name(dtype), (long long)length);
    if (n < 0 || !cla_mul(n / length, (int64_t)clattn_dtype_size(dtype), &n))
        return cla_error(CLATTN_E_SHAPE, "%s: %s of %s has more bytes than 63 bits count", what,
                         cla_shape_text(&t, text, sizeof text), clattn_dtype_name(dtype));
    *bytes = (size_t)n;
    if ((int64_t)*bytes != n)
        return cla_error(CLATTN_E_MEMORY, "%s: %lld bytes are more than this machine can address", what, (long long)n);
    return CLATTN_OK;
}

clattn_status clattn_array_create(clattn_dtype dtype, int rank, const int64_t *shape, clattn_array *array) {
    clattn_status status = CLATTN_OK;
    size_t bytes = 0;
    CLA_CHECK(array, CLATTN_E_ARGUMENT, "array: the result is NULL");
    *array = (clattn_array){0};
    CLA_TRY(count_bytes("array", dtype, rank, shape, &bytes));
    CLA_TRY(cla_alloc(bytes, 1, "array", &array->data));
    array->dtype = dtype;
    array->rank = rank;
    array->bytes = bytes;
    if (rank > 0)
        memcpy(array->shape, shape, (size_t)rank * sizeof *shape);
done:
    return status;
}

clattn_tensor clattn_array_tensor(const clattn_array *array) {
    static const int64_t one = 1;
    if (!array || !array->data)
        return (clattn_tensor){0};
    const bool scalar = array->rank == 0;
    return clattn_tensor_host(array->data, array->dtype, scalar ? 1 : array->rank, scalar ? &one : array->shape);
}

clattn_status clattn_array_convert(const clattn_array *array, clattn_dtype dtype, clattn_array *out) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(out && out != array, CLATTN_E_ARGUMENT, "convert: the result is %s", out ? "the array itself" : "NULL");
    *out = (clattn_array){0};
    CLA_TRY(cla_array_check(array, "convert"));
    CLA_TRY(clattn_array_create(dtype, array->rank, array->shape, out));
    CLA_TRY(clattn_convert(out->data, dtype, array->data, array->dtype,
                           out->bytes / clattn_dtype_size(dtype) * clattn_dtype_length(dtype)));
done:
    if (status != CLATTN_OK && out && out != array)
        clattn_array_free(out);
    return status;
}

clattn_status cla_array_check(const clattn_array *array, const char *what) {
    size_t bytes = 0;
    if (!array)
        return cla_error(CLATTN_E_ARGUMENT, "%s: the array is NULL", what);
    const clattn_status status = count_bytes(what, array->dtype, array->rank, array->shape, &bytes);
    if (status != CLATTN_OK)
        return status;
    if (bytes != array->bytes)
        return cla_error(CLATTN_E_ARGUMENT, "%s: the array says %zu bytes, its shape and dtype %zu", what, array->bytes,
                         bytes);
    if (bytes > 0 && !array->data)
        return cla_error(CLATTN_E_ARGUMENT, "%s: the data is NULL, with %zu bytes to read", what, bytes);
    return CLATTN_OK;
}

/* ---- specs ---- */

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* Splits at the first ".safetensors:", so that folders and names may hold colons. *path is a copy; *name points into
 * spec and is NULL when there is none. */
static clattn_status split_spec(const char *spec, char **path, const char **name) {
    const char *cut = strstr(spec, DOT_SAFETENSORS ":");
    size_t length = strlen(spec);
    *name = NULL;
    if (cut && cut > spec) {
        length = (size_t)(cut - spec) + sizeof DOT_SAFETENSORS - 1;
        *name = spec + length + 1;
        if (!**name)
            return cla_error(CLATTN_E_ARGUMENT, "%s: no tensor is named after the last colon", spec);
    } else if (!ends_with(spec, ".npy") && !ends_with(spec, DOT_SAFETENSORS)) {
        return cla_error(CLATTN_E_ARGUMENT, "%s: is neither X.npy nor FILE.safetensors:NAME", spec);
    }
    const clattn_status status = cla_alloc(length + 1, 1, "path", path);
    if (status == CLATTN_OK)
        memcpy(*path, spec, length);
    return status;
}

static clattn_status load_tensor(const char *path, const char *name, clattn_array *array) {
    clattn_status status = CLATTN_OK;
    clattn_safetensors *file = NULL;
    clattn_safetensors_entry first;
    char names[3 * CLA_NAME_TEXT];
    CLA_TRY(clattn_safetensors_open(path, &file));
    if (!name) {
        const size_t count = clattn_safetensors_count(file);
        CLA_CHECK(count > 0, CLATTN_E_ARGUMENT, "%s: holds no tensor", path);
        clattn_safetensors_entry_at(file, 0, &first);
        CLA_CHECK(count == 1, CLATTN_E_ARGUMENT, "%s: holds %zu tensors; name one, as in %s:%s", path, count, path,
                  cla_name_text(first.name, names, sizeof names));
        name = first.name;
    }
    CLA_TRY(clattn_safetensors_read(file, name, array));
done:
    clattn_safetensors_close(file);
    return status;
}

clattn_status clattn_array_load(const char *spec, clattn_array *array) {
    clattn_status status = CLATTN_OK;
    char *path = NULL;
    const char *name;
    CLA_CHECK(array, CLATTN_E_ARGUMENT, "load: the result is NULL");
    *array = (clattn_array){0};
    CLA_CHECK(spec, CLATTN_E_ARGUMENT, "load: the spec is NULL");
    CLA_TRY(split_spec(spec, &path, &name));
    if (name || ends_with(spec, DOT_SAFETENSORS))
        CLA_TRY(load_tensor(path, name, array));
    else
        CLA_TRY(clattn_npy_read(path, array));
done:
    cla_free(path);
    return status;
}

clattn_status clattn_array_save(const char *spec, const clattn_array *array) {
    clattn_status status = CLATTN_OK;
    char *path = NULL;
    const char *name;
    CLA_CHECK(spec, CLATTN_E_ARGUMENT, "save: the spec is NULL");
    CLA_CHECK(array, CLATTN_E_ARGUMENT, "save: the array is NULL");
    CLA_TRY(split_spec(spec, &path, &name));
    CLA_CHECK(name || ends_with(spec, ".npy"), CLATTN_E_ARGUMENT, "%s: the tensor needs a name, as in %s:NAME", spec,
              spec);
    if (name) {
        const clattn_named_array named = {.name = name, .array = *array};
        CLA_TRY(clattn_safetensors_write(path, &named, 1, NULL, 0));
    } else {
        CLA_TRY(clattn_npy_write(path, array));
    }
done:
    cla_free(path);
    return status;
}
