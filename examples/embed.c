/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences to vectors with a real model, all-MiniLM-L6-v2: tokens, encoder, mean, and how alike the sentences are.
 *   tools/fetch_models.sh build/models minilm
 *   build/examples/embed -m build/models/minilm -f texts.txt --out embeddings.npy */
#define _POSIX_C_SOURCE 200809L
#include "bert.h"
#include "complain.h"
#include "texts.h"
#include "wordpiece.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: embed -m FOLDER [-f TEXTS] [OPTION...]\n"
    "  -m FOLDER        the model: config.json, vocab.txt, model.safetensors (tools/fetch_models.sh)\n"
    "  -f TEXTS         a file with a text a line, or X.json: an array of strings; without: the standard input\n"
    "  --out X.npy      writes the embeddings [texts, dims] in f32\n"
    "  --json           prints texts, tokens and embeddings as JSON, in place of the table of similarities\n"
    "  --ids            prints token ids, a text a line, and does no more\n"
    "  --device D       opencl, cpu, ... (clattn devices); without: the best there is\n"
    "  --dtype f32|f16  how weights are stored\n"
    "  --batch N        at most so many texts at once (32)\n"
    "  --stages X.safetensors   writes the states of the first text after each layer\n"
    "  --repeat N       does it N times and tells the shortest time\n";

typedef struct options {
    const char *model, *texts, *out, *device, *stages;
    clattn_dtype dtype;
    bool json, ids, help;
    int64_t batch, repeat;
} options;

typedef struct entry {
    size_t index; /* of the text */
    int64_t length;
    int32_t *ids;
} entry;

/* ---- options ---- */

static bool take_count(const char *name, const char *value, int64_t *count) {
    char *end = NULL;
    *count = strtoll(value, &end, 10);
    return (*end == 0 && *count >= 1 && *count <= 1000000) ||
           complain("%s takes a number from 1 to 1000000, not %s", name, value);
}

static bool take_option(options *o, const char *name, const char *value) {
    const struct {
        const char *name;
        const char **text;
    } named[] = {
        {"-m", &o->model}, {"-f", &o->texts}, {"--out", &o->out}, {"--device", &o->device}, {"--stages", &o->stages}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(name, named[i].name) == 0) {
            *named[i].text = value;
            return true;
        }
    if (strcmp(name, "--batch") == 0)
        return take_count(name, value, &o->batch);
    if (strcmp(name, "--repeat") == 0)
        return take_count(name, value, &o->repeat);
    if (strcmp(name, "--dtype") != 0)
        return complain("%s is no option; --help tells them", name);
    o->dtype = strcmp(value, "f16") == 0 ? CLATTN_F16 : CLATTN_F32;
    return o->dtype == CLATTN_F16 || strcmp(value, "f32") == 0 || complain("--dtype is f32 or f16, not %s", value);
}

static bool take_options(int argc, char **argv, options *o) {
    *o = (options){.batch = 32, .repeat = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            o->json = true;
        else if (strcmp(argv[i], "--ids") == 0)
            o->ids = true;
        else if (strcmp(argv[i], "--help") == 0)
            o->help = true;
        else if (i + 1 == argc)
            return complain("%s is no option, or lacks its value; --help tells them", argv[i]);
        else if (!take_option(o, argv[i], argv[i + 1]))
            return false;
        else
            i++;
    }
    return o->help || o->model || complain("-m FOLDER is missing; --help tells the options");
}

/* ---- tokens ---- */

static int longest_first(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return x->length != y->length ? (x->length < y->length) - (x->length > y->length)
                                  : (x->index > y->index) - (x->index < y->index);
}

static bool encode_text(const wordpiece *words, const text *t, size_t index, int64_t limit, entry *e) {
    size_t bad = 0;
    e->index = index;
    e->ids = malloc((size_t)limit * sizeof *e->ids);
    if (!e->ids)
        return complain("out of memory");
    e->length = wordpiece_encode(words, t->bytes, t->count, e->ids, limit, &bad);
    return e->length > 0 || complain("text %zu is not UTF-8: its byte %zu", index + 1, bad + 1);
}

