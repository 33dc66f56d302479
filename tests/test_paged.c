/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values in pages: the same as in one piece; what is not in use is never seen; what is wrong is refused. */
#include "kv_arrays.h"

/* ---- pages and one piece ---- */

typedef struct {
    int64_t B, H, Hk, N, D, Dv;
    int64_t page_size, table_pages;
    clattn_dtype q, k, v;
    kv_layout layout; /* of the pages */
    bool causal, score;
} config;

typedef struct {
    kv_array q, k, v, o, lse, pages[2];
    int64_t lengths[8];
    int32_t *table;
    double *bias;
} paged_case;

/* Random pages for the keys in use; every other page, slot and entry is filled with what must not be read. */
static void make_pages(clattn_context *owner, const config *c, paged_case *p) {
    const int64_t entries = c->B * c->table_pages, pages = entries + 3, M = c->page_size * c->table_pages;
    int32_t *order = malloc((size_t)pages * sizeof *order);
    oracle_random random = {(uint64_t)(c->page_size * 100 + c->table_pages)};
    for (int64_t i = 0; i < pages; i++)
        order[i] = (int32_t)i;
    for (int64_t i = pages - 1; i > 0; i--) {
        const int64_t j = oracle_below(&random, i + 1);
        const int32_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    p->table = malloc((size_t)(entries + 1) * sizeof *p->table);
    for (int64_t e = 0; e < entries; e++)
        p->table[e] =
            e % c->table_pages * c->page_size < p->lengths[e / c->table_pages] ? order[e] : (int32_t)(-1 - 7 * e);
    for (int w = 0; w < 2; w++) {
        const kv_array *from = w ? &p->v : &p->k;
        const int64_t dims = w ? c->Dv : c->D, shape[4] = {pages, c->Hk, c->page_size, dims};
        kv_array *to = &p->pages[w];
        *to = kv_make(NULL, from->view.dtype, shape, c->layout, NULL);
        memset(to->data, 0xff, to->bytes); /* NaN in every float type, and as a scale */
        for (int64_t row = 0; row < c->B * c->Hk * M; row++) {
            const int64_t b = row / (c->Hk * M), h = row / M % c->Hk, j = row % M;
            if (j < p->lengths[b])
                memcpy(kv_row(to, (p->table[b * c->table_pages + j / c->page_size] * c->Hk + h) * c->page_size +
                                      j % c->page_size),
                       kv_row(from, row), clattn_dtype_bytes(from->view.dtype, (size_t)dims));
        }
        if (owner) {
            SUCCEEDS(clattn_buffer_create(owner, to->bytes, &to->buffer));
            SUCCEEDS(clattn_buffer_upload(to->buffer, 0, to->data, to->bytes));
            to->view.buffer = to->buffer;
            to->view.host = NULL;
        }
    }
    free(order);
}

static paged_case make(clattn_context *owner, const config *c) {
    const int64_t M = c->page_size * c->table_pages;
    const int64_t q[4] = {c->B, c->H, c->N, c->D}, k[4] = {c->B, c->Hk, M, c->D}, v[4] = {c->B, c->Hk, M, c->Dv};
    const int64_t o[4] = {c->B, c->H, c->N, c->Dv}, lse[4] = {1, c->B, c->H, c->N};
    paged_case p = {0};
    oracle_random random = {31};
    double *values[3] = {kv_random(1, kv_count(q)), kv_random(2, kv_count(k)), kv_random(3, kv_count(v))};
    for (int64_t b = 0; b < c->B; b++)
        p.lengths[b] = b == 0 ? M : oracle_below(&random, M + 1);
    p.q = kv_make(owner, c->q, q, KV_DENSE, values[0]);
    p.k = kv_make(owner, c->k, k, KV_DENSE, values[1]);
    p.v = kv_make(owner, c->v, v, KV_DENSE, values[2]);
    p.o = kv_make(owner, CLATTN_F32, o, KV_DENSE, NULL);
    p.lse = kv_make(owner, CLATTN_F32, lse, KV_DENSE, NULL);
    p.bias = kv_random(4, c->H * c->N * M);
    make_pages(owner, c, &p);
    for (int i = 0; i < 3; i++)
        free(values[i]);
    return p;
}

static void release(paged_case *p) {
    kv_array *const all[] = {&p->q, &p->k, &p->v, &p->o, &p->lse, &p->pages[0], &p->pages[1]};
    for (int i = 0; i < 7; i++)
        kv_free(all[i]);
    free(p->table);
    free(p->bias);
}

static clattn_attention_args args_of(const oracle_runner *r, const config *c, const paged_case *p, bool paged) {
    clattn_attention_args a = {.q = p->q.view,
                               .k = p->k.view,
                               .v = p->v.view,
                               .o = p->o.view,
                               .lse = p->lse.view,
                               .key_lengths = p->lengths,
                               .causal = c->causal,
                               .align = c->causal ? CLATTN_ALIGN_BOTTOM_RIGHT : CLATTN_ALIGN_UNSET,
                               .softcap = c->score ? 20 : 0,
                               .algorithm = r->algorithm};
    if (!paged)
        return a;
    a.k = p->pages[0].view;
    a.v = p->pages[1].view;
    a.block_table = p->table;
    a.table_pages = c->table_pages;
    return a;
}

static void run(const oracle_runner *r, const clattn_attention_args *a) {
    clattn_plan *plan = NULL;
    if (a->q.host) {
        SUCCEEDS(clattn_attention(r->context, a));
        return;
    }
    SUCCEEDS(clattn_plan_create(r->context, a, &plan));
    const bool in_place = strcmp(r->algorithm, "fused_lanes") == 0 || strcmp(r->algorithm, "reference") == 0;
    const bool gathers = strcmp(r->algorithm, "materialised") == 0 || strcmp(r->algorithm, "blas") == 0;
    const char *text = clattn_plan_explain(plan);
    cr_expect(!a->block_table || strstr(text, " a batch at most: "), "%s", text);
    cr_expect(!a->block_table || !in_place || strstr(text, "at most: read as they lie"), "%s", text);
    cr_expect(!a->block_table || !gathers || strstr(text, "at most: gathered beforehand"), "%s", text);
    SUCCEEDS(clattn_plan_execute(plan, NULL));
    clattn_plan_destroy(plan);
}

/* O and LSE of pages and of one piece; equal bits where `exact`, else both near the same exact answer. */
static void compare(const oracle_runner *r, const config *c, bool buffers, bool exact) {
    paged_case p = make(buffers ? r->context : NULL, c);
    double *o[2], *lse[2];
    for (int way = 0; way < 2; way++) {
        const clattn_attention_args a = args_of(r, c, &p, way == 1);
        run(r, &a);
        o[way] = kv_read(&p.o);
        lse[way] = kv_read(&p.lse);
    }
    const double most = exact ? 0 : 2 * oracle_floor(CLATTN_F32, 4);
    for (int64_t i = 0; i < kv_count(p.o.view.shape); i++)
        cr_assert(fabs(o[1][i] - o[0][i]) <= most, "%s, pages of %lld: element %lld is %.9g, not %.9g", r->algorithm,
                  (long long)c->page_size, (long long)i, o[1][i], o[0][i]);
    for (int64_t i = 0; i < kv_count(p.lse.view.shape); i++)
        cr_assert(lse[1][i] == lse[0][i] || fabs(lse[1][i] - lse[0][i]) <= most);
    for (int way = 0; way < 2; way++) {
        free(o[way]);
        free(lse[way]);
    }
    release(&p);
}

static const config configs[] = {
    {3, 4, 2, 5, 40, 24, 1, 37, CLATTN_F32, CLATTN_F32, CLATTN_F32, KV_DENSE, true, false},
    {2, 2, 2, 1, 64, 64, 3, 41, CLATTN_F32, CLATTN_F32, CLATTN_F32, KV_ROWS, false, false},
    {2, 4, 1, 3, 32, 64, 16, 7, CLATTN_F32, CLATTN_Q8_0, CLATTN_Q4_0, KV_DENSE, false, true},
    {2, 6, 2, 70, 16, 8, 64, 3, CLATTN_F32, CLATTN_F16, CLATTN_F16, KV_ROWS, true, true},
    {4, 1, 1, 2, 128, 96, 16, 8, CLATTN_F16, CLATTN_F32, CLATTN_BF16, KV_DENSE, false, false},
};
enum { CONFIGS = sizeof configs / sizeof *configs };

Test(paged, random_tables_give_what_one_piece_gives) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    cr_assert_gt(count, 0);
    for (size_t n = 0; n < count; n++)
        for (int i = 0; i < CONFIGS; i++)
            compare(&runners[n], &configs[i], i % 2 == 0, false);
    oracle_close(runners, count);
}

