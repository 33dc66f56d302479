/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors files: refused with a text, or read throughout, written and read again with the same result. */
#include "fuzz.h"

enum { MOST = 4096 };

static void check_read(clattn_safetensors *s, const clattn_safetensors_entry *e, size_t index, clattn_array *a) {
    static const clattn_array nothing;
    size_t at = SIZE_MAX;
    FUZZ_CHECK(clattn_safetensors_find(s, e->name, &at) && at == index, "%s", e->name);
    memset(a, 0x55, sizeof *a);
    const clattn_status status = clattn_safetensors_read(s, e->name, a);
    FUZZ_CHECK(status == (e->readable ? CLATTN_OK : CLATTN_E_DTYPE), "%s: %s", e->name, clattn_last_error());
    if (status != CLATTN_OK) {
        fuzz_check_error(status);
        FUZZ_CHECK(memcmp(a, &nothing, sizeof *a) == 0, "a result beside an error");
        return;
    }
    FUZZ_CHECK(a->dtype == e->dtype && a->rank == e->rank && a->bytes == e->bytes && a->data, "%s", e->name);
    FUZZ_CHECK(memcmp(a->shape, e->shape, sizeof a->shape) == 0, "%s", e->name);
}

static void check_again(const char *path, const clattn_named_array *arrays, size_t count,
                        const clattn_metadata_pair *metadata, size_t pairs) {
    clattn_safetensors *s = NULL;
    FUZZ_CHECK(clattn_safetensors_write(path, arrays, count, metadata, pairs) == CLATTN_OK, "%s", clattn_last_error());
    FUZZ_CHECK(clattn_safetensors_open(path, &s) == CLATTN_OK, "%s", clattn_last_error());
    FUZZ_CHECK(clattn_safetensors_count(s) == count && clattn_safetensors_metadata_count(s) == pairs, "other counts");
    for (size_t i = 0; i < count; i++) {
        clattn_array a;
        FUZZ_CHECK(clattn_safetensors_read(s, arrays[i].name, &a) == CLATTN_OK, "%s", clattn_last_error());
        FUZZ_CHECK(a.dtype == arrays[i].array.dtype && a.rank == arrays[i].array.rank, "%s", arrays[i].name);
        FUZZ_CHECK(memcmp(a.shape, arrays[i].array.shape, sizeof a.shape) == 0, "%s", arrays[i].name);
        FUZZ_CHECK(memcmp(a.data, arrays[i].array.data, a.bytes) == 0, "%s", arrays[i].name);
        clattn_array_free(&a);
    }
    for (size_t i = 0; i < pairs; i++) {
        FUZZ_CHECK(strcmp(clattn_safetensors_metadata_key(s, i), metadata[i].key) == 0, "%s", metadata[i].key);
        FUZZ_CHECK(strcmp(clattn_safetensors_metadata(s, metadata[i].key), metadata[i].value) == 0, "%s",
                   metadata[i].key);
    }
    clattn_safetensors_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static clattn_named_array arrays[MOST];
    static clattn_metadata_pair metadata[MOST];
    clattn_safetensors *s = (clattn_safetensors *)&arrays;
    clattn_safetensors_entry e;
    clattn_array a;
    size_t count = 0, pairs = 0;
    fuzz_memory_begin();
    const clattn_status status = clattn_safetensors_open(fuzz_file(data, size), &s);
    fuzz_memory_check(size);
    if (status != CLATTN_OK) {
        fuzz_check_error(status);
        FUZZ_CHECK(status == CLATTN_E_FORMAT && !s, "%s", clattn_last_error());
        return 0;
    }
    for (size_t i = 0; clattn_safetensors_entry_at(s, i, &e); i++) {
        check_read(s, &e, i, &a);
        if (e.readable && count < MOST)
            arrays[count++] = (clattn_named_array){e.name, a};
        else
            clattn_array_free(&a);
    }
    for (const char *key; pairs < MOST && (key = clattn_safetensors_metadata_key(s, pairs)); pairs++)
        metadata[pairs] = (clattn_metadata_pair){key, clattn_safetensors_metadata(s, key)};
    if (!clattn_safetensors_find(s, "no such tensor", NULL))
        fuzz_check_error(clattn_safetensors_read(s, "no such tensor", &a));
    check_again(fuzz_path("x.safetensors"), arrays, count, metadata, pairs);
    for (size_t i = 0; i < count; i++)
        clattn_array_free(&arrays[i].array);
    clattn_safetensors_close(s);
    return 0;
}
