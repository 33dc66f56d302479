/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a descriptor: tensors, sizes of axes, options, words that are not known, values. */
#include "calls.h"

#include <float.h>

static int64_t odd_number(fuzz_input *in, int64_t old) {
    static const int64_t odd[] = {-1,
                                  0,
                                  1,
                                  2,
                                  3,
                                  7,
                                  8,
                                  INT32_MAX - 65536,
                                  INT32_MAX,
                                  INT64_MAX,
                                  INT64_MIN,
                                  INT64_MAX / 2 + 1,
                                  (INT64_C(1) << 32) + 1,
                                  INT64_C(1) << 53};
    const int64_t which = fuzz_below(in, 18);
    return which < 14                           ? odd[which]
           : which == 14 && old < INT64_MAX     ? old + 1
           : which == 15 && old > INT64_MIN     ? old - 1
           : which == 16 && old < INT64_MAX / 2 ? old * 2
                                                : old / 2;
}

static double odd_real(fuzz_input *in) {
    static const double odd[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e-300, 1e300, DBL_MAX, 1e-46, 0.5, 1, 2};
    return odd[fuzz_below(in, 12)];
}

static clattn_tensor *some_tensor(fuzz_call *c) { return c->tensors[fuzz_below(c->in, c->count)].t; }

static void change_tensor(fuzz_call *c) {
    clattn_tensor *t = some_tensor(c);
    const int64_t axis = fuzz_below(c->in, CLATTN_MAX_RANK) % (t->rank > 0 && t->rank <= CLATTN_MAX_RANK ? t->rank : 1);
    switch (fuzz_below(c->in, 8)) {
    case 0:
        t->rank = (int)fuzz_below(c->in, 12) - 1;
        break;
    case 1:
        t->dtype = (clattn_dtype)((int)fuzz_below(c->in, 14) - 1);
        break;
    case 2:
        t->offset = odd_number(c->in, t->offset);
        break;
    case 3:
        t->stride[axis] = odd_number(c->in, t->stride[axis]);
        break;
    case 4:
        t->host = fuzz_flag(c->in) ? NULL : some_tensor(c)->host;
        break;
    case 5:
        *t = (clattn_tensor){0};
        break;
    case 6: /* a view of another, or of what is absent */
        *t = *some_tensor(c);
        break;
    default:
        t->shape[axis] = odd_number(c->in, t->shape[axis]);
    }
}

/* Axes of the same size, of all tensors, get another. */
static void change_size(fuzz_call *c) {
    const clattn_tensor *of = some_tensor(c);
    static const int64_t sizes[] = {0, 1, 2, 3, 0, INT32_MAX - 65536};
    const int64_t size = of->shape[fuzz_below(c->in, CLATTN_MAX_RANK)], to = sizes[fuzz_below(c->in, 6)];
    for (int i = 0; i < c->count; i++)
        for (int axis = 0; axis < CLATTN_MAX_RANK && axis < c->tensors[i].t->rank; axis++)
            if (c->tensors[i].t->shape[axis] == size)
                c->tensors[i].t->shape[axis] = to;
}

static void change_option(fuzz_call *c) {
    static const char *const names[] = {"reference", "blas", "linear", "gemv", "clblast", "", "x", NULL};
    if (c->option_count == 0)
        return;
    const int which = (int)fuzz_below(c->in, c->option_count);
    void *const at = c->options[which].at;
    const int64_t element = fuzz_below(c->in, 8);
    switch (c->options[which].kind) {
    case CALL_FLAG:
        *(bool *)at = !*(bool *)at;
        break;
    case CALL_ENUM:
        *(int *)at = (int)fuzz_below(c->in, 9) - 1;
        break;
    case CALL_INT:
        *(int64_t *)at = odd_number(c->in, *(int64_t *)at);
        break;
    case CALL_REAL:
        *(double *)at = odd_real(c->in);
        break;
    case CALL_NAME:
        *(const char **)at = names[element];
        break;
    case CALL_ARRAY: /* there or not, or a number of it */
        if (fuzz_flag(c->in))
            *(const int64_t **)at = *(const int64_t **)at ? NULL : c->numbers[fuzz_below(c->in, CALL_NUMBERS)];
        else
            for (int k = 0; k < CALL_NUMBERS; k++)
                if (*(const int64_t **)at == c->numbers[k])
                    c->numbers[k][element] = odd_number(c->in, c->numbers[k][element]);
        break;
    case CALL_ARRAY32:
        if (fuzz_flag(c->in))
            *(const int32_t **)at = *(const int32_t **)at ? NULL : c->table;
        else
            c->table[element] = (int32_t)odd_number(c->in, c->table[element]);
        break;
    case CALL_REALS:
        if (fuzz_flag(c->in))
            *(const double **)at = *(const double **)at ? NULL : c->reals;
        else
            c->reals[element] = odd_real(c->in);
        break;
    case CALL_RESERVED:
        ((uint64_t *)at)[element % 4] = 1 + fuzz_byte(c->in);
        c->unknown = true;
    }
}

/* Values of inputs that are not such as the call takes: NaN, infinities, ids beyond the table. */
static void change_value(fuzz_call *c) {
    const clattn_tensor *t = some_tensor(c);
    const size_t size = clattn_dtype_size(t->dtype);
    for (int i = 0; i < c->array_count && size > 0; i++)
        if (c->arrays[i].a.data == t->host && c->arrays[i].a.bytes >= size) {
            const size_t at = (size_t)fuzz_byte(c->in) % (c->arrays[i].a.bytes / size) * size;
            memset(c->arrays[i].a.data + at, (int)fuzz_byte(c->in), size);
        }
}

/* Arrays of the caller's are as long as the descriptor says, which nobody can check. */
static void drop_short_arrays(fuzz_call *c) {
    bool small = true;
    for (int i = 0; i < c->count; i++)
        for (int axis = 0; axis < CLATTN_MAX_RANK; axis++)
            small = small && c->tensors[i].t->shape[axis] <= 8;
    for (int i = 0; i < c->option_count; i++)
        if (c->options[i].kind == CALL_INT)
            small = small && *(int64_t *)c->options[i].at <= 8;
    for (int i = 0; i < c->option_count && !small; i++)
        if (c->options[i].kind == CALL_ARRAY || c->options[i].kind == CALL_ARRAY32 || c->options[i].kind == CALL_REALS)
            *(void **)c->options[i].at = NULL;
}

void call_change(fuzz_call *c) {
    static void (*const change[])(fuzz_call * c) = {change_tensor, change_tensor, change_tensor, change_size,
                                                    change_size,   change_option, change_option, change_value};
    change[fuzz_below(c->in, 8)](c);
    drop_short_arrays(c);
}
