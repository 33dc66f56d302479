/* SPDX-License-Identifier: Apache-2.0 */
/* OpenMP's functions, also where it is switched off (CLATTN_OPENMP): one thread then. */
#ifndef CLA_OPENMP_H
#define CLA_OPENMP_H

#ifdef _OPENMP
#include <omp.h>
#else
static inline int omp_get_max_threads(void) { return 1; }
static inline int omp_get_thread_num(void) { return 0; }
#endif

#endif
