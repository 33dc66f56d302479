/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, contexts (one device, one queue, one program cache) and buffers (bytes without a shape). */
#ifndef CLATTN_CONTEXT_H
#define CLATTN_CONTEXT_H

#include <clattn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device that is open, with a queue and its compiled programs. Threads may share it.
 * Lost     where the driver answers a call that waits with a code that says that commands were ended or that the device
 *          is gone (OpenCL -5 or -14, as after a system ended a kernel that ran too long: see launch_ms), or any call
 *          with one that says that the queue is no longer valid, the call ends in CLATTN_E_DEVICE_LOST. From then on
 *          every call that would use the device ends in it at once. Destroying plans, buffers and context still gives
 *          everything back, and a new context may work. What fails to enqueue or to take memory loses nothing. */
typedef struct clattn_context clattn_context;
/* Bytes on a device, or on the host where the context is `cpu`. */
typedef struct clattn_buffer clattn_buffer;

/* What a device is. */
typedef enum clattn_device_class {
    CLATTN_DEVICE_CPU = 0, /* a CPU: PoCL, Intel's CPU runtime, or the `cpu` context */
    CLATTN_DEVICE_GPU,
    CLATTN_DEVICE_OTHER
} clattn_device_class;

/* What is known of a device. Texts that are longer are cut. */
typedef struct clattn_device_info {
    char spec[32]; /* what clattn_context_create takes: "opencl:0:0" or "cpu"; "" for a part of a device */
    char platform[128], name[128], vendor[128], version[128], driver[128]; /* as the driver tells them */
    bool is_opencl;                                                        /* false: the `cpu` context */
    bool usable;                      /* false: a platform without devices, or a device that cannot be opened */
    clattn_device_class device_class; /* OpenCL's type, without its flags */
    bool has_f64, has_f16, unified_memory, dedicated_local_memory; /* cl_khr_fp64, cl_khr_fp16; memory is the host's;
                                                                      local memory is not ordinary memory */
    uint32_t compute_units;                                        /* cores, or what the driver calls so */
    uint32_t vector_floats;                                        /* native width of a float vector */
    uint32_t least_subgroup; /* work-items of the narrowest sub-group that a kernel may ask for; 0: it cannot ask */
    uint64_t max_work_group; /* work-items of a group, at most */
    uint64_t global_bytes, max_alloc_bytes, local_bytes; /* memory; the largest buffer; local memory of a work-group */
    uint64_t reserved[16];                               /* zero: see clattn/version.h */
} clattn_device_info;

/* All devices, OpenCL's first, `cpu` last. Writes at most capacity entries; *count is how many there are.
 * devices may be NULL when capacity is 0. No OpenCL platform is not an error: `cpu` is always there.
 * Errors  CLATTN_E_ARGUMENT (count, or devices with a capacity, is NULL), CLATTN_E_MEMORY. */
CLATTN_API clattn_status clattn_devices(clattn_device_info *devices, size_t capacity, size_t *count);

/* All zero, or NULL in its place: the defaults. */
typedef struct clattn_context_options {
    bool profile; /* time every kernel; read with clattn_context_profile */
    /* Work on an OpenCL device goes in launches of about that many milliseconds at most, as a cautious estimate has it,
     * so that no watchdog ends one: systems kill what keeps a device busy for seconds. A work-group is not cut. The
     * bits of results do not depend on it. 0: CLATTN_LAUNCH_MS of the environment, else 500 on GPUs and no bound on
     * other devices; negative or infinite: no bound. */
    double launch_ms;
    /* Above 0: before an OpenCL device computes attention with kernels for the first time, they compute a small problem
     * with the same head dims, types and masks, all of whose rows are computed again on the CPU; CLBlast multiplies
     * matrices before it is used. What gives wrong results is not taken: another algorithm is, or, where it was asked
     * for by name, the call ends in CLATTN_E_VERIFY. Each test is run once in a context, and once for a device and its
     * driver where programs are kept on disk; it waits for the queue. Below 0: no test. 0: CLATTN_SELF_TEST of the
     * environment, "on" or "off", else on for GPUs and accelerators, off for CPUs. Not tested: see docs/devices.md. */
    int64_t self_test;
    uint64_t reserved[7]; /* zero: see clattn/version.h */
} clattn_context_options;

/* Opens a device. Threads may open and close contexts at once.
 *   device   NULL or "": the environment's CLATTN_DEVICE, else "opencl" if there is one, else "cpu".
 *            "opencl" (best: GPU before others), "opencl:gpu", "opencl:cpu", "opencl:PLATFORM:DEVICE" (numbers
 *            from 0, or parts of the names), "cpu" (no OpenCL: OpenBLAS and plain loops).
 *   options  NULL: the defaults.
 * Errors     CLATTN_E_NO_DEVICE, CLATTN_E_ARGUMENT (NULL; launch_ms that is NaN, CLATTN_LAUNCH_MS that is no number,
 *            CLATTN_SELF_TEST that is neither on nor off), CLATTN_E_MEMORY, CLATTN_E_OPENCL. *context is NULL then. */
CLATTN_API clattn_status clattn_context_create(const char *device, const clattn_context_options *options,
                                               clattn_context **context);
