/* SPDX-License-Identifier: Apache-2.0 */
/* A program built with the header of another version: attention of one key is its value. With SETS_NEW_FIELD it sets a
 * field that the library does not know, and expects to be refused by name. */
#include <clattn/clattn.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    const float q[] = {1, 2}, k[] = {3, 4}, v[] = {5, 6};
    float o[2] = {0};
    const int64_t shape[] = {1, 2};
    const clattn_attention_args args = {.q = clattn_tensor_host(q, CLATTN_F32, 2, shape),
                                        .k = clattn_tensor_host(k, CLATTN_F32, 2, shape),
                                        .v = clattn_tensor_host(v, CLATTN_F32, 2, shape),
#ifdef SETS_NEW_FIELD
                                        .brand_new = 1,
#endif
                                        .o = clattn_tensor_host(o, CLATTN_F32, 2, shape)};
    clattn_context *context = NULL;
    clattn_status status = clattn_context_create("cpu", NULL, &context);
    if (status == CLATTN_OK)
        status = clattn_attention(context, &args);
    printf("%s %g %g: %s\n", clattn_version(), (double)o[0], (double)o[1], clattn_last_error());
#ifdef SETS_NEW_FIELD
    const int good = status == CLATTN_E_UNSUPPORTED && o[0] == 0 && o[1] == 0 &&
                     strncmp(clattn_last_error(), "clattn_attention_args: reserved[0] is not 0", 43) == 0;
#else
    const int good = status == CLATTN_OK && o[0] == 5 && o[1] == 6 && strcmp(clattn_last_error(), "") == 0;
#endif
    clattn_context_destroy(context);
    return !good;
}
