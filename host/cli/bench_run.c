/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include "bench_run.h"
#include "bench_call.h"
#include "interrupt.h"
#include "progress.h"
#include "samples.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UNASKED_OPERATIONS 2e8 /* `reference` is only run unasked below this */
#define QUICK_SECONDS 0.5      /* what an entry may take for repeats beyond the seventh */
#define QUICK_REPEATS 25
#define DEFAULT_REPEATS 7

/* An entry while it is measured. */
typedef struct lane {
    cla_bench_entry *entry;
    clattn_context *context;
    clattn_plan *plan, *backward;             /* backward: NULL without one */
    clattn_attention_backward_args host_args; /* on host arrays, for the time with transfers */
    double run_seconds, forward_seconds;      /* of the last run: all of it, its forward pass */
    int runs_wanted, runs, calls_wanted, calls;
    double *run_ms, *forward_ms, *backward_ms, *call_ms; /* samples */
} lane;

cla_bench_entry *cla_bench_entry_at(const cla_bench *bench, size_t problem, size_t device, size_t algorithm) {
    return &bench->entries[(problem * bench->device_count + device) * bench->algorithm_count + algorithm];
}

const cla_bench_entry *cla_bench_baseline(const cla_bench *bench, size_t problem) {
    for (size_t i = 0; i < bench->device_count; i++)
        for (size_t j = 0; j < bench->algorithm_count && !bench->devices[i].info.is_opencl; j++) {
            const cla_bench_entry *e = cla_bench_entry_at(bench, problem, i, j);
            if (e->state == CLA_BENCH_MEASURED)
                return e;
        }
    return NULL;
}

static bool note(cla_bench_entry *e, cla_bench_state state, const char *text) {
    e->state = state;
    snprintf(e->note, sizeof e->note, "%s", text);
    return false;
}

/* ---- single runs ---- */

/* Sets run_seconds and forward_seconds. */
static bool run_once(lane *l) {
    const double start = cla_seconds();
    bool ok = clattn_plan_execute(l->plan, NULL) == CLATTN_OK && clattn_context_sync(l->context) == CLATTN_OK;
    l->forward_seconds = cla_seconds() - start;
    if (l->backward)
        ok = ok && clattn_backward_plan_execute(l->backward, NULL) == CLATTN_OK &&
             clattn_context_sync(l->context) == CLATTN_OK;
    l->run_seconds = cla_seconds() - start;
    return ok || note(l->entry, CLA_BENCH_FAILED, clattn_last_error());
}

static void add_sample(lane *l) {
    l->run_ms[l->runs] = 1e3 * l->run_seconds;
    l->forward_ms[l->runs] = 1e3 * l->forward_seconds;
    l->backward_ms[l->runs++] = 1e3 * (l->run_seconds - l->forward_seconds);
}

static bool call_once(lane *l, double *seconds) {
    const double start = cla_seconds();
    const bool ok = clattn_attention(l->context, &l->host_args.forward) == CLATTN_OK &&
                    (!l->backward || clattn_attention_backward(l->context, &l->host_args) == CLATTN_OK);
    *seconds = cla_seconds() - start;
    return ok || note(l->entry, CLA_BENCH_FAILED, clattn_last_error());
}

/* Worker threads of OpenMP spin for a moment behind their last work; they must not take part in the next timing. */
static void pause_between(void) {
    const struct timespec moment = {.tv_nsec = 3000000};
    nanosleep(&moment, NULL);
}

static bool make_plans(lane *l, const cla_bench_place *p, bool backward) {
    clattn_attention_backward_args args = p->args;
    cla_bench_call_choose(&args, l->entry->algorithm);
    return clattn_plan_create(l->context, &args.forward, &l->plan) == CLATTN_OK &&
           (!backward || clattn_backward_plan_create(l->context, &args, &l->backward) == CLATTN_OK);
}

static bool count(lane *l) {
    cla_bench_entry *e = l->entry;
    clattn_plan_info forward, backward = {0};
    if (clattn_plan_info_get(l->plan, &forward) != CLATTN_OK ||
        (l->backward && clattn_plan_info_get(l->backward, &backward) != CLATTN_OK))
        return note(e, CLA_BENCH_FAILED, clattn_last_error());
    e->forward_operations = forward.operations;
    e->operations = forward.operations + backward.operations;
    e->moved_bytes = forward.moved_bytes + backward.moved_bytes;
    return true;
}

