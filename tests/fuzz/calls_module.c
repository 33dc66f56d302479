/* SPDX-License-Identifier: Apache-2.0 */
/* Modules as descriptors: weights, options, tensors, masks. */
#include "calls_module.h"

/* ---- tensors into arrays of the call ---- */

/* A dense tensor of the pool gets an array of its own, laid out as the input says. */
static void adopt(module *m, clattn_tensor *t, const char *name) {
    const clattn_tensor dense = *t;
    if (t->rank == 0) {
        call_none(&m->c, t, name, CALL_IN);
        return;
    }
    const int n = call_add(&m->c, t, name, CALL_OUT, dense.dtype, dense.rank, dense.shape, 0);
    const size_t size = clattn_dtype_size(t->dtype);
    m->c.tensors[n].out = false;
    m->c.tensors[n].in = true;
    for (int64_t i = 0; i < clattn_tensor_elements(t); i++)
        memcpy((char *)t->host + (size_t)op_place(t, i) * size, (char *)dense.host + (size_t)i * size, size);
}

/* A gradient as the weight. */
static void gradient(module *m, clattn_tensor *t, const char *name) {
    const clattn_tensor as = *t;
    *t = (clattn_tensor){0};
    if (as.rank == 0)
        call_none(&m->c, t, name, CALL_OUT);
    else
        call_add(&m->c, t, name, CALL_INOUT, as.dtype, as.rank, as.shape, 0);
}

static int list_heads(const char *part, clattn_multihead_weights *w, module_weight *list) {
    const module_weight all[] = {{&w->in_proj, part, "in_proj_weight", 0}, {&w->q, part, "q_proj_weight", 0},
                                 {&w->k, part, "k_proj_weight", 0},        {&w->v, part, "v_proj_weight", 0},
                                 {&w->in_bias, part, "in_proj_bias", 0},   {&w->q_bias, part, "q_bias", 0},
                                 {&w->k_bias, part, "k_bias", 0},          {&w->v_bias, part, "v_bias", 0},
                                 {&w->out, part, "out_proj.weight", 0},    {&w->out_bias, part, "out_proj.bias", 0},
                                 {&w->bias_k, part, "bias_k", 0},          {&w->bias_v, part, "bias_v", 0}};
    memcpy(list, all, sizeof all);
    return (int)(sizeof all / sizeof *all);
}

static int list_feed(clattn_feedforward_weights *w, module_weight *list) {
    static const char *const part = "";
    const module_weight all[] = {{&w->linear1, part, "linear1.weight", 0},
                                 {&w->linear1_bias, part, "linear1.bias", 0},
                                 {&w->gate, part, "gate", 0},
                                 {&w->gate_bias, part, "gate_bias", 0},
                                 {&w->linear2, part, "linear2.weight", 0},
                                 {&w->linear2_bias, part, "linear2.bias", 0}};
    memcpy(list, all, sizeof all);
    return (int)(sizeof all / sizeof *all);
}

static int list_norm(const char *part, clattn_norm_weights *w, module_weight *list) {
    list[0] = (module_weight){&w->weight, part, "weight", 0};
    list[1] = (module_weight){&w->bias, part, "bias", 0};
    return 2;
}

/* The weights of the descriptor, or its gradients. */
int module_weights(module *m, bool gradients, module_weight *list) {
    int n = 0, first = 0;
    clattn_decoder_layer_weights *layers = gradients ? m->d_layers : m->layers;
    clattn_encoder_layer_weights *encoder_layers = gradients ? m->d_encoder_layers : m->encoder_layers;
    if (m->kind == MULTIHEAD)
        return list_heads("", &layers[0].self_attn, list);
    if (m->kind == FEEDFORWARD)
        return list_feed(&layers[0].feedforward, list);
    for (int64_t i = 0; i < m->count; i++) {
        clattn_decoder_layer_weights *d = &layers[i];
        clattn_encoder_layer_weights *e = &encoder_layers[i];
        const bool is_decoder = m->kind == DECODER;
        n += list_heads("self_attn.", is_decoder ? &d->self_attn : &e->self_attn, list + n);
        n += is_decoder ? list_heads("multihead_attn.", &d->cross_attn, list + n) : 0;
        n += list_feed(is_decoder ? &d->feedforward : &e->feedforward, list + n);
        n += list_norm("norm1.", is_decoder ? &d->norm1 : &e->norm1, list + n);
        n += list_norm("norm2.", is_decoder ? &d->norm2 : &e->norm2, list + n);
        n += is_decoder ? list_norm("norm3.", &d->norm3, list + n) : 0;
        for (; first < n; first++)
            list[first].layer = (int)i;
    }
    clattn_norm_weights *norm = m->kind == DECODER ? gradients ? &m->d_decoder.norm : &m->decoder.norm
                                : gradients        ? &m->d_encoder.norm
                                                   : &m->encoder.norm;
    n += list_norm("norm.", norm, list + n);
    list[n - 2].layer = list[n - 1].layer = -1;
    return n;
}

