/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref_backward.h"

#include "base/mem.h"
#include "ref/ref_linear.h"
#include "ref/ref_rows.h"
#include "ref/ref_tokens.h"
#include <math.h>

/* ---- sums over rows ---- */

enum { COLUMNS = 64 };

void cla_ref_sums(const cla_sums *a) {
    const int64_t chunks = (a->length + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for if (a->rows * a->length > 4096)
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const int64_t first = chunk * COLUMNS, end = cla_min(first + COLUMNS, a->length);
        double sum[COLUMNS] = {0};
        for (int64_t row = 0; row < a->rows; row++) {
            const int64_t x = cla_ref_row(&a->x, a->outer, row);
            for (int64_t i = first; i < end; i++)
                sum[i - first] += cla_ref_load(&a->x, x, a->outer, i);
        }
        for (int64_t i = first; i < end; i++) {
            const double old = a->add ? cla_ref_load(&a->y, a->y.offset, a->outer, i) : 0;
            cla_ref_store(&a->y, a->y.offset, a->outer, i, old + sum[i - first]);
        }
    }
}

/* ---- norms ---- */

typedef struct {
    int64_t x, residual, weight, d_y, d_sum, d_x;
} norm_starts;

static double element(const cla_norm_back *a, const norm_starts *r, int64_t i) {
    const double x = cla_ref_load(&a->x, r->x, a->outer, i);
    return a->residual.rank > 0 ? x + cla_ref_load(&a->residual, r->residual, a->outer, i) : x;
}

static double slope(const cla_norm_back *a, const norm_starts *r, int64_t i) {
    const double g = cla_ref_load(&a->d_y, r->d_y, a->outer, i);
    return a->weight.rank > 0 ? g * cla_ref_load(&a->weight, r->weight, a->outer, i) : g;
}

static void norm_row(const cla_norm_back *a, int64_t row) {
    const norm_starts r = {cla_ref_row(&a->x, a->outer, row),      cla_ref_row(&a->residual, a->outer, row),
                           cla_ref_row(&a->weight, a->outer, row), cla_ref_row(&a->d_y, a->outer, row),
                           cla_ref_row(&a->d_sum, a->outer, row),  cla_ref_row(&a->d_x, a->outer, row)};
    const double count = a->length > 0 ? (double)a->length : 1;
    double mean = 0, squares = 0, level = 0, tilt = 0;
    for (int64_t i = 0; a->kind == CLATTN_NORM_LAYER && i < a->length; i++)
        mean += element(a, &r, i) / count;
    for (int64_t i = 0; i < a->length; i++) {
        const double d = element(a, &r, i) - mean;
        squares += d * d;
    }
    const double inverse = 1 / sqrt(squares / count + a->epsilon);
    for (int64_t i = 0; i < a->length; i++) {
        const double g = slope(a, &r, i);
        level += a->kind == CLATTN_NORM_LAYER ? g / count : 0;
        tilt += g * (element(a, &r, i) - mean) * inverse / count;
    }
    for (int64_t i = 0; i < a->length; i++) {
        const double n = (element(a, &r, i) - mean) * inverse;
        double d = (slope(a, &r, i) - level - n * tilt) * inverse;
        if (a->terms.rank > 0)
            cla_store_element(a->terms.host, a->terms.dtype, row * a->length + i,
                              n * cla_ref_load(&a->d_y, r.d_y, a->outer, i));
        if (a->d_sum.rank > 0)
            d += cla_ref_load(&a->d_sum, r.d_sum, a->outer, i);
        if (a->d_x.rank > 0)
            cla_ref_store(&a->d_x, r.d_x, a->outer, i, d);
    }
}

void cla_ref_norm_back(const cla_norm_back *a) {
#pragma omp parallel for if (a->rows * a->length > 4096)
    for (int64_t row = 0; row < a->rows; row++)
        norm_row(a, row);
}

/* ---- elements ---- */

