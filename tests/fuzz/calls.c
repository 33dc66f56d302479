/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"

/* ---- telling ---- */

static const fuzz_call *current;

static void tell(void) {
    const fuzz_call *c = current;
    for (int i = 0; i < c->count; i++) {
        const clattn_tensor *t = c->tensors[i].t;
        if (t->rank == 0)
            continue;
        fprintf(stderr, "%s%s %s array %d %s rank %d + %lld:", c->tensors[i].name, c->tensors[i].out ? " (out)" : "",
                clattn_dtype_name(t->dtype), c->tensors[i].array, t->buffer ? "buffer" : "host", t->rank,
                (long long)t->offset);
        for (int axis = 0; axis < t->rank && axis < CLATTN_MAX_RANK; axis++)
            fprintf(stderr, " %lld (%lld)", (long long)t->shape[axis], (long long)t->stride[axis]);
        fputc('\n', stderr);
    }
    for (int i = 0; i < c->option_count; i++) {
        const void *at = c->options[i].at;
        const call_kind kind = c->options[i].kind;
        if (kind == CALL_REAL)
            fprintf(stderr, "%g ", *(const double *)at);
        else if (kind < CALL_REAL)
            fprintf(stderr, "%lld ",
                    kind == CALL_FLAG   ? *(const bool *)at
                    : kind == CALL_ENUM ? *(const int *)at
                                        : (long long)*(const int64_t *)at);
    }
    fputc('\n', stderr);
}

/* ---- making ---- */

void call_begin(fuzz_call *c, fuzz_input *in, clattn_context *context) {
    static const clattn_dtype types[] = {CLATTN_F32, CLATTN_F32, CLATTN_F64, CLATTN_F16, CLATTN_BF16};
    memset(c, 0, sizeof *c);
    current = c;
    fuzz_tell = tell;
    c->in = in;
    c->context = context;
    c->random.state = 1 + fuzz_byte(in);
    const unsigned how = fuzz_byte(in);
    c->type = types[how % 5];
    c->mixed = how >> 3 & 1;
    c->quiet = how >> 4 & 1;
    c->buffers = how >> 5 & 1 ? fuzz_byte(in) : 0;
    for (int i = 0; i < CALL_LENGTH; i++) {
        for (int k = 0; k < CALL_NUMBERS; k++)
            c->numbers[k][i] = oracle_below(&c->random, 4);
        c->table[i] = (int32_t)oracle_below(&c->random, 4);
        c->reals[i] = oracle_uniform(&c->random);
    }
}

void call_end(fuzz_call *c) {
    for (int i = 0; i < c->array_count; i++) {
        oracle_array *a = &c->arrays[i].a;
        clattn_buffer_destroy(a->buffer);
        free(a->data);
        free(a->before);
        free(a->owned);
        free(c->arrays[i].fetched);
    }
    c->array_count = 0;
}

clattn_dtype call_dtype(fuzz_call *c) {
    static const clattn_dtype types[] = {CLATTN_F32, CLATTN_F64, CLATTN_F16, CLATTN_BF16};
    return c->mixed ? types[fuzz_below(c->in, 4)] : c->type;
}

static void store(unsigned char *data, clattn_dtype dtype, int64_t at, const double *x, size_t count) {
    SUCCEEDS(clattn_convert(data + clattn_dtype_bytes(dtype, (size_t)at), dtype, x, CLATTN_F64, count));
}

/* Whole numbers or normal ones. */
static void fill(fuzz_call *c, const clattn_tensor *t, unsigned char *data, int64_t below) {
    const int64_t count = clattn_tensor_elements(t), length = (int64_t)clattn_dtype_length(t->dtype);
    for (int64_t i = 0; i < count; i += length) {
        double x[32];
        for (int64_t k = 0; k < length; k++)
            x[k] = below > 0 ? (double)oracle_below(&c->random, below) : oracle_normal(&c->random);
        store(data, t->dtype, op_place(t, i), x, (size_t)length);
    }
}