/* Head dims up to 64, and mixed types: there pages and one piece walk the keys in the same tiles. */
Test(paged, random_tables_give_the_same_bits) {
    static const char *const names[][2] = {
        {"opencl", "fused_lanes"}, {"opencl", "materialised"}, {"cpu", "blas"}, {"cpu", "reference"}};
    for (int n = 0; n < 4; n++) {
        const oracle_runner r = {kv_open(names[n][0], NULL), names[n][1], false, n < 2};
        for (int i = 0; i < CONFIGS; i++)
            compare(&r, &configs[i], i % 2 == 1, true);
        clattn_context_destroy(r.context);
    }
}

Test(paged, a_plan_takes_other_pages_of_the_same_layout) {
    const config *c = &configs[0];
    for (int n = 0; n < 2; n++) {
        const oracle_runner r = {kv_open(n ? "cpu" : "opencl", NULL), n ? "blas" : "fused_lanes", false, n == 0};
        paged_case p = make(r.context, c);
        clattn_attention_args a = args_of(&r, c, &p, true), other = a;
        kv_array pages[2];
        clattn_plan *plan = NULL;
        for (int w = 0; w < 2; w++) { /* V is twice as large there */
            kv_fetch(&p.pages[w]);
            double *values = kv_read(&p.pages[w]);
            for (int64_t i = 0; i < kv_count(p.pages[w].view.shape); i++)
                values[i] *= w ? 2 : 1;
            pages[w] = kv_make(r.context, CLATTN_F32, p.pages[w].view.shape, c->layout, values);
            free(values);
        }
        SUCCEEDS(clattn_plan_create(r.context, &a, &plan));
        SUCCEEDS(clattn_plan_execute(plan, NULL));
        double *once = kv_read(&p.o);
        other.k = pages[0].view;
        other.v = pages[1].view;
        other.block_table = NULL; /* only tensors are read */
        other.table_pages = 0;
        other.key_lengths = NULL;
        SUCCEEDS(clattn_plan_execute(plan, &other));
        double *twice = kv_read(&p.o);
        for (int64_t i = 0; i < kv_count(p.o.view.shape); i++)
            cr_assert_eq(twice[i], 2 * once[i]);
        free(once);
        free(twice);
        clattn_plan_destroy(plan);
        kv_free(&pages[0]);
        kv_free(&pages[1]);
        release(&p);
        clattn_context_destroy(r.context);
    }
}

