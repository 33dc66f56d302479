/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of oclgrind_run.c: what is counted, and problems beside the algorithms of attention. */
#ifndef OCLGRIND_PARTS_H
#define OCLGRIND_PARTS_H

#include <clattn/clattn.h>
#include <stdbool.h>
#include <stdio.h>

/* ---- oclgrind_tally.c ---- */

typedef struct {
    int passed, failed;
    FILE *reports; /* of Oclgrind, gathered */
} tally;

void tally_count(tally *t, bool right, const char *text);
/* Once a context is gone, which leaves there what was told of it; the next one empties the log. */
void tally_take_log(tally *t);
/* All that was taken, at the end. */
void tally_write_log(const tally *t);

/* ---- oclgrind_parts.c: each in contexts of its own, but the last ---- */

void parts_fill(clattn_dtype dtype, tally *t);
void parts_short(clattn_dtype dtype, tally *t);
void parts_sums(const char *algorithm, clattn_dtype dtype, tally *t);
void parts_linear(const char *algorithm, clattn_dtype dtype, tally *t);
void parts_random(tally *t);
void parts_read(tally *t);
void parts_meter(clattn_context *context, tally *t);

#endif
