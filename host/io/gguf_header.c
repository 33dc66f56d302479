/* SPDX-License-Identifier: Apache-2.0 */
#include "io/gguf_header.h"

#include "base/mem.h"
#include "base/str.h"
#include "io/file_kind.h"
#include "io/gguf_types.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT_KEY "general.alignment"
enum {
    START = 24,        /* magic, version, counts */
    CHUNK = 1 << 16,   /* what is read at once, at first */
    LEAST_PAIR = 13,   /* bytes of a key of no letters and a value of one byte */
    LEAST_RECORD = 24, /* bytes of a tensor without name and axes */
    MOST = 1 << 20,    /* pairs, and tensors: bounds what is allocated, some 130 bytes each from 24 in the file */
    AXES = 4,
    ARRAY = 9,
    ALIGNMENT = 32
};

typedef struct {
    const cla_file *file;
    cla_gguf_header *header;
    int64_t at, loaded, capacity; /* what is read next; bytes in memory, and room for them */
    int64_t alignment;
    size_t strings;
    char what[CLA_NAME_TEXT + 32]; /* the thing that is read, for messages */
} reader;

/* ---- bytes ---- */

/* The bytes from `at` on are in the file, and now in memory. */
static clattn_status need(reader *r, uint64_t bytes) {
    clattn_status status = CLATTN_OK;
    const int64_t left = r->file->bytes - r->at;
    CLA_CHECK(bytes <= (uint64_t)left, CLATTN_E_FORMAT,
              "%s: %s claims %llu bytes at byte %lld, but only %lld follow in the file", r->file->path, r->what,
              (unsigned long long)bytes, (long long)r->at, (long long)left);
    const int64_t end = r->at + (int64_t)bytes;
    CLA_CHECK(end <= CLA_GGUF_MAX_HEADER, CLATTN_E_FORMAT,
              "%s: %s ends at byte %lld; more than %lld bytes before the data are refused", r->file->path, r->what,
              (long long)end, (long long)CLA_GGUF_MAX_HEADER);
    if (end > r->loaded) {
        const int64_t wanted = cla_min(r->file->bytes, cla_max(end, cla_max(CHUNK, 2 * r->loaded)));
        if (wanted > r->capacity) /* and one for the 0 after a last text */
            CLA_TRY(cla_realloc(&r->header->bytes, (size_t)wanted + 1, 1, "GGUF header"));
        r->capacity = cla_max(r->capacity, wanted);
        CLA_TRY(cla_file_read(r->file, r->loaded, r->header->bytes + r->loaded, (size_t)(wanted - r->loaded)));
        r->loaded = wanted;
    }
done:
    return status;
}

static clattn_status take(reader *r, void *to, size_t bytes) {
    const clattn_status status = need(r, bytes);
    if (status == CLATTN_OK)
        memcpy(to, r->header->bytes + r->at, bytes);
    else
        memset(to, 0, bytes);
    r->at += status == CLATTN_OK ? (int64_t)bytes : 0;
    return status;
}

static clattn_status skip_string(reader *r, int64_t *at, size_t *length) {
    uint64_t bytes;
    clattn_status status = take(r, &bytes, sizeof bytes);
    if (status == CLATTN_OK)
        status = need(r, bytes);
    if (status != CLATTN_OK)
        return status;
    *at = r->at;
    *length = (size_t)bytes;
    r->at += (int64_t)bytes;
    return CLATTN_OK;
}

/* Keys and names: UTF-8 without 0. Only the place is kept, since the bytes may still move. */
static clattn_status take_name(reader *r, const char *kind, size_t index, int64_t *at, size_t *length) {
    snprintf(r->what, sizeof r->what, "%s %zu", kind, index);
    const clattn_status status = skip_string(r, at, length);
    if (status != CLATTN_OK)
        return status;
    const unsigned char *text = r->header->bytes + *at;
    for (size_t i = 0, n; i < *length; i += n) {
        n = text[i] ? cla_utf8_bytes(text + i, *length - i) : 0;
        if (n == 0)
            return cla_error(CLATTN_E_FORMAT, "%s: the name of %s is no UTF-8 text without bytes 0", r->file->path,
                             r->what);
    }
    char clean[CLA_NAME_TEXT], raw[CLA_NAME_TEXT + 1];
    snprintf(raw, sizeof raw, "%.*s", (int)(*length < sizeof raw ? *length : sizeof raw - 1), (const char *)text);
    snprintf(r->what, sizeof r->what, "%s \"%s\"", kind, cla_name_text(raw, clean, sizeof clean));
    return CLATTN_OK;
}

