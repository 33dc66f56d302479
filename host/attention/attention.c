/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: problem + algorithm + kernels + scratch. Creation decides and allocates; execution only enqueues. */
#include "args.h"
#include "attention/plan.h"
#include "attention/self_check.h"
#include "ops/copy.h"
#include "tensor/dtype.h"
#include <clattn/opencl.h>
#include <stdio.h>
#include <string.h>

enum { SCRATCH_ALIGN = 256 };

static int64_t scratch_limit(const clattn_plan *plan) {
    const clattn_device_info *device = cla_context_device(plan->context);
    const uint64_t half = device->global_bytes ? device->global_bytes / 2 : INT64_MAX; /* 0: it could not be asked */
    const uint64_t largest = device->max_alloc_bytes ? device->max_alloc_bytes : INT64_MAX;
    const uint64_t limit = largest < half ? largest : half;
    const uint64_t asked = plan->problem.max_workspace;
    return (int64_t)(asked && asked < limit ? asked : limit);
}

int64_t cla_plan_scratch_left(const clattn_plan *plan) {
    return cla_max(0, scratch_limit(plan) - (int64_t)(plan->workspace_bytes + plan->hidden_bytes));
}

clattn_status cla_plan_scratch(clattn_plan *plan, int64_t bytes, const char *what, size_t *offset_bytes) {
    const int64_t rounded = bytes > INT64_MAX - SCRATCH_ALIGN ? INT64_MAX : cla_round_up(bytes, SCRATCH_ALIGN);
    if (rounded > cla_plan_scratch_left(plan))
        return cla_error(CLATTN_E_LIMIT,
                         "workspace: %s needs %lld bytes more than the %zu taken, above the limit of %lld; raise "
                         "max_workspace or split the batch",
                         what, (long long)bytes, plan->workspace_bytes, (long long)scratch_limit(plan));
    *offset_bytes = plan->workspace_bytes;
    plan->workspace_bytes += (size_t)rounded;
    cla_str_append(&plan->text, "scratch: %lld bytes for %s\n", (long long)bytes, what);
    return CLATTN_OK;
}

/* ---- creation ---- */

static clattn_status check_bound(const clattn_context *context, const cla_problem *p) {
    for (int i = 0; i < CLA_TENSORS; i++) {
        const clattn_tensor *t = cla_tensor_read(p, i);
        if (t->buffer && clattn_buffer_context(t->buffer) != context)
            return cla_error(CLATTN_E_ARGUMENT, "%s: its buffer belongs to another context than the plan",
                             cla_tensor_fields[i].name);
        if (t->rank > 0 && t->host && !cla_context_is_cpu(context) && clattn_tensor_elements(t) > 0)
            return cla_error(CLATTN_E_ARGUMENT,
                             "%s: is a host array, and a plan on an OpenCL device needs buffers; upload it, or call "
                             "clattn_attention",
                             cla_tensor_fields[i].name);
    }
    return CLATTN_OK;
}

clattn_status cla_plan_upload(clattn_plan *plan, const char *what, const void *data, int64_t count, size_t size,
                              clattn_buffer **buffer) {
    clattn_status status = CLATTN_OK;
    if (!data || cla_context_is_cpu(plan->context))
        return CLATTN_OK;
    const size_t bytes = (size_t)count * size;
    CLA_CHECK(
        (int64_t)bytes <= cla_plan_scratch_left(plan), CLATTN_E_LIMIT,
        "workspace: %s need %zu bytes, above the %lld left of the limit of %lld; raise max_workspace or split the "
        "batch",
        what, bytes, (long long)cla_plan_scratch_left(plan), (long long)scratch_limit(plan));
    CLA_TRY(cla_buffer_create_from(plan->context, data, bytes, buffer));
    plan->hidden_bytes += bytes;
    plan->largest_hidden = bytes > plan->largest_hidden ? bytes : plan->largest_hidden;
    cla_str_append(&plan->text, "on the device: %zu bytes for %s\n", bytes, what);
done:
    return status;
}