/* ---- A07: unused slots ---- */

enum { CACHE = 128, DIMS = 64, BATCHES = 4 };
static const int64_t used[BATCHES] = {32, 64, 96, 48};

/* Batch b alone, its cache cut to what is in use. */
static void attend_cut(const oracle_runner *r, int64_t b, const float *q, const float *k, const float *v, float *o) {
    const int64_t one[] = {1, 1, 1, DIMS}, many[] = {1, 1, used[b], DIMS};
    const clattn_attention_args a = {.q = clattn_tensor_host(q + b * DIMS, CLATTN_F32, 4, one),
                                     .k = clattn_tensor_host(k + b * CACHE * DIMS, CLATTN_F32, 4, many),
                                     .v = clattn_tensor_host(v + b * CACHE * DIMS, CLATTN_F32, 4, many),
                                     .o = clattn_tensor_host(o + b * DIMS, CLATTN_F32, 4, one),
                                     .key_lengths = &used[b],
                                     .algorithm = r->algorithm};
    SUCCEEDS(clattn_attention(r->context, &a));
}

static void attend_padded(const oracle_runner *r, const float *q, const float *k, const float *v, int64_t page_size,
                          float *o) {
    const int64_t one[] = {BATCHES, 1, 1, DIMS}, piece[] = {BATCHES, 1, CACHE, DIMS};
    int32_t table[BATCHES * CACHE];
    clattn_attention_args a = {.q = clattn_tensor_host(q, CLATTN_F32, 4, one),
                               .k = clattn_tensor_host(k, CLATTN_F32, 4, piece),
                               .v = clattn_tensor_host(v, CLATTN_F32, 4, piece),
                               .o = clattn_tensor_host(o, CLATTN_F32, 4, one),
                               .key_lengths = used,
                               .algorithm = r->algorithm};
    if (page_size > 0) { /* the same memory, as pages in order */
        const int64_t pages[] = {BATCHES * CACHE / page_size, 1, page_size, DIMS};
        a.k = clattn_tensor_host(k, CLATTN_F32, 4, pages);
        a.v = clattn_tensor_host(v, CLATTN_F32, 4, pages);
        a.table_pages = CACHE / page_size;
        a.block_table = table;
        for (int64_t e = 0; e < pages[0]; e++)
            table[e] = e % a.table_pages * page_size < used[e / a.table_pages] ? (int32_t)e : INT32_MIN;
    }
    SUCCEEDS(clattn_attention(r->context, &a));
}

