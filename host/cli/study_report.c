/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of an experiment: judged, printed, as JSON. */
#include "args.h"
#include "study.h"
#include <clattn/version.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double cla_study_bound(const cla_study *study, double f64, double f32) {
    return study->dtype == CLATTN_F64 ? f64 : f32;
}

void cla_study_figure(cla_study *study, const char *name, const char *article, double wanted, double got,
                      double allowed) {
    cla_figure *more = realloc(study->figures, (study->figure_count + 1) * sizeof *more);
    if (!more) {
        study->out_of_memory = true;
        return;
    }
    study->figures = more;
    cla_figure *f = &more[study->figure_count++];
    *f = (cla_figure){.wanted = wanted, .got = got, .allowed = allowed, .agrees = fabs(got - wanted) <= allowed};
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->article, sizeof f->article, "%s", article ? article : "");
}

size_t cla_study_off(const cla_study *study) {
    size_t off = 0;
    for (size_t i = 0; i < study->figure_count; i++)
        off += !study->figures[i].agrees;
    return off;
}

/* ---- the table ---- */

static void print_figure(const cla_figure *f, int width) {
    printf("  %-*s  %10s  %12.8g  %12.8g  %9.2g  %9.2g%s\n", width, f->name, f->article[0] ? f->article : "-",
           f->wanted, f->got, fabs(f->got - f->wanted), f->allowed, f->agrees ? "" : "  OFF");
}

void cla_study_print(const cla_study *study) {
    const size_t off = cla_study_off(study);
    size_t width = strlen("figure");
    for (size_t i = 0; i < study->figure_count; i++)
        width = strlen(study->figures[i].name) > width ? strlen(study->figures[i].name) : width;
    if (study->skipped[0]) {
        printf("%s is skipped: %s\n", study->name, study->skipped);
        return;
    }
    printf("  %-*s  %10s  %12s  %12s  %9s  %9s\n", (int)width, "figure", "article", "wanted", "ours", "off by",
           "allowed");
    for (size_t i = 0; i < study->figure_count; i++)
        print_figure(&study->figures[i], (int)width);
    if (off > 0)
        printf("%s is off in %zu of %zu figures\n", study->name, off, study->figure_count);
    else
        printf("%s agrees in %zu figures\n", study->name, study->figure_count);
    fflush(stdout);
}

/* ---- JSON ---- */

/* JSON has no NaN and no infinity: null. */
static bool add_number(cJSON *object, const char *name, double value) {
    return isfinite(value) ? cJSON_AddNumberToObject(object, name, value) != NULL
                           : cJSON_AddNullToObject(object, name) != NULL;
}

static bool add_figure(cJSON *list, const cla_figure *f) {
    cJSON *o = cJSON_CreateObject();
    const bool ok =
        cJSON_AddStringToObject(o, "figure", f->name) &&
        (f->article[0] ? cJSON_AddStringToObject(o, "article", f->article) : cJSON_AddNullToObject(o, "article")) &&
        add_number(o, "wanted", f->wanted) && add_number(o, "ours", f->got) && add_number(o, "allowed", f->allowed) &&
        cJSON_AddBoolToObject(o, "agrees", f->agrees);
    if (ok && cJSON_AddItemToArray(list, o))
        return true;
    cJSON_Delete(o);
    return false;
}

cJSON *cla_study_json(const cla_study *study) {
    cJSON *o = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(o, "experiment", study->name) &&
              cJSON_AddStringToObject(o, "version", clattn_version()) &&
              cJSON_AddStringToObject(o, "device", study->device.spec) &&
              cJSON_AddStringToObject(o, "device_name", study->device.name) &&
              cJSON_AddStringToObject(o, "driver", study->device.driver) &&
              cJSON_AddStringToObject(o, "type", clattn_dtype_name(study->dtype));
    if (ok && study->skipped[0])
        ok = cJSON_AddStringToObject(o, "skipped", study->skipped) != NULL;
    else
        ok = ok && cJSON_AddBoolToObject(o, "agrees", cla_study_off(study) == 0);
    cJSON *list = ok ? cJSON_AddArrayToObject(o, "figures") : NULL;
    ok = list != NULL;
    for (size_t i = 0; ok && i < study->figure_count; i++)
        ok = add_figure(list, &study->figures[i]);
    if (ok && study->rows) {
        cJSON *rows = cJSON_Duplicate(study->rows, true);
        ok = rows && cJSON_AddItemToObject(o, "rows", rows);
    }
    if (ok)
        return o;
    cJSON_Delete(o);
    return NULL;
}

void cla_study_row(cla_study *study, const char *names, const double *values) {
    if (!study->rows)
        study->rows = cJSON_CreateArray();
    cJSON *row = cJSON_CreateObject();
    bool ok = study->rows && row;
    for (size_t i = 0; ok && *names; i++) {
        char name[48];
        const size_t length = strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, names);
        ok = add_number(row, name, values[i]);
        names += length + (names[length] == ',');
    }
    ok = ok && cJSON_AddItemToArray(study->rows, row);
    if (!ok)
        cJSON_Delete(row);
    study->out_of_memory |= !ok;
}
