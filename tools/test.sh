#!/usr/bin/env bash
# Builds the tests into build-test/ and runs them all, on the OpenCL device that is there (PoCL without a GPU) and on the
# `cpu` context: Criterion programs, command line scripts and examples. Words are passed to ctest: tools/test.sh -R grid
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/install_packages.sh
cmake -S . -B build-test -DCLATTN_TESTS=ON -DCLATTN_EXAMPLES=ON >/dev/null
cmake --build build-test -j "$(nproc)" | grep -vE '^\[ *[0-9]+%\]|^(gmake|make)' || [ "${PIPESTATUS[0]}" = 0 ]

# Nothing is kept in the home of who runs this.
export CLATTN_CACHE_DIR=off

# CLBlast's programs cost PoCL half a minute each; built here once, so that parallel tests find them in the cache.
# Wrong results are for the tests to tell.
export POCL_CACHE_DIR=$PWD/build-test/pocl-cache
if [ -x build-test/clattn ] && [ ! -e build-test/pocl-cache/warm ]; then
    mkdir -p build-test/pocl-cache
    echo "warming PoCL's cache of compiled kernels ..."
    for filter in 'sdpa_*' 'grad_*'; do
        build-test/clattn check tests/vectors/torch.safetensors --algorithm materialised --filter "$filter" </dev/null \
            >build-test/warm.log 2>&1 || true
    done
    touch build-test/pocl-cache/warm
fi

# Two programs of two threads each may run at once: threads that wait must not spin.
export OMP_WAIT_POLICY=passive
cd build-test
ctest --output-on-failure -j2 "$@"
