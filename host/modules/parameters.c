/* SPDX-License-Identifier: Apache-2.0 */
/* Named tensors on a device, each a buffer of its own. */
#include <clattn/parameters.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include <string.h>

typedef struct {
    char *name;
    clattn_tensor tensor;
    clattn_buffer *buffer;
} parameter;

struct clattn_parameters {
    clattn_context *context;
    parameter *all;
    size_t count, room;
};

enum { NAME = 200 }; /* bytes of a name that a message shows */

clattn_status clattn_parameters_create(clattn_context *context, clattn_parameters **parameters) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(parameters, CLATTN_E_ARGUMENT, "parameters_create: parameters is NULL");
    *parameters = NULL;
    CLA_CHECK(context, CLATTN_E_ARGUMENT, "parameters_create: context is NULL");
    CLA_TRY(cla_alloc(1, sizeof **parameters, "parameters", parameters));
    (*parameters)->context = context;
done:
    return status;
}

void clattn_parameters_destroy(clattn_parameters *p) {
    for (size_t i = 0; p && i < p->count; i++) {
        clattn_buffer_destroy(p->all[i].buffer);
        cla_free(p->all[i].name);
    }
    if (p)
        cla_free(p->all);
    cla_free(p);
}

static const parameter *find(const clattn_parameters *p, const char *prefix, const char *name) {
    const size_t length = prefix ? strlen(prefix) : 0;
    for (size_t i = 0; i < p->count; i++)
        if (strncmp(p->all[i].name, prefix ? prefix : "", length) == 0 && strcmp(p->all[i].name + length, name) == 0)
            return &p->all[i];
    return NULL;
}

/* ---- adding ---- */

static clattn_dtype storage(const clattn_array *array, const clattn_parameters_options *options) {
    const bool is_float = array->dtype <= CLATTN_BF16;
    const size_t length = clattn_dtype_length(options->dtype);
    if (!options->convert || !is_float || (array->rank < 2 && (!options->vectors || length > 1)))
        return array->dtype;
    if (length > 1 && array->shape[array->rank - 1] % (int64_t)length != 0)
        return array->dtype;
    return options->dtype;
}

static clattn_status check_options(const clattn_parameters_options *options) {
    const clattn_status status = CLA_RESERVED(clattn_parameters_options, options);
    if (status != CLATTN_OK || !options->convert || options->dtype <= CLATTN_BF16 ||
        clattn_dtype_length(options->dtype) > 1)
        return status;
    return cla_error(CLATTN_E_DTYPE, "parameters: cannot be stored as %s; f32, f64, f16, bf16 or blocks",
                     clattn_dtype_name(options->dtype));
}

static clattn_status add(clattn_parameters *p, const char *name, const clattn_array *array,
                         const clattn_parameters_options *options) {
    clattn_status status = CLATTN_OK;
    clattn_array converted = {0};
    parameter new_one = {0};
    const clattn_dtype dtype = storage(array, options);
    CLA_CHECK(!find(p, NULL, name), CLATTN_E_ARGUMENT, "parameters: \"%.*s\" is there already", NAME, name);
    if (dtype != array->dtype) {
        CLA_TRY(clattn_array_convert(array, dtype, &converted));
        array = &converted;
    }
    if (p->count == p->room) {
        CLA_TRY(cla_realloc(&p->all, 2 * p->room + 16, sizeof *p->all, "parameters"));
        p->room = 2 * p->room + 16;
    }
    CLA_TRY(cla_alloc(strlen(name) + 1, 1, "name", &new_one.name));
    memcpy(new_one.name, name, strlen(name) + 1);
    CLA_TRY(clattn_buffer_create(p->context, array->bytes, &new_one.buffer));
    CLA_TRY(clattn_buffer_upload(new_one.buffer, 0, array->data, array->bytes));
    new_one.tensor = clattn_array_tensor(array);
    new_one.tensor.host = NULL;
    new_one.tensor.buffer = new_one.buffer;
    p->all[p->count++] = new_one;
    new_one = (parameter){0};
done:
    if (status != CLATTN_OK)
        cla_error_prefix("\"%.*s\": ", NAME, name);
    clattn_buffer_destroy(new_one.buffer);
    cla_free(new_one.name);
    clattn_array_free(&converted);
    return status;
}

clattn_status clattn_parameters_add(clattn_parameters *p, const char *name, const clattn_array *array,
                                    const clattn_parameters_options *options) {
    static const clattn_parameters_options plain = {0};
    clattn_status status = CLATTN_OK;
    CLA_CHECK(p && name && array && array->data, CLATTN_E_ARGUMENT, "parameters_add: %s is NULL",
              !p      ? "parameters"
              : !name ? "name"
                      : "array, or its data,");
    CLA_CHECK(array->rank >= 0 && array->rank <= CLATTN_MAX_RANK && clattn_dtype_size(array->dtype) > 0, CLATTN_E_SHAPE,
              "\"%.*s\": an array of rank %d and dtype %d is none", NAME, name, array->rank, (int)array->dtype);
    CLA_TRY(check_options(options ? options : &plain));
    CLA_TRY(add(p, name, array, options ? options : &plain));
done:
    return status;
}

