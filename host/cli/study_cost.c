/* SPDX-License-Identifier: Apache-2.0 */
/* `cost`: one head, d = 64, f32, n doubling from 512: entries and bytes of the score matrix, mean times of five runs on
 * the CPU path, materialised and fused, what a doubling costs, and where the device overtakes the CPU. Measured by what
 * `clattn bench` measures with. */
#include "args.h"
#include "bench_report.h"
#include "bench_sweep.h"
#include "interrupt.h"
#include "job.h"
#include "study.h"
#include <clattn/ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARTICLE_SIZES = 4, HEAD_DIM = 64, RUNS = 5, GUARD = 64 }; /* the article goes up to 4096 */
#define PROBLEM "d64"
#define SWEEP "n=512:262144"
#define UNHURRIED_SECONDS 600.0 /* of the article's sizes none is cut */

/* What runs where: a column of the table. */
typedef struct column {
    const cla_bench_device *device;
    size_t algorithm; /* place in bench.algorithms */
} column;

typedef struct title {
    char text[48];
} title;

struct cla_cost {
    cla_bench bench;
    size_t sizes; /* problems that were run */
    column columns[3];
    size_t column_count;
    size_t matrix; /* the column that stores the scores */
    size_t fused;  /* columns + 1 of none: 0 */
};

static const cla_bench_entry *entry(const struct cla_cost *c, size_t size, size_t at) {
    const column *x = &c->columns[at];
    return cla_bench_entry_at(&c->bench, size, (size_t)(x->device - c->bench.devices), x->algorithm);
}

static title title_of(const struct cla_cost *c, size_t at) {
    const column *x = &c->columns[at];
    title t;
    snprintf(t.text, sizeof t.text, "%s, %s", clattn_algorithm_name(c->bench.algorithms[x->algorithm]),
             x->device->info.spec);
    return t;
}

/* ---- devices and algorithms ---- */

static size_t algorithm_index(const char *name) {
    for (size_t i = 0; i < clattn_algorithm_count(); i++)
        if (strcmp(clattn_algorithm_name(i), name) == 0)
            return i;
    return clattn_algorithm_count();
}

static void add_column(struct cla_cost *c, size_t device, const char *name) {
    c->columns[c->column_count++] =
        (column){.device = &c->bench.devices[device], .algorithm = c->bench.algorithm_count};
    c->bench.algorithms[c->bench.algorithm_count++] = algorithm_index(name);
}

/* What a plain call runs on the device. */
static clattn_status default_algorithm(clattn_context *context, const char **name) {
    const int64_t shape[] = {1, 1, 512, HEAD_DIM};
    clattn_buffer *buffers[2] = {NULL, NULL};
    clattn_plan *plan = NULL;
    clattn_plan_info info = {0};
    const size_t bytes = clattn_dtype_bytes(CLATTN_F32, 512 * HEAD_DIM);
    clattn_status status = clattn_buffer_create(context, bytes, &buffers[0]);
    if (status == CLATTN_OK)
        status = clattn_buffer_create(context, bytes, &buffers[1]);
    const clattn_tensor in = clattn_tensor_buffer(buffers[0], CLATTN_F32, 4, shape),
                        out = clattn_tensor_buffer(buffers[1], CLATTN_F32, 4, shape);
    if (status == CLATTN_OK)
        status = clattn_plan_create(context, &(clattn_attention_args){.q = in, .k = in, .v = in, .o = out}, &plan);
    if (status == CLATTN_OK)
        status = clattn_plan_info_get(plan, &info);
    *name = info.algorithm;
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(buffers[0]);
    clattn_buffer_destroy(buffers[1]);
    return status;
}

static int open_lanes(const cla_study *s, struct cla_cost *c) {
    cla_bench *b = &c->bench;
    const char *fused = NULL;
    b->devices[b->device_count++] = (cla_bench_device){.context = s->context, .info = s->device};
    b->algorithms = calloc(3, sizeof *b->algorithms);
    if (!b->algorithms)
        return cla_fail(CLA_EXIT_FAILED, "study cost: out of memory");
    if (s->device.is_opencl) {
        const int exit_status = cla_open("cpu", &b->devices[1].context);
        if (exit_status != CLA_EXIT_OK)
            return exit_status;
        clattn_context_info(b->devices[1].context, &b->devices[1].info);
        b->device_count++;
        const clattn_status status = default_algorithm(s->context, &fused);
        if (status != CLATTN_OK)
            return cla_study_fail(s, status);
    }
    add_column(c, b->device_count - 1, "blas");
    if (fused) {
        c->matrix = c->column_count;
        add_column(c, 0, "materialised");
        c->fused = c->column_count + 1;
        add_column(c, 0, fused);
    }
    b->algorithms_given = true;
    return CLA_EXIT_OK;
}

