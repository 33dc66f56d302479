/* SPDX-License-Identifier: Apache-2.0 */
/* The text of the tuner's record. Line 1 is its version; then come devices, and under each its entries:
 *   clattn tuning 1
 *   # a comment
 *   device PLATFORM | NAME | DRIVER | VERSION | 2 units
 *   KEY: VALUE | 1.23 ms, default 1.5 ms
 * Knows no context and no OpenCL. */
#ifndef CLA_TUNING_FILE_H
#define CLA_TUNING_FILE_H

#include "base/str.h"

typedef struct cla_tuning_entry {
    char *key, *value; /* owned; value NULL: removed */
    double ms, default_ms;
    bool changed; /* since the file was read */
} cla_tuning_entry;

typedef struct cla_tuning_record {
    cla_tuning_entry *entries;
    size_t count;
    cla_str skipped; /* a line for each that was passed over */
    size_t skipped_count;
    cla_str others; /* devices that are not this one with their entries, as they stood */
} cla_tuning_record;

/* Entries under `device`; the last of a key holds. A file that is not there is empty.
 * Errors  CLATTN_E_IO (cannot be read), CLATTN_E_FORMAT (does not begin as a record), CLATTN_E_MEMORY. */
clattn_status cla_tuning_read(const char *path, const char *device, cla_tuning_record *record);
/* The same of a text that is not terminated. */
clattn_status cla_tuning_parse(const char *text, size_t bytes, const char *device, cla_tuning_record *record);
/* From before the file is read until it is written: two that save at once would lose what the first one wrote. Waits
 * for other processes and threads, which hold it for a moment. Makes the folder. The lock is of a file beside the
 * record, PATH.lock, which goes with it; a process that dies leaves that file and no lock. Where files cannot be
 * locked, nothing is held, and that is no error.
 *
 * Errors  CLATTN_E_IO (the record's place cannot be written). */
typedef struct cla_tuning_lock {
    char name[4096];
    int fd; /* below 0: not held */
} cla_tuning_lock;
clattn_status cla_tuning_lock_take(const char *path, cla_tuning_lock *lock);
void cla_tuning_lock_give(cla_tuning_lock *lock);
/* Makes the folder, writes under a temporary name and renames.
 * Errors  CLATTN_E_IO, CLATTN_E_MEMORY. */
clattn_status cla_tuning_write(const char *path, const char *device, const cla_tuning_record *record);
/* NULL: there is none, or it is removed. */
const cla_tuning_entry *cla_tuning_look(const cla_tuning_record *record, const char *key);
/* Takes copies; value NULL removes.
 * Errors  CLATTN_E_ARGUMENT (what cannot stand in a line), CLATTN_E_MEMORY. */
clattn_status cla_tuning_put(cla_tuning_record *record, const char *key, const char *value, double ms,
                             double default_ms);
void cla_tuning_record_free(cla_tuning_record *record);

#endif
