/* SPDX-License-Identifier: Apache-2.0 */
/* Each layer: x = norm(x + attention(x)), x = norm(x + W2 gelu(W1 x)). Texts of a batch are padded to the same length;
 * key lengths keep the padding out of attention, and the mean leaves it out. Source: Devlin et al. 2018; Reimers and
 * Gurevych 2019. */
#include "bert.h"

#include "complain.h"
#include "files.h"
#include "weights.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 96, STAGES = MAX_LAYERS + 8 };

typedef struct config {
    int64_t E, heads, layers, inner, vocabulary, positions, types, max_tokens;
    double epsilon;
} config;

typedef struct layer {
    clattn_tensor qkv_w, qkv_b, out_w, out_b, norm1_w, norm1_b, up_w, up_b, down_w, down_b, norm2_w, norm2_b;
} layer;

/* States of one text on the host, to be written. */
typedef struct stages {
    clattn_named_array arrays[STAGES];
    char names[STAGES][16];
    size_t count;
} stages;

struct bert {
    clattn_context *context;
    config c;
    clattn_dtype dtype;
    weights *w;
    clattn_tensor words, positions, norm_w, norm_b;
    layer layers[MAX_LAYERS];
    /* States of the batch at hand; they grow with it. Tokens: x, y, o [E], qkv [3 E], inner. Texts: mean [E]. */
    clattn_buffer *x, *y, *o, *qkv, *inner, *mean;
    stages *record; /* NULL: none */
};

/* ---- the folder ---- */

static cJSON *read_json(const char *folder, const char *name, bool must) {
    char path[4096];
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *there = must ? NULL : fopen(path, "rb");
    if (!must && !there)
        return NULL;
    if (there)
        fclose(there);
    char *text = read_path(path, &bytes);
    cJSON *json = text ? cJSON_ParseWithLength(text, bytes) : NULL;
    if (text && !cJSON_IsObject(json)) {
        complain("%s is not a JSON object", path);
        cJSON_Delete(json);
        json = NULL;
    }
    free(text);
    return json;
}

/* A whole number from 1 to limit. */
static bool take_size(const cJSON *json, const char *name, int64_t limit, int64_t *value) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);
    const double number = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (!(number >= 1 && number <= (double)limit && number == (double)(int64_t)number))
        return complain("config.json: %s has to be a whole number from 1 to %lld", name, (long long)limit);
    *value = (int64_t)number;
    return true;
}

static bool is_text(const cJSON *json, const char *name, const char *text) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);
    return !item || (cJSON_IsString(item) && strcmp(item->valuestring, text) == 0) ||
           complain("config.json: %s has to be \"%s\"", name, text);
}

static bool take_config(const cJSON *json, config *c) {
    const int64_t limit = 1 << 20;
    const cJSON *epsilon = cJSON_GetObjectItemCaseSensitive(json, "layer_norm_eps");
    c->epsilon = cJSON_IsNumber(epsilon) ? epsilon->valuedouble : 1e-12;
    return is_text(json, "model_type", "bert") && is_text(json, "hidden_act", "gelu") &&
           is_text(json, "position_embedding_type", "absolute") && take_size(json, "hidden_size", limit, &c->E) &&
           take_size(json, "num_attention_heads", limit, &c->heads) &&
           take_size(json, "num_hidden_layers", MAX_LAYERS, &c->layers) &&
           take_size(json, "intermediate_size", limit, &c->inner) &&
           take_size(json, "vocab_size", 1 << 24, &c->vocabulary) &&
           take_size(json, "max_position_embeddings", limit, &c->positions) &&
           take_size(json, "type_vocab_size", limit, &c->types) &&
           (c->E % c->heads == 0 || complain("config.json: hidden_size %lld is no multiple of num_attention_heads %lld",
                                             (long long)c->E, (long long)c->heads));
}

static bool read_config(const char *folder, config *c) {
    cJSON *json = read_json(folder, "config.json", true);
    const bool ok = json && take_config(json, c);
    cJSON_Delete(json);
    if (!ok)
        return false;
    /* What sentence-transformers cuts texts to. */
    json = read_json(folder, "sentence_bert_config.json", false);
    const cJSON *longest = cJSON_GetObjectItemCaseSensitive(json, "max_seq_length");
    const double wanted = cJSON_IsNumber(longest) && longest->valuedouble >= 2 ? longest->valuedouble : 256;
    c->max_tokens = wanted < (double)c->positions ? (int64_t)wanted : c->positions;
    cJSON_Delete(json);
    return true;
}

