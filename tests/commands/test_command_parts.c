/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the command line that a command reaches only by chance or on other devices: numbers in texts, tables and
 * plots of measurements that are made up here, notes on a terminal, signals. */
#define _XOPEN_SOURCE 700
#include "args.h"
#include "bench_report.h"
#include "command.h"
#include "heatmap.h"
#include "interrupt.h"
#include "kernel_profile.h"
#include "problem_data.h"
#include "progress.h"
#include "study.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool command_fails(const char *name);
bool command_fails(const char *name) { return name == NULL; } /* none does */

static bool terminal;
int __wrap_isatty(int file);
int __wrap_isatty(int file) {
    (void)file;
    return terminal;
}

/* What is printed on a stream meanwhile. */
static FILE *before, *during;
static void catch (FILE **stream) {
    fflush(*stream);
    before = *stream;
    during = tmpfile();
    cr_assert(during);
    *stream = during;
}
static const char *caught(FILE **stream) {
    static char text[1 << 16];
    *stream = before;
    rewind(during);
    text[fread(text, 1, sizeof text - 1, during)] = '\0';
    fclose(during);
    return text;
}

Test(command_parts, numbers_in_texts) {
    static const char *const bad[] = {
        "", " 1", "x", "+", "-", ".", "1x", "99999999999999999999", "-99999999999999999999"};
    static const char *const bad_reals[] = {"", " 1", "x", "+", ".", "1x", "1e999", "-1e999"};
    int64_t n, list[3];
    size_t count;
    double x;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(!cla_parse_i64(bad[i], &n), "%s", bad[i]);
    for (size_t i = 0; i < sizeof bad_reals / sizeof *bad_reals; i++)
        cr_expect(!cla_parse_f64(bad_reals[i], &x), "%s", bad_reals[i]);
    cr_expect(cla_parse_i64("-12", &n) && n == -12);
    cr_expect(cla_parse_f64("+.5e1", &x) && x == 5);
    cr_expect(cla_parse_i64_list("1,2,3", list, 3, &count) && count == 3 && list[2] == 3);
    cr_expect(!cla_parse_i64_list("1,2,3,4", list, 3, &count));
    cr_expect(!cla_parse_i64_list("1,,3", list, 3, &count));
    cr_expect(!cla_parse_i64_list("1,1234567890123456789012345678901234567890", list, 3, &count));
}

Test(command_parts, near_names) {
    static const char *const names[] = {"a-name-that-is-longer-than-forty-characters-are", "window", "widow", "no",
                                        NULL};
    cr_expect_str_eq(cla_nearest("windo", names), "window");
    cr_expect_str_eq(cla_nearest("widw", names), "widow");
    cr_expect_str_eq(cla_nearest("na", names), "no");
    cr_expect_null(cla_nearest("n", names));
    cr_expect_null(cla_nearest("a-name-that-is-longer-than-forty-characters-ar", names));
    cr_expect_null(cla_nearest("zzzzzz", names));
    cr_expect_eq(cla_index_of("widow", names), 2);
    cr_expect_eq(cla_index_of("wind", names), -1);
}

Test(command_parts, exit_statuses) {
    catch (&stderr);
    const int exit_status = cla_fail_status(CLATTN_E_DTYPE, NULL); /* the library has said nothing yet */
    const char *text = caught(&stderr);
    cr_expect_eq(exit_status, CLA_EXIT_USAGE);
    cr_expect(strstr(text, "clattn: ") == text && strlen(text) > 10, "%s", text);
    cr_expect_eq(cla_exit_of(CLATTN_OK), CLA_EXIT_OK);
    cr_expect_eq(cla_exit_of(CLATTN_E_SHAPE), CLA_EXIT_USAGE);
    cr_expect_eq(cla_exit_of(CLATTN_E_MEMORY), CLA_EXIT_FAILED);
}

