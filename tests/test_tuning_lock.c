/* SPDX-License-Identifier: Apache-2.0 */
/* The lock beside the tuner's record: who waits for it, and where files cannot be locked. The linker puts flock in
 * between. */
#define _GNU_SOURCE
#include "runtime/tuning_file.h"
#include "testing.h"
#include <clattn/clattn.h>
#include <clattn/tune.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);

static int flock_fails;        /* with this errno; 0: it does not */
static atomic_int flock_calls; /* begun */

int __wrap_flock(int fd, int operation) {
    atomic_fetch_add(&flock_calls, 1);
    errno = flock_fails;
    return flock_fails ? -1 : __real_flock(fd, operation);
}

static char folder[64], path[128], lock_path[140];

static void begin(void) {
    snprintf(folder, sizeof folder, "/tmp/clattn-lock-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tuning.txt", folder);
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
}

static void end(void) {
    unlink(path);
    unlink(lock_path);
    cr_expect_eq(rmdir(folder), 0, "something is left in %s", folder);
}

static clattn_context *open_context(void) {
    clattn_context *context = NULL;
    const clattn_tuned entry = {.key = "one", .value = "x", .ms = 1, .default_ms = 2};
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    SUCCEEDS(clattn_tuning_set(context, &entry));
    return context;
}

static void *save(void *context) { return clattn_tuning_save(context, path) == CLATTN_OK ? context : NULL; }

/* One thread waits for another process's lock; the others use the context meanwhile. */
Test(tuning_lock, a_context_goes_on_while_a_save_waits, .init = begin, .fini = end, .timeout = 60) {
    clattn_context *context = open_context();
    clattn_tuned entry;
    pthread_t saver;
    void *saved = NULL;
    const int held = open(lock_path, O_RDWR | O_CREAT, 0600);
    cr_assert_eq(__real_flock(held, LOCK_EX), 0);
    cr_assert_eq(pthread_create(&saver, NULL, save, context), 0);
    while (atomic_load(&flock_calls) == 0)
        usleep(1000);
    cr_expect(clattn_tuning_entry(context, 0, &entry));
    cr_expect_neq(access(path, F_OK), 0, "it was written without the lock");
    close(held);
    pthread_join(saver, &saved);
    cr_expect_eq(saved, context);
    cr_expect_eq(access(path, F_OK), 0);
    cr_expect_neq(access(lock_path, F_OK), 0, "the lock's file is left");
    clattn_context_destroy(context);
}

/* Files that cannot be locked are written all the same, and what lies there is another's. */
Test(tuning_lock, without_locks_records_are_written, .init = begin, .fini = end) {
    static const int without[] = {ENOLCK, EOPNOTSUPP, ENOSYS, EACCES};
    clattn_context *context = open_context();
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        close(open(lock_path, O_RDWR | O_CREAT, 0600));
        flock_fails = without[i];
        SUCCEEDS(clattn_tuning_save(context, path));
        cr_expect_eq(access(path, F_OK), 0, "%s", strerror(without[i]));
        cr_expect_eq(access(lock_path, F_OK), 0, "%s: a lock that was not held was removed", strerror(without[i]));
        unlink(path);
    }
    flock_fails = EIO;
    FAILS(clattn_tuning_save(context, path), CLATTN_E_IO, "cannot be written");
    cr_expect_neq(access(path, F_OK), 0);
    cr_expect_eq(access(lock_path, F_OK), 0);
    flock_fails = 0;
    clattn_context_destroy(context);
}

/* Users who share a record share its lock: who may is up to the umask. */
Test(tuning_lock, the_lock_is_for_all_whom_the_umask_lets, .init = begin, .fini = end) {
    cla_tuning_lock lock;
    struct stat info;
    const mode_t before = umask(0);
    SUCCEEDS(cla_tuning_lock_take(path, &lock));
    cr_expect_eq(stat(lock_path, &info), 0);
    cr_expect_eq(info.st_mode & 0777, 0666);
    cla_tuning_lock_give(&lock);
    cr_expect_neq(access(lock_path, F_OK), 0);
    umask(before);
}
