/* SPDX-License-Identifier: Apache-2.0 */
/* Which call fails, with what. */
#define _GNU_SOURCE
#include "internal.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODES = 6 };

/* What the specification lets a function give that was called rightly, and what drivers give beyond that; -1001 is the
 * loader's. Others give -5 or -6. */
static const struct {
    const char *name;
    int codes[CODES]; /* up to a 0 */
} known[] = {
    {"clGetPlatformIDs", {-1001, -6}},
    {"clGetPlatformInfo", {-6}},
    {"clGetDeviceIDs", {-1, -5, -6}},
    {"clCreateContext", {-2, -6, -5}},
    {"clCreateCommandQueue", {-5, -6, -35}},
    {"clCreateBuffer", {-4, -61, -6, -5}},
    {"clCreateProgramWithSource", {-6, -5}},
    {"clCreateProgramWithBinary", {-42, -6, -5}},
    {"clBuildProgram", {-11, -6, -5, -43, -42, -3}},
    {"clCreateKernel", {-46, -45, -6, -5}},
    {"clSetKernelArg", {-52, -51, -5, -6}},
    {"clEnqueueNDRangeKernel", {-4, -5, -6, -54, -52, -14}},
    {"clEnqueueReadBuffer", {-4, -5, -6, -14}},
    {"clEnqueueWriteBuffer", {-4, -5, -6, -14}},
    {"clEnqueueCopyBuffer", {-4, -5, -6}},
    {"clEnqueueFillBuffer", {-4, -5, -6}},
    {"clEnqueueMapBuffer", {-12, -4, -5, -6}},
    {"clFinish", {-5, -6, -36}},
    {"clWaitForEvents", {-14, -5, -6}},
    {"clGetEventProfilingInfo", {-7, -5}},
    {"CLBlastSgemmStridedBatched", {-54, -57, -5, -4, -2039, -2045}},
    {"CLBlastDgemmStridedBatched", {-54, -57, -5, -4, -2039, -2045}},
    {"CLBlastOverrideParameters", {-2048, -2041}},
};
static const int other_codes[CODES] = {-5, -6};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static faults_plan armed;
static faults_seen seen;
static bool paused;

any_function real_function(const char *name) {
    any_function function = NULL;
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol) {
        fprintf(stderr, "faults: no %s behind this library\n", name);
        abort();
    }
    memcpy(&function, &symbol, sizeof function);
    return function;
}

static const int *codes_of(const char *name, int *count) {
    const int *codes = other_codes;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            codes = known[i].codes;
    for (*count = 0; *count < CODES && codes[*count] != 0;)
        ++*count;
    return codes;
}

static bool counts(const char *name) {
    return armed.at > 0 && !paused && (!armed.only || strncmp(name, armed.only, strlen(armed.only)) == 0);
}

/* A lost device has all memory of the host, and the other way round. */
static bool fails_here(bool device) {
    return seen.calls == armed.at || (armed.lasting && seen.failed && (seen.code != 0) == device);
}

cl_int faults_code(const char *name) { return faults_wait_code(name, false); }

cl_int faults_wait_code(const char *name, bool waits) {
    int code = CL_SUCCESS, turns = 0;
    const int *codes = codes_of(name, &turns);
    pthread_mutex_lock(&lock);
    if (counts(name)) {
        seen.calls++;
        if (fails_here(true))
            code = armed.code ? armed.code : codes[armed.turn % turns];
    }
    if (code != CL_SUCCESS && !seen.failed) {
        seen.failed = name;
        seen.code = code;
        seen.waits = waits;
        seen.turns = turns;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

bool faults_fail(const char *name) {
    bool fails = false;
    pthread_mutex_lock(&lock);
    if (counts(name)) {
        seen.calls++;
        fails = fails_here(false);
    }
    if (fails && !seen.failed) {
        seen.failed = name;
        seen.turns = 1;
    }
    pthread_mutex_unlock(&lock);
    return fails;
}

void faults_pause(bool pause) {
    pthread_mutex_lock(&lock);
    paused = pause;
    pthread_mutex_unlock(&lock);
}

void faults_refused(const char *what) {
    pthread_mutex_lock(&lock);
    seen.refused++;
    seen.what = what;
    pthread_mutex_unlock(&lock);
}

void faults_arm(const faults_plan *plan) {
    pthread_mutex_lock(&lock);
    armed = plan ? *plan : (faults_plan){.at = 0};
    if (plan) {
        seen = (faults_seen){.calls = 0};
        objects_reset();
    }
    pthread_mutex_unlock(&lock);
}

faults_seen faults_now(void) {
    pthread_mutex_lock(&lock);
    faults_seen now = seen;
    pthread_mutex_unlock(&lock);
    objects_count(&now);
    return now;
}
