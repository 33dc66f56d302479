/* SPDX-License-Identifier: Apache-2.0 */
/* Modules on `cpu`: weights, options, tensors and masks as descriptors, with up to three changes, or weights from a
 * file that may be spoilt. Valid: forward against plain loops in double. Changed: refused with a text and nothing
 * written but outputs, or the same as with all tensors dense. What reaches outside its array is given as a buffer, and
 * is refused. */
#include "calls_module.h"

static clattn_status run(void *m) { return module_run(m); }

/* What PyTorch has names for. */
static bool has_names(const module *m) {
    return !m->separate && !m->stack.transposed && !m->stack.gated && !m->backward;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const unsigned char counts[8] = {0, 1, 2, 0, 1, 2, 3, 1};
    static clattn_context *cpu;
    static module m;
    fuzz_input in = {data, data + size};
    const unsigned first = fuzz_byte(&in), changes = counts[first % 8];
    if (!cpu)
        SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    module_make(&m, &in, cpu);
    const bool from_file = first & 8 && has_names(&m);
    for (unsigned i = 0; i < changes && !from_file; i++)
        call_change(&m.c);
    const bool outside = call_place(&m.c);
    if (!outside && call_is_long(&m.c)) {
        module_end(&m);
        return 0;
    }
    const clattn_status status = from_file ? module_load(&m, changes) : module_run(&m);
    FUZZ_CHECK(changes > 0 || status == CLATTN_OK, "%s: %s", m.c.name, clattn_last_error());
    call_check(&m.c, status, outside);
    if (changes == 0 && !m.backward)
        module_expect(&m);
    if (!from_file && status == CLATTN_OK && call_sound(&m.c) && !call_meets(&m.c))
        call_again(&m.c, run, &m);
    module_end(&m);
    return 0;
}
