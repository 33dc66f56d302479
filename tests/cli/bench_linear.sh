#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clattn bench --linear: usage errors, the table, types, JSON.
#   bench_linear.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
verb="bench --linear"

run 2 "no problem"
run 2 "no k" 'm4 n4'
says "no k" 'm, n and k are needed' "$work/err"
run 2 "a wrong word" 'm4 n4 k4 tanh'
says "a wrong word" "'tanh' is no word" "$work/err"
run 2 "an option of attention" 'm4 n4 k4' --sweep n=1:2
run 2 "an unknown algorithm" 'm4 n4 k4' --algorithms reference,blass
says "an unknown algorithm" "'blass'; did you mean blas" "$work/err"
run 2 "no repeats" 'm4 n4 k4' --repeat 0
run 0 "a layer on the cpu" 'linear m5 n6 k7 bias gelu' --devices cpu --algorithms blas,reference --repeat 3
says "blas" '^ +cpu +blas +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$' "$work/out"
says "reference" '^ +cpu +reference' "$work/out"
run 0 "types and JSON" 'm3 n4 k64 f16 w=q8_0 silu' 'm3 n4 k8 f64' --devices cpu --repeat 1 --json "$work/t.json"
says "JSON" '"linear":[[:space:]]+"m3 n4 k64 f16 w=q8_0 silu"' "$work/t.json"
says "JSON's times" '"gflops"' "$work/t.json"
run 2 "blocks need whole rows" 'm3 n4 k65 w=q8_0' --devices cpu
if "$clattn" devices | grep -q '^opencl'; then
    run 0 "every way agrees" 'm20 n30 k40 relu' --repeat 1
    says "a device" '^ +opencl' "$work/out"
fi
finish
