/* SPDX-License-Identifier: Apache-2.0 */
/* The one caller of CLBlast: simplifies a batch of products until the strided-batched routine takes it, and calls that
 * for the axes that are left. */
#include "ops/gemm.h"

#include "base/mem.h"
#include "ops/gemm_sets.h"
#include "runtime/launch.h"
#include "runtime/state.h"
#include <assert.h>
#include <clblast_c.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- CLBlast's codes ---- */

#define NAMED(code)                                                                                                    \
    { code, #code }
static const struct {
    int code;
    const char *name;
} codes[] = {
    NAMED(CLBlastNotImplemented),       NAMED(CLBlastInvalidMatrixA),        NAMED(CLBlastInvalidMatrixB),
    NAMED(CLBlastInvalidMatrixC),       NAMED(CLBlastInvalidDimension),      NAMED(CLBlastInvalidLeadDimA),
    NAMED(CLBlastInvalidLeadDimB),      NAMED(CLBlastInvalidLeadDimC),       NAMED(CLBlastInsufficientMemoryA),
    NAMED(CLBlastInsufficientMemoryB),  NAMED(CLBlastInsufficientMemoryC),   NAMED(CLBlastInsufficientMemoryTemp),
    NAMED(CLBlastInvalidBatchCount),    NAMED(CLBlastInvalidOverrideKernel), NAMED(CLBlastMissingOverrideParameter),
    NAMED(CLBlastInvalidLocalMemUsage), NAMED(CLBlastNoDoublePrecision),     NAMED(CLBlastDatabaseError),
    NAMED(CLBlastUnknownError),         NAMED(CLBlastUnexpectedError),       NAMED(CLBlastNoHalfPrecision),
};

/* Codes above -1000 are OpenCL's. */
static clattn_status clblast_error(clattn_context *context, int code, const char *what) {
    const char *name = "a code without a name here";
    if (code > -1000)
        return cla_enqueued(context, code, what);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code)
            name = codes[i].name;
    return cla_error(CLATTN_E_CLBLAST, "%s: CLBlast %d (%s)", what, code, name);
}

/* ---- settings of a device ---- */

/* CLBlast's database is of the process, and not safe: its calls are made under one lock. With it goes the record of the
 * devices whose parameters are set. Setting them throws CLBlast's programs away, so it is done once. */
static struct {
    pthread_mutex_t lock;
    struct {
        cl_device_id device;
        CLBlastPrecision precision;
        const cla_gemm_set *set; /* NULL: CLBlast's own */
    } prepared[64];
    int count;
} clblast = {.lock = PTHREAD_MUTEX_INITIALIZER};

static clattn_status override(clattn_context *context, CLBlastPrecision precision, const char *kernel, size_t count,
                              const char **names, const size_t *values) {
    const CLBlastStatusCode code = CLBlastOverrideParameters(context->device, kernel, precision, count, names, values);
    return code == CLBlastSuccess ? CLATTN_OK : clblast_error(context, code, "CLBlast's parameters");
}

/* The direct kernel has no temporary buffers. It is taken where m n k is below this cubed. */
static clattn_status prepare(clattn_context *context, CLBlastPrecision precision, const cla_gemm_set *set) {
    static const char *routine_names[] = {"XGEMM_MIN_INDIRECT_SIZE"};
    static const size_t routine[] = {2000000};
    const char *names[CLA_GEMM_PARAMETERS];
    clattn_status status = CLATTN_OK;
    int at = 0;
    while (at < clblast.count &&
           !(clblast.prepared[at].device == context->device && clblast.prepared[at].precision == precision))
        at++;
    if (at < clblast.count && clblast.prepared[at].set == set)
        return CLATTN_OK;
    if (at == clblast.count)
        CLA_TRY(override(context, precision, "GemmRoutine", 1, routine_names, routine));
    memcpy(names, cla_gemm_parameter_names, sizeof names);
    if (set)
        CLA_TRY(override(context, precision, "XgemmDirect", CLA_GEMM_PARAMETERS, names, set->values));
    if (at < (int)(sizeof clblast.prepared / sizeof *clblast.prepared)) {
        clblast.prepared[at].device = context->device;
        clblast.prepared[at].precision = precision;
        clblast.prepared[at].set = set;
        clblast.count = at == clblast.count ? at + 1 : clblast.count;
    }
done:
    return status;
}

/* ---- fewer axes ---- */

