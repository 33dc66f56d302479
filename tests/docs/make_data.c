/* SPDX-License-Identifier: Apache-2.0 */
/* The files that commands of the documents work on: q, k and v [1, 8, 64, 16] as npy files, and [1, 64, 128] as tensors
 * of m.safetensors, k and v with two heads. */
#include <clattn/clattn.h>
#include <stdio.h>

static clattn_status make(clattn_context *context, uint64_t stream, int rank, const int64_t *shape,
                          clattn_array *array) {
    clattn_status status = clattn_array_create(CLATTN_F32, rank, shape, array);
    if (status != CLATTN_OK)
        return status;
    return clattn_random(context, &(clattn_random_args){.y = clattn_array_tensor(array), .seed = 1, .stream = stream});
}

int main(void) {
    static const char *const names[] = {"q", "k", "v"};
    clattn_context *context = NULL;
    clattn_named_array tensors[3] = {{0}};
    clattn_status status = clattn_context_create("cpu", NULL, &context);
    for (uint64_t i = 0; i < 3 && status == CLATTN_OK; i++) {
        char path[16];
        clattn_array array = {0};
        snprintf(path, sizeof path, "%s.npy", names[i]);
        tensors[i].name = names[i];
        status = make(context, i, 4, (int64_t[]){1, 8, 64, 16}, &array);
        if (status == CLATTN_OK)
            status = clattn_npy_write(path, &array);
        clattn_array_free(&array);
        if (status == CLATTN_OK)
            status = make(context, 3 + i, 3, (int64_t[]){1, 64, i == 0 ? 128 : 32}, &tensors[i].array);
    }
    if (status == CLATTN_OK)
        status = clattn_safetensors_write("m.safetensors", tensors, 3, NULL, 0);
    if (status != CLATTN_OK)
        fprintf(stderr, "make_data: %s\n", clattn_last_error());
    for (int i = 0; i < 3; i++)
        clattn_array_free(&tensors[i].array);
    clattn_context_destroy(context);
    return status != CLATTN_OK;
}
