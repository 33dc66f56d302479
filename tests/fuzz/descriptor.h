/* SPDX-License-Identifier: Apache-2.0 */
/* An attention problem from the bytes of an input, small enough for plain loops. */
#ifndef DESCRIPTOR_H
#define DESCRIPTOR_H

#include "fuzz.h"
#include "oracle.h"

static inline oracle_mask descriptor_mask(fuzz_input *in) {
    const unsigned n = fuzz_byte(in);
    const int rank = n & 1 ? 2 + (int)(n >> 1) % 3 : 0;
    return (oracle_mask){rank, rank ? (n >> 4) & ((1u << rank) - 1) : 0};
}

static inline void descriptor_types(fuzz_input *in, oracle_config *c) {
    static const clattn_dtype types[] = {CLATTN_F32, CLATTN_F16, CLATTN_BF16, CLATTN_F64, CLATTN_Q8_0, CLATTN_Q4_0};
    c->dtype = fuzz_flag(in) ? CLATTN_F64 : CLATTN_F32;
    c->typed = fuzz_flag(in);
    c->q_type = types[fuzz_below(in, 4)];
    c->k_type = types[fuzz_below(in, 6)];
    c->v_type = types[fuzz_below(in, 6)];
    c->o_type = types[fuzz_below(in, 4)];
    c->bias_type = types[fuzz_below(in, 4)];
    if (c->typed && clattn_dtype_length(c->k_type) > 1)
        c->D = 32;
    if (c->typed && clattn_dtype_length(c->v_type) > 1)
        c->Dv = 32;
}

static inline void descriptor_options(fuzz_input *in, oracle_config *c) {
    static const double scales[] = {0, 0.19, -0.7, 0, 3}, caps[] = {0, 0, 0.9, 12};
    const unsigned flags = fuzz_byte(in), more = fuzz_byte(in);
    c->has_scale = flags & 1;
    c->scale = scales[fuzz_below(in, 5)];
    c->softcap = caps[fuzz_below(in, 4)];
    c->causal = flags & 2;
    c->has_window = flags & 4;
    c->align = (clattn_align)(CLATTN_ALIGN_TOP_LEFT + fuzz_below(in, 3));
    c->window_left = flags & 8 ? CLATTN_UNLIMITED : fuzz_below(in, 12);
    c->window_right = flags & 16 ? CLATTN_UNLIMITED : fuzz_below(in, 12);
    c->lengths = flags & 32;
    c->alibi = flags & 64;
    c->sinks = flags & 128;
    c->query_lengths = more & 1;
    c->prefix = c->causal && more & 2;
    c->segments = more & 4;
    c->sequences = more & 8;
    c->page_size = more & 16 ? 1 + fuzz_below(in, 5) : 0;
    c->batch_invariant = more & 32;
    c->lse = more & 64;
    c->weights = more & 128;
    c->keep = descriptor_mask(in);
    c->drop = descriptor_mask(in);
    c->bias = descriptor_mask(in);
    c->short_masks = fuzz_below(in, 4) == 1;
    if (c->sequences) /* what the library refuses beside them */
        c->weights = c->query_lengths = c->short_masks = false, c->keep = c->drop = c->bias = (oracle_mask){0};
}

static inline oracle_config descriptor_make(fuzz_input *in) {
    static const struct { int64_t H, Hk; } heads[] = {{1, 1}, {2, 2}, {2, 1}, {6, 2}, {3, 1}, {4, 2}};
    oracle_config c = {.seed = 1 + fuzz_byte(in)};
    const int64_t h = fuzz_below(in, 6);
    c.H = heads[h].H;
    c.Hk = heads[h].Hk;
    c.B = 1 + fuzz_below(in, 3);
    c.N = 1 + fuzz_below(in, 7);
    c.M = 1 + fuzz_below(in, 9);
    c.D = 1 + fuzz_below(in, 9);
    c.Dv = 1 + fuzz_below(in, 9);
    c.layout = (oracle_layout)fuzz_below(in, ORACLE_LAYOUTS);
    c.filler = (oracle_filler)fuzz_below(in, 4);
    c.guard = fuzz_below(in, 2) * 5;
    c.buffers = fuzz_flag(in);
    c.caller_workspace = fuzz_flag(in);
    descriptor_types(in, &c);
    descriptor_options(in, &c);
    return c;
}

#endif
