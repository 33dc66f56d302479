/* SPDX-License-Identifier: Apache-2.0 */
/* Rows so far apart that offsets pass 2^31 and 2^32: every tensor in turn, in memory that is never touched between its
 * rows, against the same rows one after another (case E01). Blocks and slots of caches are in test_quantised.c and
 * test_cache.c, the arithmetic alone in test_view.c. */
#define _DEFAULT_SOURCE
#include "kv_arrays.h"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROWS = 3, D = 32 }; /* queries and keys */
enum { Q, K, V, O, WEIGHTS, LSE, KEEP, DROP, BIAS, TENSORS };
static const char *const names[TENSORS] = {"q", "k", "v", "o", "weights", "lse", "keep", "drop", "bias"};

static int64_t columns_of(int tensor) { return tensor == LSE ? 1 : tensor <= O ? D : ROWS; }
static bool is_output(int tensor) { return tensor == O || tensor == WEIGHTS || tensor == LSE; }

/* One problem: the values of each tensor, row by row, and what came out. */
typedef struct {
    clattn_dtype dtype[TENSORS];
    double in[TENSORS][ROWS * D], out[TENSORS][ROWS * D];
    unsigned char data[TENSORS][ROWS * D * sizeof(double)];
} problem;

static void make(problem *p, int tensor, clattn_dtype dtype) {
    oracle_random random = {8};
    const clattn_dtype sums = dtype == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32;
    for (int t = 0; t < TENSORS; t++) {
        const bool both = (tensor == K || tensor == V) && (t == K || t == V); /* fewer programs */
        p->dtype[t] = t == KEEP || t == DROP ? CLATTN_BOOL : t == LSE || t == WEIGHTS ? sums : CLATTN_F32;
        p->dtype[t] = t == tensor || both ? dtype : p->dtype[t];
        if ((tensor == LSE || tensor == WEIGHTS) && t == Q)
            p->dtype[t] = sums;
        for (int i = 0; i < ROWS * D; i++)
            p->in[t][i] = t == KEEP ? i != 1 : t == DROP ? i == 6 : oracle_normal(&random);
    }
}

/* Where row i of a tensor is: one after another, or `apart` elements apart in `far`. */
static void *place(problem *p, int tensor, int64_t i, int64_t apart, char *far) {
    const size_t at = clattn_dtype_bytes(p->dtype[tensor], (size_t)(i * (far ? apart : columns_of(tensor))));
    return (far ? far : (char *)p->data[tensor]) + at;
}

static clattn_tensor *in_args(clattn_attention_args *a, int tensor) {
    clattn_tensor *const all[TENSORS] = {&a->q,   &a->k,    &a->v,    &a->o,   &a->weights,
                                         &a->lse, &a->keep, &a->drop, &a->bias};
    return all[tensor];
}

/* With the rows of one tensor apart in `far`, or NULL. false, with the reason, where the algorithm does not take it. */
static bool run(problem *p, const oracle_runner *r, int tensor, int64_t apart, char *far, const char **reason) {
    clattn_attention_args a = {.algorithm = r->algorithm};
    bool applies = false;
    for (int t = 0; t < TENSORS; t++) {
        char *there = t == tensor ? far : NULL;
        const int64_t n = columns_of(t), shape[] = {ROWS, n};
        clattn_tensor *view = in_args(&a, t);
        if (t == WEIGHTS && tensor != WEIGHTS)
            continue;
        *view = clattn_tensor_host(place(p, t, 0, apart, there), p->dtype[t], t == LSE ? 1 : 2, shape);
        view->stride[0] = there ? apart : n;
        for (int64_t i = 0; i < ROWS; i++)
            if (is_output(t))
                memset(place(p, t, i, apart, there), 0xff, clattn_dtype_bytes(p->dtype[t], (size_t)n));
            else
                SUCCEEDS(
                    clattn_convert(place(p, t, i, apart, there), p->dtype[t], p->in[t] + i * n, CLATTN_F64, (size_t)n));
    }
    for (size_t i = 0; i < clattn_algorithm_count(); i++)
        if (strcmp(clattn_algorithm_name(i), r->algorithm) == 0)
            SUCCEEDS(clattn_algorithm_applies(r->context, &a, i, &applies, reason));
    if (!applies)
        return false;
    SUCCEEDS(clattn_attention(r->context, &a));
    for (int t = O; t <= LSE; t++)
        for (int64_t i = 0, n = columns_of(t); i < ROWS; i++)
            SUCCEEDS(clattn_convert(p->out[t] + i * n, CLATTN_F64, place(p, t, i, apart, t == tensor ? far : NULL),
                                    p->dtype[t], (size_t)n));
    return true;
}

