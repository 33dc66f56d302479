/* SPDX-License-Identifier: Apache-2.0 */
/* Three layers of nn.TransformerEncoder's kind and three of nn.TransformerDecoder's, with weights under other names.
 * Source: Vaswani et al. 2017 for the model. */
#include "annalog.h"

#include "complain.h"
#include "files.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { E = 256, HEADS = 8, INNER = 512, LAYERS = 3, POSITIONS = ANNALOG_POSITIONS, MAX_TOKENS = 1000 };

struct annalog {
    clattn_context *context;
    weights *w;
    char *text; /* vocab.txt, its lines ended by zeros */
    const char *tokens[MAX_TOKENS];
    int64_t V, N, length; /* N: of the source; length: of the target so far */
    clattn_tensor source_tokens, source_positions, target_tokens, target_positions, out, out_bias;
    clattn_encoder *encoder;
    clattn_decoder *decoder;
    clattn_decoder_cache *cache;
    clattn_buffer *x, *memory, *logits; /* [POSITIONS, E], [POSITIONS, E], [V] */
};

/* ---- weights ---- */

static bool take_linear(annalog *a, const char *prefix, const char *name, int64_t rows, int64_t columns,
                        clattn_tensor *w, clattn_tensor *bias) {
    char path[256];
    snprintf(path, sizeof path, "%s%s.", prefix, name);
    return weights_take(a->w, path, "weight", 2, (int64_t[]){rows, columns}, w) &&
           weights_take(a->w, path, "bias", 1, &rows, bias);
}

static bool take_norm(annalog *a, const char *prefix, const char *name, clattn_norm_weights *norm) {
    const int64_t width = E;
    char path[128];
    snprintf(path, sizeof path, "%s%s.", prefix, name);
    return weights_take(a->w, path, "weight", 1, &width, &norm->weight) &&
           weights_take(a->w, path, "bias", 1, &width, &norm->bias);
}

static bool take_attention(annalog *a, const char *prefix, const char *name, clattn_multihead_weights *attention) {
    char path[128];
    snprintf(path, sizeof path, "%s%s.", prefix, name);
    return take_linear(a, path, "fc_q", E, E, &attention->q, &attention->q_bias) &&
           take_linear(a, path, "fc_k", E, E, &attention->k, &attention->k_bias) &&
           take_linear(a, path, "fc_v", E, E, &attention->v, &attention->v_bias) &&
           take_linear(a, path, "fc_o", E, E, &attention->out, &attention->out_bias);
}

static bool take_feedforward(annalog *a, const char *prefix, clattn_feedforward_weights *feed) {
    return take_linear(a, prefix, "positionwise_feedforward.fc_1", INNER, E, &feed->linear1, &feed->linear1_bias) &&
           take_linear(a, prefix, "positionwise_feedforward.fc_2", E, INNER, &feed->linear2, &feed->linear2_bias);
}

static const clattn_layer_options layer_options = {.heads = HEADS}; /* norms behind, ReLU: as PyTorch's default */

static bool take_encoder(annalog *a) {
    clattn_encoder_layer_weights layers[LAYERS] = {0};
    bool ok = true;
    for (int i = 0; ok && i < LAYERS; i++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "encoder.layers.%d.", i);
        ok = take_attention(a, prefix, "self_attention", &layers[i].self_attn) &&
             take_norm(a, prefix, "self_attn_layer_norm", &layers[i].norm1) &&
             take_feedforward(a, prefix, &layers[i].feedforward) &&
             take_norm(a, prefix, "ff_layer_norm", &layers[i].norm2);
    }
    const clattn_encoder_weights all = {.layers = layers, .count = LAYERS};
    return ok && done(clattn_encoder_create(a->context, &all, &layer_options, &a->encoder));
}