static clattn_status upload_arrays(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    cla_span *spans = NULL;
    if (p->batches) {
        CLA_TRY(cla_alloc((size_t)p->B, sizeof *spans, "spans", &spans));
        for (int64_t b = 0; b < p->B; b++) {
            const cla_batch *x = &p->batches[b];
            spans[b] = (cla_span){.q_row = x->q_row,
                                  .k_row = x->k_row,
                                  .keys = (cl_int)x->keys,
                                  .queries = (cl_int)x->queries,
                                  .offset = (cl_int)x->offset,
                                  .prefix = (cl_int)x->prefix};
        }
    }
    CLA_TRY(cla_plan_upload(plan, "lengths and offsets", spans, p->B, sizeof *spans, &plan->spans));
    CLA_TRY(cla_plan_upload(plan, "ALiBi slopes", p->slopes, p->H, sizeof *p->slopes, &plan->slopes));
    CLA_TRY(
        cla_plan_upload(plan, "query segments", p->q_segments, p->B * p->N, sizeof *p->q_segments, &plan->q_segments));
    CLA_TRY(
        cla_plan_upload(plan, "key segments", p->k_segments, p->B * p->M, sizeof *p->k_segments, &plan->k_segments));
    CLA_TRY(cla_plan_upload(plan, "the block table", p->table, p->B * p->table_pages, sizeof *p->table, &plan->table));
done:
    cla_free(spans);
    return status;
}

/* Everything but the problem. */
static void release(clattn_plan *plan) {
    if (plan->algorithm)
        plan->algorithm->destroy(plan);
    cla_weights_destroy(plan);
    cla_pack_destroy(plan);
    cla_kernel_destroy(plan->fill);
    cla_kernel_destroy(plan->copy);
    if (plan->owns_scratch)
        clattn_buffer_destroy(plan->scratch);
    clattn_buffer_destroy(plan->spans);
    clattn_buffer_destroy(plan->slopes);
    clattn_buffer_destroy(plan->q_segments);
    clattn_buffer_destroy(plan->k_segments);
    clattn_buffer_destroy(plan->table);
    cla_str_free(&plan->text);
    cla_free(plan->variants);
    *plan = (clattn_plan){.context = plan->context, .problem = plan->problem};
}

static clattn_status build(clattn_plan *plan, const char *name, const char *variant, bool caller_workspace) {
    clattn_status status = CLATTN_OK;
    cla_tuned tuned;
    const clattn_device_info *device = cla_context_device(plan->context);
    CLA_TRY(check_bound(plan->context, &plan->problem));
    CLA_TRY(cla_variant_check(name, variant));
    const cla_algorithm *algorithm = NULL;
    plan->tuned = cla_algorithm_tuned(plan, name, variant, &tuned);
    CLA_TRY(cla_algorithm_choose(&plan->problem, device, name, plan->tuned ? &tuned : NULL, plan->refused, &plan->text,
                                 &algorithm));
    plan->tuned = plan->tuned && strcmp(algorithm->name, tuned.value) == 0;
    if (cla_problem_no_rows(&plan->problem) || cla_problem_no_keys(&plan->problem)) {
        cla_str_append(&plan->text, "no query, or no key: nothing but a fill\n");
        if (plan->problem.backward || !cla_problem_no_rows(&plan->problem)) {
            CLA_TRY(cla_copy_kernel(plan->context, plan->problem.dtype == CLATTN_F64, "fill_strided", &plan->fill));
            CLA_TRY(cla_copy_kernel(plan->context, plan->problem.dtype == CLATTN_F64, "copy_strided", &plan->copy));
        }
        goto done;
    }
    plan->algorithm = algorithm;
    cla_class_key(&plan->problem, algorithm->name, plan->variant_key);
    cla_explain_restrictions(plan);
    CLA_TRY(upload_arrays(plan));
    CLA_TRY(cla_pack_create(plan));
    const cla_problem given = plan->problem;
    cla_pack_bind(plan);
    cla_explain_storage(plan, &given);
    status = cla_variants_choose(plan, variant);
    if (status == CLATTN_OK)
        status = cla_weights_create(plan);
    if (status == CLATTN_OK)
        status = algorithm->create(plan);
    cla_pack_unbind(plan);
    CLA_TRY(status);
    if (plan->problem.ragged && (plan->problem.backward || cla_present(&plan->problem.column_sums)))
        CLA_TRY(cla_copy_kernel(plan->context, plan->problem.dtype == CLATTN_F64, "fill_strided", &plan->fill));
    if (plan->workspace_bytes > 0 && !caller_workspace) {
        CLA_TRY(clattn_buffer_create(plan->context, plan->workspace_bytes, &plan->scratch));
        plan->owns_scratch = true;
    }
done:
    if (status == CLATTN_OK)
        cla_explain_costs(plan);
    return status == CLATTN_OK ? cla_str_status(&plan->text) : status;
}

