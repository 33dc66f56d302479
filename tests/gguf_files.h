/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files made byte by byte, for the tests that read them. */
#ifndef CLA_TESTS_GGUF_FILES_H
#define CLA_TESTS_GGUF_FILES_H

#include "io_testing.h"

#include <clattn/io.h>
#include <stdint.h>
#include <sys/types.h>

static unsigned char bytes[1 << 16];
static size_t length;

static inline void put(const void *data, size_t n) {
    cr_assert_leq(length + n, sizeof bytes);
    if (n > 0)
        memcpy(bytes + length, data, n);
    length += n;
}
static inline void put32(uint32_t x) { put(&x, sizeof x); }
static inline void put64(uint64_t x) { put(&x, sizeof x); }
static inline void put_string(const char *text) {
    put64(strlen(text));
    put(text, strlen(text));
}
static inline void start(uint32_t version, uint64_t tensors, uint64_t pairs) {
    length = 0;
    put("GGUF", 4);
    put32(version);
    put64(tensors);
    put64(pairs);
}
static inline void key(const char *name, clattn_gguf_type type) {
    put_string(name);
    put32((uint32_t)type);
}
static inline void array_key(const char *name, clattn_gguf_type type, uint64_t count) {
    put_string(name);
    put32(9);
    put32((uint32_t)type);
    put64(count);
}
static inline void tensor(const char *name, uint32_t type, uint32_t axes, const uint64_t *shape, uint64_t offset) {
    put_string(name);
    put32(axes);
    put(shape, axes * sizeof *shape);
    put32(type);
    put64(offset);
}
static inline void pad(size_t alignment) {
    while (length % alignment != 0)
        put("", 1);
}
static inline const char *written(void) { return temp_write("x.gguf", bytes, length); }

static inline clattn_gguf *opened(void) {
    clattn_gguf *g = NULL;
    SUCCEEDS(clattn_gguf_open(written(), &g));
    return g;
}

/* A value of every type, arrays, and a tensor of each kind. */
static inline void make_sample(uint32_t version) {
    static const uint64_t matrix[] = {3, 2}, blocks[] = {32, 2};
    static const float numbers[6] = {0, 1, 2, 3, 4, 5};
    static const double wide = -0.5;
    static const float single = 0.25f;
    static const unsigned char q4_0[2][18] = {{0, 0x3c, 0x21}, {0}};
    start(version, 3, 17);
    key("u8", CLATTN_GGUF_U8), put("\xff", 1);
    key("i8", CLATTN_GGUF_I8), put("\xff", 1);
    key("u16", CLATTN_GGUF_U16), put("\xff\xff", 2);
    key("i16", CLATTN_GGUF_I16), put("\xfe\xff", 2);
    key("u32", CLATTN_GGUF_U32), put32(4000000000u);
    key("i32", CLATTN_GGUF_I32), put32((uint32_t)-3);
    key("f32", CLATTN_GGUF_F32), put(&single, 4);
    key("bool", CLATTN_GGUF_BOOL), put("\1", 1);
    key("text", CLATTN_GGUF_STRING), put_string("d\xc3\xa9");
    key("u64", CLATTN_GGUF_U64), put64(UINT64_C(1) << 63);
    key("i64", CLATTN_GGUF_I64), put64(UINT64_MAX);
    key("f64", CLATTN_GGUF_F64), put(&wide, 8);
    array_key("texts", CLATTN_GGUF_STRING, 3), put_string("a"), put_string(""), put64(3), put("b\0c", 3);
    array_key("numbers", CLATTN_GGUF_I16, 2), put("\1\0\xff\xff", 4);
    array_key("none", CLATTN_GGUF_F64, 0);
    key("zero", CLATTN_GGUF_STRING), put64(3), put("x\0y", 3);
    array_key("reals", CLATTN_GGUF_F32, 1), put(&single, 4);
    tensor("m", 0, 2, matrix, 0);
    tensor("blk.0.w", 2, 2, blocks, 32);
    tensor("k", 14, 1, (const uint64_t[]){256}, 96);
    pad(32);
    put(numbers, sizeof numbers);
    pad(32);
    put(q4_0, sizeof q4_0);
    pad(32);
    for (int i = 0; i < 210; i++)
        put("x", 1);
}

#endif
