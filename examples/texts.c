/* SPDX-License-Identifier: Apache-2.0 */
#include "texts.h"

#include "complain.h"
#include "files.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *s, const char *end) {
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static bool take_lines(texts *t, size_t bytes) {
    char *at = t->storage, *line;
    size_t n;
    t->items = calloc(count_lines(t->storage, bytes), sizeof *t->items);
    if (!t->items)
        return complain("out of memory");
    while ((line = next_line(&at, t->storage + bytes, &n)))
        t->items[t->count++] = (text){line, n};
    return true;
}

static bool take_json(texts *t, const char *path, size_t bytes) {
    cJSON *json = t->json = cJSON_ParseWithLength(t->storage, bytes);
    const cJSON *item;
    if (!cJSON_IsArray(json))
        return complain("%s is no JSON, or no array", path);
    t->items = calloc((size_t)cJSON_GetArraySize(json) + 1, sizeof *t->items);
    if (!t->items)
        return complain("out of memory");
    cJSON_ArrayForEach(item, json) {
        const cJSON *string = cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "text") : item;
        if (!cJSON_IsString(string))
            return complain("%s: item %zu is neither a string nor an object with a string \"text\"", path, t->count);
        t->items[t->count++] = (text){string->valuestring, strlen(string->valuestring)};
    }
    return true;
}

bool texts_read(const char *path, texts *t) {
    size_t bytes = 0;
    const bool standard = !path || strcmp(path, "-") == 0;
    *t = (texts){0};
    t->storage = standard ? read_all(stdin, "standard input", &bytes) : read_path(path, &bytes);
    if (!t->storage)
        return false;
    return !standard && ends_with(path, ".json") ? take_json(t, path, bytes) : take_lines(t, bytes);
}

void texts_free(texts *t) {
    free(t->items);
    free(t->storage);
    cJSON_Delete(t->json);
    *t = (texts){0};
}

char *texts_quoted(const text *t) {
    cJSON *string = cJSON_CreateString(t->bytes);
    char *quoted = string ? cJSON_PrintUnformatted(string) : NULL;
    cJSON_Delete(string);
    if (!quoted)
        complain("out of memory");
    return quoted;
}
