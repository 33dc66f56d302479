/* SPDX-License-Identifier: Apache-2.0 */
/* The tuner's record: what of a file is read, what is passed over, how it is written; and that plans follow it where it
 * is possible, and only there. */
#define _XOPEN_SOURCE 700
#include "algo_checks.h"
#include "ops/gemm_sets.h"
#include "runtime/tuning.h"
#include "runtime/tuning_file.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MINE "device P | N | D | V | 2 units\n"
static const char me[] = "P | N | D | V | 2 units";

static cla_tuning_record parsed(const char *text) {
    cla_tuning_record r = {0};
    SUCCEEDS(cla_tuning_parse(text, strlen(text), me, &r));
    return r;
}

static void holds(const cla_tuning_record *r, const char *key, const char *value, double ms, double default_ms) {
    const cla_tuning_entry *e = cla_tuning_look(r, key);
    cr_assert_not_null(e, "%s", key);
    cr_expect_str_eq(e->value, value);
    cr_expect_float_eq(e->ms, ms, 1e-9);
    cr_expect_float_eq(e->default_ms, default_ms, 1e-9);
}

/* ---- reading ---- */

Test(tuning, entries_of_this_device_are_read) {
    cla_tuning_record r =
        parsed("clattn tuning 1\n# a comment\n\n" MINE "a f32 d64: x=1 y=2 | 1.25 ms, default 10 ms\r\n"
               "b: z | 0.0001 ms, default 2.5 ms");
    cr_expect_eq(r.count, 2);
    holds(&r, "a f32 d64", "x=1 y=2", 1.25, 10);
    holds(&r, "b", "z", 0.0001, 2.5);
    cr_expect_str_eq(cla_str_text(&r.skipped), "");
    cr_expect_null(cla_tuning_look(&r, "a f32"));
    cla_tuning_record_free(&r);
}

Test(tuning, the_last_line_of_a_key_holds) {
    cla_tuning_record r = parsed("clattn tuning 1\n" MINE "a: x | 1 ms, default 2 ms\na: y | 3 ms, default 4 ms\n");
    cr_expect_eq(r.count, 1);
    holds(&r, "a", "y", 3, 4);
    cla_tuning_record_free(&r);
}

Test(tuning, bad_lines_are_passed_over_by_number) {
    static const char *const bad[] = {
        "nothing",
        "a x | 1 ms, default 2 ms",
        "a: x",
        "a: x | 1 ms",
        "a: x | 1 ms, default 2",
        "a: x | 1 ms, default 2 ms.",
        "a: x | -1 ms, default 2 ms",
        "a: x | 1e3 ms, default 2 ms",
        "a: x | nan ms, default 2 ms",
        "a: x | 99999999999 ms, default 2 ms",
        "a: x | . ms, default 2 ms",
        ": x | 1 ms, default 2 ms",
        "a:  | 1 ms, default 2 ms",
        "a: x\ty | 1 ms, default 2 ms",
        "a: x\xff | 1 ms, default 2 ms",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[400];
        snprintf(text, sizeof text, "clattn tuning 1\n" MINE "%s\nb: y | 1 ms, default 2 ms\n", bad[i]);
        cla_tuning_record r = parsed(text);
        cr_expect_eq(r.count, 1, "%s", bad[i]);
        cr_expect_eq(r.skipped_count, 1, "%s", bad[i]);
        cr_expect_eq(strncmp(cla_str_text(&r.skipped), "line 3: ", 8), 0, "%s", cla_str_text(&r.skipped));
        holds(&r, "b", "y", 1, 2);
        cla_tuning_record_free(&r);
    }
}

Test(tuning, a_line_that_is_too_long_is_passed_over) {
    char text[1000] = "clattn tuning 1\n" MINE "a: ";
    memset(text + strlen(text), 'x', 300);
    strcat(text, " | 1 ms, default 2 ms\n");
    cla_tuning_record r = parsed(text);
    cr_expect_eq(r.count, 0);
    cr_expect_eq(r.skipped_count, 1);
    cla_tuning_record_free(&r);
}

