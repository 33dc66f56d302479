/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of algorithms, forward and backward, in the order of preference, and the choice among them. */
#include "attention/algos.h"

#include "base/error.h"
#include "tensor/view.h"
#include <stdio.h>
#include <string.h>

static const cla_algorithm *const forward_table[] = {
    &cla_algo_fused_split,  &cla_algo_fused_lanes, &cla_algo_fused_tiles,
    &cla_algo_materialised, &cla_algo_blas,        &cla_algo_reference,
};
static const cla_algorithm *const backward_table[] = {
    &cla_backward_fused_lanes, &cla_backward_fused_tiles, &cla_backward_materialised,
    &cla_backward_blas,        &cla_backward_reference,
};
enum {
    FORWARD = sizeof forward_table / sizeof *forward_table,
    BACKWARD = sizeof backward_table / sizeof *backward_table,
    MOST = FORWARD > BACKWARD ? FORWARD : BACKWARD
};

static size_t count_of(bool backward) { return backward ? BACKWARD : FORWARD; }

const cla_algorithm *cla_algorithm_at(bool backward, size_t index) {
    if (index >= count_of(backward))
        return NULL;
    return backward ? backward_table[index] : forward_table[index];
}

static const char *name_at(bool backward, size_t index) {
    const cla_algorithm *algorithm = cla_algorithm_at(backward, index);
    return algorithm ? algorithm->name : NULL;
}

static const char *summary_at(bool backward, size_t index) {
    const cla_algorithm *algorithm = cla_algorithm_at(backward, index);
    return algorithm ? algorithm->summary : NULL;
}

size_t clattn_algorithm_count(void) { return FORWARD; }
const char *clattn_algorithm_name(size_t index) { return name_at(false, index); }
const char *clattn_algorithm_summary(size_t index) { return summary_at(false, index); }
size_t clattn_backward_algorithm_count(void) { return BACKWARD; }
const char *clattn_backward_algorithm_name(size_t index) { return name_at(true, index); }
const char *clattn_backward_algorithm_summary(size_t index) { return summary_at(true, index); }

/* The others, where one was asked for by name. */
static void refuse_others(const cla_problem *p, const clattn_device_info *device, size_t chosen, cla_str *text) {
    for (size_t i = 0; i < count_of(p->backward); i++) {
        char reason[CLA_REASON] = "";
        const cla_algorithm *other = cla_algorithm_at(p->backward, i);
        if (i != chosen)
            cla_str_append(text, "not %s: %s\n", other->name,
                           other->applies(p, device, reason, sizeof reason) ? "it was not asked for" : reason);
    }
}

static clattn_status named(const cla_problem *p, const clattn_device_info *device, const char *name, cla_str *text,
                           const cla_algorithm **algorithm) {
    char reason[CLA_REASON] = "", names[200] = "";
    for (size_t i = 0; i < count_of(p->backward); i++) {
        const cla_algorithm *one = cla_algorithm_at(p->backward, i);
        if (strcmp(one->name, name) == 0) {
            if (!one->applies(p, device, reason, sizeof reason))
                return cla_error(CLATTN_E_UNSUPPORTED, "algorithm %s: %s", name, reason);
            *algorithm = one;
            cla_str_append(text, "algorithm %s: asked for by name\n", name);
            refuse_others(p, device, i, text);
            return CLATTN_OK;
        }
        const size_t at = strlen(names);
        snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", one->name);
    }
    return cla_error(CLATTN_E_ARGUMENT, "algorithm \"%.60s\": there is none; the algorithms%s are %s", name,
                     p->backward ? " of the backward pass" : "", names);
}

/* With the reasons of those that would usually do it. */
static clattn_status none_applies(const cla_problem *p, const clattn_device_info *device,
                                  char reasons[MOST][CLA_REASON]) {
    char all[3 * CLA_REASON] = "";
    const size_t first = p->backward ? 0 : 1;
    for (size_t i = first; i < first + 3 && i < count_of(p->backward); i++) {
        const size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s%s: %.150s", at ? "; " : "", name_at(p->backward, i), reasons[i]);
    }
    return cla_error(CLATTN_E_UNSUPPORTED, "no algorithm%s applies on %s: %s",
                     p->backward ? " of the backward pass" : "", device->name, all);
}

/* Whether the tuner's record may take an algorithm that was not written for such a call. Not where state is asked for:
 * the backward pass wants it of one that sums scores as it does, and times do not tell. */
static bool record_decides(const cla_problem *p) { return p->backward || !cla_present(&p->state); }

clattn_status cla_algorithm_choose(const cla_problem *p, const clattn_device_info *device, const char *name,
                                   const cla_tuned *tuned, unsigned refused, cla_str *text,
                                   const cla_algorithm **algorithm) {
    char reasons[MOST][CLA_REASON] = {{0}};
    const cla_algorithm *best = NULL, *second = NULL, *fastest = NULL;
    const size_t count = count_of(p->backward);
    if (name && *name)
        return named(p, device, name, text, algorithm);
    for (size_t i = 0; i < count; i++) {
        const cla_algorithm *one = cla_algorithm_at(p->backward, i);
        if (refused >> i & 1)
            snprintf(reasons[i], CLA_REASON, "it fails here");
        if (refused >> i & 1 || !one->applies(p, device, reasons[i], CLA_REASON))
            continue;
        const bool suits = one->suits(p, device, reasons[i], CLA_REASON);
        if (tuned && strcmp(one->name, tuned->value) == 0)
            fastest = suits || record_decides(p) ? one : NULL;
        if (!suits)
            second = one; /* the later ones ask less of a problem */
        else if (!best)
            best = one;
        else
            snprintf(reasons[i], CLA_REASON, "%s comes first", best->name);
    }
    *algorithm = best ? best : second;
    if (!*algorithm)
        return none_applies(p, device, reasons);
    const cla_algorithm *by_default = *algorithm;
    if (fastest) {
        *algorithm = fastest;
        cla_str_append(text, "algorithm %s: tuned, %.4g ms against %.4g ms by default\n", fastest->name, tuned->ms,
                       tuned->default_ms);
    } else {
        cla_str_append(text, "algorithm %s: %s\n", (*algorithm)->name, (*algorithm)->summary);
        if (tuned)
            cla_str_append(text, "the tuner's record, \"%.80s\", is impossible here\n", tuned->value);
    }
    for (size_t i = 0; i < count; i++) {
        const cla_algorithm *one = cla_algorithm_at(p->backward, i);
        if (fastest && one == by_default)
            snprintf(reasons[i], CLA_REASON, "it is the default, and the tuner found %s faster here", fastest->name);
        if (one != *algorithm)
            cla_str_append(text, "not %s: %s\n", one->name, reasons[i]);
    }
    return CLATTN_OK;
}
