#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clattn bench --linear: usage errors, the table, types, JSON.
#   bench_linear.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
set -u
case $1 in /*) clattn=$1 ;; *) clattn=$PWD/$1 ;; esac
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# run STATUS NAME ARGUMENTS...
run() {
    want=$1
    name=$2
    shift 2
    "$clattn" bench --linear "$@" >"$work/out" 2>"$work/err"
    status=$?
    if [ "$status" -eq "$want" ] && { [ "$want" -ne 2 ] || { [ "$(wc -l <"$work/err")" -eq 1 ] && [ ! -s "$work/out" ]; }; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $name: exit status $status, not $want"
        sed 's/^/    /' "$work/out" "$work/err" | head -20
    fi
}

# has NAME FILE PATTERN
has() {
    if grep -Eq -- "$3" "$work/$2"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1: no $3 in:"
        sed 's/^/    /' "$work/$2" | head -20
    fi
}

run 2 "no problem"
run 2 "no k" 'm4 n4'
has "no k" err 'm, n and k are needed'
run 2 "a wrong word" 'm4 n4 k4 tanh'
has "a wrong word" err "'tanh' is no word"
run 2 "an option of attention" 'm4 n4 k4' --sweep n=1:2
run 2 "no repeats" 'm4 n4 k4' --repeat 0
run 0 "a layer on the cpu" 'linear m5 n6 k7 bias gelu' --devices cpu --algorithms blas,reference --repeat 3
has "blas" out '^ +cpu +blas +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$'
has "reference" out '^ +cpu +reference'
run 0 "types and JSON" 'm3 n4 k64 f16 w=q8_0 silu' 'm3 n4 k8 f64' --devices cpu --repeat 1 --json "$work/t.json"
has "JSON" t.json '"linear":[[:space:]]+"m3 n4 k64 f16 w=q8_0 silu"'
has "JSON's times" t.json '"gflops"'
run 2 "blocks need whole rows" 'm3 n4 k65 w=q8_0' --devices cpu
if "$clattn" devices | grep -q '^opencl'; then
    run 0 "every way agrees" 'm20 n30 k40 relu' --repeat 1
    has "a device" out '^ +opencl'
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
