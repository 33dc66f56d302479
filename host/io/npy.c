/* SPDX-License-Identifier: Apache-2.0 */
/* NPY files: magic, version, header length, header, data.
 * Source: NumPy Enhancement Proposal 1 and numpy/lib/format.py; what is written is numpy's own bytes. */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/array.h"
#include "io/file.h"
#include "io/file_kind.h"
#include "io/npy_header.h"
#include "tensor/view.h"
#include <string.h>

enum {
    MAGIC_BYTES = 6,
    SHORT_PREFIX = 10,  /* magic, version, a length of 2 bytes: version 1 */
    LONG_PREFIX = 12,   /* the same with 4 bytes: versions 2 and 3 */
    MAX_HEADER = 65536, /* 8 axes need less than 300 bytes; the rest is for padding */
    ALIGNMENT = 64,     /* of the data in the file, as numpy writes it */
    GROWTH_DIGITS = 21  /* numpy leaves room for a first axis of that many digits */
};
static const unsigned char magic[MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* Where the header's text begins, and its length, which is inside the file. */
static clattn_status read_prefix(const cla_file *file, int64_t *begin, size_t *length) {
    unsigned char p[LONG_PREFIX] = {0};
    char kind[CLA_FILE_KIND_TEXT];
    const size_t there = (size_t)cla_min(file->bytes, LONG_PREFIX);
    const clattn_status status = cla_file_read(file, 0, p, there);
    if (status != CLATTN_OK)
        return status;
    if (there >= MAGIC_BYTES && memcmp(p, magic, MAGIC_BYTES) != 0)
        return cla_error(CLATTN_E_FORMAT, "%s: does not begin as an npy file does (0x93 NUMPY)%s", file->path,
                         cla_file_kind(file, kind));
    if (there >= MAGIC_BYTES + 2 && (p[6] < 1 || p[6] > 3 || p[7] != 0))
        return cla_error(CLATTN_E_FORMAT, "%s: npy version %d.%d is none of 1.0, 2.0 and 3.0", file->path, p[6], p[7]);
    const bool is_short = p[6] == 1;
    *begin = is_short ? SHORT_PREFIX : LONG_PREFIX;
    if (file->bytes < *begin)
        return cla_error(CLATTN_E_FORMAT, "%s: has %lld bytes, fewer than the %lld before an npy header", file->path,
                         (long long)file->bytes, (long long)*begin);
    *length = (size_t)p[8] | (size_t)p[9] << 8;
    if (!is_short)
        *length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (*length > MAX_HEADER)
        return cla_error(CLATTN_E_FORMAT, "%s: claims a header of %zu bytes; more than %d are refused", file->path,
                         *length, MAX_HEADER);
    if ((int64_t)*length > file->bytes - *begin)
        return cla_error(CLATTN_E_FORMAT, "%s: claims a header of %zu bytes, but only %lld follow in the file",
                         file->path, *length, (long long)(file->bytes - *begin));
    return CLATTN_OK;
}

static clattn_status check_size(const cla_file *file, const cla_npy_header *header, int64_t data_begin) {
    char text[200];
    const clattn_tensor t = clattn_tensor_host(NULL, header->dtype, header->rank, header->shape);
    const char *shape = cla_shape_text(&t, text, sizeof text), *dtype = clattn_dtype_name(header->dtype);
    const int64_t have = file->bytes - data_begin;
    int64_t need = clattn_tensor_elements(&t);
    if (need < 0 || !cla_mul(need, (int64_t)clattn_dtype_size(header->dtype), &need))
        return cla_error(CLATTN_E_FORMAT, "%s: %s of %s has more bytes than 63 bits count", file->path, shape, dtype);
    if (have < need)
        return cla_error(CLATTN_E_FORMAT, "%s: %s of %s needs %lld bytes, but %lld follow the header: the file was cut",
                         file->path, shape, dtype, (long long)need, (long long)have);
    if (have > need)
        return cla_error(CLATTN_E_FORMAT,
                         "%s: %s of %s needs %lld bytes, but %lld follow the header: %lld bytes too many", file->path,
                         shape, dtype, (long long)need, (long long)have, (long long)(have - need));
    return CLATTN_OK;
}

static void swap_bytes(unsigned char *data, size_t bytes, size_t size) {
    for (size_t at = 0; at < bytes; at += size)
        for (size_t i = 0; i < size / 2; i++) {
            const unsigned char kept = data[at + i];
            data[at + i] = data[at + size - 1 - i];
            data[at + size - 1 - i] = kept;
        }
}

/* Walks the result in its own order, and keeps count of where that is in a file whose first axis runs fastest. */
static clattn_status to_row_major(clattn_array *array) {
    const size_t size = clattn_dtype_size(array->dtype);
    int64_t step[CLATTN_MAX_RANK], index[CLATTN_MAX_RANK] = {0}, from = 0;
    unsigned char *to = NULL;
    const clattn_status status = cla_alloc(array->bytes, 1, "array", &to);
    if (status != CLATTN_OK)
        return status;
    for (int i = 0; i < array->rank && array->bytes > 0; i++)
        step[i] = i > 0 ? step[i - 1] * array->shape[i - 1] : 1;
    for (size_t at = 0; at < array->bytes; at += size) {
        memcpy(to + at, (unsigned char *)array->data + (size_t)from * size, size);
        for (int i = array->rank - 1; i >= 0; i--) {
            from += step[i];
            if (++index[i] < array->shape[i])
                break;
            from -= step[i] * array->shape[i];
            index[i] = 0;
        }
    }
    cla_free(array->data);
    array->data = to;
    return CLATTN_OK;
}

clattn_status clattn_npy_read(const char *path, clattn_array *array) {
    clattn_status status = CLATTN_OK;
    cla_file *file = NULL;
    char *text = NULL;
    cla_npy_header header;
    int64_t begin = 0;
    size_t length = 0;
    CLA_CHECK(array, CLATTN_E_ARGUMENT, "npy: the result is NULL");
    *array = (clattn_array){0};
    CLA_TRY(cla_file_open(path, &file));
    CLA_TRY(read_prefix(file, &begin, &length));
    CLA_TRY(cla_alloc(length, 1, "npy header", &text));
    CLA_TRY(cla_file_read(file, begin, text, length));
    CLA_TRY(cla_npy_header_parse(path, text, length, &header));
    begin += (int64_t)length;
    CLA_TRY(check_size(file, &header, begin));
    CLA_TRY(clattn_array_create(header.dtype, header.rank, header.shape, array));
    CLA_TRY(cla_file_read(file, begin, array->data, array->bytes));
    if (header.big_endian)
        swap_bytes(array->data, array->bytes, clattn_dtype_size(array->dtype));
    if (header.fortran_order && array->rank > 1)
        CLA_TRY(to_row_major(array));
done:
    if (status != CLATTN_OK && array)
        clattn_array_free(array);
    cla_free(text);
    cla_file_close(file);
    return status;
}

/* Prefix and header of version 1.0: at a rank of 8 the text is far below the 64 KiB where version 2.0 begins. */
static void write_header(cla_str *s, const char *descr, const clattn_array *array) {
    cla_str_append(s, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    const size_t shape = s->length;
    for (int i = 0; i < array->rank; i++)
        cla_str_append(s, "%s%lld%s", i ? ", " : "", (long long)array->shape[i], array->rank == 1 ? "," : "");
    const char *first_end = s->failed || array->rank == 0 ? NULL : strchr(s->text + shape, ',');
    const int digits = first_end ? (int)(first_end - s->text - (ptrdiff_t)shape) : GROWTH_DIGITS;
    cla_str_append(s, "), }%*s", GROWTH_DIGITS - digits, "");
    const int over = (int)((SHORT_PREFIX + s->length + 1) % ALIGNMENT);
    cla_str_append(s, "%*s\n", over ? ALIGNMENT - over : 0, "");
}

clattn_status clattn_npy_write(const char *path, const clattn_array *array) {
    clattn_status status = CLATTN_OK;
    cla_writer *writer = NULL;
    cla_str text = {0};
    unsigned char prefix[SHORT_PREFIX] = {0};
    CLA_TRY(cla_array_check(array, path ? path : "npy"));
    const char *descr = cla_npy_descr(array->dtype);
    CLA_CHECK(descr, CLATTN_E_DTYPE, "%s: npy has no %s; convert to f32, or write FILE.safetensors:NAME",
              path ? path : "npy", clattn_dtype_name(array->dtype));
    write_header(&text, descr, array);
    CLA_TRY(cla_str_status(&text));
    memcpy(prefix, magic, MAGIC_BYTES);
    prefix[6] = 1;
    prefix[8] = (unsigned char)(text.length & 0xff);
    prefix[9] = (unsigned char)(text.length >> 8);
    CLA_TRY(cla_writer_open(path, &writer));
    CLA_TRY(cla_writer_put(writer, prefix, sizeof prefix));
    CLA_TRY(cla_writer_put(writer, text.text, text.length));
    CLA_TRY(cla_writer_put(writer, array->data, array->bytes));
    CLA_TRY(cla_writer_commit(writer));
done:
    cla_writer_close(writer);
    cla_str_free(&text);
    return status;
}
