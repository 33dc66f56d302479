/* SPDX-License-Identifier: Apache-2.0 */
/* Checked reading and atomic writing of regular files. Knows no format. */
#ifndef CLA_FILE_H
#define CLA_FILE_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the files hold little-endian numbers, and clattn copies them as they are: a big-endian host needs a swap here"
#endif

typedef struct cla_file {
    int descriptor;
    int64_t bytes; /* size when it was opened */
    char *path;    /* owned, for messages */
} cla_file;

/* Errors  CLATTN_E_IO (cannot be opened; a folder, pipe or device), CLATTN_E_MEMORY. *file is NULL then. */
clattn_status cla_file_open(const char *path, cla_file **out);
void cla_file_close(cla_file *file); /* NULL is allowed */
/* All of [offset, offset + bytes) or CLATTN_E_IO. No shared position: several threads may read one file. */
clattn_status cla_file_read(const cla_file *file, int64_t offset, void *to, size_t bytes);

/* Writes to a new file in the same folder, which takes the place of `path` at the commit and not before. */
typedef struct cla_writer cla_writer;

/* Symbolic links are followed. Errors  CLATTN_E_IO (also when path is a folder, pipe or device), CLATTN_E_MEMORY. */
clattn_status cla_writer_open(const char *path, cla_writer **out);
clattn_status cla_writer_put(cla_writer *writer, const void *data, size_t bytes);
clattn_status cla_writer_commit(cla_writer *writer);
/* Always the last call: without a successful commit it removes the temporary file. NULL is allowed. */
void cla_writer_close(cla_writer *writer);

#endif