/* ---- metadata ---- */

size_t cla_gguf_type_bytes(clattn_gguf_type type) {
    static const size_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return (size_t)type < sizeof bytes / sizeof *bytes ? bytes[type] : 0;
}

static clattn_status take_type(reader *r, uint32_t *type) {
    const clattn_status status = take(r, type, sizeof *type);
    if (status != CLATTN_OK)
        return status;
    if (*type != ARRAY && *type != CLATTN_GGUF_STRING && cla_gguf_type_bytes((clattn_gguf_type)*type) == 0)
        return cla_error(CLATTN_E_FORMAT, "%s: %s has the unknown type %u", r->file->path, r->what, *type);
    return CLATTN_OK;
}

static clattn_status take_elements(reader *r, cla_gguf_pair *pair, uint64_t count) {
    clattn_status status = CLATTN_OK;
    const bool strings = pair->value.type == CLATTN_GGUF_STRING;
    const uint64_t size = cla_gguf_type_bytes(pair->value.type), least = size > 0 ? size : sizeof(uint64_t);
    CLA_CHECK(count <= (uint64_t)(r->file->bytes - r->at) / least, CLATTN_E_FORMAT,
              "%s: %s claims %llu elements of %llu bytes or more, but only %lld bytes follow in the file",
              r->file->path, r->what, (unsigned long long)count, (unsigned long long)least,
              (long long)(r->file->bytes - r->at));
    pair->at = r->at;
    pair->value.count = (size_t)count;
    pair->first_string = r->strings;
    if (strings) {
        int64_t at;
        size_t length;
        for (uint64_t i = 0; i < count; i++)
            CLA_TRY(skip_string(r, &at, &length));
        r->strings += (size_t)count;
    } else {
        CLA_TRY(need(r, count * least));
        r->at += (int64_t)(count * least);
    }
    for (uint64_t i = 0; pair->value.type == CLATTN_GGUF_BOOL && i < count; i++)
        CLA_CHECK(r->header->bytes[pair->at + (int64_t)i] <= 1, CLATTN_E_FORMAT,
                  "%s: %s has a bool of %d, which is neither 0 nor 1", r->file->path, r->what,
                  r->header->bytes[pair->at + (int64_t)i]);
done:
    return status;
}

static clattn_status take_pair(reader *r, size_t index, cla_gguf_pair *pair, int64_t *key_at, size_t *key_length) {
    clattn_status status = CLATTN_OK;
    uint32_t type = 0;
    uint64_t count = 1;
    CLA_TRY(take_name(r, "metadata", index, key_at, key_length));
    CLA_TRY(take_type(r, &type));
    pair->value.is_array = type == ARRAY;
    if (type == ARRAY) {
        CLA_TRY(take_type(r, &type));
        CLA_CHECK(type != ARRAY, CLATTN_E_FORMAT, "%s: %s is an array of arrays, which clattn does not read",
                  r->file->path, r->what);
        CLA_TRY(take(r, &count, sizeof count));
    }
    pair->value.type = (clattn_gguf_type)type;
    CLA_TRY(take_elements(r, pair, count));
done:
    return status;
}

static clattn_status take_alignment(reader *r, const cla_gguf_pair *pair) {
    uint32_t alignment = 0;
    if (pair->value.is_array || pair->value.type != CLATTN_GGUF_U32)
        return cla_error(CLATTN_E_FORMAT, "%s: " ALIGNMENT_KEY " is no u32", r->file->path);
    memcpy(&alignment, r->header->bytes + pair->at, sizeof alignment);
    if (alignment < 8 || (alignment & (alignment - 1)) != 0)
        return cla_error(CLATTN_E_FORMAT, "%s: " ALIGNMENT_KEY " is %u, which is no power of two from 8 on",
                         r->file->path, alignment);
    r->alignment = alignment;
    return CLATTN_OK;
}

/* ---- tensors ---- */

