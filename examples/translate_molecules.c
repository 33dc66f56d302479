/* SPDX-License-Identifier: Apache-2.0 */
/* Molecules to similar ones with a real encoder-decoder, ANNalog: the decoder sees the whole source through cross
 * attention, and takes the likeliest token at each step.
 *   tools/fetch_models.sh build/models annalog
 *   build/examples/translate_molecules -m build/models/annalog -s 'CC(=O)Oc1ccccc1C(=O)O' */
#include "annalog.h"
#include "complain.h"
#include "texts.h"

#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: translate_molecules -m FOLDER [-s SMILES | -f FILE] [OPTION...]\n"
                            "  -m FOLDER   the model: vocab.txt, model.safetensors (tools/fetch_models.sh)\n"
                            "  -s SMILES   a molecule\n"
                            "  -f FILE     a molecule a line; without -s and -f: the standard input\n"
                            "  --ids       prints token ids in place of molecules\n"
                            "  --device D  opencl, cpu, ... (clattn devices); without: the best there is\n"
                            "  --dump X.safetensors   writes memory and logits of each molecule: 0/memory [N, E], "
                            "0/logits [tokens, V]\n";

typedef struct options {
    const char *model, *smiles, *file, *device, *dump;
    bool ids, help;
} options;

/* Arrays to write, with their names. */
typedef struct dump {
    clattn_named_array *arrays;
    size_t count;
} dump;

static bool take_options(int argc, char **argv, options *o) {
    *o = (options){0};
    const struct {
        const char *name;
        const char **text;
    } named[] = {
        {"-m", &o->model}, {"-s", &o->smiles}, {"-f", &o->file}, {"--device", &o->device}, {"--dump", &o->dump}};
    const int count = sizeof named / sizeof *named;
    for (int i = 1; i < argc; i++) {
        int k = 0;
        while (k < count && strcmp(argv[i], named[k].name) != 0)
            k++;
        if (strcmp(argv[i], "--help") == 0)
            o->help = true;
        else if (strcmp(argv[i], "--ids") == 0)
            o->ids = true;
        else if (k == count || i + 1 == argc)
            return complain("%s is no option, or lacks its value; --help tells them", argv[i]);
        else
            *named[k].text = argv[++i];
    }
    if (!o->help && o->smiles && o->file)
        return complain("-s and -f: give one");
    return o->help || o->model || complain("-m FOLDER is missing; --help tells the options");
}

/* A named array for the dump, of the molecule's number; NULL after an error. */
static float *dump_add(dump *d, size_t molecule, const char *what, int64_t rows, int64_t columns) {
    clattn_named_array *more = realloc(d->arrays, (d->count + 1) * sizeof *more);
    char *name = malloc(64);
    if (more)
        d->arrays = more;
    if (!more || !name) {
        free(name);
        complain("out of memory");
        return NULL;
    }
    snprintf(name, 64, "%zu/%s", molecule, what);
    clattn_named_array *n = &d->arrays[d->count];
    *n = (clattn_named_array){.name = name};
    if (!done(clattn_array_create(CLATTN_F32, 2, (int64_t[]){rows, columns}, &n->array))) {
        free(name);
        return NULL;
    }
    d->count++;
    return n->array.data;
}

static void dump_free(dump *d) {
    for (size_t i = 0; i < d->count; i++) {
        free((void *)d->arrays[i].name);
        clattn_array_free(&d->arrays[i].array);
    }
    free(d->arrays);
}

static int32_t likeliest(const float *logits, int64_t V) {
    int32_t best = 0;
    for (int32_t i = 1; i < V; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void print_result(const annalog *a, const text *t, const int32_t *ids, int64_t count, bool as_ids) {
    if (!as_ids)
        printf("%s -> ", t->bytes);
    for (int64_t i = 0; i < count; i++) {
        if (as_ids)
            printf("%s%d", i > 0 ? " " : "", (int)ids[i]);
        else if (ids[i] > ANNALOG_END)
            fputs(annalog_token(a, ids[i]), stdout);
    }
    puts(ids[count - 1] == ANNALOG_END ? "" : " (no end within the model's length)");
    fflush(stdout);
}

/* Decodes until the end, or as far as the model can. */
static bool translate(annalog *a, const text *t, size_t number, const options *o, dump *d) {
    int32_t source[ANNALOG_POSITIONS], target[ANNALOG_POSITIONS] = {ANNALOG_START};
    const int64_t V = annalog_vocabulary(a), N = annalog_encode(a, t->bytes, t->count, source);
    float *memory = NULL, *logits = NULL;
    if (N == 0)
        return false;
    for (int64_t i = 0; i < N; i++)
        if (source[i] == ANNALOG_UNKNOWN)
            fprintf(stderr, "note: token %lld of %s is not in the vocabulary\n", (long long)i, t->bytes);
    float *all = malloc((size_t)(ANNALOG_POSITIONS * V) * sizeof *all);
    bool ok = all || complain("out of memory");
    if (ok && o->dump)
        ok = (memory = dump_add(d, number, "memory", N, annalog_width(a))) != NULL;
    ok = ok && annalog_read(a, source, N, memory);
    int64_t count = 1;
    while (ok && count < ANNALOG_POSITIONS && target[count - 1] != ANNALOG_END) {
        ok = annalog_step(a, target[count - 1], all + (count - 1) * V);
        target[count] = ok ? likeliest(all + (count - 1) * V, V) : 0;
        count++;
    }
    if (ok && o->dump) {
        ok = (logits = dump_add(d, number, "logits", count - 1, V)) != NULL;
        if (ok)
            memcpy(logits, all, (size_t)((count - 1) * V) * sizeof *all);
    }
    if (ok)
        print_result(a, t, target, count, o->ids);
    free(all);
    return ok;
}

static bool run(const options *o) {
    const text one = {o->smiles, o->smiles ? strlen(o->smiles) : 0};
    texts t = {0};
    dump d = {0};
    clattn_context *context = NULL;
    annalog *a = NULL;
    bool ok = (o->smiles || texts_read(o->file, &t)) && done(clattn_context_create(o->device, NULL, &context)) &&
              (a = annalog_open(context, o->model));
    const size_t count = o->smiles ? 1 : t.count;
    for (size_t i = 0; ok && i < count; i++)
        ok = translate(a, o->smiles ? &one : &t.items[i], i, o, &d);
    ok = ok && (!o->dump || done(clattn_safetensors_write(o->dump, d.arrays, d.count, NULL, 0)));
    annalog_close(a);
    clattn_context_destroy(context);
    dump_free(&d);
    texts_free(&t);
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
