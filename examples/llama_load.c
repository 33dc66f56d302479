/* SPDX-License-Identifier: Apache-2.0 */
/* From the file to the device: every tensor is expected by name and shape, and none may be left over. */
#include "complain.h"
#include "llama.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 512 }; /* longer prompts go through in pieces, which bounds the memory for what is between the layers */

/* ---- shape ---- */

static bool has(const clattn_gguf *file, const char *key) { return clattn_gguf_metadata_find(file, key, NULL); }

static bool positive(const clattn_gguf *file, const char *key, int64_t *out) {
    if (!done(clattn_gguf_integer(file, key, out)))
        return false;
    return (*out > 0 && *out <= INT32_MAX) || complain("%s is %lld", key, (long long)*out);
}

bool llama_read_shape(const clattn_gguf *file, llama_shape *s) {
    const char *text = NULL;
    clattn_gguf_entry table;
    size_t index;
    *s = (llama_shape){.base = 10000};
    if (!done(clattn_gguf_text(file, "general.architecture", &text)))
        return false;
    if (strcmp(text, "llama") != 0)
        return complain("the model is a \"%.60s\"; this program runs \"llama\"", text);
    if (!positive(file, "llama.block_count", &s->layers) || !positive(file, "llama.embedding_length", &s->E) ||
        !positive(file, "llama.attention.head_count", &s->H) || !positive(file, "llama.feed_forward_length", &s->F) ||
        !positive(file, "llama.context_length", &s->context) ||
        !done(clattn_gguf_number(file, "llama.attention.layer_norm_rms_epsilon", &s->epsilon)))
        return false;
    s->Hk = s->H;
    if (has(file, "llama.attention.head_count_kv") && !positive(file, "llama.attention.head_count_kv", &s->Hk))
        return false;
    if (s->H % s->Hk != 0)
        return complain("%lld heads are no multiple of %lld key heads", (long long)s->H, (long long)s->Hk);
    s->D = s->E / s->H;
    if (has(file, "llama.attention.key_length") && !positive(file, "llama.attention.key_length", &s->D))
        return false;
    s->rotated = s->D;
    if (has(file, "llama.rope.dimension_count") && !positive(file, "llama.rope.dimension_count", &s->rotated))
        return false;
    if (s->D < 1 || s->rotated % 2 != 0 || s->rotated > s->D)
        return complain("%lld dims of heads of %lld cannot be rotated", (long long)s->rotated, (long long)s->D);
    if (has(file, "llama.rope.freq_base") && !done(clattn_gguf_number(file, "llama.rope.freq_base", &s->base)))
        return false;
    if (!(s->base > 0 && isfinite(s->base) && s->epsilon > 0 && isfinite(s->epsilon)))
        return complain("the rotary base is %g and the norm's epsilon %g", s->base, s->epsilon);
    if (!clattn_gguf_find(file, "token_embd.weight", &index) || !clattn_gguf_entry_at(file, index, &table) ||
        table.rank != 2 || table.shape[0] < 1 || table.shape[0] > INT32_MAX)
        return complain("the file has no table of embeddings, \"token_embd.weight\"");
    s->vocabulary = table.shape[0];
    if (has(file, "llama.rope.scaling.type"))
        return done(clattn_gguf_text(file, "llama.rope.scaling.type", &text)) &&
               (strcmp(text, "none") == 0 || complain("positions scaled by \"%.60s\" are not known here", text));
    return true;
}

/* ---- memory ---- */

static clattn_buffer *take(llama *m, size_t bytes) {
    clattn_buffer **buffers = realloc(m->buffers, (m->buffer_count + 1) * sizeof *buffers);
    if (!buffers) {
        complain("out of memory");
        return NULL;
    }
    m->buffers = buffers;
    buffers[m->buffer_count] = NULL;
    if (!done(clattn_buffer_create(m->context, bytes, &buffers[m->buffer_count])))
        return NULL;
    return buffers[m->buffer_count++];
}

static clattn_buffer *take_floats(llama *m, int64_t rows, int64_t columns) {
    return take(m, (size_t)rows * (size_t)columns * sizeof(float));
}

/* ---- tensors ---- */

typedef struct {
    llama *m;
    clattn_gguf *file;
    llama_storage storage;
    bool *used; /* tensors of the file */
} loader;