/* Operations, bytes and times of 0 are kernels that nobody knows these of. */
static cla_profile_report made_up(void) {
    cla_profile_report r = {.device = "opencl:0:0",
                            .algorithm = "fused_lanes",
                            .title = "n8 'd8'",
                            .run_ms = 2,
                            .count = 5,
                            .peak_gflops = 100,
                            .peak_gbytes = 10,
                            .near_gbytes = 20,
                            .moved_bytes = 1e6};
    static const struct {
        const char *name;
        double ms, operations, bytes;
    } kernels[] = {{"both", 1, 1e9, 1e6},
                   {"reads", 1, 1, 1e9},
                   {"computes", 1, 1e9, 0},
                   {"unknown", 1, 0, 0},
                   {"no time", 0, 1e9, 1e6}};
    for (size_t i = 0; i < r.count; i++) {
        clattn_profile_entry *e = &r.entries[i];
        snprintf(e->name, sizeof e->name, "%s", kernels[i].name);
        e->count = CLA_PROFILE_RUNS;
        e->total_ms = CLA_PROFILE_RUNS * kernels[i].ms;
        e->operations = kernels[i].operations;
        e->moved_bytes = kernels[i].bytes;
        e->computed_blocks = i == 0 ? 10 : 0;
    }
    return r;
}

Test(command_parts, a_profile_says_what_is_known) {
    cla_profile_report r = made_up();
    bool by_reading;
    catch (&stdout);
    cla_profile_print(&r);
    r.run_ms = 0;
    cla_profile_print(&r);
    const char *text = caught(&stdout);
    cr_expect(strstr(text, "reading") && strstr(text, "computing") && strstr(text, "blocks of keys a run"), "%s", text);
    cr_expect(cla_profile_bound(&r, &r.entries[0], &by_reading) > 0 && !by_reading);
    cr_expect(cla_profile_bound(&r, &r.entries[1], &by_reading) > 0 && by_reading);
    cr_expect(cla_profile_bound(&r, &r.entries[3], &by_reading) < 0);
    r.is_f64 = true;
    cr_expect(cla_profile_bound(&r, &r.entries[2], &by_reading) == 0);
    cJSON *json = cla_profile_json(&r);
    const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(json, "kernels");
    cr_assert_eq(cJSON_GetArraySize(kernels), 5);
    cr_expect(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(kernels, 3), "bound_ms")));
    cr_expect(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(kernels, 4), "share")));
    cr_expect(cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(kernels, 0), "share")));
    cJSON_Delete(json);
}

Test(command_parts, a_roofline_draws_what_is_known) {
    cla_profile_report r = made_up(), far = r, none = r;
    const cla_profile_report *reports[] = {&r, &far};
    far.title = NULL;
    far.near_gbytes = 1;
    command_folder("parts");
    cr_expect_eq(cla_profile_plot(reports, 2, "bench", "p.svg"), CLA_EXIT_OK);
    cr_expect_eq(cla_profile_plot(reports + 1, 1, "bench", "p.svg"), CLA_EXIT_OK);
    none.count = 0;
    reports[0] = &none;
    catch (&stderr);
    const int exit_status = cla_profile_plot(reports, 1, "bench", "p.svg");
    const char *text = caught(&stderr);
    cr_expect_eq(exit_status, CLA_EXIT_FAILED);
    cr_expect(strstr(text, "nothing to draw"), "%s", text);
    command_folder(NULL);
}

Test(command_parts, bytes_to_read_are_what_was_moved_or_may_be_allocated) {
    clattn_context *context = NULL;
    clattn_device_info info;
    cr_assert_eq(clattn_context_create("cpu", NULL, &context), CLATTN_OK);
    cr_assert_eq(clattn_context_info(context, &info), CLATTN_OK);
    cr_expect_eq(cla_read_bytes(context, 0), 1);
    cr_expect_eq(cla_read_bytes(context, 4096), 4096);
    cr_expect_eq(cla_read_bytes(context, 1e30), info.max_alloc_bytes);
    cr_expect_eq(cla_read_bytes(NULL, 4096), 1);
    clattn_context_destroy(context);
}