bool bert_token_limit(const char *folder, int64_t *tokens) {
    config c;
    const bool ok = read_config(folder, &c);
    *tokens = ok ? c.max_tokens : 0;
    return ok;
}

/* ---- weights ---- */

/* Word embeddings, and the sum of what does not depend on the word: positions, and the type 0 of every token. */
static bool load_embeddings(bert *b) {
    const config *c = &b->c;
    clattn_array positions = {0}, types = {0};
    bool ok =
        weights_take(b->w, "embeddings.", "word_embeddings.weight", 2, (int64_t[]){c->vocabulary, c->E}, &b->words) &&
        weights_take(b->w, "embeddings.", "LayerNorm.weight", 1, &c->E, &b->norm_w) &&
        weights_take(b->w, "embeddings.", "LayerNorm.bias", 1, &c->E, &b->norm_b) &&
        weights_read(b->w, "embeddings.position_embeddings.weight", 2, (int64_t[]){c->positions, c->E}, &positions) &&
        weights_read(b->w, "embeddings.token_type_embeddings.weight", 2, (int64_t[]){c->types, c->E}, &types);
    if (ok) {
        float *p = positions.data;
        const float *t = types.data;
        for (int64_t i = 0; i < c->positions; i++)
            for (int64_t e = 0; e < c->E; e++)
                p[i * c->E + e] += t[e];
        ok = weights_put(b->w, "positions", &positions, &b->positions);
    }
    clattn_array_free(&positions);
    clattn_array_free(&types);
    return ok;
}

static bool load_layer(bert *b, int64_t i) {
    static const char *const qkv[] = {"query", "key", "value"};
    char prefix[64];
    const int64_t E = b->c.E, F = b->c.inner;
    const int64_t square[] = {E, E}, up[] = {F, E}, down[] = {E, F};
    layer *l = &b->layers[i];
    snprintf(prefix, sizeof prefix, "encoder.layer.%d.attention.self.", (int)i);
    bool ok = weights_stack(b->w, prefix, qkv, 3, ".weight", 2, square, &l->qkv_w) &&
              weights_stack(b->w, prefix, qkv, 3, ".bias", 1, &E, &l->qkv_b);
    snprintf(prefix, sizeof prefix, "encoder.layer.%d.", (int)i);
    return ok && weights_take(b->w, prefix, "attention.output.dense.weight", 2, square, &l->out_w) &&
           weights_take(b->w, prefix, "attention.output.dense.bias", 1, &E, &l->out_b) &&
           weights_take(b->w, prefix, "attention.output.LayerNorm.weight", 1, &E, &l->norm1_w) &&
           weights_take(b->w, prefix, "attention.output.LayerNorm.bias", 1, &E, &l->norm1_b) &&
           weights_take(b->w, prefix, "intermediate.dense.weight", 2, up, &l->up_w) &&
           weights_take(b->w, prefix, "intermediate.dense.bias", 1, &F, &l->up_b) &&
           weights_take(b->w, prefix, "output.dense.weight", 2, down, &l->down_w) &&
           weights_take(b->w, prefix, "output.dense.bias", 1, &E, &l->down_b) &&
           weights_take(b->w, prefix, "output.LayerNorm.weight", 1, &E, &l->norm2_w) &&
           weights_take(b->w, prefix, "output.LayerNorm.bias", 1, &E, &l->norm2_b);
}

bert *bert_open(clattn_context *context, const char *folder, clattn_dtype dtype) {
    static const char *const unneeded[] = {"pooler.", "embeddings.position_ids", NULL};
    char path[4096];
    bert *b = calloc(1, sizeof *b);
    bool ok = b || complain("out of memory");
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (ok) {
        b->context = context;
        b->dtype = dtype;
        ok = read_config(folder, &b->c);
    }
    if (ok)
        ok = (b->w = weights_open(context, path, dtype)) && load_embeddings(b);
    for (int64_t i = 0; ok && i < b->c.layers; i++)
        ok = load_layer(b, i);
    if (ok && weights_all_used(b->w, unneeded))
        return b;
    bert_close(b);
    return NULL;
}

void bert_close(bert *b) {
    if (!b)
        return;
    clattn_buffer *const scratch[] = {b->x, b->y, b->o, b->qkv, b->inner, b->mean};
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++)
        clattn_buffer_destroy(scratch[i]);
    weights_close(b->w);
    free(b);
}

