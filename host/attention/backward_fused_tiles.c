/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of `fused_tiles`: fused gradients for GPU-class devices. dK and dV by a work-group that owns keys,
 * dQ by one that owns queries, dBias by one that owns a tile of it; each computes the weights again, with the bits of
 * the forward pass where that had slices of the default tile. See attention_tiles_backward.cl, _bias.cl and _rows.cl.
 *
 * Builds of a type of sums on one device, over all problems: 6 tiles x dQ, dK and dV x none and intervals, for storage
 * of that type in multiples of 4 without dropout, and any masks, without and with dropout, for all others; of the bias
 * these last two of each tile; and one for rows: at most 61. CPUs, whose compilers take long and which nobody would
 * choose it for, have but one for each result: any storage and masks, and dropout of none where none is wanted. */
#include "args.h"
#include "attention/tiles_key.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    cla_tiling tiling;
    cla_kernel *kernel; /* NULL until tensors that need it are bound */
} variant;
typedef struct {
    const char *file, *kernel;
    bool wanted, own_keys;
    int64_t columns; /* of its results */
    variant by_four; /* for storage of the type of the sums, laid out in multiples of 4 */
    variant any;     /* for all storage, and all masks */
} pass;
enum { QUERIES, KEYS, BIAS, PASSES };
typedef struct {
    cla_tile forward; /* whose slices of sums scores have */
    pass passes[PASSES];
    cla_kernel *prepare, *sinks;
    size_t del_at; /* in scratch, bytes */
} tiles_state;

/* The forward pass's first choice; without one there is no backward pass either. */
static bool choose_forward(const cla_problem *p, const clattn_device_info *device, cla_tile *tile) {
    cla_tiling tiling;
    const cla_tiles_problem tiled = cla_tiles_problem_of(p, cla_tiles_by_four(p));
    if (!cla_tiles_choose(device, &tiled, 0, &tiling))
        return false;
    *tile = tiling.tile;
    return true;
}

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    cla_tile forward;
    cla_tiling tiling;
    const cla_tiles_problem tiled = {.dtype = p->dtype};
    if (!cla_needs_opencl(p, device, reason, reason_bytes))
        return false;
    if (choose_forward(p, device, &forward) && cla_tiles_choose_backward(device, &tiled, &forward, 1, 0, &tiling))
        return true;
    snprintf(reason, reason_bytes, "has no tiles for work-groups of %llu and %llu bytes of local memory, as %.100s has",
             (unsigned long long)device->max_work_group, (unsigned long long)device->local_bytes, device->name);
    return false;
}

/* ---- kernels ---- */

static bool on_cpu(const clattn_plan *plan) {
    return cla_context_device(plan->context)->device_class == CLATTN_DEVICE_CPU;
}

/* Of the tensors as they are bound now. */
static bool by_four(const clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *const all[] = {&p->d_o, &p->d_q, &p->d_k, &p->d_v};
    bool yes = !p->score && !on_cpu(plan) && cla_tiles_by_four(p);
    for (int i = 0; i < 4; i++)
        yes = yes && (!cla_present(all[i]) || (all[i]->dtype == p->dtype && cla_tiles_fours(all[i])));
    return yes;
}

static clattn_status make_kernel(const clattn_plan *plan, const pass *x, bool fours, variant *v) {
    const cla_problem *p = &plan->problem;
    const int masks = !fours ? CLA_TILES_INTERVAL | CLA_TILES_SCORE : p->interval ? CLA_TILES_INTERVAL : 0;
    cla_key key = cla_tiles_key(plan, &v->tiling, fours, masks, x->file, x->kernel);
    key.more_helpers[2] = "tiles_backward.clh";
    cla_key_define(&key, "DROPOUT", p->dropout > 0 || on_cpu(plan));
    cla_key_define(&key, "PROBES", 1);
    cla_key_define_text(&key, "CALL", on_cpu(plan) ? "noinline" : "always_inline");
    cla_key_define(&key, "OWN_KEYS", x->own_keys);
    return cla_kernel_create(plan->context, &key, (size_t)v->tiling.work_group, &v->kernel);
}

/* For the profile: operations of the products, and each tensor read or written once. Each chunk of columns computes the
 * weights again. */
