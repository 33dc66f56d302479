/* SPDX-License-Identifier: Apache-2.0 */
/* What a command starts outside of the process, as the linker puts it in its place (--wrap): gnuplot, which is there,
 * and draws a picture of nothing; children, which keep their counts of branches where those are counted. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool command_fails(const char *name);

int __wrap_system(const char *command);
FILE *__wrap_popen(const char *command, const char *mode);
int __wrap_pclose(FILE *gnuplot);
pid_t __real_fork(void);
pid_t __wrap_fork(void);
_Noreturn void __real__exit(int exit_status);
_Noreturn void __wrap__exit(int exit_status);
#ifdef COUNTS_BRANCHES
void __gcov_dump(void);
#endif

static char script[1 << 16];

int __wrap_system(const char *command) {
    (void)command;
    return command_fails("system") ? 256 : 0;
}

FILE *__wrap_popen(const char *command, const char *mode) {
    (void)command, (void)mode;
    if (command_fails("popen")) {
        errno = ENOMEM;
        return NULL;
    }
    return fmemopen(script, sizeof script, "w");
}

int __wrap_pclose(FILE *gnuplot) {
    static const char mark[] = "set output '";
    bool lost = command_fails("pclose");
    fclose(gnuplot);
    char *path = strstr(script, mark); /* which may have been lost on its way */
    lost = lost || !path;
    if (!lost) {
        path += sizeof mark - 1;
        path[strcspn(path, "'")] = '\0';
    }
    FILE *const to = lost ? NULL : fopen(path, "w");
    if (to) {
        fprintf(to, "%-100s</svg>\n", "<svg>");
        fclose(to);
    }
    return lost ? 256 : 0;
}

pid_t __wrap_fork(void) {
    if (command_fails("fork")) {
        errno = EAGAIN;
        return -1;
    }
    return __real_fork();
}

_Noreturn void __wrap__exit(int exit_status) {
#ifdef COUNTS_BRANCHES
    __gcov_dump();
#endif
    __real__exit(exit_status);
}
