/* SPDX-License-Identifier: Apache-2.0 */
/* Status names and texts, and the thread's message. */
#include "base/error.h"
#include "testing.h"
#include <clattn/version.h>
#include <pthread.h>
#include <stdio.h>

Test(status, every_status_has_a_name_and_a_text_of_its_own) {
#define STATUS(name, value, text) name,
    static const clattn_status all[] = {CLATTN_STATUS_LIST(STATUS)};
#undef STATUS
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        cr_expect_eq((size_t)all[i], i);
        cr_expect_gt(strlen(clattn_status_text(all[i])), 0);
        for (size_t j = 0; j < i; j++) {
            cr_expect_str_neq(clattn_status_name(all[i]), clattn_status_name(all[j]));
            cr_expect_str_neq(clattn_status_text(all[i]), clattn_status_text(all[j]));
        }
    }
    cr_assert_str_eq(clattn_status_name(CLATTN_E_SHAPE), "CLATTN_E_SHAPE");
}

Test(status, a_number_that_is_no_status_still_has_words) {
    cr_assert_str_eq(clattn_status_name((clattn_status)99), "CLATTN_E_?");
    cr_assert_str_eq(clattn_status_name((clattn_status)-1), "CLATTN_E_?");
    cr_assert_gt(strlen(clattn_status_text((clattn_status)1000000)), 0);
}

Test(status, the_message_is_empty_before_the_first_failure) { cr_assert_str_eq(clattn_last_error(), ""); }

Test(status, the_message_holds_the_numbers_and_the_status_comes_back) {
    cr_assert_eq(cla_error(CLATTN_E_SHAPE, "k: head dim %d, but q has %d", 48, 64), CLATTN_E_SHAPE);
    cr_assert_str_eq(clattn_last_error(), "k: head dim 48, but q has 64");
    cla_error_prefix("layer %d: ", 3);
    cr_assert_str_eq(clattn_last_error(), "layer 3: k: head dim 48, but q has 64");
}

Test(status, a_message_may_quote_the_one_before) {
    cla_error(CLATTN_E_IO, "no such file");
    cla_error(CLATTN_E_IO, "mask: %s", clattn_last_error());
    cr_assert_str_eq(clattn_last_error(), "mask: no such file");
}

Test(status, a_message_is_one_line_and_is_cut_when_it_is_too_long) {
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    cla_error(CLATTN_E_BUILD, "first\nsecond\r%s", text);
    cr_assert_eq(strncmp(clattn_last_error(), "first second x", 14), 0);
    cr_assert_lt(strlen(clattn_last_error()), 2000);
    cla_error_prefix("%s", text);
    cr_assert_lt(strlen(clattn_last_error()), 2000);
}

static void *fail_elsewhere(void *seen) {
    strcpy(seen, clattn_last_error());
    cla_error(CLATTN_E_IO, "of the other thread");
    return NULL;
}

Test(status, each_thread_has_its_own_message) {
    char seen[100] = "?";
    pthread_t thread;
    cla_error(CLATTN_E_IO, "of this thread");
    cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, seen), 0);
    pthread_join(thread, NULL);
    cr_assert_str_eq(seen, "");
    cr_assert_str_eq(clattn_last_error(), "of this thread");
}

static clattn_status three_ways(int way) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(way != 1, CLATTN_E_ARGUMENT, "way %d", way);
    CLA_TRY(way == 2 ? CLATTN_E_MEMORY : CLATTN_OK);
    status = CLATTN_E_IO;
done:
    return status;
}

Test(status, check_and_try_jump_with_their_status) {
    cr_assert_eq(three_ways(1), CLATTN_E_ARGUMENT);
    cr_assert_str_eq(clattn_last_error(), "way 1");
    cr_assert_eq(three_ways(2), CLATTN_E_MEMORY);
    cr_assert_eq(three_ways(3), CLATTN_E_IO);
}

Test(status, the_version_is_that_of_the_header) {
    char text[40];
    snprintf(text, sizeof text, "%d.%d.%d", CLATTN_VERSION_MAJOR, CLATTN_VERSION_MINOR, CLATTN_VERSION_PATCH);
    cr_assert_str_eq(clattn_version(), text);
}
