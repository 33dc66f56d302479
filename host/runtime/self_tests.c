/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts of self-tests: a list in the context, and an entry each in the cache on disk, whose note is what was wrong.
 */
#include "runtime/self_tests.h"

#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"
#include "runtime/disk_cache.h"
#include "runtime/kernel.h"
#include "runtime/state.h"
#include <stdio.h>
#include <string.h>

enum { FOUND = 400 };

struct cla_verdict {
    cla_verdict *next;
    char *what;
    char found[FOUND]; /* "" where all was right */
};

bool cla_self_tests_on(const clattn_context *context) { return context->self_tests; }

void cla_verdicts_destroy(clattn_context *context) {
    while (context->verdicts) {
        cla_verdict *v = context->verdicts;
        context->verdicts = v->next;
        cla_free(v->what);
        cla_free(v);
    }
}

/* What names the entry on disk: another driver, or other kernels, have to be tested again. false: none is kept. */
static bool disk_key(clattn_context *context, const char *what, cla_str *key) {
    unsigned char digest[CLA_SHA256_BYTES];
    cla_sha256 hash;
    if (!context->cache_folder || !cla_program_disk_device(context, key))
        return false;
    cla_sha256_begin(&hash);
    for (const cla_source *s = cla_sources; s->name; s++)
        cla_sha256_add(&hash, s->text, s->bytes);
    cla_sha256_end(&hash, digest);
    for (int i = 0; i < CLA_SHA256_BYTES; i++)
        cla_str_append(key, "%02x", digest[i]);
    cla_str_append(key, "\nself-test\n%s", what);
    return !key->failed;
}

/* The lock is not held. */
static bool known(clattn_context *context, const char *what, char found[FOUND]) {
    pthread_mutex_lock(&context->lock);
    const cla_verdict *v = context->verdicts;
    while (v && strcmp(v->what, what) != 0)
        v = v->next;
    if (v)
        memcpy(found, v->found, FOUND);
    pthread_mutex_unlock(&context->lock);
    return v != NULL;
}

static void remember(clattn_context *context, const char *what, const char *found) {
    cla_verdict *v = NULL;
    const size_t bytes = strlen(what) + 1;
    if (cla_alloc(1, sizeof *v, "verdict", &v) != CLATTN_OK || cla_alloc(bytes, 1, "verdict", &v->what) != CLATTN_OK) {
        cla_free(v); /* it is found out again */
        return;
    }
    memcpy(v->what, what, bytes);
    snprintf(v->found, FOUND, "%s", found);
    pthread_mutex_lock(&context->lock);
    v->next = context->verdicts;
    context->verdicts = v;
    pthread_mutex_unlock(&context->lock);
}

static bool load(const clattn_context *context, const cla_str *key, char found[FOUND]) {
    cla_disk_entry entry;
    const bool there = cla_disk_load(context->cache_folder, cla_str_text(key), &entry);
    if (there)
        snprintf(found, FOUND, "%s", entry.note);
    cla_disk_entry_free(&entry);
    return there;
}

static clattn_status verdict(const clattn_context *context, const char *what, const char *found) {
    if (!*found)
        return CLATTN_OK;
    return cla_error(CLATTN_E_VERIFY,
                     "self-test of %s: %s, on %.80s, driver %.40s; update the driver or take another algorithm "
                     "(CLATTN_SELF_TEST=off goes on all the same)",
                     what, found, context->info.name, context->info.driver);
}

clattn_status cla_self_test_once(clattn_context *context, const char *what,
                                 clattn_status (*test)(clattn_context *context, const void *data), const void *data) {
    clattn_status status = CLATTN_OK;
    cla_str key = {0};
    char found[FOUND] = "";
    if (!context->self_tests || known(context, what, found))
        return verdict(context, what, found);
    const bool on_disk = disk_key(context, what, &key);
    bool is_verdict = true;
    if (!on_disk || !load(context, &key, found)) {
        status = test(context, data);
        is_verdict = status == CLATTN_OK || status == CLATTN_E_VERIFY;
        if (status == CLATTN_E_VERIFY || status == CLATTN_E_OPENCL || status == CLATTN_E_CLBLAST)
            snprintf(found, FOUND, "%s", clattn_last_error());
        if (is_verdict && on_disk)
            cla_disk_store(context->cache_folder, cla_str_text(&key), found, "", 0);
    }
    if (is_verdict)
        remember(context, what, found);
    if (is_verdict || *found)
        status = verdict(context, what, found);
    cla_str_free(&key);
    return status;
}
