/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning of one problem on one device: every variant of its algorithms is built, judged and timed against the default
 * in turns. Prints nothing but notes on a terminal, and what was wrong. */
#ifndef CLA_TUNE_RUN_H
#define CLA_TUNE_RUN_H

#include "problem_text.h"
#include <clattn/clattn.h>

enum { CLA_TUNE_ROWS = 8, CLA_TUNE_NAME = 48, CLA_TUNE_VARIANT = 96, CLA_TUNE_KEY = 240 };

#define CLA_TUNE_GAIN 1.03 /* what is faster by less is as good as the default, which then stays */

typedef struct cla_tune {
    clattn_context *context;
    double end;             /* of the time, by cla_seconds */
    bool (*stopped)(void);  /* the user wants an end; NULL: never */
    const bool *algorithms; /* [clattn_algorithm_count()]: which; NULL: those that may be worth it */
} cla_tune;

/* What was found about an algorithm. */
typedef struct cla_tune_row {
    char name[CLA_TUNE_NAME];
    char key[CLA_TUNE_KEY];          /* of the record; "" where it has one way */
    char standard[CLA_TUNE_VARIANT]; /* its default variant */
    char best[CLA_TUNE_VARIANT];     /* the fastest, or the default */
    double default_ms, best_ms; /* medians of the rounds that decided; of the default alone where nothing else ran */
    int variants, tried, failed, wrong;
    bool faster;    /* best is not the default */
    char note[256]; /* why something was not tried, or failed */
} cla_tune_row;

typedef struct cla_tune_result {
    cla_tune_row rows[CLA_TUNE_ROWS];
    size_t row_count;             /* 0: nothing could be tuned; note says why */
    char key[CLA_TUNE_KEY];       /* of the choice of the algorithm */
    char standard[CLA_TUNE_NAME]; /* the algorithm that the library chooses itself */
    char best[CLA_TUNE_NAME];     /* the one that is faster, each with its best variant; or the same */
    double default_ms, best_ms;   /* as above */
    char note[256];
    bool failed,
        cut; /* a result of the default is wrong or there is none; the time ended before everything was tried */
} cla_tune_result;

/* Tunes a problem within tune->end. */
void cla_tune_problem(const cla_tune *tune, const cla_problem_text *problem, cla_tune_result *result);
/* CLBlast's parameters for the device, on the products of one problem by `materialised`: one row. */
void cla_tune_clblast(const cla_tune *tune, const cla_problem_text *problem, cla_tune_result *result);
/* Takes what is faster into the context's record, and out of it what is not any more. */
clattn_status cla_tune_record(clattn_context *context, const cla_tune_result *result);

#endif
