/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of attention and feed-forward with drawn weights, put together in five ways out of modules and their backward
 * passes. The loss tells tokens apart: its gradient by the output is drawn, less its mean over the tokens of a
 * sequence. What is asked is how long the gradient by the input is, in shares of that by the output. Of each depth the
 * first so many layers. */
#include "study_depth.h"

#include "args.h"
#include "progress.h"
#include <clattn/train.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { B = 4, N = 16, E = 64, H = 4, F = 256, LAYERS = 24, MATRICES = 4, STREAM = 60000 };

const int cla_depths[CLA_DEPTHS] = {1, 2, 3, 4, 6, 8, 12, 16, 24};

typedef struct arrangement {
    bool residual, norm_after, norm_before;
} arrangement;

static const arrangement arrangements[CLA_ARRANGEMENTS] = {
    {false, false, false}, {false, true, false}, {true, false, false}, {true, true, false}, {true, false, true}};
const char *const cla_arrangement_names[CLA_ARRANGEMENTS] = {"neither", "LayerNorm alone", "residual alone",
                                                             "residual, LayerNorm after", "residual, LayerNorm before"};
const char *const cla_arrangement_keys[CLA_ARRANGEMENTS] = {"neither", "norm", "residual", "residual_norm_after",
                                                            "residual_norm_before"};

/* Tensors are [B, N, E] on the host, the weights beside them. */
typedef struct stack {
    clattn_context *context;
    clattn_encoder_layer_weights weights[LAYERS];
    clattn_multihead *attention[LAYERS];
    clattn_feedforward *feedforward[LAYERS];
    clattn_tensor x[2 * LAYERS + 1];      /* inputs of attention, of feed-forward, and so on */
    clattn_tensor inside, outside;        /* what a part takes and gives */
    clattn_tensor d_y, d[2];              /* gradients: by the output, and on their way */
    clattn_tensor d_inside, d_sum;        /* by `inside`, by the residual sum */
    const clattn_array *d_y_of, *d_of[2]; /* their arrays */
} stack;

/* ---- making it ---- */

static void put(clattn_array *a, int64_t i, double value) {
    if (a->dtype == CLATTN_F64)
        ((double *)a->data)[i] = value;
    else
        ((float *)a->data)[i] = (float)value;
}

/* N(0, 1 / fan-in), so that a product keeps the size of what it takes. */
static bool draw_matrix(cla_study *s, uint64_t stream, int64_t rows, int64_t columns, clattn_tensor *matrix) {
    clattn_array *a = cla_study_new(s, s->dtype, 2, (const int64_t[]){rows, columns});
    if (!a || !cla_study_draw(s, stream, a))
        return false;
    for (int64_t i = 0; i < rows * columns; i++)
        put(a, i, cla_study_at(a, (size_t)i) / sqrt((double)columns));
    *matrix = clattn_array_tensor(a);
    return true;
}

static bool draw_layer(cla_study *s, stack *t, int layer) {
    clattn_encoder_layer_weights *w = &t->weights[layer];
    const uint64_t stream = STREAM + 2 + MATRICES * (uint64_t)layer;
    return draw_matrix(s, stream, 3 * E, E, &w->self_attn.in_proj) &&
           draw_matrix(s, stream + 1, E, E, &w->self_attn.out) &&
           draw_matrix(s, stream + 2, F, E, &w->feedforward.linear1) &&
           draw_matrix(s, stream + 3, E, F, &w->feedforward.linear2);
}

/* The mean over the tokens of each sequence is taken away. */
static void tell_apart(clattn_array *d) {
    for (int b = 0; b < B; b++)
        for (int e = 0; e < E; e++) {
            double sum = 0;
            for (int i = 0; i < N; i++)
                sum += cla_study_at(d, (size_t)((b * N + i) * E + e));
            for (int i = 0; i < N; i++) {
                const int at = (b * N + i) * E + e;
                put(d, at, cla_study_at(d, (size_t)at) - sum / N);
            }
        }
}

static const clattn_array *new_rows(cla_study *s, clattn_tensor *tensor) {
    const clattn_array *a = cla_study_new(s, s->dtype, 3, (const int64_t[]){B, N, E});
    if (a)
        *tensor = clattn_array_tensor(a);
    return a;
}

