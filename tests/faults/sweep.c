/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "sweep.h"

#include "base/mem.h"
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- memory of the host: the linker's --wrap puts these in the place of base/mem.c's and of the C library's ---- */

static _Thread_local bool no_memory; /* the next call of the C library fails */
static _Atomic int blocks;           /* of the library, not given back */

static clattn_status counted(clattn_status status) {
    blocks += status == CLATTN_OK;
    return status;
}

clattn_status __real_cla_alloc(size_t count, size_t size, const char *what, void *out);
clattn_status __wrap_cla_alloc(size_t count, size_t size, const char *what, void *out);
clattn_status __wrap_cla_alloc(size_t count, size_t size, const char *what, void *out) {
    no_memory = faults_fail("calloc");
    return counted(__real_cla_alloc(count, size, what, out));
}

clattn_status __real_cla_realloc(void *in_out, size_t count, size_t size, const char *what);
clattn_status __wrap_cla_realloc(void *in_out, size_t count, size_t size, const char *what);
clattn_status __wrap_cla_realloc(void *in_out, size_t count, size_t size, const char *what) {
    void *before;
    memcpy(&before, in_out, sizeof before);
    no_memory = faults_fail("realloc");
    const clattn_status status = __real_cla_realloc(in_out, count, size, what);
    return before ? status : counted(status);
}

clattn_status __real_cla_alloc_aligned(size_t bytes, const char *what, void *out);
clattn_status __wrap_cla_alloc_aligned(size_t bytes, const char *what, void *out);
clattn_status __wrap_cla_alloc_aligned(size_t bytes, const char *what, void *out) {
    no_memory = faults_fail("aligned_alloc");
    return counted(__real_cla_alloc_aligned(bytes, what, out));
}

void __real_cla_free(void *pointer);
void __wrap_cla_free(void *pointer);
void __wrap_cla_free(void *pointer) {
    blocks -= pointer != NULL;
    __real_cla_free(pointer);
}

static bool fails_now(void) {
    const bool fails = no_memory;
    no_memory = false;
    return fails;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) { return fails_now() ? NULL : __real_calloc(count, size); }

void *__real_realloc(void *pointer, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
void *__wrap_realloc(void *pointer, size_t size) { return fails_now() ? NULL : __real_realloc(pointer, size); }

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return fails_now() ? NULL : __real_aligned_alloc(alignment, size);
}

/* ---- one run ---- */

enum {
    MOST_SECONDS = 20, /* of a run on a lost device, which takes milliseconds; machines may be slow */
    HANGS = 400,       /* seconds: of others, in which kernels may have to be compiled */
    CI_RUNS = 12,      /* of each kind, for a program that makes more calls */
    FUNCTIONS = 64
};

/* What a sweep has done. */
typedef struct {
    const run_of *of;
    clattn_context *warm; /* shared by all runs; NULL: each has its own */
    int live;             /* objects before */
    int blocks;           /* and memory of the host */
    uint64_t bytes;       /* that a context keeps when nothing fails */
    int injected, errors;
    struct {
        const char *name;
        int count;
    } functions[FUNCTIONS];
} tally;