static int64_t rows_of(const cla_gemm_matrix *x, int64_t rows, int64_t columns) {
    return x->transposed ? columns : rows;
}

static int64_t columns_of(const cla_gemm_matrix *x, int64_t rows, int64_t columns) {
    return x->transposed ? rows : columns;
}

/* An ld that is never used may be anything, and BLAS does not take anything. */
static void settle_ld(cla_gemm_matrix *x, int64_t rows, int64_t columns) {
    if (rows_of(x, rows, columns) == 1)
        x->ld = columns_of(x, rows, columns);
}

static void settle(cla_gemm *g) {
    settle_ld(&g->a, g->m, g->k);
    settle_ld(&g->b, g->k, g->n);
    settle_ld(&g->c, g->m, g->n);
}

static void remove_axis(cla_gemm *g, int at) {
    for (int i = at; i + 1 < CLA_GEMM_AXES; i++)
        g->axes[i] = g->axes[i + 1];
    g->axes[CLA_GEMM_AXES - 1] = (cla_gemm_axis){.size = 1};
}

/* The rows of all matrices along the axis, against one B, are one matrix's. */
static bool become_rows(cla_gemm *g, const cla_gemm_axis *x) {
    if (x->b != 0 || g->a.transposed)
        return false;
    if (g->m > 1 && (x->a != g->m * g->a.ld || x->c != g->m * g->c.ld))
        return false;
    if (g->m == 1 && (x->a < g->k || x->c < g->n))
        return false;
    if (g->m == 1) {
        g->a.ld = x->a;
        g->c.ld = x->c;
    }
    g->m *= x->size;
    return true;
}

static bool nests(const cla_gemm_axis *outer, const cla_gemm_axis *inner) {
    return outer->a == inner->size * inner->a && outer->b == inner->size * inner->b &&
           outer->c == inner->size * inner->c;
}

static void simplify(cla_gemm *g) {
    settle(g);
    for (int i = CLA_GEMM_AXES - 1; i >= 0; i--)
        if (g->axes[i].size <= 1)
            remove_axis(g, i);
    for (int i = CLA_GEMM_AXES - 1; i >= 0; i--)
        if (g->axes[i].size > 1 && become_rows(g, &g->axes[i]))
            remove_axis(g, i);
    for (int i = CLA_GEMM_AXES - 2; i >= 0; i--)
        if (g->axes[i + 1].size > 1 && nests(&g->axes[i], &g->axes[i + 1])) {
            g->axes[i + 1].size *= g->axes[i].size;
            remove_axis(g, i);
        }
    settle(g);
}

/* ---- checks ---- */

static clattn_status check_matrix(const char *name, const cla_gemm_matrix *x, int64_t rows, int64_t columns,
                                  const int64_t sizes[CLA_GEMM_AXES], const int64_t steps[CLA_GEMM_AXES]) {
    const int64_t r = rows_of(x, rows, columns), c = columns_of(x, rows, columns);
    int64_t last = x->offset, extent;
    if (x->ld < c)
        return cla_error(CLATTN_E_SHAPE, "gemm: %s has rows of %lld elements, %lld apart", name, (long long)c,
                         (long long)x->ld);
    bool fits = cla_mul(r - 1, x->ld, &extent) && cla_add(last, extent, &last) && cla_add(last, c - 1, &last);
    for (int i = 0; i < CLA_GEMM_AXES && fits; i++)
        fits = cla_mul(sizes[i] - 1, steps[i], &extent) && cla_add(last, extent, &last);
    if (!fits || last > INT_MAX || x->ld > INT_MAX)
        return cla_error(CLATTN_E_LIMIT,
                         "gemm: %s reaches to element %lld with rows %lld apart, and CLBlast counts elements to %d",
                         name, fits ? (long long)last : -1LL, (long long)x->ld, INT_MAX);
    return CLATTN_OK;
}

