#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples with real models against sentence-transformers and transformers on this machine.
#   bench/run_models.sh [--venv DIR] [words for models.py, such as --rounds 7]
# Builds the examples into build-bench/, gets the models into build-bench/models and makes an environment with the peers
# in build-bench/venv-models, unless one is given (the packages take some GB). Results: build-bench/results/models.md.
# Exit status: that of models.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=
if [ "${1-}" = --venv ]; then
    venv=${2:?run_models: --venv needs a folder}
    shift 2
fi
if [ -z "$venv" ]; then
    venv=build-bench/venv-models
    if [ ! -e "$venv/complete" ]; then
        echo "run_models: making $venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet torch transformers sentence-transformers accelerate gguf numpy
        touch "$venv/complete"
    fi
fi
tools/fetch_models.sh build-bench/models minilm smollm2 >/dev/null
cmake -S . -B build-bench -DCMAKE_BUILD_TYPE=Release -DCLATTN_TESTS=OFF -DCLATTN_EXAMPLES=ON -DCLATTN_BENCH=ON >/dev/null
cmake --build build-bench -j "$(nproc)" --target embed generate >/dev/null
exec "$venv/bin/python" bench/models.py --build build-bench --models build-bench/models "$@"
