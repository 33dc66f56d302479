/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_profile.h"

#include "call_facts.h"
#include "job.h"
#include "progress.h"
#include "samples.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- measuring ---- */

typedef struct session {
    clattn_context *context, *plain; /* plain: for the peaks, so that its kernels are not in the profile */
    clattn_meter *meter;
    clattn_plan *plan, *backward; /* backward: NULL without one */
    cla_job job;
    double run_ms[CLA_PROFILE_RUNS], gflops[CLA_PROFILE_RUNS], gbytes[CLA_PROFILE_RUNS], near_gbytes[CLA_PROFILE_RUNS];
} session;

#define RETURN_ON_FAILURE(call)                                                                                        \
    do {                                                                                                               \
        const clattn_status status_of_call = (call);                                                                   \
        if (status_of_call != CLATTN_OK)                                                                               \
            return status_of_call;                                                                                     \
    } while (0)

static clattn_status run(session *s) {
    RETURN_ON_FAILURE(clattn_plan_execute(s->plan, NULL));
    if (s->backward)
        RETURN_ON_FAILURE(clattn_backward_plan_execute(s->backward, NULL));
    return clattn_context_sync(s->context);
}

static clattn_status start(session *s, const char *device, const clattn_attention_backward_args *args) {
    const clattn_context_options options = {.profile = true};
    RETURN_ON_FAILURE(clattn_context_create(device, &options, &s->context));
    RETURN_ON_FAILURE(clattn_context_create(device, NULL, &s->plain));
    RETURN_ON_FAILURE(clattn_meter_create(s->plain, &s->meter));
    RETURN_ON_FAILURE(cla_job_open(s->context, args, &s->job));
    RETURN_ON_FAILURE(clattn_plan_create(s->context, &s->job.args.forward, &s->plan));
    if (args->d_o.rank > 0)
        RETURN_ON_FAILURE(clattn_backward_plan_create(s->context, &s->job.args, &s->backward));
    RETURN_ON_FAILURE(run(s));
    clattn_context_profile_reset(s->context);
    return CLATTN_OK;
}

/* A run, and samples of the peaks behind it. */
static clattn_status turn(session *s, int i, uint64_t read_bytes) {
    const double begin = cla_seconds();
    RETURN_ON_FAILURE(run(s));
    s->run_ms[i] = 1e3 * (cla_seconds() - begin);
    RETURN_ON_FAILURE(clattn_meter_fma(s->meter, &s->gflops[i]));
    RETURN_ON_FAILURE(clattn_meter_read(s->meter, 0, &s->gbytes[i]));
    return clattn_meter_read(s->meter, read_bytes, &s->near_gbytes[i]);
}

uint64_t cla_read_bytes(const clattn_context *context, double moved_bytes) {
    clattn_device_info info;
    if (clattn_context_info(context, &info) != CLATTN_OK || moved_bytes < 1)
        return 1;
    return moved_bytes < (double)info.max_alloc_bytes ? (uint64_t)moved_bytes : info.max_alloc_bytes;
}