int call_add(fuzz_call *c, clattn_tensor *t, const char *name, call_use use, clattn_dtype dtype, int rank,
             const int64_t *shape, int64_t below) {
    const bool blocks = clattn_dtype_length(dtype) > 1;
    const unsigned how = fuzz_byte(c->in);
    call_array *a = &c->arrays[c->array_count];
    cr_assert_lt(c->count, CALL_TENSORS);
    *t = clattn_tensor_host(NULL, dtype, rank, shape);
    const int64_t guard = blocks ? 32 : (int64_t)(how >> 3) % 5;
    int64_t size = op_lay_out(t, blocks ? OP_DENSE : (op_layout)(how % OP_LAYOUTS)) + 2 * guard;
    size += size % (int64_t)clattn_dtype_length(dtype);
    t->offset = guard;
    a->dtype = dtype;
    a->a.bytes = clattn_dtype_bytes(dtype, (size_t)size);
    a->a.data = malloc(a->a.bytes);
    a->a.before = malloc(a->a.bytes);
    a->a.owned = calloc(a->a.bytes, 1);
    FUZZ_CHECK(a->a.data && a->a.before && a->a.owned, "no memory");
    memset(a->a.data, c->quiet ? 0x3c : 0xff, a->a.bytes);
    t->host = a->a.data;
    if (use != CALL_OUT && clattn_tensor_elements(t) > 0)
        fill(c, t, a->a.data, below);
    c->tensors[c->count] = (call_tensor){t, name, use != CALL_IN, use != CALL_OUT, c->array_count++};
    return c->count++;
}

int call_real(fuzz_call *c, clattn_tensor *t, const char *name, call_use use, int rank, const int64_t *shape) {
    return call_add(c, t, name, use, call_dtype(c), rank, shape, 0);
}

void call_none(fuzz_call *c, clattn_tensor *t, const char *name, call_use use) {
    cr_assert_lt(c->count, CALL_TENSORS);
    c->tensors[c->count++] = (call_tensor){t, name, use != CALL_IN, use != CALL_OUT, -1};
}

bool call_maybe(fuzz_call *c, clattn_tensor *t, const char *name, call_use use, int rank, const int64_t *shape) {
    const bool is_there = fuzz_flag(c->in);
    if (is_there)
        call_real(c, t, name, use, rank, shape);
    else
        call_none(c, t, name, use);
    return is_there;
}

void call_alias(fuzz_call *c, int out, int in) { *c->tensors[out].t = *c->tensors[in].t; }

void call_option(fuzz_call *c, call_kind kind, void *at) {
    cr_assert_lt(c->option_count, CALL_OPTIONS);
    c->options[c->option_count].kind = kind;
    c->options[c->option_count++].at = at;
}

int call_shape(fuzz_call *c, int least, int most, int64_t *shape) {
    const int rank = least + (int)fuzz_below(c->in, most - least + 1);
    for (int i = 0; i < rank; i++)
        shape[i] = rank > 4 && i < rank - 2 ? 1 + fuzz_below(c->in, 2) : 1 + fuzz_below(c->in, 5);
    return rank;
}

int call_broadcast(fuzz_call *c, int rank, const int64_t *shape, int64_t *out) {
    const int r = 1 + (int)fuzz_below(c->in, rank);
    const unsigned ones = fuzz_byte(c->in);
    for (int i = 0; i < r; i++)
        out[i] = ones >> i & 1 ? 1 : shape[rank - r + i];
    return r;
}

/* ---- what lies where ---- */

/* The bytes that a view takes up, from its pointer on; false: none, or it is no view. */
static bool extent(const clattn_tensor *t, double *end) {
    double first = (double)t->offset, last = first;
    const double length = (double)clattn_dtype_length(t->dtype);
    *end = 0;
    if (t->rank < 1 || t->rank > CLATTN_MAX_RANK || length == 0)
        return false;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] <= 0)
            return false;
        const double step = (double)(t->shape[i] - 1) * (double)t->stride[i];
        first += step < 0 ? step : 0;
        last += step > 0 ? step : 0;
    }
    *end = first < 0 ? INFINITY : ceil((last + 1) / length) * (double)clattn_dtype_size(t->dtype);
    return true;
}

static void own(call_array *a, const clattn_tensor *t) {
    const int64_t count = clattn_tensor_elements(t), length = (int64_t)clattn_dtype_length(t->dtype);
    const size_t size = clattn_dtype_size(t->dtype);
    if (count > CALL_ELEMENTS)
        memset(a->a.owned, 1, a->a.bytes);
    for (int64_t i = 0; i < count && count <= CALL_ELEMENTS; i++)
        memset(a->a.owned + (size_t)(op_place(t, i) / length) * size, 1, size);
}

