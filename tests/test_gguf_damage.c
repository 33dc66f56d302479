/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files cut at every length, with every bit flipped, and damaged at random: refused, or readable throughout. */
#include "gguf_files.h"

TestSuite(gguf_damage, .init = temp_dir_make, .fini = temp_dir_remove);

/* Whatever opens must be readable throughout. */
static void read_all(const char *path, const char *how, size_t place) {
    clattn_gguf *g;
    clattn_gguf_entry e;
    clattn_gguf_value v;
    const clattn_gguf_string *s;
    size_t count;
    int64_t n;
    double x;
    clattn_array a;
    const clattn_status status = clattn_gguf_open(path, &g);
    cr_assert(status == CLATTN_OK || status == CLATTN_E_FORMAT, "%s %zu: %s", how, place, clattn_last_error());
    cr_assert_eq(status == CLATTN_OK, g != NULL);
    for (size_t i = 0; clattn_gguf_entry_at(g, i, &e); i++) {
        cr_assert_eq(clattn_gguf_read(g, e.name, &a), e.readable ? CLATTN_OK : CLATTN_E_DTYPE);
        cr_assert_eq(a.bytes, e.readable ? e.bytes : 0);
        clattn_array_free(&a);
    }
    for (size_t i = 0; clattn_gguf_metadata_at(g, i, &v); i++) {
        if (clattn_gguf_strings(g, v.key, &s, &count) == CLATTN_OK)
            for (size_t t = 0; t < count; t++)
                cr_assert_eq(s[t].text[s[t].length], 0);
        if (clattn_gguf_numbers(g, v.key, &a) == CLATTN_OK)
            clattn_array_free(&a);
        (void)clattn_gguf_integer(g, v.key, &n);
        (void)clattn_gguf_number(g, v.key, &x);
    }
    clattn_gguf_close(g);
}

Test(gguf_damage, refuses_a_file_cut_at_any_length) {
    clattn_gguf *g;
    make_sample(3);
    for (size_t n = 0; n < length; n++) {
        FAILS(clattn_gguf_open(temp_write("x.gguf", bytes, n), &g), CLATTN_E_FORMAT, "x.gguf");
        cr_assert_null(g);
    }
}

Test(gguf_damage, survives_every_bit_flipped) {
    make_sample(3);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        read_all(written(), "bit", bit);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

Test(gguf_damage, survives_3000_damaged_files) {
    static unsigned char bad[1 << 16];
    unsigned state = 20230821;
    make_sample(3);
    for (size_t i = 0; i < 3000; i++) {
        memcpy(bad, bytes, length);
        read_all(temp_write("x.gguf", bad, temp_mutate(bad, length, sizeof bad, &state)), "damage", i);
    }
}