static void state_cost(const clattn_plan *plan, const pass *x, const variant *v) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *const inputs[] = {&p->q, &p->k, &p->v, &p->d_o, &p->state, &p->keep, &p->drop, &p->bias};
    const tiles_state *s = plan->state;
    const double D = (double)p->D, Dv = (double)p->Dv;
    double products = (x == &s->passes[BIAS] ? 1 : v->tiling.chunks) * (D + Dv),
           bytes = (double)cla_rows_of_all(p) * (double)clattn_dtype_size(p->dtype);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        bytes += cla_tensor_bytes(p, inputs[i]);
    if (x->own_keys) {
        products += (cla_present(&p->d_k) ? D : 0) + (cla_present(&p->d_v) ? Dv : 0);
        bytes += cla_tensor_bytes(p, &p->d_k) + cla_tensor_bytes(p, &p->d_v);
    } else if (x == &s->passes[QUERIES]) {
        products += D;
        bytes += cla_tensor_bytes(p, &p->d_q);
    } else {
        bytes += cla_tensor_bytes(p, &p->d_bias);
    }
    cla_kernel_cost(v->kernel, 2 * cla_problem_pairs(p) * products, bytes);
}

/* The best tiles whose kernel the device takes: a driver may allow a kernel less than the device has. */
static clattn_status make_variant(const clattn_plan *plan, const pass *x, bool fours, variant *v) {
    const clattn_device_info *device = cla_context_device(plan->context);
    const tiles_state *s = plan->state;
    const cla_tiles_problem tiled = {.dtype = plan->problem.dtype, .lean = !fours};
    clattn_status status = CLATTN_E_LIMIT;
    for (int rank = 0; status == CLATTN_E_LIMIT || status == CLATTN_E_BUILD || status == CLATTN_E_MEMORY; rank++) {
        if (!cla_tiles_choose_backward(device, &tiled, &s->forward, x->columns, rank, &v->tiling))
            break; /* the last message stands */
        status = make_kernel(plan, x, fours, v);
    }
    if (status == CLATTN_OK)
        state_cost(plan, x, v);
    return status;
}

/* The variant for the tensors that are bound; another than that of creation is made only for tensors, bound later, that
 * begin where whole vectors cannot. */
static clattn_status variant_for_bound(const clattn_plan *plan, pass *x, const variant **chosen) {
    const bool fours = by_four(plan) && (x->by_four.kernel || !x->any.kernel);
    variant *v = fours ? &x->by_four : &x->any;
    *chosen = v;
    return v->kernel ? CLATTN_OK : make_variant(plan, x, fours, v);
}

/* A work-group of the kernels of rows; a power of 2. */
static int64_t group_of_rows(const clattn_plan *plan) {
    return cla_group_within(cla_context_device(plan->context), 64);
}

static clattn_status make_rows(const clattn_plan *plan, const char *kernel, cla_kernel **made) {
    const tiles_state *s = plan->state;
    cla_key key = cla_key_make("attention_tiles_rows.cl", kernel);
    cla_key_define(&key, "REAL", plan->problem.dtype == CLATTN_F64 ? 64 : 32);
    cla_key_define(&key, "WG", group_of_rows(plan));
    cla_key_define(&key, "DC", s->forward.dc);
    cla_key_define(&key, "SLICED", s->forward.sliced);
    return cla_kernel_create(plan->context, &key, (size_t)group_of_rows(plan), made);
}

/* ---- plan ---- */

static void set_passes(const cla_problem *p, pass passes[PASSES]) {
    static const char gradients[] = "attention_tiles_backward.cl", bias[] = "attention_tiles_bias.cl";
    passes[QUERIES] =
        (pass){.file = gradients, .kernel = "attention_tiles_queries", .wanted = cla_present(&p->d_q), .columns = p->D};
    passes[KEYS] = (pass){.file = gradients,
                          .kernel = "attention_tiles_keys",
                          .wanted = cla_present(&p->d_k) || cla_present(&p->d_v),
                          .own_keys = true,
                          .columns = cla_max(cla_present(&p->d_k) ? p->D : 0, cla_present(&p->d_v) ? p->Dv : 0)};
    passes[BIAS] =
        (pass){.file = bias, .kernel = "attention_tiles_bias", .wanted = cla_present(&p->d_bias), .columns = 1};
}

