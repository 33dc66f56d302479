/* SPDX-License-Identifier: Apache-2.0 */
/* Two plans timed in turns: the ratio of each pair of neighbours is free of what changes slowly on the machine. */
#ifndef CLA_TUNE_RACE_H
#define CLA_TUNE_RACE_H

#include <clattn/attention.h>

enum { CLA_RACE_ROUNDS = 31 };

typedef struct cla_race {
    clattn_context *context;
    clattn_plan *plans[2];
    double ms[2]; /* medians */
    double ratio; /* median of the rounds' second over first */
    int rounds;   /* that were timed; 0: a plan failed, and the library's message says why */
} cla_race;

/* One execution and the wait for it, in seconds; negative when it fails. */
double cla_race_once(clattn_context *context, clattn_plan *plan);
/* At most `rounds` of them (three and more); ends early at `end` (cla_seconds), but not before three. */
void cla_race_run(cla_race *race, int rounds, double end);

#endif
