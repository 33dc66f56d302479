/* SPDX-License-Identifier: Apache-2.0 */
/* Experiments of the seed articles on multi-head attention: mha_causal_probe changes the last positions and looks what
 * changes at each, without and with the causal mask; mha_permutation_pe permutes the tokens, without and with
 * sinusoidal positions. */
#include "check_module.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Inputs of a probe are among the parameters of its job. */
static const clattn_array *input(const cla_check_job *job, const char *name) {
    for (size_t i = 0; i < job->parameter_count; i++)
        if (strcmp(job->parameters[i].name, name) == 0)
            return &job->parameters[i].array;
    return NULL;
}

static const clattn_array *output(const cla_check_job *job, const char *name) {
    for (size_t i = 0; i < job->output_count; i++)
        if (strcmp(job->outputs[i].name, name) == 0)
            return job->outputs[i].got;
    return NULL;
}

static clattn_status open_heads(clattn_context *context, const cla_check_job *job, clattn_parameters **all,
                                clattn_multihead **multihead) {
    const clattn_status status = cla_parameters_upload(context, job->parameters, job->parameter_count, all);
    return status == CLATTN_OK ? clattn_multihead_load(context, *all, NULL, &job->multihead_options, multihead)
                               : status;
}

static clattn_status attend(clattn_multihead *multihead, const clattn_tensor *x, const clattn_array *y,
                            const clattn_array *mask) {
    clattn_multihead_args args = {.query = *x, .y = clattn_array_tensor(y)};
    if (mask)
        args.masks.attn = clattn_array_tensor(mask);
    return clattn_multihead_run(multihead, &args);
}

/* ---- mha_causal_probe ---- */

/* The largest change of each position. */
static void changes(const clattn_array *a, const clattn_array *b, const clattn_array *to) {
    const int64_t E = a->shape[a->rank - 1];
    const double *x = a->data, *y = b->data;
    double *most = to->data;
    for (int64_t i = 0; i < to->shape[0]; i++) {
        most[i] = 0;
        for (int64_t e = i * E; e < (i + 1) * E; e++)
            if (!(fabs(x[e] - y[e]) <= most[i])) /* NaN too */
                most[i] = fabs(x[e] - y[e]);
    }
}

static clattn_status call_causal(clattn_context *context, const cla_check_job *job) {
    static const char *const names[2][3] = {{"y_nomask", "y2_nomask", "diff_nomask"},
                                            {"y_causal", "y2_causal", "diff_causal"}};
    clattn_parameters *all = NULL;
    clattn_multihead *multihead = NULL;
    const clattn_tensor x = clattn_array_tensor(input(job, "query")), x2 = clattn_array_tensor(input(job, "query2"));
    clattn_status status = open_heads(context, job, &all, &multihead);
    for (int i = 0; i < 2 && status == CLATTN_OK; i++) {
        const clattn_array *mask = i ? input(job, "attn_mask") : NULL;
        const clattn_array *y = output(job, names[i][0]), *y2 = output(job, names[i][1]);
        status = attend(multihead, &x, y, mask);
        if (status == CLATTN_OK)
            status = attend(multihead, &x2, y2, mask);
        if (status == CLATTN_OK)
            changes(y, y2, output(job, names[i][2]));
    }
    clattn_multihead_destroy(multihead);
    clattn_parameters_destroy(all);
    return status;
}

/* ---- mha_permutation_pe ---- */

/* Rows of x in another order. */
static void permute(const clattn_array *x, const clattn_array *order, clattn_array *to) {
    const size_t row = (size_t)x->shape[2] * clattn_dtype_size(x->dtype);
    for (int64_t i = 0; i < x->shape[1]; i++)
        memcpy((char *)to->data + (size_t)i * row,
               (const char *)x->data + (size_t)((const int64_t *)order->data)[i] * row, row);
}

static clattn_status find_positions(clattn_context *context, const cla_check_job *job) {
    clattn_status status = CLATTN_OK;
    for (size_t i = 0; i < job->output_count && status == CLATTN_OK; i++)
        if (strncmp(job->outputs[i].name, "pe_", 3) == 0) {
            const clattn_positions_args args = {.y = clattn_array_tensor(job->outputs[i].got)};
            status = clattn_positions(context, &args);
        }
    return status;
}

/* y and, of x with positions added, z. */
static clattn_status attend_both(clattn_context *context, clattn_multihead *multihead, const clattn_array *x,
                                 const clattn_array *y, const clattn_array *z, const clattn_array *sum) {
    const int64_t shape[] = {x->shape[1], x->shape[2]};
    const clattn_tensor in = clattn_array_tensor(x), placed = clattn_array_tensor(sum);
    clattn_array table = {0};
    clattn_status status = clattn_array_create(x->dtype, 2, shape, &table);
    const clattn_positions_args positions = {.y = clattn_array_tensor(&table)};
    const clattn_add_args add = {.a = in, .b = clattn_array_tensor(&table), .y = placed};
    if (status == CLATTN_OK)
        status = attend(multihead, &in, y, NULL);
    if (status == CLATTN_OK)
        status = clattn_positions(context, &positions);
    if (status == CLATTN_OK)
        status = clattn_add(context, &add);
    if (status == CLATTN_OK)
        status = attend(multihead, &placed, z, NULL);
    clattn_array_free(&table);
    return status;
}

