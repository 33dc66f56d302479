/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor files: npy, safetensors and GGUF. Readers check every length against the file's size before they allocate;
 * writers write to a temporary name in the same folder and rename, so that no half file is ever seen and a failure
 * leaves the old file as it was. What is not known is an error, and so are bytes before or after the data.
 * Out-arrays are overwritten, not freed, and are zeroed when the call fails. Messages name the file and the numbers. */
#ifndef CLATTN_IO_H
#define CLATTN_IO_H

#include <clattn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An owned, row-major array on the host. */
typedef struct clattn_array {
    clattn_dtype dtype;             /* of all elements */
    int rank;                       /* 0: a scalar */
    int64_t shape[CLATTN_MAX_RANK]; /* rows first */
    void *data;   /* clattn_array_free releases it; never NULL after a successful read, even when empty */
    size_t bytes; /* of data */
} clattn_array;

CLATTN_API void clattn_array_free(clattn_array *array); /* NULL and zeroed arrays are allowed */
/* A new array [shape] of zeros. Errors: CLATTN_E_DTYPE, CLATTN_E_SHAPE, CLATTN_E_MEMORY. */
CLATTN_API clattn_status clattn_array_create(clattn_dtype dtype, int rank, const int64_t *shape, clattn_array *array);
/* A view of the whole array; a scalar's is [1], since a tensor of rank 0 is an absent one. */
CLATTN_API clattn_tensor clattn_array_tensor(const clattn_array *array);
/* A copy in another type (or the same), by the rules of clattn_convert. out may not be the array itself. */
CLATTN_API clattn_status clattn_array_convert(const clattn_array *array, clattn_dtype dtype, clattn_array *out);

/* NPY 1.0, 2.0 and 3.0; f2 f4 f8 i4 i8 u1 b1, little or big endian, C or Fortran order (both come out row-major).
 * Bool bytes come as they are: nonzero is true.
 * Errors  CLATTN_E_IO (cannot be opened), CLATTN_E_FORMAT (says which field), CLATTN_E_DTYPE, CLATTN_E_MEMORY. */
CLATTN_API clattn_status clattn_npy_read(const char *path, clattn_array *array);
/* The bytes of numpy.save. Errors  CLATTN_E_IO, CLATTN_E_DTYPE (bf16, which NPY has not), CLATTN_E_ARGUMENT. */
CLATTN_API clattn_status clattn_npy_write(const char *path, const clattn_array *array);

/* A file that is open for reading. */
typedef struct clattn_safetensors clattn_safetensors;

/* What a file says of a tensor. */
typedef struct clattn_safetensors_entry {
    const char *name;               /* of its own in the file */
    const char *dtype_text;         /* as in the file: "F32" */
    bool readable;                  /* the dtype is one of ours; others, such as F8_E4M3 and U16, are only listed */
    clattn_dtype dtype;             /* when readable */
    int rank;                       /* 0: a scalar */
    int64_t shape[CLATTN_MAX_RANK]; /* rows first */
    uint64_t bytes;                 /* in the file */
    uint64_t reserved[4];           /* zero: see clattn/version.h */
} clattn_safetensors_entry;

/* Opens, and checks the header: at most 100 MB, every range inside the file and of the size that shape and dtype say,
 * no overlaps, no holes, no duplicate names, no unknown dtypes or keys, at most CLATTN_MAX_RANK axes.
 * The data stays in the file until a tensor is read. An open file may be read by several threads.
 * Errors  CLATTN_E_IO, CLATTN_E_FORMAT, CLATTN_E_MEMORY. */
CLATTN_API clattn_status clattn_safetensors_open(const char *path, clattn_safetensors **file);
CLATTN_API void clattn_safetensors_close(clattn_safetensors *file); /* NULL is allowed */
/* How many tensors there are. */
CLATTN_API size_t clattn_safetensors_count(const clattn_safetensors *file);
/* Entries in the order of the file's header; texts live as long as the file is open. false past the end. */
CLATTN_API bool clattn_safetensors_entry_at(const clattn_safetensors *file, size_t index,
                                            clattn_safetensors_entry *entry);