/* *refused: the device is at fault: its compiler or its limits for kernels refuse, or they do not do as they should. */
static clattn_status build_tested(clattn_plan *plan, const char *name, const char *variant, bool caller_workspace,
                                  bool *refused) {
    clattn_status status = build(plan, name, variant, caller_workspace);
    const bool built = status == CLATTN_OK;
    if (built)
        status = cla_plan_self_test(plan);
    *refused = status == CLATTN_E_LIMIT || status == CLATTN_E_BUILD || status == CLATTN_E_VERIFY ||
               (built && status != CLATTN_E_DEVICE_LOST);
    return status;
}

/* Of plan->problem. What the tuner's record chose and the device refuses is as if it were not recorded. */
static clattn_status build_tuned(clattn_plan *plan, const char *name, const char *variant, bool caller_workspace,
                                 bool *refused) {
    clattn_status status = build_tested(plan, name, variant, caller_workspace, refused);
    if (status == CLATTN_OK || !plan->tuned)
        return status;
    release(plan);
    cla_str_append(&plan->text, "what the tuner recorded fails here, so the default is taken: %.300s\n",
                   clattn_last_error());
    return build_tested(plan, name, "default", caller_workspace, refused);
}

/* Its bit; 0: none was chosen. */
static unsigned bit_of(const clattn_plan *plan) {
    for (unsigned i = 0; plan->algorithm && cla_algorithm_at(plan->problem.backward, i); i++)
        if (cla_algorithm_at(plan->problem.backward, i) == plan->algorithm)
            return 1U << i;
    return 0;
}

/* Where nobody asked for one by name, the next takes the place of an algorithm that the device refuses. When none is
 * left, the first one's failure is told. */
static clattn_status build_plan(clattn_plan *plan, const char *name, const char *variant, bool caller_workspace) {
    char first[1024];
    bool fails = false;
    clattn_status status = build_tuned(plan, name, variant, caller_workspace, &fails);
    const clattn_status first_status = status;
    snprintf(first, sizeof first, "%s", status == CLATTN_OK ? "" : clattn_last_error());
    for (unsigned refused = 0; status != CLATTN_OK && fails && !(name && *name);) {
        const unsigned bit = bit_of(plan);
        if (!bit)
            break;
        const char *failed = plan->algorithm->name;
        release(plan);
        plan->refused = refused |= bit;
        cla_str_append(&plan->text, "%s fails here, so another is taken: %.300s\n", failed, clattn_last_error());
        status = build_tested(plan, name, "default", caller_workspace, &fails);
    }
    return status == CLATTN_OK || !plan->refused ? status : cla_error(first_status, "%s", first);
}