static bool make_tensors(cla_study *s, stack *t) {
    clattn_array *x = cla_study_new(s, s->dtype, 3, (const int64_t[]){B, N, E}),
                 *d_y = cla_study_new(s, s->dtype, 3, (const int64_t[]){B, N, E});
    bool ok = x && d_y && cla_study_draw(s, STREAM, x) && cla_study_draw(s, STREAM + 1, d_y);
    if (ok) {
        tell_apart(d_y);
        t->x[0] = clattn_array_tensor(x);
        t->d_y = clattn_array_tensor(d_y);
        t->d_y_of = d_y;
    }
    for (int i = 1; i <= 2 * LAYERS && ok; i++)
        ok = new_rows(s, &t->x[i]) != NULL;
    for (int i = 0; i < 2 && ok; i++)
        ok = (t->d_of[i] = new_rows(s, &t->d[i])) != NULL;
    ok = ok && new_rows(s, &t->inside) && new_rows(s, &t->outside) && new_rows(s, &t->d_inside);
    return ok && new_rows(s, &t->d_sum);
}

/* false: a line was printed. */
static bool make(cla_study *s, stack *t) {
    *t = (stack){.context = s->context};
    bool drawn = make_tensors(s, t);
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < LAYERS && drawn && status == CLATTN_OK; i++) {
        drawn = draw_layer(s, t, i);
        if (drawn)
            status = clattn_multihead_create(t->context, &t->weights[i].self_attn,
                                             &(clattn_multihead_options){.heads = H}, &t->attention[i]);
        if (drawn && status == CLATTN_OK)
            status = clattn_feedforward_create(t->context, &t->weights[i].feedforward, NULL, &t->feedforward[i]);
    }
    if (status != CLATTN_OK)
        cla_study_fail(s, status);
    return drawn && status == CLATTN_OK;
}

static void destroy(stack *t) {
    for (int i = 0; i < LAYERS; i++) {
        clattn_multihead_destroy(t->attention[i]);
        clattn_feedforward_destroy(t->feedforward[i]);
    }
}

/* ---- parts: part 2 l is the attention of layer l, part 2 l + 1 its feed-forward ---- */

static clattn_status run_part(const stack *t, int part, const clattn_tensor *x, const clattn_tensor *y) {
    return part % 2 == 0 ? clattn_multihead_run(t->attention[part / 2], &(clattn_multihead_args){.query = *x, .y = *y})
                         : clattn_feedforward_run(t->feedforward[part / 2], x, y);
}

static clattn_status run_part_backward(const stack *t, int part, const clattn_tensor *x, const clattn_tensor *d_y,
                                       const clattn_tensor *d_x) {
    if (part % 2 == 0)
        return clattn_multihead_backward(
            t->attention[part / 2],
            &(clattn_multihead_backward_args){.forward.query = *x, .d_y = *d_y, .d_query = *d_x});
    return clattn_feedforward_backward(t->feedforward[part / 2],
                                       &(clattn_feedforward_backward_args){.x = *x, .d_y = *d_y, .d_x = *d_x});
}

/* *inside: what the part takes. */
static clattn_status enter(const stack *t, const arrangement *a, int part, const clattn_tensor **inside) {
    *inside = a->norm_before ? &t->inside : &t->x[part];
    return a->norm_before ? clattn_norm(t->context, &(clattn_norm_args){.x = t->x[part], .y = t->inside}) : CLATTN_OK;
}

static clattn_tensor residual_of(const stack *t, const arrangement *a, int part) {
    return a->residual ? t->x[part] : (clattn_tensor){0};
}

static clattn_status forward(const stack *t, const arrangement *a, int part) {
    const clattn_tensor *inside, *y = &t->x[part + 1], *outside = a->residual || a->norm_after ? &t->outside : y;
    clattn_status status = enter(t, a, part, &inside);
    if (status == CLATTN_OK)
        status = run_part(t, part, inside, outside);
    if (status == CLATTN_OK && a->norm_after)
        return clattn_norm(t->context,
                           &(clattn_norm_args){.x = *outside, .residual = residual_of(t, a, part), .y = *y});
    if (status == CLATTN_OK && a->residual)
        return clattn_add(t->context, &(clattn_add_args){.a = *outside, .b = t->x[part], .y = *y});
    return status;
}

