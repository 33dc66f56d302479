/* SPDX-License-Identifier: Apache-2.0 */
/* Reading takes nothing for granted; writing replaces the file at once. Numbers do not follow the locale. */
#define _GNU_SOURCE /* flock, whose locks exclude threads of a process too */
#include "runtime/tuning_file.h"

#include "base/mem.h"
#include "runtime/disk_cache.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char first_line[] = "clattn tuning 1", device_word[] = "device ", middle[] = ": ", bar[] = " | ",
                  times_middle[] = " ms, default ", times_end[] = " ms";
enum { MOST_BYTES = 1 << 20, KEY = 160, VALUE = 255, STAGED_NAME = 4096 };
#define MOST_MS 1e9

/* ---- entries ---- */

static bool is_line(const char *text, size_t length, size_t most) {
    if (length == 0 || length > most || text[0] == ' ' || text[length - 1] == ' ')
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return true;
}

static clattn_status copy(const char *text, size_t length, char **out) {
    const clattn_status status = cla_alloc(length + 1, 1, "entry of the tuner's record", out);
    if (status == CLATTN_OK)
        memcpy(*out, text, length);
    return status;
}

static cla_tuning_entry *place_of(const cla_tuning_record *record, const char *key, size_t length) {
    for (size_t i = 0; i < record->count; i++)
        if (strlen(record->entries[i].key) == length && memcmp(record->entries[i].key, key, length) == 0)
            return &record->entries[i];
    return NULL;
}

/* value NULL: removed. */
static clattn_status take(cla_tuning_record *record, const char *key, size_t key_length, const char *value,
                          size_t value_length, double ms, double default_ms, bool changed) {
    clattn_status status = CLATTN_OK;
    cla_tuning_entry *e = place_of(record, key, key_length);
    char *new_key = NULL, *new_value = NULL;
    if (value)
        CLA_TRY(copy(value, value_length, &new_value));
    if (!e) {
        CLA_TRY(copy(key, key_length, &new_key));
        CLA_TRY(cla_realloc(&record->entries, record->count + 1, sizeof *record->entries, "tuner's record"));
        e = &record->entries[record->count++];
        *e = (cla_tuning_entry){.key = new_key};
        new_key = NULL;
    }
    cla_free(e->value);
    e->value = new_value;
    new_value = NULL;
    e->ms = ms, e->default_ms = default_ms, e->changed = changed;
done:
    cla_free(new_key);
    cla_free(new_value);
    return status;
}

static bool is_time(double ms) { return ms >= 0 && ms < MOST_MS; }

clattn_status cla_tuning_put(cla_tuning_record *record, const char *key, const char *value, double ms,
                             double default_ms) {
    if (!key || !is_line(key, strlen(key), KEY) || strstr(key, middle) || key[0] == '#' ||
        strncmp(key, device_word, sizeof device_word - 1) == 0)
        return cla_error(CLATTN_E_ARGUMENT, "tuning: the key \"%.60s\" cannot stand in a line of the record",
                         key ? key : "(NULL)");
    if (value && (!is_line(value, strlen(value), VALUE) || strstr(value, bar)))
        return cla_error(CLATTN_E_ARGUMENT, "tuning: the value \"%.60s\" of %.60s cannot stand in a line of the record",
                         value, key);
    if (value && (!is_time(ms) || !is_time(default_ms)))
        return cla_error(CLATTN_E_ARGUMENT, "tuning: %.60s: %g and %g ms are no times", key, ms, default_ms);
    return take(record, key, strlen(key), value, value ? strlen(value) : 0, ms, default_ms, true);
}

const cla_tuning_entry *cla_tuning_look(const cla_tuning_record *record, const char *key) {
    const cla_tuning_entry *e = place_of(record, key, strlen(key));
    return e && e->value ? e : NULL;
}

void cla_tuning_record_free(cla_tuning_record *record) {
    for (size_t i = 0; i < record->count; i++) {
        cla_free(record->entries[i].key);
        cla_free(record->entries[i].value);
    }
    cla_free(record->entries);
    cla_str_free(&record->skipped);
    cla_str_free(&record->others);
    *record = (cla_tuning_record){0};
}

/* ---- reading ---- */

typedef struct span {
    const char *at, *end;
} span;

static const char *find(span text, const char *part) {
    const size_t length = strlen(part);
    for (const char *at = text.at; at + length <= text.end; at++)
        if (memcmp(at, part, length) == 0)
            return at;
    return NULL;
}

static bool starts(span text, const char *part) {
    const size_t length = strlen(part);
    return (size_t)(text.end - text.at) >= length && memcmp(text.at, part, length) == 0;
}

