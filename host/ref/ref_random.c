/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref_random.h"

#include "base/philox.h"
#include "normal.h"
#include "ref/ref_rows.h"

/* The four numbers that number `place` is one of. */
static void numbers_at(const cla_random *a, uint64_t place, float z[4]) {
    uint32_t bits[4] = {(uint32_t)(place >> 2), (uint32_t)(place >> 34), (uint32_t)a->stream,
                        (uint32_t)(a->stream >> 32)};
    cla_philox(bits, a->seed);
    for (int i = 0; i < 4; i += 2) {
        if (a->distribution == CLATTN_DISTRIBUTION_UNIFORM) {
            z[i] = (float)(bits[i] >> 8) * 0x1p-24f;
            z[i + 1] = (float)(bits[i + 1] >> 8) * 0x1p-24f;
            continue;
        }
        const float radius = cla_normal_radius(bits[i]);
        z[i] = radius * cla_normal_cosine(bits[i + 1]);
        z[i + 1] = radius * cla_normal_cosine(bits[i + 1] - 0x40000000U);
    }
}

void cla_ref_random(const cla_random *a) {
    const int64_t step = 4096, parts = (a->length + step - 1) / step; /* rows may be few and long */
#pragma omp parallel for if (a->rows * a->length > 4096)
    for (int64_t part = 0; part < a->rows * parts; part++) {
        const int64_t row = part / parts, begin = part % parts * step, y = cla_ref_row(&a->y, a->outer, row);
        const int64_t end = begin + step < a->length ? begin + step : a->length;
        uint64_t place = a->first + (uint64_t)(row * a->length + begin);
        float z[4];
        for (int64_t i = begin; i < end; i++, place++) {
            if (i == begin || place % 4 == 0)
                numbers_at(a, place, z);
            cla_ref_store(&a->y, y, a->outer, i, (double)z[place % 4]);
        }
    }
}