/* ---- weights ---- */

static void make_weights(module *m) {
    fuzz_input *in = m->c.in;
    plain_stack *s = &m->stack;
    if (m->kind == MULTIHEAD) {
        const int64_t E = s->E;
        const heads_kind kind = {.separate = m->separate = fuzz_flag(in),
                                 .transposed = s->transposed,
                                 .no_bias = s->no_bias,
                                 .bias_kv = fuzz_flag(in),
                                 .zeros = fuzz_flag(in),
                                 .Hk = s->Hk};
        make_heads(&m->p, E, s->H, &kind, &m->plain[0].self, &m->layers[0].self_attn);
        m->heads = (clattn_multihead_options){.heads = s->H, .key_heads = s->Hk, .add_zero_attn = kind.zeros};
        return;
    }
    for (int64_t i = 0; i < m->count; i++) {
        make_layer(&m->p, s, &m->plain[i], &m->layers[i]);
        m->encoder_layers[i] = (clattn_encoder_layer_weights){.self_attn = m->layers[i].self_attn,
                                                              .feedforward = m->layers[i].feedforward,
                                                              .norm1 = m->layers[i].norm1,
                                                              .norm2 = m->layers[i].norm2};
    }
    m->options = options_of(s);
    m->encoder = (clattn_encoder_weights){.layers = m->encoder_layers, .count = m->count, .has_norm = fuzz_flag(in)};
    if (m->encoder.has_norm)
        make_norm(&m->p, s, &m->norm, &m->encoder.norm);
    m->decoder = (clattn_decoder_weights){
        .layers = m->layers, .count = m->count, .has_norm = m->encoder.has_norm, .norm = m->encoder.norm};
}

static void make_gradients(module *m) {
    module_weight list[CALL_TENSORS];
    memcpy(m->d_layers, m->layers, sizeof m->layers);
    memcpy(m->d_encoder_layers, m->encoder_layers, sizeof m->encoder_layers);
    m->d_encoder = m->encoder;
    m->d_encoder.layers = m->d_encoder_layers;
    m->d_decoder = m->decoder;
    m->d_decoder.layers = m->d_layers;
    const int count = module_weights(m, true, list);
    for (int i = 0; i < count; i++)
        gradient(m, list[i].t, list[i].name);
}

/* ---- tensors of the call ---- */

static void mask_options(module *m, clattn_module_masks *masks) {
    call_option(&m->c, CALL_FLAG, &masks->keep);
    call_option(&m->c, CALL_FLAG, &masks->causal);
    call_option(&m->c, CALL_ENUM, &masks->align);
    call_option(&m->c, CALL_ARRAY, &masks->key_lengths);
    call_option(&m->c, CALL_ARRAY, &masks->offsets);
    call_option(&m->c, CALL_RESERVED, masks->reserved);
}