static clattn_status check(const cla_gemm *g) {
    clattn_status status = CLATTN_OK;
    int64_t sizes[CLA_GEMM_AXES], a[CLA_GEMM_AXES], b[CLA_GEMM_AXES], c[CLA_GEMM_AXES];
    CLA_CHECK(g->dtype == CLATTN_F32 || g->dtype == CLATTN_F64, CLATTN_E_DTYPE, "gemm: is %s; it takes f32 and f64",
              clattn_dtype_name(g->dtype));
    for (int i = 0; i < CLA_GEMM_AXES; i++) {
        const cla_gemm_axis *x = &g->axes[i];
        sizes[i] = x->size, a[i] = x->a, b[i] = x->b, c[i] = x->c;
        CLA_CHECK(x->size <= 1 || x->c != 0, CLATTN_E_SHAPE, "gemm: %lld matrices share one c", (long long)x->size);
    }
    if (g->k > 0) { /* else neither is read */
        CLA_TRY(check_matrix("a", &g->a, g->m, g->k, sizes, a));
        CLA_TRY(check_matrix("b", &g->b, g->k, g->n, sizes, b));
    }
    CLA_TRY(check_matrix("c", &g->c, g->m, g->n, sizes, c));
done:
    return status;
}

clattn_status cla_gemm_check(const cla_gemm *gemm) {
    cla_gemm g = *gemm;
    if (g.m == 0 || g.n == 0)
        return CLATTN_OK;
    simplify(&g);
    return check(&g);
}

/* ---- the call ---- */

static CLBlastStatusCode call(const clattn_context *context, const cla_gemm *g, const cla_gemm_axis *batch,
                              cl_event *event) {
    const CLBlastTranspose ta = g->a.transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
    const CLBlastTranspose tb = g->b.transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
    const size_t m = (size_t)g->m, n = (size_t)g->n, k = (size_t)g->k, count = (size_t)batch->size;
    const size_t a = (size_t)g->a.offset, b = (size_t)g->b.offset, c = (size_t)g->c.offset;
    const size_t lda = (size_t)g->a.ld, ldb = (size_t)g->b.ld, ldc = (size_t)g->c.ld;
    const size_t step_a = (size_t)batch->a, step_b = (size_t)batch->b, step_c = (size_t)cla_max(1, batch->c);
    cl_command_queue queue = context->queue;
    const float kept = g->add ? 1.0F : 0.0F;
    if (g->dtype == CLATTN_F64)
        return CLBlastDgemmStridedBatched(CLBlastLayoutRowMajor, ta, tb, m, n, k, 1.0, g->a.buffer->memory, a, lda,
                                          step_a, g->b.buffer->memory, b, ldb, step_b, kept, g->c.buffer->memory, c,
                                          ldc, step_c, count, &queue, event);
    return CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, ta, tb, m, n, k, 1.0F, g->a.buffer->memory, a, lda, step_a,
                                      g->b.buffer->memory, b, ldb, step_b, kept, g->c.buffer->memory, c, ldc, step_c,
                                      count, &queue, event);
}

/* CLBlast takes no wait list: barriers stand on either side where the queue is out of order. */
static clattn_status enqueue(clattn_context *context, const cla_gemm *g, const cla_gemm_axis *batch) {
    clattn_status status = CLATTN_OK;
    cl_event event = NULL;
    CLBlastStatusCode code;
    const cla_gemm_set *set = cla_gemm_set_for(context, g->dtype);
    CLA_TRY(cla_queue_barrier(context));
    pthread_mutex_lock(&clblast.lock);
    status = prepare(context, g->dtype == CLATTN_F64 ? CLBlastPrecisionDouble : CLBlastPrecisionSingle, set);
    code = status == CLATTN_OK ? call(context, g, batch, context->profile ? &event : NULL) : CLBlastSuccess;
    pthread_mutex_unlock(&clblast.lock);
    CLA_TRY(status);
    if (code != CLBlastSuccess) {
        char what[160];
        snprintf(what, sizeof what, "gemm of m %lld, n %lld, k %lld, batch %lld", (long long)g->m, (long long)g->n,
                 (long long)g->k, (long long)batch->size);
        status = clblast_error(context, code, what);
        goto done;
    }
    if (event)
        cla_profile_add(context, "clblast_gemm", event,
                        2.0 * (double)batch->size * (double)g->m * (double)g->n * (double)g->k,
                        (double)clattn_dtype_size(g->dtype) * (double)batch->size *
                            ((double)g->m * (double)g->k + (double)g->k * (double)g->n + (double)g->m * (double)g->n));
    CLA_TRY(cla_queue_barrier(context));
done:
    return status;
}

