/* SPDX-License-Identifier: Apache-2.0 */
/* Appending keys and values to a cache in place: everything is checked and prepared before anything is written. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/operand.h"
#include "ops/rotary.h"
#include "ops/staging.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include <stdlib.h>

typedef struct {
    int32_t page;
    int64_t batch;
} written_page;

typedef struct {
    const clattn_cache_append_args *args;
    int64_t B, Hk, L;
    int64_t capacity, page_size; /* slots of a batch; page_size 0: in one piece */
    bool present[2];             /* k, v */
    cla_rotation rotations[3];   /* k, v, q */
    int32_t *places;             /* [B, L, 2] */
    int32_t *rows;               /* [B, L] of tables */
    double *table;
} append;

static const char *const new_names[] = {"k", "v"}, *const cache_names[] = {"k_cache", "v_cache"};

/* ---- checks ---- */

/* The new rows and the cache of k or v. */
static clattn_status take_pair(clattn_context *context, append *a, int i) {
    clattn_status status = CLATTN_OK;
    const clattn_cache_append_args *args = a->args;
    const clattn_tensor *rows = i ? &args->v : &args->k, *cache = i ? &args->v_cache : &args->k_cache;
    clattn_tensor *x = &a->rotations[i].x, *y = &a->rotations[i].y;
    char text[200], other[200];
    CLA_CHECK(cla_present(rows) == cla_present(cache), CLATTN_E_ARGUMENT, "%s: is missing, and %s is given",
              cla_present(rows) ? cache_names[i] : new_names[i], cla_present(rows) ? new_names[i] : cache_names[i]);
    a->present[i] = cla_present(rows);
    if (!a->present[i])
        goto done;
    CLA_TRY(cla_operand_take(context, rows, new_names[i], CLA_OPERAND_FLOATS, x));
    CLA_TRY(cla_operand_take(context, cache, cache_names[i], CLA_OPERAND_OUTPUT | CLA_OPERAND_BLOCKS, y));
    CLA_CHECK(x->shape[1] == y->shape[1] && x->shape[3] == y->shape[3] &&
                  (args->block_table || x->shape[0] == y->shape[0]),
              CLATTN_E_SHAPE, "%s %s: heads, dims or batch differ from %s %s", cache_names[i],
              cla_shape_text(y, text, sizeof text), new_names[i], cla_shape_text(x, other, sizeof other));
    CLA_CHECK(!args->block_table || cache->rank == 4, CLATTN_E_SHAPE, "%s: rank %d; in pages it has rank 4",
              cache_names[i], cache->rank);
done:
    return status;
}

/* k and v go together, slot by slot. */
static clattn_status check_together(append *a) {
    clattn_status status = CLATTN_OK;
    const int first = a->present[0] ? 0 : 1;
    const clattn_tensor *x = &a->rotations[first].x, *y = &a->rotations[first].y;
    CLA_CHECK(a->present[first], CLATTN_E_ARGUMENT, "cache_append: neither k nor v is given");
    a->B = x->shape[0], a->Hk = x->shape[1], a->L = x->shape[2];
    a->capacity = y->shape[2];
    if (first == 0 && a->present[1]) {
        const clattn_tensor *v = &a->rotations[1].x, *v_cache = &a->rotations[1].y;
        CLA_CHECK(v->shape[0] == a->B && v->shape[1] == a->Hk && v->shape[2] == a->L, CLATTN_E_SHAPE,
                  "v: [%lld, %lld, %lld] before its dims, and k has [%lld, %lld, %lld]", (long long)v->shape[0],
                  (long long)v->shape[1], (long long)v->shape[2], (long long)a->B, (long long)a->Hk, (long long)a->L);
        CLA_CHECK(v_cache->shape[0] == y->shape[0] && v_cache->shape[2] == y->shape[2], CLATTN_E_SHAPE,
                  "v_cache: %lld x %lld slots, and k_cache has %lld x %lld", (long long)v_cache->shape[0],
                  (long long)v_cache->shape[2], (long long)y->shape[0], (long long)y->shape[2]);
    }
    /* Interleaved caches lie in one another, and that is right. */
    CLA_CHECK(!a->present[0] || !a->present[1] || !cla_view_meets(&a->rotations[0].y, &a->rotations[1].y),
              CLATTN_E_ARGUMENT, "v_cache: lies over k_cache; give it memory of its own");
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            if (a->present[i] && a->present[j])
                CLA_TRY(cla_operand_apart(&a->rotations[i].x, new_names[i], &a->rotations[j].y, cache_names[j]));
done:
    return status;
}

