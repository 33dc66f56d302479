/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of FIPS 180-4 and of the NIST's page about them. */
#include "base/sha256.h"
#include "testing.h"
#include <stdio.h>

static void expect_digest(cla_sha256 *hash, const char *digits) {
    unsigned char digest[CLA_SHA256_BYTES];
    char text[2 * CLA_SHA256_BYTES + 1];
    cla_sha256_end(hash, digest);
    for (int i = 0; i < CLA_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    cr_expect_str_eq(text, digits);
}

static void expect_text(const char *text, const char *digits) {
    for (size_t step = 1; step <= 64; step++) { /* however it comes in pieces */
        cla_sha256 hash;
        cla_sha256_begin(&hash);
        for (size_t at = 0, n = strlen(text); at < n; at += step)
            cla_sha256_add(&hash, text + at, n - at < step ? n - at : step);
        expect_digest(&hash, digits);
    }
}

Test(sha256, gives_the_published_digests) {
    expect_text("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_text("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

Test(sha256, takes_a_million_letters) {
    cla_sha256 hash;
    cla_sha256_begin(&hash);
    for (int i = 0; i < 100000; i++)
        cla_sha256_add(&hash, "aaaaaaaaaa", 10);
    expect_digest(&hash, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