/* Plans and first run, timed together, and the memory they took beside what other plans hold. */
static bool first_run(lane *l, const cla_bench_place *p, const cla_bench_call *call) {
    cla_bench_entry *e = l->entry;
    uint64_t before, current, peak;
    if (!cla_bench_place_spoil(p, call))
        return note(e, CLA_BENCH_FAILED, clattn_last_error());
    clattn_context_memory_reset(l->context);
    clattn_context_memory(l->context, &before, &peak);
    pause_between();
    const double start = cla_seconds();
    if (!make_plans(l, p, call->backward))
        return note(e, CLA_BENCH_FAILED, clattn_last_error());
    if (!run_once(l))
        return false;
    e->cold_ms = 1e3 * (cla_seconds() - start);
    clattn_context_save_programs(l->context); /* drivers may compile for it, in a sample if it came later */
    clattn_context_memory(l->context, &current, &peak);
    e->peak_bytes = p->bytes + (peak > before ? peak - before : 0);
    return count(l);
}

static bool agrees(const lane *l, const cla_bench_place *p, cla_bench_agreement *first) {
    char text[256];
    return cla_bench_agrees(p, clattn_algorithm_name(l->entry->algorithm), first, text, sizeof text) ||
           note(l->entry, CLA_BENCH_FAILED, text);
}

/* ---- one entry, up to where its turns begin ---- */

/* Multiplications and additions without masks; sizes the work before a plan can tell. */
static double plain_operations(const cla_problem_text *t) {
    return 2.0 * (double)t->batch * (double)t->heads * (double)t->queries * (double)t->keys *
           (double)(t->dim + t->value_dim);
}

/* Seconds that a run will take, from the last smaller size of the same family; 0: not known. */
static double predicted(const cla_bench *bench, const cla_bench_entry *e) {
    for (const cla_bench_entry *f = e; f-- != bench->entries;) {
        if (f->device != e->device || f->algorithm != e->algorithm ||
            strcmp(f->problem->family, e->problem->family) != 0)
            continue;
        if (f->state == CLA_BENCH_CUT)
            return f->median_ms * 1e-3; /* the prediction that cut it */
        if (f->state == CLA_BENCH_MEASURED && f->problem->size < e->problem->size)
            return 1e-3 * f->median_ms * plain_operations(&e->problem->problem) /
                   plain_operations(&f->problem->problem);
    }
    return 0;
}

/* Whether it is to be run at all. */
static bool admitted(const cla_bench *bench, const cla_bench_entry *e) {
    return bench->algorithms_given || strcmp(clattn_algorithm_name(e->algorithm), "reference") != 0 ||
           plain_operations(&e->problem->problem) <= UNASKED_OPERATIONS;
}

static bool applies(lane *l, const cla_bench_place *p, const cla_bench_call *call) {
    bool yes = false;
    const char *reason = NULL;
    if (cla_bench_call_applies(l->context, call, &p->args, l->entry->algorithm, &yes, &reason) != CLATTN_OK)
        return note(l->entry, CLA_BENCH_FAILED, clattn_last_error());
    return yes || note(l->entry, CLA_BENCH_REFUSED, reason ? reason : "does not apply");
}

/* Whether three runs are too many. */
static bool is_slow(const cla_bench *bench, const lane *l) { return 3 * l->run_seconds > bench->limit_seconds; }

/* The second run says how long one takes: the first has builds in it, and so is no sample. A long one is a sample
 * already. */
static bool second_run(const cla_bench *bench, lane *l) {
    double call;
    if (cla_interrupted())
        return note(l->entry, CLA_BENCH_CUT, "interrupted behind its first run, which may have builds in it");
    if (!run_once(l))
        return false;
    if (is_slow(bench, l))
        add_sample(l);
    return is_slow(bench, l) || call_once(l, &call);
}

static void plan_turns(const cla_bench *bench, lane *l) {
    const double limit = bench->limit_seconds, each = l->run_seconds > 1e-7 ? l->run_seconds : 1e-7;
    const double fitting = floor(limit / each), quick = floor(QUICK_SECONDS / each);
    int wanted = bench->repeats ? bench->repeats : DEFAULT_REPEATS;
    if (!bench->repeats && quick > wanted)
        wanted = quick < QUICK_REPEATS ? (int)quick : QUICK_REPEATS;
    l->runs_wanted = fitting < wanted ? (fitting < 1 ? 1 : (int)fitting) : wanted;
    l->calls_wanted = is_slow(bench, l) ? 0 : l->runs_wanted < 5 ? l->runs_wanted : 5;
    if (l->runs_wanted < wanted)
        snprintf(l->entry->note, sizeof l->entry->note, "%d of %d repeats%s, by the limit of %g s", l->runs_wanted,
                 wanted, l->calls_wanted ? "" : " and no transfers", limit);
}

