/* SPDX-License-Identifier: Apache-2.0 */
/* The text of an NPY header: a Python dictionary with the keys descr, fortran_order and shape, and no more than that.
 * Works on memory; opens nothing. Source: NumPy Enhancement Proposal 1 and numpy/lib/format.py. */
#ifndef CLA_NPY_HEADER_H
#define CLA_NPY_HEADER_H

#include <clattn/tensor.h>

typedef struct cla_npy_header {
    clattn_dtype dtype;
    bool big_endian, fortran_order;
    int rank;
    int64_t shape[CLATTN_MAX_RANK];
} cla_npy_header;

/* text need not end in 0. `path` is for messages. Errors  CLATTN_E_FORMAT, CLATTN_E_DTYPE. */
clattn_status cla_npy_header_parse(const char *path, const char *text, size_t length, cla_npy_header *header);

/* The type as in a little-endian header: "<f4"; NULL when NPY has no such type (bf16). */
const char *cla_npy_descr(clattn_dtype dtype);

#endif
