/* SPDX-License-Identifier: Apache-2.0 */
/* The experiments of the source articles. Each runs on one device and gives figures: what the article prints, what is
 * wanted, what came out, what is allowed. study_x.c holds experiment x; cmd_study.c the table of them. */
#ifndef CLA_STUDY_H
#define CLA_STUDY_H

#include <cjson/cJSON.h>
#include <clattn/attention.h>
#include <clattn/io.h>

typedef struct cla_figure {
    char name[96];
    char article[24]; /* as the article prints it; "": it does not */
    double wanted, got, allowed;
    bool agrees; /* |got - wanted| <= allowed */
} cla_figure;

struct cla_cost;

/* One experiment while it runs. */
typedef struct cla_study {
    const char *name;
    clattn_context *context;
    clattn_device_info device;
    clattn_dtype dtype; /* f64 where the device has it, else f32 */
    uint64_t seed;      /* of random inputs */
    double limit;       /* seconds for the runs of one algorithm at one size */
    int64_t largest;    /* of the sizes that are tried */
    cla_figure *figures;
    size_t figure_count;
    cJSON *rows;                    /* NULL, or what else belongs into the JSON file: a list of objects */
    char skipped[160];              /* why the experiment was not run; "": it was */
    struct cla_study_array *arrays; /* freed with the study */
    struct cla_cost *cost;          /* of `cost`; NULL: none */
    bool out_of_memory;
} cla_study;

typedef struct cla_experiment {
    const char *name, *summary;
    bool in_f32; /* whatever the device has: what it shows does not depend on it */
    /* Prints one line and returns the exit status when it could not be run; CLA_EXIT_OK whatever the figures are. */
    int (*run)(cla_study *study);
    /* Draws an SVG of what was run; NULL: nothing to draw. Prints one line when that fails. */
    int (*plot)(const cla_study *study, const char *path);
} cla_experiment;

int cla_study_sdpa(cla_study *study);
int cla_study_batched(cla_study *study);
int cla_study_scale(cla_study *study);
int cla_study_heads(cla_study *study);
int cla_study_order(cla_study *study);
int cla_study_causal(cla_study *study);
int cla_study_cost(cla_study *study);
int cla_study_stack(cla_study *study);
int cla_study_gradient(cla_study *study);
int cla_study_plot_scale(const cla_study *study, const char *path);
int cla_study_plot_gradient(const cla_study *study, const char *path);
int cla_study_plot_cost(const cla_study *study, const char *path);

/* ---- figures ---- */

/* Adds one. article: as the article prints it, or NULL. */
void cla_study_figure(cla_study *study, const char *name, const char *article, double wanted, double got,
                      double allowed);
/* The bound of the type that is computed in. */
double cla_study_bound(const cla_study *study, double f64, double f32);
size_t cla_study_off(const cla_study *study);
/* The table of figures, and whether the experiment agrees. */
void cla_study_print(const cla_study *study);
/* NULL: out of memory. */
cJSON *cla_study_json(const cla_study *study);
/* An object {"NAME": value, ...} in the rows of the JSON file; names are separated by commas. */
void cla_study_row(cla_study *study, const char *names, const double *values);
void cla_study_free(cla_study *study);
void cla_cost_free(struct cla_cost *cost); /* NULL is allowed */

/* ---- arrays, freed with the study; NULL: none, and a line was printed ---- */

/* A stored tensor, such as "s000_sdpa/Q"; floats become dtype. */
clattn_array *cla_study_tensor(cla_study *study, const char *name, clattn_dtype dtype);
/* The same, floats in the type that is computed in. */
clattn_array *cla_study_input(cla_study *study, const char *name);
/* The same, floats in f64: what is wanted. */
clattn_array *cla_study_stored(cla_study *study, const char *name);
/* Zeros. */
clattn_array *cla_study_new(cla_study *study, clattn_dtype dtype, int rank, const int64_t *shape);
/* Numbers of N(0, 1), of the study's seed and this stream, drawn on the device. false: a line was printed. */
bool cla_study_draw(cla_study *study, uint64_t stream, clattn_array *array);

/* A view of rank 4: axes of 1 in front. */
clattn_tensor cla_study_view(const clattn_array *array);
double cla_study_at(const clattn_array *array, size_t i);
/* Largest |a - b|; infinite where sizes differ or one is NaN. */
double cla_study_difference(const clattn_array *a, const clattn_array *b);
/* The same of so many elements from first_a and first_b on. */
double cla_study_part_difference(const clattn_array *a, size_t first_a, const clattn_array *b, size_t first_b,
                                 size_t count);

/* The library's last error as this experiment's; returns the exit status. */
int cla_study_fail(const cla_study *study, clattn_status status);

#endif
