/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary embedding: options, positions and tables of angles; rotation.c does the rest. */
#include "ops/rotary.h"

#include "base/error.h"
#include "base/mem.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "tensor/view.h"
#include <math.h>
#include <string.h>

#define TAU 6.283185307179586476925286766559L

clattn_status cla_rotary_pairs(const clattn_rotary_options *options, int64_t D, int64_t *pairs) {
    clattn_status status = CLATTN_OK;
    const int64_t dims = options->dims ? options->dims : D;
    CLA_TRY(CLA_RESERVED(clattn_rotary_options, options));
    CLA_CHECK(dims > 0 && dims <= D && dims % 2 == 0, CLATTN_E_SHAPE,
              "rotary: %lld dims of a head dim of %lld; they are even, and no more than there are", (long long)dims,
              (long long)D);
    CLA_CHECK((unsigned)options->pairs <= CLATTN_ROTARY_ADJACENT, CLATTN_E_ARGUMENT,
              "rotary: %d is no way to pair dims", (int)options->pairs);
    CLA_CHECK(options->base >= 0 && isfinite(options->base), CLATTN_E_ARGUMENT,
              "rotary: base %g; it is a finite number above 0, or 0 for 10000", options->base);
    for (int64_t d = 0; options->frequencies && d < dims / 2; d++)
        CLA_CHECK(isfinite(options->frequencies[d]), CLATTN_E_ARGUMENT, "rotary: frequency %lld is %g", (long long)d,
                  options->frequencies[d]);
    *pairs = dims / 2;
done:
    return status;
}

/* In long double, where that is wider: the angle of position 10^6 still has all digits of a double's cosine. */
static clattn_status frequencies_of(const clattn_rotary_options *options, int64_t pairs, long double **out) {
    clattn_status status = CLATTN_OK;
    const long double base = options->base > 0 ? options->base : 10000;
    long double *f = NULL;
    CLA_TRY(cla_alloc((size_t)pairs, sizeof *f, "frequencies", &f));
    for (int64_t d = 0; d < pairs; d++)
        f[d] = options->frequencies ? options->frequencies[d] : powl(base, -(long double)d / (long double)pairs);
    *out = f;
done:
    return status;
}

clattn_status cla_rotary_table(const clattn_rotary_options *options, int64_t pairs, const int64_t *positions,
                               int64_t rows, double **table) {
    clattn_status status = CLATTN_OK;
    int64_t count;
    long double *f = NULL;
    double *out = NULL;
    CLA_CHECK(cla_mul(rows, pairs, &count) && cla_mul(count, 2, &count), CLATTN_E_MEMORY,
              "rotary: %lld positions of %lld angles are too many", (long long)rows, (long long)pairs);
    CLA_TRY(frequencies_of(options, pairs, &f));
    CLA_TRY(cla_alloc((size_t)count, sizeof *out, "cosines and sines", &out));
#pragma omp parallel for if (count > 4096)
    for (int64_t row = 0; row < rows; row++)
        for (int64_t d = 0; d < pairs; d++) {
            const long double angle = (long double)positions[row] * f[d];
            const double rest = (double)(angle - TAU * rintl(angle / TAU));
            out[row * pairs + d] = cos(rest);
            out[(rows + row) * pairs + d] = sin(rest);
        }
    *table = out;
done:
    cla_free(f);
    return status;
}

clattn_status cla_rotary_check_positions(const int64_t *positions, const char *name, int64_t count) {
    const int64_t most = (int64_t)1 << 53;
    for (int64_t i = 0; positions && i < count; i++)
        if (positions[i] > most || positions[i] < -most)
            return cla_error(CLATTN_E_ARGUMENT, "%s: number %lld is %lld, beyond the 2^53 that angles are found for",
                             name, (long long)i, (long long)positions[i]);
    return CLATTN_OK;
}

/* ---- clattn_rotary ---- */

typedef struct {
    const clattn_rotary_args *args;
    cla_rotation rotation;
    int64_t *positions; /* [B, N], or [N] when batches share them */
    int64_t batches;    /* of positions: B or 1 */
    int32_t *rows;
    double *table;
} rotary;

static clattn_status take_tensors(clattn_context *context, rotary *r) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    clattn_tensor *x = &r->rotation.x, *y = &r->rotation.y;
    CLA_TRY(cla_operand_take(context, &r->args->x, "x", CLA_OPERAND_FLOATS, x));
    CLA_TRY(cla_operand_take(context, &r->args->y, "y", CLA_OPERAND_OUTPUT, y));
    CLA_CHECK(memcmp(x->shape, y->shape, 4 * sizeof *x->shape) == 0, CLATTN_E_SHAPE, "y %s: differs from x %s",
              cla_shape_text(y, text, sizeof text), cla_shape_text(x, other, sizeof other));
    CLA_TRY(cla_operand_same_or_apart(x, "x", y, "y"));
    CLA_CHECK(!r->args->offsets || !r->args->positions, CLATTN_E_ARGUMENT, "rotary: offsets and positions; give one");
    CLA_TRY(cla_rotary_pairs(&r->args->options, x->shape[3], &r->rotation.pairs));
    r->rotation.adjacent = r->args->options.pairs == CLATTN_ROTARY_ADJACENT;
done:
    return status;
}

static bool offsets_agree(const int64_t *offsets, int64_t B) {
    for (int64_t b = 1; offsets && b < B; b++)
        if (offsets[b] != offsets[0])
            return false;
    return true;
}

