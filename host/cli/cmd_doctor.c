/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn doctor`: what stands between this machine and attention on its devices, and how to mend it. */
#define _POSIX_C_SOURCE 200809L /* mkstemp, fork */
#include "commands.h"
#include "doctor.h"

#include <clattn/clattn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE = 300 }; /* seconds for a part; compilers on a busy machine may take a minute */

const char *const cla_help_doctor =
    "Usage: clattn doctor [--device D]\n"
    "\n"
    "Looks for what keeps clattn from computing on this machine, and says how to mend it: the drivers that the\n"
    "OpenCL loader is told of and whether they load, the devices they have, device files that are not for this\n"
    "user, a small attention on each device whose every row is computed again, the cache of compiled kernels and\n"
    "the tuner's record. -d, --device D: the self-test and files of that device alone. What may crash or hang does so\n"
    "in a process of its own.\n"
    "Exit status: 0 nothing is wrong, 1 something is.\n";

void cla_doctor_part(const char *title) { printf("%s\n", title); }

static void line(const char *mark, const char *format, va_list list) {
    printf("  %-6s", mark);
    vprintf(format, list);
    putchar('\n');
    fflush(stdout);
}

void cla_doctor_good(const char *format, ...) {
    va_list list;
    va_start(list, format);
    line("ok", format, list);
    va_end(list);
}

void cla_doctor_note(const char *format, ...) {
    va_list list;
    va_start(list, format);
    line("note", format, list);
    va_end(list);
}

void cla_doctor_bad(cla_doctor *doctor, const char *remedy, const char *format, ...) {
    va_list list;
    va_start(list, format);
    line("WRONG", format, list);
    va_end(list);
    printf("        -> %s\n", remedy);
    doctor->problems++;
}

/* Waits for a child; after PATIENCE it is killed, and *hangs. */
static int status_of(pid_t child, bool *hangs) {
    const struct timespec moment = {.tv_nsec = 20000000};
    int status = 0;
    *hangs = false;
    for (int waits = 0; waitpid(child, &status, WNOHANG) == 0; waits++) {
        if (waits == PATIENCE * 50) {
            *hangs = true;
            kill(child, SIGKILL);
        }
        nanosleep(&moment, NULL);
    }
    return status;
}

/* The parent never loads a driver itself: it has no threads, and may fork. */
void cla_doctor_apart(cla_doctor *doctor, const char *what, cla_doctor_work *work, const char *text) {
    static const char remedy[] = "update the driver, or remove it (its file in /etc/OpenCL/vendors); meanwhile "
                                 "`--device cpu` works";
    bool hangs;
    fflush(stdout);
    const pid_t child = fork();
    if (child < 0) {
        cla_doctor_bad(doctor, "end other programs", "%s: no process for it: %s", what, strerror(errno));
        return;
    }
    if (child == 0) {
        cla_doctor own = {0};
        work(&own, text);
        fflush(stdout);
        _exit(own.problems < 100 ? own.problems : 100);
    }
    const int status = status_of(child, &hangs);
    if (hangs)
        cla_doctor_bad(doctor, remedy, "%s: does not answer within %d s", what, PATIENCE);
    else if (WIFSIGNALED(status))
        cla_doctor_bad(doctor, remedy, "%s: the driver crashed (signal %d, %s)", what, WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    else
        doctor->problems += WEXITSTATUS(status);
}

static void judge_device(cla_doctor *doctor, const clattn_device_info *d) {
    if (!d->is_opencl)
        cla_doctor_good("cpu: OpenBLAS and plain loops, without OpenCL");
    else if (d->usable)
        cla_doctor_good("%s: %s, of %s", d->spec, d->name, d->platform);
    else if (strchr(d->spec, '-'))
        cla_doctor_bad(doctor,
                       "its hardware is not there, or not for this user (see device files); else remove the driver",
                       "%s: %s has no device", d->spec, d->platform);
    else
        cla_doctor_bad(doctor, "update the driver, or use another device",
                       "%s: %s cannot be used: it is not available, has no compiler, or is no little-endian device of "
                       "OpenCL 1.2",
                       d->spec, d->name);
}

/* Writes the names of those that can be used to the file `text`, a line each. */
static void judge_devices(cla_doctor *doctor, const char *text) {
    clattn_device_info devices[64];
    size_t count = 0;
    int usable = 0, named = 0;
    if (clattn_devices(devices, 64, &count) != CLATTN_OK) {
        cla_doctor_bad(doctor, "see drivers", "no list of devices: %s", clattn_last_error());
        return;
    }
    FILE *names = fopen(text, "w");
    for (size_t i = 0; i < count && i < 64; i++) {
        judge_device(doctor, &devices[i]);
        named += devices[i].is_opencl;
        usable += devices[i].is_opencl && devices[i].usable;
        if (names && devices[i].usable)
            fprintf(names, "%s\n", devices[i].spec);
    }
    if (names)
        fclose(names);
    if (named == 0)
        cla_doctor_note("the loader offers no platform");
    if (usable == 0)
        cla_doctor_note("OpenCL has nothing to offer here; the device `cpu` works without it");
}

/* Makes the folder as the library does; *made: how many of its levels were not there. */
static bool make_folder(const char *folder, int *made) {
    char path[1200];
    snprintf(path, sizeof path, "%s", folder);
    *made = 0;
    for (char *c = strchr(path + 1, '/'); c; c = strchr(c + 1, '/')) {
        *c = '\0';
        *made += mkdir(path, 0700) == 0;
        *c = '/';
    }
    const bool is_made = mkdir(path, 0700) == 0;
    *made += is_made;
    return is_made || errno == EEXIST;
}

static void remove_folder(const char *folder, int made) {
    char path[1200];
    snprintf(path, sizeof path, "%s", folder);
    for (char *cut = path; made > 0 && cut && rmdir(path) == 0; made--) {
        cut = strrchr(path, '/');
        if (cut)
            *cut = '\0';
    }
}

static void judge_cache(cla_doctor *doctor, const clattn_context *context) {
    const char *folder = clattn_context_cache_folder(context);
    char path[1200];
    if (folder[0] == '\0') {
        cla_doctor_note("no cache of compiled kernels (CLATTN_CACHE_DIR is off, or there is no home): each start "
                        "compiles anew");
        return;
    }
    int made;
    snprintf(path, sizeof path, "%s/doctor-XXXXXX", folder);
    const int file = make_folder(folder, &made) ? mkstemp(path) : -1;
    if (file < 0 || write(file, "clattn\n", 7) != 7)
        cla_doctor_bad(doctor, "make it writeable and leave room there, or name another folder by CLATTN_CACHE_DIR",
                       "%s: compiled kernels cannot be kept: %s", folder, strerror(errno));
    else
        cla_doctor_good("%s: compiled kernels %s kept there", folder, made > 0 ? "will be" : "are");
    if (file >= 0) {
        close(file);
        unlink(path);
    }
    remove_folder(folder, made);
}

static void judge_record(cla_doctor *doctor, clattn_context *context) {
    const char *file = clattn_tuning_file(context), *skipped = clattn_tuning_skipped(context);
    clattn_tuned entry;
    size_t entries = 0;
    while (clattn_tuning_entry(context, entries, &entry))
        entries++;
    if (skipped[0] != '\0')
        cla_doctor_bad(doctor, "remove these lines; `clattn tune` measures anew",
                       "%s: not all of it is understood: %.*s", file, (int)strcspn(skipped, "\n"), skipped);
    else if (entries > 0)
        cla_doctor_good("%s: %zu entries for the default device", file, entries);
    else
        cla_doctor_note("no record of `clattn tune` for the default device: the usual choices hold");
}

static void judge_files(cla_doctor *doctor, const char *device) {
    clattn_context *context = NULL;
    if (clattn_context_create(device, NULL, &context) != CLATTN_OK) {
        cla_doctor_bad(doctor, "see above; CLATTN_DEVICE and --device choose another",
                       "the device cannot be opened: %s", clattn_last_error());
        return;
    }
    judge_cache(doctor, context);
    judge_record(doctor, context);
    clattn_context_destroy(context);
}

/* Devices, and a self-test of each. */
static int judge_all_devices(cla_doctor *doctor) {
    char path[] = "/tmp/clattn-doctor-XXXXXX", name[40];
    const int made = mkstemp(path);
    if (made < 0)
        return cla_fail(CLA_EXIT_FAILED, "doctor: no temporary file: %s", strerror(errno));
    close(made);
    cla_doctor_part("Devices");
    cla_doctor_apart(doctor, "listing the devices", judge_devices, path);
    cla_doctor_permissions(doctor);
    cla_doctor_part("Self-test (the first time, compilers take a while)");
    FILE *names = fopen(path, "r");
    while (names && fgets(name, sizeof name, names)) {
        name[strcspn(name, "\n")] = '\0';
        cla_doctor_apart(doctor, name, cla_doctor_test, name);
    }
    if (names)
        fclose(names);
    unlink(path);
    return CLA_EXIT_OK;
}

/* A device that cannot be meant, such as "gpu0"; nothing is opened. */
static int check_device(const char *device) {
    if (!device || strcmp(device, "cpu") == 0 || strcmp(device, "opencl") == 0 || strncmp(device, "opencl:", 7) == 0)
        return CLA_EXIT_OK;
    return cla_fail(CLA_EXIT_USAGE,
                    "doctor: device \"%s\": not one of opencl, opencl:gpu, opencl:cpu, "
                    "opencl:PLATFORM:DEVICE, cpu",
                    device);
}

int cla_cmd_doctor(int argc, char **argv) {
    static const cla_arg_spec specs[] = {{"device", 'd', CLA_ARG_VALUE}, {0}};
    cla_args args;
    cla_doctor doctor = {0};
    int exit_status = cla_args_parse("doctor", argc, argv, specs, 0, 0, "", &args);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    const char *device = cla_args_value(&args, "device");
    exit_status = check_device(device);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    if (device) {
        cla_doctor_part("Self-test (the first time, compilers take a while)");
        cla_doctor_apart(&doctor, device, cla_doctor_test, device);
    } else {
        cla_doctor_loader(&doctor);
        exit_status = judge_all_devices(&doctor);
        if (exit_status != CLA_EXIT_OK)
            return exit_status;
    }
    cla_doctor_part("Files");
    cla_doctor_apart(&doctor, "opening the device", judge_files, device);
    if (doctor.problems == 0)
        printf("\nNothing is wrong.\n");
    else
        printf("\n%d problem%s.\n", doctor.problems, doctor.problems == 1 ? "" : "s");
    return doctor.problems ? CLA_EXIT_FAILED : CLA_EXIT_OK;
}
