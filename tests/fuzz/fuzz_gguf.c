/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files: refused with a text, or readable throughout, each value by exactly the calls of its type. */
#include "fuzz.h"

static const clattn_array nothing;

static void check_tensor(clattn_gguf *g, const clattn_gguf_entry *e, size_t index) {
    clattn_array a, f32;
    size_t at = SIZE_MAX;
    FUZZ_CHECK(clattn_gguf_find(g, e->name, &at) && at == index, "%s", e->name);
    memset(&a, 0x55, sizeof a);
    const clattn_status status = clattn_gguf_read(g, e->name, &a);
    FUZZ_CHECK(status == (e->readable ? CLATTN_OK : CLATTN_E_DTYPE), "%s: %s", e->name, clattn_last_error());
    if (status != CLATTN_OK) {
        fuzz_check_error(status);
        FUZZ_CHECK(memcmp(&a, &nothing, sizeof a) == 0, "a result beside an error");
        return;
    }
    FUZZ_CHECK(a.dtype == e->dtype && a.rank == e->rank && a.bytes == e->bytes && a.data, "%s", e->name);
    FUZZ_CHECK(memcmp(a.shape, e->shape, sizeof a.shape) == 0, "%s", e->name);
    FUZZ_CHECK(clattn_array_convert(&a, CLATTN_F32, &f32) == CLATTN_OK, "%s", clattn_last_error());
    clattn_array_free(&f32);
    clattn_array_free(&a);
}

/* What a failed call leaves. */
static bool failed(clattn_status status, bool zeroed) {
    if (status == CLATTN_OK)
        return false;
    fuzz_check_error(status);
    FUZZ_CHECK(zeroed, "a result beside an error: %s", clattn_last_error());
    return true;
}

static void check_value(const clattn_gguf *g, const clattn_gguf_value *v, size_t index) {
    const bool text = v->type == CLATTN_GGUF_STRING, real = v->type == CLATTN_GGUF_F32 || v->type == CLATTN_GGUF_F64;
    const clattn_gguf_string *strings = (const clattn_gguf_string *)&nothing;
    const char *one = "x";
    size_t at = SIZE_MAX, count = 1;
    int64_t whole = 1;
    double number = 1;
    clattn_array a;
    FUZZ_CHECK(clattn_gguf_metadata_find(g, v->key, &at) && at == index, "%s", v->key);
    FUZZ_CHECK(v->is_array || v->count == 1, "%s: %zu", v->key, v->count);
    clattn_status status = clattn_gguf_integer(g, v->key, &whole);
    if (!failed(status, whole == 0))
        FUZZ_CHECK(!v->is_array && !text && !real, "%s", v->key);
    status = clattn_gguf_number(g, v->key, &number);
    if (!failed(status, number == 0))
        FUZZ_CHECK(!v->is_array && !text, "%s", v->key);
    status = clattn_gguf_text(g, v->key, &one);
    if (!failed(status, !one))
        FUZZ_CHECK(!v->is_array && text && one[strlen(one)] == '\0', "%s", v->key);
    status = clattn_gguf_strings(g, v->key, &strings, &count);
    if (!failed(status, !strings && count == 0)) {
        FUZZ_CHECK(v->is_array && text && count == v->count, "%s", v->key);
        for (size_t i = 0; i < count; i++)
            FUZZ_CHECK(strings[i].text[strings[i].length] == '\0', "%s: %zu", v->key, i);
    }
    memset(&a, 0x55, sizeof a);
    status = clattn_gguf_numbers(g, v->key, &a);
    if (!failed(status, memcmp(&a, &nothing, sizeof a) == 0))
        FUZZ_CHECK(v->is_array && !text && (size_t)a.shape[0] == v->count, "%s", v->key);
    if (status == CLATTN_OK)
        clattn_array_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    clattn_gguf *g = (clattn_gguf *)&g;
    clattn_gguf_entry e;
    clattn_gguf_value v;
    clattn_array a;
    fuzz_memory_begin();
    const clattn_status status = clattn_gguf_open(fuzz_file(data, size), &g);
    fuzz_memory_check(size);
    if (status != CLATTN_OK) {
        fuzz_check_error(status);
        FUZZ_CHECK(status == CLATTN_E_FORMAT && !g, "%s", clattn_last_error());
        return 0;
    }
    for (size_t i = 0; clattn_gguf_entry_at(g, i, &e); i++)
        check_tensor(g, &e, i);
    for (size_t i = 0; clattn_gguf_metadata_at(g, i, &v); i++)
        check_value(g, &v, i);
    if (!clattn_gguf_find(g, "no such tensor", NULL))
        fuzz_check_error(clattn_gguf_read(g, "no such tensor", &a));
    clattn_gguf_close(g);
    return 0;
}
