/* SPDX-License-Identifier: Apache-2.0 */
/* The table behind a safetensors file: its header read and checked, and the names of its types.
 * Works on memory; opens nothing. Source: github.com/huggingface/safetensors, README "Format" and tensor.rs. */
#ifndef CLA_SAFETENSORS_HEADER_H
#define CLA_SAFETENSORS_HEADER_H

#include "io/names.h"
#include <clattn/io.h>

#define CLA_SAFETENSORS_MAX_HEADER 100000000 /* bytes; the reference reader's limit */
#define CLA_SAFETENSORS_METADATA "__metadata__"

typedef struct cla_safetensors_type {
    const char *text;
    int bits;
    bool readable;
    clattn_dtype dtype; /* when readable */
} cla_safetensors_type;

/* In the reference's order, in which its writer sorts: a later type comes first in the file. NULL: unknown. */
const cla_safetensors_type *cla_safetensors_type_named(const char *text);
const cla_safetensors_type *cla_safetensors_type_of(clattn_dtype dtype);

typedef struct cla_safetensors_record {
    clattn_safetensors_entry entry;
    int64_t begin; /* of its bytes, from the start of the data */
} cla_safetensors_record;

typedef struct cla_safetensors_header {
    void *json; /* owns all the texts below */
    cla_safetensors_record *records;
    clattn_metadata_pair *metadata;
    cla_name *names, *keys; /* of records and metadata, sorted */
    size_t count, metadata_count;
} cla_safetensors_header;

/* text[length] is 0; data_bytes is what follows the header in the file. `path` is for messages.
 * Errors  CLATTN_E_FORMAT, CLATTN_E_MEMORY; *header is zeroed then. */
clattn_status cla_safetensors_header_parse(const char *path, const char *text, size_t length, int64_t data_bytes,
                                           cla_safetensors_header *header);
void cla_safetensors_header_free(cla_safetensors_header *header);

#endif
