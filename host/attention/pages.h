/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values in pages, found by a block table: checked on the host. */
#ifndef CLA_PAGES_H
#define CLA_PAGES_H

#include "attention/problem.h"

/* Sets page_size, table_pages and M where there is a block table; q, k, v are lifted. */
clattn_status cla_pages_shape(cla_problem *p, const clattn_attention_args *args);
/* Copies the table once the lengths are known. Each entry that a key needs is a page of k. */
clattn_status cla_pages_take(cla_problem *p, const clattn_attention_args *args);

#endif
