/* SPDX-License-Identifier: Apache-2.0 */
/* Any public call over tensors as a descriptor that can be changed: which tensors and options it has, the arrays that
 * they lie in, and what may be written there. */
#ifndef CALLS_H
#define CALLS_H

#include "fuzz_testing.h"

#include "op_arrays.h"
#include "oracle_internal.h"
#include <clattn/train.h>

enum {
    CALL_TENSORS = 128,
    CALL_OPTIONS = 40,
    CALL_NUMBERS = 8,
    CALL_LENGTH = 72,
    CALL_MOST = 64,
    CALL_ELEMENTS = 4096
};

typedef enum call_kind {
    CALL_FLAG,    /* bool */
    CALL_ENUM,    /* of int's size */
    CALL_INT,     /* int64_t */
    CALL_REAL,    /* double */
    CALL_NAME,    /* const char *, of an algorithm */
    CALL_ARRAY,   /* const int64_t *, of CALL_LENGTH numbers */
    CALL_ARRAY32, /* const int32_t * */
    CALL_REALS,   /* const double * */
    CALL_RESERVED /* uint64_t [4] at least */
} call_kind;

typedef struct call_tensor {
    clattn_tensor *t; /* in the descriptor */
    const char *name;
    bool out, in; /* both where it is added to */
    int array;    /* what it lies in; -1: nothing */
} call_tensor;

typedef struct call_array {
    oracle_array a;
    unsigned char *fetched; /* what the buffer holds after the call */
    clattn_dtype dtype;
} call_array;

typedef union call_args {
    clattn_linear_args linear;
    clattn_norm_args norm;
    clattn_embed_args embed;
    clattn_add_args add;
    clattn_activate_args activate;
    clattn_pool_args pool;
    clattn_positions_args positions;
    clattn_random_args random;
    clattn_softmax_args softmax;
    clattn_rotary_args rotary;
    clattn_cache_append_args append;
    struct {
        clattn_merge_args args;
        clattn_partial parts[3];
    } merge;
    clattn_linear_backward_args linear_backward;
    clattn_norm_backward_args norm_backward;
    clattn_activate_backward_args activate_backward;
    clattn_softmax_backward_args softmax_backward;
    clattn_embed_backward_args embed_backward;
    clattn_sum_args sum;
    clattn_cross_entropy_args loss;
    struct {
        clattn_gradient_norm_args args;
        clattn_tensor gradients[3];
    } gradient_norm;
    clattn_adam_args adam;
    clattn_sgd_args sgd;
} call_args;

typedef struct fuzz_call {
    fuzz_input *in;
    clattn_context *context;
    const char *name;
    oracle_random random;
    clattn_dtype type; /* of most tensors */
    bool mixed;        /* others are of any float type */
    bool quiet;        /* gaps hold numbers, not NaN */
    unsigned buffers;  /* bits: tensors in buffers, in turn */
    call_tensor tensors[CALL_TENSORS];
    call_array arrays[CALL_TENSORS];
    struct {
        call_kind kind;
        void *at;
    } options[CALL_OPTIONS];
    int count, array_count, option_count;
    int64_t numbers[CALL_NUMBERS][CALL_LENGTH];
    int32_t table[CALL_LENGTH];
    double reals[CALL_LENGTH];
    bool unknown; /* a reserved word is set */
    /* Tensors that are not looked at, and so may be wrong; NULL: none. */
    bool (*ignores)(const struct fuzz_call *c, const clattn_tensor *t);
    bool parts; /* of several calls: one that fails may have written outputs */
    call_args args;
} fuzz_call;

void call_begin(fuzz_call *c, fuzz_input *in, clattn_context *context);
void call_end(fuzz_call *c);

/* ---- making a valid one ---- */

/* Tensors of the descriptor, laid out as the input says; the number of it. In outputs lie gaps, or numbers where they
 * are read too. `below` above 0: whole numbers below that. */
typedef enum call_use { CALL_IN, CALL_OUT, CALL_INOUT } call_use;
int call_add(fuzz_call *c, clattn_tensor *t, const char *name, call_use use, clattn_dtype dtype, int rank,
             const int64_t *shape, int64_t below);
/* Of a float type: that of the call, or, where it is mixed, any. */
int call_real(fuzz_call *c, clattn_tensor *t, const char *name, call_use use, int rank, const int64_t *shape);
/* An optional one that is absent. */
void call_none(fuzz_call *c, clattn_tensor *t, const char *name, call_use use);
/* The same of which the input says whether it is there. */
bool call_maybe(fuzz_call *c, clattn_tensor *t, const char *name, call_use use, int rank, const int64_t *shape);
/* An output that is a view of another tensor of the call, rather than of its own array. */
void call_alias(fuzz_call *c, int out, int in);
void call_option(fuzz_call *c, call_kind kind, void *at);
clattn_dtype call_dtype(fuzz_call *c);
/* Rank from `least` to `most`, and sizes of 1 to 5; returns the rank. */
int call_shape(fuzz_call *c, int least, int most, int64_t *shape);
/* A shape that broadcasts from the right to another. */
int call_broadcast(fuzz_call *c, int rank, const int64_t *shape, int64_t *out);

/* ---- changing, running ---- */

void call_change(fuzz_call *c);
/* Arrays are laid out for the call; true: something reaches outside, and is to be refused. */
bool call_place(fuzz_call *c);
/* An output shares an array with another tensor. */
bool call_meets(const fuzz_call *c);
/* One number, read again and again, takes as long as so many. */
bool call_is_long(const fuzz_call *c);
/* No byte but outputs has changed, none after an error, which has a text, of a single call. */
void call_check(fuzz_call *c, clattn_status status, bool outside);
/* The same call with each tensor dense and by itself gives the same: `run` it again. */
void call_again(fuzz_call *c, clattn_status (*run)(void *what), void *what);
/* Values are few and of a size that says something. */
bool call_sound(const fuzz_call *c);

/* ---- values ---- */

/* As it was before the call; element of `shape`, from which the tensor broadcasts. 0 where it is absent. */
double call_value(const fuzz_call *c, const clattn_tensor *t, int rank, const int64_t *shape, int64_t element);
/* The same of a tensor's own element. */
double call_at(const fuzz_call *c, const clattn_tensor *t, int64_t element);
double call_got(const fuzz_call *c, const clattn_tensor *t, int64_t element);
/* An element of an output, with what may be off beside rounding to its type. */
void call_expect(const fuzz_call *c, const clattn_tensor *t, int64_t element, double want, double most);
/* f64 where a tensor of the call is. */
clattn_dtype call_sums(const fuzz_call *c);
/* What a sum of such terms may be off. */
double call_off(const fuzz_call *c, double terms);

/* ---- the calls ---- */

typedef struct call_type {
    const char *name;
    void (*make)(fuzz_call *c);
    clattn_status (*run)(fuzz_call *c);
    void (*expect)(fuzz_call *c);
} call_type;

extern const call_type call_ops[], call_trains[], call_states[];
extern const int call_ops_count, call_trains_count, call_states_count;

#endif