/* A tensor of the file, [rows, columns], or [columns] where rows is 0, in the type that it shall have. */
static bool read_tensor(const loader *l, const char *name, int64_t rows, int64_t columns, clattn_array *out) {
    clattn_array array = {0};
    size_t index;
    if (!done(clattn_gguf_read(l->file, name, &array)))
        return false;
    if (clattn_gguf_find(l->file, name, &index))
        l->used[index] = true;
    const bool right = rows == 0 ? array.rank == 1 && array.shape[0] == columns
                                 : array.rank == 2 && array.shape[0] == rows && array.shape[1] == columns;
    const bool known = array.dtype != CLATTN_I32 && array.dtype != CLATTN_I64;
    if (!right || !known) {
        clattn_array_free(&array);
        return complain("tensor \"%s\" should be [%lld, %lld] of floats or blocks", name, (long long)rows,
                        (long long)columns);
    }
    const bool narrow = l->storage == LLAMA_STORED && rows > 0 && array.dtype != CLATTN_F64;
    const clattn_dtype dtype = narrow ? array.dtype : l->storage == LLAMA_F16 && rows > 0 ? CLATTN_F16 : CLATTN_F32;
    if (dtype == array.dtype) {
        *out = array;
        return true;
    }
    const bool good = done(clattn_array_convert(&array, dtype, out));
    clattn_array_free(&array);
    return good;
}

static bool load_vector(const loader *l, const char *name, int64_t columns, clattn_tensor *out) {
    clattn_array array = {0};
    clattn_buffer *buffer = NULL;
    const bool good = read_tensor(l, name, 0, columns, &array) && (buffer = take(l->m, array.bytes)) &&
                      done(clattn_buffer_upload(buffer, 0, array.data, array.bytes));
    if (good)
        *out = clattn_tensor_buffer(buffer, array.dtype, 1, &columns);
    l->m->weight_bytes += array.bytes;
    clattn_array_free(&array);
    return good;
}

/* Arrays that are read become one tensor after another of the buffers that they take. */
static bool place_matrix(llama *m, const clattn_array *arrays, int count, llama_matrix *out) {
    bool one = true;
    size_t bytes = 0;
    int64_t rows = 0;
    for (int i = 0; i < count; i++) {
        one = one && arrays[i].dtype == arrays[0].dtype;
        bytes += arrays[i].bytes;
    }
    m->weight_bytes += bytes;
    clattn_buffer *buffer = NULL;
    size_t from = 0;
    for (int i = 0; i < count; i++) {
        if (!one || i == 0)
            buffer = take(m, one ? bytes : arrays[i].bytes);
        from = one ? from : 0;
        if (!buffer || !done(clattn_buffer_upload(buffer, from, arrays[i].data, arrays[i].bytes)))
            return false;
        from += arrays[i].bytes;
        if (!one) {
            out->part[i] = clattn_tensor_buffer(buffer, arrays[i].dtype, 2, arrays[i].shape);
            out->at[i] = rows;
        }
        rows += arrays[i].shape[0];
    }
    out->parts = one ? 1 : count;
    if (one)
        out->part[0] = clattn_tensor_buffer(buffer, arrays[0].dtype, 2, (const int64_t[]){rows, arrays[0].shape[1]});
    return true;
}

/* The rows of up to three tensors of a layer, one below the other. */
static bool load_matrix(const loader *l, int64_t layer, const char *const *names, const int64_t *rows, int count,
                        int64_t columns, llama_matrix *out) {
    clattn_array arrays[3] = {{0}, {0}, {0}};
    char name[64];
    bool good = true;
    for (int i = 0; i < count && good; i++) {
        snprintf(name, sizeof name, "blk.%lld.%s.weight", (long long)layer, names[i]);
        good = read_tensor(l, name, rows[i], columns, &arrays[i]);
    }
    good = good && place_matrix(l->m, arrays, count, out);
    for (int i = 0; i < count; i++)
        clattn_array_free(&arrays[i]);
    return good;
}

static bool load_layer(const loader *l, int64_t i) {
    const llama_shape *s = &l->m->shape;
    llama_layer *layer = &l->m->layers[i];
    const int64_t q = s->H * s->D, k = s->Hk * s->D;
    char names[2][64];
    snprintf(names[0], sizeof names[0], "blk.%lld.attn_norm.weight", (long long)i);
    snprintf(names[1], sizeof names[1], "blk.%lld.ffn_norm.weight", (long long)i);
    return load_vector(l, names[0], s->E, &layer->attention_norm) && load_vector(l, names[1], s->E, &layer->ffn_norm) &&
           load_matrix(l, i, (const char *const[]){"attn_q", "attn_k", "attn_v"}, (const int64_t[]){q, k, k}, 3, s->E,
                       &layer->qkv) &&
           load_matrix(l, i, (const char *const[]){"attn_output"}, &s->E, 1, q, &layer->out) &&
           load_matrix(l, i, (const char *const[]){"ffn_gate", "ffn_up"}, (const int64_t[]){s->F, s->F}, 2, s->E,
                       &layer->gate_up) &&
           load_matrix(l, i, (const char *const[]){"ffn_down"}, &s->E, 1, s->F, &layer->down);
}

