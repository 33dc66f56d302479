/* SPDX-License-Identifier: Apache-2.0 */
/* Continues a text with a language model of the llama kind, such as SmolLM2, from a GGUF file. */
#include "bpe.h"
#include "bpe_text.h"
#include "complain.h"
#include "files.h"
#include "generate_options.h"
#include "llama.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
    const generate_options *options;
    clattn_gguf *file;
    bpe *tokenizer;
    clattn_context *context;
    llama model;
    bpe_ids ids, forced; /* the prompt and what follows; ids that are to follow, instead of the best */
    size_t prompt, most; /* tokens of the prompt; tokens to generate */
    int32_t ends[3];     /* tokens that end a text, -1 where there are fewer */
    float *logits;       /* [kept, vocabulary]: all steps, or the last */
    size_t kept;
    uint64_t random;
    bool quiet;
    double loaded, first, rest; /* seconds: loading, up to the first token, all others */
    double *steps;              /* of each token */
} generation;

/* ---- beginning ---- */

static int32_t token_of(const clattn_gguf *file, const char *key) {
    int64_t id = -1;
    if (clattn_gguf_metadata_find(file, key, NULL) && clattn_gguf_integer(file, key, &id) == CLATTN_OK)
        return id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
    return -1;
}

/* "504, 3575 282", as the options were checked. */
static bool parse_ids(const char *text, int32_t vocabulary, bpe_ids *ids) {
    for (char *end; *text; text = end) {
        const long id = strtol(text, &end, 10);
        if (id >= vocabulary)
            return complain("--then: \"%.20s\" is no token from 0 to %d", text, vocabulary - 1);
        if (!bpe_push(ids, (int32_t)id))
            return false;
        end += strspn(end, ", ");
    }
    return true;
}

static bool read_prompt(generation *g) {
    const generate_options *o = g->options;
    const int64_t context = g->model.shape.context;
    size_t length = o->prompt ? strlen(o->prompt) : 0;
    char *text = o->prompt_file ? read_path(o->prompt_file, &length) : NULL;
    if (o->prompt_file && !text)
        return false;
    const bool good = bpe_encode(g->tokenizer, text ? text : o->prompt, length, &g->ids);
    free(text);
    if (!good)
        return false;
    g->prompt = g->ids.count;
    if (g->prompt == 0)
        return complain("the prompt is empty, and the model has no token to begin with");
    if (g->prompt > (size_t)context)
        return complain("the prompt has %zu tokens, and the model's context %lld", g->prompt, (long long)context);
    const size_t room = (size_t)context - g->prompt + 1; /* the last token need not be read again */
    g->most = o->count < room ? o->count : room;
    return !o->then || parse_ids(o->then, bpe_count(g->tokenizer), &g->forced);
}

static bool begin(generation *g) {
    const generate_options *o = g->options;
    llama_shape shape;
    const double start = seconds();
    if (!done(clattn_gguf_open(o->model, &g->file)) || !llama_read_shape(g->file, &shape) ||
        !(g->tokenizer = bpe_create(g->file)))
        return false;
    if (bpe_count(g->tokenizer) != shape.vocabulary)
        return complain("%d tokens, and embeddings of %lld", bpe_count(g->tokenizer), (long long)shape.vocabulary);
    g->model.shape = shape;
    g->ends[0] = token_of(g->file, "tokenizer.ggml.eos_token_id");
    g->ends[1] = token_of(g->file, "tokenizer.ggml.eot_token_id");
    g->ends[2] = bpe_find(g->tokenizer, "<|endoftext|>");
    const clattn_context_options profile = {.profile = o->profile};
    if (!read_prompt(g) || !done(clattn_context_create(o->device, &profile, &g->context)))
        return false;
    const int64_t slots = (int64_t)(g->prompt + (g->most > 0 ? g->most - 1 : 0));
    if (!llama_load(&g->model, g->context, g->file, &shape, o->storage, slots, !o->no_cache))
        return false;
    g->kept = o->logits ? g->most + 1 : 1;
    g->logits = malloc(g->kept * (size_t)shape.vocabulary * sizeof *g->logits);
    g->steps = calloc(g->most + 1, sizeof *g->steps);
    g->loaded = seconds() - start;
    return (g->logits && g->steps) || complain("out of memory for the logits of %zu tokens", g->kept);
}