/* Both ways, and the same bits. */
static void compare(const oracle_runner *r, int tensor, clattn_dtype dtype, int64_t apart, char *far) {
    static problem close, wide;
    const char *reason = "";
    make(&close, tensor, dtype);
    make(&wide, tensor, dtype);
    if (dtype == CLATTN_F64 && !r->has_f64)
        return;
    cr_assert(run(&close, r, tensor, apart, NULL, &reason), "%s: %s", r->algorithm, reason);
    if (!run(&wide, r, tensor, apart, far, &reason)) {
        /* f16 is copied */
        cr_expect(strcmp(r->algorithm, "materialised") == 0 && dtype != CLATTN_F16 &&
                      strstr(reason, "CLBlast counts elements to 2147483647"),
                  "%s, %s: %s", r->algorithm, names[tensor], reason);
        return;
    }
    for (int t = O; t <= LSE; t++)
        if (t != WEIGHTS || tensor == WEIGHTS)
            for (int i = 0; i < ROWS * columns_of(t); i++)
                cr_expect_eq(close.out[t][i], wide.out[t][i], "%s, %s of %s %lld elements apart: %s[%d] is %g, not %g",
                             r->algorithm, names[tensor], clattn_dtype_name(dtype), (long long)apart, names[t], i,
                             wide.out[t][i], close.out[t][i]);
}

/* ---- OpenCL: as far as the largest allocation goes ---- */

/* The last row begins 2^32 elements after the first, or as far as there is room for; -1 when that is below 2^31 bytes.
 */
static int64_t apart_in(uint64_t room, clattn_dtype dtype) {
    const int64_t size = (int64_t)clattn_dtype_size(dtype), most = (int64_t)(room / (uint64_t)size) - 2 * D;
    const int64_t wanted = ((int64_t)1 << 31) + D, apart = most / (ROWS - 1) < wanted ? most / (ROWS - 1) : wanted;
    return apart * (ROWS - 1) * size > (int64_t)1 << 31 ? apart / D * D : -1;
}

Test(indexing, E01_devices_follow_offsets_beyond_32_bits) {
    static const struct {
        int tensor;
        clattn_dtype dtype;
    } cases[] = {{KEEP, CLATTN_BOOL}, {KEEP, CLATTN_U8}, {DROP, CLATTN_BOOL},  {BIAS, CLATTN_F32},
                 {BIAS, CLATTN_F16},  {Q, CLATTN_F32},   {Q, CLATTN_F16},      {K, CLATTN_F32},
                 {K, CLATTN_F16},     {V, CLATTN_F32},   {V, CLATTN_F16},      {O, CLATTN_F32},
                 {O, CLATTN_F16},     {LSE, CLATTN_F32}, {WEIGHTS, CLATTN_F32}};
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    int compared = 0;
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        for (size_t i = 0; i < count; i++) {
            clattn_device_info info;
            SUCCEEDS(clattn_context_info(runners[i].context, &info));
            const int64_t apart = apart_in(info.max_alloc_bytes, cases[n].dtype);
            if (!info.is_opencl || info.device_class != CLATTN_DEVICE_CPU || apart < 0)
                continue; /* other devices would copy all of it */
            const size_t bytes = clattn_dtype_bytes(cases[n].dtype, (size_t)(apart * (ROWS - 1) + D));
            char *far = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            cr_assert_neq((void *)far, MAP_FAILED);
            compare(&runners[i], cases[n].tensor, cases[n].dtype, apart, far);
            munmap(far, bytes);
            compared++;
        }
    oracle_close(runners, count);
    if (compared == 0)
        cr_skip_test("no OpenCL device that shares the host's memory and allocates 2 GiB at once");
}

