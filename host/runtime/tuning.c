/* SPDX-License-Identifier: Apache-2.0 */
/* A context's record: read once, changed by clattn_tuning_set, merged into the file by clattn_tuning_save. */
#include "runtime/tuning.h"

#include "base/mem.h"
#include "runtime/state.h"
#include "runtime/tuning_file.h"
#include <clattn/tune.h>
#include <stdio.h>
#include <string.h>

struct cla_tuning {
    char device[800]; /* what tells it from others: results of one say nothing about another */
    cla_tuning_record record;
    unsigned changes;
};

static void identify(const clattn_device_info *info, char *text, size_t size) {
    snprintf(text, size, "%s | %s | %s | %s | %u units", info->platform, info->name, info->driver, info->version,
             info->compute_units);
    for (char *at = text; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

/* The lock is held. A file that cannot be read is as if it were not there, and said among what was passed over. */
static clattn_status load(clattn_context *context, cla_tuning **out) {
    clattn_status status = CLATTN_OK;
    cla_tuning *t = NULL;
    if (context->tuning)
        goto done;
    CLA_TRY(cla_alloc(1, sizeof *t, "tuner's record", &t));
    identify(&context->info, t->device, sizeof t->device);
    if (context->tuning_file && cla_tuning_read(context->tuning_file, t->device, &t->record) != CLATTN_OK) {
        cla_tuning_record_free(&t->record);
        cla_str_append(&t->record.skipped, "all: %s\n", clattn_last_error());
        t->record.skipped_count = 1;
    }
    context->tuning = t;
done:
    *out = context->tuning;
    return status;
}

void cla_tuning_destroy(clattn_context *context) {
    if (context->tuning)
        cla_tuning_record_free(&context->tuning->record);
    cla_free(context->tuning);
    cla_free(context->tuning_file);
}

bool cla_tuning_find(clattn_context *context, const char *key, cla_tuned *found) {
    cla_tuning *t = NULL;
    pthread_mutex_lock(&context->lock);
    const cla_tuning_entry *e = load(context, &t) == CLATTN_OK ? cla_tuning_look(&t->record, key) : NULL;
    if (e) {
        snprintf(found->value, sizeof found->value, "%s", e->value);
        found->ms = e->ms;
        found->default_ms = e->default_ms;
    }
    pthread_mutex_unlock(&context->lock);
    return e != NULL;
}

unsigned cla_tuning_changes(clattn_context *context) {
    pthread_mutex_lock(&context->lock);
    const unsigned changes = context->tuning ? context->tuning->changes : 0;
    pthread_mutex_unlock(&context->lock);
    return changes;
}

size_t cla_tuning_skipped_count(clattn_context *context) {
    pthread_mutex_lock(&context->lock);
    const size_t count = context->tuning ? context->tuning->record.skipped_count : 0;
    pthread_mutex_unlock(&context->lock);
    return count;
}

/* ---- clattn/tune.h ---- */

clattn_status clattn_tuning_set(clattn_context *context, const clattn_tuned *entry) {
    cla_tuning *t = NULL;
    if (!context || !entry)
        return cla_error(CLATTN_E_ARGUMENT, "tuning_set: %s is NULL", context ? "entry" : "context");
    clattn_status status = CLA_RESERVED(clattn_tuned, entry);
    if (status != CLATTN_OK)
        return status;
    pthread_mutex_lock(&context->lock);
    status = load(context, &t);
    if (status == CLATTN_OK)
        status = cla_tuning_put(&t->record, entry->key, entry->value, entry->ms, entry->default_ms);
    if (status == CLATTN_OK)
        t->changes++;
    pthread_mutex_unlock(&context->lock);
    clattn_context_trim(context); /* plans that the one call keeps followed the record as it was */
    return status;
}

/* What the file holds by now, with this context's changes over it. */
static clattn_status merge(const cla_tuning *t, const char *path, cla_tuning_record *merged) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(cla_tuning_read(path, t->device, merged));
    for (size_t i = 0; i < t->record.count; i++) {
        const cla_tuning_entry *e = &t->record.entries[i];
        if (e->changed)
            CLA_TRY(cla_tuning_put(merged, e->key, e->value, e->ms, e->default_ms));
    }
done:
    return status;
}

clattn_status clattn_tuning_save(clattn_context *context, const char *path) {
    clattn_status status = CLATTN_OK;
    cla_tuning *t = NULL;
    cla_tuning_record merged = {0};
    cla_tuning_lock lock = {.fd = -1};
    bool locked = false;
    CLA_CHECK(context, CLATTN_E_ARGUMENT, "tuning_save: context is NULL");
    const char *to = path ? path : context->tuning_file;
    CLA_CHECK(to && *to, CLATTN_E_ARGUMENT,
              "tuning_save: there is no file to write: CLATTN_TUNING_FILE, or CLATTN_CACHE_DIR without it, says so");
    CLA_TRY(cla_tuning_lock_take(to, &lock)); /* others may hold it: the context goes on meanwhile */
    pthread_mutex_lock(&context->lock);
    locked = true;
    CLA_TRY(load(context, &t));
    CLA_TRY(merge(t, to, &merged));
    CLA_TRY(cla_tuning_write(to, t->device, &merged));
done:
    if (locked)
        pthread_mutex_unlock(&context->lock);
    cla_tuning_lock_give(&lock);
    cla_tuning_record_free(&merged);
    return status;
}

const char *clattn_tuning_file(const clattn_context *context) {
    return context && context->tuning_file ? context->tuning_file : "";
}

bool clattn_tuning_entry(clattn_context *context, size_t index, clattn_tuned *entry) {
    cla_tuning *t = NULL;
    bool found = false;
    if (!context || !entry)
        return false;
    pthread_mutex_lock(&context->lock);
    if (load(context, &t) == CLATTN_OK)
        for (size_t i = 0; i < t->record.count && !found; i++) {
            const cla_tuning_entry *e = &t->record.entries[i];
            found = e->value && index-- == 0;
            if (found)
                *entry = (clattn_tuned){.key = e->key, .value = e->value, .ms = e->ms, .default_ms = e->default_ms};
        }
    pthread_mutex_unlock(&context->lock);
    return found;
}

const char *clattn_tuning_skipped(clattn_context *context) {
    cla_tuning *t = NULL;
    const char *text = "";
    if (!context)
        return text;
    pthread_mutex_lock(&context->lock);
    if (load(context, &t) == CLATTN_OK)
        text = cla_str_text(&t->record.skipped);
    pthread_mutex_unlock(&context->lock);
    return text;
}