static void explain(clattn_plan *plan, const pass *x, const char *what) {
    const variant *v = x->any.kernel ? &x->any : &x->by_four;
    const cla_tiling *t = &v->tiling;
    cla_str_append(&plan->text, "tiles for %s: %d %s x %d %s, work-group %d x %d, local memory at most %lld bytes",
                   what, t->rows, x->own_keys ? "keys" : "queries", t->keys, x->own_keys ? "queries" : "keys",
                   t->tile.tr, t->tile.tc, (long long)t->local_bytes);
    if (x->columns > 1)
        cla_str_append(&plan->text, ", %d %s of %d columns", t->chunks, t->chunks == 1 ? "chunk" : "chunks",
                       t->columns);
    cla_str_append(&plan->text, "\n");
}

static clattn_status create(clattn_plan *plan) {
    static const char *const names[PASSES] = {"d_q", "d_k and d_v", "d_bias"};
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    tiles_state *s = NULL;
    const variant *v;
    CLA_TRY(cla_alloc(1, sizeof *s, "fused_tiles backward", &s));
    plan->state = s;
    choose_forward(p, cla_context_device(plan->context), &s->forward);
    set_passes(p, s->passes);
    CLA_TRY(make_rows(plan, "attention_tiles_prepare", &s->prepare));
    cla_kernel_cost(s->prepare, 2 * (double)(cla_rows_of_all(p) * p->Dv),
                    cla_tensor_bytes(p, &p->o) + cla_tensor_bytes(p, &p->d_o));
    for (int i = 0; i < PASSES; i++)
        if (s->passes[i].wanted) {
            CLA_TRY(variant_for_bound(plan, &s->passes[i], &v));
            explain(plan, &s->passes[i], names[i]);
        }
    if (cla_present(&p->d_sinks))
        CLA_TRY(make_rows(plan, "attention_tiles_sinks", &s->sinks));
    CLA_TRY(cla_plan_scratch(plan, cla_rows_of_all(p) * (int64_t)clattn_dtype_size(p->dtype),
                             "sums of dO O of each query", &s->del_at));
done:
    return status;
}

static clattn_status prepare(const clattn_plan *plan, const cla_lanes_inputs *in) {
    const cla_problem *p = &plan->problem;
    const tiles_state *s = plan->state;
    const cla_arg args[] = {CLA_ARG_BUFFER(p->o.buffer), CLA_ARG_BUFFER(p->d_o.buffer), CLA_ARG_BUFFER(plan->scratch),
                            CLA_ARG_BUFFER(plan->spans), CLA_ARG_VALUE(*in)};
    return cla_launch(plan->context, s->prepare, cla_ceil_div(p->N, group_of_rows(plan)) * p->H * p->B, args,
                      (int)(sizeof args / sizeof *args));
}

/* The chunks of a pass over `rows` rows a head; returns the groups of a head. */
static int64_t set_tiles(const cla_tiling *t, int64_t rows, cla_attention_args *a) {
    a->rows = t->rows;
    a->tiles = (cl_int)cla_ceil_div(rows, t->rows);
    a->columns = t->columns;
    a->chunks = t->chunks;
    return (int64_t)a->tiles * a->chunks;
}

static clattn_status differentiate_queries(const clattn_plan *plan, pass *x, cla_tiles_backward_args a) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const clattn_tensor *t = &p->d_q;
    const variant *v;
    clattn_buffer *counts = NULL;
    CLA_TRY(variant_for_bound(plan, x, &v));
    a.x_b = t->stride[0], a.x_h = t->stride[1], a.x_i = t->stride[2], a.x_0 = t->offset;
    a.x_type = (cl_int)t->dtype;
    a.in.forward.long_first = p->causal;
    CLA_TRY(cla_profile_counts(plan->context, v->kernel, &counts));
    a.in.forward.has_counts = counts != NULL;
    const clattn_buffer *const out[] = {t->buffer, counts};
    const int64_t groups = set_tiles(&v->tiling, p->N, &a.in.forward) * p->H * p->B;
    CLA_TRY(cla_launch_gradients(plan, v->kernel, groups, out, 2, CLA_ARG_VALUE(a)));
done:
    return status;
}

