/* SPDX-License-Identifier: Apache-2.0 */
/* The problem grammar: what parses is printed as a text that parses to the same problem. */
#include "fuzz.h"
#include "problem_text.h"

static void check_same(const cla_problem_text *a, const cla_problem_text *b, const char *text) {
    FUZZ_CHECK(a->batch == b->batch && a->heads == b->heads && a->key_heads == b->key_heads, "%s", text);
    FUZZ_CHECK(a->queries == b->queries && a->keys == b->keys && a->dim == b->dim && a->value_dim == b->value_dim, "%s",
               text);
    FUZZ_CHECK(a->dtype == b->dtype && a->k_dtype == b->k_dtype && a->v_dtype == b->v_dtype && a->o_dtype == b->o_dtype,
               "%s", text);
    FUZZ_CHECK(a->causal == b->causal && a->align == b->align && a->offset == b->offset, "%s", text);
    FUZZ_CHECK(a->has_window == b->has_window && a->window_left == b->window_left && a->window_right == b->window_right,
               "%s", text);
    FUZZ_CHECK(a->softcap == b->softcap && a->has_scale == b->has_scale && a->scale == b->scale, "%s", text);
    FUZZ_CHECK(a->prefix == b->prefix && a->alibi == b->alibi && a->keep == b->keep && a->bias == b->bias, "%s", text);
    FUZZ_CHECK(a->sinks == b->sinks && a->lengths == b->lengths && a->query_lengths == b->query_lengths, "%s", text);
    FUZZ_CHECK(a->segments == b->segments && a->varlen == b->varlen && a->invariant == b->invariant, "%s", text);
    FUZZ_CHECK(a->page_size == b->page_size, "%s", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1), error[400] = "", little[8], canonical[CLA_PROBLEM_TEXT_MAX + 100],
         again[CLA_PROBLEM_TEXT_MAX];
    cla_problem_text problem, second;
    FUZZ_CHECK(text, "out of memory");
    memcpy(text, data, size);
    text[size] = '\0';
    const bool ok = cla_problem_text_parse(text, &problem, error, sizeof error);
    FUZZ_CHECK(cla_problem_text_parse(text, &second, little, sizeof little) == ok, "%s", text);
    if (ok) {
        cla_problem_text_print(&problem, canonical, sizeof canonical);
        FUZZ_CHECK(strlen(canonical) < CLA_PROBLEM_TEXT_MAX, "%zu bytes: %s", strlen(canonical), canonical);
        FUZZ_CHECK(cla_problem_text_parse(canonical, &second, error, sizeof error), "%s", error);
        check_same(&problem, &second, canonical);
        cla_problem_text_print(&second, again, sizeof again);
        FUZZ_CHECK(strcmp(canonical, again) == 0, "%s, then %s", canonical, again);
        cla_problem_text_print(&problem, little, sizeof little);
        FUZZ_CHECK(strncmp(little, canonical, sizeof little - 1) == 0, "%s", little);
    } else {
        FUZZ_CHECK(strncmp(error, "problem \"", 9) == 0 && strlen(error) > strlen("problem \"\": "), "%s: %s", text,
                   error);
    }
    free(text);
    return 0;
}
