/* SPDX-License-Identifier: Apache-2.0 */
#include "changed_case.h"
#include "command.h"

#include <clattn/io.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool command_fails(const char *name);
bool command_fails(const char *name) { return name == NULL; } /* none does */

enum { TENSORS = 64, TEXT = 4000 };

static clattn_dtype dtype_named(const char *text) {
    for (int d = CLATTN_F32; d <= CLATTN_BOOL; d++)
        if (strcmp(clattn_dtype_name((clattn_dtype)d), text) == 0)
            return (clattn_dtype)d;
    cr_assert_fail("no type %s", text);
    return CLATTN_F32;
}

/* The tensor of a change, under its case. */
static void make_tensor(const char *text, const char *name_of_case, char *name, size_t size, clattn_array *array) {
    char words[100], *at = words;
    int64_t shape[CLATTN_MAX_RANK];
    int rank = 0;
    cr_assert(strlen(text) < sizeof words);
    snprintf(words, sizeof words, "%s", text);
    char *const blank = strchr(at, ' ');
    cr_assert(blank, "%s", text);
    *blank = '\0';
    snprintf(name, size, "%s/%s", name_of_case, at);
    at = blank + 1;
    const size_t length = strcspn(at, " ");
    char *sizes = at[length] ? at + length + 1 : at + length;
    at[length] = '\0';
    while (*sizes)
        shape[rank++] = strtoll(sizes, &sizes, 10);
    cr_assert_eq(clattn_array_create(dtype_named(at), rank, shape, array), CLATTN_OK, "%s: %s", text,
                 clattn_last_error());
}

/* The text with the change, which must be possible. */
static const char *changed_text(const char *text, const change *x) {
    static char result[2 * TEXT];
    const char *at = x->from ? strstr(text, x->from) : text;
    cr_assert(strlen(text) < TEXT && at, "%s: %s is not there: %s", x->base, x->from, text);
    snprintf(result, sizeof result, "%.*s%s%s", (int)(at - text), text, x->to ? x->to : "",
             at + (x->from ? strlen(x->from) : 0));
    return result;
}

/* The case alone in a file. */
static void write_case(const change *x) {
    static char names[TENSORS][200], path[400];
    clattn_named_array list[TENSORS];
    clattn_array added = {0};
    clattn_safetensors *file = NULL;
    clattn_safetensors_entry entry;
    size_t count = 0;
    const char *colon = strchr(x->base, ':'), *name = colon + 1;
    const size_t length = strlen(name);
    const bool made = strncmp(x->base, "dump", 4) == 0; /* by this test */
    snprintf(path, sizeof path, "%s%s%.*s.safetensors", made ? "" : TESTS_DIR, made ? "" : "/vectors/",
             (int)(colon - x->base), x->base);
    cr_assert_eq(clattn_safetensors_open(path, &file), CLATTN_OK, "%s", clattn_last_error());
    if (x->tensor) {
        make_tensor(x->tensor, name, names[0], sizeof names[0], &added);
        list[count++] = (clattn_named_array){names[0], added};
    }
    for (size_t i = 0; clattn_safetensors_entry_at(file, i, &entry); i++)
        if (strncmp(entry.name, name, length) == 0 && entry.name[length] == '/' &&
            (!x->tensor || strcmp(entry.name, names[0]) != 0)) {
            cr_assert(count < TENSORS);
            list[count].name = entry.name;
            cr_assert_eq(clattn_safetensors_read(file, entry.name, &list[count].array), CLATTN_OK, "%s",
                         clattn_last_error());
            count++;
        }
    const char *text = clattn_safetensors_metadata(file, name);
    cr_assert(text && count > 1, "%s is not there", x->base);
    const clattn_metadata_pair metadata = {name, changed_text(text, x)};
    cr_assert_eq(clattn_safetensors_write("case.safetensors", list, count, &metadata, 1), CLATTN_OK, "%s",
                 clattn_last_error());
    for (size_t i = 0; i < count; i++)
        clattn_array_free(&list[i].array);
    clattn_safetensors_close(file);
}

/* Calls as `clattn run --dump` writes them. */
static void make_dumps(void) {
    static command_result r;
    static const char *const lines[] = {
        "run q.npy k.npy k.npy --device cpu --dump dump.safetensors --window 2,1 --causal=bottom-right --softcap 2 "
        "--scale 0.5 "
        "--lengths 4 --lse l.npy -o o.npy --alibi-slopes two.npy --weights w.npy",
        "run rows.npy pages.npy pages.npy --device cpu -o o.npy --dump dump_pages.safetensors --layout bhsd "
        "--cu-queries 0,1,3 "
        "--block-table table.npy --key-lengths 2,3",
        "run wide.npy wide.npy wide.npy --device cpu -o o.npy --dump dump_blocks.safetensors --kv-type q8_0,q4_0",
    };
    command_write_npy("q.npy", "<f4", "(1, 2, 3, 4)", 24, 0.5);
    command_write_npy("k.npy", "<f4", "(1, 2, 5, 4)", 40, 0.25);
    command_write_npy("two.npy", "<f4", "(2,)", 2, 0.5);
    command_write_npy("rows.npy", "<f4", "(1, 1, 3, 4)", 12, 0.5);
    command_write_npy("pages.npy", "<f4", "(4, 1, 2, 4)", 32, 0.5);
    command_write_npy("table.npy", "<i4", "(2, 2)", 4, 0);
    command_write_npy("wide.npy", "<f4", "(1, 1, 2, 32)", 64, 0.5);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        command_run(lines[i], &r);
        cr_assert_eq(r.status, 0, "%s: %s", lines[i], r.err);
    }
}

void changes_hold(const change *changes, size_t count) {
    static command_result r;
    command_folder("cases");
    make_dumps();
    for (size_t i = 0; i < count; i++) {
        const change *x = &changes[i];
        write_case(x);
        command_run("check case.safetensors --device cpu", &r);
        const bool holds = strncmp(x->says, "1 passed", 8) == 0;
        cr_expect(r.status == (holds ? 0 : 1), "%s, %s -> %s, %s: exit status %d: %s", x->base, x->from, x->to,
                  x->tensor, r.status, r.out);
        cr_expect(strstr(r.out, x->says), "%s, %s -> %s, %s: no \"%s\" in: %s%s", x->base, x->from, x->to, x->tensor,
                  x->says, r.out, r.err);
    }
    command_folder(NULL);
}