static clattn_status differentiate_keys(const clattn_plan *plan, pass *x, cla_tiles_backward_args a) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const clattn_tensor *dk = &p->d_k, *dv = &p->d_v;
    const variant *v;
    clattn_buffer *counts = NULL;
    CLA_TRY(variant_for_bound(plan, x, &v));
    a.x_b = dk->stride[0], a.x_h = dk->stride[1], a.x_i = dk->stride[2], a.x_0 = dk->offset;
    a.y_b = dv->stride[0], a.y_h = dv->stride[1], a.y_i = dv->stride[2], a.y_0 = dv->offset;
    a.x_type = (cl_int)dk->dtype;
    a.y_type = (cl_int)dv->dtype;
    a.wanted = (cla_present(dk) ? CLA_WANTS_DK : 0) | (cla_present(dv) ? CLA_WANTS_DV : 0);
    CLA_TRY(cla_profile_counts(plan->context, v->kernel, &counts));
    a.in.forward.has_counts = counts != NULL;
    const clattn_buffer *const out[] = {dk->buffer, dv->buffer, counts};
    const int64_t groups = set_tiles(&v->tiling, p->M, &a.in.forward) * p->Hk * p->B;
    CLA_TRY(cla_launch_gradients(plan, v->kernel, groups, out, 3, CLA_ARG_VALUE(a)));
done:
    return status;
}

static clattn_status differentiate_bias(const clattn_plan *plan, pass *x, const cla_lanes_inputs *in) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const variant *v;
    cla_lanes_bias_args a;
    CLA_TRY(variant_for_bound(plan, x, &v));
    cla_fill_bias_args(p, &a);
    a.in = *in;
    const clattn_buffer *const out[] = {p->d_bias.buffer};
    const int64_t groups = cla_count_bias_groups(p, v->tiling.rows, v->tiling.keys);
    CLA_TRY(cla_launch_gradients(plan, v->kernel, groups, out, 1, CLA_ARG_VALUE(a)));
done:
    return status;
}

static clattn_status differentiate_sinks(const clattn_plan *plan, const cla_lanes_inputs *in) {
    const cla_problem *p = &plan->problem;
    const tiles_state *s = plan->state;
    const cla_lanes_result_args to = {
        .sinks_h = p->d_sinks.stride[3], .sinks_0 = p->d_sinks.offset, .sinks_type = (cl_int)p->d_sinks.dtype};
    const cla_arg args[] = {CLA_ARG_BUFFER(p->sinks.buffer),
                            CLA_ARG_BUFFER(p->state.buffer),
                            CLA_ARG_BUFFER(plan->scratch),
                            CLA_ARG_BUFFER(plan->spans),
                            CLA_ARG_BUFFER(p->d_sinks.buffer),
                            CLA_ARG_VALUE(*in),
                            CLA_ARG_VALUE(to)};
    return cla_launch(plan->context, s->sinks, p->H, args, (int)(sizeof args / sizeof *args));
}

static clattn_status execute(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    tiles_state *s = plan->state;
    cla_tiles_backward_args a = {0};
    const double one = 1;
    cla_fill_backward_inputs(plan, s->del_at, &a.in);
    if (!(plan->problem.dropout > 0)) { /* nothing is dropped */
        a.in.forward.kept = 1;
        memcpy(&a.in.forward.kept_bits, &one, sizeof one);
    }
    CLA_TRY(prepare(plan, &a.in));
    if (s->passes[KEYS].wanted)
        CLA_TRY(differentiate_keys(plan, &s->passes[KEYS], a));
    if (s->passes[QUERIES].wanted)
        CLA_TRY(differentiate_queries(plan, &s->passes[QUERIES], a));
    if (s->passes[BIAS].wanted)
        CLA_TRY(differentiate_bias(plan, &s->passes[BIAS], &a.in));
    if (s->sinks)
        CLA_TRY(differentiate_sinks(plan, &a.in));
done:
    return status;
}

static void destroy(clattn_plan *plan) {
    tiles_state *s = plan->state;
    if (!s)
        return;
    for (int i = 0; i < PASSES; i++) {
        cla_kernel_destroy(s->passes[i].by_four.kernel);
        cla_kernel_destroy(s->passes[i].any.kernel);
    }
    cla_kernel_destroy(s->prepare);
    cla_kernel_destroy(s->sinks);
    cla_free(s);
    plan->state = NULL;
}

const cla_algorithm cla_backward_fused_tiles = {.name = "fused_tiles",
                                                .summary =
                                                    "fused, for GPUs: a work-group owns keys, or queries, of a head",
                                                .applies = applies,
                                                .suits = cla_tiles_suits,
                                                .unit_inner = true,
                                                .blocks = true,
                                                .create = create,
                                                .execute = execute,
                                                .destroy = destroy};
