#!/usr/bin/env bash
# Which branches of host/ the tests take: its code counted by gcc, without optimization, in build-coverage/, tests through ctest,
# gcovr (installed into build-coverage/venv when there is none), then a table by folder and every branch that nothing took.
#   tools/coverage.sh                 all tests but those of `left_out`; writes docs/coverage.md
#   tools/coverage.sh -R npy          words go to ctest; counts are added to those of earlier runs; docs/ is left alone
#   tools/coverage.sh --report        the table of what has been counted so far, and docs/coverage.md
#   tools/coverage.sh --build         builds only
# Not counted: work-sharing that `#pragma omp` adds, and cJSON_ArrayForEach, which asks whether its list is NULL. Assertions are
# compiled out. One thread of OpenMP, since threads that count at once lose counts. Tests in which no file may grow fail: gcc
# writes its counts then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The same host code as others over very many problems, or much memory; they add no branch.
left_out='^test_(grid|identities|poison|queues|indexing|algo_fused_tiles_table|determinism|backward_grid|backward_lanes|backward_poison|op_gradients|cases_numbers|sums|options)$'
build=build-coverage
jobs=${CLATTN_JOBS:-$(nproc)}

build_tests() {
    cmake -S . -B $build -DCMAKE_C_COMPILER=gcc -DCLATTN_COVERAGE=ON -DCLATTN_TESTS=ON -DCLATTN_EXAMPLES=OFF -DCLATTN_BENCH=OFF >/dev/null
    cmake --build $build -j "$jobs" >$build/build.log 2>&1 || {
        grep -E -A5 'error|\*\*\*' $build/build.log | head -40
        return 1
    }
    # Kernels that the tests have built before: PoCL's cache knows programs and devices, not who asks.
    [ -e $build/pocl-cache ] || { [ ! -d build-test/pocl-cache ] || ln -s ../build-test/pocl-cache $build/pocl-cache; }
}

run_tests() { # CTEST-WORDS...
    export CLATTN_CACHE_DIR=off OMP_NUM_THREADS=1
    (cd $build && ctest --output-on-failure -j"$jobs" "$@") || echo "coverage: some tests failed; what they took is counted"
}

gcovr_of() {
    command -v gcovr || {
        [ -x $build/venv/bin/gcovr ] || {
            python3 -m venv $build/venv
            $build/venv/bin/pip install --quiet gcovr
        } >&2
        echo $build/venv/bin/gcovr
    }
}

report() { # COVERAGE-TABLE-WORDS...
    local gcovr
    gcovr=$(gcovr_of)
    "$gcovr" --root . --filter 'host/' --object-directory $build --gcov-ignore-parse-errors=negative_hits.warn_once_per_file \
        --exclude-branches-by-pattern '.*(#pragma omp|cJSON_ArrayForEach).*' --merge-mode-functions=separate -j "$jobs" \
        --json $build/coverage.json $build/CMakeFiles $build/tests/CMakeFiles >$build/gcovr.log 2>&1 || {
        tail -20 $build/gcovr.log
        return 1
    }
    python3 tools/coverage_table.py $build/coverage.json "$@"
}

case ${1:-} in
--build) build_tests ;;
--report) report --write docs/coverage.md ;;
"")
    build_tests
    find $build -name '*.gcda' -delete
    run_tests -E "$left_out"
    report --write docs/coverage.md
    ;;
*)
    build_tests
    run_tests "$@"
    report
    ;;
esac
