/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn doctor`: what stands between this machine and attention on its devices, and how to mend it. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "commands.h"
#include "doctor.h"

#include <clattn/clattn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const cla_help_doctor =
    "Usage: clattn doctor [--device D]\n"
    "\n"
    "Looks for what keeps clattn from computing on this machine, and says how to mend it: the drivers that the\n"
    "OpenCL loader is told of and whether they load, the devices they have, device files that are not for this\n"
    "user, a small attention on each device whose every row is computed again, the cache of compiled kernels and\n"
    "the tuner's record. --device D: the self-test of that device alone.\n"
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

static void judge_devices(cla_doctor *doctor, const clattn_device_info *devices, size_t count, int drivers) {
    int usable = 0, named = 0;
    cla_doctor_part("Devices");
    for (size_t i = 0; i < count; i++) {
        const clattn_device_info *d = &devices[i];
        if (!d->is_opencl) {
            cla_doctor_good("cpu: OpenBLAS and plain loops, without OpenCL");
        } else if (d->usable) {
            cla_doctor_good("%s: %s, of %s", d->spec, d->name, d->platform);
            usable++;
        } else if (strchr(d->spec, '-')) {
            cla_doctor_bad(doctor,
                           "its hardware is not there, or not for this user (see device files); else remove the driver",
                           "%s: %s has no device", d->spec, d->platform);
        } else {
            cla_doctor_bad(doctor, "update the driver, or use another device",
                           "%s: %s cannot be used: it is not available, has no compiler, or is no little-endian "
                           "device of OpenCL 1.2",
                           d->spec, d->name);
        }
        named += d->is_opencl;
    }
    if (named == 0 && drivers > 0)
        cla_doctor_bad(doctor, "update the driver; its own tool (clinfo) may tell more",
                       "drivers load, but offer no platform");
    else if (usable == 0)
        cla_doctor_note("OpenCL has nothing to offer here; the device `cpu` works without it");
}

static void judge_cache(cla_doctor *doctor, const clattn_context *context) {
    const char *folder = clattn_context_cache_folder(context);
    char path[1200];
    if (folder[0] == '\0') {
        cla_doctor_note("no cache of compiled kernels (CLATTN_CACHE_DIR is off, or there is no home): each start "
                        "compiles anew");
        return;
    }
    if (access(folder, F_OK) != 0) {
        cla_doctor_good("%s: compiled kernels will be kept there", folder);
        return;
    }
    snprintf(path, sizeof path, "%s/doctor-XXXXXX", folder);
    const int file = mkstemp(path);
    if (file < 0 || write(file, "clattn\n", 7) != 7)
        cla_doctor_bad(doctor, "make it writeable and leave room there, or name another folder by CLATTN_CACHE_DIR",
                       "%s: compiled kernels cannot be kept: %s", folder, strerror(errno));
    else
        cla_doctor_good("%s: compiled kernels are kept there", folder);
    if (file >= 0) {
        close(file);
        unlink(path);
    }
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
    cla_doctor_part("Files");
    if (clattn_context_create(device, NULL, &context) != CLATTN_OK) {
        cla_doctor_bad(doctor, "see above; CLATTN_DEVICE and --device choose another",
                       "the device cannot be opened: %s", clattn_last_error());
        return;
    }
    judge_cache(doctor, context);
    judge_record(doctor, context);
    clattn_context_destroy(context);
}

int cla_cmd_doctor(int argc, char **argv) {
    static const cla_arg_spec specs[] = {{"device", 'd', CLA_ARG_VALUE}, {0}};
    cla_args args;
    cla_doctor doctor = {0};
    clattn_device_info devices[64];
    size_t count = 0;
    const int exit_status = cla_args_parse("doctor", argc, argv, specs, 0, 0, "", &args);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    const char *device = cla_args_value(&args, "device");
    clattn_context *context = NULL;
    const clattn_status status = device ? clattn_context_create(device, NULL, &context) : CLATTN_OK;
    clattn_context_destroy(context);
    if (status == CLATTN_E_ARGUMENT)
        return cla_fail_status(status, "doctor");
    const int drivers = cla_doctor_loader(&doctor);
    if (clattn_devices(devices, 64, &count) != CLATTN_OK)
        return cla_fail_status(CLATTN_E_OPENCL, "doctor");
    count = count < 64 ? count : 64;
    judge_devices(&doctor, devices, count, drivers);
    cla_doctor_permissions(&doctor);
    cla_doctor_part("Self-test (the first time, compilers take a while)");
    for (size_t i = 0; i < count && !device; i++)
        if (devices[i].usable)
            cla_doctor_test(&doctor, devices[i].spec);
    if (device)
        cla_doctor_test(&doctor, device);
    judge_files(&doctor, device);
    if (doctor.problems == 0)
        printf("\nNothing is wrong.\n");
    else
        printf("\n%d problem%s.\n", doctor.problems, doctor.problems == 1 ? "" : "s");
    return doctor.problems ? CLA_EXIT_FAILED : CLA_EXIT_OK;
}