/* From the gradient by the next part's input to that by this one's. */
static clattn_status backward(const stack *t, const arrangement *a, int part, const clattn_tensor *d,
                              const clattn_tensor *to) {
    const clattn_tensor *inside, *by_sum = a->norm_after ? &t->d_sum : d, *by_inside = a->residual ? &t->d_inside : to;
    clattn_status status = enter(t, a, part, &inside);
    if (status == CLATTN_OK && a->norm_after)
        status = run_part(t, part, inside, &t->outside);
    if (status == CLATTN_OK && a->norm_after)
        status = clattn_norm_backward(
            t->context, &(clattn_norm_backward_args){
                            .x = t->outside, .residual = residual_of(t, a, part), .d_y = *d, .d_x = t->d_sum});
    if (status == CLATTN_OK)
        status = run_part_backward(t, part, inside, by_sum, by_inside);
    if (status == CLATTN_OK && a->norm_before)
        return clattn_norm_backward(
            t->context, &(clattn_norm_backward_args){.x = t->x[part], .d_y = *by_inside, .d_sum = *by_sum, .d_x = *to});
    if (status == CLATTN_OK && a->residual)
        return clattn_add(t->context, &(clattn_add_args){.a = *by_inside, .b = *by_sum, .y = *to});
    return status;
}

/* ---- depths ---- */

static double length_of(const clattn_array *a) {
    double sum = 0;
    for (size_t i = 0; i < (size_t)(B * N * E); i++)
        sum += cla_study_at(a, i) * cla_study_at(a, i);
    return sqrt(sum);
}

/* The gradient by x of the first `layers`; *last: which of t->d holds it. With norms before parts there is one more
 * behind the last layer. */
static clattn_status go_back(const stack *t, const arrangement *a, int layers, int *last) {
    const clattn_tensor *d = &t->d_y;
    clattn_status status = CLATTN_OK;
    *last = 0;
    if (a->norm_before) {
        status = clattn_norm_backward(
            t->context, &(clattn_norm_backward_args){.x = t->x[2 * layers], .d_y = t->d_y, .d_x = t->d[0]});
        d = &t->d[0];
    }
    for (int part = 2 * layers - 1; part >= 0 && status == CLATTN_OK; part--) {
        *last = !*last;
        status = backward(t, a, part, d, &t->d[*last]);
        d = &t->d[*last];
    }
    return status;
}

/* Shares of the gradient that reach the input, of each depth. */
static clattn_status run_depths(const stack *t, const arrangement *a, double *shares, const clattn_array **d_x) {
    clattn_status status = CLATTN_OK;
    int last = 0;
    for (int part = 0; part < 2 * LAYERS && status == CLATTN_OK; part++)
        status = forward(t, a, part);
    for (int i = 0; i < CLA_DEPTHS && status == CLATTN_OK; i++) {
        status = go_back(t, a, cla_depths[i], &last);
        if (status == CLATTN_OK)
            shares[i] = length_of(t->d_of[last]) / length_of(t->d_y_of);
    }
    *d_x = t->d_of[last];
    return status;
}

