#!/usr/bin/env bash
# Lets every call of OpenCL, of CLBlast and of the host's memory fail that small runs make, and tells figures.
#   tools/faults.sh [BUILD] [all | codes]     build-test; all: each call with one of its codes; codes: with each
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build-test}
export FAULTS=${2:-all} POCL_CACHE_DIR=$PWD/$build/pocl-cache CLATTN_CACHE_DIR=off CLATTN_TUNING_FILE=off OMP_WAIT_POLICY=passive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
start=$SECONDS
for program in test_faults test_faults_modules test_faults_parts; do
    "$build/tests/$program" -j"$(nproc)" 2>&1 | tee -a "$log" || status=1
done
awk -v seconds=$((SECONDS - start)) '
    /^faults: / {
        text = $0
        sub(/^faults: [^:]*: /, "", text)
        split(text, part, ";")
        split(part[1], figure, " ")
        runs++; calls += figure[1]; failures += figure[3]; errors += figure[5]
        n = split(part[2], word, " ")
        for (i = 1; i < n; i += 2) functions[word[i]] += word[i + 1]
    }
    END {
        for (name in functions) { count++; printf "%8d  %s\n", functions[name], name | "sort -k2" }
        close("sort -k2")
        printf "%d runs of %d calls, %d functions: %d failures, of which %d were errors; %.0f minutes\n",
            runs, calls, count, failures, errors, seconds / 60
    }' "$log"
exit $status