/* index may be NULL. */
CLATTN_API bool clattn_safetensors_find(const clattn_safetensors *file, const char *name, size_t *index);
/* Errors  CLATTN_E_ARGUMENT (no such tensor: the message lists near names), CLATTN_E_DTYPE (not readable),
 *         CLATTN_E_IO (the file was cut since it was opened), CLATTN_E_MEMORY. */
CLATTN_API clattn_status clattn_safetensors_read(clattn_safetensors *file, const char *name, clattn_array *array);
/* Metadata: count, and pairs by index; NULL past the end. */
CLATTN_API size_t clattn_safetensors_metadata_count(const clattn_safetensors *file);
/* The key of pair number index, in the order of the header. */
CLATTN_API const char *clattn_safetensors_metadata_key(const clattn_safetensors *file, size_t index);
/* The value, NULL when there is no such key. */
CLATTN_API const char *clattn_safetensors_metadata(const clattn_safetensors *file, const char *key);

/* A tensor to be written. */
typedef struct clattn_named_array {
    const char *name;   /* UTF-8, of its own */
    clattn_array array; /* borrowed */
} clattn_named_array;
/* A key and its value. */
typedef struct clattn_metadata_pair {
    const char *key, *value; /* UTF-8 */
} clattn_metadata_pair;
/* Tensors are ordered by type, wide ones first, then by name, as the reference writer does; metadata stays in order.
 * Errors  CLATTN_E_ARGUMENT (NULL, duplicate or non-UTF-8 names and texts, arrays that contradict themselves),
 *         CLATTN_E_IO, CLATTN_E_MEMORY. */
CLATTN_API clattn_status clattn_safetensors_write(const char *path, const clattn_named_array *arrays, size_t count,
                                                  const clattn_metadata_pair *metadata, size_t metadata_count);

/* ---- GGUF ---- */

/* The numbers are those of the format. */
typedef enum clattn_gguf_type {
    CLATTN_GGUF_U8 = 0,
    CLATTN_GGUF_I8,
    CLATTN_GGUF_U16,
    CLATTN_GGUF_I16,
    CLATTN_GGUF_U32,
    CLATTN_GGUF_I32,
    CLATTN_GGUF_F32,
    CLATTN_GGUF_BOOL,
    CLATTN_GGUF_STRING,
    CLATTN_GGUF_U64 = 10, /* 9 are arrays: is_array below */
    CLATTN_GGUF_I64,
    CLATTN_GGUF_F64
} clattn_gguf_type;
/* "u32", "string"; "?" for a number that is no type. */
CLATTN_API const char *clattn_gguf_type_name(clattn_gguf_type type);

/* An entry of the metadata. */
typedef struct clattn_gguf_value {
    const char *key;       /* "general.name" */
    clattn_gguf_type type; /* of the value, or of each element */
    bool is_array;         /* `count` elements of the type */
    size_t count;          /* elements; 1 where it is no array */
    uint64_t reserved[4];  /* zero: see clattn/version.h */
} clattn_gguf_value;

/* A text with its length. */
typedef struct clattn_gguf_string {
    const char *text; /* ends in 0; any bytes, as vocabularies hold them */
    size_t length;    /* bytes */
} clattn_gguf_string;

/* A file that is open for reading, with its metadata. */
typedef struct clattn_gguf clattn_gguf;
/* The same fields; dtype_text is ggml's: "Q4_1". Readable are F32 F64 F16 BF16 I32 I64 Q8_0 Q4_0 Q4_1. The shape is in
 * clattn's order, rows first: that of the file reversed. */
typedef clattn_safetensors_entry clattn_gguf_entry;

