/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels the problems of oclgrind_run.c take. The linker puts these functions before the library's own: while
 * they list, kernels are neither built nor launched, matrix products neither, and what would be launched is noted. */
#include "oclgrind_ops.h"

#include "base/mem.h"
#include "ops/gemm.h"
#include "runtime/kernel.h"
#include "runtime/launch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1000, LINE = 1200 };

static struct {
    bool on;
    char *keys[MOST]; /* "kernel file options" of what was launched */
    int count;
} list;

/* A kernel that is not built. */
typedef struct noted_kernel {
    cla_kernel kernel; /* the first member, which is all that the library sees */
    char text[LINE];
} noted_kernel;

clattn_status __real_cla_kernel_create(clattn_context *context, const cla_key *key, size_t work_group,
                                       cla_kernel **kernel);
clattn_status __wrap_cla_kernel_create(clattn_context *context, const cla_key *key, size_t work_group,
                                       cla_kernel **kernel);
clattn_status __real_cla_launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_arg *args,
                                int count);
clattn_status __wrap_cla_launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_arg *args,
                                int count);
clattn_status __real_cla_gemm_batched(clattn_context *context, const cla_gemm *gemm);
clattn_status __wrap_cla_gemm_batched(clattn_context *context, const cla_gemm *gemm);

clattn_status __wrap_cla_kernel_create(clattn_context *context, const cla_key *key, size_t work_group,
                                       cla_kernel **kernel) {
    if (!list.on)
        return __real_cla_kernel_create(context, key, work_group, kernel);
    noted_kernel *noted = NULL;
    const clattn_status status = cla_alloc(1, sizeof *noted, "kernel", &noted);
    *kernel = status == CLATTN_OK ? &noted->kernel : NULL;
    if (status != CLATTN_OK)
        return status;
    noted->kernel.work_group = work_group;
    snprintf(noted->text, sizeof noted->text, "%s %s %s", key->kernel, key->file, key->options);
    return CLATTN_OK;
}

clattn_status __wrap_cla_launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_arg *args,
                                int count) {
    if (!list.on)
        return __real_cla_launch(context, kernel, groups, args, count);
    const char *text = ((const noted_kernel *)kernel)->text;
    int i = 0;
    while (i < list.count && strcmp(list.keys[i], text) != 0)
        i++;
    char *copy = i < list.count || groups == 0 ? NULL : malloc(strlen(text) + 1);
    if (!copy)
        return CLATTN_OK;
    if (list.count == MOST)
        exit(1);
    list.keys[list.count++] = strcpy(copy, text);
    return CLATTN_OK;
}

clattn_status __wrap_cla_gemm_batched(clattn_context *context, const cla_gemm *gemm) {
    return list.on ? CLATTN_OK : __real_cla_gemm_batched(context, gemm);
}

void list_begin(void) { list.on = true; }
bool list_is_on(void) { return list.on; }

static bool is_launched(const char *kernel, size_t length) {
    for (int i = 0; i < list.count; i++)
        if (strncmp(list.keys[i], kernel, length) == 0 && list.keys[i][length] == ' ')
            return true;
    return false;
}

int list_end(bool keys) {
    int missing = 0, all = 0;
    for (int i = 0; i < list.count && keys; i++)
        puts(list.keys[i]);
    for (const cla_source *s = cla_sources; s->name; s++) {
        const char *end = (const char *)s->text + s->bytes;
        for (const char *at = strstr((const char *)s->text, "__kernel "); at && at < end;
             at = strstr(at + 1, "__kernel ")) {
            const char *name = strstr(at, "void");
            name = name ? name + 4 + strspn(name + 4, " \n") : "";
            const size_t length = strcspn(name, "(");
            all++;
            if (is_launched(name, length))
                continue;
            printf("FAILED no problem runs %.*s of %s\n", (int)length, name, s->name);
            missing++;
        }
    }
    for (int i = 0; i < list.count; i++)
        free(list.keys[i]);
    printf("%d kernels, %d of them in no problem\n", all, missing);
    return missing;
}
