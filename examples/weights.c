/* SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

#include "complain.h"

#include <stdlib.h>
#include <string.h>

struct weights {
    clattn_safetensors *file;
    clattn_parameters *parameters;
    clattn_parameters_options options;
    char *path;
    bool *used; /* by index in the file */
};

weights *weights_open(clattn_context *context, const char *path, clattn_dtype dtype) {
    weights *w = calloc(1, sizeof *w);
    bool ok = w || complain("%s: out of memory", path);
    if (ok) {
        w->options = (clattn_parameters_options){.convert = true, .dtype = dtype};
        ok = done(clattn_safetensors_open(path, &w->file)) && done(clattn_parameters_create(context, &w->parameters));
    }
    if (ok) {
        w->path = calloc(strlen(path) + 1, 1);
        w->used = calloc(clattn_safetensors_count(w->file) + 1, sizeof *w->used);
        ok = (w->path && w->used) || complain("%s: out of memory", path);
    }
    if (ok) {
        memcpy(w->path, path, strlen(path) + 1);
        return w;
    }
    weights_close(w);
    return NULL;
}

void weights_close(weights *w) {
    if (!w)
        return;
    clattn_parameters_destroy(w->parameters);
    clattn_safetensors_close(w->file);
    free(w->path);
    free(w->used);
    free(w);
}

static void shape_text(int rank, const int64_t *shape, char *text, size_t bytes) {
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < rank && n < bytes; i++)
        n += (size_t)snprintf(text + n, bytes - n, "%s%lld", i > 0 ? ", " : "", (long long)shape[i]);
}

/* Finds a tensor, and checks that it is what the model needs. */
static bool find_tensor(weights *w, const char *name, int rank, const int64_t *shape) {
    size_t index = 0;
    clattn_safetensors_entry entry;
    if (!clattn_safetensors_find(w->file, name, &index) || !clattn_safetensors_entry_at(w->file, index, &entry))
        return complain("%s has no tensor %s, which the model needs", w->path, name);
    bool same = entry.rank == rank;
    for (int i = 0; same && i < rank; i++)
        same = entry.shape[i] == shape[i];
    if (!same) {
        char has[128], needs[128];
        shape_text(entry.rank, entry.shape, has, sizeof has);
        shape_text(rank, shape, needs, sizeof needs);
        return complain("%s: %s is [%s], and the model needs [%s]", w->path, name, has, needs);
    }
    if (!entry.readable || entry.dtype > CLATTN_BF16)
        return complain("%s: %s is of type %s, and the model needs a float type", w->path, name, entry.dtype_text);
    w->used[index] = true;
    return true;
}

bool weights_read(weights *w, const char *name, int rank, const int64_t *shape, clattn_array *array) {
    clattn_array stored = {0};
    *array = (clattn_array){0};
    const bool ok = find_tensor(w, name, rank, shape) && done(clattn_safetensors_read(w->file, name, &stored)) &&
                    done(clattn_array_convert(&stored, CLATTN_F32, array));
    clattn_array_free(&stored);
    return ok;
}

bool weights_put(weights *w, const char *name, const clattn_array *array, clattn_tensor *tensor) {
    return done(clattn_parameters_add(w->parameters, name, array, &w->options)) &&
           done(clattn_parameters_find(w->parameters, NULL, name, tensor));
}

bool weights_stack(weights *w, const char *prefix, const char *const *names, int count, const char *suffix, int rank,
                   const int64_t *shape, clattn_tensor *tensor) {
    int64_t all[CLATTN_MAX_RANK] = {0};
    char name[256];
    clattn_array whole = {0};
    memcpy(all, shape, (size_t)rank * sizeof *all);
    all[0] *= count;
    bool ok = done(clattn_array_create(CLATTN_F32, rank, all, &whole));
    for (int i = 0; ok && i < count; i++) {
        clattn_array part;
        snprintf(name, sizeof name, "%s%s%s", prefix, names[i], suffix);
        ok = weights_read(w, name, rank, shape, &part);
        if (ok)
            memcpy((char *)whole.data + (size_t)i * part.bytes, part.data, part.bytes);
        clattn_array_free(&part);
    }
    /* Under the name of the first; of a stack, that is free for no other. */
    snprintf(name, sizeof name, "%s%s%s", prefix, names[0], suffix);
    ok = ok && weights_put(w, name, &whole, tensor);
    clattn_array_free(&whole);
    return ok;
}

bool weights_take(weights *w, const char *prefix, const char *name, int rank, const int64_t *shape,
                  clattn_tensor *tensor) {
    return weights_stack(w, prefix, &name, 1, "", rank, shape, tensor);
}

bool weights_all_used(const weights *w, const char *const *unneeded) {
    clattn_safetensors_entry entry;
    for (size_t i = 0; clattn_safetensors_entry_at(w->file, i, &entry); i++) {
        bool known = w->used[i];
        for (int j = 0; !known && unneeded[j]; j++)
            known = strncmp(entry.name, unneeded[j], strlen(unneeded[j])) == 0;
        if (!known)
            return complain("%s holds a tensor %s, which the model does not have", w->path, entry.name);
    }
    return true;
}
