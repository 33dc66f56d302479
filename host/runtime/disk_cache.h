/* SPDX-License-Identifier: Apache-2.0 */
/* Entries on disk, by a key text: bytes that were dear to make. Knows no OpenCL. Nothing that is read is trusted: a
 * file that is not whole, of another version, of another key or of another user counts as none. Nothing here is an
 * error: what cannot be written is not kept. Processes may share a folder. */
#ifndef CLA_DISK_CACHE_H
#define CLA_DISK_CACHE_H

#include <clattn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLA_DISK_LIMIT ((uint64_t)256 << 20) /* bytes of a folder's entries */

typedef struct cla_disk_entry {
    char *note; /* a text kept with the bytes */
    unsigned char *bytes;
    size_t size;
    void *storage; /* of both */
} cla_disk_entry;

/* False: there is none. Marks it as used. */
bool cla_disk_load(const char *folder, const char *key, cla_disk_entry *entry);
void cla_disk_entry_free(cla_disk_entry *entry);
/* Makes the folder, writes the entry under a temporary name and renames it; false: it is not kept. */
bool cla_disk_store(const char *folder, const char *key, const char *note, const void *bytes, size_t size);
/* Removes the entries used longest ago until the rest takes at most `limit` bytes, and what broken writers left. */
void cla_disk_trim(const char *folder, uint64_t limit);
/* With the folders above it; what is there already is left as it is. */
bool cla_disk_make_folder(const char *folder);
/* Path of the entry of a key; false: longer than size. */
bool cla_disk_path(const char *folder, const char *key, char *path, size_t size);

#endif
