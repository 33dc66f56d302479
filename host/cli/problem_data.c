/* SPDX-License-Identifier: Apache-2.0 */
#include "problem_data.h"
#include <string.h>

/* splitmix64 (Steele, Lea & Flood 2014) */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In [-1, 1), a multiple of 2^-23. */
static double next_real(uint64_t *state) { return (double)(next_random(state) >> 40) * 0x1p-23 - 1.0; }

static clattn_status random_reals(clattn_dtype dtype, int rank, const int64_t *shape, uint64_t *state,
                                  clattn_array *array) {
    clattn_status status = clattn_array_create(dtype, rank, shape, array);
    const size_t size = clattn_dtype_size(dtype);
    for (size_t done = 0; status == CLATTN_OK && done < array->bytes / size;) {
        double chunk[1024];
        const size_t left = array->bytes / size - done, n = left < 1024 ? left : 1024;
        for (size_t i = 0; i < n; i++)
            chunk[i] = next_real(state);
        status = clattn_convert((char *)array->data + done * size, dtype, chunk, CLATTN_F64, n);
        done += n;
    }
    return status;
}

static clattn_status random_keep(const int64_t *shape, uint64_t *state, clattn_array *array) {
    const clattn_status status = clattn_array_create(CLATTN_BOOL, 2, shape, array);
    for (size_t i = 0; status == CLATTN_OK && i < array->bytes; i++)
        ((uint8_t *)array->data)[i] = next_random(state) >> 61 != 0;
    return status;
}

static clattn_status random_lengths(int64_t batch, int64_t keys, uint64_t *state, clattn_array *array) {
    const clattn_status status = clattn_array_create(CLATTN_I64, 1, &batch, array);
    for (int64_t b = 0; status == CLATTN_OK && b < batch; b++)
        ((int64_t *)array->data)[b] = 1 + (int64_t)(next_random(state) % (uint64_t)keys);
    return status;
}

static clattn_status create_arrays(const cla_problem_text *t, uint64_t seed, cla_problem_data *data) {
    const int64_t q[] = {t->batch, t->heads, t->queries, t->dim}, k[] = {t->batch, t->key_heads, t->keys, t->dim};
    const int64_t v[] = {t->batch, t->key_heads, t->keys, t->value_dim};
    const int64_t o[] = {t->batch, t->heads, t->queries, t->value_dim}, mask[] = {t->queries, t->keys};
    clattn_status status = random_reals(t->dtype, 4, q, &seed, &data->q);
    if (status == CLATTN_OK)
        status = random_reals(t->dtype, 4, k, &seed, &data->k);
    if (status == CLATTN_OK)
        status = random_reals(t->dtype, 4, v, &seed, &data->v);
    if (status == CLATTN_OK)
        status = clattn_array_create(t->dtype, 4, o, &data->o);
    if (status == CLATTN_OK && t->bias)
        status = random_reals(t->dtype, 2, mask, &seed, &data->bias);
    if (status == CLATTN_OK && t->keep)
        status = random_keep(mask, &seed, &data->keep);
    if (status == CLATTN_OK && t->lengths)
        status = random_lengths(t->batch, t->keys, &seed, &data->lengths);
    return status;
}

clattn_status cla_problem_data_create(const cla_problem_text *problem, uint64_t seed, cla_problem_data *data) {
    *data = (cla_problem_data){0};
    const clattn_status status = create_arrays(problem, seed, data);
    if (status != CLATTN_OK) {
        cla_problem_data_free(data);
        return status;
    }
    data->args = (clattn_attention_args){.q = clattn_array_tensor(&data->q),
                                         .k = clattn_array_tensor(&data->k),
                                         .v = clattn_array_tensor(&data->v),
                                         .o = clattn_array_tensor(&data->o),
                                         .key_lengths = problem->lengths ? data->lengths.data : NULL,
                                         .has_scale = problem->has_scale,
                                         .scale = problem->scale,
                                         .causal = problem->causal,
                                         .align = problem->align,
                                         .has_window = problem->has_window,
                                         .window_left = problem->window_left,
                                         .window_right = problem->window_right};
    if (problem->keep)
        data->args.keep = clattn_array_tensor(&data->keep);
    if (problem->bias)
        data->args.bias = clattn_array_tensor(&data->bias);
    return CLATTN_OK;
}

void cla_problem_data_free(cla_problem_data *data) {
    enum { COUNT = 7 };
    clattn_array *const arrays[COUNT] = {&data->q,    &data->k,    &data->v,      &data->o,
                                         &data->keep, &data->bias, &data->lengths};
    for (size_t i = 0; i < COUNT; i++)
        clattn_array_free(arrays[i]);
    memset(data, 0, sizeof *data);
}
