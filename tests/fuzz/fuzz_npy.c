/* SPDX-License-Identifier: Apache-2.0 */
/* NPY files: refused with a text, or read, written and read again with the same result. */
#include "fuzz.h"

static void check_same(const clattn_array *a, const clattn_array *b) {
    FUZZ_CHECK(a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes, "rank %d, %zu bytes", b->rank,
               b->bytes);
    FUZZ_CHECK(memcmp(a->shape, b->shape, sizeof a->shape) == 0, "other shapes");
    FUZZ_CHECK(memcmp(a->data, b->data, a->bytes) == 0, "other bytes");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const clattn_array nothing;
    clattn_array a, again;
    memset(&a, 0x55, sizeof a);
    fuzz_memory_begin();
    const clattn_status status = clattn_npy_read(fuzz_file(data, size), &a);
    fuzz_memory_check(size);
    if (status != CLATTN_OK) {
        fuzz_check_error(status);
        FUZZ_CHECK(status == CLATTN_E_FORMAT || status == CLATTN_E_DTYPE, "%s", clattn_last_error());
        FUZZ_CHECK(memcmp(&a, &nothing, sizeof a) == 0, "a result beside an error");
        return 0;
    }
    FUZZ_CHECK(a.data && a.bytes < size, "%zu bytes from %zu", a.bytes, size);
    const char *path = fuzz_path("x.npy");
    FUZZ_CHECK(clattn_npy_write(path, &a) == CLATTN_OK, "%s", clattn_last_error());
    FUZZ_CHECK(clattn_npy_read(path, &again) == CLATTN_OK, "%s", clattn_last_error());
    check_same(&a, &again);
    clattn_array_free(&again);
    FUZZ_CHECK(clattn_array_convert(&a, CLATTN_F64, &again) == CLATTN_OK, "%s", clattn_last_error());
    clattn_array_free(&again);
    clattn_array_free(&a);
    return 0;
}