static clattn_status take_shape(reader *r, clattn_gguf_entry *entry, const uint64_t *sizes, uint32_t axes) {
    entry->rank = (int)axes;
    for (uint32_t i = 0; i < axes; i++) { /* the file's first axis is the one that lies side by side */
        if (sizes[i] > INT64_MAX)
            return cla_error(CLATTN_E_FORMAT, "%s: %s has an axis of %llu", r->file->path, r->what,
                             (unsigned long long)sizes[i]);
        entry->shape[axes - 1 - i] = (int64_t)sizes[i];
    }
    return CLATTN_OK;
}

static clattn_status take_bytes(reader *r, clattn_gguf_entry *entry, const cla_gguf_tensor_type *type) {
    const clattn_tensor t = clattn_tensor_host(NULL, CLATTN_F32, entry->rank, entry->shape);
    int64_t bytes = clattn_tensor_elements(&t);
    const int64_t last = entry->rank > 0 ? entry->shape[entry->rank - 1] : 1;
    if (last % type->length != 0)
        return cla_error(CLATTN_E_FORMAT, "%s: %s of %s has rows of %lld, which are not made of blocks of %d",
                         r->file->path, r->what, type->text, (long long)last, type->length);
    if (bytes < 0 || !cla_mul(bytes / type->length, type->bytes, &bytes))
        return cla_error(CLATTN_E_FORMAT, "%s: %s has more bytes than 63 bits count", r->file->path, r->what);
    entry->bytes = (uint64_t)bytes;
    return CLATTN_OK;
}

static clattn_status take_record(reader *r, size_t index, cla_gguf_record *record, int64_t *name_at,
                                 size_t *name_length) {
    clattn_status status = CLATTN_OK;
    uint32_t axes = 0, number = 0;
    uint64_t sizes[AXES] = {0}, offset = 0;
    CLA_TRY(take_name(r, "tensor", index, name_at, name_length));
    CLA_TRY(take(r, &axes, sizeof axes));
    CLA_CHECK(axes <= AXES, CLATTN_E_FORMAT, "%s: %s has %u axes; the format has %d at most", r->file->path, r->what,
              axes, AXES);
    CLA_TRY(take(r, sizes, axes * sizeof *sizes));
    CLA_TRY(take_shape(r, &record->entry, sizes, axes));
    CLA_TRY(take(r, &number, sizeof number));
    const cla_gguf_tensor_type *type = cla_gguf_tensor_type_of(number);
    CLA_CHECK(type, CLATTN_E_FORMAT, "%s: %s has the unknown type %u", r->file->path, r->what, number);
    record->entry.dtype_text = type->text;
    record->entry.readable = type->readable;
    record->entry.dtype = type->dtype;
    CLA_TRY(take_bytes(r, &record->entry, type));
    CLA_TRY(take(r, &offset, sizeof offset));
    CLA_CHECK(offset <= (uint64_t)r->file->bytes, CLATTN_E_FORMAT,
              "%s: %s begins at byte %llu of the data, in a file of %lld bytes", r->file->path, r->what,
              (unsigned long long)offset, (long long)r->file->bytes);
    CLA_CHECK((int64_t)offset % r->alignment == 0, CLATTN_E_FORMAT,
              "%s: %s begins at byte %llu of the data, which is no multiple of the alignment, %lld", r->file->path,
              r->what, (unsigned long long)offset, (long long)r->alignment);
    record->begin = (int64_t)offset;
done:
    return status;
}