/* "12.3456" in front of text, which moves behind it. */
static bool take_time(span *text, double *ms) {
    const char *start = text->at;
    double unit = 1;
    *ms = 0;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
        *ms = *ms * 10 + (*text->at - '0');
    const bool any = text->at > start;
    if (any && text->at < text->end && *text->at == '.')
        for (text->at++; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
            *ms += (unit /= 10) * (*text->at - '0');
    return any && is_time(*ms);
}

static bool take_text(span *text, const char *part) {
    const bool is = starts(*text, part);
    text->at += is ? strlen(part) : 0;
    return is;
}

/* NULL: taken; else what is wrong. */
static const char *take_entry(cla_tuning_record *record, span line, clattn_status *status) {
    const char *colon = find(line, middle);
    if (!colon)
        return "no value behind a \": \"";
    span times = {colon, line.end};
    const char *end = find(times, bar);
    double ms = 0, default_ms = 0;
    if (!end)
        return "no times behind a \" | \"";
    times.at = end + strlen(bar);
    if (!take_time(&times, &ms) || !take_text(&times, times_middle) || !take_time(&times, &default_ms) ||
        !take_text(&times, times_end) || times.at != times.end)
        return "the times are not as in \"1.5 ms, default 2.5 ms\"";
    const char *value = colon + strlen(middle);
    if (!is_line(line.at, (size_t)(colon - line.at), KEY) || value >= end ||
        !is_line(value, (size_t)(end - value), VALUE))
        return "the key or the value is empty, too long, or of other characters than visible ones";
    *status = take(record, line.at, (size_t)(colon - line.at), value, (size_t)(end - value), ms, default_ms, false);
    return NULL;
}

static void skip(cla_tuning_record *record, int number, const char *why) {
    cla_str_append(&record->skipped, "line %d: %s\n", number, why);
    record->skipped_count++;
}

static bool is_device(span line, const char *device) {
    line.at += strlen(device_word);
    return (size_t)(line.end - line.at) == strlen(device) && memcmp(line.at, device, strlen(device)) == 0;
}

clattn_status cla_tuning_parse(const char *text, size_t bytes, const char *device, cla_tuning_record *record) {
    clattn_status status = CLATTN_OK;
    const char *end = text + bytes;
    enum { NOBODY, MINE, OTHER } whose = NOBODY;
    int number = 0;
    if (bytes == 0)
        return CLATTN_OK;
    for (span line = {text, text}; status == CLATTN_OK && line.at < end; line.at = line.end + 1) {
        const char *stop = memchr(line.at, '\n', (size_t)(end - line.at));
        line.end = stop ? stop : end;
        span cut = line;
        if (cut.end > cut.at && cut.end[-1] == '\r')
            cut.end--;
        if (number++ == 0) {
            CLA_CHECK(starts(cut, first_line) && (size_t)(cut.end - cut.at) == strlen(first_line), CLATTN_E_FORMAT,
                      "tuning: line 1 is not \"%s\"", first_line);
            continue;
        }
        if (cut.at == cut.end || *cut.at == '#')
            continue;
        const bool names = starts(cut, device_word);
        if (names)
            whose = is_device(cut, device) ? MINE : OTHER;
        if (whose == OTHER)
            cla_str_append(&record->others, "%.*s\n", (int)(line.end - line.at), line.at);
        else if (whose == NOBODY)
            skip(record, number, "an entry before any device");
        else if (!names) {
            const char *why = take_entry(record, cut, &status);
            if (why)
                skip(record, number, why);
        }
    }
    if (status == CLATTN_OK)
        status = cla_str_status(&record->skipped);
    if (status == CLATTN_OK)
        status = cla_str_status(&record->others);
done:
    return status;
}

clattn_status cla_tuning_read(const char *path, const char *device, cla_tuning_record *record) {
    clattn_status status = CLATTN_OK;
    struct stat info;
    char *text = NULL;
    ssize_t got = 0;
    size_t bytes = 0;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe would wait for its writer */
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return CLATTN_OK;
    CLA_CHECK(fd >= 0 && fstat(fd, &info) == 0, CLATTN_E_IO, "tuning: %s: %s", path, strerror(errno));
    CLA_CHECK(S_ISREG(info.st_mode), CLATTN_E_FORMAT, "tuning: %s: is no regular file", path);
    CLA_CHECK(info.st_size <= MOST_BYTES, CLATTN_E_FORMAT, "tuning: %s: has %lld bytes, and a record has at most %d",
              path, (long long)info.st_size, MOST_BYTES);
    CLA_TRY(cla_alloc((size_t)info.st_size + 1, 1, "tuner's record", &text));
    while (bytes < (size_t)info.st_size && (got = read(fd, text + bytes, (size_t)info.st_size - bytes)) > 0)
        bytes += (size_t)got;
    CLA_CHECK(got >= 0, CLATTN_E_IO, "tuning: %s: %s", path, strerror(errno));
    status = cla_tuning_parse(text, bytes, device, record);
    if (status == CLATTN_E_FORMAT)
        cla_error_prefix("%s: ", path);
done:
    if (fd >= 0)
        close(fd);
    cla_free(text);
    return status;
}

/* ---- writing ---- */

static void append_time(cla_str *text, double ms) {
    const int64_t parts = (int64_t)(ms * 10000 + 0.5);
    cla_str_append(text, "%lld.%04lld", (long long)(parts / 10000), (long long)(parts % 10000));
}

static void render(cla_str *text, const char *device, const cla_tuning_record *record) {
    cla_str_append(text,
                   "%s\n# Written by `clattn tune`: the fastest way found, of those that a call has. Lines may be "
                   "removed.\n",
                   first_line);
    cla_str_append(text, "%s%s%s\n", cla_str_text(&record->others), device_word, device);
    for (size_t i = 0; i < record->count; i++) {
        const cla_tuning_entry *e = &record->entries[i];
        if (!e->value)
            continue;
        cla_str_append(text, "%s%s%s%s", e->key, middle, e->value, bar);
        append_time(text, e->ms);
        cla_str_append(text, "%s", times_middle);
        append_time(text, e->default_ms);
        cla_str_append(text, "%s\n", times_end);
    }
}

static clattn_status cannot_write(const char *path, int why) {
    return cla_error(CLATTN_E_IO, "tuning: %s cannot be written: %s", path, strerror(why));
}

static clattn_status make_folder(const char *path) {
    cla_str folder = {0};
    const char *slash = strrchr(path, '/');
    if (slash && slash > path) {
        cla_str_append(&folder, "%.*s", (int)(slash - path), path);
        if (cla_str_status(&folder) == CLATTN_OK)
            cla_disk_make_folder(folder.text); /* the file's own message says what failed */
    }
    const clattn_status status = cla_str_status(&folder);
    cla_str_free(&folder);
    return status;
}

/* Whether the name is still that of the open file: the one who held the lock before may have removed it. */
static bool is_named(const cla_tuning_lock *lock) {
    struct stat open_file, named;
    return fstat(lock->fd, &open_file) == 0 && stat(lock->name, &named) == 0 && open_file.st_ino == named.st_ino &&
           open_file.st_dev == named.st_dev;
}

/* Files there cannot be locked, or the one beside the record is another user's: two that save at once are rare. */
static bool goes_unlocked(int why) { return why == ENOLCK || why == EOPNOTSUPP || why == ENOSYS || why == EACCES; }

clattn_status cla_tuning_lock_take(const char *path, cla_tuning_lock *lock) {
    clattn_status status = CLATTN_OK;
    int why = 0;
    const int n = snprintf(lock->name, sizeof lock->name, "%s.lock", path);
    lock->fd = -1;
    CLA_CHECK(n > 0 && (size_t)n < sizeof lock->name, CLATTN_E_IO, "tuning: %.80s...: the path is too long", path);
    CLA_TRY(make_folder(path));
    for (;;) {
        lock->fd = open(lock->name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        while (lock->fd >= 0 && (why = flock(lock->fd, LOCK_EX) == 0 ? 0 : errno) == EINTR)
            continue;
        why = lock->fd < 0 ? errno : why;
        if (why == 0 && is_named(lock))
            goto done;
        if (lock->fd >= 0)
            close(lock->fd); /* its name is that of whoever holds it */
        lock->fd = -1;
        if (why != 0) {
            status = goes_unlocked(why) ? CLATTN_OK : cannot_write(path, why);
            goto done;
        }
    }
done:
    return status;
}

void cla_tuning_lock_give(cla_tuning_lock *lock) {
    if (lock->fd < 0)
        return;
    unlink(lock->name);
    close(lock->fd);
    lock->fd = -1;
}

static clattn_status write_staged(const char *path, const cla_str *text) {
    char staged[STAGED_NAME];
    const int n = snprintf(staged, sizeof staged, "%s.XXXXXX", path);
    if (n <= 0 || (size_t)n >= sizeof staged)
        return cla_error(CLATTN_E_IO, "tuning: %.80s...: the path is too long", path);
    const int fd = mkstemp(staged);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    bool good = f && fwrite(text->text, 1, text->length, f) == text->length;
    if (f)
        good = fclose(f) == 0 && good;
    else if (fd >= 0)
        close(fd);
    good = good && rename(staged, path) == 0;
    const int why = errno;
    if (!good && fd >= 0)
        unlink(staged);
    return good ? CLATTN_OK : cannot_write(path, why);
}

clattn_status cla_tuning_write(const char *path, const char *device, const cla_tuning_record *record) {
    clattn_status status = CLATTN_OK;
    cla_str text = {0};
    CLA_TRY(make_folder(path));
    render(&text, device, record);
    CLA_TRY(cla_str_status(&text));
    CLA_TRY(write_staged(path, &text));
done:
    cla_str_free(&text);
    return status;
}
