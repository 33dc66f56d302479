/* SPDX-License-Identifier: Apache-2.0 */
/* Below OpenCL: the loader's list of drivers, and the system's device files. */
#define _DEFAULT_SOURCE /* glob, dlopen */
#include "doctor.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DRIVERS                                                                                                        \
    "install a driver: pocl-opencl-icd runs on any CPU; GPUs have intel-opencl-icd, mesa-opencl-icd, "                 \
    "nvidia-opencl-icd, or their vendor's (ROCm, Mali, Adreno)"
#define FOLDER "/etc/OpenCL/vendors"

/* A file of the list is one line: the name or the path of a library. */
static bool library_of(const char *path, char *library, size_t size) {
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    const bool read = fgets(library, (int)size, file) != NULL;
    fclose(file);
    if (read)
        library[strcspn(library, "\r\n")] = '\0';
    return read && library[0] != '\0';
}

static bool judge_library(cla_doctor *doctor, const char *from, const char *library) {
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (!handle) {
        const char *why = dlerror();
        cla_doctor_bad(doctor, "install the driver's package again, or remove the file of a driver that is gone",
                       "%s: %s does not load: %s", from, library, why ? why : "no reason given");
        return false;
    }
    cla_doctor_good("%s: %s loads", from, library);
    return true; /* stays loaded: drivers do not like to go */
}

static bool judge_file(cla_doctor *doctor, const char *path) {
    char library[1024];
    if (library_of(path, library, sizeof library))
        return judge_library(doctor, path, library);
    cla_doctor_bad(doctor, "make it readable, or install the driver's package again", "%s: %s", path,
                   access(path, R_OK) == 0 ? "names no library" : strerror(errno));
    return false;
}

static int judge_folder(cla_doctor *doctor, const char *folder) {
    glob_t found;
    char pattern[1100];
    int good = 0;
    snprintf(pattern, sizeof pattern, "%s/*.icd", folder);
    if (glob(pattern, 0, NULL, &found) != 0) {
        cla_doctor_bad(doctor, DRIVERS, "%s: there is no driver (no file .icd)", folder);
        return 0;
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        good += judge_file(doctor, found.gl_pathv[i]);
    globfree(&found);
    return good;
}

int cla_doctor_loader(cla_doctor *doctor) {
    /* The variables of the usual loaders: a folder, a file of it, or a library. */
    static const char *const variables[] = {"OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES"};
    struct stat about;
    cla_doctor_part("Drivers");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (!value || value[0] == '\0')
            continue;
        cla_doctor_note("%s is set: %s", variables[i], value);
        if (stat(value, &about) != 0 && strchr(value, '/')) {
            cla_doctor_bad(doctor, "unset it, or give a folder that is there", "%s: %s", value, strerror(errno));
            return 0;
        }
        if (stat(value, &about) == 0 && S_ISDIR(about.st_mode))
            return judge_folder(doctor, value);
        const size_t length = strlen(value);
        if (length > 4 && strcmp(value + length - 4, ".icd") == 0)
            return judge_file(doctor, value);
        return judge_library(doctor, variables[i], value);
    }
    return judge_folder(doctor, FOLDER);
}

void cla_doctor_permissions(cla_doctor *doctor) {
    static const char *const patterns[] = {"/dev/dri/renderD*", "/dev/kfd",   "/dev/nvidia[0-9]*",
                                           "/dev/nvidiactl",    "/dev/mali0", "/dev/kgsl-3d0"};
    int files = 0;
    cla_doctor_part("Device files");
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        glob_t found;
        if (glob(patterns[i], 0, NULL, &found) != 0)
            continue;
        for (size_t f = 0; f < found.gl_pathc; f++, files++) {
            if (access(found.gl_pathv[f], R_OK | W_OK) == 0)
                cla_doctor_good("%s: this user may use it", found.gl_pathv[f]);
            else
                cla_doctor_bad(doctor,
                               "add the user to the file's group (`ls -l` tells it; often `usermod -aG render,video "
                               "USER`), then log in again",
                               "%s: %s", found.gl_pathv[f], strerror(errno));
        }
        globfree(&found);
    }
    if (files == 0)
        cla_doctor_note("none of a GPU");
}
