/* SPDX-License-Identifier: Apache-2.0 */
#include "option_values.h"

#include "problem_text.h"
#include "tensors.h"
#include <clattn/attention.h>
#include <string.h>

const char *const cla_align_names[] = {"top-left", "bottom-right", NULL};
const char *const cla_weights_form_names[] = {"softmax", "scaled", "capped", "masked", NULL};
const char *const cla_study_type_names[] = {"f64", "f32", NULL};

static bool print_algorithms(FILE *to) {
    for (size_t i = 0; i < clattn_algorithm_count(); i++)
        fprintf(to, "%s\n", clattn_algorithm_name(i));
    fputs("all\n", to);
    return true;
}

static bool print_types(size_t count, FILE *to) {
    for (size_t i = 0; i < count; i++)
        fprintf(to, "%s\n", clattn_dtype_name(cla_real_types[i]));
    return true;
}

bool cla_option_values_print(const char *option, FILE *to) {
    const struct {
        const char *option;
        const char *const *names;
    } lists[] = {{"--layout", cla_layout_names + 1},
                 {"--causal", cla_align_names},
                 {"--align", cla_align_names},
                 {"--weights-form", cla_weights_form_names},
                 {"--type", cla_study_type_names}};
    if (strcmp(option, "--kv-type") == 0 || strcmp(option, "--o-type") == 0)
        return print_types(option[2] == 'k' ? 6 : 4, to);
    if (strcmp(option, "--algorithm") == 0 || strcmp(option, "--algorithms") == 0)
        return print_algorithms(to);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (strcmp(option, lists[i].option) == 0) {
            for (const char *const *name = lists[i].names; *name; name++)
                fprintf(to, "%s\n", *name);
            return true;
        }
    return false;
}
