/* SPDX-License-Identifier: Apache-2.0 */
/* Usual mistakes in a call that is valid: masks that hide everything, numbers that hide nothing, the other polarity. */
#ifndef CLATTN_LINT_H
#define CLATTN_LINT_H

#include <clattn/attention.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text): the one list of what is looked for. */
#define CLATTN_LINT_LIST(X)                                                                                            \
    X(CLATTN_LINT_ROWS_MASKED, 0, "rows-masked")   /* rows, within their length, that see no key */                    \
    X(CLATTN_LINT_FINITE_MASK, 1, "finite-mask")   /* -FLT_MAX, -1e9, -65504 and the like in bias: they hide none */   \
    X(CLATTN_LINT_HIDES_ALL, 2, "hides-all")       /* keep is all 0, or drop all nonzero */                            \
    X(CLATTN_LINT_INVERTED, 3, "inverted")         /* keep, or drop, hides the causal triangle and shows the rest */   \
    X(CLATTN_LINT_SCALE_ZERO, 4, "scale-zero")     /* has_scale, and scale 0 */                                        \
    X(CLATTN_LINT_BIAS_ZERO, 5, "bias-zero")       /* bias is all 0 */                                                 \
    X(CLATTN_LINT_BOOL_BYTES, 6, "bool-bytes")     /* bytes of a bool mask that are neither 0 nor 1 */                 \
    X(CLATTN_LINT_LENGTHS_ZERO, 7, "lengths-zero") /* key_lengths is all 0 */                                          \
    X(CLATTN_LINT_F16_INFINITE, 8, "f16-infinite") /* infinities in q, k or v in f16: most likely an overflow */       \
    X(CLATTN_LINT_UNSET, 9, "unset")               /* a scale or window without its has_scale, has_window */

/* What clattn_lint looks for. */
typedef enum clattn_lint_kind {
#define CLATTN_LINT_ENUM(name, value, text) name = value,
    CLATTN_LINT_LIST(CLATTN_LINT_ENUM)
#undef CLATTN_LINT_ENUM
} clattn_lint_kind;

/* What was found. */
typedef struct clattn_warning {
    clattn_lint_kind kind; /* what is unusual */
    const char *tensor;    /* "keep", "bias", "scale" */
    const char *text;      /* one line: tensor, numbers, remedy. Both texts live until the call of the sink returns. */
    uint64_t reserved[4];  /* zero: see clattn/version.h */
} clattn_warning;

/* "rows-masked"; "?" for a number that is none. */
CLATTN_API const char *clattn_lint_name(clattn_lint_kind kind);
/* Calls sink for each warning, at most once a kind and tensor. Reads masks at most twice, and of q, k and v those in
 * f16 once, on buffers in blocks, for which it waits; outputs are not looked at. Gives rows-masked up where segments or
 * masks make it try more than 2^28 keys.
 * Errors   those of clattn_attention about args, CLATTN_E_MEMORY, and the device's. */
CLATTN_API clattn_status clattn_lint(const clattn_attention_args *args,
                                     void (*sink)(void *user, const clattn_warning *warning), void *user);

#ifdef __cplusplus
}
#endif
#endif
