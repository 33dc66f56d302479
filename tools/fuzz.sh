#!/usr/bin/env bash
# Builds the targets of tests/fuzz with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer (clang 14) in
# build-fuzz/ and runs them one after another, from the committed inputs on. Prints a line for each: executions, seconds,
# edges of the code that were reached, inputs kept. A finding ends a target; its input lies in build-fuzz/found/.
#   tools/fuzz.sh [--runs N | --seconds N] [TARGET...]     60 seconds each, all targets: npy safetensors gguf ...
#   tools/fuzz.sh --keep TARGET...     replaces the committed inputs, but seeds and findings, by up to 80 small ones
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit=-max_total_time=60
keep=false
targets=()
while [ $# -gt 0 ]; do
    case $1 in
    --runs) limit=-runs=${2:?}; shift ;;
    --seconds) limit=-max_total_time=${2:?}; shift ;;
    --keep) keep=true ;;
    -*) echo "fuzz: there is no option $1" >&2; exit 2 ;;
    *) targets+=("$1") ;;
    esac
    shift
done
if [ ${#targets[@]} = 0 ]; then
    for file in tests/fuzz/fuzz_*.c; do
        name=${file##*/fuzz_}
        targets+=("${name%.c}")
    done
fi

cmake -S . -B build-fuzz -DCMAKE_C_COMPILER=clang-14 -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="-O1 -g -Wno-pass-failed" \
    -DCLATTN_SANITIZE=fuzzer-no-link,address,undefined -DCLATTN_FUZZ=ON -DCLATTN_TESTS=ON -DCLATTN_EXAMPLES=OFF >/dev/null
cmake --build build-fuzz -j "$(nproc)" --target "${targets[@]/#/fuzz_}" | grep -E 'warning|error' || [ "${PIPESTATUS[0]}" = 0 ]

dir=$PWD/build-fuzz
mkdir -p "$dir/found" "$dir/corpus" "$dir/pocl-cache"
# Every option and word of the command line.
grep -ohE '\{"[a-z-]+", (0|.[a-z].), CLA_ARG' host/cli/*.c | sed -E 's/^\{"([a-z-]+)".*/"--\1"/' | sort -u >"$dir/args.dict"
export POCL_CACHE_DIR=$dir/pocl-cache CLATTN_CACHE_DIR=off CLATTN_TUNING_FILE=off OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1
export ASAN_OPTIONS=allocator_may_return_null=1:use_sigaltstack=0:detect_leaks=1
export LSAN_OPTIONS=suppressions=$PWD/.ci/lsan.txt:print_suppressions=0 UBSAN_OPTIONS=print_stacktrace=1

status=0
printf '%-12s %12s %8s %7s %7s %s\n' target executions seconds edges inputs findings
for name in "${targets[@]}"; do
    program=$dir/tests/fuzz/fuzz_$name
    inputs=$dir/corpus/$name
    mkdir -p "$inputs"
    committed=$PWD/tests/fuzz/corpus/$name
    options=(-max_len=600 -timeout=60 -rss_limit_mb=4096)
    case $name in
    args) options+=("-dict=$dir/args.dict") ;;
    case) options+=(-max_len=3000) ;;
    attention | opencl) options+=(-max_len=100 -detect_leaks=0 -timeout=900) ;; # kept plans look like leaks; kernels are built
    ops) options+=(-max_len=120) ;;
    modules) options+=(-max_len=250 -detect_leaks=0) ;;
    esac
    if $keep; then
        rm -rf "$dir/kept"
        mkdir "$dir/kept"
        "$program" -merge=1 "${options[@]}" "$dir/kept" "$committed" "$inputs" 2>"$dir/$name.log"
        find "$committed" -type f -not -name 'seed-*' -not -name 'found-*' -delete
        find "$dir/kept" -type f -printf '%s %p\n' | sort -n | sed -n '1,80s/^[0-9]* //p' | xargs -r cp -t "$committed"
        continue
    fi
    before=$(find "$dir/found" -name "$name-*" -not -name "*-slow-unit-*" | wc -l)
    start=$SECONDS
    "$program" "$limit" "${options[@]}" -print_final_stats=1 -artifact_prefix="$dir/found/$name-" "$inputs" \
        "$committed" >"$dir/$name.out" 2>"$dir/$name.log" || status=1
    found=$(($(find "$dir/found" -name "$name-*" -not -name "*-slow-unit-*" | wc -l) - before))
    printf '%-12s %12s %8s %7s %7s %s\n' "$name" \
        "$(sed -nE 's/^stat::number_of_executed_units: *//p' "$dir/$name.log")" $((SECONDS - start)) \
        "$(sed -nE 's/.* cov: ([0-9]+) .*/\1/p' "$dir/$name.log" | tail -n 1)" \
        "$(find "$inputs" -type f | wc -l)" "$found"
    [ "$found" = 0 ] || status=1
done
exit $status
