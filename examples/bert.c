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

enum { MAX_LAYERS = 96 };

typedef struct config {
    int64_t E, heads, layers, inner, vocabulary, positions, types, max_tokens;
    double epsilon;
} config;

struct bert {
    clattn_context *context;
    config c;
    weights *w;
    clattn_tensor words, positions;
    clattn_norm_weights norm;
    clattn_encoder_layer_weights layers[MAX_LAYERS];
    clattn_encoder *encoder;
    clattn_buffer *x, *mean; /* of the batch at hand, and grow with it: [B, N, E], [B, E] */
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

static bool load_linear(bert *b, const char *prefix, const char *name, int64_t rows, int64_t columns, clattn_tensor *w,
                        clattn_tensor *bias) {
    char path[128];
    snprintf(path, sizeof path, "%s%s.", prefix, name);
    return weights_take(b->w, path, "weight", 2, (int64_t[]){rows, columns}, w) &&
           weights_take(b->w, path, "bias", 1, &rows, bias);
}

static bool load_norm(bert *b, const char *prefix, const char *name, clattn_norm_weights *norm) {
    char path[128];
    snprintf(path, sizeof path, "%s%s.", prefix, name);
    return weights_take(b->w, path, "weight", 1, &b->c.E, &norm->weight) &&
           weights_take(b->w, path, "bias", 1, &b->c.E, &norm->bias);
}

/* Word embeddings, and the sum of what does not depend on the word: positions, and the type 0 of every token. */
static bool load_embeddings(bert *b) {
    const config *c = &b->c;
    clattn_array positions = {0}, types = {0};
    bool ok =
        weights_take(b->w, "embeddings.", "word_embeddings.weight", 2, (int64_t[]){c->vocabulary, c->E}, &b->words) &&
        load_norm(b, "embeddings.", "LayerNorm", &b->norm) &&
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
    char prefix[64], self[96];
    const int64_t E = b->c.E, F = b->c.inner;
    clattn_encoder_layer_weights *l = &b->layers[i];
    snprintf(prefix, sizeof prefix, "encoder.layer.%d.", (int)i);
    snprintf(self, sizeof self, "%sattention.self.", prefix);
    return weights_stack(b->w, self, qkv, 3, ".weight", 2, (int64_t[]){E, E}, &l->self_attn.in_proj) &&
           weights_stack(b->w, self, qkv, 3, ".bias", 1, &E, &l->self_attn.in_bias) &&
           load_linear(b, prefix, "attention.output.dense", E, E, &l->self_attn.out, &l->self_attn.out_bias) &&
           load_norm(b, prefix, "attention.output.LayerNorm", &l->norm1) &&
           load_linear(b, prefix, "intermediate.dense", F, E, &l->feedforward.linear1, &l->feedforward.linear1_bias) &&
           load_linear(b, prefix, "output.dense", E, F, &l->feedforward.linear2, &l->feedforward.linear2_bias) &&
           load_norm(b, prefix, "output.LayerNorm", &l->norm2);
}

static bool make_encoder(bert *b) {
    const clattn_encoder_weights all = {.layers = b->layers, .count = b->c.layers};
    const clattn_layer_options options = {
        .heads = b->c.heads, .activation = CLATTN_ACTIVATION_GELU, .norm_epsilon = b->c.epsilon};
    return done(clattn_encoder_create(b->context, &all, &options, &b->encoder));
}

bert *bert_open(clattn_context *context, const char *folder, clattn_dtype dtype) {
    static const char *const unneeded[] = {"pooler.", "embeddings.position_ids", NULL};
    char path[4096];
    bert *b = calloc(1, sizeof *b);
    bool ok = b || complain("out of memory");
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (ok) {
        b->context = context;
        ok = read_config(folder, &b->c);
    }
    if (ok)
        ok = (b->w = weights_open(context, path, dtype)) && load_embeddings(b);
    for (int64_t i = 0; ok && i < b->c.layers; i++)
        ok = load_layer(b, i);
    if (ok && weights_all_used(b->w, unneeded) && make_encoder(b))
        return b;
    bert_close(b);
    return NULL;
}

void bert_close(bert *b) {
    if (!b)
        return;
    clattn_encoder_destroy(b->encoder);
    clattn_buffer_destroy(b->x);
    clattn_buffer_destroy(b->mean);
    weights_close(b->w);
    free(b);
}

int64_t bert_width(const bert *b) { return b->c.E; }
int64_t bert_vocabulary(const bert *b) { return b->c.vocabulary; }

/* ---- forward ---- */

static bool grow(bert *b, clattn_buffer **buffer, int64_t numbers) {
    const size_t bytes = clattn_dtype_bytes(CLATTN_F32, (size_t)numbers);
    if (*buffer && clattn_buffer_bytes(*buffer) >= bytes)
        return true;
    clattn_buffer_destroy(*buffer);
    *buffer = NULL;
    return done(clattn_buffer_create(b->context, bytes, buffer));
}

/* Tokens [B, N] to x [B, N, E]. */
static bool embed(bert *b, int64_t B, int64_t N, const int32_t *ids, clattn_tensor x) {
    const clattn_embed_args lookup = {.table = b->words,
                                      .ids = clattn_tensor_host(ids, CLATTN_I32, 2, (int64_t[]){B, N}),
                                      .add = clattn_tensor_slice(b->positions, 0, 0, N),
                                      .y = x};
    const clattn_norm_args norm = {
        .x = x, .weight = b->norm.weight, .bias = b->norm.bias, .y = x, .epsilon = b->c.epsilon};
    return done(clattn_embed(b->context, &lookup)) && done(clattn_norm(b->context, &norm));
}

bool bert_embed(bert *b, int64_t B, int64_t N, const int32_t *ids, const int64_t *lengths, float *embeddings) {
    if (!grow(b, &b->x, B * N * b->c.E) || !grow(b, &b->mean, B * b->c.E))
        return false;
    const clattn_tensor x = clattn_tensor_buffer(b->x, CLATTN_F32, 3, (int64_t[]){B, N, b->c.E});
    const clattn_encoder_args encode = {.x = x, .y = x, .masks.key_lengths = lengths};
    const clattn_pool_args pool = {.x = x,
                                   .y = clattn_tensor_buffer(b->mean, CLATTN_F32, 2, (int64_t[]){B, b->c.E}),
                                   .lengths = lengths,
                                   .normalise = true};
    return embed(b, B, N, ids, x) && done(clattn_encoder_run(b->encoder, &encode)) &&
           done(clattn_pool(b->context, &pool)) &&
           done(clattn_buffer_download(b->mean, 0, embeddings, (size_t)(B * b->c.E) * sizeof *embeddings));
}

/* ---- stages ---- */

/* States of one text on the host, to be written. */
enum { STAGES = MAX_LAYERS + 5 };
typedef struct stages {
    clattn_named_array arrays[STAGES];
    char names[STAGES][16];
    size_t count;
} stages;

/* A stage to be filled; {0} after an error. */
static clattn_tensor add_stage(stages *s, const char *name, int64_t number, int rank, const int64_t *shape) {
    clattn_array array;
    if (!done(clattn_array_create(CLATTN_F32, rank, shape, &array)))
        return (clattn_tensor){0};
    snprintf(s->names[s->count], sizeof s->names[0], "%s%d", name, (int)number);
    s->arrays[s->count] = (clattn_named_array){s->names[s->count], array};
    s->count++;
    return clattn_array_tensor(&array);
}

/* [N, E] as heads [1, H, N, E / H]. */
static clattn_tensor heads_of(clattn_tensor rows, int64_t H) {
    const clattn_tensor t = clattn_tensor_permute(clattn_tensor_split(rows, 1, H), (const int[]){1, 0, 2});
    return clattn_tensor_split(t, 0, 1);
}

static void copy_heads(const float *rows, int64_t width, int64_t H, int64_t N, int64_t D, float *heads) {
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < N; i++)
            memcpy(heads + (h * N + i) * D, rows + i * width + h * D, (size_t)D * sizeof *heads);
}

