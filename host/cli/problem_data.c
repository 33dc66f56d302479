/* SPDX-License-Identifier: Apache-2.0 */
#include "problem_data.h"

#include "call_facts.h"
#include <math.h>
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
    const size_t count = array->bytes / clattn_dtype_size(dtype) * clattn_dtype_length(dtype);
    for (size_t done = 0; status == CLATTN_OK && done < count;) {
        double chunk[1024];
        const size_t left = count - done, n = left < 1024 ? left : 1024;
        for (size_t i = 0; i < n; i++)
            chunk[i] = next_real(state);
        status = clattn_convert((char *)array->data + clattn_dtype_bytes(dtype, done), dtype, chunk, CLATTN_F64, n);
        done += n;
    }
    return status;
}

clattn_status cla_random_reals(clattn_dtype dtype, int rank, const int64_t *shape, uint64_t seed, clattn_array *array) {
    return random_reals(dtype, rank, shape, &seed, array);
}

static clattn_status random_keep(const int64_t *shape, uint64_t *state, clattn_array *array) {
    const clattn_status status = clattn_array_create(CLATTN_BOOL, 2, shape, array);
    for (size_t i = 0; status == CLATTN_OK && i < array->bytes; i++)
        ((uint8_t *)array->data)[i] = next_random(state) >> 61 != 0;
    return status;
}

static int64_t next_below(uint64_t *state, int64_t n) { return (int64_t)(next_random(state) % (uint64_t)n); }

/* One for each batch, from 1 to most, or all of them most. */
static clattn_status random_lengths(int64_t batch, int64_t most, bool vary, uint64_t *state, clattn_array *array) {
    const clattn_status status = clattn_array_create(CLATTN_I64, 1, &batch, array);
    for (int64_t b = 0; status == CLATTN_OK && b < batch; b++)
        ((int64_t *)array->data)[b] = vary ? 1 + next_below(state, most) : most;
    return status;
}

/* From 0: lengths from 1 to most, the first one most. */
static clattn_status random_cumulative(int64_t batch, int64_t most, uint64_t *state, clattn_array *array) {
    const int64_t shape[] = {batch + 1};
    const clattn_status status = clattn_array_create(CLATTN_I64, 1, shape, array);
    int64_t *cu = array->data;
    for (int64_t b = 0; status == CLATTN_OK && b < batch; b++)
        cu[b + 1] = cu[b] + (b == 0 ? most : 1 + next_below(state, most));
    return status;
}

/* Four segments of a quarter each. */
static clattn_status quarters(int64_t batch, int64_t length, clattn_array *array) {
    const int64_t shape[] = {batch, length};
    const clattn_status status = clattn_array_create(CLATTN_I32, 2, shape, array);
    for (int64_t i = 0; status == CLATTN_OK && i < batch * length; i++)
        ((int32_t *)array->data)[i] = (int32_t)(i % length * 4 / length);
    return status;
}

/* A permutation of all pages: Fisher and Yates. */
static clattn_status random_table(int64_t batch, int64_t pages, uint64_t *state, clattn_array *array) {
    const int64_t shape[] = {batch, pages};
    const clattn_status status = clattn_array_create(CLATTN_I32, 2, shape, array);
    int32_t *table = array->data;
    for (int64_t i = 0; status == CLATTN_OK && i < batch * pages; i++) {
        const int64_t j = next_below(state, i + 1);
        table[i] = table[j];
        table[j] = (int32_t)i;
    }
    return status;
}

#define RETURN_ON_FAILURE(call)                                                                                        \
    do {                                                                                                               \
        const clattn_status status_of_call = (call);                                                                   \
        if (status_of_call != CLATTN_OK)                                                                               \
            return status_of_call;                                                                                     \
    } while (0)