Test(tuning, an_entry_before_any_device_is_passed_over) {
    cla_tuning_record r = parsed("clattn tuning 1\na: x | 1 ms, default 2 ms\n" MINE);
    cr_expect_eq(r.count, 0);
    cr_expect_str_eq(cla_str_text(&r.skipped), "line 2: an entry before any device\n");
    cla_tuning_record_free(&r);
}

Test(tuning, entries_of_other_devices_and_drivers_are_kept_and_not_read) {
    static const char others[] = "device P | N | D2 | V | 2 units\na: x | 1 ms, default 2 ms\n"
                                 "device P | N | D | V | 2 unit\nwhatever\n";
    char text[400];
    snprintf(text, sizeof text, "clattn tuning 1\n%s" MINE "b: y | 1 ms, default 2 ms\n", others);
    cla_tuning_record r = parsed(text);
    cr_expect_eq(r.count, 1);
    cr_expect_str_eq(cla_str_text(&r.others), others);
    cr_expect_eq(r.skipped_count, 0);
    cla_tuning_record_free(&r);
}

Test(tuning, what_does_not_begin_as_a_record_is_none) {
    static const char *const texts[] = {("clattn tuning 2\n" MINE), "clattn tuning 11\n", "\n", "x", "clattn tuning"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cla_tuning_record r = {0};
        FAILS(cla_tuning_parse(texts[i], strlen(texts[i]), me, &r), CLATTN_E_FORMAT,
              "line 1 is not \"clattn tuning 1\"");
        cla_tuning_record_free(&r);
    }
    cla_tuning_record r = parsed("");
    cr_expect_eq(r.count, 0);
}

/* Any bytes: what is not a record of entries ends in an error or in lines passed over, and nothing else happens. */
Test(tuning, damaged_text_does_no_harm) {
    static const char good[] =
        "clattn tuning 1\n" MINE "a f32: x=1 | 1.25 ms, default 10 ms\nb: z | 3 ms, default 2 ms\n";
    oracle_random random = {5};
    for (int round = 0; round < 20000; round++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (int64_t n = 1 + oracle_below(&random, 4); n > 0; n--)
            text[oracle_below(&random, sizeof good - 1)] = (char)oracle_below(&random, 256);
        cla_tuning_record r = {0};
        const size_t bytes = (size_t)oracle_below(&random, sizeof good);
        const clattn_status status = cla_tuning_parse(text, bytes, me, &r);
        cr_assert(status == CLATTN_OK || status == CLATTN_E_FORMAT);
        cr_assert_leq(r.count, 4);
        cla_tuning_record_free(&r);
    }
}

/* ---- writing ---- */

static char folder[64];
static char path[128];

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/clattn-tuning-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/below/tuning.txt", folder);
}

static void remove_folder(void) {
    char below[100];
    unlink(path);
    snprintf(below, sizeof below, "%s/below", folder);
    rmdir(below);
    cr_expect_eq(rmdir(folder), 0, "something is left in %s", folder);
}

static void put_file(const char *text) {
    char below[100];
    snprintf(below, sizeof below, "%s/below", folder);
    mkdir(below, 0700);
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
}

static char *get_file(char *text, size_t size) {
    FILE *f = fopen(path, "r");
    cr_assert_not_null(f);
    text[fread(text, 1, size - 1, f)] = '\0';
    fclose(f);
    return text;
}

Test(tuning, what_is_written_is_read_again, .init = make_folder, .fini = remove_folder) {
    cla_tuning_record r = parsed("clattn tuning 1\ndevice other\nq: x | 1 ms, default 2 ms\n" MINE), again = {0};
    SUCCEEDS(cla_tuning_put(&r, "a f32", "x=1 y=2", 0.03125, 123456.75));
    SUCCEEDS(cla_tuning_put(&r, "gone", "x", 1, 1));
    SUCCEEDS(cla_tuning_put(&r, "gone", NULL, 0, 0));
    SUCCEEDS(cla_tuning_write(path, me, &r));
    SUCCEEDS(cla_tuning_read(path, me, &again));
    cr_expect_eq(again.count, 1);
    holds(&again, "a f32", "x=1 y=2", 0.0313, 123456.75);
    cr_expect_str_eq(cla_str_text(&again.others), "device other\nq: x | 1 ms, default 2 ms\n");
    cla_tuning_record_free(&r);
    cla_tuning_record_free(&again);
}

