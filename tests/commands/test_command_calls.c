/* SPDX-License-Identifier: Apache-2.0 */
/* Each place of the command line that calls the library, cJSON, or for memory: its call fails, and the command says so,
 * or goes on without. Each place that asks for a signal gets one. Studies do not compute here, and `cpu` passes for an
 * OpenCL device where only those are profiled or tuned. */
#define _XOPEN_SOURCE 700 /* setenv */
#include "command.h"
#include "library_calls.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool command_fails(const char *name);
bool command_fails(const char *name) { return name == NULL; } /* none does */

static bool says(const command_result *r, const char *word) {
    return strstr(r->out, word) != NULL || strstr(r->err, word) != NULL;
}

/* What every command printed that ends in 1: the reason. */
static bool is_told(const command_result *r) {
    return says(r, MADE_TO_FAIL) || says(r, "memory") || says(r, "failed") || says(r, "clattn: ") ||
           says(r, "not tuned: none of the algorithms");
}

static int list_numbers(const char *line, command_result *result) {
    library_begin();
    library_number_count = 0;
    library.lists = true;
    command_run(line, result);
    library.lists = false;
    return result->status;
}

/* `times` calls of each place fail, one after another. */
static void each_call_fails(const char *line, int times, const char *word) {
    static command_result r;
    int told = 0;
    library.times = times;
    const int usual = list_numbers(line, &r);
    cr_expect(says(&r, word), "%s: no \"%s\" in %s%s", line, word, r.err, r.out);
    cr_expect(!says(&r, MADE_TO_FAIL), "%s: %s%s", line, r.err, r.out);
    for (int i = 0; i < library_number_count; i++) {
        library_begin();
        library.fails_at = library_numbers[i];
        command_run(line, &r);
        cr_expect(r.status == 0 || r.status == 1 || r.status == 2, "%s: %s: status %d", line, library.failed, r.status);
        cr_expect(r.status == usual || is_told(&r), "%s: %s: not told: %s%s", line, library.failed, r.err, r.out);
        told += says(&r, MADE_TO_FAIL);
    }
    library_begin();
    command_run(line, &r);
    cr_expect_eq(r.status, usual, "%s: status %d afterwards: %s%s", line, r.status, r.err, r.out);
    cr_expect(told > 0, "%s: nothing fails", line);
    fprintf(stderr, "%4d calls, %4d of them told: %s\n", library_number_count, told, line);
}

/* From each place on that asks, it is interrupted. */
static void each_place_is_interrupted(const char *line) {
    static command_result r;
    library.times = 2;
    list_numbers(line, &r);
    int told = 0, count = 0;
    static long numbers[LIBRARY_NUMBERS];
    /* Calls are listed as well: a number that is no question's is just another moment. */
    for (int i = 0; i < library_number_count; i++)
        if (library_numbers[i] < library.questions)
            numbers[count++] = library_numbers[i];
    for (int i = 0; i < count; i++) {
        library_begin();
        library.interrupted_at = numbers[i];
        command_run(line, &r);
        told += says(&r, "interrupted");
        cr_expect(r.status >= 0 && r.status <= 130, "%s: question %ld: status %d", line, numbers[i], r.status);
    }
    cr_expect(told > 0, "%s: it was never told", line);
}

static void begin(void) {
    command_folder("each");
    setenv("CLATTN_DEVICE", "cpu", 1);
    setenv("CLATTN_CACHE_DIR", "off", 1);
    setenv("CLATTN_TUNING_FILE", "off", 1);
    command_write_npy("q.npy", "<f4", "(1, 2, 3, 4)", 24, 0.5);
    command_write_npy("k.npy", "<f4", "(1, 2, 5, 4)", 40, 0.25);
}

Test(command_calls, studies) {
    begin();
    library.skips = true;
    each_call_fails("study stack --type f32", 2, "stack");
    each_call_fails("study gradient --json s.json --plot g.svg", 1, "gradient");
    each_call_fails("study scale --plot s.svg", 1, "scale");
    command_folder(NULL);
}
Test(command_calls, study_of_cost) {
    begin();
    each_place_is_interrupted("study cost --to 512 --limit 0.01 --json s.json");
    library.pretends = true;
    library.skips = true;
    each_call_fails("study cost --to 512 --limit 0.01 --json s.json", 1, "cost");
    command_folder(NULL);
}

Test(command_calls, bench) {
    begin();
    each_place_is_interrupted("bench 'h2 n8 d8' --backward --repeat 2 --devices cpu --json b.json");
    each_place_is_interrupted("bench --linear 'm4 n8 k8 f32' --repeat 1 --devices cpu --json b.json");
    each_call_fails("bench --linear 'm4 n8 k8 f32 bias' --repeat 1 --devices cpu --json b.json", 1, "m4");
    library.pretends = true;
    each_call_fails("bench 'h2 n8 d8' --backward --repeat 1 --devices cpu --json b.json --roofline r.svg", 2, "h2");
    each_call_fails("bench 'h2 n8 d8 f64' --repeat 1 --devices cpu --algorithms blas --roofline r.svg", 1, "h2");
    command_folder(NULL);
}

