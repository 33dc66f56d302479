/* SPDX-License-Identifier: Apache-2.0 */
/* Tables on stdout, crossovers, and the JSON file. */
#include "bench_report.h"
#include "args.h"
#include <cJSON.h>
#include <clattn/version.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOISY 0.2

void cla_bench_print_devices(const cla_bench *bench) {
    printf("clattn %s\n", clattn_version());
    for (size_t i = 0; i < bench->device_count; i++) {
        const clattn_device_info *d = &bench->devices[i].info;
        printf("%-11s %s%s%s%s%s\n", d->spec, d->name, d->platform[0] ? ", " : "", d->platform,
               d->driver[0] ? ", driver " : "", d->driver);
    }
}

/* ---- one problem ---- */

/* The heading of the ratios, "vs blas"; empty without a baseline, and then there is no such column. */
static const char *ratio_heading(const cla_bench_entry *base, char *text, size_t size) {
    text[0] = '\0';
    if (base)
        snprintf(text, size, "  vs %s", clattn_algorithm_name(base->algorithm));
    return text;
}

/* How many times as fast as the baseline. */
static void print_ratio(const cla_bench_entry *base, double base_ms, double ms) {
    char heading[64], ratio[32] = "-";
    const int width = (int)strlen(ratio_heading(base, heading, sizeof heading));
    if (base_ms > 0 && ms > 0)
        snprintf(ratio, sizeof ratio, "%.2fx", base_ms / ms);
    printf("%*s", width < 9 && width > 0 ? 9 : width, width > 0 ? ratio : "");
}

static bool has_peaks(const cla_bench *bench) {
    for (size_t i = 0; i < bench->device_count; i++)
        if (bench->devices[i].meter)
            return true;
    return false;
}

static void print_share(const cla_bench *bench, const cla_bench_entry *e) {
    const double share = cla_bench_share(e);
    if (has_peaks(bench) && share > 0)
        printf("  %5.0f %%", 100 * share);
    else if (has_peaks(bench))
        printf("  %7s", "-");
}

static void print_measured(const cla_bench *bench, const cla_bench_entry *e, const cla_bench_entry *base) {
    char transfers[32] = "-";
    if (e->transfers_ms >= 0)
        snprintf(transfers, sizeof transfers, "%.3f", e->transfers_ms);
    printf("  %-10s  %-12s  %10.3f  %9.3f  %9.3f  %7.1f", e->device->info.spec, clattn_algorithm_name(e->algorithm),
           e->median_ms, e->min_ms, e->max_ms, e->gflops);
    print_ratio(base, base ? base->median_ms : 0, e->median_ms);
    if (bench->backward)
        printf("  %10.3f  %11.3f", e->forward_ms, e->backward_ms);
    printf("  %14s", transfers);
    print_ratio(base, base ? base->transfers_ms : 0, e->transfers_ms);
    print_share(bench, e);
    printf("  %8.1f  %8.1f  %4d\n", (double)e->peak_bytes / 0x1p20, e->cold_ms, e->repeats);
}

static void print_head(const cla_bench *bench, const cla_bench_entry *base) {
    char ratio[64];
    ratio_heading(base, ratio, sizeof ratio);
    printf("  %-10s  %-12s  %10s  %9s  %9s  %7s%*s%s  %14s%*s%s  %8s  %8s  %4s\n", "device", "algorithm", "median ms",
           "min", "max", "GFLOP/s", base ? 9 : 0, ratio, bench->backward ? "  forward ms  backward ms" : "",
           "with transfers", base ? 9 : 0, ratio, has_peaks(bench) ? "  of peak" : "", "peak MiB", "cold ms", "runs");
}

static void print_peaks(const cla_bench *bench, size_t problem) {
    for (size_t d = 0; d < bench->device_count; d++) {
        const cla_bench_entry *e = cla_bench_entry_at(bench, problem, d, 0);
        if (e->peak_gflops > 0)
            printf("  %s peaks in between: %.1f GFLOP/s of f32 multiply-adds, reads %.1f GB/s of as many bytes\n",
                   e->device->info.spec, e->peak_gflops, e->peak_gbytes);
    }
}

static void print_note(const cla_bench_entry *e) {
    static const char *const words[] = {"", "", "cannot: ", "not run: ", "failed: "};
    printf("  %s %s %s%s\n", e->device->info.spec, clattn_algorithm_name(e->algorithm), words[e->state], e->note);
}

/* One line: a comparison of such medians says little. */
static void print_noisy(const cla_bench_entry *entries, size_t count) {
    int noisy = 0;
    for (size_t i = 0; i < count; i++)
        if (entries[i].state == CLA_BENCH_MEASURED && entries[i].spread > NOISY)
            printf("%s %s %s by %.0f %%", noisy++ ? "," : "  noisy: the middle half of the runs differs for",
                   entries[i].device->info.spec, clattn_algorithm_name(entries[i].algorithm), 100 * entries[i].spread);
    if (noisy)
        printf(" of the median; let nothing else run, or take more of them with --repeat\n");
}