/* The same by one module of all layers, whose backward pass takes what each layer gave. */
static clattn_status run_encoder(const stack *t, const arrangement *a, const clattn_tensor *d_x) {
    const clattn_layer_options options = {.heads = H, .norm_first = a->norm_before};
    const clattn_encoder_weights weights = {.layers = t->weights, .count = LAYERS, .has_norm = a->norm_before};
    clattn_encoder *encoder = NULL;
    clattn_tensor hidden[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        hidden[i] = t->x[2 * i + 2];
    clattn_status status = clattn_encoder_create(t->context, &weights, &options, &encoder);
    if (status == CLATTN_OK)
        status = clattn_encoder_backward(
            encoder,
            &(clattn_encoder_backward_args){.forward = {.x = t->x[0], .hidden = hidden}, .d_y = t->d_y, .d_x = *d_x});
    clattn_encoder_destroy(encoder);
    return status;
}

static clattn_status compare_encoder(cla_study *s, const stack *t, const arrangement *a, const clattn_array *by_parts) {
    const int other = by_parts == t->d_of[0];
    const clattn_status status = run_encoder(t, a, &t->d[other]);
    if (status == CLATTN_OK)
        cla_study_figure(s,
                         a->norm_before ? "LayerNorm before: |d_x of clattn_encoder_backward - by parts| over |d_x|"
                                        : "LayerNorm after: |d_x of clattn_encoder_backward - by parts| over |d_x|",
                         NULL, 0, cla_study_difference(by_parts, t->d_of[other]) / length_of(by_parts),
                         cla_study_bound(s, 1e-12, 1e-4));
    return status;
}

/* ---- what comes out ---- */

static void print(double (*shares)[CLA_DEPTHS]) {
    printf("  |gradient by the input| over |gradient by the output|, of a loss that tells the %d tokens apart\n", N);
    printf("  %6s", "layers");
    for (int a = 0; a < CLA_ARRANGEMENTS; a++)
        printf("  %26s", cla_arrangement_names[a]);
    printf("\n");
    for (int i = 0; i < CLA_DEPTHS; i++) {
        printf("  %6d", cla_depths[i]);
        for (int a = 0; a < CLA_ARRANGEMENTS; a++)
            printf("  %26.3g", shares[a][i]);
        printf("\n");
    }
}

static void add_rows(cla_study *s, double (*shares)[CLA_DEPTHS]) {
    char names[160] = "layers";
    for (int a = 0; a < CLA_ARRANGEMENTS; a++)
        snprintf(names + strlen(names), sizeof names - strlen(names), ",%s", cla_arrangement_keys[a]);
    for (int i = 0; i < CLA_DEPTHS; i++) {
        double values[1 + CLA_ARRANGEMENTS] = {cla_depths[i]};
        for (int a = 0; a < CLA_ARRANGEMENTS; a++)
            values[1 + a] = shares[a][i];
        cla_study_row(s, names, values);
    }
}

/* Of one layer, in squares: ReLU lets half of a gradient through, so feed-forward halves it, and adds a half to a
 * residual one. Attention makes tokens alike (Dong et al. 2021), and then lets nothing through that tells them apart: a
 * residual connection alone does, and LayerNorm behind divides it by at most 2, the size of the sum of two alike (Xiong
 * et al. 2020). With LayerNorm before, the sum of n layers has the size 1 + 3/2 n, by which the last LayerNorm divides,
 * and what passes feed-forward alone grows as the third root of that: less than the two thirds are not lost. */
static void judge(cla_study *s, double (*shares)[CLA_DEPTHS]) {
    enum { NEITHER, NORM, RESIDUAL, AFTER, BEFORE, LAST = CLA_DEPTHS - 1 };
    const double half = LAYERS / 2.0, room = 0.5; /* room: what comes through the scores */
    double furthest = 0;
    for (int i = 0; i < CLA_DEPTHS; i++)
        furthest = fmax(furthest, fabs(log2(shares[BEFORE][i])));
    cla_study_figure(s, "24 layers, neither: share that comes through", NULL, 0, shares[NEITHER][LAST], exp2(-half));
    cla_study_figure(s, "24 layers, LayerNorm alone: share that comes through", NULL, 0, shares[NORM][LAST],
                     exp2(-half));
    cla_study_figure(s, "24 layers, residual alone: 1 / share", NULL, 0, 1 / shares[RESIDUAL][LAST], pow(1.5, -half));
    cla_study_figure(s, "24 layers, residual and LayerNorm after: log2 of the share", NULL, (room - half) / 2,
                     log2(shares[AFTER][LAST]), (room + half) / 2);
    cla_study_figure(s, "1 to 24 layers, residual and LayerNorm before: max |log2 of the share|", NULL, 0, furthest,
                     log2(1 + 1.5 * LAYERS) / 3);
}

int cla_study_depth(cla_study *s) {
    double shares[CLA_ARRANGEMENTS][CLA_DEPTHS] = {{0}};
    cla_progress progress = cla_progress_begin("study gradient, depth");
    stack t;
    const bool made = make(s, &t);
    clattn_status status = CLATTN_OK;
    for (int a = 0; a < CLA_ARRANGEMENTS && made && status == CLATTN_OK; a++) {
        const clattn_array *d_x;
        cla_progress_step(&progress, a, CLA_ARRANGEMENTS);
        status = run_depths(&t, &arrangements[a], shares[a], &d_x);
        if (status == CLATTN_OK && arrangements[a].residual &&
            (arrangements[a].norm_after || arrangements[a].norm_before))
            status = compare_encoder(s, &t, &arrangements[a], d_x);
    }
    destroy(&t);
    cla_progress_end(&progress);
    if (status != CLATTN_OK)
        return cla_study_fail(s, status);
    if (!made)
        return CLA_EXIT_FAILED;
    print(shares);
    add_rows(s, shares);
    judge(s, shares);
    return CLA_EXIT_OK;
}
