#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clattn devices --build.
#   devices.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
verb=devices

run 0 "cpu" --device cpu
says "cpu: types" '^  types        computes in f32, f64; stores f16, bf16, q8_0, q4_0 too$'
says "cpu: no vectors of 1" '^  units        [0-9]+$'

entries() { find "$work/cache" -name '*.clprog' 2>/dev/null | wc -l; }

CLATTN_CACHE_DIR=$work/cache
export CLATTN_CACHE_DIR
if ! "$clattn" devices --device opencl >"$work/out" 2>"$work/err"; then
    echo "no OpenCL device: 1 skipped"
    echo "0 passed, 0 failed"
    exit 0
fi

run 0 "build" --device opencl --build
says "build: what was compiled" "kernels  *[1-9][0-9]* programs compiled, [0-9]* already there, in .*kept in $work/cache"
kernels="rows.cl pointwise.cl tokens.cl cache.cl attention_"
grep -q '(CPU)' "$work/out" && kernels="$kernels linear.cl gemv.cl"
for kernel in $kernels; do
    holds "build: of $kernel" sh -c "find '$work/cache' -name '*.clprog' -exec grep -la '$kernel' {} + | grep -q ."
done
filled=$(entries)
holds "build: fills the folder" [ "$filled" -gt 3 ]
run 0 "build again" --device opencl --build
says "build again: nothing to compile" "kernels  *0 programs compiled, $filled already there"
holds "build again: the same files" [ "$(entries)" = "$filled" ]
run 0 "build, JSON" --device opencl --build --json
says "build, JSON" '"restored":.*'"$filled"
CLATTN_CACHE_DIR=off run 0 "build: nothing on cpu" --device cpu --build
finish