static clattn_status check_table(append *a) {
    clattn_status status = CLATTN_OK;
    const clattn_cache_append_args *args = a->args;
    CLA_CHECK(args->block_table || args->table_pages == 0, CLATTN_E_ARGUMENT,
              "block_table: is NULL, and table_pages %lld", (long long)args->table_pages);
    if (!args->block_table)
        goto done;
    a->page_size = a->capacity;
    CLA_CHECK(args->table_pages >= 0 && a->page_size > 0 && cla_mul(args->table_pages, a->page_size, &a->capacity),
              CLATTN_E_SHAPE, "block_table: %lld pages of %lld slots", (long long)args->table_pages,
              (long long)a->page_size);
done:
    return status;
}

static int64_t new_rows(const append *a, int64_t b) { return a->args->new_lengths ? a->args->new_lengths[b] : a->L; }

static clattn_status check_lengths(const append *a) {
    clattn_status status = CLATTN_OK;
    const int64_t *lengths = a->args->cache_lengths;
    CLA_CHECK(lengths || a->B == 0, CLATTN_E_ARGUMENT, "cache_lengths: are missing; 0 each for an empty cache");
    for (int64_t b = 0; b < a->B; b++) {
        const int64_t rows = new_rows(a, b);
        CLA_CHECK(rows >= 0 && rows <= a->L, CLATTN_E_SHAPE, "new_lengths: batch %lld has %lld, outside 0 to %lld",
                  (long long)b, (long long)rows, (long long)a->L);
        CLA_CHECK(lengths[b] >= 0 && lengths[b] <= a->capacity, CLATTN_E_SHAPE,
                  "cache_lengths: batch %lld has %lld, outside 0 to %lld", (long long)b, (long long)lengths[b],
                  (long long)a->capacity);
        CLA_CHECK(
            rows <= a->capacity - lengths[b], CLATTN_E_LIMIT,
            "cache_append: batch %lld holds %lld of %lld slots, and %lld rows more do not fit; nothing is written",
            (long long)b, (long long)lengths[b], (long long)a->capacity, (long long)rows);
    }
done:
    return status;
}

static int by_page(const void *x, const void *y) {
    const written_page *a = x, *b = y;
    return (a->page > b->page) - (a->page < b->page);
}

/* Pages that are written belong to the cache, and to one batch and entry each. */
static clattn_status check_pages(const append *a) {
    clattn_status status = CLATTN_OK;
    const clattn_cache_append_args *args = a->args;
    const int64_t pages = a->rotations[a->present[0] ? 0 : 1].y.shape[0];
    written_page *list = NULL;
    int64_t count = 0, room = 0;
    if (!a->page_size)
        goto done;
    for (int64_t b = 0; b < a->B; b++)
        room += cla_ceil_div(new_rows(a, b), a->page_size) + 1;
    CLA_TRY(cla_alloc((size_t)room, sizeof *list, "pages", &list));
    for (int64_t b = 0; b < a->B; b++) {
        const int64_t from = args->cache_lengths[b], end = from + new_rows(a, b);
        for (int64_t e = from / a->page_size; from < end && e <= (end - 1) / a->page_size; e++) {
            const int32_t page = args->block_table[b * args->table_pages + e];
            CLA_CHECK(page >= 0 && page < pages, CLATTN_E_ARGUMENT,
                      "block_table: batch %lld writes to entry %lld, and it is %d, outside 0 to %lld", (long long)b,
                      (long long)e, (int)page, (long long)pages - 1);
            list[count++] = (written_page){page, b};
        }
    }
    if (count > 1)
        qsort(list, (size_t)count, sizeof *list, by_page);
    for (int64_t i = 1; i < count; i++)
        CLA_CHECK(list[i].page != list[i - 1].page, CLATTN_E_ARGUMENT,
                  "block_table: page %d is written for two entries, of batches %lld and %lld", (int)list[i].page,
                  (long long)list[i - 1].batch, (long long)list[i].batch);
done:
    cla_free(list);
    return status;
}