int64_t bert_width(const bert *b) { return b->c.E; }
int64_t bert_vocabulary(const bert *b) { return b->c.vocabulary; }

/* ---- forward ---- */

static bool grow(bert *b, clattn_buffer **buffer, int64_t numbers, clattn_dtype dtype) {
    const size_t bytes = (size_t)numbers * clattn_dtype_size(dtype);
    if (*buffer && clattn_buffer_bytes(*buffer) >= bytes)
        return true;
    clattn_buffer_destroy(*buffer);
    *buffer = NULL;
    return done(clattn_buffer_create(b->context, bytes, buffer));
}

/* Numbers of a tensor of rank 2 or 3, row-major, in f32. */
static bool download(const clattn_tensor *t, float *out) {
    const size_t bytes = clattn_buffer_bytes(t->buffer), size = clattn_dtype_size(t->dtype);
    float *all = malloc(bytes / size * sizeof *all + 1);
    void *stored = malloc(bytes + 1);
    bool ok = (all && stored) || complain("out of memory");
    ok = ok && done(clattn_buffer_download(t->buffer, 0, stored, bytes)) &&
         done(clattn_convert(all, CLATTN_F32, stored, t->dtype, bytes / size));
    const int64_t depth = t->rank == 3 ? t->shape[2] : 1;
    for (int64_t i = 0; ok && i < t->shape[0] * t->shape[1] * depth; i++)
        out[i] = all[t->offset + i / depth / t->shape[1] * t->stride[0] + i / depth % t->shape[1] * t->stride[1] +
                     (depth > 1 ? i % depth * t->stride[2] : 0)];
    free(all);
    free(stored);
    return ok;
}

/* Notes a state, where they are asked for. */
static bool note(bert *b, const char *name, clattn_tensor t) {
    stages *s = b->record;
    if (!s)
        return true;
    clattn_array array = {0};
    if (!done(clattn_array_create(CLATTN_F32, t.rank, t.shape, &array)))
        return false;
    snprintf(s->names[s->count], sizeof s->names[0], "%s", name);
    s->arrays[s->count] = (clattn_named_array){s->names[s->count], array};
    s->count++;
    return download(&t, array.data);
}

static bool note_numbered(bert *b, int64_t i, clattn_tensor t) {
    char name[16];
    snprintf(name, sizeof name, "h%d", (int)i);
    return note(b, name, t);
}

static bool linear(bert *b, clattn_tensor x, clattn_tensor w, clattn_tensor bias, clattn_activation activation,
                   clattn_tensor y) {
    return done(clattn_linear(b->context,
                              &(clattn_linear_args){.x = x, .w = w, .bias = bias, .y = y, .activation = activation}));
}

/* x = norm(x + y) */
static bool add_norm(bert *b, clattn_tensor y, clattn_tensor x, clattn_tensor w, clattn_tensor bias) {
    return done(clattn_norm(
        b->context,
        &(clattn_norm_args){.x = y, .residual = x, .weight = w, .bias = bias, .y = x, .epsilon = b->c.epsilon}));
}

/* Heads of a row of E numbers at `first` of rows of `width`: [B, heads, N, E / heads]. */
static clattn_tensor heads_of(const bert *b, clattn_buffer *buffer, int64_t B, int64_t N, int64_t width,
                              int64_t first) {
    const int64_t D = b->c.E / b->c.heads;
    return (clattn_tensor){.dtype = b->dtype,
                           .rank = 4,
                           .shape = {B, b->c.heads, N, D},
                           .stride = {N * width, D, width, 1},
                           .offset = first,
                           .buffer = buffer};
}

static bool attend(bert *b, int64_t B, int64_t N, const int64_t *lengths, bool first_layer) {
    const int64_t E = b->c.E;
    const clattn_attention_args args = {.q = heads_of(b, b->qkv, B, N, 3 * E, 0),
                                        .k = heads_of(b, b->qkv, B, N, 3 * E, E),
                                        .v = heads_of(b, b->qkv, B, N, 3 * E, 2 * E),
                                        .o = heads_of(b, b->o, B, N, E, 0),
                                        .key_lengths = lengths};
    if (!done(clattn_attention(b->context, &args)))
        return false;
    if (!b->record || !first_layer)
        return true;
    static const char *const names[] = {"q0", "k0", "v0"};
    bool ok = true;
    for (int i = 0; ok && i < 3; i++) {
        clattn_tensor t = heads_of(b, b->qkv, B, N, 3 * E, i * E);
        t.rank = 3; /* of the one text */
        memmove(t.shape, t.shape + 1, 3 * sizeof *t.shape);
        memmove(t.stride, t.stride + 1, 3 * sizeof *t.stride);
        ok = note(b, names[i], t);
    }
    return ok && note(b, "o0", clattn_tensor_buffer(b->o, b->dtype, 2, (int64_t[]){N, E}));
}