Test(command_calls, bench_tells_noise) {
    static command_result r;
    begin();
    library_begin();
    library.pretends = true;
    command_run("bench 'h2 n8 d8' --repeat 9 --devices cpu --algorithms blas", &r);
    cr_expect(r.status == 0 && !says(&r, "noisy"), "%s", r.out);
    library.shakes = true;
    command_run("bench 'h2 n8 d8' --repeat 9 --devices cpu --algorithms blas", &r);
    cr_expect(r.status == 0 && says(&r, "\n  noisy: the middle half of the runs differs for cpu blas by "), "%s",
              r.out);
    command_run("bench 'h2 n8 d8' --repeat 4 --devices cpu --algorithms blas", &r);
    cr_expect(r.status == 0 && !says(&r, "noisy"), "four runs have no middle half: %s", r.out);
    command_folder(NULL);
}

Test(command_calls, profile) {
    begin();
    library.pretends = true;
    each_call_fails("run q.npy k.npy k.npy -o o.npy --verify --profile --profile-json p.json --roofline r.svg", 1,
                    "kernel");
    command_folder(NULL);
}

Test(command_calls, tune) {
    begin();
    library.pretends = true;
    each_call_fails("tune 'h1 n8 d8' --algorithms blas --out r.txt --limit 20", 1, "WRONG");
    each_call_fails("tune --clblast 'h1 n8 d8' --out r.txt --limit 20", 1, "CLBlast");
    each_place_is_interrupted("tune 'h1 n8 d8' 'h1 n9 d8' --algorithms blas --out r.txt --limit 20");
    each_place_is_interrupted("tune --clblast 'h1 n8 d8' --out r.txt --limit 20");
    library.slow = "blas";
    each_call_fails("tune 'h1 n8 d8' --out r.txt --limit 20", 1, "instead of blas");
    library.slow = "reference";
    each_call_fails("tune 'h1 n8 d8' --out r.txt --limit 20", 1, "takes");
    command_folder(NULL);
}

#define RUN "run q.npy k.npy k.npy -o o.npy "
Test(command_calls, run) {
    begin();
    command_write_npy("two.npy", "<f4", "(2,)", 2, 0.5);
    command_write_npy("keep.npy", "|u1", "(3, 5)", 15, 1);
    command_write_npy("bias.npy", "<f4", "(3, 5)", 15, 0.25);
    command_write_npy("drop.npy", "|u1", "(1, 2, 3, 5)", 30, 1);
    command_write_npy("q1.npy", "<f4", "(1, 3, 8)", 24, 1);
    command_write_npy("rows.npy", "<f4", "(3, 8)", 24, 1);
    each_call_fails(RUN "--keep keep.npy --bias bias.npy --key-lengths 4 --query-lengths 2 --sinks two.npy --softcap 2 "
                        "--verify --dump d.safetensors",
                    2, "by  ");
    each_call_fails(RUN "--causal --offsets 1 --prefix-lengths 2 --alibi-slopes 1,2 --lse l.npy --weights w.npy "
                        "--kv-type f16,f64 --heatmap m.svg",
                    2, "by  ");
    each_call_fails("run q1.npy q1.npy q1.npy -o o.npy --layout bse --heads 2 --explain", 2, "by  ");
    each_call_fails("run rows.npy rows.npy rows.npy -o o.npy --layout sd --cu-queries 0,1,3 --cu-keys 0,2,3", 2,
                    "by  ");
    command_folder(NULL);
}

Test(command_calls, devices) {
    begin();
    library.pretends = true;
    each_call_fails("devices --peak --build", 3, "not usable");
    each_call_fails("devices --peak --build --json", 3, "\"peak\"");
    each_call_fails("devices --device cpu --json", 1, "cpu");
    command_folder(NULL);
}

Test(command_calls, data_of_problems) {
    static const char *const problems[] = {
        "b2 h2 q4 k8 d8 causal=1 keep bias sinks lengths qlengths prefix alibi segments", "b2 h2 n8 d8 varlen causal",
        "b2 h2 q4 k8 d8 pages=4 causal=bottom-right lengths"};
    begin();
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        char line[200];
        snprintf(line, sizeof line, "bench '%s' --repeat 1 --devices cpu --algorithms blas", problems[i]);
        each_call_fails(line, 20, "blas");
    }
    command_folder(NULL);
}

#define CHECK "check " TESTS_DIR "/vectors/torch.safetensors --device cpu --filter "
Test(command_calls, checks) {
    begin();
    each_place_is_interrupted(CHECK "'sdpa_causal*'");
    each_call_fails(CHECK "'mha_bias_kv_kdim*'", 1, "passed");
    each_call_fails("check " TESTS_DIR "/vectors/broadcast.safetensors --device cpu --filter grad_rank5_groups", 1,
                    "passed");
    each_call_fails(CHECK "dec_all_masks", 1, "passed");
    command_folder(NULL);
}
