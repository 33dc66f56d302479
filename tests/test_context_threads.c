/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts that several threads open and close at once, from the first call of a process on. */
#define _XOPEN_SOURCE 700
#include "testing.h"
#include <clattn/context.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, PROCESSES = 6, NO_DEVICE = 2 };

typedef struct {
    int number;
    pthread_barrier_t *start;
    clattn_status status;
} worker;

/* Opens, writes, reads and closes; the odd ones list devices first. */
static void *work(void *argument) {
    worker *w = argument;
    clattn_context *context = NULL;
    clattn_buffer *buffer = NULL;
    clattn_device_info info;
    size_t count = 0;
    int value = w->number, back = -1;
    pthread_barrier_wait(w->start);
    if (w->number % 2)
        clattn_devices(&info, 1, &count);
    for (int n = 0; n < 3 && w->status == CLATTN_OK; n++) {
        w->status = clattn_context_create("opencl", NULL, &context);
        if (w->status == CLATTN_OK)
            w->status = clattn_buffer_create(context, sizeof value, &buffer);
        if (w->status == CLATTN_OK)
            w->status = clattn_buffer_upload(buffer, 0, &value, sizeof value);
        if (w->status == CLATTN_OK)
            w->status = clattn_buffer_download(buffer, 0, &back, sizeof back);
        if (w->status == CLATTN_OK && back != value)
            w->status = CLATTN_E_OPENCL;
        clattn_buffer_destroy(buffer);
        clattn_context_destroy(context);
        buffer = NULL;
        context = NULL;
    }
    return NULL;
}

/* In a process whose driver has not started. */
static int race(void) {
    worker workers[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    int result = 0;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.number = i, .start = &start};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (workers[i].status != CLATTN_OK)
            result = workers[i].status == CLATTN_E_NO_DEVICE ? NO_DEVICE : 1;
    }
    return result;
}

Test(context_threads, eight_threads_may_open_and_close_contexts_at_once) {
    for (int n = 0; n < PROCESSES; n++) {
        const pid_t child = fork();
        int status = -1;
        if (child == 0) {
            alarm(120); /* a deadlock ends too */
            _exit(race());
        }
        cr_assert_gt(child, 0);
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == NO_DEVICE)
            cr_skip_test("no OpenCL device");
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %d: status %d", n, status);
    }
}
