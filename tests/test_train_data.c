/* SPDX-License-Identifier: Apache-2.0 */
/* What examples/train trains with: sequences and answers by number, and those that are never trained. */
#include "testing.h"
#include "train_data.h"

#include <criterion/criterion.h>

enum { L = 3, SEQUENCES = 1000, DRAWN = 8000 };

static settings make(int64_t task, int64_t seed) {
    settings s = settings_default;
    s.task = task, s.length = L, s.seed = seed;
    return s;
}

Test(train_data, answers_are_reversed_or_sorted) {
    const settings reverse = make(TASK_REVERSE, 1), sort = make(TASK_SORT, 1);
    int32_t tokens[2 * L], answer[L], same[2 * L], sorted[L];
    for (uint64_t n = 0; n < 200; n++) {
        train_sequence(&reverse, false, n, tokens, answer);
        train_sequence(&sort, false, n, same, sorted);
        cr_expect_eq(tokens[L], SEPARATOR);
        cr_expect_arr_eq(tokens, same, L * sizeof *tokens);
        cr_expect_arr_eq(tokens + L + 1, answer, (L - 1) * sizeof *tokens);
        cr_expect_arr_eq(same + L + 1, sorted, (L - 1) * sizeof *tokens);
        int counts[DIGITS] = {0};
        for (int i = 0; i < L; i++) {
            cr_expect(tokens[i] >= 0 && tokens[i] < DIGITS);
            cr_expect_eq(answer[i], tokens[L - 1 - i]);
            counts[tokens[i]]++, counts[sorted[i]]--;
            cr_expect(i == 0 || sorted[i - 1] <= sorted[i]);
        }
        for (int digit = 0; digit < DIGITS; digit++)
            cr_expect_eq(counts[digit], 0);
    }
}

/* Of all 1000 sequences each is of one kind, whatever the seeds are; draws find nearly all of them. */
Test(train_data, unseen_sequences_are_never_trained) {
    static bool found[2][SEQUENCES];
    int32_t tokens[2 * L], answer[L];
    int counts[2] = {0};
    for (int unseen = 0; unseen < 2; unseen++)
        for (uint64_t n = 0; n < DRAWN; n++) {
            const settings s = make(TASK_SORT, n % 2 ? 7 : 8);
            train_sequence(&s, unseen == 1, n, tokens, answer);
            found[unseen][100 * tokens[0] + 10 * tokens[1] + tokens[2]] = true;
        }
    for (int i = 0; i < SEQUENCES; i++) {
        cr_expect(!found[0][i] || !found[1][i], "%03d is trained and unseen", i);
        counts[0] += found[0][i], counts[1] += found[1][i];
    }
    cr_expect(counts[0] + counts[1] > SEQUENCES - 5, "%d + %d are found", counts[0], counts[1]);
    cr_expect(counts[1] > 90 && counts[1] < 160, "%d are unseen", counts[1]);
}

Test(train_data, sequences_follow_from_seed_and_number) {
    const settings s = make(TASK_REVERSE, 3), other = make(TASK_REVERSE, 4);
    int32_t a[2 * L], b[2 * L], answer[L];
    int same_seed = 0, same_number = 0;
    for (uint64_t n = 0; n < 300; n++) {
        train_sequence(&s, false, n, a, answer);
        train_sequence(&s, false, n, b, answer);
        cr_expect_arr_eq(a, b, sizeof a);
        train_sequence(&other, false, n, b, answer);
        same_seed += memcmp(a, b, sizeof a) == 0;
        train_sequence(&s, false, n + 1, b, answer);
        same_number += memcmp(a, b, sizeof a) == 0;
    }
    cr_expect(same_seed < 10 && same_number < 10, "%d and %d of 300 are the same", same_seed, same_number);
}

Test(train_data, settings_come_back_from_their_texts) {
    settings s = settings_default, back = settings_default;
    char text[SETTING_TEXT];
    size_t i = 0;
    s.task = TASK_SORT, s.length = 64, s.layers = 1, s.width = 4096, s.heads = 2, s.batch = 3, s.warmup = 7,
    s.decay = 9;
    s.seed = INT64_C(1) << 53, s.rate = 0.1;
    for (; settings_name(i); i++) {
        settings_text(&s, i, text);
        cr_expect(settings_set(&back, i, text, "test"));
    }
    cr_expect_eq(i, SETTINGS);
    cr_expect_eq(back.task, s.task);
    cr_expect_eq(back.length, s.length);
    cr_expect_eq(back.layers, s.layers);
    cr_expect_eq(back.width, s.width);
    cr_expect_eq(back.heads, s.heads);
    cr_expect_eq(back.batch, s.batch);
    cr_expect_eq(back.warmup, s.warmup);
    cr_expect_eq(back.decay, s.decay);
    cr_expect_eq(back.seed, s.seed);
    cr_expect(back.rate == s.rate);
    cr_expect(settings_find("heads", &i) && !settings_find("head", &i));
}