static int make_entries(struct cla_cost *c) {
    cla_bench *b = &c->bench;
    char *text[] = {(char *)PROBLEM};
    const int exit_status = cla_bench_sweep(b, text, 1, SWEEP);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    b->repeats = RUNS;
    b->entries = calloc(b->problem_count * b->device_count * b->algorithm_count, sizeof *b->entries);
    if (!b->entries)
        return cla_fail(CLA_EXIT_FAILED, "study cost: out of memory");
    for (size_t p = 0; p < b->problem_count; p++)
        for (size_t d = 0; d < b->device_count; d++)
            for (size_t a = 0; a < b->algorithm_count; a++) {
                cla_bench_entry *e = cla_bench_entry_at(b, p, d, a);
                *e = (cla_bench_entry){
                    .problem = &b->problems[p], .device = &b->devices[d], .algorithm = b->algorithms[a]};
            }
    return CLA_EXIT_OK;
}

/* ---- the tables ---- */

static void print_head(const struct cla_cost *c) {
    printf("  mean of %d runs in ms, how many times that of half the n, and MiB of tensors and scratch\n", RUNS);
    printf("  %7s %12s %9s", "n", "entries", "MiB");
    for (size_t i = 0; i < c->column_count; i++)
        printf("  %27s", title_of(c, i).text);
    printf("\n");
}

/* How many times as long as at half the size; 0: not known. */
static double growth(const struct cla_cost *c, size_t size, size_t at) {
    const cla_bench_entry *now = entry(c, size, at), *before = size > 0 ? entry(c, size - 1, at) : NULL;
    return before && now->state == CLA_BENCH_MEASURED && before->state == CLA_BENCH_MEASURED
               ? now->mean_ms / before->mean_ms
               : 0;
}

static void print_cell(const struct cla_cost *c, size_t size, size_t at) {
    const cla_bench_entry *e = entry(c, size, at);
    char times[24] = "";
    if (growth(c, size, at) > 0)
        snprintf(times, sizeof times, "x%.2f", growth(c, size, at));
    if (e->state == CLA_BENCH_MEASURED)
        printf("  %11.3f %6s %8.1f", e->mean_ms, times, (double)e->peak_bytes / 0x1p20);
    else
        printf("  %27s", e->state == CLA_BENCH_CUT ? "beyond --limit" : "cannot");
}

static void print_size(const struct cla_cost *c, size_t size) {
    const int64_t n = c->bench.problems[size].size;
    const double entries = (double)n * (double)n;
    printf("  %7lld %12.0f %9.0f", (long long)n, entries, entries * 4 / 0x1p20);
    for (size_t i = 0; i < c->column_count; i++)
        print_cell(c, size, i);
    printf("\n");
    for (size_t i = 0; i < c->column_count; i++)
        if (entry(c, size, i)->note[0] && entry(c, size, i)->state != CLA_BENCH_CUT)
            printf("          %s: %s\n", title_of(c, i).text, entry(c, size, i)->note);
    fflush(stdout);
}

static void print_operations(const struct cla_cost *c) {
    printf("  operations of a layer by the article, in 10^6: attention n^2 d, recurrence and projections n d^2\n");
    printf("  %7s %12s %12s\n", "n", "n^2 d", "n d^2");
    for (size_t i = 0; i < c->sizes; i++) {
        const double n = (double)c->bench.problems[i].size, d = HEAD_DIM;
        printf("  %7.0f %12.2f %12.2f\n", n, n * n * d * 1e-6, n * d * d * 1e-6);
    }
}

static void add_row(cla_study *s, const struct cla_cost *c, size_t size) {
    const double n = (double)c->bench.problems[size].size;
    double values[3 + 3 * 3] = {n, n * n, n * n * 4};
    char names[400] = "n,entries,matrix_bytes";
    size_t used = strlen(names);
    for (size_t i = 0; i < c->column_count; i++) {
        const cla_bench_entry *e = entry(c, size, i);
        const char *name = clattn_algorithm_name(e->algorithm);
        const bool measured = e->state == CLA_BENCH_MEASURED;
        used +=
            (size_t)snprintf(names + used, sizeof names - used, ",%s_ms,%s_transfers_ms,%s_bytes", name, name, name);
        values[3 + 3 * i] = measured ? e->mean_ms : (double)NAN;
        values[4 + 3 * i] = measured && e->transfers_ms >= 0 ? e->transfers_ms : (double)NAN;
        values[5 + 3 * i] = measured ? (double)e->peak_bytes : (double)NAN;
    }
    cla_study_row(s, names, values);
}