/* Of one of the two passes; the other's args are NULL. */
static clattn_status create(clattn_context *context, const clattn_attention_args *args,
                            const clattn_attention_backward_args *backward, clattn_plan **plan) {
    clattn_status status = CLATTN_OK;
    clattn_plan *made = NULL;
    CLA_CHECK(plan, CLATTN_E_ARGUMENT, "plan_create: plan is NULL");
    *plan = NULL;
    CLA_CHECK(context && (args || backward), CLATTN_E_ARGUMENT, "plan_create: %s is NULL",
              context ? "args" : "context");
    CLA_TRY(cla_alloc(1, sizeof *made, "plan", &made));
    made->context = context;
    if (backward) {
        CLA_TRY(cla_problem_init_backward(&made->problem, backward));
        CLA_TRY(build_plan(made, backward->algorithm, backward->variant, backward->forward.caller_workspace));
    } else {
        CLA_TRY(cla_problem_init(&made->problem, args));
        CLA_TRY(build_plan(made, args->algorithm, args->variant, args->caller_workspace));
    }
    *plan = made;
    made = NULL;
done:
    clattn_plan_destroy(made);
    return status;
}

clattn_status clattn_plan_create(clattn_context *context, const clattn_attention_args *args, clattn_plan **plan) {
    return create(context, args, NULL, plan);
}

clattn_status clattn_backward_plan_create(clattn_context *context, const clattn_attention_backward_args *args,
                                          clattn_plan **plan) {
    return create(context, NULL, args, plan);
}

clattn_status cla_plan_make(clattn_context *context, cla_problem *problem, const cla_asked *asked, clattn_plan **plan) {
    clattn_status status = CLATTN_OK;
    clattn_plan *made = NULL;
    *plan = NULL;
    CLA_TRY(cla_alloc(1, sizeof *made, "plan", &made));
    made->context = context;
    made->problem = *problem;
    *problem = (cla_problem){0};
    made->tuning_changes = cla_tuning_changes(context);
    CLA_TRY(build_plan(made, asked->algorithm, asked->variant, true));
    *plan = made;
    made = NULL;
done:
    clattn_plan_destroy(made);
    return status;
}

static void bind_tensors(cla_problem *to, const cla_problem *from) {
    for (int i = 0; i < CLA_TENSORS; i++) {
        clattn_tensor *mine = cla_tensor_of(to, i);
        const clattn_tensor *theirs = cla_tensor_read(from, i);
        mine->buffer = theirs->buffer;
        mine->host = theirs->host;
        mine->offset = theirs->offset;
    }
    to->dropout_key = from->dropout_key;
}

clattn_status cla_plan_bind(clattn_plan *plan, cla_problem *problem) {
    const clattn_status status = check_bound(plan->context, problem);
    if (status == CLATTN_OK)
        bind_tensors(&plan->problem, problem);
    return status;
}

void cla_plan_unbind(clattn_plan *plan) {
    cla_problem nothing = {0};
    bind_tensors(&plan->problem, &nothing);
}

clattn_status cla_plan_run_once(clattn_context *context, const cla_problem *p, const cla_asked *asked) {
    clattn_status status = CLATTN_OK;
    clattn_plan *plan = NULL;
    CLA_TRY(cla_alloc(1, sizeof *plan, "plan", &plan));
    plan->context = context;
    plan->problem = *p;
    CLA_TRY(build(plan, asked->algorithm, asked->variant, false));
    CLA_TRY(clattn_plan_execute(plan, NULL));
done:
    if (plan)
        plan->problem = (cla_problem){0}; /* the caller's */
    clattn_plan_destroy(plan);
    return status;
}

void clattn_plan_destroy(clattn_plan *plan) {
    if (!plan)
        return;
    release(plan);
    cla_problem_free(&plan->problem);
    cla_free(plan);
}

clattn_status clattn_plan_set_workspace(clattn_plan *plan, clattn_buffer *workspace) {
    if (!plan || !workspace)
        return cla_error(CLATTN_E_ARGUMENT, "plan_set_workspace: %s is NULL", plan ? "workspace" : "plan");
    if (clattn_buffer_context(workspace) != plan->context)
        return cla_error(CLATTN_E_ARGUMENT, "plan_set_workspace: the buffer belongs to another context than the plan");
    if (clattn_buffer_bytes(workspace) < plan->workspace_bytes)
        return cla_error(CLATTN_E_LIMIT, "plan_set_workspace: a buffer of %zu bytes, and the plan needs %zu",
                         clattn_buffer_bytes(workspace), plan->workspace_bytes);
    if (plan->owns_scratch)
        clattn_buffer_destroy(plan->scratch);
    plan->owns_scratch = false;
    plan->scratch = workspace;
    return CLATTN_OK;
}