static void make_masks(module *m, clattn_module_masks *masks, int64_t keys, bool self) {
    fuzz_input *in = m->c.in;
    const int64_t N = m->N, B = m->B, H = m->stack.H, attn[] = {B, H, N, keys}, padding[] = {B, keys};
    const unsigned how = fuzz_byte(in);
    const int64_t rank3[] = {B * H, N, keys};
    *masks = (clattn_module_masks){.keep = how & 1, .causal = self && how & 2};
    masks->key_lengths = how & 4 ? m->c.numbers[self ? 0 : 1] : NULL;
    for (int b = 0; b < 4; b++)
        m->c.numbers[self ? 0 : 1][b] = oracle_below(&m->c.random, keys + 1);
    const int rank = 2 + (int)(how >> 3) % 3;
    const clattn_dtype dtype = how & 32 ? m->p.dtype : how & 64 ? CLATTN_BOOL : CLATTN_U8;
    if (how & 128)
        call_add(&m->c, &masks->attn, "attn", CALL_IN, dtype, rank, rank == 3 ? rank3 : attn + 4 - rank,
                 how & 32 ? 0 : 2);
    else
        call_none(&m->c, &masks->attn, "attn", CALL_IN);
    const unsigned more = fuzz_byte(in);
    if (more & 1)
        call_add(&m->c, &masks->key_padding, "key_padding", CALL_IN, more & 2 ? m->p.dtype : CLATTN_BOOL, 2, padding,
                 more & 2 ? 0 : 2);
    else
        call_none(&m->c, &masks->key_padding, "key_padding", CALL_IN);
    mask_options(m, masks);
}

static clattn_tensor dense(module *m, const double *x, int64_t rows) {
    const int64_t shape[] = {m->B, rows, m->stack.E};
    return pool_tensor(&m->p, x, 3, shape);
}

/* x and y, one of them the other where the input says so. */
static void add_xy(module *m, clattn_tensor *x, clattn_tensor *y, bool may_be_same) {
    *x = dense(m, m->x, m->N);
    adopt(m, x, "x");
    const int in = m->c.count - 1;
    const int64_t shape[] = {m->B, m->N, m->stack.E};
    const int out = call_add(&m->c, y, "y", CALL_OUT, m->p.dtype, 3, shape, 0);
    if (may_be_same && fuzz_below(m->c.in, 4) == 1)
        call_alias(&m->c, out, in);
}

static void add_like(module *m, clattn_tensor *t, const char *name, call_use use, int64_t rows) {
    const int64_t shape[] = {m->B, rows, m->stack.E};
    call_add(&m->c, t, name, use, m->p.dtype, 3, shape, 0);
}

static void make_multihead_args(module *m) {
    clattn_multihead_backward_args *b = &m->multihead;
    clattn_multihead_args *a = &b->forward;
    const plain_heads *h = &m->plain[0].self;
    const bool self = fuzz_flag(m->c.in);
    const int64_t keys = self ? m->N : m->M, all = keys + (h->last_k != NULL) + h->zeros;
    const int64_t weights[] = {m->B, m->stack.H, m->N, all}, mean[] = {m->B, m->N, all};
    add_xy(m, &a->query, &a->y, self);
    if (!self) {
        a->key = dense(m, m->memory, m->M);
        adopt(m, &a->key, "key");
    }
    a->weights_mean = fuzz_flag(m->c.in);
    if (fuzz_flag(m->c.in) && !m->backward)
        call_add(&m->c, &a->weights, "weights", CALL_OUT, m->p.dtype, a->weights_mean ? 3 : 4,
                 a->weights_mean ? mean : weights, 0);
    else
        call_none(&m->c, &a->weights, "weights", CALL_OUT);
    call_none(&m->c, &a->value, "value", CALL_IN);
    make_masks(m, &a->masks, keys, self);
    call_option(&m->c, CALL_FLAG, &a->weights_mean);
    call_option(&m->c, CALL_RESERVED, a->reserved);
    call_option(&m->c, CALL_INT, &m->heads.heads);
    call_option(&m->c, CALL_INT, &m->heads.key_heads);
    call_option(&m->c, CALL_FLAG, &m->heads.add_zero_attn);
    call_option(&m->c, CALL_FLAG, &m->heads.batch_second);
    call_option(&m->c, CALL_FLAG, &m->heads.has_scale);
    call_option(&m->c, CALL_REAL, &m->heads.scale);
    call_option(&m->c, CALL_RESERVED, m->heads.reserved);
    call_option(&m->c, CALL_FLAG, &m->layers[0].self_attn.transposed);
    call_option(&m->c, CALL_RESERVED, m->layers[0].self_attn.reserved);
    if (!m->backward)
        return;
    add_like(m, &b->d_y, "d_y", CALL_IN, m->N);
    add_like(m, &b->d_query, "d_query", CALL_OUT, m->N);
    if (!self)
        add_like(m, &b->d_key, "d_key", CALL_OUT, m->M);
    b->gradients = m->gradients ? &m->d_layers[0].self_attn : NULL;
    b->accumulate = fuzz_flag(m->c.in);
    call_option(&m->c, CALL_FLAG, &b->accumulate);
    call_option(&m->c, CALL_RESERVED, b->reserved);
}

