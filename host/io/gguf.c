/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files, opened: tensors, and metadata by key and type. */
#include "base/error.h"
#include "base/mem.h"
#include "io/gguf_header.h"
#include <string.h>

struct clattn_gguf {
    cla_file *file;
    cla_gguf_header header;
};

clattn_status clattn_gguf_open(const char *path, clattn_gguf **out) {
    clattn_status status = CLATTN_OK;
    clattn_gguf *g = NULL;
    CLA_CHECK(out, CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    *out = NULL;
    CLA_TRY(cla_alloc(1, sizeof *g, "gguf", &g));
    CLA_TRY(cla_file_open(path, &g->file));
    CLA_TRY(cla_gguf_header_read(g->file, &g->header));
    *out = g;
    g = NULL;
done:
    clattn_gguf_close(g);
    return status;
}

void clattn_gguf_close(clattn_gguf *g) {
    if (!g)
        return;
    cla_gguf_header_free(&g->header);
    cla_file_close(g->file);
    cla_free(g);
}

/* ---- tensors ---- */

size_t clattn_gguf_count(const clattn_gguf *g) { return g ? g->header.record_count : 0; }

bool clattn_gguf_entry_at(const clattn_gguf *g, size_t index, clattn_gguf_entry *entry) {
    if (index >= clattn_gguf_count(g) || !entry)
        return false;
    *entry = g->header.records[index].entry;
    return true;
}

bool clattn_gguf_find(const clattn_gguf *g, const char *name, size_t *index) {
    size_t at;
    if (!g || !name || !cla_names_find(g->header.names, g->header.record_count, name, &at))
        return false;
    if (index)
        *index = at;
    return true;
}

static clattn_status nothing_named(const clattn_gguf *g, const char *kind, const cla_name *names, size_t count,
                                   const char *name) {
    char wanted[CLA_NAME_TEXT], near[4 * CLA_NAME_TEXT];
    if (count == 0)
        return cla_error(CLATTN_E_ARGUMENT, "%s: holds no %s at all", g->file->path, kind);
    return cla_error(CLATTN_E_ARGUMENT, "%s: no %s \"%s\" among its %zu; near names: %s", g->file->path, kind,
                     cla_name_text(name, wanted, sizeof wanted), count,
                     cla_names_near(names, count, name, near, sizeof near));
}

clattn_status clattn_gguf_read(clattn_gguf *g, const char *name, clattn_array *array) {
    clattn_status status = CLATTN_OK;
    char text[CLA_NAME_TEXT];
    size_t index = 0;
    CLA_CHECK(array, CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    *array = (clattn_array){0};
    CLA_CHECK(g && name, CLATTN_E_ARGUMENT, "gguf: the %s is NULL", g ? "name" : "file");
    CLA_TRY(clattn_gguf_find(g, name, &index)
                ? CLATTN_OK
                : nothing_named(g, "tensor", g->header.names, g->header.record_count, name));
    const cla_gguf_record *record = &g->header.records[index];
    CLA_CHECK(record->entry.readable, CLATTN_E_DTYPE,
              "%s: tensor \"%s\" is of %s; clattn reads F32 F64 F16 BF16 I32 I64 Q8_0 Q4_0 Q4_1, so convert it first",
              g->file->path, cla_name_text(name, text, sizeof text), record->entry.dtype_text);
    CLA_TRY(clattn_array_create(record->entry.dtype, record->entry.rank, record->entry.shape, array));
    CLA_TRY(cla_file_read(g->file, g->header.data + record->begin, array->data, array->bytes));
done:
    if (status != CLATTN_OK && array)
        clattn_array_free(array);
    return status;
}

/* ---- metadata ---- */

const char *clattn_gguf_type_name(clattn_gguf_type type) {
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return (size_t)type < sizeof names / sizeof *names ? names[type] : "?";
}

size_t clattn_gguf_metadata_count(const clattn_gguf *g) { return g ? g->header.pair_count : 0; }

bool clattn_gguf_metadata_at(const clattn_gguf *g, size_t index, clattn_gguf_value *value) {
    if (index >= clattn_gguf_metadata_count(g) || !value)
        return false;
    *value = g->header.pairs[index].value;
    return true;
}

bool clattn_gguf_metadata_find(const clattn_gguf *g, const char *key, size_t *index) {
    size_t at;
    if (!g || !key || !cla_names_find(g->header.keys, g->header.pair_count, key, &at))
        return false;
    if (index)
        *index = at;
    return true;
}

typedef enum { WHOLE, NUMBER, TEXT } kind;

static bool is_of(clattn_gguf_type type, kind wanted) {
    const bool text = type == CLATTN_GGUF_STRING, real = type == CLATTN_GGUF_F32 || type == CLATTN_GGUF_F64;
    return wanted == TEXT ? text : wanted == WHOLE ? !text && !real : !text;
}

/* The pair of a key, whose value is as it is wanted; else NULL, and why. */
static const cla_gguf_pair *pair_of(const clattn_gguf *g, const char *key, kind wanted, bool array,
                                    clattn_status *status) {
    static const char *const kinds[] = {"whole number", "number", "text"};
    char text[CLA_NAME_TEXT];
    size_t index = 0;
    *status = CLATTN_OK;
    if (!g || !key) {
        *status = cla_error(CLATTN_E_ARGUMENT, "gguf: the %s is NULL", g ? "key" : "file");
        return NULL;
    }
    if (!clattn_gguf_metadata_find(g, key, &index)) {
        *status = nothing_named(g, "metadata", g->header.keys, g->header.pair_count, key);
        return NULL;
    }
    const cla_gguf_pair *pair = &g->header.pairs[index];
    if (pair->value.is_array == array && is_of(pair->value.type, wanted))
        return pair;
    *status = cla_error(CLATTN_E_DTYPE, "%s: metadata \"%s\" is %s %s, not %s %s%s", g->file->path,
                        cla_name_text(key, text, sizeof text), pair->value.is_array ? "an array of" : "a",
                        clattn_gguf_type_name(pair->value.type), array ? "an array of" : "a", kinds[wanted],
                        array ? "s" : "");
    return NULL;
}

static double real_at(const unsigned char *p, clattn_gguf_type type) {
    float single = 0;
    double wide = 0;
    if (type == CLATTN_GGUF_F64) {
        memcpy(&wide, p, sizeof wide);
        return wide;
    }
    memcpy(&single, p, sizeof single);
    return (double)single;
}

/* A little-endian number of any integer type; *sign tells whether those bits are to be taken as negative numbers. */
static uint64_t bits_at(const unsigned char *p, clattn_gguf_type type, bool *negative) {
    const size_t bytes = cla_gguf_type_bytes(type);
    uint64_t bits = 0;
    for (size_t i = bytes; i-- > 0;)
        bits = bits << 8 | p[i];
    const bool has_sign =
        type == CLATTN_GGUF_I8 || type == CLATTN_GGUF_I16 || type == CLATTN_GGUF_I32 || type == CLATTN_GGUF_I64;
    *negative = has_sign && p[bytes - 1] >= 0x80;
    if (*negative && bytes < sizeof bits)
        bits |= UINT64_MAX << (8 * bytes);
    return bits;
}

static clattn_status integer_at(const clattn_gguf *g, const cla_gguf_pair *pair, size_t index, int64_t *out) {
    const unsigned char *p = g->header.bytes + pair->at + index * cla_gguf_type_bytes(pair->value.type);
    char text[CLA_NAME_TEXT];
    bool negative;
    const uint64_t bits = bits_at(p, pair->value.type, &negative);
    if (!negative && bits > INT64_MAX)
        return cla_error(CLATTN_E_LIMIT, "%s: metadata \"%s\" is %llu; clattn takes numbers up to %lld", g->file->path,
                         cla_name_text(pair->value.key, text, sizeof text), (unsigned long long)bits,
                         (long long)INT64_MAX);
    memcpy(out, &bits, sizeof *out);
    return CLATTN_OK;
}

clattn_status clattn_gguf_integer(const clattn_gguf *g, const char *key, int64_t *out) {
    if (!out)
        return cla_error(CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    *out = 0;
    clattn_status status;
    const cla_gguf_pair *pair = pair_of(g, key, WHOLE, false, &status);
    return pair ? integer_at(g, pair, 0, out) : status;
}

clattn_status clattn_gguf_number(const clattn_gguf *g, const char *key, double *out) {
    int64_t whole = 0;
    if (!out)
        return cla_error(CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    *out = 0;
    clattn_status status;
    const cla_gguf_pair *pair = pair_of(g, key, NUMBER, false, &status);
    if (!pair)
        return status;
    if (is_of(pair->value.type, WHOLE)) {
        status = integer_at(g, pair, 0, &whole);
        *out = (double)whole;
    } else {
        *out = real_at(g->header.bytes + pair->at, pair->value.type);
    }
    return status;
}

clattn_status clattn_gguf_text(const clattn_gguf *g, const char *key, const char **out) {
    char text[CLA_NAME_TEXT];
    if (!out)
        return cla_error(CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    *out = NULL;
    clattn_status status;
    const cla_gguf_pair *pair = pair_of(g, key, TEXT, false, &status);
    if (!pair)
        return status;
    const clattn_gguf_string *string = &g->header.strings[pair->first_string];
    if (strlen(string->text) != string->length)
        return cla_error(CLATTN_E_FORMAT, "%s: metadata \"%s\" has a byte 0 in its text", g->file->path,
                         cla_name_text(key, text, sizeof text));
    *out = string->text;
    return CLATTN_OK;
}

clattn_status clattn_gguf_strings(const clattn_gguf *g, const char *key, const clattn_gguf_string **out,
                                  size_t *count) {
    if (!out || !count)
        return cla_error(CLATTN_E_ARGUMENT, "gguf: the %s is NULL", out ? "count" : "result");
    *out = NULL;
    *count = 0;
    clattn_status status;
    const cla_gguf_pair *pair = pair_of(g, key, TEXT, true, &status);
    if (!pair)
        return status;
    *out = g->header.strings + pair->first_string;
    *count = pair->value.count;
    return CLATTN_OK;
}

clattn_status clattn_gguf_numbers(const clattn_gguf *g, const char *key, clattn_array *array) {
    clattn_status status = CLATTN_OK;
    const cla_gguf_pair *pair = NULL;
    CLA_CHECK(array, CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    *array = (clattn_array){0};
    pair = pair_of(g, key, NUMBER, true, &status);
    if (!pair)
        goto done;
    const bool whole = is_of(pair->value.type, WHOLE);
    const int64_t count = (int64_t)pair->value.count;
    CLA_TRY(clattn_array_create(whole ? CLATTN_I64 : CLATTN_F64, 1, &count, array));
    for (size_t i = 0; i < pair->value.count; i++)
        if (whole)
            CLA_TRY(integer_at(g, pair, i, (int64_t *)array->data + i));
        else
            ((double *)array->data)[i] =
                real_at(g->header.bytes + pair->at + i * cla_gguf_type_bytes(pair->value.type), pair->value.type);
done:
    if (status != CLATTN_OK && array)
        clattn_array_free(array);
    return status;
}