/* What the encoder keeps for itself: queries, keys and values of the first layer, and the attention's result. */
static bool add_attention(bert *b, stages *s, int64_t N, clattn_tensor x) {
    static const char *const names[] = {"q", "k", "v"};
    const int64_t E = b->c.E, H = b->c.heads, D = E / H;
    const clattn_multihead_weights *w = &b->layers[0].self_attn;
    clattn_array qkv = {0};
    bool ok = done(clattn_array_create(CLATTN_F32, 2, (int64_t[]){N, 3 * E}, &qkv));
    const clattn_tensor y = clattn_array_tensor(&qkv);
    x = clattn_tensor_buffer(x.buffer, CLATTN_F32, 2, (int64_t[]){N, E});
    ok = ok &&
         done(clattn_linear(b->context, &(clattn_linear_args){.x = x, .w = w->in_proj, .bias = w->in_bias, .y = y}));
    for (int i = 0; ok && i < 3; i++) {
        const clattn_tensor t = add_stage(s, names[i], 0, 3, (int64_t[]){H, N, D});
        ok = t.rank > 0;
        if (ok)
            copy_heads((const float *)qkv.data + i * E, 3 * E, H, N, D, t.host);
    }
    const clattn_tensor o = ok ? add_stage(s, "o", 0, 2, (int64_t[]){N, E}) : (clattn_tensor){0};
    const clattn_attention_args args = {.q = heads_of(clattn_tensor_slice(y, 1, 0, E), H),
                                        .k = heads_of(clattn_tensor_slice(y, 1, E, E), H),
                                        .v = heads_of(clattn_tensor_slice(y, 1, 2 * E, E), H),
                                        .o = heads_of(o, H)};
    ok = o.rank > 0 && done(clattn_attention(b->context, &args));
    clattn_array_free(&qkv);
    return ok;
}

static bool add_states(bert *b, stages *s, int64_t N, const int32_t *ids) {
    const int64_t shape[] = {1, N, b->c.E};
    clattn_tensor hidden[MAX_LAYERS], h0 = add_stage(s, "h", 0, 2, shape + 1);
    bool ok = h0.rank > 0;
    for (int64_t i = 0; ok && i < b->c.layers; i++) {
        hidden[i] = clattn_tensor_split(add_stage(s, "h", i + 1, 2, shape + 1), 0, 1);
        ok = hidden[i].rank > 0;
    }
    if (!ok || !grow(b, &b->x, N * b->c.E))
        return false;
    const clattn_tensor x = clattn_tensor_buffer(b->x, CLATTN_F32, 3, shape);
    const clattn_encoder_args encode = {.x = x, .y = x, .hidden = hidden};
    return embed(b, 1, N, ids, x) &&
           done(clattn_buffer_download(b->x, 0, h0.host, clattn_dtype_bytes(CLATTN_F32, (size_t)(N * b->c.E)))) &&
           add_attention(b, s, N, x) && done(clattn_encoder_run(b->encoder, &encode));
}

bool bert_write_stages(bert *b, int64_t N, const int32_t *ids, const char *path) {
    stages *s = calloc(1, sizeof *s);
    const bool ok = (s || complain("out of memory")) && add_states(b, s, N, ids) &&
                    done(clattn_safetensors_write(path, s->arrays, s->count, NULL, 0));
    for (size_t i = 0; s && i < s->count; i++)
        clattn_array_free(&s->arrays[i].array);
    free(s);
    return ok;
}