static void print_ids(const entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < entries[i].length; j++)
            printf("%s%d", j > 0 ? " " : "", (int)entries[i].ids[j]);
        putchar('\n');
    }
}

/* ---- embeddings ---- */

/* Entries of one batch, the longest first, padded to its length. */
static bool embed_batch(bert *b, const entry *entries, int64_t B, float *out) {
    const int64_t N = entries[0].length, E = bert_width(b);
    int32_t *ids = calloc((size_t)(B * N), sizeof *ids); /* [PAD] is 0; what it is does not matter */
    int64_t *lengths = malloc((size_t)B * sizeof *lengths);
    float *means = malloc((size_t)(B * E) * sizeof *means);
    bool ok = (ids && lengths && means) || complain("out of memory");
    for (int64_t i = 0; ok && i < B; i++) {
        lengths[i] = entries[i].length;
        memcpy(ids + i * N, entries[i].ids, (size_t)lengths[i] * sizeof *ids);
    }
    ok = ok && bert_embed(b, B, N, ids, lengths, means);
    for (int64_t i = 0; ok && i < B; i++)
        memcpy(out + (int64_t)entries[i].index * E, means + i * E, (size_t)E * sizeof *out);
    free(ids);
    free(lengths);
    free(means);
    return ok;
}

static bool embed_all(bert *b, const entry *sorted, size_t count, int64_t batch, float *out) {
    for (size_t i = 0; i < count; i += (size_t)batch) {
        const size_t left = count - i;
        if (!embed_batch(b, sorted + i, left < (size_t)batch ? (int64_t)left : batch, out))
            return false;
    }
    return true;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool embed_repeatedly(bert *b, const entry *sorted, size_t count, const options *o, float *out) {
    double shortest = 0;
    int64_t tokens = 0;
    for (size_t i = 0; i < count; i++)
        tokens += sorted[i].length;
    for (int64_t i = 0; i < o->repeat; i++) {
        const double start = seconds();
        if (!embed_all(b, sorted, count, o->batch, out))
            return false;
        const double time = seconds() - start;
        shortest = i == 0 || time < shortest ? time : shortest;
    }
    if (o->repeat > 1)
        fprintf(stderr, "%zu texts, %lld tokens: %.1f ms, the shortest of %lld\n", count, (long long)tokens,
                1e3 * shortest, (long long)o->repeat);
    return true;
}

/* ---- output ---- */

/* At most 48 characters, without control characters. */
static void print_start(const text *t) {
    int characters = 0;
    for (size_t i = 0; i < t->count; i++) {
        const unsigned char c = (unsigned char)t->bytes[i];
        characters += (c & 0xC0) != 0x80;
        if (characters > 48) {
            fputs("...", stdout);
            break;
        }
        putchar(c < ' ' || c == 0x7F ? ' ' : c);
    }
    putchar('\n');
}

/* Cosines of the first texts, which are products of vectors of unit length. */
static void print_table(const texts *t, const float *embeddings, int64_t E) {
    const size_t limit = 8, n = t->count < limit ? t->count : limit;
    printf("    ");
    for (size_t j = 0; j < n; j++)
        printf(" %9zu", j + 1);
    putchar('\n');
    for (size_t i = 0; i < n; i++) {
        printf("%4zu", i + 1);
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t e = 0; e < E; e++)
                sum += (double)embeddings[(int64_t)i * E + e] * (double)embeddings[(int64_t)j * E + e];
            printf(" %9.6f", sum);
        }
        printf("  ");
        print_start(&t->items[i]);
    }
    if (n < t->count)
        printf("(the first %zu of %zu texts)\n", n, t->count);
}

