/* SPDX-License-Identifier: Apache-2.0 */
/* Checked allocation and size arithmetic. Nothing else in the library calls malloc. */
#ifndef CLA_MEM_H
#define CLA_MEM_H

#include <clattn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed; count * size is checked; 0 bytes give a unique pointer. `what` names it in the message. */
clattn_status cla_alloc(size_t count, size_t size, const char *what, void *out_pointer);
/* Grows *pointer (a `T *`, passed as its address); new bytes are undefined; on failure the old array stays. */
clattn_status cla_realloc(void *in_out_pointer, size_t count, size_t size, const char *what);
/* Aligned to 64 bytes, not zeroed. */
clattn_status cla_alloc_aligned(size_t bytes, const char *what, void *out_pointer);
void cla_free(void *pointer);

/* a * b and a + b for sizes; false when they overflow, and *out is then unchanged. a, b >= 0. */
bool cla_mul(int64_t a, int64_t b, int64_t *out);
bool cla_add(int64_t a, int64_t b, int64_t *out);

static inline int64_t cla_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t cla_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t cla_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t cla_round_up(int64_t a, int64_t b) { return cla_ceil_div(a, b) * b; }

#endif
