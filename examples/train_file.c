/* SPDX-License-Identifier: Apache-2.0 */
#include "train_file.h"

#include "complain.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "clattn examples/train 1";
const char *const checkpoint_others[] = {"losses", "accuracies", NULL};

/* ---- history ---- */

static bool grow(float **numbers, int64_t count) {
    float *more = realloc(*numbers, ((size_t)count + 1) * sizeof *more);
    if (!more)
        return complain("out of memory");
    *numbers = more;
    return true;
}

bool history_grow(history *h, int64_t steps) {
    return grow(&h->losses, steps) && grow(&h->accuracies, steps / ACCURACY_STEPS);
}

void history_free(history *h) {
    free(h->losses);
    free(h->accuracies);
    *h = (history){0};
}

/* ---- writing ---- */

enum { SAVED = 3 };
static const weight_kind saved[SAVED] = {VALUE, MOMENT1, MOMENT2};

typedef struct {
    clattn_named_array *arrays;
    char (*names)[WEIGHT_NAME + 20];
    size_t count;
} writing;

static bool take_tensor(writing *w, weight_kind kind, const char *name, const clattn_tensor *t) {
    clattn_array *array = &w->arrays[w->count].array;
    snprintf(w->names[w->count], sizeof *w->names, "%s%s", weight_prefix(kind), name);
    w->arrays[w->count].name = w->names[w->count];
    if (!done(clattn_array_create(t->dtype, t->rank, t->shape, array)))
        return false;
    w->count++; /* and so is freed */
    return done(clattn_buffer_download(t->buffer, 0, array->data, array->bytes));
}

static clattn_named_array numbers(const char *name, float *data, int64_t count) {
    return (clattn_named_array){name, {CLATTN_F32, 1, {count}, data, (size_t)count * sizeof *data}};
}

static bool write_arrays(const char *path, const settings *s, const history *h, const writing *w) {
    char texts[SETTINGS + 1][SETTING_TEXT];
    clattn_metadata_pair metadata[SETTINGS + 2] = {{"program", program}, {"step", texts[SETTINGS]}};
    snprintf(texts[SETTINGS], SETTING_TEXT, "%lld", (long long)h->step);
    for (size_t i = 0; i < SETTINGS; i++) {
        settings_text(s, i, texts[i]);
        metadata[i + 2] = (clattn_metadata_pair){settings_name(i), texts[i]};
    }
    w->arrays[w->count] = numbers("losses", h->losses, h->step);
    w->arrays[w->count + 1] = numbers("accuracies", h->accuracies, h->step / ACCURACY_STEPS);
    return done(clattn_safetensors_write(path, w->arrays, w->count + 2, metadata, SETTINGS + 2));
}

bool checkpoint_write(const char *path, const settings *s, const history *h, const model *m) {
    const train_weights *all = model_weights(m);
    const size_t most = all->count * SAVED + 2;
    writing w = {.arrays = calloc(most, sizeof *w.arrays), .names = calloc(most, sizeof *w.names)};
    bool ok = (w.arrays && w.names) || complain("out of memory");
    for (size_t k = 0; k < SAVED; k++)
        for (size_t i = 0; ok && i < all->count; i++)
            ok = take_tensor(&w, saved[k], all->names[i], &all->tensors[saved[k]][i]);
    ok = ok && write_arrays(path, s, h, &w);
    for (size_t i = 0; w.arrays && i < w.count; i++)
        clattn_array_free(&w.arrays[i].array);
    free(w.arrays);
    free(w.names);
    return ok;
}

/* ---- reading ---- */

static bool read_step(const char *path, const char *text, int64_t *step) {
    char *end = NULL;
    errno = 0;
    *step = text ? strtoll(text, &end, 10) : -1;
    return (text && end != text && !*end && errno == 0 && *step >= 1 && *step <= 100000000) ||
           complain("%s: its step is \"%.60s\"", path, text ? text : "");
}

/* Takes the file's, or, where one was given, compares it. */
static bool take_setting(const clattn_safetensors *file, const char *path, size_t i, bool given, settings *s) {
    const char *text = clattn_safetensors_metadata(file, settings_name(i));
    char have[SETTING_TEXT], wanted[SETTING_TEXT];
    settings stored = *s;
    if (!text)
        return complain("%s does not say its %s", path, settings_name(i));
    if (!settings_set(&stored, i, text, path))
        return false;
    settings_text(&stored, i, have);
    settings_text(s, i, wanted);
    if (given && strcmp(have, wanted) != 0)
        return complain("--%s %s: %s was trained with %s", settings_name(i), wanted, path, have);
    *s = stored;
    return true;
}

bool checkpoint_settings(const char *path, const bool *given, settings *s, int64_t *step) {
    clattn_safetensors *file = NULL;
    if (!done(clattn_safetensors_open(path, &file)))
        return false;
    const char *by = clattn_safetensors_metadata(file, "program");
    bool ok = (by && strcmp(by, program) == 0) || complain("%s is no checkpoint of this program", path);
    ok = ok && read_step(path, clattn_safetensors_metadata(file, "step"), step);
    for (size_t i = 0; ok && i < SETTINGS; i++)
        ok = take_setting(file, path, i, given[i], s);
    clattn_safetensors_close(file);
    return ok;
}

static bool read_numbers(weights *file, const char *name, int64_t count, float *to) {
    clattn_array array = {0};
    const bool ok = weights_read(file, name, 1, &count, &array);
    if (ok && count > 0)
        memcpy(to, array.data, array.bytes);
    clattn_array_free(&array);
    return ok;
}

weights *checkpoint_open(clattn_context *context, const char *path, int64_t step, history *h) {
    weights *file = weights_open(context, path, CLATTN_F32);
    if (file && history_grow(h, step) && read_numbers(file, "losses", step, h->losses) &&
        read_numbers(file, "accuracies", step / ACCURACY_STEPS, h->accuracies)) {
        h->step = step;
        return file;
    }
    weights_close(file);
    return NULL;
}
