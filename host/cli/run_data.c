/* SPDX-License-Identifier: Apache-2.0 */
#include "run_data.h"

#include "args.h"
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
        RETURN_ON_FAILURE(cla_bias_check(&d->bias, d->q.array.dtype));
    }
    const int64_t batch = d->q.view.shape[0];
    if (o->lengths)
        RETURN_ON_FAILURE(cla_numbers_load("lengths", o->lengths, batch, &d->key_lengths));
    if (!o->offsets)
        return CLA_EXIT_OK;
    int64_t one;
    if (!cla_parse_i64(o->offsets, &one)) /* one number is for all batches */
        return cla_numbers_load("align", o->offsets, batch, &d->offsets);
    d->offsets = malloc((batch > 0 ? (size_t)batch : 1) * sizeof *d->offsets);
    if (!d->offsets)
        return cla_fail(CLA_EXIT_FAILED, "--align: out of memory for %lld numbers", (long long)batch);
    for (int64_t b = 0; b < batch; b++)
        d->offsets[b] = one;
    return CLA_EXIT_OK;
}

static int check_alignment(const cla_run_options *o, const cla_run_data *d) {
    const long long n = (long long)d->q.view.shape[2], m = (long long)d->k.view.shape[2];
    if (n == m || o->align != CLATTN_ALIGN_UNSET || (!o->causal && !o->has_window))
        return CLA_EXIT_OK;
    if (o->causal)
        return cla_fail(CLA_EXIT_USAGE,
                        "--causal with %lld queries and %lld keys needs an alignment: --causal=top-left "
                        "(query i sees keys 0 to i) or --causal=bottom-right (the last query sees all)",
                        n, m);
    return cla_fail(CLA_EXIT_USAGE,
                    "--window with %lld queries and %lld keys needs an alignment: --align top-left (query "
                    "i stands at key i) or --align bottom-right (the last query at the last key)",
                    n, m);
}

/* The map needs the weights of its batch as an array. */
static int check_heatmap_size(const cla_run_options *o, const cla_run_data *d) {
    const int64_t heads = d->q.view.shape[1], n = d->q.view.shape[2], m = d->k.view.shape[2];
    const double bytes = (double)heads * (double)n * (double)m * (double)clattn_dtype_size(d->q.array.dtype);
    if (!o->heatmap)
        return CLA_EXIT_OK;
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

static int create_results(const cla_run_options *o, cla_run_data *d) {
    clattn_attention_args *a = &d->args;
    const cla_layout layout = o->heads.layout;
    RETURN_ON_FAILURE(cla_output_create(&d->q, layout, d->v.view.shape[3], &d->o, &a->o));
    if (o->lse)
        RETURN_ON_FAILURE(cla_extra_create("lse", &d->q, layout, -1, &d->lse, &a->lse));
    if (o->weights)
        RETURN_ON_FAILURE(cla_extra_create("weights", &d->q, layout, d->k.view.shape[2], &d->weights, &a->weights));
    return CLA_EXIT_OK;
}

int cla_run_data_load(const cla_run_options *o, cla_run_data *data) {
    *data = (cla_run_data){0};
    RETURN_ON_FAILURE(load_heads(o, data));
    RETURN_ON_FAILURE(load_masks(o, data));
    RETURN_ON_FAILURE(check_alignment(o, data));
    data->args = (clattn_attention_args){.q = data->q.view,
                                         .k = data->k.view,
                                         .v = data->v.view,
                                         .keep = data->keep.view,
                                         .drop = data->drop.view,
                                         .bias = data->bias.view,
                                         .key_lengths = data->key_lengths,
                                         .has_scale = o->has_scale,
                                         .scale = o->scale,
                                         .causal = o->causal,
                                         .align = o->align,
                                         .offsets = data->offsets,
                                         .has_window = o->has_window,
                                         .window_left = o->window_left,
                                         .window_right = o->window_right,
                                         .algorithm = o->algorithm};
    RETURN_ON_FAILURE(check_heatmap_size(o, data));
    return create_results(o, data);
}

void cla_run_data_free(cla_run_data *d) {
    cla_input *const inputs[] = {&d->q, &d->k, &d->v, &d->keep, &d->drop, &d->bias};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        clattn_array_free(&inputs[i]->array);
    clattn_array_free(&d->o);
    clattn_array_free(&d->lse);
    clattn_array_free(&d->weights);
    free(d->key_lengths);
    free(d->offsets);
    *d = (cla_run_data){0};
}

/* ---- weights alone ---- */

bool cla_gives_weights(clattn_context *context, const clattn_attention_args *args, const char *algorithm) {
    for (size_t i = 0; i < clattn_algorithm_count(); i++) {
        bool applies = false;
        const char *reason;
        if (algorithm && strcmp(clattn_algorithm_name(i), algorithm) != 0)
            continue;
        if (clattn_algorithm_applies(context, args, i, &applies, &reason) == CLATTN_OK && applies)
            return true;
    }
    return false;
}

static void take_batch(clattn_tensor *t, int64_t batch) {
    if (t->rank == 4 && t->shape[0] > 1)
        *t = clattn_tensor_slice(*t, 0, batch, 1);
}

clattn_status cla_weights_run(clattn_context *context, const clattn_attention_args *args, bool explain) {
    clattn_context *cpu = NULL;
    if (cla_gives_weights(context, args, NULL))
        return cla_job_run(context, args, explain, NULL);
    clattn_status status = clattn_context_create("cpu", NULL, &cpu);
    if (status == CLATTN_OK)
        status = cla_job_run(cpu, args, explain, NULL);
    clattn_context_destroy(cpu);
    return status;
}

int cla_run_data_weights(clattn_context *context, const clattn_attention_args *args, int64_t batch,
                         clattn_array *weights) {
    clattn_attention_args a = *args;
    clattn_tensor *const batched[] = {&a.q, &a.k, &a.v, &a.keep, &a.drop, &a.bias};
    for (size_t i = 0; i < sizeof batched / sizeof batched[0]; i++)
        take_batch(batched[i], batch);
    a.key_lengths = args->key_lengths ? args->key_lengths + batch : NULL;
    a.offsets = args->offsets ? args->offsets + batch : NULL;
    a.algorithm = NULL;
    const int64_t shape[4] = {1, a.q.shape[1], a.q.shape[2], a.k.shape[2]};
    const int64_t o_shape[4] = {1, a.q.shape[1], a.q.shape[2], a.v.shape[3]};
    clattn_array o = {0};
    clattn_status status = clattn_array_create(a.q.dtype, 4, o_shape, &o);
    if (status == CLATTN_OK)
        status = clattn_array_create(a.q.dtype, 4, shape, weights);
    if (status == CLATTN_OK) {
        a.o = clattn_array_tensor(&o);
        a.lse = (clattn_tensor){0};
        a.weights = clattn_array_tensor(weights);
        status = cla_weights_run(context, &a, false);
    }
    clattn_array_free(&o);
    return status == CLATTN_OK ? CLA_EXIT_OK : cla_fail_status(status, "weights");
}
