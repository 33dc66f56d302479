/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test of CLBlast's products, around the sizes at which tuned kernels have been wrong. Matrices hold small
 * integers, so that each sum is exact in any order, and C x, for a vector x, is A (B x) to the bit. */
#include "base/error.h"
#include "base/mem.h"
#include "base/mix.h"
#include "ops/gemm.h"
#include "ops/gemm_sets.h"
#include "runtime/buffer.h"
#include "runtime/self_tests.h"
#include "tensor/dtype.h"
#include <stdio.h>

enum { LARGEST = 1153 };

static const struct {
    int64_t size;
    bool a_transposed, b_transposed;
} products[] = {{256, false, false}, {257, false, true}, {255, true, false}, {1152, false, false}, {1153, false, true}};
enum { PRODUCTS = sizeof products / sizeof *products };

typedef struct {
    clattn_context *context;
    clattn_dtype dtype;
    void *a, *b, *c; /* LARGEST x LARGEST */
    clattn_buffer *on_device[3];
    double *x, *bx;
    uint64_t seed;
} session;

/* An integer from -most to most - 1. */
static double next(session *s, int most) {
    return (double)((int64_t)(cla_mix_next(&s->seed) % (uint64_t)(2 * most)) - most);
}

static clattn_status open(session *s) {
    clattn_status status = CLATTN_OK;
    const int64_t n = (int64_t)LARGEST * LARGEST;
    const size_t size = clattn_dtype_size(s->dtype);
    void **const arrays[] = {&s->a, &s->b, &s->c};
    for (int i = 0; i < 3; i++) {
        CLA_TRY(cla_alloc((size_t)n, size, "matrix of a self-test", arrays[i]));
        for (int64_t e = 0; i < 2 && e < n; e++)
            cla_store_element(*arrays[i], s->dtype, e, next(s, 8));
        CLA_TRY(clattn_buffer_create(s->context, (size_t)n * size, &s->on_device[i]));
        CLA_TRY(clattn_buffer_upload(s->on_device[i], 0, *arrays[i], (size_t)n * size));
    }
    CLA_TRY(cla_alloc(LARGEST, sizeof *s->x, "vector of a self-test", &s->x));
    CLA_TRY(cla_alloc(LARGEST, sizeof *s->bx, "vector of a self-test", &s->bx));
    for (int j = 0; j < LARGEST; j++)
        s->x[j] = next(s, 1000);
done:
    return status;
}

static void close(session *s) {
    for (int i = 0; i < 3; i++)
        clattn_buffer_destroy(s->on_device[i]);
    cla_free(s->a);
    cla_free(s->b);
    cla_free(s->c);
    cla_free(s->x);
    cla_free(s->bx);
}

static double element(const session *s, const void *matrix, int64_t n, bool transposed, int64_t i, int64_t j) {
    return cla_load_element(matrix, s->dtype, transposed ? j * n + i : i * n + j);
}

/* Says which element of a row is wrong. */
static clattn_status wrong(const session *s, int64_t n, bool ta, bool tb, int64_t i) {
    int64_t j = 0;
    double want = 0, got = 0;
    for (; j < n; j++) {
        want = 0;
        got = element(s, s->c, n, false, i, j);
        for (int64_t d = 0; d < n; d++)
            want += element(s, s->a, n, ta, i, d) * element(s, s->b, n, tb, d, j);
        if (!(got == want))
            break;
    }
    return cla_error(CLATTN_E_VERIFY, "of two %lld x %lld matrices%s, element [%lld,%lld] is %g, expected %g",
                     (long long)n, (long long)n,
                     ta   ? ", the first transposed"
                     : tb ? ", the second transposed"
                          : "",
                     (long long)i, (long long)j, got, want);
}

static clattn_status judge(session *s, int64_t n, bool ta, bool tb) {
    for (int64_t d = 0; d < n; d++) {
        s->bx[d] = 0;
        for (int64_t j = 0; j < n; j++)
            s->bx[d] += element(s, s->b, n, tb, d, j) * s->x[j];
    }
    for (int64_t i = 0; i < n; i++) {
        double got = 0, want = 0;
        for (int64_t j = 0; j < n; j++) {
            got += element(s, s->c, n, false, i, j) * s->x[j];
            want += element(s, s->a, n, ta, i, j) * s->bx[j];
        }
        if (!(got == want))
            return wrong(s, n, ta, tb, i);
    }
    return CLATTN_OK;
}

static clattn_status test(clattn_context *context, const void *data) {
    clattn_status status = CLATTN_OK;
    session s = {.context = context, .dtype = *(const clattn_dtype *)data};
    CLA_TRY(open(&s));
    for (int i = 0; i < PRODUCTS; i++) {
        const int64_t n = products[i].size;
        const bool ta = products[i].a_transposed, tb = products[i].b_transposed;
        const cla_gemm g = {.dtype = s.dtype,
                            .m = n,
                            .n = n,
                            .k = n,
                            .a = {s.on_device[0], 0, n, ta},
                            .b = {s.on_device[1], 0, n, tb},
                            .c = {s.on_device[2], 0, n, false}};
        CLA_TRY(cla_gemm_batched(context, &g));
        CLA_TRY(clattn_buffer_download(s.on_device[2], 0, s.c, (size_t)(n * n) * clattn_dtype_size(s.dtype)));
        CLA_TRY(judge(&s, n, ta, tb));
    }
done:
    close(&s);
    return status;
}

clattn_status cla_gemm_test(clattn_context *context, clattn_dtype dtype) {
    char what[200];
    if (!cla_self_tests_on(context))
        return CLATTN_OK;
    const cla_gemm_set *set = cla_gemm_set_for(context, dtype);
    snprintf(what, sizeof what, "CLBlast's products in %s (%s)", clattn_dtype_name(dtype),
             set ? set->text : "its own parameters");
    return cla_self_test_once(context, what, test, &dtype);
}