static clattn_status create_sequences(const cla_problem_text *t, uint64_t *seed, cla_problem_data *data) {
    if (!t->varlen)
        return CLATTN_OK;
    RETURN_ON_FAILURE(random_cumulative(t->batch, t->queries, seed, &data->cu_queries));
    if (t->page_size > 0)
        return CLATTN_OK;
    if (t->keys != t->queries)
        return random_cumulative(t->batch, t->keys, seed, &data->cu_keys);
    return clattn_array_convert(&data->cu_queries, CLATTN_I64, &data->cu_keys);
}

static clattn_status create_main(const cla_problem_text *t, uint64_t *seed, cla_problem_data *data) {
    const int64_t last = t->batch, pages = t->page_size > 0 ? (t->keys + t->page_size - 1) / t->page_size : 0;
    const int64_t batch = t->varlen ? 1 : t->batch;
    const int64_t queries = t->varlen ? ((const int64_t *)data->cu_queries.data)[last] : t->queries;
    const int64_t keys = pages > 0 ? t->page_size : t->varlen ? ((const int64_t *)data->cu_keys.data)[last] : t->keys;
    const int64_t stacks = pages > 0 ? t->batch * pages : batch;
    const int64_t q[] = {batch, t->heads, queries, t->dim}, o[] = {batch, t->heads, queries, t->value_dim};
    const int64_t k[] = {stacks, t->key_heads, keys, t->dim}, v[] = {stacks, t->key_heads, keys, t->value_dim};
    RETURN_ON_FAILURE(random_reals(t->dtype, 4, q, seed, &data->q));
    RETURN_ON_FAILURE(random_reals(t->k_dtype, 4, k, seed, &data->k));
    RETURN_ON_FAILURE(random_reals(t->v_dtype, 4, v, seed, &data->v));
    if (pages > 0)
        RETURN_ON_FAILURE(random_table(t->batch, pages, seed, &data->table));
    return clattn_array_create(t->o_dtype, 4, o, &data->o);
}

static clattn_status create_arrays(const cla_problem_text *t, uint64_t seed, cla_problem_data *data) {
    const int64_t keys = t->page_size > 0 ? (t->keys + t->page_size - 1) / t->page_size * t->page_size : t->keys;
    const int64_t mask[] = {t->queries, keys};
    RETURN_ON_FAILURE(create_sequences(t, &seed, data));
    RETURN_ON_FAILURE(create_main(t, &seed, data));
    const clattn_attention_args types = {.q = clattn_array_tensor(&data->q),
                                         .k = clattn_array_tensor(&data->k),
                                         .v = clattn_array_tensor(&data->v),
                                         .o = clattn_array_tensor(&data->o)};
    if (t->bias)
        RETURN_ON_FAILURE(random_reals(t->dtype, 2, mask, &seed, &data->bias));
    if (t->keep)
        RETURN_ON_FAILURE(random_keep(mask, &seed, &data->keep));
    if (t->lengths || t->page_size > 0)
        RETURN_ON_FAILURE(random_lengths(t->batch, t->keys, t->lengths, &seed, &data->lengths));
    if (t->query_lengths)
        RETURN_ON_FAILURE(random_lengths(t->batch, t->queries, true, &seed, &data->queries));
    if (t->prefix)
        RETURN_ON_FAILURE(random_lengths(t->batch, t->keys, true, &seed, &data->prefix));
    if (t->align == CLATTN_ALIGN_OFFSET)
        RETURN_ON_FAILURE(random_lengths(t->batch, t->offset, false, &seed, &data->offsets));
    if (t->sinks)
        RETURN_ON_FAILURE(random_reals(cla_sums_type(&types), 1, &t->heads, &seed, &data->sinks));
    if (t->alibi) {
        RETURN_ON_FAILURE(clattn_array_create(CLATTN_F32, 1, &t->heads, &data->slopes));
        clattn_alibi_slopes(t->heads, data->slopes.data);
    }
    if (t->segments) {
        RETURN_ON_FAILURE(quarters(t->batch, t->queries, &data->q_segments));
        RETURN_ON_FAILURE(quarters(t->batch, keys, &data->k_segments));
    }
    return CLATTN_OK;
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
                                         .keep = clattn_array_tensor(&data->keep),
                                         .bias = clattn_array_tensor(&data->bias),
                                         .sinks = clattn_array_tensor(&data->sinks),
                                         .alibi_slopes = data->slopes.data,
                                         .key_lengths = data->lengths.data,
                                         .query_lengths = data->queries.data,
                                         .prefix_lengths = data->prefix.data,
                                         .offsets = data->offsets.data,
                                         .query_segments = data->q_segments.data,
                                         .key_segments = data->k_segments.data,
                                         .sequences = problem->varlen ? problem->batch : 0,
                                         .cu_queries = data->cu_queries.data,
                                         .cu_keys = data->cu_keys.data,
                                         .block_table = data->table.data,
                                         .table_pages = data->table.data ? data->table.shape[1] : 0,
                                         .has_scale = problem->has_scale,
                                         .scale = problem->scale,
                                         .softcap = problem->softcap,
                                         .causal = problem->causal,
                                         .align = problem->align,
                                         .has_window = problem->has_window,
                                         .window_left = problem->window_left,
                                         .window_right = problem->window_right,
                                         .batch_invariant = problem->invariant};
    return CLATTN_OK;
}