/* ---- figures ---- */

/* What a call wrote of a matrix that was full of NaN, and what the device holds for it. */
typedef struct matrix {
    clattn_buffer *in, *out, *weights;
    float *numbers;
    double entries, mib;
} matrix;

static void free_matrix(matrix *m) {
    clattn_buffer_destroy(m->in);
    clattn_buffer_destroy(m->out);
    clattn_buffer_destroy(m->weights);
    free(m->numbers);
}

static clattn_status make_matrix(const cla_study *s, int64_t n, matrix *m) {
    const size_t row_bytes = clattn_dtype_bytes(CLATTN_F32, (size_t)n * HEAD_DIM);
    uint64_t before = 0, after = 0, peak;
    *m = (matrix){.numbers = malloc(((size_t)(n * n) + GUARD) * sizeof *m->numbers)};
    clattn_status status = m->numbers ? clattn_buffer_create(s->context, row_bytes, &m->in) : CLATTN_E_MEMORY;
    if (status == CLATTN_OK)
        status = clattn_buffer_create(s->context, row_bytes, &m->out);
    clattn_context_memory(s->context, &before, &peak);
    if (status == CLATTN_OK)
        status = clattn_buffer_create(s->context, clattn_dtype_bytes(CLATTN_F32, (size_t)(n * n) + GUARD), &m->weights);
    clattn_context_memory(s->context, &after, &peak);
    m->mib = (double)(after - before - GUARD * sizeof(float)) / 0x1p20;
    for (int64_t i = 0; i < n * n + GUARD && status == CLATTN_OK; i++)
        m->numbers[i] = NAN;
    return status == CLATTN_OK ? clattn_buffer_upload(m->weights, 0, m->numbers, clattn_buffer_bytes(m->weights))
                               : status;
}

static clattn_status write_matrix(const cla_study *s, int64_t n, matrix *m) {
    const int64_t rows[] = {1, 1, n, HEAD_DIM}, square[] = {1, 1, n, n};
    const clattn_tensor x = clattn_tensor_buffer(m->in, CLATTN_F32, 4, rows);
    const clattn_attention_args args = {.q = x,
                                        .k = x,
                                        .v = x,
                                        .o = clattn_tensor_buffer(m->out, CLATTN_F32, 4, rows),
                                        .weights = clattn_tensor_buffer(m->weights, CLATTN_F32, 4, square)};
    clattn_status status = clattn_random(s->context, &(clattn_random_args){.y = x, .seed = s->seed});
    if (status == CLATTN_OK)
        status = clattn_attention(s->context, &args);
    if (status == CLATTN_OK)
        status = clattn_buffer_download(m->weights, 0, m->numbers, clattn_buffer_bytes(m->weights));
    for (int64_t i = 0; i < n * n + GUARD && status == CLATTN_OK; i++)
        m->entries += !isnan(m->numbers[i]);
    return status;
}

/* The score matrix as the call gives it out on request. */
static int judge_matrix(cla_study *s, const struct cla_cost *c) {
    static const double entries[ARTICLE_SIZES] = {262144, 1048576, 4194304, 16777216};
    static const char *const texts[ARTICLE_SIZES] = {"262144", "1048576", "4194304", "16777216"},
                             *const mib[ARTICLE_SIZES] = {"1", "4", "16", "64"};
    for (size_t i = 0; i < ARTICLE_SIZES && i < c->sizes; i++) {
        const int64_t n = c->bench.problems[i].size;
        matrix m;
        clattn_status status = make_matrix(s, n, &m);
        if (status == CLATTN_OK)
            status = write_matrix(s, n, &m);
        free_matrix(&m);
        if (status != CLATTN_OK)
            return cla_study_fail(s, status);
        char name[96];
        snprintf(name, sizeof name, "n %lld: entries of the score matrix that are written", (long long)n);
        cla_study_figure(s, name, texts[i], entries[i], m.entries, 0);
        snprintf(name, sizeof name, "n %lld: MiB of the score matrix on the device", (long long)n);
        cla_study_figure(s, name, mib[i], strtod(mib[i], NULL), m.mib, 0);
        if (i + 1 == ARTICLE_SIZES)
            cla_study_figure(s, "n 4096: GiB for 8 heads and 6 layers", "3", 3, 8 * 6 * m.mib / 0x1p10, 0);
    }
    return CLA_EXIT_OK;
}

/* Beside the four tensors. */
static double scratch_mib(const cla_bench_entry *e) {
    const double tensors = 4.0 * (double)e->problem->size * HEAD_DIM * 4;
    return ((double)e->peak_bytes - tensors) / 0x1p20;
}

