/* SPDX-License-Identifier: Apache-2.0 */
#include "generate_options.h"

#include "complain.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: generate -m MODEL.gguf (-p PROMPT | -f FILE) [options]\n"
    "\n"
    "Continues a text with a language model of the llama kind. Tokens are printed as they come, speed at the end.\n"
    "\n"
    "  -m FILE           the model\n"
    "  -p TEXT, -f FILE  the text to continue, or a file with it\n"
    "  -n N              at most so many tokens (128)\n"
    "  --greedy          always the most likely token (the default)\n"
    "  --temperature T   tokens at random, by softmax(logits / T)\n"
    "  --seed S          another series of random tokens (0)\n"
    "  --weights KIND    on the device: stored (as in the file; the default), f32 or f16\n"
    "  --no-cache        compute all tokens anew for each one\n"
    "  --device D        opencl, opencl:gpu, opencl:0:0, cpu\n"
    "  --ids             print tokens as numbers: a line of the prompt's, a line of those that follow\n"
    "  --top N           print the N largest logits of each step instead\n"
    "  --logits FILE     write a safetensors file: prompt_ids, ids, and the logits of each step\n"
    "  --then IDS        tokens that follow, whatever the model says: \"7042, 30\"\n"
    "  --repeat N        does it N times and tells the shortest times\n"
    "  --verbose         memory and times; --profile: times of kernels\n";

typedef enum { FLAG, TEXT, WHOLE, REAL } kind;

typedef struct {
    const char *name;
    kind kind;
    void *to; /* bool, const char *, size_t or double */
} option;

static bool parse_number(const option *o, const char *text) {
    char *end = NULL;
    errno = 0;
    if (o->kind == WHOLE) {
        const long long n = strtoll(text, &end, 10);
        if (n >= 0 && n <= 1000000000)
            *(size_t *)o->to = (size_t)n;
        else
            errno = ERANGE;
    } else {
        const double x = strtod(text, &end);
        if (x >= 0 && isfinite(x))
            *(double *)o->to = x;
        else
            errno = ERANGE;
    }
    return (end != text && !*end && errno == 0) || complain("%s: \"%s\" is no such number", o->name, text);
}

static bool parse_storage(const char *text, llama_storage *storage) {
    static const char *const names[] = {[LLAMA_STORED] = "stored", [LLAMA_F32] = "f32", [LLAMA_F16] = "f16"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], text) == 0) {
            *storage = (llama_storage)i;
            return true;
        }
    return complain("--weights: \"%s\" is none of stored, f32, f16", text);
}

/* Whole numbers with a comma, spaces or both between them. */
static bool are_ids(const char *text) {
    const char *at = text;
    for (bool more = true; more;) {
        at += strspn(at, " ");
        const size_t digits = strspn(at, "0123456789");
        if (digits == 0)
            return complain("--then: \"%.60s\" is no list of tokens, such as \"7042, 30\"", text);
        at += digits;
        at += strspn(at, " ");
        more = *at != '\0';
        at += *at == ',';
    }
    return true;
}

/* argv[*i], with the word behind it where it takes one. */
static bool take(const option *list, size_t count, int argc, char **argv, int *i) {
    const option *o = NULL;
    for (size_t k = 0; k < count; k++)
        if (strcmp(list[k].name, argv[*i]) == 0)
            o = &list[k];
    if (!o)
        return complain("what is \"%.60s\"? generate --help tells", argv[*i]);
    if (o->kind == FLAG) {
        *(bool *)o->to = true;
        return true;
    }
    if (*i + 1 == argc)
        return complain("%s: nothing follows it", o->name);
    const char *word = argv[++*i];
    if (o->kind != TEXT)
        return parse_number(o, word);
    *(const char **)o->to = word;
    return true;
}

int generate_options_parse(int argc, char **argv, generate_options *out) {
    const char *weights = "stored";
    bool greedy = false, help = false;
    size_t seed = 0;
    *out = (generate_options){.count = 128, .repeat = 1};
    const option list[] = {{"-m", TEXT, &out->model},
                           {"-p", TEXT, &out->prompt},
                           {"-f", TEXT, &out->prompt_file},
                           {"-n", WHOLE, &out->count},
                           {"--greedy", FLAG, &greedy},
                           {"--temperature", REAL, &out->temperature},
                           {"--seed", WHOLE, &seed},
                           {"--weights", TEXT, &weights},
                           {"--no-cache", FLAG, &out->no_cache},
                           {"--device", TEXT, &out->device},
                           {"--ids", FLAG, &out->ids},
                           {"--top", WHOLE, &out->top},
                           {"--logits", TEXT, &out->logits},
                           {"--then", TEXT, &out->then},
                           {"--verbose", FLAG, &out->verbose},
                           {"--profile", FLAG, &out->profile},
                           {"--repeat", WHOLE, &out->repeat},
                           {"--help", FLAG, &help}};
    for (int i = 1; i < argc; i++)
        if (!take(list, sizeof list / sizeof *list, argc, argv, &i))
            return 1;
    if (help || argc == 1) {
        fputs(usage, help ? stdout : stderr);
        return help ? 0 : 1;
    }
    out->seed = seed;
    if (out->then && !are_ids(out->then))
        return 1;
    if (!parse_storage(weights, &out->storage))
        return 1;
    if (!out->model || !out->prompt == !out->prompt_file)
        return complain("generate needs -m FILE.gguf, and one of -p and -f"), 1;
    if (out->repeat == 0)
        return complain("--repeat: 0 times is nothing"), 1;
    if (greedy && out->temperature > 0)
        return complain("--greedy and --temperature: give one"), 1;
    return -1;
}