void cla_bench_print_problem(const cla_bench *bench, size_t problem) {
    const cla_bench_entry *base = cla_bench_baseline(bench, problem);
    const size_t count = bench->device_count * bench->algorithm_count;
    const cla_bench_entry *entries = cla_bench_entry_at(bench, problem, 0, 0);
    size_t measured = 0;
    printf("\n%s%s\n", bench->problems[problem].text, bench->backward ? ", forward and backward" : "");
    for (size_t i = 0; i < count; i++)
        measured += entries[i].state == CLA_BENCH_MEASURED;
    if (measured > 0)
        print_head(bench, base);
    for (size_t i = 0; i < count; i++)
        if (entries[i].state == CLA_BENCH_MEASURED)
            print_measured(bench, &entries[i], base);
    for (size_t i = 0; i < count; i++) {
        const bool expected = entries[i].state == CLA_BENCH_REFUSED && measured > 0 &&
                              (bench->device_count > 1 || !bench->algorithms_given); /* blas on OpenCL, and so on */
        if (entries[i].note[0] && !expected)
            print_note(&entries[i]);
    }
    for (size_t i = 0; i < count; i++)
        if (entries[i].state == CLA_BENCH_MEASURED && entries[i].profile)
            cla_profile_print(entries[i].profile);
    print_noisy(entries, count);
    print_peaks(bench, problem);
    fflush(stdout);
}

void cla_bench_print_left_out(const cla_bench *bench) {
    const cla_bench_entry *first = NULL;
    size_t problems = 0;
    for (size_t i = 0; i < bench->problem_count * bench->device_count * bench->algorithm_count; i++)
        if (bench->entries[i].left_out && !bench->entries[i].device->info.is_opencl) {
            first = first ? first : &bench->entries[i];
            problems++;
        }
    if (first)
        printf("\n%s was left out of %zu of %zu problems, the first %s: its plain loops take long there; --algorithms "
               "all runs them\n",
               clattn_algorithm_name(first->algorithm), problems, bench->problem_count, first->problem->text);
}

/* ---- crossovers ---- */

/* The quickest algorithm of a problem on a device, or on all `cpu` devices (NULL). */
static const cla_bench_entry *quickest(const cla_bench *bench, size_t problem, const cla_bench_device *device,
                                       bool transfers) {
    const cla_bench_entry *entries = cla_bench_entry_at(bench, problem, 0, 0), *best = NULL;
    for (size_t i = 0; i < bench->device_count * bench->algorithm_count; i++) {
        const cla_bench_entry *e = &entries[i];
        if (e->state != CLA_BENCH_MEASURED || (device ? e->device != device : e->device->info.is_opencl) ||
            (transfers && e->transfers_ms < 0))
            continue;
        if (!best || (transfers ? e->transfers_ms < best->transfers_ms : e->median_ms < best->median_ms))
            best = e;
    }
    return best;
}

typedef struct crossover {
    const cla_bench_entry *device, *cpu; /* at the size from which on the device is ahead; NULL: it never is */
    const cla_bench_entry *last_device, *last_cpu;
    size_t sizes;
    bool from_the_start;
} crossover;

static double time_of(const cla_bench_entry *e, bool transfers) { return transfers ? e->transfers_ms : e->median_ms; }

/* Problems of a family stand in the order of their sizes. */
static crossover find_crossover(const cla_bench *bench, const char *family, const cla_bench_device *device,
                                bool transfers) {
    crossover x = {0};
    for (size_t p = 0; p < bench->problem_count; p++) {
        if (strcmp(bench->problems[p].family, family) != 0)
            continue;
        const cla_bench_entry *mine = quickest(bench, p, device, transfers), *cpu = quickest(bench, p, NULL, transfers);
        if (!mine || !cpu)
            continue;
        const bool ahead = time_of(mine, transfers) < time_of(cpu, transfers);
        if (ahead && !x.device) {
            x.device = mine;
            x.cpu = cpu;
            x.from_the_start = x.sizes == 0;
        } else if (!ahead) {
            x.device = NULL;
        }
        x.last_device = mine;
        x.last_cpu = cpu;
        x.sizes++;
    }
    return x;
}

