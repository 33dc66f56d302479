/* SPDX-License-Identifier: Apache-2.0 */
/* The stored inputs and answers of the experiments, which lie in the program: study.safetensors, embedded. */
#ifndef CLA_STUDY_DATA_H
#define CLA_STUDY_DATA_H

#include <clattn/io.h>

extern const unsigned char cla_study_bytes[];
extern const size_t cla_study_byte_count;

/* A copy of one tensor. Prints one line and returns false when there is none, or no memory. */
bool cla_study_load(const char *name, clattn_array *array);

#endif