static void make_feed_args(module *m) {
    clattn_feedforward_backward_args *b = &m->feed_back;
    add_xy(m, &m->x_feed, &m->y_feed, true);
    m->feed.activation = m->stack.activation;
    call_option(&m->c, CALL_ENUM, &m->feed.activation);
    call_option(&m->c, CALL_RESERVED, m->feed.reserved);
    call_option(&m->c, CALL_FLAG, &m->layers[0].feedforward.transposed);
    call_option(&m->c, CALL_RESERVED, m->layers[0].feedforward.reserved);
    if (!m->backward)
        return;
    add_like(m, &b->d_y, "d_y", CALL_IN, m->N);
    add_like(m, &b->d_x, "d_x", CALL_OUT, m->N);
    b->gradients = m->gradients ? &m->d_layers[0].feedforward : NULL;
    b->accumulate = fuzz_flag(m->c.in);
    call_option(&m->c, CALL_FLAG, &b->accumulate);
    call_option(&m->c, CALL_RESERVED, b->reserved);
}

static void layer_options(module *m) {
    clattn_layer_options *o = &m->options;
    call_option(&m->c, CALL_INT, &o->heads);
    call_option(&m->c, CALL_INT, &o->key_heads);
    call_option(&m->c, CALL_FLAG, &o->norm_first);
    call_option(&m->c, CALL_ENUM, &o->activation);
    call_option(&m->c, CALL_ENUM, &o->norm);
    call_option(&m->c, CALL_REAL, &o->norm_epsilon);
    call_option(&m->c, CALL_FLAG, &o->batch_second);
    call_option(&m->c, CALL_RESERVED, o->reserved);
}

/* What layers give, or of the backward pass gave. */
static const clattn_tensor *make_hidden(module *m) {
    if (!m->backward && !fuzz_flag(m->c.in))
        return NULL;
    for (int64_t i = 0; i < m->count; i++)
        add_like(m, &m->hidden[i], "hidden", m->backward ? CALL_IN : CALL_OUT, m->N);
    return m->hidden;
}

static void make_encoder_args(module *m) {
    clattn_encoder_backward_args *b = &m->encode;
    add_xy(m, &b->forward.x, &b->forward.y, !m->backward);
    make_masks(m, &b->forward.masks, m->N, true);
    b->forward.hidden = make_hidden(m);
    layer_options(m);
    call_option(&m->c, CALL_FLAG, &m->encoder.has_norm);
    call_option(&m->c, CALL_RESERVED, m->encoder.reserved);
    call_option(&m->c, CALL_RESERVED, b->forward.reserved);
    if (!m->backward)
        return;
    add_like(m, &b->d_y, "d_y", CALL_IN, m->N);
    add_like(m, &b->d_x, "d_x", CALL_OUT, m->N);
    b->gradients = m->gradients ? &m->d_encoder : NULL;
    b->accumulate = fuzz_flag(m->c.in);
    call_option(&m->c, CALL_FLAG, &b->accumulate);
}