static clattn_array array_of(float *numbers, size_t count) {
    clattn_array a = {
        .dtype = CLATTN_F32, .rank = 1, .shape = {(int64_t)count}, .data = numbers, .bytes = count * sizeof *numbers};
    return a;
}

Test(command_parts, differences_see_what_is_no_number) {
    float a[] = {1, NAN, 3}, b[] = {1, NAN, 4}, c[] = {1, 2, 3}, d[] = {INFINITY, 2, 3};
    const clattn_array x = array_of(a, 3), y = array_of(b, 3), z = array_of(c, 3), w = array_of(d, 3);
    cr_expect_eq(cla_largest_difference(&x, &y), 1);
    cr_expect(isinf(cla_largest_difference(&x, &z)));
    cr_expect(isinf(cla_largest_difference(&w, &z)));
    cr_expect_eq(cla_largest_difference(&z, &z), 0);
    cr_expect_eq(cla_largest(&y), 4);
    cr_expect(cla_has_nan(&x));
    cr_expect(!cla_has_nan(&z));
    clattn_array unknown = z;
    unknown.dtype = CLATTN_BOOL;
    cr_expect(cla_largest(&unknown) >= 0);
}

/* ---- a terminal ---- */

Test(command_parts, a_note_of_what_takes_long) {
    terminal = true;
    catch (&stderr);
    cla_note_begin(1, "quick", NULL);
    const char *text = caught(&stderr);
    cr_expect_str_eq(text, "");
    catch (&stderr);
    cla_note_begin(12, "computing with", "blas");
    cla_note_begin(-1, "building", NULL);
    cla_note_end();
    text = caught(&stderr);
    cr_expect(strstr(text, "clattn: computing with blas (about 12 s) ..."), "%s", text);
    cr_expect(strstr(text, "clattn: building ..."), "%s", text);
    terminal = false;
    catch (&stderr);
    cla_note_begin(12, "computing with", "blas");
    cla_note_end();
    cr_expect_str_eq(caught(&stderr), "");
}

Test(command_parts, progress_from_the_third_second_on) {
    terminal = true;
    catch (&stderr);
    cla_progress p = cla_progress_begin("check");
    cla_progress_step(&p, 1, 10);
    cla_progress_end(&p);
    cr_expect_str_eq(caught(&stderr), "");
    p.start -= 10;
    catch (&stderr);
    cla_progress_step(&p, 0, 10);
    cla_progress_step(&p, 5, 10); /* too soon behind the last */
    cr_expect(p.shown);
    p.last -= 1;
    cla_progress_step(&p, 5, 10);
    p.last -= 1;
    cla_progress_step(&p, 10, 10);
    cla_progress_end(&p);
    const char *text = caught(&stderr);
    cr_expect(strstr(text, "check: 5 of 10, about 10 s left"), "%s", text);
    cr_expect(strstr(text, "check: 0 of 10") && strstr(text, "check: 10 of 10"), "%s", text);
    cr_expect(!p.shown);
}

/* ---- signals ---- */

