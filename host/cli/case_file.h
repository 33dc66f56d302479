/* SPDX-License-Identifier: Apache-2.0 */
/* `--dump`: one attention call as a case that `clattn check` replays: a reproducible bug report.
 *
 * A safetensors file packed as the test vectors are: tensors "<case>/<argument>", and under the metadata key
 * "<case>" a JSON text. The case is named "run". The JSON:
 *
 *   "op"     "clattn_run"
 *   "opset"  null
 *   "attrs"  {
 *     "version":   "0.1.0"              of the library that ran
 *     "device":    "opencl:0:0"         as --device takes it
 *     "device_name", "driver": texts    for the reader
 *     "algorithm": "fused_lanes"        that ran; check uses its own --algorithm
 *     "scale":     0.125 | null         null: 1 / sqrt(D)
 *     "causal":    true | false
 *     "align":     "unset" | "top-left" | "bottom-right" | "offset"
 *     "offsets":   [3, 0] | null        one a batch, with "offset"
 *     "window":    [128, 0] | null      left, right; -1: no limit
 *     "lengths":   [5, 8] | null        key lengths, one a batch
 *   }
 *   "in"     ["Q", "K", "V"] and those of "keep", "drop", "bias" that were given
 *   "out"    {"Y": [rtol, atol]} and "LSE", "P" (weights) where they were asked for
 *   "note"   a text
 *
 * Tensors, all row-major: Q [B, H, N, D], K [B, Hk, M, D], V [B, Hk, M, Dv] in f32 or f64 (--layout and --heads are
 * applied already); keep, drop (bool or u8) and bias (the dtype of Q) of rank 2 to 4, as given; Y [B, H, N, Dv],
 * LSE [B, H, N], P [B, H, N, M] in the dtype of Q. Polarity: keep nonzero = may be seen, drop nonzero = may not.
 * Y, LSE and P are what the run gave; but when --verify found it wrong, they are the exact result rounded to the type,
 * and the run's own are added as Y_got, LSE_got, P_got, which are not listed under "out".
 */
#ifndef CLA_CASE_FILE_H
#define CLA_CASE_FILE_H

#include <clattn/attention.h>
#include <clattn/io.h>
#include <clattn/version.h>

#define CLA_CASE_OP "clattn_run"
#define CLA_CASE_NAME "run"

typedef struct cla_case_result {
    clattn_tensor view; /* rank 0: not asked for */
    clattn_tensor got;  /* of a wrong run, else rank 0 */
    double rtol, atol;
} cla_case_result;

typedef struct cla_case {
    const clattn_attention_args *args; /* inputs (host arrays, rank 4; masks as given) and options */
    const clattn_device_info *device;
    const char *algorithm, *note;
    cla_case_result o, lse, weights;
} cla_case;

/* Prints one line and returns the exit status when something is wrong. */
int cla_case_write(const char *path, const cla_case *c);

#endif
