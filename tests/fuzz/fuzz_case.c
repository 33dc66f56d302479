/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of `clattn check`: the JSON text of one, then a line "NAME TYPE SIZE SIZE ..." for each of its tensors. Built
 * and run on `cpu`, whatever comes out; or refused with a text. */
#define _XOPEN_SOURCE 700 /* strtok_r */
#include "check_run.h"
#include "fuzz.h"

enum { TENSORS = 40, MOST_ELEMENTS = 2048 };

static bool dtype_named(const char *text, clattn_dtype *dtype) {
    for (int d = CLATTN_F32; d <= CLATTN_BOOL; d++)
        if (strcmp(clattn_dtype_name((clattn_dtype)d), text) == 0) {
            *dtype = (clattn_dtype)d;
            return true;
        }
    return false;
}

/* Numbers near 1 in any float type, ones else. */
static void fill(clattn_array *a) {
    const bool real = a->dtype <= CLATTN_BF16;
    const size_t size = clattn_dtype_size(a->dtype);
    for (size_t i = 0; i < a->bytes; i++)
        ((uint8_t *)a->data)[i] = real ? (a->dtype == CLATTN_F16 || i % size > 1 ? 0x3c : 0x3f) : i % size == 0;
}

static bool take_tensor(char *line, clattn_named_array *named) {
    char *rest = line;
    clattn_dtype dtype;
    int64_t shape[CLATTN_MAX_RANK], elements = 1;
    int rank = 0;
    char *name = strtok_r(rest, " ", &rest), *type = strtok_r(NULL, " ", &rest);
    if (!name || !type || !dtype_named(type, &dtype))
        return false;
    for (const char *size; rank < CLATTN_MAX_RANK && (size = strtok_r(NULL, " ", &rest)); rank++) {
        if (!cla_parse_i64(size, &shape[rank]) || shape[rank] < 0 || shape[rank] > INT32_MAX)
            return false;
        elements = shape[rank] == 0 || elements == 0 ? 0 : shape[rank] > MOST_ELEMENTS ? -1 : elements * shape[rank];
        if (elements < 0 || elements > MOST_ELEMENTS)
            return false;
    }
    named->name = name;
    if (clattn_array_create(dtype, rank, shape, &named->array) != CLATTN_OK)
        return false;
    fill(&named->array);
    return true;
}

/* Lines become tensors CASE/NAME of a file. */
static const char *make_file(char *lines) {
    clattn_named_array list[TENSORS];
    char names[TENSORS][80];
    size_t count = 0;
    for (char *line = strtok_r(lines, "\n", &lines); line && count < TENSORS; line = strtok_r(NULL, "\n", &lines))
        if (take_tensor(line, &list[count])) {
            snprintf(names[count], sizeof names[count], "c/%.60s", list[count].name);
            list[count].name = names[count];
            count++;
        }
    const char *path = fuzz_path("case.safetensors");
    const clattn_status status = clattn_safetensors_write(path, list, count, NULL, 0);
    for (size_t i = 0; i < count; i++)
        clattn_array_free(&list[i].array);
    return status == CLATTN_OK ? path : NULL; /* not so where a name is twice, or no UTF-8 */
}

static void check_case(clattn_safetensors *file, const char *json) {
    static clattn_context *cpu;
    cla_check_case c;
    cla_progress progress = cla_progress_begin("fuzz");
    cla_check_report report = {.progress = &progress};
    if (!cpu)
        FUZZ_CHECK(clattn_context_create("cpu", NULL, &cpu) == CLATTN_OK, "%s", clattn_last_error());
    const cla_check_target targets[] = {{.context = cpu, .device = "cpu", .algorithm = CLA_CHECK_AUTO, .label = "auto"},
                                        {.context = cpu, .device = "cpu", .algorithm = CLA_CHECK_NONE, .label = "-"}};
    if (!cla_check_case_open(file, "c", json, &c))
        FUZZ_CHECK(c.error[0], "refused without a text");
    for (int i = 0; i < 2; i++)
        cla_check_run(&c, &targets[i], &report);
    FUZZ_CHECK(!report.out_of_memory, "out of memory");
    cla_check_report_print(&report);
    cla_check_report_free(&report);
    cla_check_case_free(&c);
    cla_progress_end(&progress);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static FILE *nowhere;
    char *text = malloc(size + 1);
    clattn_safetensors *file = NULL;
    nowhere = nowhere ? nowhere : fopen("/dev/null", "wb");
    FUZZ_CHECK(text && nowhere, "no memory or stream");
    memcpy(text, data, size);
    text[size] = '\0';
    char *end = strchr(text, '\n');
    if (end)
        *end = '\0';
    const char *path = make_file(end ? end + 1 : text + strlen(text));
    FILE *const out = stdout;
    stdout = nowhere;
    if (path) {
        FUZZ_CHECK(clattn_safetensors_open(path, &file) == CLATTN_OK, "%s", clattn_last_error());
        check_case(file, text);
        clattn_safetensors_close(file);
    }
    stdout = out;
    free(text);
    return 0;
}
