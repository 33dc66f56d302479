/* SPDX-License-Identifier: Apache-2.0 */
/* Output files under a temporary name, so that no half file is ever seen. */
#include "args.h"
#include "bench_report.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

char *cla_part_name(const char *path) {
    const size_t size = strlen(path) + sizeof ".part";
    char *name = malloc(size);
    if (name)
        snprintf(name, size, "%s.part", path);
    return name;
}

FILE *cla_part_open(const char *path) {
    char *part = cla_part_name(path);
    FILE *file = part ? fopen(part, "wb") : NULL;
    if (!file)
        cla_fail(CLA_EXIT_FAILED, "bench: %s cannot be written: %s", path, part ? strerror(errno) : "out of memory");
    free(part);
    return file;
}

int cla_part_commit(const char *path, FILE *file) {
    char *part = cla_part_name(path);
    errno = 0;
    bool ok = part != NULL && (!file || (!ferror(file) && fflush(file) == 0));
    if (file)
        ok = fclose(file) == 0 && ok;
    ok = ok && rename(part, path) == 0;
    const int why = errno;
    if (!ok && part)
        remove(part);
    free(part);
    if (!ok)
        return cla_fail(CLA_EXIT_FAILED, "bench: %s cannot be written: %s", path, strerror(why ? why : EIO));
    return CLA_EXIT_OK;
}

void cla_part_discard(const char *path, FILE *file) {
    char *part = cla_part_name(path);
    if (file)
        fclose(file);
    if (part)
        remove(part);
    free(part);
}