static int by_begin(const void *a, const void *b) {
    const cla_gguf_record *x = *(const cla_gguf_record *const *)a, *y = *(const cla_gguf_record *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->entry.bytes < y->entry.bytes ? -1 : x->entry.bytes > y->entry.bytes;
}

/* In order of their data, each tensor begins where the one before it ended, rounded up to the alignment; and so does
 * the end of the file, which may also leave out the last padding. */
static clattn_status check_cover(const reader *r) {
    clattn_status status = CLATTN_OK;
    const cla_gguf_header *h = r->header;
    char name[CLA_NAME_TEXT];
    const cla_gguf_record **sorted = NULL;
    const int64_t bytes = cla_max(0, r->file->bytes - h->data);
    int64_t end = 0;
    CLA_TRY(cla_alloc(h->record_count, sizeof *sorted, "ranges", &sorted));
    for (size_t i = 0; i < h->record_count; i++)
        sorted[i] = &h->records[i];
    if (h->record_count > 1)
        qsort(sorted, h->record_count, sizeof *sorted, by_begin);
    for (size_t i = 0; i < h->record_count; i++) {
        const int64_t next = cla_round_up(end, r->alignment), begin = sorted[i]->begin;
        const uint64_t size = sorted[i]->entry.bytes;
        cla_name_text(sorted[i]->entry.name, name, sizeof name);
        CLA_CHECK(begin <= bytes && size <= (uint64_t)(bytes - begin), CLATTN_E_FORMAT,
                  "%s: tensor \"%s\" has %llu bytes from byte %lld of the data on, of which there are %lld",
                  r->file->path, name, (unsigned long long)size, (long long)begin, (long long)bytes);
        CLA_CHECK(begin == next, CLATTN_E_FORMAT,
                  "%s: tensor \"%s\" begins at byte %lld of the data, the one before it ends at %lld: %s",
                  r->file->path, name, (long long)begin, (long long)end,
                  begin < next ? "they overlap" : "a hole, which ggml refuses");
        end = begin + (int64_t)size;
    }
    CLA_CHECK(bytes <= cla_round_up(end, r->alignment), CLATTN_E_FORMAT,
              "%s: the tensors end at byte %lld of the data, the file at %lld", r->file->path, (long long)end,
              (long long)bytes);
done:
    cla_free(sorted);
    return status;
}

/* ---- all of it ---- */

static clattn_status take_start(reader *r) {
    clattn_status status = CLATTN_OK;
    const char *path = r->file->path;
    char magic[4], kind[CLA_FILE_KIND_TEXT];
    uint32_t version = 0;
    uint64_t counts[2] = {0};
    CLA_CHECK(r->file->bytes >= START, CLATTN_E_FORMAT,
              "%s: has %lld bytes, fewer than the %d that a GGUF file begins with", path, (long long)r->file->bytes,
              START);
    CLA_TRY(take(r, magic, sizeof magic));
    CLA_CHECK(memcmp(magic, "GGUF", sizeof magic) == 0, CLATTN_E_FORMAT,
              "%s: is no GGUF file: it does not begin with these letters%s", path, cla_file_kind(r->file, kind));
    CLA_TRY(take(r, &version, sizeof version));
    CLA_CHECK((version & 0xffff) != 0 || version == 0, CLATTN_E_FORMAT,
              "%s: is a big-endian GGUF file; clattn reads little-endian ones, so convert it first", path);
    CLA_CHECK(version == 2 || version == 3, CLATTN_E_FORMAT, "%s: is GGUF version %u; clattn reads 2 and 3", path,
              version);
    CLA_TRY(take(r, counts, sizeof counts));
    CLA_CHECK(counts[0] <= (uint64_t)(r->file->bytes - START) / LEAST_RECORD && counts[0] <= MOST, CLATTN_E_FORMAT,
              "%s: claims %llu tensors; a file of %lld bytes holds fewer, and at most %d are read", path,
              (unsigned long long)counts[0], (long long)r->file->bytes, MOST);
    CLA_CHECK(counts[1] <= (uint64_t)(r->file->bytes - START) / LEAST_PAIR && counts[1] <= MOST, CLATTN_E_FORMAT,
              "%s: claims %llu metadata; a file of %lld bytes holds fewer, and at most %d are read", path,
              (unsigned long long)counts[1], (long long)r->file->bytes, MOST);
    r->header->record_count = (size_t)counts[0];
    r->header->pair_count = (size_t)counts[1];
done:
    return status;
}

typedef struct {
    int64_t at;
    size_t length;
} place;

/* Now that the bytes stay where they are: texts, each with a 0 in place of the byte after it, which has been read. */
static clattn_status place_texts(reader *r, const place *keys, const place *names) {
    clattn_status status = CLATTN_OK;
    cla_gguf_header *h = r->header;
    CLA_TRY(cla_alloc(r->strings, sizeof *h->strings, "strings", &h->strings));
    for (size_t i = 0; i < h->pair_count; i++) {
        const cla_gguf_pair *pair = &h->pairs[i];
        int64_t at = pair->at;
        uint64_t length;
        for (size_t s = 0; pair->value.type == CLATTN_GGUF_STRING && s < pair->value.count; s++) {
            memcpy(&length, h->bytes + at, sizeof length);
            at += (int64_t)sizeof length;
            h->strings[pair->first_string + s] = (clattn_gguf_string){(const char *)h->bytes + at, (size_t)length};
            at += (int64_t)length;
        }
    }
    for (size_t i = 0; i < r->strings; i++)
        h->bytes[h->strings[i].text - (const char *)h->bytes + (int64_t)h->strings[i].length] = 0;
    for (size_t i = 0; i < h->pair_count; i++) {
        h->bytes[keys[i].at + (int64_t)keys[i].length] = 0;
        h->pairs[i].value.key = (const char *)h->bytes + keys[i].at;
    }
    for (size_t i = 0; i < h->record_count; i++) {
        h->bytes[names[i].at + (int64_t)names[i].length] = 0;
        h->records[i].entry.name = (const char *)h->bytes + names[i].at;
    }
done:
    return status;
}

static clattn_status sort_names(const reader *r) {
    clattn_status status = CLATTN_OK;
    cla_gguf_header *h = r->header;
    char name[CLA_NAME_TEXT];
    CLA_TRY(cla_alloc(h->pair_count, sizeof *h->keys, "names", &h->keys));
    CLA_TRY(cla_alloc(h->record_count, sizeof *h->names, "names", &h->names));
    for (size_t i = 0; i < h->pair_count; i++)
        h->keys[i] = (cla_name){.text = h->pairs[i].value.key, .index = i};
    for (size_t i = 0; i < h->record_count; i++)
        h->names[i] = (cla_name){.text = h->records[i].entry.name, .index = i};
    cla_names_sort(h->keys, h->pair_count);
    cla_names_sort(h->names, h->record_count);
    const char *key = cla_names_twice(h->keys, h->pair_count), *tensor = cla_names_twice(h->names, h->record_count);
    CLA_CHECK(!tensor && !key, CLATTN_E_FORMAT, "%s: two %s are named \"%s\"", r->file->path,
              tensor ? "tensors" : "metadata", cla_name_text(tensor ? tensor : key, name, sizeof name));
done:
    return status;
}

clattn_status cla_gguf_header_read(const cla_file *file, cla_gguf_header *header) {
    clattn_status status = CLATTN_OK;
    reader r = {.file = file, .header = header, .alignment = ALIGNMENT, .what = "the start"};
    place *keys = NULL, *names = NULL;
    *header = (cla_gguf_header){0};
    CLA_TRY(take_start(&r));
    CLA_TRY(cla_alloc(header->pair_count, sizeof *header->pairs, "metadata", &header->pairs));
    CLA_TRY(cla_alloc(header->record_count, sizeof *header->records, "tensors", &header->records));
    CLA_TRY(cla_alloc(header->pair_count, sizeof *keys, "metadata", &keys));
    CLA_TRY(cla_alloc(header->record_count, sizeof *names, "tensors", &names));
    for (size_t i = 0; i < header->pair_count; i++) {
        CLA_TRY(take_pair(&r, i, &header->pairs[i], &keys[i].at, &keys[i].length));
        if (keys[i].length == strlen(ALIGNMENT_KEY) &&
            memcmp(header->bytes + keys[i].at, ALIGNMENT_KEY, keys[i].length) == 0)
            CLA_TRY(take_alignment(&r, &header->pairs[i]));
    }
    for (size_t i = 0; i < header->record_count; i++)
        CLA_TRY(take_record(&r, i, &header->records[i], &names[i].at, &names[i].length));
    header->data = cla_round_up(r.at, r.alignment);
    CLA_TRY(place_texts(&r, keys, names));
    CLA_TRY(sort_names(&r));
    CLA_TRY(check_cover(&r));
done:
    cla_free(keys);
    cla_free(names);
    if (status != CLATTN_OK)
        cla_gguf_header_free(header);
    return status;
}

void cla_gguf_header_free(cla_gguf_header *header) {
    cla_free(header->bytes);
    cla_free(header->pairs);
    cla_free(header->records);
    cla_free(header->strings);
    cla_free(header->keys);
    cla_free(header->names);
    *header = (cla_gguf_header){0};
}
