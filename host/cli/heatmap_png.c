/* SPDX-License-Identifier: Apache-2.0 */
/* Indexed PNG with stored (not compressed) deflate blocks, as a base64 data URI. Source: PNG 1.2, RFC 1950, RFC 1951.
 */
#include "heatmap_data.h"

#include <stdlib.h>
#include <string.h>

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

static void put(bytes *b, const void *data, size_t size) {
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void put_u32(bytes *b, uint32_t x) {
    put(b,
        (unsigned char[]){(unsigned char)(x >> 24), (unsigned char)(x >> 16), (unsigned char)(x >> 8),
                          (unsigned char)x},
        4);
}

static uint32_t crc32(const unsigned char *data, size_t size) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void put_chunk(bytes *b, const char *type, const unsigned char *data, size_t size) {
    put_u32(b, (uint32_t)size);
    const size_t start = b->size;
    put(b, type, 4);
    put(b, data, size);
    put_u32(b, crc32(b->data + start, size + 4));
}

/* zlib around stored blocks. */
static void put_stored(bytes *b, const unsigned char *data, size_t size) {
    uint32_t low = 1, high = 0;
    for (size_t i = 0; i < size; i++) {
        low = (low + data[i]) % 65521;
        high = (high + low) % 65521;
    }
    put(b, "\x78\x01", 2);
    for (size_t at = 0; at < size;) {
        const size_t part = size - at < 65535 ? size - at : 65535;
        const unsigned char head[] = {at + part == size, (unsigned char)part, (unsigned char)(part >> 8),
                                      (unsigned char)~part, (unsigned char)(~part >> 8)};
        put(b, head, sizeof head);
        put(b, data + at, part);
        at += part;
    }
    put_u32(b, high << 16 | low);
}

static void put_png(bytes *png, bytes *packed, bytes *rows, int height, int width) {
    unsigned char palette[3 * CLA_COLOURS], head_data[13];
    bytes head = {head_data, 0};
    for (int i = 0; i < CLA_COLOURS; i++)
        for (int channel = 0; channel < 3; channel++)
            palette[3 * i + channel] = (unsigned char)(cla_colour(i) >> (16 - 8 * channel));
    put(png, "\x89PNG\r\n\x1a\n", 8);
    put_u32(&head, (uint32_t)width);
    put_u32(&head, (uint32_t)height);
    put(&head, "\x08\x03\0\0\0", 5); /* 8 bits, indexed */
    put_chunk(png, "IHDR", head_data, sizeof head_data);
    put_chunk(png, "PLTE", palette, sizeof palette);
    put_stored(packed, rows->data, rows->size);
    put_chunk(png, "IDAT", packed->data, packed->size);
    put_chunk(png, "IEND", (const unsigned char *)"", 0);
}

static void write_base64(FILE *file, const bytes *b) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < b->size; i += 3) {
        const size_t n = b->size - i;
        const unsigned x = (unsigned)b->data[i] << 16 | (n > 1 ? (unsigned)b->data[i + 1] << 8 : 0) |
                           (n > 2 ? (unsigned)b->data[i + 2] : 0);
        const char four[] = {digits[x >> 18], digits[x >> 12 & 63], n > 1 ? digits[x >> 6 & 63] : '=',
                             n > 2 ? digits[x & 63] : '='};
        fwrite(four, 1, sizeof four, file);
    }
}

bool cla_write_png_uri(FILE *file, const float *values, int height, int width, float most) {
    const size_t raw = ((size_t)width + 1) * (size_t)height, packed_size = raw + (raw / 65535 + 1) * 5 + 16;
    bytes rows = {malloc(raw), 0}, packed = {malloc(packed_size), 0}, png = {malloc(packed_size + 2048), 0};
    const bool good = rows.data && packed.data && png.data;
    if (good) {
        for (int i = 0; i < height; i++) {
            rows.data[rows.size++] = 0; /* no filter */
            for (int j = 0; j < width; j++)
                rows.data[rows.size++] =
                    (unsigned char)cla_colour_index(values[(size_t)i * (size_t)width + (size_t)j], most);
        }
        put_png(&png, &packed, &rows, height, width);
        fputs("data:image/png;base64,", file);
        write_base64(file, &png);
    }
    free(rows.data);
    free(packed.data);
    free(png.data);
    return good;
}