/* ---- places and angles ---- */

/* Rows of no numbers may be more than memory. */
static bool is_nothing(const append *a) {
    bool nothing = true;
    for (int i = 0; i < 3; i++)
        nothing = nothing && (!cla_present(&a->rotations[i].x) || clattn_tensor_elements(&a->rotations[i].x) == 0);
    return nothing;
}

/* Whether all batches append all their rows behind as many slots, at the same positions. */
static bool is_even(const append *a) {
    const clattn_cache_append_args *args = a->args;
    for (int64_t b = 0; b < a->B; b++)
        if (args->cache_lengths[b] != args->cache_lengths[0] || new_rows(a, b) != a->L ||
            (args->offsets && args->offsets[b] != args->offsets[0]))
            return false;
    return a->B > 0;
}

static clattn_status find_places(append *a) {
    clattn_status status = CLATTN_OK;
    const clattn_cache_append_args *args = a->args;
    if (is_nothing(a))
        goto done;
    if (is_even(a) && !a->page_size) { /* they are a view of the cache */
        for (int i = 0; i < 2; i++)
            if (a->present[i])
                a->rotations[i].y = clattn_tensor_slice(a->rotations[i].y, 2, args->cache_lengths[0], a->L);
        goto done;
    }
    CLA_TRY(cla_alloc((size_t)(a->B * a->L), 2 * sizeof *a->places, "places", &a->places));
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t i = 0; i < a->L; i++) {
            const int64_t slot = args->cache_lengths[b] + i, size = a->page_size;
            int32_t *place = a->places + 2 * (b * a->L + i);
            place[0] = place[1] = -1;
            if (i >= new_rows(a, b))
                continue;
            place[0] = size ? args->block_table[b * args->table_pages + slot / size] : (int32_t)b;
            place[1] = (int32_t)(size ? slot % size : slot);
        }
    a->rotations[0].places = a->rotations[1].places = a->places;
done:
    return status;
}

/* Rows that are not appended have none: 0, so that tables need not reach as far. */
static int64_t position_of(const append *a, int64_t b, int64_t i) {
    return i >= new_rows(a, b) ? 0 : a->args->cache_lengths[b] + i + (a->args->offsets ? a->args->offsets[b] : 0);
}

