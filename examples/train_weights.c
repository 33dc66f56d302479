/* SPDX-License-Identifier: Apache-2.0 */
#include "train_weights.h"

#include "complain.h"
#include "train_data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A parameter's name, rank, shape, and the standard deviation that it begins with; or that all are one number. */
typedef struct {
    const char *name;
    int rank;
    int64_t shape[2];
    double deviation, mean;
} parameter;

enum { OF_LAYER = 12, OF_REST = 6 };

const char *weight_prefix(weight_kind kind) {
    static const char *const prefixes[KINDS] = {"model.", "gradient.", "moment1.", "moment2."};
    return prefixes[kind];
}

/* Matrices keep the size of what goes through them; those that add to the residual, that of the sum over the layers. */
static void list_layer(const settings *s, parameter list[OF_LAYER]) {
    const int64_t E = s->width, F = 4 * E;
    const double depth = sqrt(2 * (double)s->layers), by_e = 1 / sqrt((double)E), by_f = 1 / sqrt((double)F);
    const parameter all[OF_LAYER] = {{"self_attn.in_proj_weight", 2, {3 * E, E}, by_e, 0},
                                     {"self_attn.in_proj_bias", 1, {3 * E, 0}, 0, 0},
                                     {"self_attn.out_proj.weight", 2, {E, E}, by_e / depth, 0},
                                     {"self_attn.out_proj.bias", 1, {E, 0}, 0, 0},
                                     {"linear1.weight", 2, {F, E}, by_e, 0},
                                     {"linear1.bias", 1, {F, 0}, 0, 0},
                                     {"linear2.weight", 2, {E, F}, by_f / depth, 0},
                                     {"linear2.bias", 1, {E, 0}, 0, 0},
                                     {"norm1.weight", 1, {E, 0}, 0, 1},
                                     {"norm1.bias", 1, {E, 0}, 0, 0},
                                     {"norm2.weight", 1, {E, 0}, 0, 1},
                                     {"norm2.bias", 1, {E, 0}, 0, 0}};
    memcpy(list, all, sizeof all);
}

static void list_rest(const settings *s, parameter list[OF_REST]) {
    const int64_t E = s->width;
    const parameter all[OF_REST] = {{"embedding.weight", 2, {TOKENS, E}, 0.5, 0},
                                    {"position.weight", 2, {2 * s->length, E}, 0.5, 0},
                                    {"norm.weight", 1, {E, 0}, 0, 1},
                                    {"norm.bias", 1, {E, 0}, 0, 0},
                                    {"output.weight", 2, {DIGITS, E}, 1 / sqrt((double)E), 0},
                                    {"output.bias", 1, {DIGITS, 0}, 0, 0}};
    memcpy(list, all, sizeof all);
}

/* ---- one parameter ---- */

typedef struct {
    train_weights *weights;
    clattn_context *context;
    const settings *settings;
    struct weights *file;
} making;

/* Each parameter has a stream of random numbers of its own. */
static bool draw(const making *m, const parameter *p, clattn_array *array) {
    const clattn_random_args random = {
        .y = clattn_array_tensor(array), .seed = (uint64_t)m->settings->seed, .stream = m->weights->count};
    if (p->deviation > 0 && !done(clattn_random(m->context, &random)))
        return false;
    float *x = array->data;
    for (size_t i = 0; i < array->bytes / sizeof *x; i++)
        x[i] = (float)(p->mean + p->deviation * (double)x[i]);
    return true;
}

/* One kind of the parameter that comes next. */
static bool add_kind(const making *m, const parameter *p, weight_kind kind) {
    train_weights *w = m->weights;
    char name[WEIGHT_NAME + 20];
    clattn_array array = {0};
    snprintf(name, sizeof name, "%s%s", weight_prefix(kind), w->names[w->count]);
    bool ok = m->file && kind != GRADIENT ? weights_read(m->file, name, p->rank, p->shape, &array)
                                          : done(clattn_array_create(CLATTN_F32, p->rank, p->shape, &array));
    if (ok && !m->file && kind == VALUE)
        ok = draw(m, p, &array);
    ok = ok && done(clattn_parameters_add(w->all, name, &array, NULL)) &&
         done(clattn_parameters_find(w->all, NULL, name, &w->tensors[kind][w->count]));
    clattn_array_free(&array);
    return ok;
}

static bool add(const making *m, const parameter *p, const char *prefix) {
    train_weights *w = m->weights;
    snprintf(w->names[w->count], sizeof *w->names, "%s%s", prefix, p->name);
    for (int kind = 0; kind < KINDS; kind++)
        if (!add_kind(m, p, (weight_kind)kind))
            return false;
    w->count++;
    return true;
}

/* ---- all of them ---- */

bool train_weights_make(train_weights *w, clattn_context *context, const settings *s, weights *file,
                        const char *const *others) {
    const making m = {.weights = w, .context = context, .settings = s, .file = file};
    const size_t most = (size_t)s->layers * OF_LAYER + OF_REST;
    parameter layer[OF_LAYER], rest[OF_REST];
    list_layer(s, layer);
    list_rest(s, rest);
    *w = (train_weights){.names = calloc(most, sizeof *w->names)};
    bool ok = w->names != NULL;
    for (int kind = 0; kind < KINDS; kind++) {
        w->tensors[kind] = calloc(most, sizeof *w->tensors[kind]);
        ok = ok && w->tensors[kind];
    }
    ok = (ok || complain("out of memory")) && done(clattn_parameters_create(context, &w->all));
    for (int i = 0; ok && i < OF_REST; i++)
        ok = add(&m, &rest[i], "");
    for (int64_t l = 0; l < s->layers; l++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "layers.%lld.", (long long)l);
        for (int i = 0; ok && i < OF_LAYER; i++)
            ok = add(&m, &layer[i], prefix);
    }
    return ok && (!file || weights_all_used(file, others));
}

void train_weights_free(train_weights *w) {
    clattn_parameters_destroy(w->all);
    for (int kind = 0; kind < KINDS; kind++)
        free(w->tensors[kind]);
    free(w->names);
    *w = (train_weights){0};
}