/* One multiplication and one addition for each of n^2 d products of Q and K, and of P and V. */
static void judge_operations(cla_study *s, const struct cla_cost *c) {
    for (size_t i = 0; i < c->column_count; i++) {
        const cla_bench_entry *e = entry(c, 0, i);
        const double n = (double)e->problem->size;
        char name[96];
        snprintf(name, sizeof name, "%s: operations over n^2 d", title_of(c, i).text);
        cla_study_figure(s, name, NULL, 4, e->operations / (n * n * HEAD_DIM), 0);
    }
}

/* Of the article's sizes, all of which were measured. */
static void judge_times(cla_study *s, const struct cla_cost *c) {
    const size_t last = ARTICLE_SIZES - 1;
    const cla_bench_entry *first = entry(c, 0, c->matrix), *end = entry(c, last, c->matrix);
    char name[96];
    snprintf(name, sizeof name, "%s: time of a doubling, 512 to 4096", title_of(c, c->matrix).text);
    cla_study_figure(s, name, "about 4", 4, pow(end->mean_ms / first->mean_ms, 1.0 / (double)last), 2);
    if (c->fused == 0)
        return;
    for (size_t i = 0; i < ARTICLE_SIZES; i++) { /* beside the matrix a copy of the values, and room to round up */
        const double mib = (double)(1 << 2 * i);
        snprintf(name, sizeof name, "%s: MiB of scratch at %lld", title_of(c, c->matrix).text,
                 (long long)c->bench.problems[i].size);
        cla_study_figure(s, name, NULL, mib, scratch_mib(entry(c, i, c->matrix)), mib / 4);
    }
    snprintf(name, sizeof name, "%s: MiB of scratch at 4096", title_of(c, c->fused - 1).text);
    cla_study_figure(s, name, NULL, 0, scratch_mib(entry(c, last, c->fused - 1)), 1);
}

/* ---- all of it ---- */

static bool any_measured(const struct cla_cost *c, size_t size) {
    for (size_t i = 0; i < c->column_count; i++)
        if (entry(c, size, i)->state == CLA_BENCH_MEASURED)
            return true;
    return false;
}

/* What fails at the article's sizes is a failure; beyond them the end. */
static int measure(cla_study *s, struct cla_cost *c) {
    print_head(c);
    for (size_t p = 0; p < c->bench.problem_count && c->bench.problems[p].size <= s->largest; p++) {
        if (cla_interrupted())
            break;
        c->bench.limit_seconds = p < ARTICLE_SIZES ? UNHURRIED_SECONDS : s->limit;
        if (!cla_bench_run(&c->bench, p)) {
            if (p >= ARTICLE_SIZES)
                break; /* out of memory */
            return cla_study_fail(s, CLATTN_E_MEMORY);
        }
        if (cla_interrupted())
            break; /* it is not whole */
        print_size(c, p);
        for (size_t i = 0; i < c->column_count && p < ARTICLE_SIZES; i++)
            if (entry(c, p, i)->state != CLA_BENCH_MEASURED)
                return cla_fail(CLA_EXIT_FAILED, "study cost: %s at n = %lld: %s", title_of(c, i).text,
                                (long long)c->bench.problems[p].size, entry(c, p, i)->note);
        if (!any_measured(c, p))
            break;
        c->sizes = p + 1;
        add_row(s, c, p);
    }
    return CLA_EXIT_OK;
}

int cla_study_cost(cla_study *s) {
    struct cla_cost *c = s->cost = calloc(1, sizeof *c);
    if (!c)
        return cla_fail(CLA_EXIT_FAILED, "study cost: out of memory");
    int exit_status = open_lanes(s, c);
    if (exit_status == CLA_EXIT_OK)
        exit_status = make_entries(c);
    if (exit_status == CLA_EXIT_OK)
        exit_status = measure(s, c);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    if (c->sizes == 0) {
        snprintf(s->skipped, sizeof s->skipped, "interrupted before anything was measured");
        return CLA_EXIT_OK;
    }
    c->bench.problem_count = c->sizes;
    print_operations(c);
    cla_bench_print_crossovers(&c->bench);
    judge_operations(s, c);
    if (c->sizes >= ARTICLE_SIZES)
        judge_times(s, c);
    return judge_matrix(s, c);
}

int cla_study_plot_cost(const cla_study *s, const char *path) { return cla_bench_plot(&s->cost->bench, path); }

void cla_cost_free(struct cla_cost *c) {
    if (!c)
        return;
    if (c->bench.device_count > 1)
        clattn_context_destroy(c->bench.devices[1].context);
    free(c->bench.entries);
    free(c->bench.problems);
    free(c->bench.algorithms);
    free(c);
}