static bool take_decoder(annalog *a) {
    clattn_decoder_layer_weights layers[LAYERS] = {0};
    bool ok = true;
    for (int i = 0; ok && i < LAYERS; i++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "decoder.layers.%d.", i);
        ok = take_attention(a, prefix, "self_attention", &layers[i].self_attn) &&
             take_norm(a, prefix, "self_attn_layer_norm", &layers[i].norm1) &&
             take_attention(a, prefix, "encoder_attention", &layers[i].cross_attn) &&
             take_norm(a, prefix, "enc_attn_layer_norm", &layers[i].norm2) &&
             take_feedforward(a, prefix, &layers[i].feedforward) &&
             take_norm(a, prefix, "ff_layer_norm", &layers[i].norm3);
    }
    const clattn_decoder_weights all = {.layers = layers, .count = LAYERS};
    const clattn_decoder_cache_options cache = {.batch = 1, .capacity = POSITIONS};
    return ok && done(clattn_decoder_create(a->context, &all, &layer_options, &a->decoder)) &&
           done(clattn_decoder_cache_create(a->decoder, &cache, &a->cache));
}

static bool read_vocabulary(annalog *a, const char *folder) {
    static const char *const special[] = {"<unk>", "<pad>", "<sos>", "<eos>"};
    char path[4096];
    size_t bytes = 0, n;
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    a->text = read_path(path, &bytes);
    if (!a->text)
        return false;
    for (char *at = a->text, *line; a->V < MAX_TOKENS && (line = next_line(&at, a->text + bytes, &n));)
        a->tokens[a->V++] = line;
    for (int64_t i = 0; i <= ANNALOG_END; i++)
        if (i >= a->V || strcmp(a->tokens[i], special[i]) != 0)
            return complain("%s: line %d is not %s", path, (int)i + 1, special[i]);
    return true;
}

static bool read_weights(annalog *a, const char *folder) {
    static const char *const nothing[] = {NULL};
    const int64_t tokens[] = {a->V, E}, positions[] = {POSITIONS, E};
    char path[4096];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    a->w = weights_open(a->context, path, CLATTN_F32);
    return a->w && weights_take(a->w, "encoder.", "tok_embedding.weight", 2, tokens, &a->source_tokens) &&
           weights_take(a->w, "encoder.", "pos_embedding.weight", 2, positions, &a->source_positions) &&
           weights_take(a->w, "decoder.", "tok_embedding.weight", 2, tokens, &a->target_tokens) &&
           weights_take(a->w, "decoder.", "pos_embedding.weight", 2, positions, &a->target_positions) &&
           take_encoder(a) && take_decoder(a) && take_linear(a, "decoder.", "fc_out", a->V, E, &a->out, &a->out_bias) &&
           weights_all_used(a->w, nothing);
}

annalog *annalog_open(clattn_context *context, const char *folder) {
    annalog *a = calloc(1, sizeof *a);
    bool ok = a || complain("out of memory");
    if (ok) {
        a->context = context;
        ok = read_vocabulary(a, folder) && read_weights(a, folder) &&
             done(clattn_buffer_create(context, POSITIONS * E * sizeof(float), &a->x)) &&
             done(clattn_buffer_create(context, POSITIONS * E * sizeof(float), &a->memory)) &&
             done(clattn_buffer_create(context, (size_t)a->V * sizeof(float), &a->logits));
    }
    if (ok)
        return a;
    annalog_close(a);
    return NULL;
}

void annalog_close(annalog *a) {
    if (!a)
        return;
    clattn_decoder_cache_destroy(a->cache); /* before what it is a cache of */
    clattn_decoder_destroy(a->decoder);
    clattn_encoder_destroy(a->encoder);
    clattn_buffer_destroy(a->x);
    clattn_buffer_destroy(a->memory);
    clattn_buffer_destroy(a->logits);
    weights_close(a->w);
    free(a->text);
    free(a);
}

int64_t annalog_vocabulary(const annalog *a) { return a->V; }
int64_t annalog_width(const annalog *a) {
    (void)a;
    return E;
}
const char *annalog_token(const annalog *a, int32_t id) { return id >= 0 && id < a->V ? a->tokens[id] : "?"; }

/* ---- molecules ---- */

