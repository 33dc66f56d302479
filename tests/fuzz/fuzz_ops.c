/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of every public operation but attention, on `cpu`. The first byte says how many things to change in a
 * valid one, the second which call. Refused with a text and nothing written, or right by plain loops in double, with
 * nothing written but outputs. What reaches outside its array is given as a buffer, which has a size, and is refused.
 */
#include "calls.h"

static clattn_context *cpu;

/* Numbers of any type to any other, between guards. */
static void run_convert(fuzz_input *in) {
    const clattn_dtype from = (clattn_dtype)fuzz_below(in, 12), to = (clattn_dtype)fuzz_below(in, 12);
    const size_t n = (size_t)fuzz_below(in, 100), length = clattn_dtype_length(from) * clattn_dtype_length(to);
    const size_t in_bytes = (n + 31) / 32 * 32 * 8, out_bytes = clattn_dtype_bytes(to, n);
    unsigned char *x = calloc(in_bytes + 1, 1), *y = malloc(in_bytes + 8);
    FUZZ_CHECK(x && y, "no memory");
    for (size_t i = 0; i < in_bytes; i++)
        x[i] = (unsigned char)fuzz_byte(in);
    memset(y, 0x5a, in_bytes + 8);
    const clattn_status status = clattn_convert(y, to, x, from, n);
    if (status != CLATTN_OK)
        fuzz_check_error(status);
    else
        FUZZ_CHECK(length > 0, "a number that is no dtype was not refused");
    for (size_t i = status == CLATTN_OK ? out_bytes : 0; i < in_bytes + 8; i++)
        FUZZ_CHECK(y[i] == 0x5a, "byte %zu has changed, of %zu", i, out_bytes);
    for (size_t i = 0; i < n && status == CLATTN_OK && length == 1 && from <= CLATTN_BF16 && to <= CLATTN_BF16; i++) {
        const double want = oracle_decode(from, x, (int64_t)i), got = oracle_decode(to, y, (int64_t)i);
        double most = oracle_floor(to, fabs(want)) + (to == CLATTN_F16 ? 0x1p-24 : 1e-40);
        const bool overflows = fabs(want) > (to == CLATTN_F16 ? 65503 : 3.38e38) && to != CLATTN_F64;
        FUZZ_CHECK(isnan(want) ? isnan(got) : overflows || fabs(got - want) <= most, "%g became %g", want, got);
    }
    free(x);
    free(y);
}

static const call_type *type;

static clattn_status run(void *c) { return type->run(c); }

static const call_type *choose(int64_t which) {
    if (which < call_ops_count)
        return &call_ops[which];
    which -= call_ops_count;
    return which < call_trains_count ? &call_trains[which] : &call_states[which - call_trains_count];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const unsigned char counts[8] = {0, 1, 2, 0, 1, 2, 3, 1};
    static fuzz_call c;
    fuzz_input in = {data, data + size};
    const unsigned first = fuzz_byte(&in);
    if (!cpu)
        SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    const int64_t which = fuzz_below(&in, call_ops_count + call_trains_count + call_states_count + 1);
    if (which == call_ops_count + call_trains_count + call_states_count) {
        run_convert(&in);
        return 0;
    }
    type = choose(which);
    call_begin(&c, &in, cpu);
    c.name = type->name;
    type->make(&c);
    const unsigned changes = counts[first % 8];
    for (unsigned i = 0; i < changes; i++)
        call_change(&c);
    const bool outside = call_place(&c);
    if (!outside && call_is_long(&c)) {
        call_end(&c);
        return 0;
    }
    const clattn_status status = type->run(&c);
    FUZZ_CHECK(changes > 0 || status == CLATTN_OK, "%s: %s", type->name, clattn_last_error());
    call_check(&c, status, outside);
    if (status == CLATTN_OK && call_sound(&c)) {
        type->expect(&c);
        if (changes > 0)
            call_again(&c, run, &c);
    }
    call_end(&c);
    return 0;
}
