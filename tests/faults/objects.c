/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that live, who made them, and whether commands run. */
#define _GNU_SOURCE
#include "internal.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16, ARGUMENTS = 32 };

typedef struct {
    void *object;
    object_kind kind;
    int count;
    bool clblast, over_host;
    size_t local[ARGUMENTS];
} entry;

static const char *const names[OBJECT_KINDS] = {"contexts", "queues", "buffers", "programs", "kernels", "events"};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry table[MOST];
static int last; /* entries in use */
static int running, strays, unfinished;

static bool is_clblast(const void *address) {
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname && strstr(info.dli_fname, "libclblast");
}

/* The latest ones are asked for most. The lock is held. */
static entry *find(const void *object) {
    for (int i = last - 1; i >= 0; i--)
        if (table[i].object == object)
            return &table[i];
    return NULL;
}

void object_made(void *object, object_kind kind, const void *by, bool over_host) {
    if (!object)
        return;
    pthread_mutex_lock(&lock);
    if (last == MOST) {
        fprintf(stderr, "faults: more than %d live objects\n", MOST);
        abort();
    }
    table[last++] =
        (entry){.object = object, .kind = kind, .count = 1, .clblast = is_clblast(by), .over_host = over_host};
    pthread_mutex_unlock(&lock);
}

void object_retained(void *object) {
    pthread_mutex_lock(&lock);
    entry *e = find(object);
    if (e)
        e->count++;
    else
        strays++;
    pthread_mutex_unlock(&lock);
}

void object_released(void *object) {
    pthread_mutex_lock(&lock);
    entry *e = find(object);
    if (!e)
        strays++;
    if (e && --e->count == 0) {
        unfinished += e->over_host && running > 0;
        *e = table[--last];
    }
    pthread_mutex_unlock(&lock);
}

void object_local_argument(void *kernel, unsigned index, size_t bytes) {
    pthread_mutex_lock(&lock);
    entry *e = find(kernel);
    if (e && index < ARGUMENTS)
        e->local[index] = bytes;
    pthread_mutex_unlock(&lock);
}

size_t object_local_bytes(const void *kernel) {
    size_t bytes = 0;
    pthread_mutex_lock(&lock);
    const entry *e = find(kernel);
    for (int i = 0; e && i < ARGUMENTS; i++)
        bytes += e->local[i];
    pthread_mutex_unlock(&lock);
    return bytes;
}

void object_enqueued(void) {
    pthread_mutex_lock(&lock);
    running++;
    pthread_mutex_unlock(&lock);
}

void object_waited(void) {
    pthread_mutex_lock(&lock);
    running = 0;
    pthread_mutex_unlock(&lock);
}

void objects_count(faults_seen *seen) {
    pthread_mutex_lock(&lock);
    seen->strays = strays;
    seen->unfinished = unfinished;
    pthread_mutex_unlock(&lock);
}

void objects_reset(void) {
    pthread_mutex_lock(&lock);
    strays = unfinished = 0;
    pthread_mutex_unlock(&lock);
}

int faults_live(bool clblast, char *text, size_t size) {
    int counts[OBJECT_KINDS] = {0}, all = 0;
    size_t at = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < last; i++)
        counts[table[i].kind] += table[i].clblast == clblast;
    pthread_mutex_unlock(&lock);
    if (size > 0)
        *text = '\0';
    for (int kind = 0; kind < OBJECT_KINDS; kind++) {
        all += counts[kind];
        if (counts[kind] > 0 && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%d %s", at ? ", " : "", counts[kind], names[kind]);
    }
    return all;
}
