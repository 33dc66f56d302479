/* SPDX-License-Identifier: Apache-2.0 */
#include "run_verify.h"

#include "args.h"
#include <stdio.h>

int cla_verify(const clattn_attention_args *args, int64_t rows, cla_verification *v) {
    const clattn_tensor *const outputs[CLATTN_VERDICTS] = {&args->o, &args->lse, &args->weights, &args->entropy,
                                                           &args->column_sums};
    clattn_tensor exact[CLATTN_VERDICTS] = {{0}};
    clattn_status status = CLATTN_OK;
    *v = (cla_verification){0};
    for (int i = 0; i < CLATTN_VERDICTS && rows == CLATTN_ALL_ROWS && status == CLATTN_OK; i++) {
        if (outputs[i]->rank == 0)
            continue;
        status = clattn_array_create(CLATTN_F64, outputs[i]->rank, outputs[i]->shape, &v->exact[i]);
        exact[i] = clattn_array_tensor(&v->exact[i]);
    }
    if (status == CLATTN_OK)
        status = clattn_verify(args, rows, exact, &v->found);
    v->done = status == CLATTN_OK;
    if (status != CLATTN_OK) {
        cla_verify_free(v);
        return cla_fail_status(status, "verify");
    }
    return CLA_EXIT_OK;
}

static const char *place(const clattn_verdict *d, char *text, size_t size) {
    size_t at = 0;
    for (int i = 0; i < d->rank && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? "," : "[", (long long)d->at[i]);
    if (at < size)
        snprintf(text + at, size - at, "]");
    return text;
}

int cla_verify_report(const cla_verification *v) {
    char text[300];
    if (!v->found.ok)
        return cla_fail(CLA_EXIT_FAILED, "verify: %s", clattn_verification_text(&v->found, text, sizeof text));
    for (int i = 0; i < CLATTN_VERDICTS; i++) {
        const clattn_verdict *d = &v->found.verdicts[i];
        if (d->tensor)
            fprintf(stderr, "verify: ok, %s%smax error %.2g at %s, allowed %.2g; %lld rows\n", i ? d->tensor : "",
                    i ? " " : "", d->error, place(d, text, sizeof text), d->allowed, (long long)v->found.rows);
    }
    return CLA_EXIT_OK;
}

void cla_verify_free(cla_verification *v) {
    for (int i = 0; i < CLATTN_VERDICTS; i++)
        clattn_array_free(&v->exact[i]);
    *v = (cla_verification){0};
}
