/* SPDX-License-Identifier: Apache-2.0 */
/* Below OpenCL: the loader's list of drivers, and the system's device files. */
#define _POSIX_C_SOURCE 200809L /* glob */
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

/* text: where it is named, a line break, the library. It stays loaded, since drivers do not like to go. */
static void load(cla_doctor *doctor, const char *text) {
    const char *library = strchr(text, '\n') + 1;
    const int from = (int)(library - text - 1);
    if (dlopen(library, RTLD_LAZY | RTLD_LOCAL)) {
        cla_doctor_good("%.*s: %s loads", from, text, library);
        return;
    }
    const char *why = dlerror();
    cla_doctor_bad(doctor, "install the driver's package again, or remove the file of a driver that is gone",
                   "%.*s: %s does not load: %s", from, text, library, why ? why : "no reason given");
}

static void judge_library(cla_doctor *doctor, const char *from, const char *library) {
    char text[2200];
    snprintf(text, sizeof text, "%s\n%s", from, library);
    cla_doctor_apart(doctor, library, load, text);
}

static void judge_file(cla_doctor *doctor, const char *path) {
    char library[1024];
    if (library_of(path, library, sizeof library))
        judge_library(doctor, path, library);
    else
        cla_doctor_bad(doctor, "make it readable, or install the driver's package again", "%s: %s", path,
                       access(path, R_OK) == 0 ? "names no library" : strerror(errno));
}

static void judge_folder(cla_doctor *doctor, const char *folder) {
    glob_t found;
    char pattern[1100];
    snprintf(pattern, sizeof pattern, "%s/*.icd", folder);
    if (glob(pattern, 0, NULL, &found) != 0) {
        cla_doctor_bad(doctor, DRIVERS, "%s: there is no driver (no file .icd)", folder);
        return;
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        judge_file(doctor, found.gl_pathv[i]);
    globfree(&found);
}

/* A folder, a file of the usual folder or elsewhere, or a library. */
static void judge_value(cla_doctor *doctor, const char *variable, const char *value) {
    struct stat about;
    char path[1200];
    const size_t length = strlen(value);
    const bool is_list_file = length > 4 && strcmp(value + length - 4, ".icd") == 0;
    snprintf(path, sizeof path, FOLDER "/%s", value);
    if (is_list_file && !strchr(value, '/') && access(path, F_OK) == 0)
        judge_file(doctor, path);
    else if (stat(value, &about) == 0 && S_ISDIR(about.st_mode))
        judge_folder(doctor, value);
    else if (stat(value, &about) != 0 && strchr(value, '/'))
        cla_doctor_bad(doctor, "unset it, or give what is there", "%s: %s", value, strerror(errno));
    else if (is_list_file)
        judge_file(doctor, value);
    else
        judge_library(doctor, variable, value);
}

void cla_doctor_loader(cla_doctor *doctor) {
    /* Of ocl-icd, Debian's loader, which look in another place than the usual folder. */
    static const char *const elsewhere[] = {"OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"};
    cla_doctor_part("Drivers");
    const char *more = getenv("OCL_ICD_FILENAMES");
    if (more && more[0] != '\0')
        cla_doctor_note("OCL_ICD_FILENAMES is set: Khronos' loader takes drivers from it too: %s", more);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        const char *value = getenv(elsewhere[i]);
        if (!value || value[0] == '\0')
            continue;
        cla_doctor_note("%s is set: %s", elsewhere[i], value);
        judge_value(doctor, elsewhere[i], value);
        return;
    }
    judge_folder(doctor, FOLDER);
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
