/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a run writes: all of them or none. Everything is first written beside its place under a temporary
 * name; only when all are complete they are renamed, and when one cannot be, those before it are as they were. Links
 * are followed, read-only files refused. Several tensors for one safetensors file go there together, beside what a file
 * that is there holds under other names. */
#ifndef CLA_OUTPUTS_H
#define CLA_OUTPUTS_H

#include <clattn/io.h>

enum { CLA_OUTPUTS_MAX = 10 };

typedef struct cla_output {
    const char *option; /* "-o", for messages */
    char *path;         /* as it was said; malloc'ed, like the next ones */
    char *target;       /* path with links followed, once it is checked */
    char *staged;       /* the temporary file beside it, which exists once it is checked */
    char *backup;       /* the older file, while its place is taken */
    bool placed;        /* the new file is in its place */
    const char *name;   /* of the tensor in a safetensors file; NULL: an npy file, or no tensor */
    bool complete;      /* the temporary file is written */
} cla_output;

typedef struct cla_outputs {
    cla_output files[CLA_OUTPUTS_MAX];
    clattn_array arrays[CLA_OUTPUTS_MAX]; /* borrowed */
    int count;
} cla_outputs;

/* All of these print one line and return the exit status when something is wrong. */

/* Declares a tensor "X.npy" or "FILE.safetensors:NAME" (without :NAME: default_name). NULL specs are skipped.
 * *index gets its number, -1 for a NULL spec. */
int cla_outputs_add(cla_outputs *outputs, const char *option, const char *spec, const char *default_name, int *index);
/* Declares a file that the caller writes to files[*index].staged, and then sets complete. */
int cla_outputs_add_file(cla_outputs *outputs, const char *option, const char *path, int *index);
/* Before the work: no two outputs share a place, none is a file of inputs (a list of specs, NULL entries are skipped),
 * all directories can be written, and so can files that are there. Makes the temporary files. */
int cla_outputs_check(cla_outputs *outputs, const char *const *inputs, int input_count);

/* Sets the array of a tensor; index -1 is ignored. */
void cla_outputs_set(cla_outputs *outputs, int index, const clattn_array *array);
/* Writes the tensors under temporary names. */
int cla_outputs_stage(cla_outputs *outputs);
/* Renames everything that is complete; nothing, where one cannot be. */
int cla_outputs_commit(cla_outputs *outputs);
/* Removes what was not committed; frees. */
void cla_outputs_free(cla_outputs *outputs);

#endif
