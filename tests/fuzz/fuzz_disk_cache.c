/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the cache of programs. First byte: how many of the next are the key; then the file, whose checksum is made
 * right where bit 0 of the second byte is set, so that what lies behind it is reached. */
#define _XOPEN_SOURCE 700
#include "base/sha256.h"
#include "fuzz.h"
#include "runtime/disk_cache.h"
#include <unistd.h>

enum { CHECKSUM = 40, HEADER = CHECKSUM + CLA_SHA256_BYTES }; /* magic, two of 32 bits, three of 64, checksum */

static void mend_checksum(uint8_t *file, size_t size) {
    cla_sha256 hash;
    if (size < HEADER)
        return;
    cla_sha256_begin(&hash);
    cla_sha256_add(&hash, file, CHECKSUM);
    cla_sha256_add(&hash, file + HEADER, size - HEADER);
    cla_sha256_end(&hash, file + CHECKSUM);
}

static void check_load(const char *folder, const char *key, uint8_t *file, size_t size, bool mended) {
    char path[400];
    cla_disk_entry entry;
    if (mended)
        mend_checksum(file, size);
    FUZZ_CHECK(cla_disk_path(folder, key, path, sizeof path), "%s", folder);
    unlink(path);
    FUZZ_CHECK(symlink(fuzz_file(file, size), path) == 0, "%s", path);
    fuzz_memory_begin();
    const bool there = cla_disk_load(folder, key, &entry);
    fuzz_memory_check(size);
    FUZZ_CHECK(there || (!entry.note && !entry.bytes && !entry.storage), "a result beside none");
    if (there) {
        FUZZ_CHECK(mended || size >= HEADER, "%zu bytes", size);
        FUZZ_CHECK(strlen(entry.note) + 1 + entry.size + strlen(key) <= size - HEADER, "%zu bytes", entry.size);
        cla_disk_entry_free(&entry);
    }
    unlink(path);
}

static void check_store(const char *folder, const char *key, const uint8_t *bytes, size_t size) {
    char path[400];
    cla_disk_entry entry;
    FUZZ_CHECK(cla_disk_store(folder, key, "a note", bytes, size), "%s", folder);
    FUZZ_CHECK(cla_disk_load(folder, key, &entry), "%zu bytes", size);
    FUZZ_CHECK(strcmp(entry.note, "a note") == 0 && entry.size == size, "%zu bytes", entry.size);
    FUZZ_CHECK(memcmp(entry.bytes, bytes, size) == 0, "other bytes");
    cla_disk_entry_free(&entry);
    if (cla_disk_path(folder, key, path, sizeof path))
        unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = {data, data + size};
    char key[256] = "", folder[200];
    snprintf(folder, sizeof folder, "%s", fuzz_path("."));
    const size_t length = fuzz_byte(&in);
    const bool mended = fuzz_flag(&in);
    for (size_t i = 0; i < length; i++)
        key[i] = (char)fuzz_byte(&in);
    const size_t left = (size_t)(in.end - in.at);
    uint8_t *file = malloc(left + 1);
    FUZZ_CHECK(file, "out of memory");
    memcpy(file, in.at, left);
    check_load(folder, key, file, left, mended);
    if (left % 8 == 0)
        check_store(folder, key, file, left);
    free(file);
    return 0;
}
