/* SPDX-License-Identifier: Apache-2.0 */
/* Valid attention descriptors through the OpenCL device, on each algorithm that was written for it, against plain loops
 * of the tests' own. Head dims and types are fixed, so that few kernels are built. Without a device nothing is run. */
#include "descriptor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const algorithms[] = {"fused_lanes", "fused_split", NULL};
    static clattn_context *context;
    static bool tried;
    char text[ORACLE_TEXT] = "";
    fuzz_input in = {data, data + size};
    oracle_config config = descriptor_make(&in);
    config.D = config.Dv = 8;
    config.dtype = CLATTN_F32;
    config.typed = false;
    if (!tried && clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        fprintf(stderr, "opencl: %s\n", clattn_last_error());
    tried = true;
    if (!context)
        return 0;
    oracle_case *c = oracle_make(&config);
    FUZZ_CHECK(oracle_exact(c, text), "%s", text);
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        const char *reason = "";
        oracle_runner runner = {.context = context, .algorithm = algorithms[i]};
        if (algorithms[i] && !oracle_applies(c, &runner, &reason))
            continue;
        FUZZ_CHECK(oracle_run(c, context, algorithms[i], text), "%s", text);
        FUZZ_CHECK(oracle_compare(c, algorithms[i], text), "%s", text);
    }
    oracle_free(c);
    return 0;
}
