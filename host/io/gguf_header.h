/* SPDX-License-Identifier: Apache-2.0 */
/* What stands before the data of a GGUF file: metadata and the table of tensors, read and checked. The bytes stay in
 * memory as they are, with a 0 after each text. Source: github.com/ggml-org/ggml, docs/gguf.md and ggml.h. */
#ifndef CLA_GGUF_HEADER_H
#define CLA_GGUF_HEADER_H

#include "io/file.h"
#include "io/names.h"
#include <clattn/io.h>

#define CLA_GGUF_MAX_HEADER (INT64_C(1) << 28)

typedef struct cla_gguf_pair {
    clattn_gguf_value value;
    int64_t at;          /* of the numbers, or of the first string's length, in `bytes` */
    size_t first_string; /* in `strings` */
} cla_gguf_pair;

typedef struct cla_gguf_record {
    clattn_gguf_entry entry;
    int64_t begin; /* of its data, from the start of the data */
} cla_gguf_record;

typedef struct cla_gguf_header {
    unsigned char *bytes; /* owns all texts */
    cla_gguf_pair *pairs;
    cla_gguf_record *records;
    clattn_gguf_string *strings;
    cla_name *keys, *names; /* of pairs and records, sorted */
    size_t pair_count, record_count;
    int64_t data; /* where it begins in the file */
} cla_gguf_header;

/* Bytes of a value's element; 0 for strings and for what is no type. */
size_t cla_gguf_type_bytes(clattn_gguf_type type);

/* Errors  CLATTN_E_FORMAT, CLATTN_E_IO, CLATTN_E_MEMORY; *header is zeroed then. */
clattn_status cla_gguf_header_read(const cla_file *file, cla_gguf_header *header);
void cla_gguf_header_free(cla_gguf_header *header);

#endif
