/* SPDX-License-Identifier: Apache-2.0 */
#include "run_data.h"

#include "args.h"
#include "call_facts.h"
#include "job.h"
#include <stdlib.h>
#include <string.h>

#define HEATMAP_BYTES_MAX 4e9

#define RETURN_ON_FAILURE(call)                                                                                        \
    do {                                                                                                               \
        const int exit_status_of_call = (call);                                                                        \
        if (exit_status_of_call != CLA_EXIT_OK)                                                                        \
            return exit_status_of_call;                                                                                \
    } while (0)

static int load_heads(const cla_run_options *o, cla_run_data *d) {
    RETURN_ON_FAILURE(cla_input_load(&d->q, "q", o->q));
    RETURN_ON_FAILURE(cla_input_load(&d->k, "k", o->k));
    RETURN_ON_FAILURE(cla_input_load(&d->v, "v", o->v));
    RETURN_ON_FAILURE(cla_inputs_check(&d->q, &d->k, &d->v));
    if (o->has_kv_type) {
        RETURN_ON_FAILURE(cla_input_retype(&d->k, o->k_type));
        RETURN_ON_FAILURE(cla_input_retype(&d->v, o->v_type));
    }
    RETURN_ON_FAILURE(cla_input_view(&d->q, o->heads.layout, o->heads.heads));
    RETURN_ON_FAILURE(cla_input_view(&d->k, o->heads.layout, o->heads.key_heads));
    RETURN_ON_FAILURE(cla_input_view(&d->v, o->heads.layout, o->heads.key_heads));
    return cla_ranks_check(&d->q, &d->k, &d->v);
}

static int load_masks(const cla_run_options *o, cla_run_data *d) {
    if (o->keep) {
        RETURN_ON_FAILURE(cla_input_load(&d->keep, "keep", o->keep));
        RETURN_ON_FAILURE(cla_mask_check(&d->keep));
    }
    if (o->drop) {
        RETURN_ON_FAILURE(cla_input_load(&d->drop, "drop", o->drop));
        RETURN_ON_FAILURE(cla_mask_check(&d->drop));
    }
    if (o->bias) {
        RETURN_ON_FAILURE(cla_input_load(&d->bias, "bias", o->bias));
        RETURN_ON_FAILURE(cla_bias_check(&d->bias));
    }
    return CLA_EXIT_OK;
}

/* ---- sizes ---- */

static int64_t batches(const cla_run_data *d) { return d->args.sequences > 0 ? d->args.sequences : d->q.view.shape[0]; }

static int64_t query_count(const cla_run_data *d) {
    return cla_longest(d->cu_queries, d->args.sequences, d->q.view.shape[2]);
}

static int64_t key_count(const cla_run_data *d) {
    return d->table ? d->args.table_pages * d->k.view.shape[2]
                    : cla_longest(d->cu_keys, d->args.sequences, d->k.view.shape[2]);
}

/* ---- numbers for each batch and head ---- */

/* From 0 on, and never falling: then differences do not overflow. */
static int check_starts(const char *option, const char *text, const int64_t *cu, int64_t count) {
    if (cu[0] != 0)
        return cla_fail(CLA_EXIT_USAGE, "--%s %s: starts at %lld; the first sequence starts at 0", option, text,
                        (long long)cu[0]);
    for (int64_t s = 1; s < count; s++)
        if (cu[s] < cu[s - 1])
            return cla_fail(CLA_EXIT_USAGE, "--%s %s: falls from %lld to %lld at sequence %lld", option, text,
                            (long long)cu[s - 1], (long long)cu[s], (long long)s - 1);
    return CLA_EXIT_OK;
}

static int load_table(const cla_run_options *o, cla_run_data *d) {
    const int64_t page = d->k.view.shape[2];
    if (!o->block_table)
        return CLA_EXIT_OK;
    RETURN_ON_FAILURE(cla_table_load("block-table", o->block_table, batches(d), -1, &d->table, &d->args.table_pages));
    if (page > 0 && d->args.table_pages > INT64_MAX / page)
        return cla_fail(CLA_EXIT_USAGE, "--block-table %s: %lld pages of %lld keys are too many", o->block_table,
                        (long long)d->args.table_pages, (long long)page);
    return CLA_EXIT_OK;
}

