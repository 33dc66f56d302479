/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/tokens.h"

#include "base/error.h"
#include "ref/ref_tokens.h"
#include "tensor/view.h"

clattn_status cla_tokens_ids_over(const clattn_tensor *rows, const char *name, int64_t E, const clattn_tensor *ids,
                                  const char *ids_name, clattn_tensor *out) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    bool fits = rows->rank == ids->rank + 1 && rows->shape[rows->rank - 1] == E;
    for (int i = 0; fits && i < ids->rank; i++)
        fits = ids->shape[i] == rows->shape[i];
    CLA_CHECK(fits, CLATTN_E_SHAPE, "%s %s: should be %s %s and then %lld", name,
              cla_shape_text(rows, text, sizeof text), ids_name, cla_shape_text(ids, other, sizeof other),
              (long long)E);
    *out = *ids;
    out->shape[ids->rank] = E;
    out->stride[ids->rank] = 0;
    out->rank++;
done:
    return status;
}

clattn_status cla_tokens_check(const clattn_tensor *ids, const char *name, int outer, int64_t rows, int64_t count,
                               const char *has, const char *what, const int64_t *also) {
    for (int64_t row = 0; ids->host && row < rows; row++) {
        const int64_t id = cla_ref_id(ids, outer, row);
        if ((id < 0 || id >= count) && !(also && id == *also))
            return cla_error(CLATTN_E_ARGUMENT, "%s: number %lld is %lld, and %s %lld %s", name, (long long)row,
                             (long long)id, has, (long long)count, what);
    }
    return CLATTN_OK;
}