/* The caller's tables: by row, or where positions are the same in all batches a view of their rows. */
static clattn_status take_tables(clattn_context *context, append *a) {
    clattn_status status = CLATTN_OK;
    const clattn_cache_append_args *args = a->args;
    cla_rotation *r = &a->rotations[0];
    const clattn_tensor *const given[] = {&args->cos, &args->sin};
    clattn_tensor *const tables[] = {&r->cos, &r->sin};
    static const char *const names[] = {"cos", "sin"};
    char text[200];
    const bool even = is_even(a);
    for (int t = 0; t < 2; t++) {
        CLA_TRY(cla_operand_take(context, given[t], names[t], CLA_OPERAND_FLOATS, tables[t]));
        CLA_CHECK(given[t]->rank == 2 && given[t]->shape[1] == r->pairs, CLATTN_E_SHAPE,
                  "%s %s: should be [positions, %lld]", names[t], cla_shape_text(given[t], text, sizeof text),
                  (long long)r->pairs);
        for (int i = 0; i < 2; i++)
            if (a->present[i])
                CLA_TRY(cla_operand_apart(tables[t], names[t], &a->rotations[i].y, cache_names[i]));
        if (cla_present(&args->q))
            CLA_TRY(cla_operand_apart(tables[t], names[t], &a->rotations[2].y, "q"));
    }
    if (!even)
        CLA_TRY(cla_alloc((size_t)(a->B * a->L), sizeof *a->rows, "positions", &a->rows));
    for (int64_t row = 0; row < a->B * a->L; row++) {
        const int64_t position = position_of(a, row / a->L, row % a->L);
        CLA_CHECK(position >= 0 && position < args->cos.shape[0] && position < args->sin.shape[0], CLATTN_E_ARGUMENT,
                  "positions: row %lld of batch %lld stands at %lld, and the tables have %lld", (long long)(row % a->L),
                  (long long)(row / a->L), (long long)position,
                  (long long)cla_min(args->cos.shape[0], args->sin.shape[0]));
        if (!even)
            a->rows[row] = (int32_t)position;
    }
    for (int t = 0; t < 2 && even && a->L > 0; t++) {
        *tables[t] = clattn_tensor_slice(*tables[t], 2, position_of(a, 0, 0), a->L);
        tables[t]->stride[1] = 0;
    }
    r->rows = a->rows;
done:
    return status;
}

static clattn_status make_tables(append *a) {
    clattn_status status = CLATTN_OK;
    cla_rotation *r = &a->rotations[0];
    const int64_t rows = a->B * a->L;
    int64_t *positions = NULL;
    CLA_TRY(cla_alloc((size_t)rows, sizeof *positions, "positions", &positions));
    for (int64_t row = 0; row < rows; row++)
        positions[row] = position_of(a, row / a->L, row % a->L);
    CLA_TRY(cla_rotary_table(&a->args->rotary, r->pairs, positions, rows, &a->table));
    const int64_t shape[4] = {1, a->B, a->L, r->pairs};
    r->cos = clattn_tensor_host(a->table, CLATTN_F64, 4, shape);
    r->sin = clattn_tensor_host(a->table + rows * r->pairs, CLATTN_F64, 4, shape);
done:
    cla_free(positions);
    return status;
}

static clattn_status find_angles(clattn_context *context, append *a) {
    clattn_status status = CLATTN_OK;
    const clattn_cache_append_args *args = a->args;
    cla_rotation *k = &a->rotations[0], *q = &a->rotations[2];
    const bool given = cla_present(&args->cos) || cla_present(&args->sin);
    if (!args->rotate) {
        CLA_CHECK(!given && !cla_present(&args->q), CLATTN_E_ARGUMENT, "%s: is given, and rotate is not set",
                  given ? "cos" : "q");
        goto done;
    }
    CLA_CHECK(a->present[0], CLATTN_E_ARGUMENT, "rotate: is set, and there is no k to rotate");
    CLA_TRY(cla_rotary_pairs(&args->rotary, k->x.shape[3], &k->pairs));
    CLA_TRY(cla_rotary_check_positions(args->offsets, "offsets", a->B));
    k->adjacent = args->rotary.pairs == CLATTN_ROTARY_ADJACENT;
    if (is_nothing(a))
        goto done;
    CLA_TRY(given ? take_tables(context, a) : make_tables(a));
    if (cla_present(&args->q)) {
        q->pairs = k->pairs, q->adjacent = k->adjacent;
        q->cos = k->cos, q->sin = k->sin, q->rows = k->rows;
    }
done:
    return status;
}

/* ---- the call ---- */