static int load_sequences(const cla_run_options *o, cla_run_data *d) {
    int64_t count = 0, keys = 0;
    if (o->cu_queries) {
        RETURN_ON_FAILURE(cla_numbers_load_all("cu-queries", o->cu_queries, &d->cu_queries, &count));
        if (count < 2)
            return cla_fail(CLA_EXIT_USAGE,
                            "--cu-queries %s: at least two numbers, where the first sequence starts and "
                            "ends, as in 0,%lld",
                            o->cu_queries, (long long)d->q.view.shape[2]);
        RETURN_ON_FAILURE(check_starts("cu-queries", o->cu_queries, d->cu_queries, count));
        d->args.sequences = count - 1;
    }
    if (o->cu_keys) {
        RETURN_ON_FAILURE(cla_numbers_load_all("cu-keys", o->cu_keys, &d->cu_keys, &keys));
        if (keys != count)
            return cla_fail(CLA_EXIT_USAGE, "--cu-keys %s: %lld numbers, and --cu-queries has %lld", o->cu_keys,
                            (long long)keys, (long long)count);
        RETURN_ON_FAILURE(check_starts("cu-keys", o->cu_keys, d->cu_keys, keys));
    }
    RETURN_ON_FAILURE(load_table(o, d));
    if (o->cu_queries && !o->cu_keys && !o->block_table)
        return cla_fail(CLA_EXIT_USAGE, "--cu-queries %s: add --cu-keys", o->cu_queries);
    return CLA_EXIT_OK;
}

static int load_offsets(const cla_run_options *o, cla_run_data *d) {
    int64_t one;
    if (!o->offsets)
        return CLA_EXIT_OK;
    if (!cla_parse_i64(o->offsets, &one)) /* one number is for all batches */
        return cla_numbers_load(o->offsets_option, o->offsets, batches(d), &d->offsets);
    d->offsets = calloc(batches(d) > 0 ? (size_t)batches(d) : 1, sizeof *d->offsets);
    if (!d->offsets)
        return cla_fail(CLA_EXIT_FAILED, "--%s: out of memory for %lld numbers", o->offsets_option,
                        (long long)batches(d));
    for (int64_t b = 0; b < batches(d); b++)
        d->offsets[b] = one;
    return CLA_EXIT_OK;
}

static int load_numbers(const cla_run_options *o, cla_run_data *d) {
    const int64_t batch = batches(d), heads = d->q.view.shape[1];
    int64_t columns;
    if (o->lengths)
        RETURN_ON_FAILURE(cla_numbers_load(o->lengths_option, o->lengths, batch, &d->key_lengths));
    if (o->query_lengths)
        RETURN_ON_FAILURE(cla_numbers_load("query-lengths", o->query_lengths, batch, &d->query_lengths));
    if (o->prefix_lengths)
        RETURN_ON_FAILURE(cla_numbers_load("prefix-lengths", o->prefix_lengths, batch, &d->prefix_lengths));
    if (o->query_segments) {
        RETURN_ON_FAILURE(
            cla_table_load("query-segments", o->query_segments, batch, query_count(d), &d->query_segments, &columns));
        RETURN_ON_FAILURE(
            cla_table_load("key-segments", o->key_segments, batch, key_count(d), &d->key_segments, &columns));
    }
    if (o->slopes)
        RETURN_ON_FAILURE(cla_reals_load("alibi-slopes", o->slopes, heads, &d->slopes));
    if (o->alibi) {
        d->slopes = calloc(heads > 0 ? (size_t)heads : 1, sizeof *d->slopes);
        if (!d->slopes)
            return cla_fail(CLA_EXIT_FAILED, "--alibi: out of memory for %lld slopes", (long long)heads);
        clattn_alibi_slopes(heads, d->slopes);
    }
    return load_offsets(o, d);
}