Test(paged, A07_nan_in_unused_slots_changes_no_bit) {
    enum { COUNT = BATCHES * CACHE * DIMS };
    const uint32_t fillers[] = {0x7fc00000, 0xffffffff, 0x7f800000};
    float *k = malloc(COUNT * sizeof *k), *v = malloc(COUNT * sizeof *v), q[BATCHES * DIMS], cut[BATCHES * DIMS];
    float got[BATCHES * DIMS], zero[BATCHES * DIMS];
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    oracle_random random = {7};
    for (int i = 0; i < BATCHES * DIMS; i++)
        q[i] = (float)oracle_normal(&random);
    for (int i = 0; i < COUNT; i++)
        k[i] = (float)oracle_normal(&random), v[i] = (float)oracle_normal(&random);
    for (size_t n = 0; n < count; n++) {
        const oracle_runner *r = &runners[n];
        for (int64_t b = 0; b < BATCHES; b++)
            attend_cut(r, b, q, k, v, cut);
        for (int f = -1; f < 3; f++) {
            for (int64_t i = 0; i < COUNT; i++)
                if (i / DIMS % CACHE >= used[i / (CACHE * DIMS)]) {
                    const uint32_t filler = f < 0 ? 0 : fillers[f];
                    memcpy(k + i, &filler, 4);
                    memcpy(v + i, &filler, 4);
                }
            for (int way = 0; way < 2; way++) {
                attend_padded(r, q, k, v, way ? 16 : 0, got);
                if (f < 0 && way == 0)
                    memcpy(zero, got, sizeof zero);
                for (int i = 0; i < BATCHES * DIMS; i++) /* lengths of chunks and splits may follow the cache's size */
                    cr_expect(fabsf(got[i] - cut[i]) <= (float)oracle_floor(CLATTN_F32, 4), "%s: %d", r->algorithm, i);
                if (f >= 0 && way == 0)
                    cr_expect_arr_eq(got, zero, sizeof got, "%s: filler %08x", r->algorithm, fillers[f]);
                if (strcmp(r->algorithm, "fused_lanes") == 0 || strcmp(r->algorithm, "reference") == 0)
                    cr_expect_arr_eq(got, cut, sizeof got, "%s: filler %d, way %d", r->algorithm, f, way);
            }
        }
    }
    oracle_close(runners, count);
    free(k);
    free(v);
}

