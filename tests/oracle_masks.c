/* SPDX-License-Identifier: Apache-2.0 */
/* Which query sees which key, and where it stands: written apart from the library's own code. */
#include "oracle_internal.h"
#include <math.h>

static int64_t mask_at(const oracle_config *f, oracle_mask mask, int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t shape[4];
    oracle_mask_shape(f, mask, shape);
    return ((b % shape[0] * shape[1] + h % shape[1]) * shape[2] + i % shape[2]) * shape[3] + j % shape[3];
}

/* Whether the key is behind the last column of a short mask. */
static bool is_behind(const oracle_config *f, oracle_mask mask, int64_t j) {
    int64_t shape[4];
    oracle_mask_shape(f, mask, shape);
    return f->short_masks && mask.rank && j >= shape[3];
}

double oracle_bias(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    return c->config.bias.rank ? c->bias[mask_at(&c->config, c->config.bias, b, h, i, j)] : 0;
}

int64_t oracle_queries(const oracle_case *c, int64_t b) {
    const int64_t n = c->cu_queries ? c->cu_queries[b + 1] - c->cu_queries[b] : c->config.N;
    return c->query_lengths && c->query_lengths[b] < n ? c->query_lengths[b] : n;
}

int64_t oracle_keys(const oracle_case *c, int64_t b) {
    const int64_t m = c->cu_keys ? c->cu_keys[b + 1] - c->cu_keys[b] : c->config.M;
    return c->key_lengths && c->key_lengths[b] < m ? c->key_lengths[b] : m;
}

int64_t oracle_position(const oracle_case *c, int64_t b, int64_t i) {
    switch (c->config.align) {
    case CLATTN_ALIGN_BOTTOM_RIGHT:
        return i + oracle_keys(c, b) - oracle_queries(c, b);
    case CLATTN_ALIGN_OFFSET:
        return i + c->offsets[b];
    default:
        return i;
    }
}

bool oracle_sees(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    const oracle_config *f = &c->config;
    const int64_t p = oracle_position(c, b, i);
    bool seen = i < oracle_queries(c, b) && j < oracle_keys(c, b);
    if (f->causal && p < j && !(c->prefix_lengths && j < c->prefix_lengths[b]))
        seen = false;
    if (f->has_window && f->window_left != CLATTN_UNLIMITED && p - j > f->window_left)
        seen = false;
    if (f->has_window && f->window_right != CLATTN_UNLIMITED && j - p > f->window_right)
        seen = false;
    if (c->query_segments && c->query_segments[b * f->N + i] != c->key_segments[b * f->M + j])
        seen = false;
    if (is_behind(f, f->keep, j) || is_behind(f, f->drop, j) || is_behind(f, f->bias, j))
        seen = false;
    if (f->keep.rank && c->keep[mask_at(f, f->keep, b, h, i, j)] == 0)
        seen = false;
    if (f->drop.rank && c->drop[mask_at(f, f->drop, b, h, i, j)] != 0)
        seen = false;
    return seen;
}

/* Philox4x32-10, by the article's text: rounds of two products, high and low words crossing over. */
static uint32_t random_word(uint64_t key, const uint32_t counter[4], int word) {
    uint32_t x[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t low = (uint32_t)(key & 0xffffffffu), high = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t left = 0xD2511F53ull * x[0], right = 0xCD9E8D57ull * x[2];
        const uint32_t next[4] = {(uint32_t)(right >> 32) ^ x[1] ^ low, (uint32_t)right,
                                  (uint32_t)(left >> 32) ^ x[3] ^ high, (uint32_t)left};
        for (int n = 0; n < 4; n++)
            x[n] = next[n];
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return x[word];
}

double oracle_kept(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    const double p = c->config.dropout;
    const uint32_t counter[4] = {(uint32_t)(j / 4), (uint32_t)i, (uint32_t)h, (uint32_t)b};
    if (p == 0)
        return 1;
    const double word = random_word(c->config.seed + 3 * 0x9E3779B97F4A7C15ull, counter, (int)(j % 4));
    const double all = 4294967296.0, dropped = fmin(floor(p * all + 0.5), all - 1);
    return word < dropped ? 0 : all / (all - dropped);
}