/* In a child: what it does, and the signals it gets. */
static int status_of_child(bool watches, int signals, const char *path) {
    int status = 0;
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        static char names[70][24];
        cla_interrupt_begin();
        if (watches)
            cla_interrupt_watch();
        cla_interrupt_remove(path);
        for (int i = 0; i < 70; i++) { /* more than it keeps */
            snprintf(names[i], sizeof names[i], "file-%d", i);
            cla_interrupt_remove(names[i]);
        }
        cla_interrupt_forget(names[3]);
        cla_interrupt_forget(names[69]); /* is not kept */
        cla_interrupt_forget(NULL);
        for (int i = 0; i < signals; i++)
            raise(SIGTERM);
        _exit(cla_interrupted() ? cla_interrupt_exit(7) : 50 + cla_interrupt_exit(7));
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(command_parts, signals) {
    command_folder("signals");
    command_write("half", "written");
    cr_expect_eq(status_of_child(false, 0, "half"), 57);
    cr_expect_eq(status_of_child(true, 1, "half"), 128 + SIGTERM);
    cr_expect_eq(access("half", F_OK), 0, "noted, and left to the verb");
    cr_expect_eq(status_of_child(true, 2, "half"), 128 + SIGTERM);
    cr_expect_neq(access("half", F_OK), 0, "the second signal takes it away");
    command_write("half", "written");
    cr_expect_eq(status_of_child(false, 1, "half"), 128 + SIGTERM);
    cr_expect_neq(access("half", F_OK), 0);
    command_folder(NULL);
}

/* ---- heat maps ---- */

static int draw(int heads, int n, int m, double low, bool nan) {
    static double numbers[4 * 700 * 700];
    for (int i = 0; i < heads * n * m; i++)
        numbers[i] = i % 7 == 0 ? low : (double)(i % 97) / 97;
    if (nan)
        numbers[1] = NAN;
    const int64_t shape[] = {heads, n, m};
    const cla_heatmap map = {
        .weights = clattn_tensor_host(numbers, CLATTN_F64, 3, shape), .title = "t", .subtitle = "s"};
    return cla_heatmap_write("m.svg", &map);
}

static bool file_has(const char *path, const char *word) {
    static char text[1 << 22];
    FILE *file = fopen(path, "rb");
    cr_assert(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strstr(text, word) && strstr(text, "</svg>");
}

Test(command_parts, heat_maps_of_any_size) {
    command_folder("maps");
    cr_expect_eq(draw(1, 2, 3, 0, false), CLA_EXIT_OK);
    cr_expect(file_has("m.svg", "<rect"));
    cr_expect_eq(draw(2, 3, 40, 0.5, true), CLA_EXIT_OK);
    cr_expect(file_has("m.svg", "NaN"));
    cr_expect_eq(draw(1, 700, 3, 0, false), CLA_EXIT_OK);
    cr_expect(file_has("m.svg", "Each cell is the mean of"));
    cr_expect_eq(draw(1, 3, 700, 0.25, false), CLA_EXIT_OK);
    cr_expect_eq(draw(4, 300, 300, 0, true), CLA_EXIT_OK);
    cr_expect(file_has("m.svg", "data:image/png;base64,"));
    cr_expect_eq(draw(1, 1, 1, 0, false), CLA_EXIT_OK);
    cr_expect_eq(draw(1, 2, 2, -1, false), CLA_EXIT_OK);
    catch (&stderr);
    cr_expect_eq(draw(1, 0, 2, 0, false), CLA_EXIT_USAGE);
    const char *text = caught(&stderr);
    cr_expect(strstr(text, "there are no weights to draw"), "%s", text);
    command_folder(NULL);
}

/* ---- figures of studies ---- */

Test(command_parts, figures_that_are_off) {
    cla_study s = {.name = "made_up", .dtype = CLATTN_F32};
    cla_study_figure(&s, "right", "1", 1, 1, 0);
    catch (&stdout);
    cla_study_print(&s);
    const char *text = caught(&stdout);
    cr_expect(!strstr(text, "OFF"), "%s", text);
    cla_study_figure(&s, "off", NULL, 1, 2, 0.5);
    cla_study_figure(&s, "no number", NULL, 1, (double)NAN, 0.5);
    cr_expect_eq(cla_study_off(&s), 2);
    cla_study_row(&s, "a,b", (const double[]){1, (double)INFINITY});
    catch (&stdout);
    cla_study_print(&s);
    text = caught(&stdout);
    cr_expect(strstr(text, "OFF"), "%s", text);
    cJSON *json = cla_study_json(&s);
    cr_expect(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(json, "agrees")));
    cJSON_Delete(json);
    snprintf(s.skipped, sizeof s.skipped, "no device");
    catch (&stdout);
    cla_study_print(&s);
    text = caught(&stdout);
    cr_expect(strstr(text, "no device"), "%s", text);
    json = cla_study_json(&s);
    cr_expect(cJSON_IsString(cJSON_GetObjectItemCaseSensitive(json, "skipped")));
    cJSON_Delete(json);
    cla_study_free(&s);
}
