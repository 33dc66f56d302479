/* SPDX-License-Identifier: Apache-2.0 */
/* Plain loops, in double, of what is computed element by element or along rows. Tensors share their axes; the first
 * `outer` count rows. All have host storage at `host` + offset. Checked by the caller. */
#ifndef CLA_REF_POINTS_H
#define CLA_REF_POINTS_H

#include <clattn/ops.h>

typedef enum cla_with { CLA_ALONE = 0, CLA_TIMES, CLA_PLUS } cla_with;

/* y = act(x), act(x) * other or act(x) + other. */
typedef struct cla_points {
    clattn_tensor x, other, y;
    clattn_activation activation;
    cla_with with;
    int outer;
    int64_t rows, length;
    clattn_dtype dtype; /* of the sums */
} cla_points;
void cla_ref_points(const cla_points *a);

/* y = softmax of each row of x. */
typedef struct cla_softmax_rows_of {
    clattn_tensor x, y;
    int outer;
    int64_t rows, length;
    clattn_dtype dtype;
} cla_softmax_rows_of;
void cla_ref_softmax(const cla_softmax_rows_of *a);

#endif