/* Waits for what is enqueued. Plans and buffers of the context must be destroyed first. NULL is allowed.
 * CLBlast keeps the programs that it made for the context (by `materialised`, by products of linear layers) in a cache
 * of the process, and with them the driver's own context. That cache is of all users of CLBlast in the process, so it
 * is not cleared here: whoever opens very many contexts may call CLBlastClearCache while no thread is in a call of
 * CLBlast or of this library; CLBlast then compiles again for those that are open. */
CLATTN_API void clattn_context_destroy(clattn_context *context);
/* Errors  CLATTN_E_ARGUMENT (NULL). */
CLATTN_API clattn_status clattn_context_info(const clattn_context *context, clattn_device_info *info);
/* Waits until everything enqueued on this context is done.
 * Errors  CLATTN_E_ARGUMENT (NULL), and the device's: CLATTN_E_DEVICE_LOST, CLATTN_E_MEMORY, CLATTN_E_OPENCL. */
CLATTN_API clattn_status clattn_context_sync(clattn_context *context);

/* Gives back what clattn_attention keeps between calls: up to 32 plans with their small arrays, and scratch of at most
 * 64 MiB. Calls after it make them anew. NULL is allowed. */
CLATTN_API void clattn_context_trim(clattn_context *context);

/* Programs that this context needed so far: compiled from source, and taken from the cache on disk. Either may be NULL;
 * CLBlast's are not among them. */
CLATTN_API void clattn_context_programs(clattn_context *context, size_t *compiled, size_t *restored);
/* Waits, and writes what the cache on disk does not hold yet of programs that have run. Else clattn_context_destroy
 * does it, or a call that waits five seconds later, which then takes up to a second more: for those who measure.
 * Special  a cache that is off or cannot be written: nothing is kept.
 * Errors   those of clattn_context_sync. */
CLATTN_API clattn_status clattn_context_save_programs(clattn_context *context);
/* The folder of that cache; "" when it is off. Owned by the context. */
CLATTN_API const char *clattn_context_cache_folder(const clattn_context *context);

/* Bytes of buffers that live now (scratch of plans included, kept ones too), and the most there were since the last
 * reset. */
CLATTN_API void clattn_context_memory(const clattn_context *context, uint64_t *current_bytes, uint64_t *peak_bytes);
/* The most so far becomes what there is now. */
CLATTN_API void clattn_context_memory_reset(clattn_context *context);

/* What a kernel took since the last reset. */
typedef struct clattn_profile_entry {
    char name[48];                   /* kernel */
    uint64_t count;                  /* launches */
    double total_ms, min_ms, max_ms; /* of all launches, the shortest, the longest */
    /* Of fused kernels, else 0: blocks of keys that tiles of queries computed, and those that they skipped since no
     * query of the tile sees a key of them (causal, window, lengths ...). */
    uint64_t computed_blocks, skipped_blocks; /* tiles by blocks of keys */
    /* Of all launches: multiplications and additions, and the least that must be moved (each input read once, each
     * output written once); 0 where the kernel does not know. */
    double operations, moved_bytes; /* sums over the launches */
    uint64_t reserved[8];           /* zero: see clattn/version.h */
} clattn_profile_entry;

/* Time per kernel since the last reset, longest total first; waits. Writes at most capacity entries.
 * Errors  CLATTN_E_UNSUPPORTED when the context, or the caller's queue, does not profile; CLATTN_E_ARGUMENT (NULL),
 *         CLATTN_E_MEMORY, CLATTN_E_OPENCL, CLATTN_E_DEVICE_LOST. */
CLATTN_API clattn_status clattn_context_profile(clattn_context *context, clattn_profile_entry *entries, size_t capacity,
                                                size_t *count);
/* Forgets all entries. */
CLATTN_API void clattn_context_profile_reset(clattn_context *context);

/* ---- buffers ---- */

/* bytes may be 0. Contents are undefined. *buffer is NULL after an error.
 * Errors  CLATTN_E_ARGUMENT (NULL), CLATTN_E_LIMIT (above the device's largest allocation), CLATTN_E_MEMORY,
 *         CLATTN_E_OPENCL, CLATTN_E_DEVICE_LOST. */
CLATTN_API clattn_status clattn_buffer_create(clattn_context *context, size_t bytes, clattn_buffer **buffer);
/* NULL is allowed. Work in flight that uses it is not waited for, and keeps the memory until it is done. */
CLATTN_API void clattn_buffer_destroy(clattn_buffer *buffer);
CLATTN_API size_t clattn_buffer_bytes(const clattn_buffer *buffer); /* of NULL: 0 */
/* The context that it was made in, which alone takes it; of NULL: NULL. */
CLATTN_API clattn_context *clattn_buffer_context(const clattn_buffer *buffer);
/* Copies bytes in at offset_bytes; data may be reused when it returns.
 * Errors  CLATTN_E_ARGUMENT (NULL), CLATTN_E_SHAPE (past the buffer's end), CLATTN_E_MEMORY, CLATTN_E_OPENCL,
 *         CLATTN_E_DEVICE_LOST. */
CLATTN_API clattn_status clattn_buffer_upload(clattn_buffer *buffer, size_t offset_bytes, const void *data,
                                              size_t bytes);
/* Waits for the work that writes it, then copies bytes out.
 * Errors  those of clattn_buffer_upload. */
CLATTN_API clattn_status clattn_buffer_download(clattn_buffer *buffer, size_t offset_bytes, void *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
