/* SPDX-License-Identifier: Apache-2.0 */
/* What a file that is of another format than its reader's looks like, for that reader's message. */
#ifndef CLA_FILE_KIND_H
#define CLA_FILE_KIND_H

#include "io/file.h"

enum { CLA_FILE_KIND_TEXT = 64 };

/* " (it begins like npy)" by the file's first bytes; empty where they tell nothing. Returns text. */
const char *cla_file_kind(const cla_file *file, char text[CLA_FILE_KIND_TEXT]);

#endif