static clattn_status call_permutation(clattn_context *context, const cla_check_job *job) {
    clattn_parameters *all = NULL;
    clattn_multihead *multihead = NULL;
    const clattn_array *x = input(job, "query");
    clattn_array permuted = {0}, sum = {0};
    clattn_status status = clattn_array_create(x->dtype, x->rank, x->shape, &permuted);
    if (status == CLATTN_OK)
        status = clattn_array_create(x->dtype, x->rank, x->shape, &sum);
    if (status == CLATTN_OK) {
        permute(x, input(job, "perm"), &permuted);
        status = open_heads(context, job, &all, &multihead);
    }
    if (status == CLATTN_OK)
        status = attend_both(context, multihead, x, output(job, "y"), output(job, "z"), &sum);
    if (status == CLATTN_OK)
        status = attend_both(context, multihead, &permuted, output(job, "y_perm"), output(job, "z_perm"), &sum);
    if (status == CLATTN_OK)
        status = find_positions(context, job);
    clattn_array_free(&permuted);
    clattn_array_free(&sum);
    clattn_multihead_destroy(multihead);
    clattn_parameters_destroy(all);
    return status;
}

/* ---- building ---- */

/* An array for each output, of the shape that is wanted; those of `needed` must be there. */
static bool make_outputs(cla_check_case *c, cla_check_job *job, const char *const *needed, const char *prefix) {
    const cJSON *out;
    cJSON_ArrayForEach(out, cJSON_GetObjectItemCaseSensitive(c->json, "out")) {
        bool known = prefix && strncmp(out->string, prefix, strlen(prefix)) == 0;
        for (size_t i = 0; needed[i]; i++)
            known |= strcmp(out->string, needed[i]) == 0;
        if (!known)
            return cla_check_error(c, "the output %s is not known", out->string);
        const clattn_array *want = cla_check_read_raw(c, job, out->string);
        const clattn_array *got = want ? cla_check_new_array(c, job, want->dtype, want->rank, want->shape) : NULL;
        if (!got || !cla_check_want(c, job, out, CLA_CHECK_FROM_O, got))
            return false;
    }
    for (size_t i = 0; needed[i]; i++)
        if (!output(job, needed[i]))
            return cla_check_error(c, "the output %s is missing", needed[i]);
    return true;
}

static bool prepare(cla_check_case *c, const char *const *inputs, cla_check_job **job) {
    clattn_dtype dtype;
    int64_t heads, shift;
    if (!cla_check_dtype_of(c, "query", &dtype) || !cla_check_attr_int(c, "num_heads", 1, &heads) ||
        !cla_check_attr_int(c, "shift", 0, &shift))
        return false;
    *job = cla_check_job_of(c, dtype);
    if (!*job || !cla_check_read_parameters(c, *job, inputs))
        return false;
    (*job)->multihead_options.heads = heads;
    for (; *inputs; inputs++)
        if (!input(*job, *inputs))
            return cla_check_error(c, "the input %s is missing", *inputs);
    const clattn_array *x = input(*job, "query");
    return (x->rank == 3 && x->shape[0] == 1 && x->dtype == CLATTN_F64) ||
           cla_check_error(c, "the query is not [1, N, E] in f64");
}

static bool same_shape(const clattn_array *a, const clattn_array *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

bool cla_check_build_causal_probe(cla_check_case *c) {
    static const char *const attrs[] = {"embed_dim", "num_heads", NULL};
    static const char *const inputs[] = {"query",        "query2",          "attn_mask",     "in_proj_weight",
                                         "in_proj_bias", "out_proj.weight", "out_proj.bias", NULL};
    static const char *const outputs[] = {"y_nomask",  "y2_nomask",   "diff_nomask", "y_causal",
                                          "y2_causal", "diff_causal", NULL};
    cla_check_job *job;
    if (!cla_check_known(c, attrs, inputs) || !prepare(c, inputs, &job) || !make_outputs(c, job, outputs, NULL))
        return false;
    const clattn_array *x = input(job, "query");
    bool fits = same_shape(x, input(job, "query2"));
    for (int i = 0; outputs[i]; i++) {
        const clattn_array *y = output(job, outputs[i]);
        fits =
            fits && y->dtype == x->dtype && (i % 3 < 2 ? same_shape(x, y) : y->rank == 1 && y->shape[0] == x->shape[1]);
    }
    job->call = call_causal;
    return fits || cla_check_error(c, "inputs and outputs do not fit together");
}

bool cla_check_build_permutation(cla_check_case *c) {
    static const char *const attrs[] = {"embed_dim", "num_heads", "shift", NULL};
    static const char *const inputs[] = {"query",         "perm", "in_proj_weight", "in_proj_bias", "out_proj.weight",
                                         "out_proj.bias", NULL};
    static const char *const outputs[] = {"y", "y_perm", "z", "z_perm", NULL};
    cla_check_job *job;
    if (!cla_check_known(c, attrs, inputs) || !prepare(c, inputs, &job) || !make_outputs(c, job, outputs, "pe_"))
        return false;
    const clattn_array *x = input(job, "query"), *order = input(job, "perm");
    bool fits = order->dtype == CLATTN_I64 && order->rank == 1 && order->shape[0] == x->shape[1];
    for (int64_t i = 0; fits && i < order->shape[0]; i++) {
        const int64_t from = ((const int64_t *)order->data)[i];
        fits = from >= 0 && from < x->shape[1];
    }
    for (int i = 0; outputs[i]; i++)
        fits = fits && same_shape(x, output(job, outputs[i]));
    job->call = call_permutation;
    return fits || cla_check_error(c, "inputs and outputs do not fit together");
}
