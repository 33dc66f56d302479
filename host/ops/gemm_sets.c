/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm_sets.h"

#include "runtime/buffer.h"
#include "runtime/tuning.h"
#include <clattn/tune.h>
#include <stdio.h>
#include <string.h>

const char *const cla_gemm_parameter_names[CLA_GEMM_PARAMETERS] = {"WGD",  "MDIMCD", "NDIMCD", "MDIMAD", "NDIMBD",
                                                                   "KWID", "VWMD",   "VWND",   "PADA",   "PADB"};

/* Loads of one element: on CPUs CLBlast's vector loads want addresses aligned as no host array of a caller's need be.
 * The first is the default for CPUs, found by measuring on PoCL: 1.4 times the speed of CLBlast's own. */
static const cla_gemm_set sets[] = {
    {"WGD=32 MDIMCD=16 NDIMCD=8 MDIMAD=16 NDIMBD=8 KWID=2 VWMD=1 VWND=1 PADA=1 PADB=1",
     {32, 16, 8, 16, 8, 2, 1, 1, 1, 1}},
    {"WGD=32 MDIMCD=8 NDIMCD=8 MDIMAD=8 NDIMBD=8 KWID=2 VWMD=1 VWND=1 PADA=1 PADB=1", {32, 8, 8, 8, 8, 2, 1, 1, 1, 1}},
    {"WGD=32 MDIMCD=8 NDIMCD=16 MDIMAD=8 NDIMBD=16 KWID=2 VWMD=1 VWND=1 PADA=1 PADB=1",
     {32, 8, 16, 8, 16, 2, 1, 1, 1, 1}},
    {"WGD=64 MDIMCD=16 NDIMCD=16 MDIMAD=16 NDIMBD=16 KWID=2 VWMD=1 VWND=1 PADA=0 PADB=0",
     {64, 16, 16, 16, 16, 2, 1, 1, 0, 0}},
    {"WGD=16 MDIMCD=8 NDIMCD=8 MDIMAD=8 NDIMBD=8 KWID=2 VWMD=1 VWND=1 PADA=1 PADB=1", {16, 8, 8, 8, 8, 2, 1, 1, 1, 1}},
};
/* CLBLAST_GROUP: the largest of CLBlast's own. */
enum { COUNT = sizeof sets / sizeof *sets, MDIMCD = 1, NDIMCD = 2, CLBLAST_GROUP = 256 };

static const cla_gemm_set *first_that_fits(const clattn_device_info *device) {
    for (int i = 0; i < COUNT; i++)
        if (sets[i].values[MDIMCD] * sets[i].values[NDIMCD] <= device->max_work_group)
            return &sets[i];
    return NULL;
}

bool cla_gemm_fits(const clattn_device_info *device) { return first_that_fits(device) != NULL; }

const cla_gemm_set *cla_gemm_set_at(size_t index) { return index < COUNT ? &sets[index] : NULL; }

const cla_gemm_set *cla_gemm_set_for(clattn_context *context, clattn_dtype dtype) {
    const clattn_device_info *device = cla_context_device(context);
    cla_tuned tuned;
    if (cla_tuning_find(context, clattn_tuning_clblast_key(dtype), &tuned))
        for (size_t i = 0; i < COUNT; i++)
            if (strcmp(sets[i].text, tuned.value) == 0)
                return &sets[i];
    return device->device_class == CLATTN_DEVICE_CPU || device->max_work_group < CLBLAST_GROUP ? first_that_fits(device)
                                                                                               : NULL;
}

const char *clattn_tuning_clblast(size_t index) { return index < COUNT ? sets[index].text : NULL; }

const char *clattn_tuning_clblast_key(clattn_dtype dtype) {
    return dtype == CLATTN_F64 ? "clblast XgemmDirect f64" : "clblast XgemmDirect f32";
}
