/* SPDX-License-Identifier: Apache-2.0 */
/* The line that names a problem. */
#include "base/str.h"
#include "oracle_internal.h"
#include <stdio.h>

static void append_mask(cla_str *s, const char *name, oracle_mask mask) {
    if (mask.rank)
        cla_str_append(s, " %s=rank%d:%s%s%s%s", name, mask.rank, mask.axes & ORACLE_BATCH ? "B" : "1",
                       mask.axes & ORACLE_HEAD ? "H" : "1", mask.axes & ORACLE_QUERY ? "N" : "1",
                       mask.axes & ORACLE_KEY ? "M" : "1");
}

static void append_types(cla_str *s, const oracle_config *f) {
    if (!f->typed) {
        cla_str_append(s, " %s", clattn_dtype_name(f->dtype));
        return;
    }
    cla_str_append(s, " %s,%s,%s,%s", clattn_dtype_name(f->q_type), clattn_dtype_name(f->k_type),
                   clattn_dtype_name(f->v_type), clattn_dtype_name(f->o_type));
    if (f->bias.rank)
        cla_str_append(s, ",%s", clattn_dtype_name(f->bias_type));
}

static void append_options(cla_str *s, const oracle_config *f) {
    const struct {
        bool is;
        const char *name;
    } flags[] = {{f->alibi, "alibi"},
                 {f->sinks, "sinks"},
                 {f->query_lengths, "query-lengths"},
                 {f->prefix, "prefix"},
                 {f->segments, "segments"},
                 {f->sequences, "sequences"},
                 {f->short_masks, "short-masks"},
                 {f->batch_invariant, "batch-invariant"}};
    if (f->softcap != 0)
        cla_str_append(s, " softcap=%.17g", f->softcap);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].is)
            cla_str_append(s, " %s", flags[i].name);
    if (f->dropout > 0)
        cla_str_append(s, " dropout=%.17g", f->dropout);
    if (f->page_size)
        cla_str_append(s, " pages=%lld", (long long)f->page_size);
    if (f->variant)
        cla_str_append(s, " variant \"%s\"", f->variant);
}

const char *oracle_text(const oracle_config *config, char text[ORACLE_TEXT]) {
    static const char *const layouts[] = {"bhsd", "bshd", "packed", "transposed", "shared", "padded"};
    static const char *const aligns[] = {"unset", "top-left", "bottom-right", "offset"};
    const oracle_config *f = config;
    cla_str s = {0};
    cla_str_append(&s, "b%lld h%lld/%lld q%lld k%lld d%lld v%lld", (long long)f->B, (long long)f->H, (long long)f->Hk,
                   (long long)f->N, (long long)f->M, (long long)f->D, (long long)f->Dv);
    append_types(&s, f);
    cla_str_append(&s, " %s guard=%lld %s seed=%llu%s%s", layouts[f->layout], (long long)f->guard,
                   f->buffers ? f->caller_workspace ? "plan-workspace" : "plan" : "call", (unsigned long long)f->seed,
                   f->lse ? " lse" : "", f->weights ? " weights" : "");
    if (f->causal || f->has_window || f->alibi)
        cla_str_append(&s, "%s align=%s", f->causal ? " causal" : "", aligns[f->align]);
    if (f->has_window)
        cla_str_append(&s, " window=%lld,%lld", (long long)f->window_left, (long long)f->window_right);
    if (f->lengths)
        cla_str_append(&s, " lengths");
    append_mask(&s, "keep", f->keep);
    append_mask(&s, "drop", f->drop);
    append_mask(&s, "bias", f->bias);
    if (f->has_scale)
        cla_str_append(&s, " scale=%.17g", f->scale);
    append_options(&s, f);
    snprintf(text, ORACLE_TEXT, "%s", cla_str_text(&s));
    cla_str_free(&s);
    return text;
}