Test(tuning, what_cannot_stand_in_a_line_is_refused) {
    cla_tuning_record r = {0};
    static const char *const keys[] = {"", " a", "a ", "a: b", "a\n", "# a", "device a", "\x80"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        FAILS(cla_tuning_put(&r, keys[i], "x", 1, 1), CLATTN_E_ARGUMENT, "cannot stand in a line");
    FAILS(cla_tuning_put(&r, "a", "x | y", 1, 1), CLATTN_E_ARGUMENT, "cannot stand in a line");
    FAILS(cla_tuning_put(&r, "a", "", 1, 1), CLATTN_E_ARGUMENT, "cannot stand in a line");
    FAILS(cla_tuning_put(&r, "a", "x", NAN, 1), CLATTN_E_ARGUMENT, "are no times");
    FAILS(cla_tuning_put(&r, "a", "x", 1, -1), CLATTN_E_ARGUMENT, "are no times");
    cr_expect_eq(r.count, 0);
}

/* ---- contexts ---- */

static const int64_t shape[] = {1, 2, 70, 16};
enum { ELEMENTS = 2 * 70 * 16 };

typedef struct fixture {
    clattn_context *context;
    clattn_buffer *in, *out, *state;
    clattn_attention_args args;
} fixture;

/* A new context, which reads the file anew. */
static fixture open_fixture(void) {
    fixture f = {0};
    setenv("CLATTN_TUNING_FILE", path, 1);
    f.context = checks_open("opencl");
    SUCCEEDS(clattn_buffer_create(f.context, ELEMENTS * 4, &f.in));
    SUCCEEDS(clattn_buffer_create(f.context, ELEMENTS * 4, &f.out));
    SUCCEEDS(clattn_buffer_create(f.context, ELEMENTS * 4, &f.state));
    f.args.q = f.args.k = f.args.v = clattn_tensor_buffer(f.in, CLATTN_F32, 4, shape);
    f.args.o = clattn_tensor_buffer(f.out, CLATTN_F32, 4, shape);
    return f;
}

static void close_fixture(fixture *f) {
    clattn_buffer_destroy(f->in);
    clattn_buffer_destroy(f->out);
    clattn_buffer_destroy(f->state);
    clattn_context_destroy(f->context);
    *f = (fixture){0};
}

typedef struct made {
    char algorithm[40], variant[100], key[200], algorithm_key[200], other[100], explain[4000];
} made;

static made make(const fixture *f, const clattn_attention_args *args) {
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    made m = {0};
    SUCCEEDS(clattn_plan_create(f->context, args, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    SUCCEEDS(clattn_plan_execute(plan, NULL));
    SUCCEEDS(clattn_context_sync(f->context));
    snprintf(m.algorithm, sizeof m.algorithm, "%s", info.algorithm);
    snprintf(m.variant, sizeof m.variant, "%s", info.variant);
    snprintf(m.key, sizeof m.key, "%s", clattn_plan_variant_key(plan));
    snprintf(m.algorithm_key, sizeof m.algorithm_key, "%s", clattn_plan_algorithm_key(plan));
    const char *second = clattn_plan_variant(plan, 1);
    snprintf(m.other, sizeof m.other, "%s", second ? second : "");
    snprintf(m.explain, sizeof m.explain, "%s", clattn_plan_explain(plan));
    clattn_plan_destroy(plan);
    return m;
}

static void set(const fixture *f, const char *key, const char *value) {
    const clattn_tuned entry = {.key = key, .value = value, .ms = 1.5, .default_ms = 2.5};
    SUCCEEDS(clattn_tuning_set(f->context, &entry));
}

#define SAYS(m, part) cr_expect(strstr((m).explain, (part)), "no \"%s\" in:\n%s", (part), (m).explain)

Test(tuning, a_plan_takes_the_recorded_variant, .init = make_folder, .fini = remove_folder) {
    fixture f = open_fixture();
    f.args.algorithm = "fused_tiles";
    const made before = make(&f, &f.args);
    SAYS(before, ": the default; ");
    cr_expect_str_eq(before.key, "fused_tiles f32 d16 v16 q128 k128 heads2 group1");
    cr_assert_str_neq(before.other, "");
    set(&f, before.key, before.other);
    cr_expect_str_eq(make(&f, &f.args).variant, before.other);
    SUCCEEDS(clattn_tuning_save(f.context, NULL));
    close_fixture(&f);
    f = open_fixture();
    f.args.algorithm = "fused_tiles";
    cr_expect_str_eq(clattn_tuning_file(f.context), path);
    const made after = make(&f, &f.args);
    cr_expect_str_eq(after.variant, before.other);
    SAYS(after, ": tuned, 1.5 ms against 2.5 ms by default; ");
    /* not: asked for, of another class, or bits that may not depend on sizes */
    clattn_attention_args a = f.args;
    a.variant = "default";
    cr_expect_str_eq(make(&f, &a).variant, before.variant);
    a.variant = before.variant;
    cr_expect_str_eq(make(&f, &a).variant, before.variant);
    a = f.args;
    a.causal = true;
    cr_expect_str_neq(make(&f, &a).variant, before.other);
    a = f.args;
    a.batch_invariant = true;
    cr_expect_str_neq(make(&f, &a).variant, before.other);
    close_fixture(&f);
}

Test(tuning, an_impossible_variant_is_passed_over, .init = make_folder, .fini = remove_folder) {
    fixture f = open_fixture();
    f.args.algorithm = "fused_tiles";
    const made before = make(&f, &f.args);
    set(&f, before.key, "tr=3 of nothing");
    const made m = make(&f, &f.args);
    cr_expect_str_eq(m.variant, before.variant);
    SAYS(m,
         "the tuner's record for fused_tiles f32 d16 v16 q128 k128 heads2 group1, \"tr=3 of nothing\", is impossible");
    set(&f, before.algorithm_key, "no_such_algorithm");
    f.args.algorithm = NULL;
    cr_expect_str_eq(make(&f, &f.args).algorithm, "fused_lanes");
    set(&f, before.algorithm_key, "blas"); /* does not apply on OpenCL */
    const made other = make(&f, &f.args);
    cr_expect_str_eq(other.algorithm, "fused_lanes");
    SAYS(other, "the tuner's record, \"blas\", is impossible here\n");
    close_fixture(&f);
    put_file(""); /* for the clean-up */
}

Test(tuning, a_plan_takes_the_recorded_algorithm, .init = make_folder, .fini = remove_folder) {
    fixture f = open_fixture();
    const made before = make(&f, &f.args);
    cr_expect_str_eq(before.algorithm, "fused_lanes");
    cr_expect_str_eq(before.algorithm_key, "algorithm f32 d16 v16 q128 k128 heads2 group1");
    set(&f, before.algorithm_key, "fused_split");
    const made m = make(&f, &f.args);
    cr_expect_str_eq(m.algorithm, "fused_split");
    SAYS(m, "algorithm fused_split: tuned, 1.5 ms against 2.5 ms by default\n");
    SAYS(m, "not fused_lanes: it is the default, and the tuner found fused_split faster here\n");
    clattn_attention_args a = f.args;
    a.variant = "default";
    cr_expect_str_eq(make(&f, &a).algorithm, "fused_lanes");
    a.variant = NULL;
    a.batch_invariant = true;
    cr_expect_str_eq(make(&f, &a).algorithm, "fused_lanes");
    const int64_t state[] = {1, 2, 70, 2}; /* for the backward pass, which sums scores as fused_lanes does */
    a = f.args;
    a.state = clattn_tensor_buffer(f.state, CLATTN_F32, 4, state);
    cr_expect_str_eq(make(&f, &a).algorithm, "fused_lanes");
    set(&f, before.algorithm_key, NULL);
    cr_expect_str_eq(make(&f, &f.args).algorithm, "fused_lanes");
    close_fixture(&f);
    put_file("");
}

Test(tuning, what_fails_on_the_call_gives_way_to_the_default, .init = make_folder, .fini = remove_folder) {
    fixture f = open_fixture();
    set(&f, "algorithm f32 d16 v16 q128 k128 heads2 group1", "materialised");
    f.args.max_workspace = 1; /* scores need more; fused_lanes needs none */
    const made m = make(&f, &f.args);
    cr_expect_str_eq(m.algorithm, "fused_lanes");
    SAYS(m, "what the tuner recorded fails here, so the default is taken: workspace: ");
    close_fixture(&f);
    put_file("");
}

Test(tuning, saving_keeps_what_others_wrote_since, .init = make_folder, .fini = remove_folder) {
    fixture f = open_fixture();
    char text[4000];
    set(&f, "one", "x");
    SUCCEEDS(clattn_tuning_save(f.context, NULL));
    fixture g = open_fixture();
    set(&g, "two", "y");
    SUCCEEDS(clattn_tuning_save(g.context, NULL));
    set(&f, "three", "z");
    set(&f, "one", NULL);
    SUCCEEDS(clattn_tuning_save(f.context, NULL));
    get_file(text, sizeof text);
    cr_expect(strstr(text, "\ntwo: y | 1.5000 ms, default 2.5000 ms\nthree: z | "), "%s", text);
    cr_expect_null(strstr(text, "one"));
    cr_expect_eq(strncmp(text, "clattn tuning 1\n#", 17), 0);
    clattn_tuned entry;
    cr_expect(clattn_tuning_entry(f.context, 0, &entry) && strcmp(entry.key, "three") == 0);
    cr_expect_not(clattn_tuning_entry(f.context, 1, &entry));
    close_fixture(&f);
    close_fixture(&g);
}

enum { SAVERS = 6, SAVES = 20 };

static void key_of(char *key, size_t size, int saver, int i) { snprintf(key, size, "saver %d entry %d", saver, i); }

/* Entries one after another, each saved; exit status 0. */
static void save_many(int saver) {
    clattn_context *context = NULL;
    clattn_status status = clattn_context_create("cpu", NULL, &context);
    for (int i = 0; i < SAVES && status == CLATTN_OK; i++) {
        char key[60];
        key_of(key, sizeof key, saver, i);
        status = clattn_tuning_set(context, &(clattn_tuned){.key = key, .value = "x", .ms = 1, .default_ms = 2});
        if (status == CLATTN_OK)
            status = clattn_tuning_save(context, path);
    }
    clattn_context_destroy(context);
    _exit(status == CLATTN_OK ? 0 : 1);
}

Test(tuning, processes_that_save_at_once_lose_no_entry, .init = make_folder, .fini = remove_folder) {
    pid_t savers[SAVERS];
    int lost = 0;
    setenv("CLATTN_TUNING_FILE", path, 1);
    for (int s = 0; s < SAVERS; s++) {
        savers[s] = fork();
        cr_assert_geq(savers[s], 0);
        if (savers[s] == 0)
            save_many(s);
    }
    for (int s = 0; s < SAVERS; s++) {
        int status = 1;
        waitpid(savers[s], &status, 0);
        cr_expect_eq(status, 0);
    }
    clattn_context *context = checks_open("cpu");
    clattn_tuned entry;
    for (int all = 0; all < SAVERS * SAVES; all++)
        lost += !clattn_tuning_entry(context, (size_t)all, &entry);
    cr_expect_eq(lost, 0, "%d of %d entries are lost", lost, SAVERS * SAVES);
    clattn_context_destroy(context);
}

/* As a process leaves it that was ended in between. */
Test(tuning, a_lock_file_that_was_left_behind_locks_nothing, .init = make_folder, .fini = remove_folder) {
    char name[140];
    put_file("clattn tuning 1\n");
    snprintf(name, sizeof name, "%s.lock", path);
    fclose(fopen(name, "w"));
    fixture f = open_fixture();
    set(&f, "one", "x");
    SUCCEEDS(clattn_tuning_save(f.context, NULL));
    cr_expect_neq(access(name, F_OK), 0, "%s is left", name);
    close_fixture(&f);
}

Test(tuning, a_file_that_is_no_record_is_never_replaced, .init = make_folder, .fini = remove_folder) {
    char text[100];
    put_file("my notes\n");
    fixture f = open_fixture();
    const made m = make(&f, &f.args);
    SAYS(m, "1 line(s) were passed over: see `clattn tune --show`\n");
    cr_expect(strstr(clattn_tuning_skipped(f.context), "line 1 is not \"clattn tuning 1\""));
    set(&f, "one", "x");
    FAILS(clattn_tuning_save(f.context, NULL), CLATTN_E_FORMAT, "line 1 is not");
    cr_expect_str_eq(get_file(text, sizeof text), "my notes\n");
    close_fixture(&f);
}

Test(tuning, bad_lines_are_said_by_explain, .init = make_folder, .fini = remove_folder) {
    put_file("clattn tuning 1\nnonsense\n");
    fixture f = open_fixture();
    const made m = make(&f, &f.args);
    SAYS(m, "of the tuner's record ");
    cr_expect_str_eq(clattn_tuning_skipped(f.context), "line 2: an entry before any device\n");
    close_fixture(&f);
}

Test(tuning, off_means_no_file) {
    const char *const values[] = {"", "off"};
    for (int i = 0; i < 2; i++) {
        setenv("CLATTN_TUNING_FILE", values[i], 1);
        clattn_context *context = checks_open("cpu");
        cr_expect_str_eq(clattn_tuning_file(context), "");
        FAILS(clattn_tuning_save(context, NULL), CLATTN_E_ARGUMENT, "there is no file to write");
        clattn_context_destroy(context);
    }
    setenv("CLATTN_CACHE_DIR", "/tmp/x", 1);
    unsetenv("CLATTN_TUNING_FILE");
    clattn_context *context = checks_open("cpu");
    cr_expect_str_eq(clattn_tuning_file(context), "/tmp/x/tuning.txt");
    clattn_context_destroy(context);
    const clattn_tuned entry = {.key = "a", .value = "b"};
    FAILS(clattn_tuning_set(NULL, &entry), CLATTN_E_ARGUMENT, "context is NULL");
    FAILS(clattn_tuning_save(NULL, "x"), CLATTN_E_ARGUMENT, "context is NULL");
    cr_expect_str_eq(clattn_tuning_file(NULL), "");
    cr_expect_str_eq(clattn_tuning_skipped(NULL), "");
}

/* ---- CLBlast ---- */

/* Those of its direct kernel, which CLBlast's tuner keeps and its library does not check. */
Test(tuning, the_sets_for_clblast_keep_its_constraints) {
    size_t count = 0;
    for (const cla_gemm_set *s; (s = cla_gemm_set_at(count)); count++) {
        const size_t *v = s->values, wgd = v[0], items = v[1] * v[2];
        char text[CLA_TUNED_VALUE] = "";
        for (int i = 0; i < CLA_GEMM_PARAMETERS; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=%zu", i ? " " : "",
                     cla_gemm_parameter_names[i], v[i]);
        cr_expect_str_eq(s->text, text);
        cr_expect_str_eq(clattn_tuning_clblast(count), text);
        cr_expect(wgd % v[5] == 0 && wgd % (v[1] * v[6]) == 0 && wgd % (v[2] * v[7]) == 0 && wgd % (v[3] * v[6]) == 0 &&
                      wgd % (v[4] * v[7]) == 0 && wgd % (items / v[3]) == 0 && wgd % (items / v[4]) == 0,
                  "%s", text);
    }
    cr_expect_gt(count, 1);
    cr_expect_null(clattn_tuning_clblast(count));
}

Test(tuning, clblast_takes_a_set_of_the_table_alone, .init = make_folder, .fini = remove_folder) {
    fixture f = open_fixture();
    const char *key = clattn_tuning_clblast_key(CLATTN_F32);
    const cla_gemm_set *standard = cla_gemm_set_for(f.context, CLATTN_F32);
    set(&f, key, cla_gemm_set_at(2)->text);
    cr_expect_eq(cla_gemm_set_for(f.context, CLATTN_F32), cla_gemm_set_at(2));
    cr_expect_eq(cla_gemm_set_for(f.context, CLATTN_F64), standard);
    set(&f, key, "WGD=33 MDIMCD=16");
    cr_expect_eq(cla_gemm_set_for(f.context, CLATTN_F32), standard);
    close_fixture(&f);
    put_file("");
}