/* The table of embeddings is the last matrix too, unless the file has another. */
static bool load_ends(const loader *l) {
    llama *m = l->m;
    const llama_shape *s = &m->shape;
    const bool tied = !clattn_gguf_find(l->file, "output.weight", NULL);
    clattn_array array = {0};
    llama_matrix table = {0};
    bool good = read_tensor(l, "token_embd.weight", s->vocabulary, s->E, &array) && place_matrix(m, &array, 1, &table);
    clattn_array_free(&array);
    if (good) {
        m->embedding = table.part[0];
        m->head = table;
    }
    if (good && !tied) {
        good = read_tensor(l, "output.weight", s->vocabulary, s->E, &array) && place_matrix(m, &array, 1, &m->head);
        clattn_array_free(&array);
    }
    return good && load_vector(l, "output_norm.weight", s->E, &m->norm);
}

static bool none_left(const loader *l) {
    clattn_gguf_entry entry;
    for (size_t i = 0; clattn_gguf_entry_at(l->file, i, &entry); i++)
        if (!l->used[i])
            return complain("tensor \"%.60s\" is not known here", entry.name);
    return true;
}

/* ---- what is computed with ---- */

static bool make_angles(llama *m) {
    const int64_t pairs = m->shape.rotated / 2, shape[] = {m->slots, pairs}, count = m->slots * pairs;
    clattn_tensor *const tensors[] = {&m->cos, &m->sin};
    float *table = malloc((size_t)count * sizeof *table);
    if (!table)
        return complain("out of memory for %lld angles", (long long)count);
    bool good = true;
    for (int k = 0; k < 2 && good; k++) {
        for (int64_t i = 0; i < count; i++) {
            const int64_t position = i / pairs, pair = i % pairs;
            const double angle = (double)position * pow(m->shape.base, -(double)pair / (double)pairs);
            table[i] = (float)(k == 0 ? cos(angle) : sin(angle));
        }
        clattn_buffer *buffer = take_floats(m, m->slots, pairs);
        good = buffer && done(clattn_buffer_upload(buffer, 0, table, (size_t)count * sizeof *table));
        *tensors[k] = clattn_tensor_buffer(buffer, CLATTN_F32, 2, shape);
    }
    free(table);
    return good;
}

static bool make_room(llama *m, bool cached) {
    const llama_shape *s = &m->shape;
    const int64_t shape[] = {2 * s->Hk, m->slots, s->D};
    bool split = false; /* gate and up are of two types in some layer */
    m->rows = cached && m->slots > ROWS ? ROWS : m->slots;
    for (int64_t i = 0; i < s->layers; i++)
        split = split || m->layers[i].gate_up.parts > 1;
    for (int64_t i = 0; i < s->layers && cached; i++) {
        clattn_buffer *buffer = take_floats(m, shape[0] * shape[1], shape[2]);
        if (!buffer)
            return false;
        m->layers[i].cache = clattn_tensor_buffer(buffer, CLATTN_F32, 3, shape);
        m->cache_bytes += clattn_buffer_bytes(buffer);
    }
    return (m->stream = take_floats(m, m->rows, s->E)) && (m->normed = take_floats(m, m->rows, s->E)) &&
           (m->qkv = take_floats(m, m->rows, (s->H + 2 * s->Hk) * s->D)) &&
           (m->heads = take_floats(m, m->rows, s->H * s->D)) &&
           (!split || (m->inner = take_floats(m, m->rows, 2 * s->F))) && (m->gated = take_floats(m, m->rows, s->F)) &&
           (m->logits = take_floats(m, 1, s->vocabulary)) && make_angles(m);
}

bool llama_load(llama *m, clattn_context *context, clattn_gguf *file, const llama_shape *shape, llama_storage storage,
                int64_t slots, bool cached) {
    *m = (llama){.context = context, .shape = *shape, .slots = slots};
    const size_t count = clattn_gguf_count(file);
    if ((size_t)shape->layers > count)
        return complain("%lld layers in a file of %zu tensors", (long long)shape->layers, count);
    loader l = {.m = m, .file = file, .storage = storage, .used = calloc(count, sizeof *l.used)};
    m->layers = calloc((size_t)shape->layers, sizeof *m->layers);
    if (!l.used || !m->layers) {
        free(l.used);
        return complain("out of memory for %lld layers", (long long)shape->layers);
    }
    bool good = load_ends(&l);
    for (int64_t i = 0; i < shape->layers && good; i++)
        good = load_layer(&l, i);
    good = good && none_left(&l) && make_room(m, cached);
    free(l.used);
    return good;
}

void llama_free(llama *m) {
    for (size_t i = 0; i < m->buffer_count; i++)
        clattn_buffer_destroy(m->buffers[i]);
    free(m->buffers);
    free(m->layers);
    *m = (llama){0};
}
