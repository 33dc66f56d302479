/* SPDX-License-Identifier: Apache-2.0 */
/* A file of text in memory. */
#ifndef CLA_TEXT_FILE_H
#define CLA_TEXT_FILE_H

#include <stddef.h>

/* All bytes of a file (or pipe), and a 0 behind them; of a file of more than `most` bytes most + 1, so that *size
 * tells. Takes memory as the file has bytes. NULL: errno says why. */
char *cla_text_file_read(const char *path, size_t most, size_t *size);

#endif