double cla_ref_slope(clattn_activation activation, double d, double x) {
    switch (activation) {
    case CLATTN_ACTIVATION_NONE:
        break;
    case CLATTN_ACTIVATION_RELU:
        return x <= 0 ? 0 : d;
    case CLATTN_ACTIVATION_GELU: {
        const double density = 0.39894228040143267794 * exp(-0.5 * x * x);
        return d * (0.5 + 0.5 * erf(x * 0.70710678118654752440) + (density == 0 ? 0 : x * density));
    }
    case CLATTN_ACTIVATION_GELU_TANH: {
        const double t = tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)), rest = 1 - t * t;
        const double inner = 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
        return d * (0.5 * (1 + t) + (rest == 0 ? 0 : 0.5 * x * rest * inner));
    }
    case CLATTN_ACTIVATION_SILU: {
        const double e = exp(-fabs(x)), s = (x < 0 ? e : 1) / (1 + e);
        return d * (s + (e == 0 ? 0 : x * e / ((1 + e) * (1 + e))));
    }
    }
    return d;
}

void cla_ref_points_back(const cla_points_back *a) {
    const int64_t step = 4096, parts = (a->length + step - 1) / step; /* rows may be few and long */
#pragma omp parallel for if (a->rows * a->length > 4096)
    for (int64_t part = 0; part < a->rows * parts; part++) {
        const int64_t row = part / parts, first = part % parts * step, end = cla_min(first + step, a->length);
        const int64_t x = cla_ref_row(&a->x, a->outer, row), up = cla_ref_row(&a->up, a->outer, row);
        const int64_t d_y = cla_ref_row(&a->d_y, a->outer, row), d_x = cla_ref_row(&a->d_x, a->outer, row);
        const int64_t d_up = cla_ref_row(&a->d_up, a->outer, row);
        for (int64_t i = first; i < end; i++) {
            const double v = cla_ref_load(&a->x, x, a->outer, i), d = cla_ref_load(&a->d_y, d_y, a->outer, i);
            const double gated = a->up.rank > 0 ? d * cla_ref_load(&a->up, up, a->outer, i) : d;
            if (a->d_up.rank > 0)
                cla_ref_store(&a->d_up, d_up, a->outer, i, d * cla_ref_activate(a->activation, v));
            if (a->d_x.rank > 0)
                cla_ref_store(&a->d_x, d_x, a->outer, i, cla_ref_slope(a->activation, gated, v));
        }
    }
}

/* ---- softmax ---- */

void cla_ref_softmax_back(const cla_softmax_back *a) {
#pragma omp parallel for if (a->rows * a->length > 4096)
    for (int64_t row = 0; row < a->rows; row++) {
        const int64_t y = cla_ref_row(&a->y, a->outer, row), d_y = cla_ref_row(&a->d_y, a->outer, row);
        const int64_t d_x = cla_ref_row(&a->d_x, a->outer, row);
        double sum = 0;
        for (int64_t i = 0; i < a->length; i++) {
            const double p = cla_ref_load(&a->y, y, a->outer, i);
            sum += p == 0 ? 0 : p * cla_ref_load(&a->d_y, d_y, a->outer, i);
        }
        for (int64_t i = 0; i < a->length; i++) {
            const double p = cla_ref_load(&a->y, y, a->outer, i);
            cla_ref_store(&a->d_x, d_x, a->outer, i, p == 0 ? 0 : p * (cla_ref_load(&a->d_y, d_y, a->outer, i) - sum));
        }
    }
}

/* ---- embedding ---- */