static clattn_status load_one(clattn_parameters *p, clattn_safetensors *file, const char *name,
                              const clattn_parameters_options *options) {
    clattn_status status = CLATTN_OK;
    clattn_array array = {0};
    CLA_TRY(clattn_safetensors_read(file, name, &array));
    CLA_TRY(add(p, name, &array, options));
done:
    clattn_array_free(&array);
    return status;
}

clattn_status clattn_parameters_load(clattn_parameters *p, const char *path, const clattn_parameters_options *options) {
    static const clattn_parameters_options plain = {0};
    clattn_status status = CLATTN_OK;
    clattn_safetensors *file = NULL;
    clattn_safetensors_entry entry;
    size_t taken = 0;
    CLA_CHECK(p && path, CLATTN_E_ARGUMENT, "parameters_load: %s is NULL", p ? "path" : "parameters");
    options = options ? options : &plain;
    CLA_TRY(check_options(options));
    CLA_TRY(clattn_safetensors_open(path, &file));
    for (size_t i = 0; clattn_safetensors_entry_at(file, i, &entry); i++) {
        if (options->prefix && strncmp(entry.name, options->prefix, strlen(options->prefix)) != 0)
            continue;
        CLA_TRY(load_one(p, file, entry.name, options));
        taken++;
    }
    CLA_CHECK(taken > 0, CLATTN_E_ARGUMENT, "%s: holds no tensor%s%s%s", path,
              options->prefix ? " that begins with \"" : "", options->prefix ? options->prefix : "",
              options->prefix ? "\"" : "");
done:
    clattn_safetensors_close(file);
    return status;
}

/* ---- finding ---- */

/* Some names that begin with the prefix. */
static void list(const clattn_parameters *p, const char *prefix, cla_str *text) {
    size_t shown = 0, all = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (strncmp(p->all[i].name, prefix, strlen(prefix)) != 0)
            continue;
        all++;
        if (shown < 6)
            cla_str_append(text, "%s\"%.*s\"", shown++ ? ", " : "", NAME, p->all[i].name);
    }
    if (all > shown)
        cla_str_append(text, " and %zu more", all - shown);
}

clattn_status clattn_parameters_find(const clattn_parameters *p, const char *prefix, const char *name,
                                     clattn_tensor *tensor) {
    clattn_status status = CLATTN_OK;
    cla_str text = {0};
    CLA_CHECK(p && name && tensor, CLATTN_E_ARGUMENT, "parameters_find: an argument is NULL");
    *tensor = clattn_parameters_get(p, prefix, name);
    if (tensor->rank > 0)
        goto done;
    prefix = prefix ? prefix : "";
    list(p, prefix, &text);
    CLA_CHECK(text.length > 0, CLATTN_E_ARGUMENT, "parameters: there is no \"%.*s%.*s\", and of %zu none begins so",
              NAME, prefix, NAME, name, p->count);
    status = cla_error(CLATTN_E_ARGUMENT, "parameters: there is no \"%.*s%.*s\"; there are %s", NAME, prefix, NAME,
                       name, cla_str_text(&text));
done:
    cla_str_free(&text);
    return status;
}

clattn_tensor clattn_parameters_get(const clattn_parameters *p, const char *prefix, const char *name) {
    const parameter *found = p && name ? find(p, prefix, name) : NULL;
    return found ? found->tensor : (clattn_tensor){0};
}

size_t clattn_parameters_count(const clattn_parameters *p) { return p ? p->count : 0; }

bool clattn_parameters_at(const clattn_parameters *p, size_t index, const char **name, clattn_tensor *tensor) {
    if (!p || index >= p->count)
        return false;
    if (name)
        *name = p->all[index].name;
    if (tensor)
        *tensor = p->all[index].tensor;
    return true;
}

static bool counts(const parameter *x, const char *prefix) {
    return !prefix || strncmp(x->name, prefix, strlen(prefix)) == 0;
}

int64_t clattn_parameters_elements(const clattn_parameters *p, const char *prefix) {
    int64_t sum = 0;
    for (size_t i = 0; p && i < p->count; i++)
        if (counts(&p->all[i], prefix) &&
            (p->all[i].tensor.dtype <= CLATTN_BF16 || clattn_dtype_length(p->all[i].tensor.dtype) > 1))
            sum += clattn_tensor_elements(&p->all[i].tensor);
    return sum;
}

uint64_t clattn_parameters_bytes(const clattn_parameters *p, const char *prefix) {
    uint64_t sum = 0;
    for (size_t i = 0; p && i < p->count; i++)
        sum += counts(&p->all[i], prefix) ? clattn_buffer_bytes(p->all[i].buffer) : 0;
    return sum;
}
