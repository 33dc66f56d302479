/* SPDX-License-Identifier: Apache-2.0 */
/* What examples/generate wrote against the reference of a prompt, for generate.sh:
 *   check_logits VECTORS prompt I                          prints prompt I of VECTORS.json
 *   check_logits VECTORS then I                            prints the ids that follow it
 *   check_logits VECTORS compare I RUN.safetensors MAX_ABS [any]
 * The same ids of the prompt; the same ids after it, unless `any`, which takes any number of them; logits after the
 * prompt, and at each step those of the reference's eight largest, within MAX_ABS. Exit status 1 where it does not
 * hold. */
#include <cjson/cJSON.h>
#include <clattn/io.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cJSON *read_json(const char *vectors) {
    static char text[1 << 16];
    char path[1024];
    snprintf(path, sizeof path, "%s.json", vectors);
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    if (f)
        fclose(f);
    return cJSON_ParseWithLength(text, n);
}

/* A tensor of a file; an empty array after a message. */
static clattn_array load(const char *file, const char *name) {
    char spec[2048];
    clattn_array array = {0};
    snprintf(spec, sizeof spec, "%s:%s", file, name);
    if (clattn_array_load(spec, &array) != CLATTN_OK)
        printf("FAILED: %s\n", clattn_last_error());
    return array;
}

static bool same_ids(const char *what, const clattn_array *got, const cJSON *expected) {
    const int count = cJSON_GetArraySize(expected);
    bool same = got->rank == 1 && got->shape[0] == count && count > 0;
    for (int i = 0; same && i < count; i++)
        same = ((const int32_t *)got->data)[i] == cJSON_GetArrayItem(expected, i)->valueint;
    if (!same)
        printf("FAILED: the ids of %s differ\n", what);
    return same;
}

static double worst_of(const float *got, const float *expected, const int32_t *at, int64_t count) {
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        const double d = fabs((double)got[at ? at[i] : i] - (double)expected[i]);
        worst = d <= worst ? worst : d; /* NaN stays */
    }
    return worst;
}

enum { PREFILL, TOP_LOGITS, TOP_IDS, LOGITS, ARRAYS };

static bool compare_logits(clattn_array *const *arrays, int index, double most, bool any) {
    const clattn_array *logits = arrays[LOGITS], *first = arrays[PREFILL], *top = arrays[TOP_LOGITS],
                       *ids = arrays[TOP_IDS];
    const int64_t steps = any && logits->shape[0] < top->shape[0] ? logits->shape[0] : top->shape[0];
    if (!logits->data || !first->data || !top->data || !ids->data || steps < 1 || logits->shape[0] < steps ||
        logits->shape[1] != first->shape[0]) {
        printf("FAILED: prompt %d: %lld steps, and the reference has %lld\n", index, (long long)logits->shape[0],
               (long long)top->shape[0]);
        return false;
    }
    const int64_t V = logits->shape[1], width = top->shape[1];
    const float *got = logits->data;
    double later = 0;
    for (int64_t s = 0; s < steps; s++) {
        const double d =
            worst_of(got + s * V, (const float *)top->data + s * width, (const int32_t *)ids->data + s * width, width);
        later = d <= later ? later : d;
    }
    const double prompt = worst_of(got, first->data, NULL, V);
    const bool ok = prompt <= most && later <= most;
    printf("%s: prompt %d: logits after the prompt differ by %.2g, those of %lld steps by %.2g (allowed %g)\n",
           ok ? "ok" : "FAILED", index, prompt, (long long)steps, later, most);
    return ok;
}

static bool compare(const char *vectors, const cJSON *c, int index, const char *run, double most, bool any) {
    static const char *const names[] = {"prefill_logits", "top8_logits", "top8_ids"};
    char file[1024], name[64];
    clattn_array arrays[ARRAYS] = {{0}}, prompt = load(run, "prompt_ids"), ids = load(run, "ids");
    snprintf(file, sizeof file, "%s.safetensors", vectors);
    for (int i = 0; i < LOGITS; i++) {
        snprintf(name, sizeof name, "prompt%d/%s", index, names[i]);
        arrays[i] = load(file, name);
    }
    arrays[LOGITS] = load(run, "logits");
    bool good = same_ids("the prompt", &prompt, cJSON_GetObjectItem(c, "prompt_ids"));
    good = good && (any || same_ids("what follows", &ids, cJSON_GetObjectItem(c, "out_ids")));
    good = good &&
           compare_logits((clattn_array *const[]){&arrays[0], &arrays[1], &arrays[2], &arrays[3]}, index, most, any);
    for (int i = 0; i < ARRAYS; i++)
        clattn_array_free(&arrays[i]);
    clattn_array_free(&prompt);
    clattn_array_free(&ids);
    return good;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    cJSON *json = read_json(argv[1]);
    const int index = (int)strtol(argv[3], NULL, 10);
    const cJSON *c = cJSON_GetArrayItem(json, index), *item;
    bool good = c != NULL;
    if (!good)
        printf("FAILED: %s.json has no prompt %d\n", argv[1], index);
    else if (strcmp(argv[2], "prompt") == 0)
        fputs(cJSON_GetObjectItem(c, "prompt")->valuestring, stdout);
    else if (strcmp(argv[2], "then") == 0)
        cJSON_ArrayForEach(item, cJSON_GetObjectItem(c, "out_ids")) printf("%d ", item->valueint);
    else
        good = argc >= 6 && compare(argv[1], c, index, argv[4], strtod(argv[5], NULL), argc > 6);
    cJSON_Delete(json);
    return good ? 0 : 1;
}
