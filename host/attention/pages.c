/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/pages.h"

#include "base/error.h"
#include "base/mem.h"

clattn_status cla_pages_shape(cla_problem *p, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    if (!args->block_table) {
        CLA_CHECK(args->table_pages == 0, CLATTN_E_ARGUMENT, "block_table: is NULL, and table_pages %lld",
                  (long long)args->table_pages);
        return CLATTN_OK;
    }
    CLA_CHECK(args->q.rank == 4, CLATTN_E_SHAPE, "q: rank %d; with a block table all tensors have rank 4",
              args->q.rank);
    CLA_CHECK(args->table_pages >= 0, CLATTN_E_ARGUMENT, "table_pages: %lld is negative", (long long)args->table_pages);
    CLA_CHECK(args->key_lengths, CLATTN_E_ARGUMENT,
              "key_lengths: are missing; with a block table they say which entries count");
    p->page_size = p->k.shape[2];
    p->table_pages = args->table_pages;
    CLA_CHECK(p->page_size > 0, CLATTN_E_SHAPE, "k: pages of 0 keys; the third size is that of a page");
    CLA_CHECK(p->k.shape[0] == p->v.shape[0] && p->k.shape[0] <= INT32_MAX, CLATTN_E_SHAPE,
              "k, v: %lld and %lld pages; both have the same, at most %d", (long long)p->k.shape[0],
              (long long)p->v.shape[0], INT32_MAX);
    CLA_CHECK(cla_mul(p->table_pages, p->page_size, &p->M), CLATTN_E_SHAPE,
              "block_table: %lld pages of %lld keys are too many", (long long)p->table_pages, (long long)p->page_size);
done:
    return status;
}

clattn_status cla_pages_take(cla_problem *p, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    if (!p->page_size)
        return CLATTN_OK;
    const int64_t entries = p->B * p->table_pages; /* neither is above CLA_LARGEST_SIZE, as M is not */
    CLA_TRY(cla_alloc((size_t)entries, sizeof *p->table, "block_table", &p->table));
    for (int64_t b = 0; b < p->B; b++) {
        const int64_t row = b * p->table_pages, used = cla_ceil_div(p->batches[b].keys, p->page_size);
        for (int64_t j = 0; j < used; j++) {
            const int32_t page = args->block_table[row + j];
            CLA_CHECK(page >= 0 && page < p->k.shape[0], CLATTN_E_SHAPE,
                      "block_table: batch %lld needs entry %lld for its %lld keys, and it is %d, outside 0 to %lld",
                      (long long)b, (long long)j, (long long)p->batches[b].keys, (int)page,
                      (long long)p->k.shape[0] - 1);
            p->table[row + j] = page;
        }
    }
done:
    return status;
}