/* ---- one token ---- */

static int32_t best_of(const float *logits, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* One of them at random, by softmax(logits / temperature). Source of the numbers: Steele et al. 2014, SplitMix64. */
static int32_t sample(generation *g, const float *logits, int64_t count) {
    const double largest = (double)logits[best_of(logits, count)], t = g->options->temperature;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += exp(((double)logits[i] - largest) / t);
    uint64_t x = g->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    double left = (double)((x ^ x >> 31) >> 11) * 0x1p-53 * sum;
    for (int64_t i = 0; i < count; i++) {
        left -= exp(((double)logits[i] - largest) / t);
        if (left < 0)
            return (int32_t)i;
    }
    return best_of(logits, count);
}

static bool is_end(const generation *g, int32_t id) { return id == g->ends[0] || id == g->ends[1] || id == g->ends[2]; }

/* The largest, after the step's number: "3: 7042 17.371257 260 14.888587". */
static void print_top(const generation *g, size_t step, const float *logits) {
    const int64_t count = g->model.shape.vocabulary;
    float below = INFINITY;
    int64_t last = -1;
    printf("%zu:", step);
    for (size_t k = 0; k < g->options->top && k < (size_t)count; k++) {
        int64_t best = -1; /* the largest after the last one in order */
        for (int64_t i = 0; i < count; i++)
            if ((logits[i] < below || (logits[i] == below && i > last)) && (best < 0 || logits[i] > logits[best]))
                best = i;
        if (best < 0)
            break; /* NaN */
        printf(" %lld %.6f", (long long)best, (double)logits[best]);
        below = logits[best], last = best;
    }
    putchar('\n');
}

static void show(const generation *g, bpe_stream *stream, size_t step, const float *logits, int32_t id) {
    size_t length;
    if (g->quiet)
        return;
    if (g->options->top > 0) {
        print_top(g, step, logits);
    } else if (g->options->ids) {
        printf(" %d", id);
    } else if (!is_end(g, id)) {
        const char *bytes = bpe_bytes(g->tokenizer, id, &length);
        bpe_stream_put(stream, bytes, length, stdout);
    }
    fflush(stdout);
}

/* ---- all of them ---- */

static bool generate(generation *g) {
    const bool cached = !g->options->no_cache;
    const int64_t vocabulary = g->model.shape.vocabulary;
    bpe_stream stream = {.count = 0};
    const double begun = seconds();
    double last = begun;
    g->ids.count = g->prompt;
    g->model.length = 0;
    g->random = g->options->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    if (g->options->ids && g->options->top == 0 && !g->quiet)
        printf("ids:");
    for (size_t step = 0; step < g->most; step++) {
        float *logits = g->logits + (g->kept > 1 ? step * (size_t)vocabulary : 0);
        const int64_t done_before = g->model.length, count = (int64_t)g->ids.count;
        if (!(cached ? llama_append(&g->model, g->ids.at + done_before, count - done_before, logits)
                     : llama_recompute(&g->model, g->ids.at, count, logits)))
            return false;
        const int32_t id = step < g->forced.count        ? g->forced.at[step]
                           : g->options->temperature > 0 ? sample(g, logits, vocabulary)
                                                         : best_of(logits, vocabulary);
        if (!bpe_push(&g->ids, id))
            return false;
        show(g, &stream, step, logits, id);
        const double now = seconds();
        g->steps[step] = now - last;
        last = now;
        if (is_end(g, id) && step + 1 >= g->forced.count)
            break;
    }
    bpe_stream_end(&stream, stdout);
    if (g->options->top == 0 && !g->quiet)
        putchar('\n');
    g->first = g->steps[0];
    g->rest = last - begun - g->first;
    return true;
}

/* The last time is the one that is shown; the shortest times count. */
static bool generate_repeatedly(generation *g) {
    double first = INFINITY, rest = INFINITY;
    for (size_t i = 0; i < g->options->repeat; i++) {
        g->quiet = i + 1 < g->options->repeat;
        if (!generate(g))
            return false;
        first = fmin(first, g->first);
        rest = fmin(rest, g->rest);
    }
    g->first = first;
    g->rest = rest;
    return true;
}

/* ---- what it took ---- */

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The most memory that this process has had, in MB; 0 where the system does not tell. */
static double resident_peak(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    double kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtod(line + 6, NULL);
    if (file)
        fclose(file);
    return kib * 1024e-6;
}

static bool report(generation *g) {
    const size_t count = g->ids.count - g->prompt, after = count > 0 ? count - 1 : 0;
    const llama *m = &g->model;
    uint64_t now, peak;
    if (count == 0)
        return true;
    fprintf(stderr, "prompt: %zu tokens in %.3f s", g->prompt, g->first);
    if (after > 0)
        fprintf(stderr, "; then %zu in %.3f s: %.1f tokens per second", after, g->rest, (double)after / g->rest);
    fputc('\n', stderr);
    if (!g->options->verbose)
        return true;
    if (after > 0) {
        qsort(g->steps + 1, after, sizeof *g->steps, by_value);
        fprintf(stderr, "a token: median %.2f ms, least %.2f ms\n", 1e3 * g->steps[1 + after / 2], 1e3 * g->steps[1]);
    }
    clattn_context_memory(g->context, &now, &peak);
    fprintf(stderr,
            "loaded in %.2f s; device memory at most %.1f MB, %.3f times weights (%.1f MB) and cache (%.1f MB, %lld "
            "tokens)\n",
            g->loaded, (double)peak * 1e-6, (double)peak / (double)(m->weight_bytes + m->cache_bytes),
            (double)m->weight_bytes * 1e-6, (double)m->cache_bytes * 1e-6, (long long)m->slots);
    const double resident = resident_peak();
    if (resident > 0)
        fprintf(stderr, "resident memory at most %.1f MB\n", resident);
    return true;
}

static bool report_profile(generation *g) {
    clattn_profile_entry entries[32];
    size_t count = 0;
    if (!g->options->profile)
        return true;
    if (!done(clattn_context_profile(g->context, entries, 32, &count)))
        return false;
    for (size_t i = 0; i < count && i < 32; i++)
        fprintf(stderr, "%-20s %6llu times %9.3f ms, %8.4f each\n", entries[i].name,
                (unsigned long long)entries[i].count, entries[i].total_ms,
                entries[i].total_ms / (double)entries[i].count);
    return true;
}

static bool write_logits(const generation *g) {
    const int64_t count = (int64_t)(g->ids.count - g->prompt), vocabulary = g->model.shape.vocabulary;
    const size_t size = sizeof *g->ids.at;
    const clattn_named_array arrays[] = {
        {"prompt_ids", {CLATTN_I32, 1, {(int64_t)g->prompt}, g->ids.at, g->prompt * size}},
        {"ids", {CLATTN_I32, 1, {count}, g->ids.at + g->prompt, (size_t)count * size}},
        {"logits", {CLATTN_F32, 2, {count, vocabulary}, g->logits, (size_t)count * (size_t)vocabulary * sizeof(float)}},
    };
    return !g->options->logits || done(clattn_safetensors_write(g->options->logits, arrays, 3, NULL, 0));
}

int main(int argc, char **argv) {
    generate_options options;
    const int status = generate_options_parse(argc, argv, &options);
    if (status >= 0)
        return status;
    generation g = {.options = &options};
    bool good = begin(&g);
    if (good && options.ids) {
        printf("prompt:");
        for (size_t i = 0; i < g.prompt; i++)
            printf(" %d", g.ids.at[i]);
        putchar('\n');
    }
    good = good && generate_repeatedly(&g) && report(&g) && report_profile(&g) && write_logits(&g);
    if (good && (fflush(stdout) != 0 || ferror(stdout)))
        good = complain("the output cannot be written");
    llama_free(&g.model);
    clattn_context_destroy(g.context);
    bpe_destroy(g.tokenizer);
    clattn_gguf_close(g.file);
    free(g.ids.at);
    free(g.forced.at);
    free(g.logits);
    free(g.steps);
    return good ? 0 : 1;
}
