/* SPDX-License-Identifier: Apache-2.0 */
/* Modules created and called, of weights at hand or from a file. */
#include "calls_module.h"

#include <clattn/io.h>

/* ---- calls ---- */

static clattn_status call_multihead(module *m, clattn_multihead *h) {
    FUZZ_CHECK(clattn_multihead_parameter_count(h) >= 0, "fewer than no parameters");
    const clattn_status status =
        m->backward ? clattn_multihead_backward(h, &m->multihead) : clattn_multihead_run(h, &m->multihead.forward);
    clattn_multihead_destroy(h);
    return status;
}

static clattn_status call_feedforward(module *m, clattn_feedforward *f) {
    FUZZ_CHECK(clattn_feedforward_parameter_count(f) >= 0, "fewer than no parameters");
    m->feed_back.x = m->x_feed;
    const clattn_status status =
        m->backward ? clattn_feedforward_backward(f, &m->feed_back) : clattn_feedforward_run(f, &m->x_feed, &m->y_feed);
    clattn_feedforward_destroy(f);
    return status;
}

static clattn_status call_encoder(module *m, clattn_encoder *e) {
    FUZZ_CHECK(clattn_encoder_parameter_count(e) >= 0, "fewer than no parameters");
    const clattn_status status =
        m->backward ? clattn_encoder_backward(e, &m->encode) : clattn_encoder_run(e, &m->encode.forward);
    clattn_encoder_destroy(e);
    return status;
}

/* With a cache: twice, the second time after all is forgotten. */
static clattn_status call_decoder(module *m, clattn_decoder *d) {
    clattn_decoder_cache *cache = NULL;
    clattn_status status = m->cached ? clattn_decoder_cache_create(d, &m->cache, &cache) : CLATTN_OK;
    m->decode.forward.cache = cache;
    const clattn_tensor *const x = &m->decode.forward.x, *const y = &m->decode.forward.y;
    const bool in_place = x->host == y->host && x->buffer == y->buffer;
    if (status == CLATTN_OK)
        status = m->backward ? clattn_decoder_backward(d, &m->decode) : clattn_decoder_run(d, &m->decode.forward);
    if (status == CLATTN_OK && cache && !in_place) {
        FUZZ_CHECK(clattn_decoder_cache_length(cache) <= m->cache.capacity, "more than fit");
        FUZZ_CHECK(clattn_decoder_cache_truncate(cache, m->cache.capacity + 1) != CLATTN_OK, "more than there are");
        SUCCEEDS(clattn_decoder_cache_truncate(cache, 0));
        SUCCEEDS(clattn_decoder_run(d, &m->decode.forward));
    }
    m->decode.forward.cache = NULL;
    clattn_decoder_cache_destroy(cache);
    clattn_decoder_destroy(d);
    return status;
}

clattn_status module_run(module *m) {
    clattn_context *const context = m->c.context;
    clattn_multihead *h = NULL;
    clattn_feedforward *f = NULL;
    clattn_encoder *e = NULL;
    clattn_decoder *d = NULL;
    clattn_status status = CLATTN_OK;
    switch (m->kind) {
    case MULTIHEAD:
        status = clattn_multihead_create(context, &m->layers[0].self_attn, &m->heads, &h);
        FUZZ_CHECK((status == CLATTN_OK) == (h != NULL), "a module that failed");
        return h ? call_multihead(m, h) : status;
    case FEEDFORWARD:
        status = clattn_feedforward_create(context, &m->layers[0].feedforward, &m->feed, &f);
        FUZZ_CHECK((status == CLATTN_OK) == (f != NULL), "a module that failed");
        return f ? call_feedforward(m, f) : status;
    case ENCODER:
        status = clattn_encoder_create(context, &m->encoder, &m->options, &e);
        FUZZ_CHECK((status == CLATTN_OK) == (e != NULL), "a module that failed");
        return e ? call_encoder(m, e) : status;
    default:
        status = clattn_decoder_create(context, &m->decoder, &m->options, &d);
        FUZZ_CHECK((status == CLATTN_OK) == (d != NULL), "a module that failed");
        return d ? call_decoder(m, d) : status;
    }
}

/* ---- files ---- */

enum { NAME = 80 };

typedef struct file {
    clattn_named_array list[CALL_TENSORS];
    char names[CALL_TENSORS][NAME];
    size_t count;
} file;