bool succeeded(clattn_status status, char text[ORACLE_TEXT]) {
    if (status != CLATTN_OK)
        snprintf(text, ORACLE_TEXT, "%s: %s", clattn_status_name(status), clattn_last_error());
    return status == CLATTN_OK;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void count_function(tally *t, const char *name) {
    int i = 0;
    while (i < FUNCTIONS - 1 && t->functions[i].name && strcmp(t->functions[i].name, name) != 0)
        i++;
    t->functions[i].name = name;
    t->functions[i].count++;
}

static bool open_context(const run_of *r, clattn_context **context, char text[ORACLE_TEXT]) {
    const clattn_context_options options = {.profile = r->profile};
    return succeeded(clattn_context_create(r->device ? r->device : "opencl", &options, context), text);
}

static bool right(const run_of *r, char text[ORACLE_TEXT]) { return !r->right || r->right(r->data, text); }

/* A device that cannot be asked is one that cannot be used: the message names the device instead of a code. */
static bool is_question(const char *name) {
    return strncmp(name, "clGetDevice", 11) == 0 || strncmp(name, "clGetPlatform", 13) == 0;
}

/* The text of a run that failed names what failed. */
static bool is_named(const faults_seen *seen, const char *text) {
    char code[32];
    snprintf(code, sizeof code, " %d (", seen->code);
    if (strchr(text, '\n') || !strstr(text, "CLATTN_E_"))
        return false;
    if (seen->code == 0)
        return strstr(text, "CLATTN_E_MEMORY") && strstr(text, "memory");
    return is_question(seen->failed) || strstr(text, code) || strstr(text, "CLBlast -") ||
           (seen->code == -11 && strstr(text, "does not build"));
}

/* By the rule of clattn/context.h. */
static bool tells_loss(const faults_seen *seen) {
    if (strncmp(seen->failed, "clCreate", 8) == 0) /* of contexts: there is none yet that would be lost */
        return false;
    return seen->code == CL_DEVICE_NOT_AVAILABLE || seen->code == CL_INVALID_COMMAND_QUEUE ||
           (seen->waits &&
            (seen->code == CL_OUT_OF_RESOURCES || seen->code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST));
}

static bool is_loss(const char *text) { return strstr(text, "CLATTN_E_DEVICE_LOST: "); }

static void expect_clean(const char *where, const tally *t) {
    char live[200];
    const faults_seen seen = faults_now();
    if (t->warm)
        return;
    cr_expect_eq(faults_live(false, live, sizeof live), t->live, "%s: left behind: %s", where, live);
    cr_expect_eq(blocks, t->blocks, "%s: %d blocks of memory are left behind", where, blocks - t->blocks);
    cr_expect_eq(seen.strays, 0, "%s: %d objects released that do not live", where, seen.strays);
}

/* The same call then succeeds on the context; on one that is lost it is refused, and a new one takes its place. */
static void expect_more(const tally *t, const faults_seen *seen, clattn_context **context, const char *where) {
    const run_of *r = t->of;
    char text[ORACLE_TEXT] = "";
    if (clattn_context_sync(*context) == CLATTN_E_DEVICE_LOST) {
        cr_expect(tells_loss(seen), "%s: is no loss: %s", where, clattn_last_error());
        cr_expect(!r->run(*context, r->data, text) && is_loss(text), "%s: a lost device is used: %s", where, text);
        clattn_context_trim(*context);
        clattn_context_destroy(*context);
        *context = NULL;
        cr_assert(open_context(r, context, text), "%s", text);
    }
    cr_expect(r->run(*context, r->data, text) && right(r, text), "%s: then, without a failure: %s", where, text);
}

/* One failure; returns how many codes the call may give, 0 when there was no such call. */
static int one(tally *t, const faults_plan *plan) {
    const run_of *r = t->of;
    clattn_context *context = t->warm;
    char text[ORACLE_TEXT] = "", where[300];
    uint64_t before = 0, bytes = 0;
    clattn_context_memory(context, &before, NULL);
    const double start = seconds();
    alarm(HANGS);
    faults_arm(plan);
    bool ran = (context || open_context(r, &context, text)) && r->run(context, r->data, text);
    faults_seen seen = faults_now();
    if (!seen.failed && !t->warm) { /* the calls of its end are still to come */
        clattn_context_destroy(context);
        context = NULL;
        seen = faults_now();
    }
    const bool injected = seen.failed;
    if (!plan->lasting)
        faults_arm(NULL);
    snprintf(where, sizeof where, "%s%s, call %d (%s%s gives %d)", r->name, t->warm ? " once more" : "", plan->at,
             seen.failed, plan->lasting ? " and all behind it" : "", seen.code);
    if (ran)
        cr_expect(right(r, text), "%s: %s", where, text);
    else
        cr_expect(seen.failed && is_named(&seen, text), "%s: not named: %s", where, text);
    if (!ran && !plan->lasting)
        cr_expect_eq(is_loss(text), tells_loss(&seen), "%s: lost or not: %s", where, text);
    cr_expect_eq(seen.unfinished, 0, "%s: buffers over the caller's arrays are given back while commands run", where);
    if (!t->warm && context && plan->lasting) { /* the device is lost to the end of its context */
        clattn_context_destroy(context);
        context = NULL;
    }
    const double elapsed = seconds() - start;
    cr_expect(!plan->lasting || elapsed < MOST_SECONDS, "%s: took %.1f s", where, elapsed);
    faults_arm(NULL);
    if (context && injected)
        expect_more(t, &seen, &context, where);
    if (context) {
        clattn_context_trim(context);
        clattn_context_memory(context, &bytes, NULL);
        cr_expect_leq(bytes, t->warm ? before : t->bytes, "%s: %llu bytes are left", where, (unsigned long long)bytes);
    }
    if (t->warm)
        t->warm = context;
    else
        clattn_context_destroy(context);
    expect_clean(where, t);
    alarm(0);
    t->injected += injected;
    t->errors += !ran;
    if (injected)
        count_function(t, seen.failed);
    return seen.turns;
}

/* ---- all of them ---- */

/* "all": every call; "codes": and each with all of its codes. */
static bool wanted(const char *word) {
    const char *which = getenv("FAULTS");
    return which && strcmp(which, word) == 0;
}

/* Calls 1, 1 + step, ...: each with one of its codes, in turn, or with all. */
static void each_call(tally *t, int calls, bool lasting) {
    const bool codes = wanted("codes");
    const int step = codes || wanted("all") ? 1 : (calls + CI_RUNS - 1) / CI_RUNS;
    for (int at = 1, n = 0; at <= calls; at += step, n++)
        for (int turn = 0, turns = 1; turn < turns; turn++) {
            const faults_plan plan = {
                .at = at, .code = lasting ? CL_OUT_OF_RESOURCES : 0, .turn = codes ? turn : n, .lasting = lasting};
            const int known = one(t, &plan);
            turns = codes && !lasting ? known : 1;
        }
}

/* Of a run without failures, with its context's begin and end unless there is one. */
static int calls_of(tally *t) {
    const run_of *r = t->of;
    clattn_context *const warm = t->warm;
    clattn_context *context = warm;
    char text[ORACLE_TEXT] = "";
    const faults_plan never = {.at = 1 << 30};
    faults_arm(&never);
    const bool ran = (context || open_context(r, &context, text)) && r->run(context, r->data, text);
    clattn_context_trim(context);
    clattn_context_memory(context, &t->bytes, NULL);
    if (!warm)
        clattn_context_destroy(context);
    const faults_seen seen = faults_now();
    faults_arm(NULL);
    cr_assert(ran && right(r, text), "%s, without a failure: %s", r->name, text);
    cr_assert_eq(seen.unfinished, 0, "%s: buffers over the caller's arrays are given back while commands run", r->name);
    return seen.calls;
}

static void print(const tally *t, int calls, double since) {
    printf("faults: %s: %d calls, %d failures, %d errors, %.1f s;", t->of->name, calls, t->injected, t->errors,
           seconds() - since);
    for (int i = 0; i < FUNCTIONS && t->functions[i].name; i++)
        printf(" %s %d", t->functions[i].name, t->functions[i].count);
    printf("\n");
    fflush(stdout);
}

void sweep(const run_of *r) {
    static tally t;
    char text[ORACLE_TEXT] = "";
    const double start = seconds();
    clattn_context *context = NULL;
    t = (tally){.of = r, .live = faults_live(false, text, sizeof text), .blocks = blocks};
    if (clattn_context_create(r->device ? r->device : "opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    clattn_context_destroy(context);
    calls_of(&t); /* kernels compile, CLBlast learns its parameters */
    const int calls = calls_of(&t);
    each_call(&t, calls, false);
    each_call(&t, calls, true);
    cr_assert(open_context(r, &t.warm, text), "%s", text);
    calls_of(&t);
    const int more = calls_of(&t);
    each_call(&t, more, false);
    clattn_context_destroy(t.warm);
    t.warm = NULL;
    expect_clean(r->name, &t);
    cr_expect(t.errors > 0);
    print(&t, calls + more, start);
}