static void make_decoder_args(module *m) {
    clattn_decoder_backward_args *b = &m->decode;
    add_xy(m, &b->forward.x, &b->forward.y, !m->backward);
    b->forward.memory = dense(m, m->memory, m->M);
    adopt(m, &b->forward.memory, "memory");
    if (m->cached)
        m->cache = (clattn_decoder_cache_options){
            .batch = m->B, .capacity = m->N + fuzz_below(m->c.in, 2), .has_dtype = true, .dtype = m->p.dtype};
    else
        make_masks(m, &b->forward.masks, m->N, true);
    make_masks(m, &b->forward.memory_masks, m->M, false);
    b->forward.hidden = make_hidden(m);
    layer_options(m);
    call_option(&m->c, CALL_INT, &m->cache.batch);
    call_option(&m->c, CALL_INT, &m->cache.capacity);
    call_option(&m->c, CALL_ENUM, &m->cache.dtype);
    call_option(&m->c, CALL_RESERVED, b->forward.reserved);
    if (!m->backward)
        return;
    add_like(m, &b->d_y, "d_y", CALL_IN, m->N);
    add_like(m, &b->d_x, "d_x", CALL_OUT, m->N);
    add_like(m, &b->d_memory, "d_memory", CALL_OUT, m->M);
    b->gradients = m->gradients ? &m->d_decoder : NULL;
    b->accumulate = fuzz_flag(m->c.in);
    call_option(&m->c, CALL_FLAG, &b->accumulate);
}

/* ---- what is right ---- */

static double mask_value(const fuzz_call *c, const clattn_module_masks *masks, const clattn_tensor *t,
                         int64_t element) {
    if (t->rank == 0)
        return 0;
    const double x = call_at(c, t, element);
    return t->dtype <= CLATTN_BF16 ? x : (x != 0) == masks->keep ? 0 : -INFINITY;
}

static double plain_masks(const void *data, int64_t b, int64_t h, int64_t i, int64_t j) {
    const module_mask *m = data;
    const clattn_module_masks *masks = m->masks;
    if ((masks->causal && j > i) || (masks->key_lengths && j >= masks->key_lengths[b]))
        return -INFINITY;
    const int64_t row = masks->attn.rank == 2 ? i : (b * m->H + h) * m->N + i;
    return mask_value(m->c, masks, &masks->attn, row * m->M + j) +
           mask_value(m->c, masks, &masks->key_padding, b * m->M + j);
}

/* After the arrays are placed, so that masks are read as they lie. */
static void find_want(module *m) {
    const clattn_module_masks causal = {.causal = true};
    const clattn_module_masks *self_masks = m->kind == MULTIHEAD ? &m->multihead.forward.masks
                                            : m->kind == ENCODER ? &m->encode.forward.masks
                                            : m->cached          ? &causal
                                                                 : &m->decode.forward.masks;
    const bool self = m->kind != MULTIHEAD || m->multihead.forward.key.rank == 0;
    const int64_t keys = self ? m->N : m->M;
    const module_mask own = {self_masks, &m->c, m->stack.H, m->N, keys};
    const module_mask of_memory = {&m->decode.forward.memory_masks, &m->c, m->stack.H, m->N, m->M};
    const plain_call call_self = {.B = m->B, .N = m->N, .M = keys, .mask = plain_masks, .mask_data = &own};
    const plain_call call_cross = {
        .B = m->B, .N = m->N, .M = m->M, .key = m->memory, .mask = plain_masks, .mask_data = &of_memory};
    const int64_t rows = m->B * m->N;
    m->want = pool_block(&m->p, (size_t)(rows * m->stack.E) * sizeof *m->want);
    if (m->kind == MULTIHEAD) {
        plain_call c = call_self;
        c.query = m->x;
        c.key = c.value = self ? m->x : m->memory;
        m->want_weights = pool_block(&m->p, (size_t)(rows * m->stack.H * (keys + 2)) * sizeof *m->want_weights);
        plain_attend(&m->p, &m->plain[0].self, &c, m->want, m->want_weights);
        return;
    }
    if (m->kind == FEEDFORWARD) {
        plain_feed(&m->p, &m->stack, &m->plain[0], m->x, m->want, rows);
        return;
    }
    memcpy(m->want, m->x, (size_t)(rows * m->stack.E) * sizeof *m->want);
    for (int64_t i = 0; i < m->count; i++)
        plain_layer_run(&m->p, &m->stack, &m->plain[i], &call_self, &call_cross, m->want);
    if (m->encoder.has_norm)
        plain_normalise(&m->stack, &m->norm, m->want, NULL, m->want, rows);
}

