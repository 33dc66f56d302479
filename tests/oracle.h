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
    ORACLE_PACKED,     /* Q, K and V in one array, side by side in a row; K and V only where N != M */
    ORACLE_TRANSPOSED, /* [batch, head, dim, seq]: no last stride is 1, of weights and masks neither */
    ORACLE_SHARED,     /* one K and V for all batches and key heads, strides 0 */
    ORACLE_PADDED,     /* dense, with 3 elements behind each row */
    ORACLE_LAYOUTS
} oracle_layout;

/* Bits of the axes that a mask has in full; it has size 1 on the others of its rank. */
enum { ORACLE_BATCH = 8, ORACLE_HEAD = 4, ORACLE_QUERY = 2, ORACLE_KEY = 1 };
typedef struct oracle_mask {
    int rank; /* 0: none; 2 to 4 */
    unsigned axes;
} oracle_mask;

/* All zero but N and D is a plain problem: B and H are then 1, Hk = H, M = N, Dv = D. */
typedef struct oracle_config {
    clattn_dtype dtype; /* f32 or f64 */
    int64_t B, H, Hk, N, M, D, Dv;
    oracle_layout layout;
    int64_t guard; /* elements of NaN before and after the data of each array */
    bool buffers;  /* a plan over buffers, else one call on host arrays */
    bool lse, weights;
    bool has_scale;
    double scale;
    bool causal;
    clattn_align align; /* with OFFSET the offsets are made from the seed, from -N to M */
    bool has_window;
    int64_t window_left, window_right;
    bool lengths; /* made from the seed; K and V hold NaN beyond them */
    oracle_mask keep, drop, bias;
    uint64_t seed;
} oracle_config;

typedef struct oracle_outputs {
    double *o, *lse, *weights; /* dense; [B, H, N, Dv], [B, H, N], [B, H, N, M] */
} oracle_outputs;

/* Inputs are dense and may be changed between make and exact. They hold values of the config's dtype. */
typedef struct oracle_case {
    oracle_config config; /* with the defaults filled in */
    double *q, *k, *v;    /* [B, H, N, D], [B, Hk, M, D], [B, Hk, M, Dv] */
    double *bias;         /* dense in its own shape, like keep and drop */
    unsigned char *keep, *drop;
    int64_t *key_lengths, *offsets; /* [B] */
    oracle_outputs exact, got;
    struct {
        double o, lse, weights; /* largest error */
    } allowed;
} oracle_case;

/* Values: normal, masks with about a third excluded. NULL when out of memory. */
oracle_case *oracle_make(const oracle_config *config);
void oracle_free(oracle_case *c); /* NULL is allowed */
/* Whether query i sees key j, by masks alone; written apart from the library's own code. */
bool oracle_sees(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j);
/* The bias of a score, 0 without one. */
double oracle_bias(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j);

/* Results of the reference in f64 (in long double to judge f64), and what is allowed: twice the error of the plain
 * evaluation in the config's type, of the worst of a few orders of its sums, with a floor. false, with the reason in
 * text, when the two disagree altogether. */
bool oracle_exact(oracle_case *c, char text[ORACLE_TEXT]);
/* Lays the inputs out, runs an algorithm (NULL: the library's choice) and takes the outputs. Outputs that the algorithm
 * cannot give on this problem are to be left out of the config by the caller. false, with the reason in text, when the
 * call fails, or when a byte that is no output has changed. */
bool oracle_run(oracle_case *c, clattn_context *context, const char *algorithm, char text[ORACLE_TEXT]);
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

#endif
