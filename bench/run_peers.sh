#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clattn against PyTorch, ONNX Runtime, OpenVINO and NumPy on this machine, and whether the goals are met.
#   bench/run_peers.sh [--venv DIR] [words for peers.py, such as --only 'prefill*' --memory]
# Builds clattn into build-bench/ and makes an environment with the peers in build-bench/venv, unless one is given (the
# packages take some GB). Results: build-bench/results/peers.md and peers.json. Exit status: that of peers.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=
if [ "${1-}" = --venv ]; then
    venv=${2:?run_peers: --venv needs a folder}
    shift 2
fi
if [ -z "$venv" ]; then
    venv=build-bench/venv
    if [ ! -e "$venv/complete" ]; then
        echo "run_peers: making $venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet torch onnxruntime openvino onnx numpy
        touch "$venv/complete"
    fi
fi
cmake -S . -B build-bench -DCMAKE_BUILD_TYPE=Release -DCLATTN_TESTS=OFF -DCLATTN_EXAMPLES=OFF -DCLATTN_BENCH=ON >/dev/null
cmake --build build-bench -j "$(nproc)" --target clattn_bench >/dev/null
exec "$venv/bin/python" bench/peers.py --build build-bench "$@"
