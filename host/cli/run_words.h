/* SPDX-License-Identifier: Apache-2.0 */
/* The library's texts in the words of `clattn run`: what it calls by the name of a field, the user gave as an option
 * or as a file. */
#ifndef CLA_RUN_WORDS_H
#define CLA_RUN_WORDS_H

#include "run_options.h"

/* Writes a text of the library into out, with options in the place of fields and, at the first time that a tensor is
 * named, its file; returns out. A name without an option stays. */
const char *cla_run_words(const cla_run_options *o, const char *text, char *out, size_t size);
/* cla_fail_status in these words. */
int cla_run_fail(const cla_run_options *o, clattn_status status, const char *what);

#endif