void cla_problem_data_free(cla_problem_data *data) {
    clattn_array *const arrays[] = {
        &data->q,          &data->k,          &data->v,          &data->o,       &data->keep,   &data->bias,
        &data->sinks,      &data->slopes,     &data->lengths,    &data->queries, &data->prefix, &data->offsets,
        &data->q_segments, &data->k_segments, &data->cu_queries, &data->cu_keys, &data->table};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        clattn_array_free(arrays[i]);
    memset(data, 0, sizeof *data);
}

double cla_largest_difference(const clattn_array *a, const clattn_array *b) {
    double worst = 0;
    const size_t size = clattn_dtype_size(a->dtype), count = a->bytes / size;
    for (size_t done = 0; done < count;) {
        double x[512], y[512];
        const size_t n = count - done < 512 ? count - done : 512;
        if (clattn_convert(x, CLATTN_F64, (const char *)a->data + done * size, a->dtype, n) != CLATTN_OK ||
            clattn_convert(y, CLATTN_F64, (const char *)b->data + done * size, b->dtype, n) != CLATTN_OK)
            return INFINITY;
        for (size_t i = 0; i < n; i++) {
            const double d = isnan(x[i]) && isnan(y[i]) ? 0 : fabs(x[i] - y[i]);
            worst = d > worst ? d : isnan(d) ? INFINITY : worst;
        }
        done += n;
    }
    return worst;
}

double cla_largest(const clattn_array *a) {
    const size_t size = clattn_dtype_size(a->dtype), count = a->bytes / size;
    double most = 0;
    for (size_t done = 0; done < count;) {
        double x[512];
        const size_t n = count - done < 512 ? count - done : 512;
        if (clattn_convert(x, CLATTN_F64, (const char *)a->data + done * size, a->dtype, n) != CLATTN_OK)
            return INFINITY;
        for (size_t i = 0; i < n; i++)
            most = fmax(most, fabs(x[i]));
        done += n;
    }
    return most;
}

bool cla_has_nan(const clattn_array *a) {
    const size_t size = clattn_dtype_size(a->dtype), count = a->bytes / size;
    bool has = false;
    for (size_t done = 0; done < count && !has;) {
        double x[512];
        const size_t n = count - done < 512 ? count - done : 512;
        has = clattn_convert(x, CLATTN_F64, (const char *)a->data + done * size, a->dtype, n) != CLATTN_OK;
        for (size_t i = 0; i < n && !has; i++)
            has = isnan(x[i]);
        done += n;
    }
    return has;
}