/* ---- tables ---- */

enum { KEYS = 5 };

/* One-hot values over zero scores: O says which keys were seen, and where they lie. */
static void attend_identity(const oracle_runner *r, int64_t queries, int64_t page_size, const int32_t *table,
                            const int64_t *length, bool causal, float *o) {
    const int64_t pages = (KEYS + page_size - 1) / page_size;
    const int64_t qs[] = {1, 1, queries, 4}, ks[] = {pages, 1, page_size, 4}, vs[] = {pages, 1, page_size, KEYS};
    const int64_t os[] = {1, 1, queries, KEYS};
    float q[4 * 4] = {0}, k[4 * 8 * 4] = {0}, v[8 * 8 * KEYS];
    memset(v, 0xff, sizeof v);
    for (int64_t j = 0; j < KEYS; j++)
        for (int64_t d = 0; d < KEYS; d++)
            v[(table[j / page_size] * page_size + j % page_size) * KEYS + d] = j == d;
    const clattn_attention_args a = {.q = clattn_tensor_host(q, CLATTN_F32, 4, qs),
                                     .k = clattn_tensor_host(k, CLATTN_F32, 4, ks),
                                     .v = clattn_tensor_host(v, CLATTN_F32, 4, vs),
                                     .o = clattn_tensor_host(o, CLATTN_F32, 4, os),
                                     .key_lengths = length,
                                     .block_table = table,
                                     .table_pages = pages,
                                     .causal = causal,
                                     .align = CLATTN_ALIGN_BOTTOM_RIGHT,
                                     .algorithm = r->algorithm};
    SUCCEEDS(clattn_attention(r->context, &a));
}

Test(paged, B03_a_cache_in_pages_shifts_the_diagonal) {
    const int32_t table[] = {2, 0, 1};
    const int64_t length = KEYS;
    const float want[2 * KEYS] = {0.25f, 0.25f, 0.25f, 0.25f, 0, 0.2f, 0.2f, 0.2f, 0.2f, 0.2f};
    float o[2 * KEYS];
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    for (size_t n = 0; n < count; n++) {
        attend_identity(&runners[n], 2, 2, table, &length, true, o);
        for (int i = 0; i < 2 * KEYS; i++)
            cr_expect_float_eq(o[i], want[i], (float)oracle_floor(CLATTN_F32, 1), "%s: %d is %g", runners[n].algorithm,
                               i, (double)o[i]);
    }
    oracle_close(runners, count);
}

/* Two batches whose first page is the same. */
Test(paged, batches_may_share_pages) {
    const int64_t qs[] = {2, 1, 1, 1}, pool[] = {3, 1, 2, 1}, lengths[] = {4, 3};
    const int32_t table[] = {1, 0, 1, 2};
    const float q[2] = {0}, k[6] = {0}, v[6] = {10, 20, 1, 2, 30, NAN};
    float o[2];
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    for (size_t n = 0; n < count; n++) {
        const clattn_attention_args a = {.q = clattn_tensor_host(q, CLATTN_F32, 4, qs),
                                         .k = clattn_tensor_host(k, CLATTN_F32, 4, pool),
                                         .v = clattn_tensor_host(v, CLATTN_F32, 4, pool),
                                         .o = clattn_tensor_host(o, CLATTN_F32, 4, qs),
                                         .key_lengths = lengths,
                                         .block_table = table,
                                         .table_pages = 2,
                                         .algorithm = runners[n].algorithm};
        SUCCEEDS(clattn_attention(runners[n].context, &a));
        cr_expect_float_eq(o[0], 8.25f, (float)oracle_floor(CLATTN_F32, 30), "%s", runners[n].algorithm);
        cr_expect_float_eq(o[1], 11, (float)oracle_floor(CLATTN_F32, 30), "%s", runners[n].algorithm);
    }
    oracle_close(runners, count);
}

