/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of algorithms, in the order of preference, and the choice among them. */
#include "attention/algos.h"

#include "base/error.h"
#include <stdio.h>
#include <string.h>

static const cla_algorithm *const table[] = {
    &cla_algo_fused_split,  &cla_algo_fused_lanes, &cla_algo_fused_tiles,
    &cla_algo_materialised, &cla_algo_blas,        &cla_algo_reference,
};
enum { COUNT = sizeof table / sizeof *table };

const cla_algorithm *cla_algorithm_at(size_t index) { return index < COUNT ? table[index] : NULL; }

size_t clattn_algorithm_count(void) { return COUNT; }
const char *clattn_algorithm_name(size_t index) { return index < COUNT ? table[index]->name : NULL; }
const char *clattn_algorithm_summary(size_t index) { return index < COUNT ? table[index]->summary : NULL; }

static size_t index_of(const cla_algorithm *algorithm) {
    size_t i = 0;
    while (table[i] != algorithm)
        i++;
    return i;
}

/* The others, where one was asked for by name. */
static void refuse_others(const cla_problem *p, const clattn_device_info *device, size_t chosen, cla_str *text) {
    for (size_t i = 0; i < COUNT; i++) {
        char reason[CLA_REASON] = "";
        if (i != chosen)
            cla_str_append(text, "not %s: %s\n", table[i]->name,
                           table[i]->applies(p, device, reason, sizeof reason) ? "it was not asked for" : reason);
    }
}

static clattn_status named(const cla_problem *p, const clattn_device_info *device, const char *name, cla_str *text,
                           const cla_algorithm **algorithm) {
    char reason[CLA_REASON] = "", names[200] = "";
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(table[i]->name, name) == 0) {
            if (!table[i]->applies(p, device, reason, sizeof reason))
                return cla_error(CLATTN_E_UNSUPPORTED, "algorithm %s: %s", name, reason);
            *algorithm = table[i];
            cla_str_append(text, "algorithm %s: asked for by name\n", name);
            refuse_others(p, device, i, text);
            return CLATTN_OK;
        }
        const size_t at = strlen(names);
        snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", table[i]->name);
    }
    return cla_error(CLATTN_E_ARGUMENT, "algorithm \"%.60s\": there is none; the algorithms are %s", name, names);
}

clattn_status cla_algorithm_choose(const cla_problem *p, const clattn_device_info *device, const char *name,
                                   const cla_tuned *tuned, cla_str *text, const cla_algorithm **algorithm) {
    char reasons[COUNT][CLA_REASON] = {{0}};
    const cla_algorithm *best = NULL, *second = NULL, *fastest = NULL;
    if (name && *name)
        return named(p, device, name, text, algorithm);
    for (size_t i = 0; i < COUNT; i++) {
        if (!table[i]->applies(p, device, reasons[i], CLA_REASON))
            continue;
        if (tuned && strcmp(table[i]->name, tuned->value) == 0)
            fastest = table[i];
        if (!table[i]->suits(p, device, reasons[i], CLA_REASON))
            second = table[i]; /* the later ones ask less of a problem */
        else if (!best)
            best = table[i];
        else
            snprintf(reasons[i], CLA_REASON, "%s comes first", best->name);
    }
    *algorithm = best ? best : second;
    if (!*algorithm)
        return cla_error(CLATTN_E_UNSUPPORTED, "no algorithm applies on %s: %s: %.150s; %s: %.150s; %s: %.150s",
                         device->name, table[1]->name, reasons[1], table[2]->name, reasons[2], table[3]->name,
                         reasons[3]);
    if (fastest) {
        snprintf(reasons[index_of(*algorithm)], CLA_REASON, "it is the default, and the tuner found %s faster here",
                 fastest->name);
        *algorithm = fastest;
        cla_str_append(text, "algorithm %s: tuned, %.4g ms against %.4g ms by default\n", fastest->name, tuned->ms,
                       tuned->default_ms);
    } else {
        cla_str_append(text, "algorithm %s: %s\n", (*algorithm)->name, (*algorithm)->summary);
        if (tuned)
            cla_str_append(text, "the tuner's record, \"%.80s\", is impossible here\n", tuned->value);
    }
    for (size_t i = 0; i < COUNT; i++)
        if (table[i] != *algorithm)
            cla_str_append(text, "not %s: %s\n", table[i]->name, reasons[i]);
    return CLATTN_OK;
}
