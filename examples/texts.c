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

/* cJSON ends strings at zeros; a byte that is nowhere in UTF-8 stands for one while they are JSON. */
enum { ZERO = 0xFF };

/* Makes ZERO of each "\u0000"; the bytes that are left. */
static size_t hide_zeros(char *json, size_t bytes) {
    size_t to = 0;
    for (size_t i = 0; i < bytes; to++) {
        const bool escape = json[i] == '\\' && i + 1 < bytes, zero = escape && strncmp(json + i, "\\u0000", 6) == 0;
        json[to] = zero ? (char)ZERO : json[i];
        if (escape && !zero)
            json[++to] = json[i + 1];
        i += zero ? 6 : escape ? 2 : 1;
    }
    json[to] = 0;
    return to;
}

static text shown(char *string) {
    const text t = {string, strlen(string)};
    for (size_t i = 0; i < t.count; i++)
        if ((unsigned char)string[i] == ZERO)
            string[i] = 0;
    return t;
}

static bool take_json(texts *t, const char *path, size_t bytes) {
    const char *bad = memchr(t->storage, ZERO, bytes);
    if (bad)
        return complain("%s is not UTF-8: its byte %zu", path, (size_t)(bad - t->storage) + 1);
    cJSON *json = t->json = cJSON_ParseWithLength(t->storage, hide_zeros(t->storage, bytes));
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
        t->items[t->count++] = shown(string->valuestring);
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

/* Each zero, as "\u0000". */
static char *show_zeros(const char *quoted) {
    size_t n = strlen(quoted), zeros = 0, to = 0;
    for (size_t i = 0; i < n; i++)
        zeros += (unsigned char)quoted[i] == ZERO;
    char *json = malloc(n + 5 * zeros + 1);
    for (size_t i = 0; json && i <= n; i++)
        if ((unsigned char)quoted[i] == ZERO)
            to += (size_t)sprintf(json + to, "\\u0000");
        else
            json[to++] = quoted[i];
    return json;
}

char *texts_quoted(const text *t) {
    char *bytes = malloc(t->count + 1), *quoted = NULL;
    for (size_t i = 0; bytes && i < t->count; i++)
        bytes[i] = t->bytes[i] ? t->bytes[i] : (char)ZERO;
    if (bytes)
        bytes[t->count] = 0;
    cJSON *string = bytes ? cJSON_CreateString(bytes) : NULL;
    char *json = string ? cJSON_PrintUnformatted(string) : NULL;
    if (json)
        quoted = show_zeros(json);
    cJSON_Delete(string);
    free(json);
    free(bytes);
    if (!quoted)
        complain("out of memory");
    return quoted;
}
