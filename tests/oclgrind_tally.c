/* SPDX-License-Identifier: Apache-2.0 */
#include "oclgrind_parts.h"

#include "oclgrind_ops.h"
#include <stdlib.h>

void tally_count(tally *t, bool right, const char *text) {
    if (right || list_is_on())
        t->passed++;
    else
        t->failed++;
    if (!right)
        printf("FAILED %s\n", text);
}

/* Every context empties Oclgrind's log. So what a context has left there is read when it is gone, and written back at
 * the end. */
static const char *log_path(void) { return getenv("OCLGRIND_LOG"); }

void tally_take_log(tally *t) {
    char line[400];
    bool empty = true;
    FILE *f = log_path() ? fopen(log_path(), "r") : NULL;
    while (f && fgets(line, sizeof line, f)) {
        empty = empty && *line == '\n';
        fputs(line, t->reports);
    }
    if (f)
        fclose(f);
    if (!empty)
        tally_count(t, false, "Oclgrind reports something on the last problem");
}

void tally_write_log(const tally *t) {
    char line[400];
    FILE *f = log_path() ? fopen(log_path(), "w") : NULL;
    rewind(t->reports);
    while (f && fgets(line, sizeof line, t->reports))
        fputs(line, f);
    if (f)
        fclose(f);
}