/* Bytes of the token at the start of n: [...], %nn, Br, Cl, else a character; 0 where that is no UTF-8. */
static size_t token_length(const char *s, size_t n) {
    const char *end = *s == '[' ? memchr(s, ']', n) : NULL;
    int32_t c = 0;
    if (end)
        return (size_t)(end - s) + 1;
    if (*s == '%' && n >= 3 && s[1] >= '0' && s[1] <= '9' && s[2] >= '0' && s[2] <= '9')
        return 3;
    if (n >= 2 && (memcmp(s, "Br", 2) == 0 || memcmp(s, "Cl", 2) == 0))
        return 2;
    const utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &c);
    return length > 0 ? (size_t)length : 0;
}

static int32_t find_token(const annalog *a, const char *s, size_t n) {
    for (int32_t i = ANNALOG_END + 1; i < a->V; i++)
        if (strlen(a->tokens[i]) == n && memcmp(a->tokens[i], s, n) == 0)
            return i;
    return ANNALOG_UNKNOWN;
}

int64_t annalog_encode(const annalog *a, const char *smiles, size_t bytes, int32_t *ids) {
    int64_t count = 0;
    ids[count++] = ANNALOG_START;
    for (size_t i = 0, n; i < bytes; i += n) {
        n = token_length(smiles + i, bytes - i);
        if (n == 0) {
            complain("a molecule is not UTF-8: its byte %zu", i + 1);
            return 0;
        }
        if (count == POSITIONS - 1) {
            complain("a molecule has more than %d tokens, which is what the model can read", POSITIONS - 2);
            return 0;
        }
        ids[count++] = find_token(a, smiles + i, n);
    }
    ids[count++] = ANNALOG_END;
    return count;
}

/* ---- running ---- */

/* x [n, E] = sqrt(E) tokens[ids] + positions from `first` on. */
static bool embed(annalog *a, clattn_tensor tokens, clattn_tensor positions, const int32_t *ids, int64_t first,
                  int64_t n) {
    const clattn_embed_args args = {.table = tokens,
                                    .ids = clattn_tensor_host(ids, CLATTN_I32, 1, &n),
                                    .add = clattn_tensor_slice(positions, 0, first, n),
                                    .y = clattn_tensor_buffer(a->x, CLATTN_F32, 2, (int64_t[]){n, E}),
                                    .has_scale = true,
                                    .scale = 16};
    return done(clattn_embed(a->context, &args));
}

bool annalog_read(annalog *a, const int32_t *ids, int64_t N, float *memory) {
    const clattn_encoder_args args = {.x = clattn_tensor_buffer(a->x, CLATTN_F32, 2, (int64_t[]){N, E}),
                                      .y = clattn_tensor_buffer(a->memory, CLATTN_F32, 2, (int64_t[]){N, E})};
    a->N = N;
    a->length = 0;
    return embed(a, a->source_tokens, a->source_positions, ids, 0, N) && done(clattn_encoder_run(a->encoder, &args)) &&
           done(clattn_decoder_cache_truncate(a->cache, 0)) &&
           (!memory || done(clattn_buffer_download(a->memory, 0, memory, (size_t)(N * E) * sizeof *memory)));
}

bool annalog_step(annalog *a, int32_t id, float *logits) {
    const clattn_tensor x = clattn_tensor_buffer(a->x, CLATTN_F32, 2, (int64_t[]){1, E});
    /* Keys and values of the memory are found once, at the first token. */
    const clattn_decoder_args args = {
        .x = x,
        .memory =
            a->length == 0 ? clattn_tensor_buffer(a->memory, CLATTN_F32, 2, (int64_t[]){a->N, E}) : (clattn_tensor){0},
        .y = x,
        .cache = a->cache};
    const clattn_linear_args out = {.x = x,
                                    .w = a->out,
                                    .bias = a->out_bias,
                                    .y = clattn_tensor_buffer(a->logits, CLATTN_F32, 2, (int64_t[]){1, a->V})};
    return embed(a, a->target_tokens, a->target_positions, &id, a->length++, 1) &&
           done(clattn_decoder_run(a->decoder, &args)) && done(clattn_linear(a->context, &out)) &&
           done(clattn_buffer_download(a->logits, 0, logits, (size_t)a->V * sizeof *logits));
}