bool call_place(fuzz_call *c) {
    bool outside = false;
    for (int i = 0; i < c->count; i++) {
        call_tensor *t = &c->tensors[i];
        double end;
        t->array = -1;
        for (int k = 0; k < c->array_count && t->array < 0; k++)
            if (t->t->host == c->arrays[k].a.data)
                t->array = k;
        if (t->array < 0)
            continue;
        call_array *a = &c->arrays[t->array];
        const bool is_view = extent(t->t, &end), reaches_out = is_view && end > (double)a->a.bytes;
        outside = outside || (reaches_out && !(c->ignores && c->ignores(c, t->t)));
        if (reaches_out || c->buffers >> i % 8 & 1) {
            if (!a->a.buffer)
                SUCCEEDS(clattn_buffer_create(c->context, a->a.bytes, &a->a.buffer));
            t->t->host = NULL;
            t->t->buffer = a->a.buffer;
        }
        if (t->out && is_view && !reaches_out)
            own(a, t->t);
        else if (t->out && is_view && c->parts)
            memset(a->a.owned, 1, a->a.bytes);
    }
    for (int i = 0; i < c->array_count; i++) {
        oracle_array *a = &c->arrays[i].a;
        memcpy(a->before, a->data, a->bytes);
        if (a->buffer)
            SUCCEEDS(clattn_buffer_upload(a->buffer, 0, a->data, a->bytes));
    }
    return outside;
}

bool call_meets(const fuzz_call *c) {
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < c->count; k++)
            if (i != k && c->tensors[i].out && c->tensors[i].array >= 0 && c->tensors[i].array == c->tensors[k].array)
                return true;
    return false;
}

bool call_is_long(const fuzz_call *c) {
    for (int i = 0; i < c->count; i++)
        if (c->tensors[i].t->rank > 0 && clattn_tensor_elements(c->tensors[i].t) > 1 << 20)
            return true;
    return false;
}

void call_check(fuzz_call *c, clattn_status status, bool outside) {
    if (status != CLATTN_OK)
        fuzz_check_error(status);
    else
        FUZZ_CHECK(!outside && !c->unknown, "%s was not refused",
                   outside ? "what reaches outside its buffer" : "a word that is not known");
    for (int i = 0; i < c->array_count; i++) {
        call_array *a = &c->arrays[i];
        oracle_array now = a->a;
        size_t at = 0;
        if (status != CLATTN_OK && !c->parts)
            memset(now.owned, 0, now.bytes);
        FUZZ_CHECK(!oracle_array_damaged(&now, &at), "byte %zu of host array %d has changed, %s", at, i,
                   status ? clattn_last_error() : "success");
        if (!now.buffer)
            continue;
        now.data = a->fetched = malloc(now.bytes);
        FUZZ_CHECK(now.data, "no memory");
        SUCCEEDS(clattn_buffer_download(now.buffer, 0, now.data, now.bytes));
        FUZZ_CHECK(!oracle_array_damaged(&now, &at), "byte %zu of buffer %d has changed, %s", at, i,
                   status ? clattn_last_error() : "success");
    }
}

/* ---- values ---- */

/* NULL: none, or not all of it lies there. */
static const call_array *array_of(const fuzz_call *c, const clattn_tensor *t) {
    double end;
    for (int i = 0; i < c->array_count; i++) {
        const oracle_array *a = &c->arrays[i].a;
        if (t->host ? t->host == a->data : t->buffer && t->buffer == a->buffer)
            return extent(t, &end) && end <= (double)a->bytes ? &c->arrays[i] : NULL;
    }
    return NULL;
}

static bool is_int(clattn_dtype dtype) { return dtype >= CLATTN_I32 && dtype <= CLATTN_BOOL; }

static double decode(clattn_dtype dtype, const unsigned char *data, int64_t at) {
    int32_t narrow = 0;
    int64_t wide = 0;
    if (!is_int(dtype))
        return oracle_decode(dtype, data, at);
    memcpy(&narrow, data + at * 4, dtype == CLATTN_I32 ? 4 : 0);
    memcpy(&wide, data + at * 8, dtype == CLATTN_I64 ? 8 : 0);
    return dtype == CLATTN_I32 ? narrow : dtype == CLATTN_I64 ? (double)wide : data[at];
}

double call_at(const fuzz_call *c, const clattn_tensor *t, int64_t element) {
    const call_array *a = array_of(c, t);
    return a ? decode(t->dtype, a->a.before, op_place(t, element)) : 0;
}

double call_value(const fuzz_call *c, const clattn_tensor *t, int rank, const int64_t *shape, int64_t element) {
    int64_t own_element = 0, step = 1;
    for (int i = rank - 1, k = t->rank - 1; i >= 0 && k >= 0; i--, k--) {
        own_element += t->shape[k] == 1 ? 0 : element % shape[i] * step;
        step *= t->shape[k];
        element /= shape[i];
    }
    return call_at(c, t, own_element);
}