/* ---- execution ---- */

/* Only tensors of the caller's are read, and where dropout stands: the rest is the plan's. lengths: room, or NULL. */
static void keep_options(const cla_problem *p, clattn_attention_args *tensors, int64_t *lengths) {
    tensors->has_scale = true;
    tensors->scale = p->scale;
    tensors->causal = tensors->has_window = false;
    tensors->key_lengths = tensors->query_lengths = tensors->prefix_lengths = tensors->offsets = NULL;
    tensors->align = CLATTN_ALIGN_UNSET;
    tensors->alibi_slopes = NULL;
    tensors->query_segments = tensors->key_segments = NULL;
    tensors->softcap = 0;
    tensors->dropout = p->dropout;
    tensors->short_masks = p->short_masks;
    const bool weighs = cla_present(&tensors->weights);
    tensors->weights_form = weighs ? p->form : CLATTN_WEIGHTS_SOFTMAX;
    tensors->weights_mean = weighs && p->mean;
    tensors->weights_queries = weighs ? p->form_queries : NULL;
    tensors->weights_query_count = weighs && p->form_queries ? p->row_count : 0;
    tensors->weights_heads = weighs ? p->form_heads : NULL;
    tensors->weights_head_count = weighs && p->form_heads ? p->head_count : 0;
    tensors->sequences = 0;
    tensors->cu_queries = tensors->cu_keys = NULL;
    tensors->block_table = p->table;
    tensors->table_pages = p->table_pages;
    tensors->self_check = 0;
    for (int64_t b = 0; lengths && b < p->B; b++)
        lengths[b] = p->batches[b].keys;
    tensors->key_lengths = lengths;
}

/* Takes buffers and offsets of other tensors of the same layout, of the plan's pass. */
static clattn_status rebind(clattn_plan *plan, const clattn_attention_args *args,
                            const clattn_attention_backward_args *backward) {
    clattn_status status = CLATTN_OK;
    cla_problem other = {0}, *p = &plan->problem;
    int64_t *lengths = NULL;
    CLA_CHECK(p->backward == (backward != NULL), CLATTN_E_ARGUMENT,
              "plan_execute: the plan is one of the backward pass; use clattn_backward_plan_execute");
    if (p->page_size)
        CLA_TRY(cla_alloc((size_t)p->B, sizeof *lengths, "lengths", &lengths));
    if (backward) {
        clattn_attention_backward_args tensors = *backward;
        keep_options(p, &tensors.forward, lengths);
        CLA_TRY(cla_problem_init_backward(&other, &tensors));
    } else {
        clattn_attention_args tensors = *args;
        keep_options(p, &tensors, lengths);
        CLA_TRY(cla_problem_init(&other, &tensors));
    }
    CLA_TRY(check_bound(plan->context, &other));
    if (p->ragged) { /* as cla_sequences_take and what follows it left them */
        clattn_tensor *const rows[] = {&other.q, &other.o,   &other.state, &other.d_o, &other.k,
                                       &other.v, &other.d_q, &other.d_k,   &other.d_v};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (!p->page_size || (rows[i] != &other.k && rows[i] != &other.v))
                rows[i]->stride[0] = 0;
        other.lse.stride[1] = other.entropy.stride[1] = 0;
        if (!p->page_size)
            other.column_sums.stride[1] = 0;
    }
    for (int i = 0; i < CLA_TENSORS; i++)
        CLA_CHECK(cla_view_same_layout(cla_tensor_read(p, i), cla_tensor_read(&other, i)), CLATTN_E_SHAPE,
                  "%s: has another type, shape or strides than when the plan was made; make a plan for it",
                  cla_tensor_fields[i].name);
    bind_tensors(p, &other);
done:
    cla_free(lengths);
    cla_problem_free(&other);
    return status;
}