static void put(file *f, const char *name, clattn_dtype dtype, int rank, const int64_t *shape) {
    clattn_named_array *n = &f->list[f->count];
    snprintf(f->names[f->count], NAME, "%s", name);
    n->name = f->names[f->count++];
    SUCCEEDS(clattn_array_create(dtype, rank, shape, &n->array));
}

static void write_weights(module *m, file *f) {
    module_weight list[CALL_TENSORS];
    const int count = module_weights(m, false, list);
    for (int i = 0; i < count; i++) {
        const clattn_tensor *t = list[i].t;
        char name[NAME];
        if (t->rank == 0)
            continue;
        if (m->kind < ENCODER || list[i].layer < 0)
            snprintf(name, sizeof name, "%s%s", list[i].part, list[i].name);
        else
            snprintf(name, sizeof name, "layers.%d.%s%s", list[i].layer, list[i].part, list[i].name);
        put(f, name, t->dtype, t->rank, t->shape);
        for (int64_t e = 0; e < clattn_tensor_elements(t); e++) {
            const double x = call_at(&m->c, t, e);
            SUCCEEDS(clattn_convert((char *)f->list[f->count - 1].array.data + (size_t)e * clattn_dtype_size(t->dtype),
                                    t->dtype, &x, CLATTN_F64, 1));
        }
    }
}

/* A tensor that is missing, has another name, shape or type, or is one too many. */
static void spoil(module *m, file *f) {
    fuzz_input *in = m->c.in;
    const size_t which = (size_t)fuzz_below(in, (int64_t)f->count);
    clattn_named_array *n = &f->list[which];
    int64_t shape[CLATTN_MAX_RANK] = {1, 1, 1, 1};
    int rank = n->array.rank;
    clattn_dtype dtype = n->array.dtype;
    memcpy(shape, n->array.shape, sizeof shape);
    switch (fuzz_below(in, 6)) {
    case 0:
        snprintf(f->names[which], NAME, "missing");
        return;
    case 1:
        snprintf(f->names[which], NAME, "layers.%lld.norm1.weight", (long long)fuzz_below(in, 9));
        return;
    case 2:
        dtype = (clattn_dtype)fuzz_below(in, CLATTN_BOOL + 1);
        break;
    case 3:
        rank = (int)fuzz_below(in, 4);
        break;
    case 4:
        f->names[which][fuzz_below(in, (int64_t)strlen(f->names[which]))] = (char)('0' + fuzz_below(in, 10));
        return;
    default:
        shape[fuzz_below(in, 2)] = fuzz_below(in, 9);
    }
    clattn_array_free(&n->array);
    SUCCEEDS(clattn_array_create(dtype, rank, shape, &n->array));
}

static clattn_status load(module *m, const clattn_parameters *p) {
    clattn_context *const context = m->c.context;
    clattn_multihead *h = NULL;
    clattn_feedforward *f = NULL;
    clattn_encoder *e = NULL;
    clattn_decoder *d = NULL;
    clattn_status status = CLATTN_OK;
    switch (m->kind) {
    case MULTIHEAD:
        status = clattn_multihead_load(context, p, "", &m->heads, &h);
        return h ? call_multihead(m, h) : status;
    case FEEDFORWARD:
        status = clattn_feedforward_load(context, p, "", &m->feed, &f);
        return f ? call_feedforward(m, f) : status;
    case ENCODER:
        status = clattn_encoder_load(context, p, "", &m->options, &e);
        return e ? call_encoder(m, e) : status;
    default:
        status = clattn_decoder_load(context, p, "", &m->options, &d);
        return d ? call_decoder(m, d) : status;
    }
}

clattn_status module_load(module *m, unsigned changes) {
    static file f;
    const char *path = fuzz_path("module.safetensors");
    clattn_parameters *p = NULL;
    f.count = 0;
    write_weights(m, &f);
    for (unsigned i = 0; i < changes; i++)
        spoil(m, &f);
    clattn_status status = clattn_safetensors_write(path, f.list, f.count, NULL, 0); /* not so where a name is twice */
    for (size_t i = 0; i < f.count; i++)
        clattn_array_free(&f.list[i].array);
    if (status != CLATTN_OK)
        return status;
    const clattn_parameters_options options = {.convert = changes > 0 && fuzz_flag(m->c.in),
                                               .dtype = (clattn_dtype)fuzz_below(m->c.in, 11),
                                               .vectors = fuzz_flag(m->c.in)};
    SUCCEEDS(clattn_parameters_create(m->c.context, &p));
    status = clattn_parameters_load(p, path, &options);
    if (status == CLATTN_OK)
        status = load(m, p);
    clattn_parameters_destroy(p);
    return status;
}