/* In the type of the sums, whatever the file's. */
static int load_sinks(const cla_run_options *o, cla_run_data *d) {
    if (!o->sinks)
        return CLA_EXIT_OK;
    clattn_array sinks = {0};
    RETURN_ON_FAILURE(cla_input_load(&d->sinks, "sinks", o->sinks));
    const clattn_status status = clattn_array_convert(&d->sinks.array, cla_sums_type(&d->args), &sinks);
    if (status != CLATTN_OK)
        return cla_fail_status(status, "sinks");
    clattn_array_free(&d->sinks.array);
    d->sinks.array = sinks;
    d->args.sinks = d->sinks.view = clattn_array_tensor(&d->sinks.array);
    return CLA_EXIT_OK;
}

static bool lengths_differ(const cla_run_data *d) {
    if (d->table)
        return true;
    for (int64_t s = 0; s < d->args.sequences; s++)
        if (d->cu_queries[s + 1] - d->cu_queries[s] != d->cu_keys[s + 1] - d->cu_keys[s])
            return true;
    return d->args.sequences == 0 && d->q.view.shape[2] != d->k.view.shape[2];
}

static int check_alignment(const cla_run_options *o, const cla_run_data *d) {
    const long long n = (long long)query_count(d), m = (long long)key_count(d);
    if (!lengths_differ(d) || o->align != CLATTN_ALIGN_UNSET || (!o->causal && !o->has_window && !d->slopes))
        return CLA_EXIT_OK;
    if (o->causal)
        return cla_fail(CLA_EXIT_USAGE,
                        "--causal with %lld queries and %lld keys needs an alignment: --causal=top-left "
                        "(query i sees keys 0 to i) or --causal=bottom-right (the last query sees all)",
                        n, m);
    return cla_fail(CLA_EXIT_USAGE,
                    "--%s with %lld queries and %lld keys needs an alignment: --align top-left (query "
                    "i stands at key i) or --align bottom-right (the last query at the last key)",
                    o->has_window ? "window"
                    : o->alibi    ? "alibi"
                                  : "alibi-slopes",
                    n, m);
}

/* The map needs the weights of its batch as an array. */
static int check_heatmap_size(const cla_run_options *o, const cla_run_data *d) {
    const int64_t heads = d->q.view.shape[1], n = d->q.view.shape[2], m = key_count(d);
    const double bytes = (double)heads * (double)n * (double)m * (double)clattn_dtype_size(cla_sums_type(&d->args));
    if (!o->heatmap)
        return CLA_EXIT_OK;
    if (d->args.sequences > 0)
        return cla_fail(CLA_EXIT_USAGE, "--heatmap: sequences one after another (--cu-queries) give no weights");
    if (o->batch >= d->q.view.shape[0])
        return cla_fail(CLA_EXIT_USAGE, "--batch %lld of %lld: batches are numbered from 0", (long long)o->batch,
                        (long long)d->q.view.shape[0]);
    if (bytes > HEATMAP_BYTES_MAX)
        return cla_fail(CLA_EXIT_USAGE,
                        "--heatmap needs the weights of a batch, %lld heads x %lld x %lld: %.1f GB; it "
                        "takes up to %.1f GB: give it fewer queries, keys or heads",
                        (long long)heads, (long long)n, (long long)m, bytes / 1e9, HEATMAP_BYTES_MAX / 1e9);
    return CLA_EXIT_OK;
}

/* Which rows of weights there are. */
static int load_lists(const cla_run_options *o, cla_run_data *d) {
    clattn_attention_args *a = &d->args;
    if (o->weights_rows)
        RETURN_ON_FAILURE(
            cla_numbers_load_all("weights-rows", o->weights_rows, &d->weights_rows, &a->weights_query_count));
    if (o->weights_heads)
        RETURN_ON_FAILURE(
            cla_numbers_load_all("weights-heads", o->weights_heads, &d->weights_heads, &a->weights_head_count));
    a->weights_form = o->weights_form;
    a->weights_mean = o->weights_mean;
    a->weights_queries = d->weights_rows;
    a->weights_heads = d->weights_heads;
    return CLA_EXIT_OK;
}