static bool print_json(const texts *t, const entry *entries, const float *embeddings, int64_t E) {
    puts("[");
    for (size_t i = 0; i < t->count; i++) {
        char *quoted = texts_quoted(&t->items[i]);
        if (!quoted)
            return false;
        printf("{\"text\": %s, \"ids\": [", quoted);
        free(quoted);
        for (int64_t j = 0; j < entries[i].length; j++)
            printf("%s%d", j > 0 ? ", " : "", (int)entries[i].ids[j]);
        printf("], \"embedding\": [");
        for (int64_t e = 0; e < E; e++)
            printf("%s%.9g", e > 0 ? ", " : "", (double)embeddings[(int64_t)i * E + e]);
        puts(i + 1 < t->count ? "]}," : "]}");
    }
    puts("]");
    return true;
}

static bool give(const options *o, const texts *t, const entry *entries, float *embeddings, int64_t E) {
    const clattn_array array = {.dtype = CLATTN_F32,
                                .rank = 2,
                                .shape = {(int64_t)t->count, E},
                                .data = embeddings,
                                .bytes = t->count * (size_t)E * sizeof *embeddings};
    if (o->out && !done(clattn_npy_write(o->out, &array)))
        return false;
    if (o->json)
        return print_json(t, entries, embeddings, E);
    print_table(t, embeddings, E);
    return true;
}

/* ---- all of it ---- */

static bool run_model(const options *o, const texts *t, const entry *entries, size_t vocabulary) {
    clattn_context *context = NULL;
    bert *b = NULL;
    float *embeddings = NULL;
    entry *sorted = malloc(t->count * sizeof *sorted + 1);
    bool ok = (sorted || complain("out of memory")) && done(clattn_context_create(o->device, NULL, &context)) &&
              (b = bert_open(context, o->model, o->dtype));
    if (ok)
        ok = (int64_t)vocabulary <= bert_vocabulary(b) ||
             complain("vocab.txt has %zu tokens, and the model has embeddings of %lld", vocabulary,
                      (long long)bert_vocabulary(b));
    if (ok) {
        embeddings = calloc(t->count * (size_t)bert_width(b) + 1, sizeof *embeddings);
        ok = embeddings || complain("out of memory");
    }
    if (ok) {
        if (t->count > 0)
            memcpy(sorted, entries, t->count * sizeof *sorted);
        qsort(sorted, t->count, sizeof *sorted, longest_first);
        ok = embed_repeatedly(b, sorted, t->count, o, embeddings);
    }
    if (ok && o->stages)
        ok = (t->count > 0 || complain("--stages needs a text")) &&
             bert_write_stages(b, entries[0].length, entries[0].ids, o->stages);
    ok = ok && give(o, t, entries, embeddings, bert_width(b));
    bert_close(b);
    clattn_context_destroy(context);
    free(embeddings);
    free(sorted);
    return ok;
}

static bool run(const options *o) {
    char path[4096];
    texts t = {0};
    entry *entries = NULL;
    int64_t limit = 0;
    snprintf(path, sizeof path, "%s/vocab.txt", o->model);
    wordpiece *words = wordpiece_open(path);
    bool ok = words && bert_token_limit(o->model, &limit) && texts_read(o->texts, &t);
    if (ok) {
        entries = calloc(t.count + 1, sizeof *entries);
        ok = entries || complain("out of memory");
    }
    for (size_t i = 0; ok && i < t.count; i++)
        ok = encode_text(words, &t.items[i], i, limit, &entries[i]);
    if (ok && o->ids)
        print_ids(entries, t.count);
    else if (ok)
        ok = run_model(o, &t, entries, wordpiece_count(words));
    for (size_t i = 0; entries && i < t.count; i++)
        free(entries[i].ids);
    free(entries);
    texts_free(&t);
    wordpiece_close(words);
    return ok;
}

int main(int argc, char **argv) {
    options o;
    if (!take_options(argc, argv, &o))
        return 1;
    if (o.help) {
        fputs(usage, stdout);
        return 0;
    }
    if (!run(&o))
        return 1;
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : (complain("the output cannot be written"), 1);
}
