/* SPDX-License-Identifier: Apache-2.0 */
/* The tuner's record: what is read of it is written and read again with the same result. */
#include "fuzz.h"
#include "runtime/tuning_file.h"
#include <math.h>

static const char device[] = "PoCL | cpu | 3.1 | 2 units";

static void check_same(const cla_tuning_record *a, const cla_tuning_record *b) {
    FUZZ_CHECK(a->count == b->count && b->skipped_count == 0, "%zu and %zu entries, %s", a->count, b->count,
               cla_str_text(&b->skipped));
    FUZZ_CHECK(strcmp(cla_str_text(&a->others), cla_str_text(&b->others)) == 0, "other devices: %s",
               cla_str_text(&b->others));
    for (size_t i = 0; i < a->count; i++) {
        const cla_tuning_entry *x = &a->entries[i], *y = cla_tuning_look(b, x->key);
        FUZZ_CHECK(y && strcmp(x->value, y->value) == 0, "%s", x->key);
        FUZZ_CHECK(fabs(x->ms - y->ms) <= 1e-4 && fabs(x->default_ms - y->default_ms) <= 1e-4,
                   "%s: %g and %g, %g and %g", x->key, x->ms, y->ms, x->default_ms, y->default_ms);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cla_tuning_record record = {0}, again = {0};
    fuzz_memory_begin();
    const clattn_status status = cla_tuning_read(fuzz_file(data, size), device, &record);
    fuzz_memory_check(size);
    if (status != CLATTN_OK) {
        fuzz_check_error(status);
        FUZZ_CHECK(status == CLATTN_E_FORMAT, "%s", clattn_last_error());
    } else if (!memchr(data, 0, size)) { /* what stood under other devices is kept as a text */
        const char *path = fuzz_path("tuning.txt");
        FUZZ_CHECK(cla_tuning_write(path, device, &record) == CLATTN_OK, "%s", clattn_last_error());
        FUZZ_CHECK(cla_tuning_read(path, device, &again) == CLATTN_OK, "%s", clattn_last_error());
        check_same(&record, &again);
    }
    cla_tuning_record_free(&again);
    cla_tuning_record_free(&record);
    return 0;
}