/* Places of each id, first to last, as in embed_backward.cl. */
clattn_status cla_ref_embed_back(const cla_embed_back *a) {
    const clattn_tensor *t = &a->table;
    const int64_t V = t->shape[0];
    int64_t *heads = NULL, *next = NULL;
    clattn_status status = cla_alloc((size_t)V, sizeof *heads, "lists of ids", &heads);
    if (status == CLATTN_OK)
        status = cla_alloc((size_t)a->rows, sizeof *next, "lists of ids", &next);
    for (int64_t v = 0; status == CLATTN_OK && v < V; v++)
        heads[v] = -1;
    for (int64_t row = a->rows - 1; status == CLATTN_OK && row >= 0; row--) {
        const int64_t id = cla_ref_id(&a->ids, a->outer, row);
        if (id < 0 || id >= V || (a->has_padding && id == a->padding))
            continue;
        next[row] = heads[id];
        heads[id] = row;
    }
    const bool ready = status == CLATTN_OK;
#pragma omp parallel for schedule(dynamic, 16) if (a->length * (a->rows + V) > 4096)
    for (int64_t v = 0; v < V; v++)
        for (int64_t i = 0; ready && i < a->length; i++) {
            const int64_t place = t->offset + v * t->stride[0] + i * t->stride[1];
            double sum = 0;
            if (heads[v] < 0 && a->add)
                continue;
            for (int64_t row = heads[v]; row >= 0; row = next[row])
                sum += cla_ref_load(&a->d_y, cla_ref_row(&a->d_y, a->outer, row), a->outer, i);
            sum *= a->scale;
            cla_store_element(t->host, t->dtype, place,
                              sum + (a->add ? cla_load_element(t->host, t->dtype, place) : 0));
        }
    cla_free(heads);
    cla_free(next);
    return status;
}

/* ---- cross-entropy ---- */

static bool is_ignored(const cla_loss *a, int64_t row) {
    return a->has_ignore && cla_ref_id(&a->targets, a->outer, row) == a->ignore;
}

static double loss_of(const cla_loss *a, int64_t row, double factor) {
    const int64_t x = cla_ref_row(&a->logits, a->outer, row), d = cla_ref_row(&a->d_logits, a->outer, row);
    const int64_t target = cla_ref_id(&a->targets, a->outer, row);
    const bool ignored = is_ignored(a, row), known = !ignored && target >= 0 && target < a->length;
    const double spread = a->smoothing / (double)cla_max(a->length, 1);
    double most = -(double)INFINITY, sum = 0, away = 0, loss = ignored ? 0 : (double)NAN;
    for (int64_t i = 0; known && i < a->length; i++) {
        const double v = cla_ref_load(&a->logits, x, a->outer, i);
        most = v > most ? v : most;
    }
    most = most == -(double)INFINITY ? 0 : most;
    for (int64_t i = 0; known && i < a->length; i++) {
        const double v = cla_ref_load(&a->logits, x, a->outer, i) - most;
        sum += exp(v);
        away += a->smoothing > 0 ? v : 0;
    }
    if (known)
        loss = log(sum) - (1 - a->smoothing) * (cla_ref_load(&a->logits, x, a->outer, target) - most) - spread * away;
    for (int64_t i = 0; a->d_logits.rank > 0 && i < a->length; i++) {
        double g = loss;
        if (known) {
            g = exp(cla_ref_load(&a->logits, x, a->outer, i) - most) / sum - spread;
            g = factor * (i == target ? g - (1 - a->smoothing) : g);
        }
        cla_ref_store(&a->d_logits, d, a->outer, i, g);
    }
    return loss;
}

clattn_status cla_ref_cross_entropy(const cla_loss *a) {
    double *losses = NULL, sum = 0, factor;
    int64_t counted = 0;
    const clattn_status status = cla_alloc((size_t)a->rows, sizeof *losses, "losses", &losses);
    if (status != CLATTN_OK)
        return status;
    for (int64_t row = 0; row < a->rows; row++)
        counted += !is_ignored(a, row);
    factor = !a->mean ? a->scale : counted > 0 ? a->scale / (double)counted : 0;
#pragma omp parallel for if (a->rows * a->length > 4096)
    for (int64_t row = 0; row < a->rows; row++) {
        losses[row] = loss_of(a, row, factor);
        if (a->row_losses.rank > 0)
            cla_store_element(a->row_losses.host, a->row_losses.dtype, cla_ref_row(&a->row_losses, a->outer, row),
                              losses[row]);
    }
    for (int64_t row = 0; row < a->rows; row++)
        sum += losses[row];
    if (a->loss.rank > 0)
        cla_store_element(a->loss.host, a->loss.dtype, a->loss.offset, factor * sum);
    cla_free(losses);
    return CLATTN_OK;
}
