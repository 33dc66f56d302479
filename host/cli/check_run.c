/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the jobs of a case and compares element by element. Says what is wrong on stdout, one line an output. */
#include "check_run.h"

#include "check_axes.h"
#include "interrupt.h"
#include "job.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The one element that is worst, in units of what is allowed. */
typedef struct difference {
    int64_t wrong, total, index; /* index of the worst */
    double got, want, allowed;
} difference;

/* As doubles, by way of a type that they are rounded to. */
static bool values(const clattn_array *a, clattn_dtype type, clattn_array *out) {
    clattn_array rounded;
    if (clattn_array_convert(a, type, &rounded) != CLATTN_OK)
        return false;
    const bool done = clattn_array_convert(&rounded, CLATTN_F64, out) == CLATTN_OK;
    clattn_array_free(&rounded);
    return done;
}

/* |got - want| <= atol + rtol |want|; infinities must be equal; a NaN wanted is a NaN got. */
static double excess(double got, double want, double allowed) {
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : INFINITY;
    if (isinf(want) || isinf(got))
        return want == got ? 0 : INFINITY;
    const double off = fabs(got - want);
    return off <= allowed ? 0 : allowed > 0 ? off / allowed : off * 1e300;
}

/* What is wanted in 16 bits is got in f32 where it is weights: it is rounded first. */
static bool compare(const cla_check_output *out, difference *d) {
    double worst = 0;
    clattn_array want = {0}, got = {0};
    *d = (difference){0};
    if (!values(out->want, out->want->dtype, &want) || !values(out->got, out->want->dtype, &got)) {
        clattn_array_free(&want);
        return false;
    }
    d->total = (int64_t)(want.bytes / sizeof(double));
    for (int64_t i = 0; i < d->total; i++) {
        const double g = ((const double *)got.data)[i], w = ((const double *)want.data)[i];
        const double allowed = out->atol + out->rtol * fabs(w),
                     e = out->nan_is_finite && isnan(w) && isfinite(g) ? 0 : excess(g, w, allowed);
        if (!(e > 0))
            continue;
        d->wrong++;
        if (e > worst || d->wrong == 1) {
            worst = e;
            d->index = i;
            d->got = g;
            d->want = w;
            d->allowed = allowed;
        }
    }
    clattn_array_free(&want);
    clattn_array_free(&got);
    return true;
}