/* What is stored as numbers goes together, each cache of blocks by itself. */
static clattn_status run(clattn_context *context, const append *a) {
    clattn_status status = CLATTN_OK;
    cla_rotation together[CLA_ROTATIONS];
    cla_rotation_job jobs[CLA_ROTATIONS] = {{.count = 0}};
    int count = 0, used = 1;
    for (int i = 0; i < 3; i++) {
        const cla_rotation *r = &a->rotations[i];
        if (!cla_present(&r->x) || clattn_tensor_elements(&r->x) == 0)
            continue;
        if (cla_is_quantised(r->y.dtype))
            CLA_TRY(cla_rotation_prepare(context, r, 1, &jobs[used++]));
        else
            together[count++] = *r;
    }
    CLA_TRY(cla_rotation_prepare(context, together, count, &jobs[0]));
    for (int i = 0; i < used; i++)
        CLA_TRY(cla_rotation_launch(context, &jobs[i]));
done:
    for (int i = 0; i < CLA_ROTATIONS; i++)
        cla_rotation_release(&jobs[i]);
    return status;
}

/* Rotated in place, beside the rows of k. */
static clattn_status take_queries(clattn_context *context, append *a) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor *k = &a->rotations[0].x;
    clattn_tensor *q = &a->rotations[2].x;
    char text[200];
    if (!cla_present(&a->args->q))
        goto done;
    CLA_TRY(cla_operand_take(context, &a->args->q, "q", CLA_OPERAND_OUTPUT | CLA_OPERAND_CHANGED, q));
    CLA_CHECK(a->present[0] && q->shape[0] == a->B && q->shape[2] == a->L && q->shape[3] == k->shape[3], CLATTN_E_SHAPE,
              "q %s: should be [%lld, heads, %lld, %lld], as k", cla_shape_text(q, text, sizeof text), (long long)a->B,
              (long long)a->L, (long long)(a->present[0] ? k->shape[3] : 0));
    a->rotations[2].y = *q;
    for (int i = 0; i < 2; i++)
        if (a->present[i]) {
            CLA_CHECK(!cla_view_meets(&a->rotations[i].x, q), CLATTN_E_ARGUMENT, "q: shares elements with %s",
                      new_names[i]);
            CLA_TRY(cla_operand_apart(&a->rotations[i].y, cache_names[i], q, "q"));
        }
done:
    return status;
}

static clattn_status check(clattn_context *context, append *a) {
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < 2; i++)
        CLA_TRY(take_pair(context, a, i));
    CLA_TRY(check_together(a));
    CLA_TRY(check_table(a));
    CLA_TRY(check_lengths(a));
    CLA_TRY(check_pages(a));
    CLA_TRY(take_queries(context, a));
done:
    return status;
}

clattn_status clattn_cache_append(clattn_context *context, const clattn_cache_append_args *args) {
    clattn_status status = CLATTN_OK;
    append a = {.args = args};
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "cache_append: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_cache_append_args, args));
    CLA_TRY(CLA_RESERVED(clattn_rotary_options, &args->rotary)); /* not only where it is used */
    CLA_TRY(check(context, &a));
    CLA_TRY(find_places(&a));
    CLA_TRY(find_angles(context, &a));
    cla_rotation *k = &a.rotations[0], *v = &a.rotations[1], *q = &a.rotations[2];
    const bool tables = cla_present(&args->cos);
    const cla_staged tensors[] = {{&k->x, CLA_IN},    {&v->x, CLA_IN},   {&k->y, CLA_INOUT}, {&v->y, CLA_INOUT},
                                  {&q->y, CLA_INOUT}, {&k->cos, CLA_IN}, {&k->sin, CLA_IN}};
    status = cla_staging_begin(context, tensors, tables ? 7 : 5, &staging);
    q->x = q->y, q->cos = k->cos, q->sin = k->sin;
    if (status == CLATTN_OK)
        status = run(context, &a);
    status = cla_staging_end(&staging, status);
done:
    cla_free(a.places);
    cla_free(a.rows);
    cla_free(a.table);
    return status;
}
