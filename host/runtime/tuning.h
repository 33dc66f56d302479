/* SPDX-License-Identifier: Apache-2.0 */
/* The tuner's record of a context: entries of this device, by key. Knows no algorithm: keys and values are texts, whose
 * meaning, and whether it is possible, is the reader's to find out. The file's form is in tuning_file.h. */
#ifndef CLA_TUNING_H
#define CLA_TUNING_H

#include <clattn/context.h>

enum { CLA_TUNED_VALUE = 256 };
typedef struct cla_tuned {
    char value[CLA_TUNED_VALUE];
    double ms, default_ms;
} cla_tuned;

/* False: nothing is recorded. Reads the file at the first call. */
bool cla_tuning_find(clattn_context *context, const char *key, cla_tuned *found);
/* Rises with every change after the file was read. */
unsigned cla_tuning_changes(clattn_context *context);
/* Lines that were passed over. */
size_t cla_tuning_skipped_count(clattn_context *context);

#endif