/* lse and what is made of weights. */
static int create_extras(const cla_run_options *o, cla_run_data *d) {
    clattn_attention_args *a = &d->args;
    const int64_t B = d->q.view.shape[0], H = d->q.view.shape[1], N = d->q.view.shape[2];
    const int64_t keys = a->sequences > 0 && !d->table ? d->k.view.shape[2] : key_count(d);
    RETURN_ON_FAILURE(load_lists(o, d));
    const int64_t weights[4] = {B,
                                a->weights_mean    ? 1
                                : d->weights_heads ? a->weights_head_count
                                                   : H,
                                d->weights_rows ? a->weights_query_count : N, key_count(d)};
    const struct {
        const char *wanted, *name;
        int rank;
        int64_t shape[4];
        clattn_array *array;
        clattn_tensor *view;
    } extras[] = {
        {o->lse, "lse", 3, {B, H, N}, &d->lse, &a->lse},
        {o->entropy, "entropy", 3, {B, H, N}, &d->entropy, &a->entropy},
        {o->column_sums, "column sums", 3, {B, H, keys}, &d->column_sums, &a->column_sums},
        {o->weights, "weights", 4, {weights[0], weights[1], weights[2], weights[3]}, &d->weights, &a->weights}};
    for (size_t i = 0; i < sizeof extras / sizeof extras[0]; i++)
        if (extras[i].wanted)
            RETURN_ON_FAILURE(cla_extra_create(extras[i].name, &d->q, o->heads.layout, cla_sums_type(a), extras[i].rank,
                                               extras[i].shape, extras[i].array, extras[i].view));
    return CLA_EXIT_OK;
}

static int create_results(const cla_run_options *o, cla_run_data *d) {
    clattn_attention_args *a = &d->args;
    const cla_layout layout = o->heads.layout;
    const clattn_dtype type = o->has_o_type ? o->o_type : d->q.array.dtype;
    const size_t length = o->output ? strlen(o->output) : 0;
    if (type == CLATTN_BF16 && length > 4 && strcmp(o->output + length - 4, ".npy") == 0)
        return cla_fail(CLA_EXIT_USAGE,
                        "-o %s: o is bf16, which NPY files do not have; write to FILE.safetensors:NAME, or say "
                        "--o-type f32",
                        o->output);
    RETURN_ON_FAILURE(cla_output_create(&d->q, layout, type, d->v.view.shape[3], &d->o, &a->o));
    RETURN_ON_FAILURE(create_extras(o, d));
    return load_sinks(o, d);
}

int cla_run_data_load(const cla_run_options *o, cla_run_data *data) {
    *data = (cla_run_data){0};
    RETURN_ON_FAILURE(load_heads(o, data));
    RETURN_ON_FAILURE(load_masks(o, data));
    RETURN_ON_FAILURE(load_sequences(o, data));
    RETURN_ON_FAILURE(load_numbers(o, data));
    RETURN_ON_FAILURE(check_alignment(o, data));
    const int64_t sequences = data->args.sequences, table_pages = data->args.table_pages;
    data->args = (clattn_attention_args){.q = data->q.view,
                                         .k = data->k.view,
                                         .v = data->v.view,
                                         .keep = data->keep.view,
                                         .drop = data->drop.view,
                                         .bias = data->bias.view,
                                         .key_lengths = data->key_lengths,
                                         .short_masks = o->short_masks,
                                         .has_scale = o->has_scale,
                                         .scale = o->scale,
                                         .causal = o->causal,
                                         .align = o->align,
                                         .offsets = data->offsets,
                                         .has_window = o->has_window,
                                         .window_left = o->window_left,
                                         .window_right = o->window_right,
                                         .softcap = o->softcap,
                                         .alibi_slopes = data->slopes,
                                         .query_lengths = data->query_lengths,
                                         .prefix_lengths = data->prefix_lengths,
                                         .query_segments = data->query_segments,
                                         .key_segments = data->key_segments,
                                         .sequences = sequences,
                                         .cu_queries = data->cu_queries,
                                         .cu_keys = data->cu_keys,
                                         .block_table = data->table,
                                         .table_pages = table_pages,
                                         .algorithm = o->algorithm,
                                         .max_workspace = (size_t)o->max_workspace,
                                         .batch_invariant = o->batch_invariant};
    RETURN_ON_FAILURE(check_heatmap_size(o, data));
    return create_results(o, data);
}