/* Sums of nothing, which CLBlast refuses. */
static clattn_status enqueue_zeros(clattn_context *context, const cla_gemm *g, const cla_gemm_axis *batch) {
    static const double zero = 0;
    clattn_status status = CLATTN_OK;
    const int64_t size = (int64_t)clattn_dtype_size(g->dtype), rows = g->c.ld == g->n ? 1 : g->m;
    const size_t bytes = (size_t)((rows == 1 ? g->m * g->n : g->n) * size);
    for (int64_t i = 0; i < batch->size * rows; i++) {
        const int64_t at = g->c.offset + i / rows * batch->c + i % rows * g->c.ld;
        CLA_TRY(cla_enqueued(context,
                             clEnqueueFillBuffer(context->queue, g->c.buffer->memory, &zero, (size_t)size,
                                                 (size_t)(at * size), bytes, 0, NULL, NULL),
                             "gemm of no terms"));
    }
    CLA_TRY(cla_queue_barrier(context));
done:
    return status;
}

/* A grid's second and third dimension may be as small as 65535 groups; CLBlast's tiles have 8 columns or more. */
enum { MOST_MATRICES = 65535, MOST_COLUMNS = 65535 * 8 };

/* Matrices, and rows of each, of one call: what the grid takes, and a launch by its bound. Rows are cut between tiles,
 * which have 64 at most, so that each element is summed as it would be without a bound. */
enum { TILE = 64 };
static void choose_piece(const clattn_context *context, const cla_gemm *g, int64_t *matrices, int64_t *rows) {
    const double most = cla_launch_operations(context), row = 2.0 * (double)g->n * (double)g->k;
    const double fitting = most / row; /* rows; infinite without a bound */
    *matrices =
        fitting < (double)MOST_MATRICES * (double)g->m ? cla_max(1, (int64_t)(fitting / (double)g->m)) : MOST_MATRICES;
    *rows = fitting < (double)g->m ? cla_max(TILE, (int64_t)fitting / TILE * TILE) : g->m;
}

/* The batch in such pieces. */
static clattn_status enqueue_pieces(clattn_context *context, const cla_gemm *g, const cla_gemm_axis *batch) {
    clattn_status status = CLATTN_OK;
    int64_t matrices, rows;
    choose_piece(context, g, &matrices, &rows);
    for (int64_t first = 0; first < batch->size; first += matrices)
        for (int64_t column = 0; column < g->n; column += MOST_COLUMNS)
            for (int64_t row = 0; row < g->m; row += rows) {
                const cla_gemm_axis piece = {cla_min(matrices, batch->size - first), batch->a, batch->b, batch->c};
                cla_gemm one = *g;
                one.n = cla_min(MOST_COLUMNS, g->n - column);
                one.m = cla_min(rows, g->m - row);
                one.a.offset += first * batch->a + row * (g->a.transposed ? 1 : g->a.ld);
                one.b.offset += first * batch->b + column * (g->b.transposed ? g->b.ld : 1);
                one.c.offset += first * batch->c + row * g->c.ld + column;
                CLA_TRY(enqueue(context, &one, &piece));
                if (rows < g->m || matrices < batch->size) /* drivers may hand several launches over as one */
                    CLA_TRY(cla_enqueued(context, clFlush(context->queue), "gemm"));
            }
done:
    return status;
}

/* The largest axis is CLBlast's, the others are loops. */
clattn_status cla_gemm_batched(clattn_context *context, const cla_gemm *gemm) {
    clattn_status status = CLATTN_OK;
    cla_gemm g = *gemm;
    int largest = 0;
    assert(context->queue);
    if (g.m == 0 || g.n == 0 || (g.k == 0 && g.add))
        goto done;
    CLA_TRY(cla_context_usable(context));
    simplify(&g);
    CLA_TRY(check(&g));
    for (int i = 1; i < CLA_GEMM_AXES; i++)
        if (g.axes[i].size > g.axes[largest].size)
            largest = i;
    const cla_gemm_axis batch = g.axes[largest];
    remove_axis(&g, largest);
    const cla_gemm_axis x = g.axes[0], y = g.axes[1];
    for (int64_t i = 0; i < x.size * y.size; i++) {
        const int64_t outer = i / y.size, inner = i % y.size;
        cla_gemm one = g;
        one.a.offset += outer * x.a + inner * y.a;
        one.b.offset += outer * x.b + inner * y.b;
        one.c.offset += outer * x.c + inner * y.c;
        CLA_TRY(g.k > 0 ? enqueue_pieces(context, &one, &batch) : enqueue_zeros(context, &one, &batch));
    }
done:
    return status;
}