static void index_text(const clattn_array *a, int64_t index, char *text, size_t size) {
    int64_t at[CLATTN_MAX_RANK] = {0};
    for (int i = a->rank - 1; i >= 0; i--) {
        at[i] = index % a->shape[i];
        index /= a->shape[i];
    }
    size_t used = 0;
    for (int i = 0; i < a->rank && used < size; i++) {
        const int n = snprintf(text + used, size - used, "%s%" PRId64, i ? "," : "", at[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* One case on one target, while it runs. */
typedef struct attempt {
    const cla_check_case *c;
    const cla_check_target *target;
    const char *algorithm;
    cla_job_report chosen; /* by the library, where algorithm points to it */
    cla_progress *progress;
    bool failed;
    char skip[CLA_CHECK_TEXT];
} attempt;

/* A signal proves nothing of a run: compilers take their files away when it comes. */
static void fail(attempt *a, const char *what) {
    if (cla_interrupted()) {
        snprintf(a->skip, sizeof a->skip, "interrupted");
        return;
    }
    cla_progress_end(a->progress);
    printf("FAIL ");
    cla_check_print(a->c->name);
    printf(", %s%son %s: ", a->algorithm, *a->algorithm ? " " : "", a->target->device);
    cla_check_print(what);
    printf("\n");
    fflush(stdout);
    a->failed = true;
}

/* A line when the output is wrong. */
static void check_output(attempt *a, const cla_check_output *out) {
    difference d;
    char at[CLATTN_MAX_RANK * 21] = "", text[640];
    if (!compare(out, &d)) {
        fail(a, clattn_last_error());
    } else if (d.wrong > 0) {
        index_text(out->got, d.index, at, sizeof at);
        snprintf(text, sizeof text,
                 "%s[%s] is %.9g, not %.9g: off by %.3g, allowed %.3g (%" PRId64 " of %" PRId64 " elements)", out->name,
                 at, d.got, d.want, fabs(d.got - d.want), d.allowed, d.wrong, d.total);
        fail(a, text);
    }
}

/* Whether the target's algorithm can run args, or any of them; else the reason or, in *broken, an error. */
static bool can_run(const cla_check_target *target, const clattn_attention_args *args, char *reason, size_t size,
                    bool *broken) {
    const bool automatic = target->algorithm == CLA_CHECK_AUTO;
    const size_t first = automatic ? 0 : target->algorithm;
    const size_t end = automatic ? clattn_algorithm_count() : first + 1;
    reason[0] = '\0';
    for (size_t i = first; i < end; i++) {
        bool applies = false;
        const char *why = "";
        if (clattn_algorithm_applies(target->context, args, i, &applies, &why) != CLATTN_OK) {
            snprintf(reason, size, "%s", clattn_last_error());
            *broken = true;
            return false;
        }
        if (applies)
            return true;
        if (!reason[0])
            snprintf(reason, size, "%s: %s", clattn_algorithm_name(i), why ? why : "does not apply");
    }
    return false;
}

static void fill_with_nan(const clattn_tensor *t, const clattn_array *arrays, size_t count) {
    for (size_t i = 0; i < count && t->rank > 0; i++)
        if (arrays[i].data == t->host)
            memset(arrays[i].data, 0xff, arrays[i].bytes);
}

/* A call that was made: what a device cannot do is skipped, other errors are failures. */
static bool succeeded(attempt *a, clattn_status status) {
    if (status == CLATTN_E_UNSUPPORTED)
        snprintf(a->skip, sizeof a->skip, "%s", clattn_last_error());
    else if (status != CLATTN_OK)
        fail(a, clattn_last_error());
    return status == CLATTN_OK;
}

static bool run_appends(attempt *a, const cla_check_job *job) {
    for (size_t i = 0; i < job->append_count; i++) {
        fill_with_nan(&job->appends[0].k_cache, job->arrays, i == 0 ? job->array_count : 0);
        fill_with_nan(&job->appends[0].v_cache, job->arrays, i == 0 ? job->array_count : 0);
        if (!succeeded(a, clattn_cache_append(a->target->context, &job->appends[i])))
            return false;
    }
    return true;
}

static void run_rotary(attempt *a, const cla_check_job *job) {
    fill_with_nan(&job->rotary.y, job->arrays, job->array_count);
    if (!succeeded(a, clattn_rotary(a->target->context, &job->rotary)))
        return;
    for (size_t i = 0; i < job->output_count; i++)
        check_output(a, &job->outputs[i]);
}

static void run_call(attempt *a, const cla_check_job *job) {
    for (size_t i = 0; i < job->output_count; i++) /* so that an element left out shows */
        memset(job->outputs[i].got->data, 0xff, job->outputs[i].got->bytes);
    if (!succeeded(a, job->call(a->target->context, job)))
        return;
    for (size_t i = 0; i < job->output_count; i++)
        check_output(a, &job->outputs[i]);
}

static void run_without(attempt *a, const cla_check_job *job) { job->call ? run_call(a, job) : run_rotary(a, job); }

/* One call, by the library's own choice where the target names no algorithm. */
static clattn_status call(attempt *a, clattn_attention_args *args) {
    clattn_context *context = a->target->context;
    if (a->target->algorithm != CLA_CHECK_AUTO) {
        args->algorithm = a->algorithm = clattn_algorithm_name(a->target->algorithm);
        return clattn_attention(context, args);
    }
    args->algorithm = NULL;
    a->algorithm = a->target->label;
    a->chosen = (cla_job_report){0};
    const clattn_status status = cla_job_run(context, args, false, &a->chosen);
    if (a->chosen.algorithm[0])
        a->algorithm = a->chosen.algorithm;
    return status;
}

/* The backward pass on the tensors of a forward pass that was just made, by the algorithm of the same name. */
static bool run_backward(attempt *a, const cla_check_job *job, const clattn_attention_args *forward) {
    clattn_attention_backward_args args = job->backward;
    const bool automatic = a->target->algorithm == CLA_CHECK_AUTO;
    size_t i = 0;
    while (!automatic && clattn_backward_algorithm_name(i) &&
           strcmp(clattn_backward_algorithm_name(i), a->algorithm) != 0)
        i++;
    if (!automatic && !clattn_backward_algorithm_name(i)) {
        snprintf(a->skip, sizeof a->skip, "%s: has no backward pass", a->algorithm);
        return false;
    }
    args.forward = *forward;
    args.algorithm = automatic ? NULL : a->algorithm;
    fill_with_nan(&args.d_q, job->arrays, job->array_count);
    fill_with_nan(&args.d_k, job->arrays, job->array_count);
    fill_with_nan(&args.d_v, job->arrays, job->array_count);
    if (!succeeded(a, clattn_attention_backward(a->target->context, &args)))
        return false;
    for (size_t j = 0; j < job->sum_count; j++)
        if (!cla_check_add_up(&job->sums[j])) {
            fail(a, clattn_last_error());
            return false;
        }
    return true;
}

/* Runs a job; without weights where the algorithm does not give them. */
static void run_attention(attempt *a, const cla_check_job *job) {
    clattn_attention_args args = job->args;
    char reason[CLA_CHECK_TEXT], ignored[CLA_CHECK_TEXT];
    bool broken = false, empty = false, can = can_run(a->target, &args, reason, sizeof reason, &broken);
    if (!can && !broken && args.weights.rank > 0) {
        args.weights = (clattn_tensor){0};
        can = can_run(a->target, &args, ignored, sizeof ignored, &empty); /* an error then is none of the case */
    }
    if (broken)
        fail(a, reason);
    else if (!can || (args.weights.rank == 0 && job->args.weights.rank > 0))
        snprintf(a->skip, sizeof a->skip, "%s", reason);
    if (!can)
        return;
    fill_with_nan(&args.o, job->arrays, job->array_count); /* so that an element left out shows */
    fill_with_nan(&args.lse, job->arrays, job->array_count);
    fill_with_nan(&args.weights, job->arrays, job->array_count);
    if (!run_appends(a, job) || !succeeded(a, call(a, &args)))
        return;
    const bool back = job->backward.d_o.rank > 0 && run_backward(a, job, &args);
    for (size_t i = 0; i < job->output_count; i++) {
        const cla_check_source source = job->outputs[i].source;
        if ((source != CLA_CHECK_FROM_WEIGHTS || args.weights.rank > 0) && (source != CLA_CHECK_FROM_BACKWARD || back))
            check_output(a, &job->outputs[i]);
    }
}

void cla_check_run(const cla_check_case *c, const cla_check_target *target, cla_check_report *report) {
    const bool without = target->algorithm == CLA_CHECK_NONE;
    if (c->by_algorithm == without)
        return;
    attempt a = {.c = c, .target = target, .algorithm = without ? "" : target->label, .progress = report->progress};
    snprintf(a.skip, sizeof a.skip, "%s", c->skip);
    if (c->error[0])
        fail(&a, c->error);
    for (size_t i = 0; i < c->job_count && !c->error[0]; i++)
        without || c->jobs[i].call ? run_without(&a, &c->jobs[i]) : run_attention(&a, &c->jobs[i]);
    cla_check_report_add(report, target, c->op,
                         a.failed    ? CLA_CHECK_FAILED
                         : a.skip[0] ? CLA_CHECK_SKIPPED
                                     : CLA_CHECK_PASSED,
                         a.skip);
}
