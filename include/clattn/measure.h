/* SPDX-License-Identifier: Apache-2.0 */
/* What a device can do at most, measured: fused multiply-adds in f32, and reading. A time is judged by these. */
#ifndef CLATTN_MEASURE_H
#define CLATTN_MEASURE_H

#include <clattn/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What clattn_device_peak measured. */
typedef struct clattn_peak {
    double gflops;                       /* f32, 1e9 a second; a fused multiply-add is two */
    double gbytes;                       /* read from memory, 1e9 bytes a second */
    double cached_gbytes;                /* the same bytes again and again: caches hold them */
    uint64_t memory_bytes, cached_bytes; /* how many were read for that */
    uint64_t reserved[8];                /* zero: see clattn/version.h */
} clattn_peak;

/* The best of several samples of each; takes about half a second and memory_bytes of the device's memory, and waits.
 * Errors  CLATTN_E_UNSUPPORTED (the `cpu` context: its CPU is measured as an OpenCL device), CLATTN_E_ARGUMENT (NULL),
 *         and the device's. *peak is zeroed then. */
CLATTN_API clattn_status clattn_device_peak(clattn_context *context, clattn_peak *peak);

/* The same one sample at a time, so that samples can alternate with what is judged by them. */
typedef struct clattn_meter clattn_meter;
/* Errors  those of clattn_device_peak. *meter is NULL then. */
CLATTN_API clattn_status clattn_meter_create(clattn_context *context, clattn_meter **meter);
CLATTN_API void clattn_meter_destroy(clattn_meter *meter); /* NULL is allowed */
/* One sample of about 10 ms; waits.
 * Errors  CLATTN_E_ARGUMENT (NULL), and the device's. */
CLATTN_API clattn_status clattn_meter_fma(clattn_meter *meter, double *gflops);
/* One sample of a kernel that reads so many bytes, rounded up to whole groups, and nothing else; 0: more than caches
 * hold. Takes so much memory until the meter is destroyed, and waits.
 * Errors  CLATTN_E_ARGUMENT (NULL), CLATTN_E_LIMIT (above the device's largest allocation), and the device's. */
CLATTN_API clattn_status clattn_meter_read(clattn_meter *meter, uint64_t bytes, double *gbytes);

#ifdef __cplusplus
}
#endif
#endif
