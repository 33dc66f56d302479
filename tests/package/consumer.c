/* SPDX-License-Identifier: Apache-2.0 */
/* A program outside the tree, on the installed headers and library: attention of one key is its value. */
#include <clattn/clattn.h>
#include <stdio.h>

int main(void) {
    const float q[] = {1, 2}, k[] = {3, 4}, v[] = {5, 6};
    float o[2] = {0};
    const int64_t shape[] = {1, 2};
    const clattn_attention_args args = {.q = clattn_tensor_host(q, CLATTN_F32, 2, shape),
                                        .k = clattn_tensor_host(k, CLATTN_F32, 2, shape),
                                        .v = clattn_tensor_host(v, CLATTN_F32, 2, shape),
                                        .o = clattn_tensor_host(o, CLATTN_F32, 2, shape)};
    clattn_context *context = NULL;
    if (clattn_context_create("cpu", NULL, &context) != CLATTN_OK || clattn_attention(context, &args) != CLATTN_OK) {
        fprintf(stderr, "%s\n", clattn_last_error());
        return 1;
    }
    clattn_context_destroy(context);
    printf("%s %g %g\n", clattn_version(), (double)o[0], (double)o[1]);
    return o[0] != 5 || o[1] != 6;
}
