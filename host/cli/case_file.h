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
 *     "softcap":   30 | 0               0: none
 *     "batch_invariant", "short_masks": true | false
 *     "k_type", "v_type": "q8_0" | null   what K and V are converted to before the call
 *     "causal":    true | false
 *     "align":     "unset" | "top-left" | "bottom-right" | "offset"
 *     "offsets":   [3, 0] | null        one a batch, with "offset"
 *     "window":    [128, 0] | null      left, right; -1: no limit
 *     "lengths":   [5, 8] | null        key lengths, one a batch, or a sequence; the next two alike
 *     "query_lengths", "prefix_lengths": [3, 2] | null
 *     "cu_queries", "cu_keys": [0, 3, 5] | null   sequences one after another
 *   }
 *   "in"     ["Q", "K", "V"] and those that were given of "keep", "drop", "bias", "sinks", "slopes", "query_segments",
 *            "key_segments", "block_table"
 *   "out"    {"Y": [rtol, atol]} and "LSE", "P" (weights) where they were asked for
 *   "note"   a text
 *
 * Tensors, all row-major: Q [B, H, N, D], K [B, Hk, M, D], V [B, Hk, M, Dv] in f32, f64, f16 or bf16, each its own
 * (--layout and --heads are applied already; with a block table K and V are [pages, Hk, page, D or Dv]); keep, drop
 * (bool or u8) and bias (a float type) of rank 2 to 4, as given; sinks [H], slopes [H] in f32, query_segments [B, N]
 * and key_segments [B, M] and block_table [B, pages] in i32; Y [B, H, N, Dv] in a type of its own, LSE [B, H, N] and P
 * [B, H, N, M] in that of the sums. Polarity: keep nonzero = may be seen, drop nonzero = may not. Y, LSE and P are what
 * the run gave; but when --verify found it wrong, they are the exact result rounded to the type, and the run's own are
 * added as Y_got, LSE_got, P_got, which are not listed under "out".
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
