/* SPDX-License-Identifier: Apache-2.0 */
/* The words that options take: what parses them, and `clattn help --OPTION`, from which completion has them. */
#ifndef CLA_OPTION_VALUES_H
#define CLA_OPTION_VALUES_H

#include <stdbool.h>
#include <stdio.h>

/* NULL-ended. */
extern const char *const cla_align_names[];        /* of clattn_align, from CLATTN_ALIGN_TOP_LEFT on */
extern const char *const cla_weights_form_names[]; /* of clattn_weights_form */
extern const char *const cla_study_type_names[];

/* Prints the values of "--layout", one a line; false when the option takes others than words, or is none. */
bool cla_option_values_print(const char *option, FILE *to);

#endif
