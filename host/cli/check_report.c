/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of `clattn check`: a row for each algorithm and op, the reasons of what was skipped, and the last line. */
#include "check_run.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cla_check_print(const char *text) {
    for (; *text; text++)
        putchar((unsigned char)*text < 32 || *text == 127 ? '?' : *text);
}

static char *copy(const char *text) {
    const size_t size = strlen(text) + 1;
    char *new_text = malloc(size);
    return new_text ? memcpy(new_text, text, size) : NULL;
}

static cla_check_count *row(cla_check_report *r, const cla_check_target *target, const char *op) {
    for (size_t i = 0; i < r->count_count; i++)
        if (r->counts[i].target == target && strcmp(r->counts[i].op, op) == 0)
            return &r->counts[i];
    cla_check_count *more = realloc(r->counts, (r->count_count + 1) * sizeof *more);
    if (!more)
        return NULL;
    r->counts = more;
    more[r->count_count] = (cla_check_count){.target = target, .op = copy(op)};
    return more[r->count_count].op ? &more[r->count_count++] : NULL;
}

static cla_check_reason *reason_row(cla_check_report *r, const char *text) {
    for (size_t i = 0; i < r->reason_count; i++)
        if (strcmp(r->reasons[i].text, text) == 0)
            return &r->reasons[i];
    cla_check_reason *more = realloc(r->reasons, (r->reason_count + 1) * sizeof *more);
    if (!more)
        return NULL;
    r->reasons = more;
    more[r->reason_count] = (cla_check_reason){.text = copy(text)};
    return more[r->reason_count].text ? &more[r->reason_count++] : NULL;
}

void cla_check_report_add(cla_check_report *r, const cla_check_target *target, const char *op,
                          cla_check_verdict verdict, const char *reason) {
    r->verdicts[verdict]++;
    cla_check_count *count = row(r, target, op);
    cla_check_reason *why = verdict == CLA_CHECK_SKIPPED ? reason_row(r, reason) : NULL;
    if (count)
        count->verdicts[verdict]++;
    if (why)
        why->count++;
    r->out_of_memory |= !count || (verdict == CLA_CHECK_SKIPPED && !why);
}

/* By target in the order of the command, then by op. */
static int by_row(const void *a, const void *b) {
    const cla_check_count *x = a, *y = b;
    return x->target != y->target ? (x->target < y->target ? -1 : 1) : strcmp(x->op, y->op);
}

static int by_count(const void *a, const void *b) {
    const cla_check_reason *x = a, *y = b;
    return x->count != y->count ? (x->count > y->count ? -1 : 1) : strcmp(x->text, y->text);
}

void cla_check_report_print(const cla_check_report *r) {
    size_t label = strlen("algorithm"), device = strlen("device"), op = strlen("op");
    if (r->count_count > 0)
        qsort(r->counts, r->count_count, sizeof *r->counts, by_row);
    if (r->reason_count > 0)
        qsort(r->reasons, r->reason_count, sizeof *r->reasons, by_count);
    for (size_t i = 0; i < r->count_count; i++) {
        const cla_check_count *x = &r->counts[i];
        label = strlen(x->target->label) > label ? strlen(x->target->label) : label;
        device = strlen(x->target->device) > device ? strlen(x->target->device) : device;
        op = strlen(x->op) > op ? strlen(x->op) : op;
    }
    printf("%-*s  %-*s  %-*s  %7s %7s %7s\n", (int)label, "algorithm", (int)device, "device", (int)op, "op", "passed",
           "failed", "skipped");
    for (size_t i = 0; i < r->count_count; i++) {
        const cla_check_count *x = &r->counts[i];
        printf("%-*s  %-*s  ", (int)label, x->target->label, (int)device, x->target->device);
        cla_check_print(x->op);
        printf("%*s  %7" PRId64 " %7" PRId64 " %7" PRId64 "\n", (int)(op - strlen(x->op)), "",
               x->verdicts[CLA_CHECK_PASSED], x->verdicts[CLA_CHECK_FAILED], x->verdicts[CLA_CHECK_SKIPPED]);
    }
    if (r->reason_count > 0)
        printf("\nskipped because\n");
    for (size_t i = 0; i < r->reason_count; i++) {
        printf("%7" PRId64 "  ", r->reasons[i].count);
        cla_check_print(r->reasons[i].text);
        printf("\n");
    }
    if (r->out_of_memory)
        printf("out of memory: this table is not complete\n");
    printf("%s%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped\n", r->reason_count > 0 ? "\n" : "",
           r->verdicts[CLA_CHECK_PASSED], r->verdicts[CLA_CHECK_FAILED], r->verdicts[CLA_CHECK_SKIPPED]);
}

void cla_check_report_free(cla_check_report *r) {
    for (size_t i = 0; i < r->count_count; i++)
        free(r->counts[i].op);
    for (size_t i = 0; i < r->reason_count; i++)
        free(r->reasons[i].text);
    free(r->counts);
    free(r->reasons);
    *r = (cla_check_report){0};
}
