/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of a tensor one by one, from the host or, in blocks, from a device. */
#ifndef CLA_LINT_READ_H
#define CLA_LINT_READ_H

#include <clattn/tensor.h>

typedef struct cla_reader {
    clattn_tensor t;
    const char *host;           /* where element 0 is, or NULL */
    char *block;                /* of a device: elements [first, first + count) */
    int64_t first, count, last; /* last: one past the highest element that the view touches */
    clattn_status status;       /* of the first failure; what is read after it is 0 */
} cla_reader;

/* rank 0 gives an empty reader. Free it also when this fails. */
clattn_status cla_reader_init(cla_reader *r, const clattn_tensor *t);
void cla_reader_free(cla_reader *r);
/* Element index, counted from the start of the storage; valid until the next call. Not of quantised types. */
const void *cla_reader_at(cla_reader *r, int64_t index);

/* Calls visit for each element that is its own (axes with stride 0 count once), in row-major order, with its place,
 * until it returns false. rank 4. */
void cla_reader_scan(cla_reader *r, bool (*visit)(void *user, const void *element, const int64_t at[4]), void *user);

#endif
