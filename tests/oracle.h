/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle of the tests: attention problems made from a seed, their exact results, the tolerance by type, and one
 * way to run an algorithm on them through the public API. Knows no test framework and no device. */
#ifndef ORACLE_H
#define ORACLE_H

#include <clattn/clattn.h>

enum { ORACLE_TEXT = 1000 }; /* bytes of a report */

/* ---- numbers: the same in every run, on every machine ---- */

typedef struct oracle_random {
    uint64_t state;
} oracle_random;

uint64_t oracle_next(oracle_random *random);
int64_t oracle_below(oracle_random *random, int64_t n); /* 0 .. n - 1 */
double oracle_uniform(oracle_random *random);           /* [0, 1) */
double oracle_normal(oracle_random *random);

/* ---- problems ---- */

typedef enum oracle_layout {
    ORACLE_BHSD = 0,   /* each tensor dense */
    ORACLE_BSHD,       /* [batch, seq, head, dim], O and LSE too */
    ORACLE_PACKED,     /* Q, K and V in one array, side by side in a row; apart where rows or types differ */
    ORACLE_TRANSPOSED, /* [batch, head, dim, seq]: no last stride is 1 but that of blocks, of weights and masks neither
                        */
    ORACLE_SHARED,     /* one K and V for all batches and key heads, strides 0 */
    ORACLE_PADDED,     /* dense, with 3 elements behind each row, a block where the type has blocks */
    ORACLE_LAYOUTS
} oracle_layout;

/* What lies where nothing may be read: guards, unused pages, keys beyond lengths, scratch, outputs before the call. */
typedef enum oracle_filler { ORACLE_NAN = 0, ORACLE_ZERO, ORACLE_INFINITY, ORACLE_MINUS_INFINITY } oracle_filler;

/* Bits of the axes that a mask has in full; it has size 1 on the others of its rank. */
enum { ORACLE_BATCH = 8, ORACLE_HEAD = 4, ORACLE_QUERY = 2, ORACLE_KEY = 1 };
typedef struct oracle_mask {
    int rank; /* 0: none; 2 to 4 */
    unsigned axes;
} oracle_mask;
/* All ranks and broadcast shapes in turn: 4 of rank 2, 8 of rank 3, 16 of rank 4. */
oracle_mask oracle_next_mask(int *turn);

/* All zero but N and D is a plain problem: B and H are then 1, Hk = H, M = N, Dv = D. Lengths, offsets, segments and
 * other arrays are made from the seed. */
typedef struct oracle_config {
    clattn_dtype dtype; /* f32 or f64; of the sums, which typed decides by the types below */
    bool typed;         /* else all five are dtype */
    clattn_dtype q_type, k_type, v_type, o_type, bias_type;
    int64_t B, H, Hk, N, M, D, Dv;
    oracle_layout layout;
    int64_t guard; /* elements of filler before and after the data of each array */
    oracle_filler filler;
    bool buffers;          /* a plan over buffers, else one call on host arrays */
    size_t max_workspace;  /* of the pass that is tested; 0: as the library likes */
    bool caller_workspace; /* with buffers: scratch of the caller's, full of filler */
    bool lse, weights;
    bool has_scale;
    double scale;
    bool causal;
    clattn_align align; /* with OFFSET the offsets are made from the seed, from -N to M */
    bool has_window;
    int64_t window_left, window_right;
    bool lengths; /* K and V hold filler beyond them */
    oracle_mask keep, drop, bias;
    bool short_masks; /* they have two thirds of the columns, or one */
    double softcap;
    bool alibi, sinks;
    bool query_lengths, prefix, segments; /* prefix with causal only */
    bool sequences;    /* B of them one after another, of lengths up to N and M, one as long as that, and rows behind */
    int64_t page_size; /* above 0: pages in random order, with lengths, and M rounded up to whole pages */
    bool batch_invariant;
    double dropout;      /* the seed is that of the config, the offset 3 */
    const char *variant; /* of the algorithm it is run on; NULL: the default */
    uint64_t seed;
} oracle_config;

typedef struct oracle_outputs {
    double *o, *lse, *weights; /* dense; [B, H, N, Dv], [B, H, N], [B, H, N, M] */
} oracle_outputs;

/* Inputs are dense, however they are laid out for the library, and may be changed between make and exact. They hold
 * values of their types. Rows of no sequence are NaN in the outputs. */
typedef struct oracle_case {
    oracle_config config; /* with the defaults filled in */
    double *q, *k, *v;    /* [B, H, N, D], [B, Hk, M, D], [B, Hk, M, Dv] */
    double *bias;         /* dense in its own shape, like keep and drop */
    unsigned char *keep, *drop;
    int64_t *key_lengths, *offsets, *query_lengths, *prefix_lengths; /* [B] */
    float *slopes;                                                   /* [H] */
    double *sinks;                                                   /* [H], of the type of the sums */
    int32_t *query_segments, *key_segments;                          /* [B, N], [B, M] */
    int64_t *cu_queries, *cu_keys;                                   /* [B + 1]; cu_keys NULL with pages */
    int64_t query_rows, key_rows;                                    /* of the arrays of sequences */
    int32_t *block_table;                                            /* [B, table_pages] */
    int64_t table_pages, pages;
    oracle_outputs exact, got;
    struct {
        double o, lse, weights; /* largest error */
    } allowed;
} oracle_case;

