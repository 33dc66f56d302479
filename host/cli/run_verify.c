/* SPDX-License-Identifier: Apache-2.0 */
#include "run_verify.h"

#include "args.h"
#include <math.h>
#include <stdio.h>

cla_odd_results cla_odd_results_of(const clattn_array *o) {
    enum { CHUNK = 1024 };
    cla_odd_results odd = {.count = 1};
    double x[CHUNK];
    for (int i = 0; i < o->rank; i++)
        odd.count *= o->shape[i];
    const size_t size = odd.count > 0 ? o->bytes / (size_t)odd.count : 0;
    for (int64_t at = 0; at < odd.count; at += CHUNK) {
        const size_t n = (size_t)(odd.count - at < CHUNK ? odd.count - at : CHUNK);
        if (clattn_convert(x, CLATTN_F64, (const char *)o->data + (size_t)at * size, o->dtype, n) != CLATTN_OK)
            break;
        for (size_t i = 0; i < n; i++) {
            odd.nan += isnan(x[i]) != 0;
            odd.infinite += isinf(x[i]) != 0;
        }
    }
    return odd;
}

int cla_verify(const clattn_attention_args *args, const clattn_array *o, int64_t rows, cla_verification *v) {
    const clattn_tensor *const outputs[CLATTN_VERDICTS] = {&args->o, &args->lse, &args->weights, &args->entropy,
                                                           &args->column_sums};
    clattn_tensor exact[CLATTN_VERDICTS] = {{0}};
    clattn_status status = CLATTN_OK;
    *v = (cla_verification){.odd = cla_odd_results_of(o)};
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

static void print_odd(const cla_odd_results *odd) {
    if (odd->nan > 0)
        fprintf(stderr, "; %lld of %lld results are NaN", (long long)odd->nan, (long long)odd->count);
    if (odd->infinite > 0)
        fprintf(stderr, "; %lld of %lld results are infinite", (long long)odd->infinite, (long long)odd->count);
}

int cla_verify_report(const cla_verification *v) {
    char text[300];
    if (!v->found.ok)
        return cla_fail(CLA_EXIT_FAILED, "verify: %s", clattn_verification_text(&v->found, text, sizeof text));
    for (int i = 0; i < CLATTN_VERDICTS; i++) {
        const clattn_verdict *d = &v->found.verdicts[i];
        if (!d->tensor)
            continue;
        fprintf(stderr, "verify: ok, %s%smax error %.2g at %s, allowed %.2g; %lld rows", i ? d->tensor : "",
                i ? " " : "", d->error, place(d, text, sizeof text), d->allowed, (long long)v->found.rows);
        if (i == 0)
            print_odd(&v->odd);
        fputc('\n', stderr);
    }
    return CLA_EXIT_OK;
}

void cla_verify_free(cla_verification *v) {
    for (int i = 0; i < CLATTN_VERDICTS; i++)
        clattn_array_free(&v->exact[i]);
    *v = (cla_verification){0};
}