static clattn_status take_positions(rotary *r) {
    clattn_status status = CLATTN_OK;
    const clattn_rotary_args *args = r->args;
    const int64_t B = r->rotation.x.shape[0], N = r->rotation.x.shape[2];
    r->batches = B > 0 && !args->positions && offsets_agree(args->offsets, B) ? 1 : B;
    const int64_t count = r->batches * N;
    CLA_TRY(cla_rotary_check_positions(args->offsets, "offsets", B));
    CLA_TRY(cla_rotary_check_positions(args->positions, "positions", count));
    if (clattn_tensor_elements(&r->rotation.x) == 0) /* rows may be more than memory */
        goto done;
    CLA_TRY(cla_alloc((size_t)count, sizeof *r->positions, "positions", &r->positions));
    for (int64_t row = 0; row < count; row++)
        r->positions[row] =
            args->positions ? args->positions[row] : row % N + (args->offsets ? args->offsets[row / N] : 0);
done:
    return status;
}

/* The caller's tables, looked up by position, or with a row for each row of x. */
static clattn_status take_tables(clattn_context *context, rotary *r) {
    clattn_status status = CLATTN_OK;
    const clattn_rotary_args *args = r->args;
    const int64_t B = r->rotation.x.shape[0], N = r->rotation.x.shape[2], pairs = r->rotation.pairs;
    clattn_tensor *const tables[] = {&r->rotation.cos, &r->rotation.sin};
    const clattn_tensor *const given[] = {&args->cos, &args->sin};
    static const char *const names[] = {"cos", "sin"};
    char text[200];
    for (int i = 0; i < 2; i++) {
        const clattn_tensor *t = given[i];
        CLA_TRY(cla_operand_take(context, t, names[i], CLA_OPERAND_FLOATS, tables[i]));
        CLA_CHECK(t->rank == args->cos.rank && t->rank <= 3 && t->shape[t->rank - 1] == pairs, CLATTN_E_SHAPE,
                  "%s %s: should be [batch, rows, %lld] or [positions, %lld], cos and sin alike", names[i],
                  cla_shape_text(t, text, sizeof text), (long long)pairs, (long long)pairs);
        if (t->rank == 3) {
            CLA_CHECK((t->shape[0] == 1 || t->shape[0] == B) && t->shape[1] == N, CLATTN_E_SHAPE,
                      "%s %s: should be [%lld or 1, %lld, %lld], a row for each of x", names[i],
                      cla_shape_text(t, text, sizeof text), (long long)B, (long long)N, (long long)pairs);
            tables[i]->stride[1] = t->shape[0] == 1 ? 0 : tables[i]->stride[1];
        }
        CLA_TRY(cla_operand_apart(tables[i], names[i], &r->rotation.y, "y"));
    }
    CLA_CHECK(args->cos.rank == 2 || (!args->offsets && !args->positions), CLATTN_E_ARGUMENT,
              "positions: are looked up in tables of rank 2, and cos has rank 3");
    if (args->cos.rank == 3 || clattn_tensor_elements(&r->rotation.x) == 0)
        goto done;
    CLA_TRY(cla_alloc((size_t)(B * N), sizeof *r->rows, "positions", &r->rows));
    for (int64_t row = 0; row < B * N; row++) {
        const int64_t position = r->positions[r->batches == 1 ? row % N : row];
        CLA_CHECK(position >= 0 && position < args->cos.shape[0] && position < args->sin.shape[0], CLATTN_E_ARGUMENT,
                  "positions: row %lld of batch %lld stands at %lld, and the tables have %lld", (long long)(row % N),
                  (long long)(row / N), (long long)position,
                  (long long)cla_min(args->cos.shape[0], args->sin.shape[0]));
        r->rows[row] = (int32_t)position;
    }
    r->rotation.rows = r->rows;
done:
    return status;
}

static clattn_status make_tables(rotary *r) {
    clattn_status status = CLATTN_OK;
    const int64_t N = r->rotation.x.shape[2], pairs = r->rotation.pairs, rows = r->batches * N;
    const int64_t shape[4] = {1, r->batches, N, pairs};
    CLA_TRY(cla_rotary_table(&r->args->options, pairs, r->positions, rows, &r->table));
    r->rotation.cos = clattn_tensor_host(r->table, CLATTN_F64, 4, shape);
    r->rotation.sin = clattn_tensor_host(r->table + rows * pairs, CLATTN_F64, 4, shape);
    if (r->batches == 1)
        r->rotation.cos.stride[1] = r->rotation.sin.stride[1] = 0;
done:
    return status;
}

static clattn_status run(clattn_context *context, const cla_rotation *rotation) {
    clattn_status status = CLATTN_OK;
    cla_rotation_job job = {.count = 0};
    CLA_TRY(cla_rotation_prepare(context, rotation, 1, &job));
    CLA_TRY(cla_rotation_launch(context, &job));
done:
    cla_rotation_release(&job);
    return status;
}

clattn_status clattn_rotary(clattn_context *context, const clattn_rotary_args *args) {
    clattn_status status = CLATTN_OK;
    rotary r = {.args = args};
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "rotary: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_rotary_args, args));
    CLA_TRY(take_tensors(context, &r));
    CLA_TRY(take_positions(&r));
    const bool given = cla_present(&args->cos) || cla_present(&args->sin);
    if (given)
        CLA_TRY(take_tables(context, &r));
    if (clattn_tensor_elements(&r.rotation.x) == 0)
        goto done;
    if (!given)
        CLA_TRY(make_tables(&r));
    const cla_staged tensors[] = {
        {&r.rotation.x, CLA_IN}, {&r.rotation.y, CLA_OUT}, {&r.rotation.cos, CLA_IN}, {&r.rotation.sin, CLA_IN}};
    status = cla_staging_begin(context, tensors, given ? 4 : 2, &staging);
    if (status == CLATTN_OK)
        status = run(context, &r.rotation);
    status = cla_staging_end(&staging, status);
done:
    cla_free(r.positions);
    cla_free(r.rows);
    cla_free(r.table);
    return status;
}