static bool start(const cla_bench *bench, lane *l, const cla_bench_place *p, const cla_bench_call *call,
                  cla_bench_agreement *first) {
    cla_bench_entry *e = l->entry;
    const double expected = predicted(bench, e);
    e->left_out = !admitted(bench, e);
    if (e->left_out || !applies(l, p, call))
        return false;
    if (expected > bench->limit_seconds) {
        snprintf(e->note, sizeof e->note, "a run would take about %.0f s, the limit is %g s", expected,
                 bench->limit_seconds);
        e->state = CLA_BENCH_CUT;
        e->median_ms = 1e3 * expected;
        return false;
    }
    l->run_ms = calloc((size_t)4 * CLA_BENCH_REPEATS_MAX, sizeof *l->run_ms);
    if (!l->run_ms)
        return note(e, CLA_BENCH_FAILED, "out of memory");
    l->forward_ms = l->run_ms + CLA_BENCH_REPEATS_MAX;
    l->backward_ms = l->forward_ms + CLA_BENCH_REPEATS_MAX;
    l->call_ms = l->backward_ms + CLA_BENCH_REPEATS_MAX;
    cla_note_begin(-1, "first run of", clattn_algorithm_name(e->algorithm));
    const bool ok = first_run(l, p, call) && agrees(l, p, first) && second_run(bench, l);
    cla_note_end();
    if (ok)
        plan_turns(bench, l);
    return ok;
}

/* ---- turns ---- */

