/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of `gradient`: how much of a gradient comes through 1 to 24 layers, as a layer has a residual
 * connection, LayerNorm, both or none. */
#ifndef CLA_STUDY_DEPTH_H
#define CLA_STUDY_DEPTH_H

#include "study.h"

enum { CLA_DEPTHS = 9, CLA_ARRANGEMENTS = 5 };
extern const int cla_depths[CLA_DEPTHS];
/* In words, and as a name in the JSON file's rows. */
extern const char *const cla_arrangement_names[CLA_ARRANGEMENTS], *const cla_arrangement_keys[CLA_ARRANGEMENTS];

/* Prints a table, adds rows and figures. Returns the exit status. */
int cla_study_depth(cla_study *study);

#endif
