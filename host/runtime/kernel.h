/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and their kernels. For program.c, program_disk.c and launch.c. */
#ifndef CLA_KERNEL_H
#define CLA_KERNEL_H

#include "base/str.h"
#include "runtime/program.h"
#include <CL/cl.h>

enum { CLA_PROGRAM_KERNELS = 8, CLA_PROGRAM_IDLE = 16 };

/* What has run: drivers such as PoCL compile a kernel when it runs first, and again for a large number of work-items.
 */
enum { CLA_RAN_SMALL = 1, CLA_RAN_LARGE = 2, CLA_SMALL_ITEMS = 65535 };

typedef struct cla_program cla_program;
struct cla_program {
    cla_program *next;
    char *key; /* file, newline, options */
    cl_program program;
    char *disk_key; /* NULL where nothing is kept on disk */
    bool unsaved;   /* a kernel ran that the entry on disk does not know */
    struct {
        char name[48];
        unsigned ran;
    } kernels[CLA_PROGRAM_KERNELS]; /* those that ran, here or before the program was saved */
    size_t kernel_count;
    cla_kernel *idle; /* destroyed ones, at most CLA_PROGRAM_IDLE, for whoever creates such a kernel next */
};

struct cla_kernel {
    cl_kernel kernel;
    clattn_context *context;
    cla_program *program;
    cla_kernel *next; /* while it is idle */
    size_t work_group;
    unsigned ran;                   /* noted already */
    double operations, moved_bytes; /* of a launch, for the profile */
    char name[48];
};

/* ---- program_disk.c: the binary cache on disk. The caller holds the context's lock, but for cla_program_ran. ---- */

/* The text that names an entry: formats, platform, device, driver, sources, options. NULL in *text: nothing is kept. */
clattn_status cla_program_disk_key(clattn_context *context, const cla_key *key, const unsigned char *sources,
                                   char **text);
/* Its first lines: this version, platform, device and driver. false: the driver does not tell. */
bool cla_program_disk_device(clattn_context *context, cla_str *text);
/* From disk, with what had run then; p->program stays NULL where there is none that this driver takes. */
void cla_program_restore(clattn_context *context, const cla_key *key, cla_program *p);
/* Notes that the kernel has run on a few or on many work-items (CLA_RAN_). */
void cla_program_ran(clattn_context *context, cla_kernel *kernel, unsigned ran);
/* Those whose notes have changed. */
void cla_programs_save(clattn_context *context);

#endif