static double largest(const double *values) {
    double most = 0;
    for (int i = 0; i < CLA_PROFILE_RUNS; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

static clattn_status measure(session *s, const char *device, const clattn_attention_backward_args *args,
                             cla_profile_report *report) {
    clattn_plan_info info, backward = {0};
    RETURN_ON_FAILURE(start(s, device, args));
    RETURN_ON_FAILURE(clattn_plan_info_get(s->plan, &info));
    if (s->backward)
        RETURN_ON_FAILURE(clattn_plan_info_get(s->backward, &backward));
    report->moved_bytes = info.moved_bytes + backward.moved_bytes;
    for (int i = 0; i < CLA_PROFILE_RUNS; i++)
        RETURN_ON_FAILURE(turn(s, i, cla_read_bytes(s->plain, report->moved_bytes)));
    RETURN_ON_FAILURE(clattn_context_profile(s->context, report->entries, CLA_PROFILE_KERNELS, &report->count));
    if (report->count > CLA_PROFILE_KERNELS)
        report->count = CLA_PROFILE_KERNELS;
    snprintf(report->device, sizeof report->device, "%s", device);
    snprintf(report->algorithm, sizeof report->algorithm, "%s", info.algorithm);
    report->is_f64 = cla_sums_type(&args->forward) == CLATTN_F64;
    report->run_ms = cla_median(s->run_ms, CLA_PROFILE_RUNS);
    report->peak_gflops = largest(s->gflops);
    report->peak_gbytes = largest(s->gbytes);
    report->near_gbytes = largest(s->near_gbytes);
    return CLATTN_OK;
}

clattn_status cla_profile_measure(const char *device, const clattn_attention_backward_args *args,
                                  cla_profile_report *report) {
    session s = {0};
    *report = (cla_profile_report){0};
    cla_note_begin(-1, "profiling on", device);
    const clattn_status status = measure(&s, device, args, report);
    cla_note_end();
    clattn_plan_destroy(s.plan);
    clattn_plan_destroy(s.backward);
    cla_job_close(&s.job);
    clattn_meter_destroy(s.meter);
    clattn_context_destroy(s.plain);
    clattn_context_destroy(s.context);
    return status;
}

/* ---- what it means ---- */

static double ms_of(const clattn_profile_entry *e) { return e->total_ms / CLA_PROFILE_RUNS; }

double cla_profile_bound(const cla_profile_report *report, const clattn_profile_entry *entry, bool *by_reading) {
    const double computing = report->is_f64 ? 0 : entry->operations / CLA_PROFILE_RUNS / report->peak_gflops * 1e-6;
    const double reading = entry->moved_bytes / CLA_PROFILE_RUNS / report->near_gbytes * 1e-6;
    *by_reading = reading > computing;
    if (entry->operations <= 0 && entry->moved_bytes <= 0)
        return -1;
    return *by_reading ? reading : computing;
}

static void print_kernel(const cla_profile_report *r, const clattn_profile_entry *e) {
    char gflops[32] = "-", gbytes[32] = "-", bound[48] = "-", share[32] = "-";
    bool by_reading;
    const double ms = ms_of(e), least = cla_profile_bound(r, e, &by_reading);
    if (e->operations > 0 && ms > 0)
        snprintf(gflops, sizeof gflops, "%.1f", e->operations / e->total_ms * 1e-6);
    if (e->moved_bytes > 0 && ms > 0)
        snprintf(gbytes, sizeof gbytes, "%.2f", e->moved_bytes / e->total_ms * 1e-6);
    if (least >= 0)
        snprintf(bound, sizeof bound, "%.3f %s", least, by_reading ? "reading" : "computing");
    if (least >= 0 && ms > 0)
        snprintf(share, sizeof share, "%.0f %%", 100 * least / ms);
    printf("  %-24s %8.4g %10.3f %8.1f %% %9s %8s %17s %9s\n", e->name, (double)e->count / CLA_PROFILE_RUNS, ms,
           r->run_ms > 0 ? 100 * ms / r->run_ms : 0, gflops, gbytes, bound, share);
    if (e->computed_blocks + e->skipped_blocks > 0)
        printf("  %-24s %.0f blocks of keys a run, %.0f more skipped\n", "",
               (double)e->computed_blocks / CLA_PROFILE_RUNS, (double)e->skipped_blocks / CLA_PROFILE_RUNS);
}

void cla_profile_print(const cla_profile_report *report) {
    double kernels = 0;
    for (size_t i = 0; i < report->count; i++)
        kernels += ms_of(&report->entries[i]);
    printf("profile on %s by %s: %d runs, %.3f ms each, of which kernels %.3f\n", report->device, report->algorithm,
           CLA_PROFILE_RUNS, report->run_ms, kernels);
    printf("  %-24s %8s %10s %10s %9s %8s %17s %9s\n", "kernel", "launches", "ms", "of the run", "GFLOP/s", "GB/s",
           "bound, ms", "of bound");
    for (size_t i = 0; i < report->count; i++)
        print_kernel(report, &report->entries[i]);
    printf(
        "  peaks in between: %.1f GFLOP/s of f32 multiply-adds; reads %.1f GB/s of as many bytes (%.3g MiB), %.1f from "
        "memory\n",
        report->peak_gflops, report->near_gbytes, report->moved_bytes / 0x1p20, report->peak_gbytes);
}

/* ---- JSON ---- */

/* Six digits: more are noise. Negative: null. */
static bool add(cJSON *object, const char *name, double value) {
    char digits[32];
    if (value < 0)
        return cJSON_AddNullToObject(object, name) != NULL;
    snprintf(digits, sizeof digits, "%.6g", value);
    return cJSON_AddNumberToObject(object, name, strtod(digits, NULL)) != NULL;
}

static bool add_kernel(cJSON *list, const cla_profile_report *r, const clattn_profile_entry *e) {
    cJSON *o = cJSON_CreateObject();
    bool by_reading;
    const double ms = ms_of(e), least = cla_profile_bound(r, e, &by_reading);
    const bool ok = cJSON_AddStringToObject(o, "kernel", e->name) &&
                    add(o, "launches", (double)e->count / CLA_PROFILE_RUNS) && add(o, "ms", ms) &&
                    add(o, "min_ms", e->min_ms) && add(o, "max_ms", e->max_ms) &&
                    add(o, "operations", e->operations / CLA_PROFILE_RUNS) &&
                    add(o, "moved_bytes", e->moved_bytes / CLA_PROFILE_RUNS) &&
                    add(o, "gflops", ms > 0 && e->operations > 0 ? e->operations / e->total_ms * 1e-6 : -1) &&
                    add(o, "gbytes", ms > 0 && e->moved_bytes > 0 ? e->moved_bytes / e->total_ms * 1e-6 : -1) &&
                    add(o, "bound_ms", least) && add(o, "share", least >= 0 && ms > 0 ? least / ms : -1) &&
                    add(o, "computed_blocks", (double)e->computed_blocks / CLA_PROFILE_RUNS) &&
                    add(o, "skipped_blocks", (double)e->skipped_blocks / CLA_PROFILE_RUNS);
    if (ok && cJSON_AddItemToArray(list, o))
        return true;
    cJSON_Delete(o);
    return false;
}

cJSON *cla_profile_json(const cla_profile_report *report) {
    cJSON *o = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(o, "device", report->device) &&
              cJSON_AddStringToObject(o, "algorithm", report->algorithm) && add(o, "runs", CLA_PROFILE_RUNS) &&
              add(o, "run_ms", report->run_ms) && add(o, "peak_gflops", report->peak_gflops) &&
              add(o, "peak_gbytes", report->peak_gbytes) && add(o, "near_gbytes", report->near_gbytes) &&
              add(o, "moved_bytes", report->moved_bytes);
    cJSON *kernels = ok ? cJSON_AddArrayToObject(o, "kernels") : NULL;
    ok = kernels != NULL;
    for (size_t i = 0; ok && i < report->count; i++)
        ok = add_kernel(kernels, report, &report->entries[i]);
    if (ok)
        return o;
    cJSON_Delete(o);
    return NULL;
}
