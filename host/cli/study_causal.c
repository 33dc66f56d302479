/* SPDX-License-Identifier: Apache-2.0 */
/* `causal`: tokens 5, 6 and 7 of 8 are changed. Without a mask every output changes; with the causal mask those before
 * them do not change by a bit. */
#include "args.h"
#include "study_multihead.h"
#include <stdio.h>

enum { N = 8, E = 16, HEADS = 4, FIRST_CHANGED = 5 };
#define SET "s000_causal"

typedef struct pair {
    clattn_array *y[2]; /* of the tokens before and after the change */
} pair;

static int run_pair(cla_study *s, clattn_multihead *multihead, bool causal, pair *p) {
    static const char *const names[] = {SET "/query", SET "/query2"};
    for (int i = 0; i < 2; i++) {
        const clattn_array *x = cla_study_input(s, names[i]);
        p->y[i] = cla_study_new(s, s->dtype, 3, (const int64_t[]){1, N, E});
        if (!x || !p->y[i])
            return CLA_EXIT_FAILED;
        const clattn_multihead_args args = {
            .query = clattn_array_tensor(x), .y = clattn_array_tensor(p->y[i]), .masks.causal = causal};
        const clattn_status status = clattn_multihead_run(multihead, &args);
        if (status != CLATTN_OK)
            return cla_study_fail(s, status);
    }
    return CLA_EXIT_OK;
}

static double change_at(const pair *p, size_t position) {
    return cla_study_part_difference(p->y[0], position * E, p->y[1], position * E, E);
}

static int judge(cla_study *s, const pair *p, bool causal) {
    static const char *const printed[N] = {"0.0", "0.0", "0.0", "0.0", "0.0", "0.41", "0.20", "0.28"};
    const char *kind = causal ? "causal" : "nomask", *const runs[] = {"y", "y2"};
    char name[96];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, SET "/%s_%s", runs[i], kind);
        const clattn_array *stored = cla_study_stored(s, name);
        if (!stored)
            return CLA_EXIT_FAILED;
        snprintf(name, sizeof name, "%s: max |output - stored|, %s", causal ? "causal" : "no mask",
                 i ? "changed" : "before");
        cla_study_figure(s, name, NULL, 0, cla_study_difference(p->y[i], stored), cla_study_bound(s, 1e-14, 5e-6));
    }
    snprintf(name, sizeof name, SET "/diff_%s", kind);
    const clattn_array *changes = cla_study_stored(s, name);
    for (size_t i = 0; changes && i < N; i++) {
        const bool unchanged = causal && i < FIRST_CHANGED;
        snprintf(name, sizeof name, "%s: change at position %zu", causal ? "causal" : "no mask", i);
        cla_study_figure(s, name, causal ? printed[i] : NULL, cla_study_at(changes, i), change_at(p, i),
                         unchanged ? 0 : cla_study_bound(s, 2e-14, 1e-5));
    }
    return changes ? CLA_EXIT_OK : CLA_EXIT_FAILED;
}

int cla_study_causal(cla_study *s) {
    clattn_multihead *multihead;
    int exit_status = cla_study_multihead(s, SET, HEADS, &multihead);
    for (int causal = 0; causal < 2 && exit_status == CLA_EXIT_OK; causal++) {
        pair p = {0};
        exit_status = run_pair(s, multihead, causal != 0, &p);
        if (exit_status == CLA_EXIT_OK)
            exit_status = judge(s, &p, causal != 0);
    }
    clattn_multihead_destroy(multihead);
    return exit_status;
}
