/* SPDX-License-Identifier: Apache-2.0 */
#include "train_data.h"

#include <stdlib.h>
#include <string.h>

/* Source  Steele et al. 2014, SplitMix64: number n of the stream that begins at `key`. */
static uint64_t number(uint64_t key, uint64_t n) {
    uint64_t z = key + (n + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Every eighth, whatever the seed is: what one run may train, a run that continues it may. */
static bool is_held_out(const int32_t *digits, int64_t count) {
    uint64_t hash = 0;
    for (int64_t i = 0; i < count; i++)
        hash = number(hash, (uint64_t)digits[i]);
    return hash % 8 == 0;
}

static int ascending(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

void train_sequence(const settings *s, bool unseen, uint64_t n, int32_t *tokens, int32_t *answer) {
    const int64_t L = s->length;
    const uint64_t key = number(number((uint64_t)s->seed, unseen), n);
    uint64_t drawn = 0;
    do
        for (int64_t i = 0; i < L; i++)
            tokens[i] = (int32_t)(number(key, drawn++) % DIGITS);
    while (is_held_out(tokens, L) != unseen);
    for (int64_t i = 0; i < L; i++)
        answer[i] = tokens[L - 1 - i];
    if (s->task == TASK_SORT)
        qsort(answer, (size_t)L, sizeof *answer, ascending);
    tokens[L] = SEPARATOR;
    memcpy(tokens + L + 1, answer, (size_t)(L - 1) * sizeof *tokens);
}