/* A dense mask of 65537 x 65537 bytes, of which few are not 0; a window leaves each query its own key, so that tiles
 * are skipped. */
Test(indexing, E01_a_dense_mask_of_more_than_4_gib_is_read_where_it_should_be) {
    enum { N = 65537, DIM = 8 };
    static const int64_t kept[] = {0, 1, 32767, 32768, 32769, 65535, 65536};
    static float q[N * DIM], o[N * DIM];
    const int64_t shape[] = {N, DIM}, mask[] = {N, N};
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners), bytes = (size_t)N * N;
    unsigned char *keep = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if ((void *)keep == MAP_FAILED)
        cr_skip_test("4 GiB of addresses cannot be mapped");
    for (int i = 0; i < N * DIM; i++)
        q[i] = (float)(i % 1001) / 100;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        keep[kept[i] * N + kept[i]] = 1;
    for (size_t n = 0; n < count; n++) {
        clattn_device_info info;
        SUCCEEDS(clattn_context_info(runners[n].context, &info));
        if (strcmp(runners[n].algorithm, "materialised") == 0 || info.device_class != CLATTN_DEVICE_CPU ||
            info.max_alloc_bytes < bytes)
            continue; /* all the products; a copy of the mask; too large */
        const clattn_attention_args a = {.q = clattn_tensor_host(q, CLATTN_F32, 2, shape),
                                         .k = clattn_tensor_host(q, CLATTN_F32, 2, shape),
                                         .v = clattn_tensor_host(q, CLATTN_F32, 2, shape),
                                         .o = clattn_tensor_host(o, CLATTN_F32, 2, shape),
                                         .keep = clattn_tensor_host(keep, CLATTN_BOOL, 2, mask),
                                         .has_window = true,
                                         .algorithm = runners[n].algorithm};
        memset(o, 0xff, sizeof o);
        SUCCEEDS(clattn_attention(runners[n].context, &a));
        int wrong = 0;
        for (int i = 0; i < N; i++) {
            bool seen = false;
            for (size_t x = 0; x < sizeof kept / sizeof *kept; x++)
                seen = seen || kept[x] == i;
            for (int d = 0; d < DIM; d++)
                wrong += o[i * DIM + d] != (seen ? q[i * DIM + d] : 0);
        }
        cr_expect_eq(wrong, 0, "%s: %d numbers", runners[n].algorithm, wrong);
    }
    munmap(keep, bytes);
    oracle_close(runners, count);
}

/* ---- the `cpu` context: a mapped file, mostly holes ---- */

Test(indexing, E01_the_cpu_context_follows_offsets_beyond_32_bits_in_every_type) {
    static const clattn_dtype floats[] = {CLATTN_F32, CLATTN_F64, CLATTN_F16, CLATTN_BF16, CLATTN_Q8_0, CLATTN_Q4_0};
    static const clattn_dtype masks[] = {CLATTN_BOOL, CLATTN_U8};
    const int64_t apart = ((int64_t)1 << 32) + D;
    const size_t bytes = (size_t)(apart * (ROWS - 1) + D) * sizeof(double);
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    FILE *file = tmpfile();
    cr_assert_not_null(file);
    if (ftruncate(fileno(file), (off_t)bytes) != 0)
        cr_skip_test("the folder of temporary files takes no file of 64 GiB, even of holes");
    char *far = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (far == MAP_FAILED)
        cr_skip_test("64 GiB of addresses cannot be mapped");
    for (size_t i = 0; i < count; i++)
        for (int tensor = 0; !runners[i].is_opencl && tensor < TENSORS; tensor++) {
            const bool is_mask = tensor == KEEP || tensor == DROP;
            const int types = is_mask ? 2 : tensor == LSE || tensor == WEIGHTS ? 2 : tensor == K || tensor == V ? 6 : 4;
            for (int t = 0; t < types; t++)
                compare(&runners[i], tensor, is_mask ? masks[t] : floats[t], apart, far);
        }
    munmap(far, bytes);
    fclose(file);
    oracle_close(runners, count);
}
