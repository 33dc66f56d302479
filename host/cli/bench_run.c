/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */

#include "bench_run.h"
#include "problem_data.h"
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

enum { TENSORS = 7 }; /* q k v o keep bias sinks */

/* A problem's tensors on one device. */
typedef struct placed {
    clattn_attention_args args;
    clattn_buffer *buffers[TENSORS];
    size_t bytes;
} placed;

/* An entry while it is measured. */
typedef struct lane {
    cla_bench_entry *entry;
    clattn_context *context;
    clattn_plan *plan;
    clattn_attention_args host_args;  /* on host arrays, for the time with transfers */
    double run_seconds, call_seconds; /* estimates */
    int runs_wanted, runs, calls_wanted, calls;
    double *run_ms, *call_ms; /* samples */
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

/* ---- tensors on the device ---- */

static bool place(clattn_context *context, const cla_problem_data *data, placed *p) {
    *p = (placed){.args = data->args};
    clattn_tensor *const tensors[TENSORS] = {&p->args.q,    &p->args.k,    &p->args.v,    &p->args.o,
                                             &p->args.keep, &p->args.bias, &p->args.sinks};
    const clattn_array *const arrays[TENSORS] = {&data->q,    &data->k,    &data->v,    &data->o,
                                                 &data->keep, &data->bias, &data->sinks};
    for (size_t i = 0; i < TENSORS; i++) {
        if (arrays[i]->rank == 0)
            continue;
        if (clattn_buffer_create(context, arrays[i]->bytes, &p->buffers[i]) != CLATTN_OK ||
            clattn_buffer_upload(p->buffers[i], 0, arrays[i]->data, arrays[i]->bytes) != CLATTN_OK)
            return false;
        p->bytes += arrays[i]->bytes;
        *tensors[i] = clattn_tensor_buffer(p->buffers[i], arrays[i]->dtype, arrays[i]->rank, arrays[i]->shape);
    }
    return true;
}

static void unplace(placed *p) {
    for (size_t i = 0; i < TENSORS; i++)
        clattn_buffer_destroy(p->buffers[i]);
    *p = (placed){0};
}

/* ---- single runs ---- */

static bool run_once(lane *l, double *seconds) {
    const double start = cla_seconds();
    const bool ok = clattn_plan_execute(l->plan, NULL) == CLATTN_OK && clattn_context_sync(l->context) == CLATTN_OK;
    *seconds = cla_seconds() - start;
    return ok || note(l->entry, CLA_BENCH_FAILED, clattn_last_error());
}

static bool call_once(lane *l, double *seconds) {
    const double start = cla_seconds();
    const bool ok = clattn_attention(l->context, &l->host_args) == CLATTN_OK;
    *seconds = cla_seconds() - start;
    return ok || note(l->entry, CLA_BENCH_FAILED, clattn_last_error());
}

/* Worker threads of OpenMP spin for a moment behind their last work; they must not take part in the next timing. */
static void pause_between(void) {
    const struct timespec moment = {.tv_nsec = 3000000};
    nanosleep(&moment, NULL);
}

/* Plan and first run, timed together, and the memory they took beside what other plans hold. */
static bool first_run(lane *l, const placed *p) {
    cla_bench_entry *e = l->entry;
    uint64_t before, current, peak;
    clattn_plan_info info;
    clattn_attention_args args = p->args;
    args.algorithm = clattn_algorithm_name(e->algorithm);
    const size_t bytes = clattn_buffer_bytes(p->args.o.buffer);
    memset(l->host_args.o.host, 0xff, bytes); /* NaN: what a run leaves out must not look right */
    if (clattn_buffer_upload(p->args.o.buffer, 0, l->host_args.o.host, bytes) != CLATTN_OK)
        return note(e, CLA_BENCH_FAILED, clattn_last_error());
    clattn_context_memory_reset(l->context);
    clattn_context_memory(l->context, &before, &peak);
    pause_between();
    const double start = cla_seconds();
    if (clattn_plan_create(l->context, &args, &l->plan) != CLATTN_OK)
        return note(e, CLA_BENCH_FAILED, clattn_last_error());
    if (!run_once(l, &l->run_seconds))
        return false;
    e->cold_ms = 1e3 * (cla_seconds() - start);
    clattn_context_memory(l->context, &current, &peak);
    e->peak_bytes = p->bytes + (peak > before ? peak - before : 0);
    if (clattn_plan_info_get(l->plan, &info) != CLATTN_OK)
        return note(e, CLA_BENCH_FAILED, clattn_last_error());
    e->operations = info.operations;
    e->moved_bytes = info.moved_bytes;
    return true;
}

/* ---- agreement ---- */

static double allowed_difference(clattn_dtype dtype) {
    return dtype == CLATTN_F64 ? 1e-10 : dtype == CLATTN_F32 ? 1e-4 : 2e-2; /* of values in [-1, 1) */
}

/* The result of the first algorithm of a problem. */
typedef struct agreement {
    clattn_array o;
    const char *name; /* NULL: none has run yet */
} agreement;

/* A time means nothing when the result is wrong: what the algorithms give is compared with the first one's. */
static bool agrees(lane *l, const placed *p, agreement *first) {
    clattn_array mine = {0};
    char text[256];
    clattn_array *into = first->name ? &mine : &first->o;
    bool ok = into->data || clattn_array_create(p->args.o.dtype, p->args.o.rank, p->args.o.shape, into) == CLATTN_OK;
    ok = ok && clattn_buffer_download(p->args.o.buffer, 0, into->data, into->bytes) == CLATTN_OK;
    if (!ok) {
        note(l->entry, CLA_BENCH_FAILED, clattn_last_error());
    } else if (!first->name) {
        first->name = clattn_algorithm_name(l->entry->algorithm);
    } else {
        const double d = cla_largest_difference(&mine, &first->o);
        ok = d <= allowed_difference(mine.dtype);
        snprintf(text, sizeof text, "its result is off by %.3g from that of %s", d, first->name);
        if (!ok)
            note(l->entry, CLA_BENCH_FAILED, text);
    }
    clattn_array_free(&mine);
    return ok;
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

static bool applies(lane *l, const placed *p) {
    bool yes = false;
    const char *reason = NULL;
    if (clattn_algorithm_applies(l->context, &p->args, l->entry->algorithm, &yes, &reason) != CLATTN_OK)
        return note(l->entry, CLA_BENCH_FAILED, clattn_last_error());
    return yes || note(l->entry, CLA_BENCH_REFUSED, reason ? reason : "does not apply");
}

/* Whether three runs are too many. */
static bool is_slow(const cla_bench *bench, const lane *l) { return 3 * l->run_seconds > bench->limit_seconds; }

/* The second run says how long one takes: the first has builds in it. A long one is a sample already. */
static bool second_run(const cla_bench *bench, lane *l) {
    double call;
    if (l->run_seconds <= 3 * bench->limit_seconds && !run_once(l, &l->run_seconds))
        return false;
    if (is_slow(bench, l))
        l->run_ms[l->runs++] = 1e3 * l->run_seconds;
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

static bool start(const cla_bench *bench, lane *l, const placed *p, agreement *first) {
    cla_bench_entry *e = l->entry;
    const double expected = predicted(bench, e);
    if (!admitted(bench, e) || !applies(l, p))
        return false;
    if (expected > bench->limit_seconds) {
        snprintf(e->note, sizeof e->note, "a run would take about %.0f s, the limit is %g s", expected,
                 bench->limit_seconds);
        e->state = CLA_BENCH_CUT;
        e->median_ms = 1e3 * expected;
        return false;
    }
    l->run_ms = calloc((size_t)2 * CLA_BENCH_REPEATS_MAX, sizeof *l->run_ms);
    if (!l->run_ms)
        return note(e, CLA_BENCH_FAILED, "out of memory");
    l->call_ms = l->run_ms + CLA_BENCH_REPEATS_MAX;
    cla_note_begin(-1, "first run of", clattn_algorithm_name(e->algorithm));
    const bool ok = first_run(l, p) && agrees(l, p, first) && second_run(bench, l);
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
    if (call ? !call_once(l, &seconds) : !run_once(l, &seconds))
        return false;
    if (call)
        l->call_ms[l->calls++] = 1e3 * seconds;
    else
        l->run_ms[l->runs++] = 1e3 * seconds;
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

static void take_turns(cla_bench *bench, lane *lanes, size_t count) {
    cla_progress progress = cla_progress_begin("bench");
    int64_t done = 0, total = 0;
    for (size_t i = 0; i < count; i++)
        total += lanes[i].runs_wanted + lanes[i].calls_wanted;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < 2 * count; i++) { /* runs of all, then calls of all */
            lane *l = &lanes[i % count];
            if (!wants_turn(l, i >= count))
                continue;
            cla_progress_step(&progress, done++, total);
            more |= take_turn(l, i >= count);
        }
        sample_peaks(bench, lanes, count);
    }
    cla_progress_end(&progress);
}

static void finish(lane *l) {
    cla_bench_entry *e = l->entry;
    if (l->plan && e->state != CLA_BENCH_FAILED && l->runs > 0) {
        e->state = CLA_BENCH_MEASURED;
        e->repeats = l->runs;
        e->median_ms = cla_median(l->run_ms, l->runs);
        e->mean_ms = mean(l->run_ms, l->runs);
        e->min_ms = l->run_ms[0];
        e->max_ms = l->run_ms[l->runs - 1];
        e->transfers_ms = l->calls > 0 ? cla_median(l->call_ms, l->calls) : -1;
        e->gflops = e->median_ms > 0 ? e->operations / e->median_ms * 1e-6 : 0;
    }
    clattn_plan_destroy(l->plan);
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
static bool profile(cla_bench_entry *e, const clattn_attention_args *host_args) {
    if (!e || e->state != CLA_BENCH_MEASURED || !e->device->info.is_opencl)
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
    cla_problem_data data;
    placed places[CLA_BENCH_DEVICES_MAX];
    lane *lanes;
    size_t lane_count;
    agreement first;
} session;

static void start_lane(cla_bench *bench, session *s, size_t problem, size_t i, bool fits) {
    const size_t d = i / bench->algorithm_count;
    lane *l = &s->lanes[i];
    l->entry = cla_bench_entry_at(bench, problem, d, i % bench->algorithm_count);
    l->entry->transfers_ms = -1;
    l->context = bench->devices[d].context;
    l->host_args = s->data.args;
    l->host_args.algorithm = clattn_algorithm_name(l->entry->algorithm);
    if (!fits && admitted(bench, l->entry))
        note(l->entry, CLA_BENCH_FAILED, clattn_last_error());
    else if (fits)
        start(bench, l, &s->places[d], &s->first);
}

bool cla_bench_run(cla_bench *bench, size_t problem) {
    session s = {.lane_count = bench->device_count * bench->algorithm_count};
    bool ok = cla_problem_data_create(&bench->problems[problem].problem, 1, &s.data) == CLATTN_OK;
    s.lanes = ok ? calloc(s.lane_count, sizeof *s.lanes) : NULL;
    ok = ok && s.lanes;
    for (size_t d = 0; ok && d < bench->device_count; d++) {
        bench->devices[d].samples = 0;
        const bool fits = place(bench->devices[d].context, &s.data, &s.places[d]);
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
        unplace(&s.places[d]);
    clattn_array_free(&s.first.o);
    free(s.lanes);
    cla_problem_data_free(&s.data);
    return ok;
}