/* Queries of several sequences one after another, each with its row of the table. */
Test(paged, sequences_have_a_row_of_the_table_each) {
    const int64_t qs[] = {1, 1, 4, 1}, pool[] = {4, 1, 2, 1}, lengths[] = {3, 1}, cu[] = {0, 3, 4};
    const int32_t table[] = {2, 0, 3, -9};
    const float q[4] = {0}, k[8] = {0}, v[8] = {4, NAN, NAN, NAN, 1, 2, 7, NAN};
    const float want[4] = {1, 1.5f, 7.0f / 3, 7};
    float o[4];
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    for (size_t n = 0; n < count; n++) {
        bool applies = false;
        clattn_attention_args a = {.q = clattn_tensor_host(q, CLATTN_F32, 4, qs),
                                   .k = clattn_tensor_host(k, CLATTN_F32, 4, pool),
                                   .v = clattn_tensor_host(v, CLATTN_F32, 4, pool),
                                   .o = clattn_tensor_host(o, CLATTN_F32, 4, qs),
                                   .sequences = 2,
                                   .cu_queries = cu,
                                   .key_lengths = lengths,
                                   .block_table = table,
                                   .table_pages = 2,
                                   .causal = true,
                                   .align = CLATTN_ALIGN_BOTTOM_RIGHT};
        for (size_t i = 0; i < clattn_algorithm_count(); i++)
            if (strcmp(clattn_algorithm_name(i), runners[n].algorithm) == 0)
                SUCCEEDS(clattn_algorithm_applies(runners[n].context, &a, i, &applies, NULL));
        a.algorithm = runners[n].algorithm;
        if (!applies)
            continue;
        SUCCEEDS(clattn_attention(runners[n].context, &a));
        for (int i = 0; i < 4; i++)
            cr_expect_float_eq(o[i], want[i], (float)oracle_floor(CLATTN_F32, 7), "%s: %d is %g", runners[n].algorithm,
                               i, (double)o[i]);
    }
    oracle_close(runners, count);
}

Test(paged, an_empty_pool_is_no_key) {
    const int64_t qs[] = {2, 1, 1, 4}, pool[] = {0, 1, 2, 4}, lengths[] = {0, 0}, ls[] = {2, 1, 1}, ws[] = {2, 1, 1, 6};
    const int32_t table[6] = {-1, -1, -1, -1, -1, -1};
    const float q[8] = {0};
    float o[8], lse[2], w[12];
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    for (size_t n = 0; n < count; n++) {
        memset(o, 0xff, sizeof o);
        memset(w, 0xff, sizeof w);
        bool gives_weights = true;
        clattn_attention_args a = {.q = clattn_tensor_host(q, CLATTN_F32, 4, qs),
                                   .k = clattn_tensor_host(NULL, CLATTN_F32, 4, pool),
                                   .v = clattn_tensor_host(NULL, CLATTN_F32, 4, pool),
                                   .o = clattn_tensor_host(o, CLATTN_F32, 4, qs),
                                   .lse = clattn_tensor_host(lse, CLATTN_F32, 3, ls),
                                   .weights = clattn_tensor_host(w, CLATTN_F32, 4, ws),
                                   .key_lengths = lengths,
                                   .block_table = table,
                                   .table_pages = 3,
                                   .algorithm = runners[n].algorithm};
        if (clattn_attention(runners[n].context, &a) == CLATTN_E_UNSUPPORTED) {
            gives_weights = false;
            a.weights.rank = 0;
            SUCCEEDS(clattn_attention(runners[n].context, &a));
        }
        for (int i = 0; i < 8; i++)
            cr_expect_eq(o[i], 0, "%s", runners[n].algorithm);
        for (int i = 0; i < 12; i++)
            cr_expect(!gives_weights || w[i] == 0, "%s", runners[n].algorithm);
        cr_expect_eq(lse[1], -INFINITY);
    }
    oracle_close(runners, count);
}

