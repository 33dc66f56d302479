#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All tables and plots of docs/performance.md but that of run_models.sh, and the table of docs/numerics.md, made anew
# on this machine: about ten minutes, in which nothing else should run.
#   bench/run_all.sh [--venv DIR] [words for peers.py]
# Exit status: that of peers.py, whether the goals are met; 1 when something else fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

given=()
if [ "${1-}" = --venv ]; then
    given=(--venv "${2:?run_all: --venv needs a folder}")
    shift 2
fi
venv=${given[1]-build-bench/venv}
clattn=build-bench/clattn
mkdir -p docs/images build-bench/results

status=0
bench/run_peers.sh ${given[@]+"${given[@]}"} --memory --docs docs/performance.md "$@" || status=$?
[ "$status" -le 1 ] || exit "$status"

cmake -S . -B build-bench -DCLATTN_TESTS=ON >/dev/null
cmake --build build-bench -j "$(nproc)" --target clattn_cli accuracy >/dev/null
"$clattn" devices --peak | tee build-bench/results/devices.txt
"$clattn" bench 'b1 h8 d64' --sweep n=128:4096 --limit 2 --algorithms fused_lanes,fused_tiles,materialised,blas --peak \
    --plot docs/images/scaling.svg --json build-bench/results/scaling.json | tee build-bench/results/scaling.txt
"$clattn" bench 'b1 h32/8 q1 d128' --sweep k=256:65536:4 --limit 2 --algorithms fused_split,materialised,blas --peak \
    --plot docs/images/scaling_decode.svg --json build-bench/results/scaling_decode.json |
    tee build-bench/results/scaling_decode.txt
"$clattn" bench 'b1 h8 n2048 d64' 'b1 h8 n2048 d64 causal' 'b8 h12 n128 d64' 'b1 h32 q1 k4096 d128' \
    'b1 h32 q1 k4096 d128 kv=f16' --devices opencl --algorithms fused_lanes,fused_split --limit 2 \
    --roofline docs/images/roofline.svg --json build-bench/results/roofline.json | tee build-bench/results/roofline.txt
"$venv/bin/python" bench/accuracy.py --build build-bench --docs docs/numerics.md >build-bench/results/accuracy.md
echo "run_all: $SECONDS s; goals $([ "$status" = 0 ] && echo met || echo missed)"
exit "$status"