/* Values: normal, masks with about a third excluded. */
oracle_case *oracle_make(const oracle_config *config);
void oracle_free(oracle_case *c); /* NULL is allowed */
/* Queries and keys of a batch: those of the rest see none, or are seen by none. */
int64_t oracle_queries(const oracle_case *c, int64_t b);
int64_t oracle_keys(const oracle_case *c, int64_t b);
/* Where query i stands among the keys. */
int64_t oracle_position(const oracle_case *c, int64_t b, int64_t i);
/* Whether query i sees key j, by masks alone; written apart from the library's own code. */
bool oracle_sees(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j);
/* The bias of a score, 0 without one. */
double oracle_bias(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j);

/* What dropout multiplies weight (b, h, i, j) by. */
double oracle_kept(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j);

/* Naive loops in double (in long double to judge f64), which share no code with the library, and what is allowed: twice
 * the error of the same loops in the type of the sums, of the worst of a few orders, with a floor by the output's type.
 * false, with the reason in text, when the two disagree altogether. */
bool oracle_exact(oracle_case *c, char text[ORACLE_TEXT]);
/* Lays the inputs out, runs an algorithm (NULL: the library's choice) and takes the outputs. Outputs that the algorithm
 * cannot give on this problem are to be left out of the config by the caller. false, with the reason in text, when the
 * call fails, or when a byte that is no output has changed. */
bool oracle_run(oracle_case *c, clattn_context *context, const char *algorithm, char text[ORACLE_TEXT]);
/* The algorithm's variants for the problem; returns how many, 0 with the reason in text when the plan fails. */
enum { ORACLE_VARIANT = 80, ORACLE_VARIANTS = 32 };
size_t oracle_variants(oracle_case *c, clattn_context *context, const char *algorithm,
                       char variants[ORACLE_VARIANTS][ORACLE_VARIANT], char text[ORACLE_TEXT]);
/* Compares got with exact; false, with the problem, the worst element and the numbers in text, beyond what is allowed,
 * or when NaN or infinities differ. */
bool oracle_compare(const oracle_case *c, const char *algorithm, char text[ORACLE_TEXT]);
/* All three. */
bool oracle_check(oracle_case *c, clattn_context *context, const char *algorithm, char text[ORACLE_TEXT]);

/* One line from which a failure can be made again. */
const char *oracle_text(const oracle_config *config, char text[ORACLE_TEXT]);
/* The least error allowed for values of that size: 1e-6 of it for f32, 1e-14 for f64, one unit in the last place for
 * f16 and bf16. */
double oracle_floor(clattn_dtype dtype, double largest);
/* Elements of a dense tensor of the case. */
int64_t oracle_elements(const int64_t shape[4]);
/* Values as they are after storage in a type; of blocks whole ones. */
void oracle_round(clattn_dtype dtype, double *x, int64_t count);
double oracle_filler_value(oracle_filler filler);
/* Value of an element of an array, decoded by code of the tests' own. */
double oracle_decode(clattn_dtype dtype, const void *array, int64_t at);

/* ---- the algorithms of this machine ---- */

typedef struct oracle_runner {
    clattn_context *context; /* its own */
    const char *algorithm;
    bool has_f64, is_opencl;
} oracle_runner;

enum { ORACLE_RUNNERS = 32 };
/* Every algorithm that applies on the device `opencl` (where there is one) and on `cpu`. Open in the test, since
 * Criterion forks. */
size_t oracle_open(oracle_runner runners[ORACLE_RUNNERS]);
void oracle_close(oracle_runner runners[ORACLE_RUNNERS], size_t count);
/* Whether the runner takes it; *reason (may be NULL) says why not. */
bool oracle_applies(oracle_case *c, const oracle_runner *runner, const char **reason);

/* ---- the backward pass: oracle_backward.c ---- */

enum { ORACLE_DQ, ORACLE_DK, ORACLE_DV, ORACLE_DBIAS, ORACLE_DSINKS, ORACLE_GRADIENTS };

/* Gradients of sum dO O, dense, of the shapes of what they are gradients by; NULL where there is none. Rows of no
 * sequence are NaN. */
typedef struct oracle_gradients {
    double *of[ORACLE_GRADIENTS];
} oracle_gradients;

typedef struct oracle_backward {
    oracle_case *c; /* borrowed */
    double *d_o;    /* [B, H, N, Dv], values of the type of o; normal, filler in rows that see no key */
    oracle_gradients exact, got;
    double allowed[ORACLE_GRADIENTS]; /* largest error */
    bool without[ORACLE_GRADIENTS];   /* not asked for */
} oracle_backward;

/* Which gradients there are follows from the config: none by what is stored in blocks. */
oracle_backward *oracle_backward_make(oracle_case *c);
void oracle_backward_free(oracle_backward *g);
/* As oracle_exact, but three times the error; the plain evaluation has O as it is stored. */
bool oracle_backward_exact(oracle_backward *g, char text[ORACLE_TEXT]);
/* Whether the exact gradients are those of the forward pass: along a random direction for each tensor, against central
 * differences of the plain evaluation in long double. */
bool oracle_backward_differences(oracle_backward *g, char text[ORACLE_TEXT]);
/* The forward pass by one algorithm (NULL: the library's choice), then the backward pass by another, as oracle_run. */
bool oracle_backward_run(oracle_backward *g, clattn_context *context, const char *forward, const char *algorithm,
                         char text[ORACLE_TEXT]);
bool oracle_backward_compare(const oracle_backward *g, const char *algorithm, char text[ORACLE_TEXT]);
/* Of a table of its own: as oracle_open and oracle_applies. Close with oracle_close. */
size_t oracle_backward_open(oracle_runner runners[ORACLE_RUNNERS]);
bool oracle_backward_applies(oracle_backward *g, const oracle_runner *runner, const char **reason);

#endif