void module_expect(module *m) {
    const clattn_tensor *y = module_y(m), *weights = &m->multihead.forward.weights;
    const int64_t count = m->B * m->N * m->stack.E;
    find_want(m);
    const double most = 8 * module_allowed(m->p.dtype, m->want, count);
    for (int64_t i = 0; i < count; i++)
        call_expect(&m->c, y, i, m->want[i], most);
    for (int64_t i = 0; m->kind == MULTIHEAD && weights->rank == 4 && i < clattn_tensor_elements(weights); i++)
        call_expect(&m->c, weights, i, m->want_weights[i], 16 * oracle_floor(m->p.dtype, 1));
}

/* ---- all of it ---- */

/* A backward pass reads no result, and not all that the forward pass read. */
static bool ignores(const fuzz_call *c, const clattn_tensor *t) {
    static const char *const names[] = {"y",         "hidden",       "bias", "linear1.bias", "linear2.bias",
                                        "gate_bias", "out_proj.bias"};
    for (int i = 0; i < c->count; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names && c->tensors[i].t == t; k++)
            if (strcmp(c->tensors[i].name, names[k]) == 0)
                return true;
    return false;
}

void module_make(module *m, fuzz_input *in, clattn_context *context) {
    static const char *const names[] = {"multihead", "feedforward", "encoder", "decoder"};
    module_weight list[CALL_TENSORS];
    memset(m, 0, sizeof *m);
    call_begin(&m->c, in, context);
    m->c.parts = true;
    m->kind = (module_kind)fuzz_below(in, MODULE_KINDS);
    m->c.name = names[m->kind];
    m->p = (pool){.context = context, .dtype = fuzz_flag(in) ? CLATTN_F64 : CLATTN_F32, .random = {m->c.random.state}};
    const unsigned how = fuzz_byte(in);
    m->backward = how & 1;
    m->c.ignores = m->backward ? ignores : NULL;
    m->cached = m->kind == DECODER && !m->backward && how & 2;
    const int64_t H = how & 4 ? 2 : 1;
    m->stack = (plain_stack){.E = H * (1 + fuzz_below(in, 4)),
                             .H = H,
                             .F = 1 + fuzz_below(in, 5),
                             .decoder = m->kind == DECODER,
                             .norm_first = how & 8,
                             .no_bias = how & 16,
                             .gated = how & 32,
                             .rms = how & 64,
                             .transposed = how & 128,
                             .Hk = H == 2 && fuzz_flag(in) ? 1 : 0,
                             .activation = (clattn_activation)(1 + fuzz_below(in, 4)),
                             .epsilon = fuzz_flag(in) ? 0.5 : 0.05};
    m->count = m->kind >= ENCODER && !(m->backward && m->kind == DECODER) ? 1 + fuzz_below(in, 2) : 1;
    m->B = 1 + fuzz_below(in, 3), m->N = 1 + fuzz_below(in, 4), m->M = 1 + fuzz_below(in, 4);
    m->x = pool_random(&m->p, m->B * m->N * m->stack.E, 1);
    m->memory = pool_random(&m->p, m->B * m->M * m->stack.E, 1);
    make_weights(m);
    m->gradients = m->backward && fuzz_byte(in) % 4 != 3;
    if (m->gradients)
        make_gradients(m);
    const int count = module_weights(m, false, list);
    for (int i = 0; i < count; i++)
        adopt(m, list[i].t, list[i].name);
    static void (*const make_args[])(module * m) = {make_multihead_args, make_feed_args, make_encoder_args,
                                                    make_decoder_args};
    make_args[m->kind](m);
}

clattn_tensor *module_y(module *m) {
    return m->kind == MULTIHEAD     ? &m->multihead.forward.y
           : m->kind == FEEDFORWARD ? &m->y_feed
           : m->kind == ENCODER     ? &m->encode.forward.y
                                    : &m->decode.forward.y;
}

void module_end(module *m) {
    call_end(&m->c);
    pool_free(&m->p);
}
