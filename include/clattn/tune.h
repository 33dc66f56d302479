/* SPDX-License-Identifier: Apache-2.0 */
/* The tuner's record: a text file that says, for a device and a class of calls, which algorithm and which of its
 * variants were the fastest there. Plans read it; `clattn tune` writes it; without it defaults hold.
 *
 * The file is the environment's CLATTN_TUNING_FILE, else tuning.txt in the cache's folder (CLATTN_CACHE_DIR, else
 * $XDG_CACHE_HOME/clattn, else ~/.cache/clattn); empty or "off" means none. It is read when the first plan of a context
 * is made. Nothing in it is trusted: lines that cannot be read and entries of other devices are passed over, and what
 * is impossible on a call is as if it were not there. A record only ever chooses among ways that are right. */
#ifndef CLATTN_TUNE_H
#define CLATTN_TUNE_H

#include <clattn/attention.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a plan's variant is recorded under: "fused_split f32 d128 v128 q1 k4096 heads32 group4"; "" where its algorithm
 * has one way. Owned by the plan. */
CLATTN_API const char *clattn_plan_variant_key(const clattn_plan *plan);
/* What the choice of the algorithm is recorded under: "algorithm f32 d128 ...". Owned by the plan. */
CLATTN_API const char *clattn_plan_algorithm_key(const clattn_plan *plan);

/* An entry of the record. */
typedef struct clattn_tuned {
    const char *key, *value; /* lines without ": " in key and " | " in value; of visible characters and blanks */
    double ms, default_ms;   /* as they were measured, for people */
    uint64_t reserved[8];    /* zero: see clattn/version.h */
} clattn_tuned;

/* Takes an entry into the context's record, in the place of one with the same key: for plans made from now on, and for
 * clattn_tuning_save. A value of NULL removes the entry.
 * Errors  CLATTN_E_ARGUMENT (NULL; text that cannot stand in a line; times that are none), CLATTN_E_MEMORY. */
CLATTN_API clattn_status clattn_tuning_set(clattn_context *context, const clattn_tuned *entry);
/* Writes what clattn_tuning_set took and removed, together with all other entries that the file has by then, of this
 * and of other devices. The file is replaced at once or not at all, and others that save it meanwhile, processes too,
 * wait for each other (by a file PATH.lock, which goes again). path: NULL for the context's file.
 * Errors  CLATTN_E_ARGUMENT (no file), CLATTN_E_FORMAT (the file is something else, and stays), CLATTN_E_IO,
 *         CLATTN_E_MEMORY. */
CLATTN_API clattn_status clattn_tuning_save(clattn_context *context, const char *path);
/* The file that the context reads; "" without one. Owned by the context. */
CLATTN_API const char *clattn_tuning_file(const clattn_context *context);
/* The entry number index, in the order of the record. Its strings are the context's, until clattn_tuning_set.
 * false past the end. */
CLATTN_API bool clattn_tuning_entry(clattn_context *context, size_t index, clattn_tuned *entry);
/* What was passed over in the file, a line each: "line 7: no time behind \"|\""; "" when all was read. The context's.
 */
CLATTN_API const char *clattn_tuning_skipped(clattn_context *context);

/* CLBlast's parameters, which `materialised` attention and linear layers on devices that are no CPUs use: the sets that
 * may be recorded, as texts, NULL past the end; and the key for the type of the sums. A set is of the device and the
 * process: the next product after clattn_tuning_set uses it, for which CLBlast compiles anew. */
CLATTN_API const char *clattn_tuning_clblast(size_t index);
/* The key of such a set, for the type of the sums. */
CLATTN_API const char *clattn_tuning_clblast_key(clattn_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
