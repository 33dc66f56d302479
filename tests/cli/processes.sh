#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Processes that share a cache: eight start at once on nothing, of ours and of the driver; some are killed as they go.
#   processes.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
vectors=$(cd "$(dirname "$0")/.." && pwd)/vectors/onnx.safetensors
CLATTN_CACHE_DIR=$work/cache
export CLATTN_CACHE_DIR
cases() { "$clattn" check "$vectors" --filter test_softmax_axis_1 --device opencl; }
"$clattn" devices --device opencl >"$work/out" 2>&1 || {
    echo "no OpenCL device"
    exit 0
}

# ---- at once ----
at_once() { # NAME
    for i in 1 2 3 4 5 6 7 8; do
        cases >"$work/out.$i" 2>&1 &
        eval "child$i=\$!"
    done
    for i in 1 2 3 4 5 6 7 8; do
        eval "wait \$child$i"
        status=$?
        mv "$work/out.$i" "$work/out"
        if [ "$status" -eq 0 ]; then ok; else not_ok "$1, process $i: exit status $status"; fi
        says "$1, process $i" '^1 passed, 0 failed, 0 skipped'
    done
}
only_entries() { [ -n "$(ls -A "$work/cache")" ] && ! ls -A "$work/cache" | grep -vqE '^[0-9a-f]+\.[a-z]+$'; }
warm=${POCL_CACHE_DIR:-$work/warm}
POCL_CACHE_DIR=$work/pocl
export POCL_CACHE_DIR
mkdir -p "$work/pocl" "$warm"
: >"$work/err"
at_once "cold starts"
at_once "starts on what they left"
holds "the cache holds whole entries" only_entries
POCL_CACHE_DIR=$warm

# ---- killed; the driver's cache is the tests', and warm ----
for moment in 0.05 0.1 0.2 0.3 0.4 0.6 0.8 1.2; do
    rm -rf "$work/cache"
    GCOV_PREFIX=$work/counts cases >"$work/out" 2>&1 & # where branches are counted, not of one that is killed
    child=$!
    sleep "$moment"
    kill -KILL "$child" 2>/dev/null
    wait "$child" 2>/dev/null
    ends 0 "after a process that was killed at $moment s" cases
    says "after a process that was killed at $moment s" '^1 passed, 0 failed, 0 skipped'
done

finish