static double mean(const double *values, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

/* One timed run, or one timed call. Both come behind another algorithm's, so that caches are as cold for either. */
static bool take_turn(lane *l, bool call) {
    double seconds;
    pause_between();
    if (call ? !call_once(l, &seconds) : !run_once(l))
        return false;
    if (call)
        l->call_ms[l->calls++] = 1e3 * seconds;
    else
        add_sample(l);
    return true;
}

static bool wants_turn(const lane *l, bool call) {
    return l->plan && l->entry->state != CLA_BENCH_FAILED &&
           (call ? l->calls < l->calls_wanted : l->runs < l->runs_wanted);
}

/* A sample of the peaks of each device, beside those of its entries. */
static void sample_peaks(cla_bench *bench, const lane *lanes, size_t count) {
    for (size_t d = 0; d < bench->device_count; d++) {
        cla_bench_device *device = &bench->devices[d];
        double moved_bytes = 0, *gflops = &device->gflops[device->samples], *gbytes = &device->gbytes[device->samples];
        for (size_t i = 0; i < count; i++)
            if (lanes[i].plan && lanes[i].entry->device == device)
                moved_bytes = lanes[i].entry->moved_bytes;
        if (!device->meter || moved_bytes < 1 || device->samples == CLA_BENCH_SAMPLES_MAX)
            continue;
        pause_between();
        if (clattn_meter_fma(device->meter, gflops) == CLATTN_OK &&
            clattn_meter_read(device->meter, cla_read_bytes(device->context, moved_bytes), gbytes) == CLATTN_OK)
            device->samples++;
    }
}

/* Of kernels that ran for the first time since then: those of calls on host arrays, and of the meter. */
static void save_programs(const cla_bench *bench) {
    for (size_t d = 0; d < bench->device_count; d++)
        clattn_context_save_programs(bench->devices[d].context); /* what fails there fails in a sample too */
}

static void take_turns(cla_bench *bench, lane *lanes, size_t count) {
    cla_progress progress = cla_progress_begin("bench");
    int64_t done = 0, total = 0;
    for (size_t i = 0; i < count; i++)
        total += lanes[i].runs_wanted + lanes[i].calls_wanted;
    save_programs(bench);
    for (bool more = true; more && !cla_interrupted();) {
        more = false;
        for (size_t i = 0; i < 2 * count; i++) { /* runs of all, then calls of all */
            lane *l = &lanes[i % count];
            if (!wants_turn(l, i >= count) || cla_interrupted())
                continue;
            cla_progress_step(&progress, done++, total);
            more |= take_turn(l, i >= count);
        }
        sample_peaks(bench, lanes, count);
        save_programs(bench);
    }
    cla_progress_end(&progress);
}

/* The run before the turns counts where these did not come to it. */
static void note_interrupt(lane *l) {
    if (l->plan && l->entry->state != CLA_BENCH_FAILED && l->runs == 0 && l->runs_wanted > 0)
        add_sample(l);
    if (l->runs < l->runs_wanted)
        snprintf(l->entry->note, sizeof l->entry->note, "interrupted: %d of %d repeats", l->runs, l->runs_wanted);
}

static void finish(lane *l) {
    cla_bench_entry *e = l->entry;
    if (cla_interrupted())
        note_interrupt(l);
    if (l->plan && e->state != CLA_BENCH_FAILED && l->runs > 0) {
        e->state = CLA_BENCH_MEASURED;
        e->repeats = l->runs;
        e->median_ms = cla_median(l->run_ms, l->runs);
        e->mean_ms = mean(l->run_ms, l->runs);
        e->spread = cla_spread(l->run_ms, l->runs);
        e->min_ms = l->run_ms[0];
        e->max_ms = l->run_ms[l->runs - 1];
        e->forward_ms = l->backward ? cla_median(l->forward_ms, l->runs) : 0;
        e->backward_ms = l->backward ? cla_median(l->backward_ms, l->runs) : 0;
        e->transfers_ms = l->calls > 0 ? cla_median(l->call_ms, l->calls) : -1;
        e->gflops = e->median_ms > 0 ? e->operations / e->median_ms * 1e-6 : 0;
    }
    clattn_plan_destroy(l->plan);
    clattn_plan_destroy(l->backward);
    free(l->run_ms);
}

/* ---- peaks and profiles ---- */

static void take_peaks(cla_bench *bench, size_t problem, size_t d) {
    cla_bench_device *device = &bench->devices[d];
    double gflops = 0, gbytes = 0;
    for (int i = 0; i < device->samples; i++) {
        gflops = fmax(gflops, device->gflops[i]);
        gbytes = fmax(gbytes, device->gbytes[i]);
    }
    for (size_t a = 0; a < bench->algorithm_count; a++) {
        cla_bench_entry *e = cla_bench_entry_at(bench, problem, d, a);
        e->peak_gflops = gflops;
        e->peak_gbytes = gbytes;
    }
}

double cla_bench_share(const cla_bench_entry *entry) {
    const cla_problem_text *t = &entry->problem->problem;
    const bool is_f64 =
        t->dtype == CLATTN_F64 || t->k_dtype == CLATTN_F64 || t->v_dtype == CLATTN_F64 || t->o_dtype == CLATTN_F64;
    if (entry->peak_gflops <= 0 || entry->median_ms <= 0)
        return 0;
    const double computing = is_f64 ? 0 : entry->operations / entry->peak_gflops * 1e-6;
    return fmax(computing, entry->moved_bytes / entry->peak_gbytes * 1e-6) / entry->median_ms;
}

/* false: out of host memory. What cannot be profiled says so in its note. */
static bool profile(cla_bench_entry *e, const clattn_attention_backward_args *host_args) {
    if (!e || e->state != CLA_BENCH_MEASURED || !e->device->info.is_opencl || cla_interrupted())
        return true;
    e->profile = calloc(1, sizeof *e->profile);
    if (e->profile && cla_profile_measure(e->device->info.spec, host_args, e->profile) != CLATTN_OK)
        return !note(e, CLA_BENCH_FAILED, clattn_last_error());
    if (e->profile)
        e->profile->title = e->problem->text;
    return e->profile != NULL;
}

/* Everything of one problem. */
typedef struct session {
    cla_bench_call call;
    cla_bench_place places[CLA_BENCH_DEVICES_MAX];
    lane *lanes;
    size_t lane_count;
    cla_bench_agreement first;
} session;

static void start_lane(cla_bench *bench, session *s, size_t problem, size_t i, bool fits) {
    const size_t d = i / bench->algorithm_count;
    lane *l = &s->lanes[i];
    l->entry = cla_bench_entry_at(bench, problem, d, i % bench->algorithm_count);
    l->entry->transfers_ms = -1;
    l->context = bench->devices[d].context;
    l->host_args = s->call.args;
    cla_bench_call_choose(&l->host_args, l->entry->algorithm);
    if (!fits && admitted(bench, l->entry))
        note(l->entry, CLA_BENCH_FAILED, clattn_last_error());
    else if (fits && !cla_interrupted())
        start(bench, l, &s->places[d], &s->call, &s->first);
}

bool cla_bench_run(cla_bench *bench, size_t problem) {
    session s = {.lane_count = bench->device_count * bench->algorithm_count};
    bool ok = cla_bench_call_create(&bench->problems[problem].problem, bench->backward, &s.call);
    s.lanes = ok ? calloc(s.lane_count, sizeof *s.lanes) : NULL;
    ok = ok && s.lanes;
    for (size_t d = 0; ok && d < bench->device_count; d++) {
        bench->devices[d].samples = 0;
        const bool fits = cla_bench_place_create(bench->devices[d].context, &s.call, &s.places[d]);
        for (size_t a = 0; a < bench->algorithm_count; a++)
            start_lane(bench, &s, problem, d * bench->algorithm_count + a, fits);
    }
    if (ok)
        take_turns(bench, s.lanes, s.lane_count);
    for (size_t i = 0; ok && i < s.lane_count; i++)
        finish(&s.lanes[i]);
    for (size_t d = 0; ok && d < bench->device_count; d++)
        take_peaks(bench, problem, d);
    for (size_t i = 0; ok && bench->profile && i < s.lane_count; i++)
        ok = profile(s.lanes[i].entry, &s.lanes[i].host_args);
    for (size_t d = 0; d < bench->device_count; d++)
        cla_bench_place_free(&s.places[d]);
    cla_bench_agreement_free(&s.first);
    free(s.lanes);
    cla_bench_call_free(&s.call);
    return ok;
}