void cla_run_data_free(cla_run_data *d) {
    cla_input *const inputs[] = {&d->q, &d->k, &d->v, &d->keep, &d->drop, &d->bias, &d->sinks};
    void *const numbers[] = {d->key_lengths, d->query_lengths, d->prefix_lengths, d->offsets,
                             d->cu_queries,  d->cu_keys,       d->query_segments, d->key_segments,
                             d->table,       d->slopes,        d->weights_rows,   d->weights_heads};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        clattn_array_free(&inputs[i]->array);
    clattn_array_free(&d->o);
    clattn_array_free(&d->lse);
    clattn_array_free(&d->weights);
    clattn_array_free(&d->column_sums);
    clattn_array_free(&d->entropy);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        free(numbers[i]);
    *d = (cla_run_data){0};
}

/* ---- weights alone ---- */

bool cla_whole_weights(const clattn_attention_args *a) {
    return a->weights.rank > 0 && a->weights_form == CLATTN_WEIGHTS_SOFTMAX && !a->weights_mean &&
           !a->weights_queries && !a->weights_heads;
}

static void take_batch(clattn_tensor *t, int64_t batch) {
    if (t->rank == 4 && t->shape[0] > 1)
        *t = clattn_tensor_slice(*t, 0, batch, 1);
}

clattn_status cla_run_data_weights(clattn_context *context, const clattn_attention_args *args, int64_t batch,
                                   clattn_array *weights) {
    clattn_attention_args a = *args;
    const bool paged = args->block_table != NULL;
    clattn_tensor *const batched[] = {&a.q, &a.keep, &a.drop, &a.bias, &a.k, &a.v};
    for (size_t i = 0; i < sizeof batched / sizeof batched[0] - (paged ? 2 : 0); i++)
        take_batch(batched[i], batch);
    const int64_t keys = paged ? a.table_pages * a.k.shape[2] : a.k.shape[2];
    a.key_lengths = args->key_lengths ? args->key_lengths + batch : NULL;
    a.query_lengths = args->query_lengths ? args->query_lengths + batch : NULL;
    a.prefix_lengths = args->prefix_lengths ? args->prefix_lengths + batch : NULL;
    a.offsets = args->offsets ? args->offsets + batch : NULL;
    a.query_segments = args->query_segments ? args->query_segments + batch * a.q.shape[2] : NULL;
    a.key_segments = args->key_segments ? args->key_segments + batch * keys : NULL;
    a.block_table = paged ? args->block_table + batch * a.table_pages : NULL;
    a.algorithm = NULL;
    const int64_t shape[4] = {1, a.q.shape[1], a.q.shape[2], keys};
    const int64_t o_shape[4] = {1, a.q.shape[1], a.q.shape[2], a.v.shape[3]};
    clattn_array o = {0};
    clattn_status status = clattn_array_create(args->o.dtype, 4, o_shape, &o);
    if (status == CLATTN_OK)
        status = clattn_array_create(cla_sums_type(args), 4, shape, weights);
    if (status == CLATTN_OK) {
        a.o = clattn_array_tensor(&o);
        a.lse = a.column_sums = a.entropy = (clattn_tensor){0};
        a.weights = clattn_array_tensor(weights);
        a.weights_form = CLATTN_WEIGHTS_SOFTMAX;
        a.weights_mean = false;
        a.weights_queries = a.weights_heads = NULL;
        a.weights_query_count = a.weights_head_count = 0;
        status = cla_job_run(context, &a, false, NULL);
    }
    clattn_array_free(&o);
    return status;
}
