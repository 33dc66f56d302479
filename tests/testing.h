/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses with their messages, for the tests. */
#ifndef TESTING_H
#define TESTING_H

#include <clattn/status.h>
#include <criterion/criterion.h>
#include <string.h>

#define SUCCEEDS(call)                                                                                                 \
    do {                                                                                                               \
        const clattn_status got_ = (call);                                                                             \
        cr_assert_eq(got_, CLATTN_OK, "%s gave %s: %s", #call, clattn_status_name(got_), clattn_last_error());         \
    } while (0)

/* The status, and a part of the one-line message. */
#define FAILS(call, code, part)                                                                                        \
    do {                                                                                                               \
        const clattn_status got_ = (call);                                                                             \
        cr_expect_eq(got_, (code), "%s gave %s: %s", #call, clattn_status_name(got_),                                  \
                     got_ ? clattn_last_error() : "");                                                                 \
        cr_expect(strstr(clattn_last_error(), (part)), "no \"%s\" in: %s", (part), clattn_last_error());               \
        cr_expect_null(strchr(clattn_last_error(), '\n'));                                                             \
    } while (0)

#endif