static void print_crossover(const cla_bench *bench, const char *family, const cla_bench_device *device,
                            bool transfers) {
    const crossover x = find_crossover(bench, family, device, transfers);
    const char *with = transfers ? ", transfers included" : "";
    if (x.sizes < 2)
        return;
    const cla_bench_entry *mine = x.device ? x.device : x.last_device, *cpu = x.device ? x.cpu : x.last_cpu;
    printf("%s: %s ", family, device->info.spec);
    if (!x.device)
        printf("does not overtake cpu up to %c = %" PRId64, bench->swept, mine->problem->size);
    else if (x.from_the_start)
        printf("is ahead of cpu from the smallest %c on, %" PRId64, bench->swept, mine->problem->size);
    else
        printf("overtakes cpu at %c = %" PRId64, bench->swept, mine->problem->size);
    printf("%s (%s %.3g ms, %s %.3g ms)\n", with, clattn_algorithm_name(mine->algorithm), time_of(mine, transfers),
           clattn_algorithm_name(cpu->algorithm), time_of(cpu, transfers));
}

static bool is_first_of_family(const cla_bench *bench, size_t problem) {
    for (size_t i = 0; i < problem; i++)
        if (strcmp(bench->problems[i].family, bench->problems[problem].family) == 0)
            return false;
    return true;
}

void cla_bench_print_crossovers(const cla_bench *bench) {
    printf("\n");
    for (size_t p = 0; p < bench->problem_count; p++)
        for (size_t d = 0; d < bench->device_count && is_first_of_family(bench, p); d++)
            if (bench->devices[d].info.is_opencl) {
                print_crossover(bench, bench->problems[p].family, &bench->devices[d], false);
                print_crossover(bench, bench->problems[p].family, &bench->devices[d], true);
            }
}

/* ---- JSON ---- */

/* Six digits: more are noise. */
static bool add_number(cJSON *object, const char *name, double value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.6g", value);
    return cJSON_AddNumberToObject(object, name, strtod(digits, NULL)) != NULL;
}

static bool add_entry(cJSON *list, const cla_bench_entry *e) {
    cJSON *o = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(o, "problem", e->problem->text) &&
              cJSON_AddStringToObject(o, "device", e->device->info.spec) &&
              cJSON_AddStringToObject(o, "device_name", e->device->info.name) &&
              cJSON_AddStringToObject(o, "driver", e->device->info.driver) &&
              cJSON_AddStringToObject(o, "algorithm", clattn_algorithm_name(e->algorithm)) &&
              add_number(o, "median_ms", e->median_ms) && add_number(o, "min_ms", e->min_ms) &&
              add_number(o, "max_ms", e->max_ms);
    ok = ok && (e->transfers_ms >= 0 ? add_number(o, "transfers_ms", e->transfers_ms)
                                     : cJSON_AddNullToObject(o, "transfers_ms") != NULL);
    if (ok && e->backward_ms > 0)
        ok = add_number(o, "forward_ms", e->forward_ms) && add_number(o, "backward_ms", e->backward_ms) &&
             add_number(o, "forward_gflops", e->forward_operations / e->forward_ms * 1e-6) &&
             add_number(o, "backward_gflops", (e->operations - e->forward_operations) / e->backward_ms * 1e-6);
    ok = ok && add_number(o, "operations", e->operations) && add_number(o, "gflops", e->gflops) &&
         cJSON_AddNumberToObject(o, "peak_bytes", (double)e->peak_bytes) && add_number(o, "cold_ms", e->cold_ms) &&
         cJSON_AddNumberToObject(o, "repeats", e->repeats) && cJSON_AddStringToObject(o, "version", clattn_version());
    const double share = cla_bench_share(e);
    if (ok && share > 0)
        ok = add_number(o, "peak_gflops", e->peak_gflops) && add_number(o, "peak_gbytes", e->peak_gbytes) &&
             add_number(o, "peak_share", share);
    cJSON *profile = ok && e->profile ? cla_profile_json(e->profile) : NULL;
    if (ok && e->profile)
        ok = profile && cJSON_AddItemToObject(o, "profile", profile);
    if (ok && cJSON_AddItemToArray(list, o))
        return true;
    cJSON_Delete(o);
    return false;
}

int cla_bench_write_json(const cla_bench *bench, const char *path) {
    cJSON *list = cJSON_CreateArray();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < bench->problem_count * bench->device_count * bench->algorithm_count; i++)
        if (bench->entries[i].state == CLA_BENCH_MEASURED)
            ok = add_entry(list, &bench->entries[i]);
    char *text = ok ? cJSON_Print(list) : NULL;
    cJSON_Delete(list);
    if (!text)
        return cla_fail(CLA_EXIT_FAILED, "bench: --json: out of memory");
    FILE *file = fopen(path, "wb");
    ok = file && fprintf(file, "%s\n", text) > 0 && !ferror(file);
    if (file)
        ok = fclose(file) == 0 && ok;
    free(text);
    return ok ? CLA_EXIT_OK : cla_fail(CLA_EXIT_FAILED, "bench: --json: %s: %s", path, strerror(errno));
}
