/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, for names and checksums. Source: FIPS 180-4. */
#ifndef CLA_SHA256_H
#define CLA_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { CLA_SHA256_BYTES = 32 };

typedef struct cla_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
} cla_sha256;

void cla_sha256_begin(cla_sha256 *hash);
void cla_sha256_add(cla_sha256 *hash, const void *data, size_t bytes);
void cla_sha256_end(cla_sha256 *hash, unsigned char digest[CLA_SHA256_BYTES]);

#endif