/* x of all tokens to their states after the last layer. */
static bool encode(bert *b, int64_t B, int64_t N, const int32_t *ids, const int64_t *lengths) {
    const int64_t E = b->c.E, F = b->c.inner, T = B * N;
    const clattn_tensor x = clattn_tensor_buffer(b->x, b->dtype, 2, (int64_t[]){T, E}),
                        y = clattn_tensor_buffer(b->y, b->dtype, 2, (int64_t[]){T, E}),
                        o = clattn_tensor_buffer(b->o, b->dtype, 2, (int64_t[]){T, E}),
                        qkv = clattn_tensor_buffer(b->qkv, b->dtype, 2, (int64_t[]){T, 3 * E}),
                        inner = clattn_tensor_buffer(b->inner, b->dtype, 2, (int64_t[]){T, F});
    const clattn_embed_args lookup = {.table = b->words,
                                      .ids = clattn_tensor_host(ids, CLATTN_I32, 2, (int64_t[]){B, N}),
                                      .add = clattn_tensor_slice(b->positions, 0, 0, N),
                                      .y = clattn_tensor_buffer(b->x, b->dtype, 3, (int64_t[]){B, N, E})};
    const clattn_norm_args norm = {.x = x, .weight = b->norm_w, .bias = b->norm_b, .y = x, .epsilon = b->c.epsilon};
    bool ok = done(clattn_embed(b->context, &lookup)) && done(clattn_norm(b->context, &norm)) && note_numbered(b, 0, x);
    for (int64_t i = 0; ok && i < b->c.layers; i++) {
        const layer *l = &b->layers[i];
        ok = linear(b, x, l->qkv_w, l->qkv_b, CLATTN_ACTIVATION_NONE, qkv) && attend(b, B, N, lengths, i == 0) &&
             linear(b, o, l->out_w, l->out_b, CLATTN_ACTIVATION_NONE, y) && add_norm(b, y, x, l->norm1_w, l->norm1_b) &&
             linear(b, x, l->up_w, l->up_b, CLATTN_ACTIVATION_GELU, inner) &&
             linear(b, inner, l->down_w, l->down_b, CLATTN_ACTIVATION_NONE, y) &&
             add_norm(b, y, x, l->norm2_w, l->norm2_b) && note_numbered(b, i + 1, x);
    }
    return ok;
}

static bool grow_all(bert *b, int64_t B, int64_t N) {
    const int64_t E = b->c.E, T = B * N;
    return grow(b, &b->x, T * E, b->dtype) && grow(b, &b->y, T * E, b->dtype) && grow(b, &b->o, T * E, b->dtype) &&
           grow(b, &b->qkv, 3 * T * E, b->dtype) && grow(b, &b->inner, T * b->c.inner, b->dtype) &&
           grow(b, &b->mean, B * E, CLATTN_F32);
}

bool bert_embed(bert *b, int64_t B, int64_t N, const int32_t *ids, const int64_t *lengths, float *embeddings) {
    if (!grow_all(b, B, N) || !encode(b, B, N, ids, lengths))
        return false;
    const clattn_pool_args pool = {.x = clattn_tensor_buffer(b->x, b->dtype, 3, (int64_t[]){B, N, b->c.E}),
                                   .y = clattn_tensor_buffer(b->mean, CLATTN_F32, 2, (int64_t[]){B, b->c.E}),
                                   .lengths = lengths,
                                   .normalise = true};
    return done(clattn_pool(b->context, &pool)) &&
           done(clattn_buffer_download(b->mean, 0, embeddings, (size_t)(B * b->c.E) * sizeof *embeddings));
}

bool bert_write_stages(bert *b, int64_t N, const int32_t *ids, const char *path) {
    stages *s = b->record = calloc(1, sizeof *s);
    const bool ok = (s || complain("out of memory")) && grow_all(b, 1, N) && encode(b, 1, N, ids, &N) &&
                    done(clattn_safetensors_write(path, s->arrays, s->count, NULL, 0));
    b->record = NULL;
    for (size_t i = 0; s && i < s->count; i++)
        clattn_array_free(&s->arrays[i].array);
    free(s);
    return ok;
}