Test(paged, what_does_not_fit_is_refused) {
    float x[256] = {0}, o[8];
    const int64_t qs[] = {2, 1, 1, 4}, pool[] = {4, 1, 2, 4}, fewer[] = {3, 1, 2, 4}, empty[] = {4, 1, 0, 4};
    const int64_t lengths[] = {4, 3}, over[] = {4, 5}, cu[] = {0, 1, 1};
    const int32_t table[] = {0, 1, 2, 4}, minus[] = {0, -1, 2, 3}, good_table[] = {0, 1, 2, 3};
    clattn_context *context = kv_open("cpu", NULL);
    const clattn_attention_args good = {.q = clattn_tensor_host(x, CLATTN_F32, 4, qs),
                                        .k = clattn_tensor_host(x, CLATTN_F32, 4, pool),
                                        .v = clattn_tensor_host(x, CLATTN_F32, 4, pool),
                                        .o = clattn_tensor_host(o, CLATTN_F32, 4, qs),
                                        .key_lengths = lengths,
                                        .block_table = good_table,
                                        .table_pages = 2};
    clattn_attention_args a = good;
    SUCCEEDS(clattn_attention(context, &a));
#define REFUSED(change, code, part)                                                                                    \
    a = good;                                                                                                          \
    change;                                                                                                            \
    FAILS(clattn_attention(context, &a), code, part)
    REFUSED(a.block_table = table, CLATTN_E_SHAPE, "batch 1 needs entry 1 for its 3 keys, and it is 4, outside 0 to 3");
    REFUSED(a.block_table = minus, CLATTN_E_SHAPE, "batch 0 needs entry 1 for its 4 keys, and it is -1");
    REFUSED(a.key_lengths = NULL, CLATTN_E_ARGUMENT, "key_lengths: are missing");
    REFUSED(a.key_lengths = over, CLATTN_E_SHAPE, "key_lengths: batch 1 has 5, outside 0 to 4");
    REFUSED(a.table_pages = -1, CLATTN_E_ARGUMENT, "table_pages: -1");
    REFUSED(a.block_table = NULL, CLATTN_E_ARGUMENT, "block_table: is NULL, and table_pages 2");
    REFUSED(a.v = clattn_tensor_host(x, CLATTN_F32, 4, fewer), CLATTN_E_SHAPE, "4 and 3 pages");
    REFUSED(a.k = a.v = clattn_tensor_host(x, CLATTN_F32, 4, empty), CLATTN_E_SHAPE, "pages of 0 keys");
    REFUSED(a.causal = true, CLATTN_E_ARGUMENT, "align: causal");
    a = good;
    a.q.shape[0] = a.o.shape[0] = 1;
    a.sequences = 2;
    a.cu_queries = a.cu_keys = cu;
    FAILS(clattn_attention(context, &a), CLATTN_E_ARGUMENT, "cu_keys: keys in pages are not one after another");
    a = good;
    for (int i = 0; i < 4; i++) {
        clattn_tensor *t = (clattn_tensor *const[]){&a.q, &a.k, &a.v, &a.o}[i];
        *t = clattn_tensor_host(t->host, CLATTN_F32, 3, t->shape + 1);
    }
    FAILS(clattn_attention(context, &a), CLATTN_E_SHAPE, "q: rank 3; with a block table all tensors have rank 4");
#undef REFUSED
    clattn_context_destroy(context);
}
