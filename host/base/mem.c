/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

static clattn_status out_of_memory(size_t count, size_t size, const char *what) {
    return cla_error(CLATTN_E_MEMORY, "%s: out of memory for %zu x %zu bytes", what, count, size);
}

clattn_status cla_alloc(size_t count, size_t size, const char *what, void *out_pointer) {
    void *p = calloc(count ? count : 1, size ? size : 1);
    memcpy(out_pointer, &p, sizeof p);
    return p ? CLATTN_OK : out_of_memory(count, size, what);
}

clattn_status cla_realloc(void *in_out_pointer, size_t count, size_t size, const char *what) {
    void *p;
    memcpy(&p, in_out_pointer, sizeof p);
    if (size && count > SIZE_MAX / size)
        return out_of_memory(count, size, what);
    const size_t bytes = count * size;
    p = realloc(p, bytes ? bytes : 1);
    if (!p)
        return out_of_memory(count, size, what);
    memcpy(in_out_pointer, &p, sizeof p);
    return CLATTN_OK;
}

clattn_status cla_alloc_aligned(size_t bytes, const char *what, void *out_pointer) {
    void *p = NULL;
    if (bytes <= SIZE_MAX - 64)
        p = aligned_alloc(64, (bytes ? bytes + 63 : 64) / 64 * 64);
    memcpy(out_pointer, &p, sizeof p);
    return p ? CLATTN_OK : out_of_memory(bytes, 1, what);
}

void cla_free(void *pointer) { free(pointer); }

bool cla_mul(int64_t a, int64_t b, int64_t *out) {
    if (a < 0 || b < 0 || (b > 0 && a > INT64_MAX / b))
        return false;
    *out = a * b;
    return true;
}

bool cla_add(int64_t a, int64_t b, int64_t *out) {
    if (a < 0 || b < 0 || a > INT64_MAX - b)
        return false;
    *out = a + b;
    return true;
}