double call_got(const fuzz_call *c, const clattn_tensor *t, int64_t element) {
    const call_array *a = array_of(c, t);
    if (!a)
        return 0;
    return decode(t->dtype, t->buffer ? a->fetched : a->a.data, op_place(t, element));
}

void call_expect(const fuzz_call *c, const clattn_tensor *t, int64_t element, double want, double most) {
    const call_array *a = array_of(c, t);
    if (!a)
        return;
    const op_array now = {.t = *t, .data = t->buffer ? a->fetched : a->a.data};
    op_expect(&now, element, want, most, c->name);
}

clattn_dtype call_sums(const fuzz_call *c) {
    for (int i = 0; i < c->count; i++)
        if (c->tensors[i].t->rank > 0 && c->tensors[i].t->dtype == CLATTN_F64 &&
            !(c->ignores && c->ignores(c, c->tensors[i].t)))
            return CLATTN_F64;
    return CLATTN_F32;
}

/* Of gross errors: sums of other orders may differ. */
static void expect_same(const fuzz_call *c, const clattn_tensor *was, const clattn_tensor *is, double largest) {
    const double share = is->dtype == CLATTN_F64 && call_sums(c) == CLATTN_F64 ? 1e-6 : 0x1p-6;
    for (int64_t i = 0; i < clattn_tensor_elements(is); i++) {
        const double old = call_got(c, was, i), now = decode(is->dtype, is->host, op_place(is, i));
        FUZZ_CHECK(isfinite(old) ? fabs(old - now) <= share * largest
                   : isnan(old)  ? isnan(now)
                                 : old == now,
                   "%s: element %lld is %g, and %g where each tensor is dense", c->name, (long long)i, old, now);
    }
}

void call_again(fuzz_call *c, clattn_status (*run)(void *what), void *what) {
    clattn_tensor was[CALL_TENSORS];
    bool done[CALL_TENSORS];
    double largest = 1;
    for (int i = 0; i < c->count; i++) {
        clattn_tensor *t = c->tensors[i].t;
        was[i] = *t;
        const call_array *a = array_of(c, t);
        done[i] = false;
        /* Ids in buffers may be wrong; what is not looked at may be anything. */
        if (!a || (t->buffer && is_int(t->dtype)))
            continue;
        done[i] = true;
        const int64_t count = clattn_tensor_elements(t), length = (int64_t)clattn_dtype_length(t->dtype);
        const size_t size = clattn_dtype_size(t->dtype);
        *t = clattn_tensor_host(calloc((size_t)count + 1, size), t->dtype, t->rank, t->shape);
        FUZZ_CHECK(t->host, "no memory");
        for (int64_t e = 0; e < count; e += length) {
            memcpy((char *)t->host + (size_t)(e / length) * size,
                   a->a.before + (size_t)(op_place(&was[i], e) / length) * size, size);
            for (int64_t k = e; k < e + length; k++) {
                const double x = fabs(c->tensors[i].out ? call_got(c, &was[i], k) : call_at(c, &was[i], k));
                largest = x > largest && isfinite(x) ? x : largest;
            }
        }
    }
    SUCCEEDS(run(what));
    for (int i = 0; i < c->count; i++) {
        clattn_tensor *t = c->tensors[i].t;
        if (!done[i])
            continue;
        if (c->tensors[i].out && clattn_dtype_length(t->dtype) == 1)
            expect_same(c, &was[i], t, largest);
        free(t->host);
        *t = was[i];
    }
}

double call_off(const fuzz_call *c, double terms) { return terms * (call_sums(c) == CLATTN_F64 ? 1e-11 : 1e-5); }

bool call_sound(const fuzz_call *c) {
    for (int i = 0; i < c->count; i++) {
        const clattn_tensor *t = c->tensors[i].t;
        const int64_t count = t->rank ? clattn_tensor_elements(t) : 0;
        if (count < 0 || count > CALL_ELEMENTS)
            return false;
        for (int64_t e = 0; e < count && !is_int(t->dtype); e++) {
            const double x = fabs(call_at(c, t, e));
            if (c->tensors[i].in && (!(x < 1e4) || (x > 0 && x < 1e-6)))
                return false;
        }
    }
    for (int i = 0; i < c->option_count; i++)
        if (c->options[i].kind == CALL_REAL) {
            const double x = fabs(*(const double *)c->options[i].at);
            if (!(x < 1e6) || (x > 0 && x < 1e-6))
                return false;
        }
    return true;
}