static clattn_status enqueue(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    bool bound = false;
    if (!plan->algorithm)
        return cla_fill_only(plan);
    CLA_CHECK(plan->workspace_bytes == 0 || plan->scratch, CLATTN_E_ARGUMENT,
              "plan_execute: the plan was made with caller_workspace and has none; give %zu bytes to "
              "clattn_plan_set_workspace",
              plan->workspace_bytes);
    cla_pack_bind(plan);
    bound = true;
    CLA_TRY(cla_pack_inputs(plan));
    if (plan->problem.ragged) /* keys past key_lengths belong to a sequence, and no algorithm looks there */
        CLA_TRY(cla_fill_sums(plan));
    CLA_TRY(plan->algorithm->execute(plan));
    CLA_TRY(cla_weights_execute(plan));
    CLA_TRY(cla_pack_outputs(plan));
done:
    if (bound)
        cla_pack_unbind(plan);
    return status;
}

clattn_status clattn_plan_enqueue(clattn_plan *plan, const clattn_attention_args *tensors, cl_uint event_count,
                                  const cl_event *events, cl_event *event) {
    clattn_status status = CLATTN_OK;
    if (event)
        *event = NULL;
    CLA_CHECK(plan, CLATTN_E_ARGUMENT, "plan_execute: plan is NULL");
    if (tensors)
        CLA_TRY(rebind(plan, tensors, NULL));
    CLA_TRY(cla_queue_begin(plan->context, event_count, events));
    CLA_TRY(enqueue(plan));
    CLA_TRY(cla_queue_end(plan->context, event));
    if (plan->problem.self_check > 0 && plan->algorithm)
        status = cla_self_check(&plan->problem, plan->problem.self_check);
    if (status != CLATTN_OK && event && *event) {
        clReleaseEvent(*event);
        *event = NULL;
    }
done:
    return status;
}

clattn_status clattn_plan_execute(clattn_plan *plan, const clattn_attention_args *tensors) {
    return clattn_plan_enqueue(plan, tensors, 0, NULL, NULL);
}

clattn_status clattn_backward_plan_execute(clattn_plan *plan, const clattn_attention_backward_args *tensors) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(plan, CLATTN_E_ARGUMENT, "backward_plan_execute: plan is NULL");
    CLA_CHECK(plan->problem.backward, CLATTN_E_ARGUMENT,
              "backward_plan_execute: the plan is one of the forward pass; use clattn_plan_execute");
    if (tensors)
        CLA_TRY(rebind(plan, NULL, tensors));
    CLA_TRY(clattn_plan_enqueue(plan, NULL, 0, NULL, NULL));
done:
    return status;
}

/* ---- what algorithms share ---- */

bool cla_suits_cpus(const clattn_device_info *device, char *reason, size_t reason_bytes) {
    if (device->device_class == CLATTN_DEVICE_CPU)
        return true;
    snprintf(reason, reason_bytes, "is written for CPUs, and %.100s is none; ask for it by name", device->name);
    return false;
}

bool cla_needs_opencl(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    if (!device->is_opencl)
        snprintf(reason, reason_bytes, "runs on OpenCL devices, and this is the cpu context");
    else if (p->dtype == CLATTN_F64 && !device->has_f64)
        snprintf(reason, reason_bytes, "f64 needs cl_khr_fp64, which %.100s lacks", device->name);
    else
        return true;
    return false;
}

bool cla_needs_cpu(const clattn_device_info *device, char *reason, size_t reason_bytes) {
    if (device->is_opencl)
        snprintf(reason, reason_bytes, "runs on the cpu context, and this is an OpenCL device");
    return !device->is_opencl;
}

void *cla_tensor_data(const clattn_tensor *t) {
    char *base = t->host ? t->host : t->buffer ? cla_buffer_host(t->buffer) : NULL;
    return base ? base + clattn_dtype_bytes(t->dtype, (size_t)t->offset) : NULL;
}