/* GGUF versions 2 and 3, little endian. Opens, and checks all but the data: lengths and counts against the file's size,
 * keys and names (UTF-8, no duplicates), types, shapes of whole blocks, offsets that are aligned and follow one another
 * without holes, at most 4 axes, no arrays of arrays, 256 MiB before the data.
 * Metadata stays in memory, the data in the file until a tensor is read. An open file may be read by several threads.
 * Errors  CLATTN_E_IO, CLATTN_E_FORMAT, CLATTN_E_MEMORY.
 * Source  github.com/ggml-org/ggml, docs/gguf.md. */
CLATTN_API clattn_status clattn_gguf_open(const char *path, clattn_gguf **file);
CLATTN_API void clattn_gguf_close(clattn_gguf *file); /* NULL is allowed */
/* How many tensors there are. */
CLATTN_API size_t clattn_gguf_count(const clattn_gguf *file);
/* Entries in the order of the file; texts live as long as the file is open. false past the end. */
CLATTN_API bool clattn_gguf_entry_at(const clattn_gguf *file, size_t index, clattn_gguf_entry *entry);
/* index may be NULL. */
CLATTN_API bool clattn_gguf_find(const clattn_gguf *file, const char *name, size_t *index);
/* Blocks come as they are stored: array->dtype is CLATTN_Q4_1 and so on.
 * Errors  CLATTN_E_ARGUMENT (no such tensor: the message lists near names), CLATTN_E_DTYPE (not readable),
 *         CLATTN_E_IO (the file was cut since it was opened), CLATTN_E_MEMORY. */
CLATTN_API clattn_status clattn_gguf_read(clattn_gguf *file, const char *name, clattn_array *array);

/* Metadata, in the order of the file. false past the end, or where there is no such key; index may be NULL. */
CLATTN_API size_t clattn_gguf_metadata_count(const clattn_gguf *file);
/* The entry number index. */
CLATTN_API bool clattn_gguf_metadata_at(const clattn_gguf *file, size_t index, clattn_gguf_value *value);
/* The number of a key. */
CLATTN_API bool clattn_gguf_metadata_find(const clattn_gguf *file, const char *key, size_t *index);
/* One value: of any integer type or bool; of any type of numbers; a text without bytes 0, which lives as long as the
 * file is open.
 * Errors  CLATTN_E_ARGUMENT (no such key: the message lists near ones), CLATTN_E_DTYPE (of another type, or an array),
 *         CLATTN_E_LIMIT (above INT64_MAX), CLATTN_E_FORMAT (a byte 0 in a text). *out is then 0, or NULL. */
CLATTN_API clattn_status clattn_gguf_integer(const clattn_gguf *file, const char *key, int64_t *out);
/* A number of any type, as above. */
CLATTN_API clattn_status clattn_gguf_number(const clattn_gguf *file, const char *key, double *out);
/* A text, as above. */
CLATTN_API clattn_status clattn_gguf_text(const clattn_gguf *file, const char *key, const char **out);
/* An array: its texts, which live as long as the file is open; or its numbers as i64 (integers, bool) or f64, to be
 * freed.
 * Errors  CLATTN_E_ARGUMENT (no such key), CLATTN_E_DTYPE (of another type, or no array), CLATTN_E_LIMIT (above
 *         INT64_MAX), CLATTN_E_MEMORY. */
CLATTN_API clattn_status clattn_gguf_strings(const clattn_gguf *file, const char *key, const clattn_gguf_string **out,
                                             size_t *count);
/* An array of numbers, as above. */
CLATTN_API clattn_status clattn_gguf_numbers(const clattn_gguf *file, const char *key, clattn_array *array);

/* ---- npy or safetensors by name ---- */

/* Reads "X.npy" or "FILE.safetensors:NAME", split at the first ".safetensors:": both parts may hold more colons.
 * A safetensors file with a single tensor needs no NAME. */
CLATTN_API clattn_status clattn_array_load(const char *spec, clattn_array *array);
/* Writes "X.npy", or "FILE.safetensors:NAME" as a file with that one tensor, in place of an older file. */
CLATTN_API clattn_status clattn_array_save(const char *spec, const clattn_array *array);

#ifdef __cplusplus
}
#endif
#endif
