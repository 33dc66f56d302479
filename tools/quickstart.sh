#!/usr/bin/env bash
# From nothing to attention on real data: packages, build, one attention layer checked and drawn, a short benchmark.
# Needs Debian or Ubuntu for the packages; writes to build/ only, the results to build/out/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CLATTN_CACHE_DIR=$PWD/build/cache

steps=5
step=0
begin() {
    step=$((step + 1))
    printf '\n[%d/%d] %s   (%d s so far)\n' "$step" "$steps" "$1" "$SECONDS"
}

# Runs a command with its output in build/out/quickstart.log, and says every 15 seconds that it goes on.
quietly() {
    local what=$1 log=build/out/quickstart.log status=0
    shift
    while sleep 15 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        printf '      still %s (%s%d s so far)\n' "$what" "$(share_done "$log")" "$SECONDS"
    done &
    ticker=$!
    "$@" </dev/null >"$log" 2>&1 || status=$?
    stop_ticker
    if [ "$status" != 0 ]; then
        printf 'quickstart: %s failed; the last lines of %s:\n' "$what" "$log" >&2
        tail -n 20 "$log" >&2
        exit 1
    fi
}

# How far a build says it is.
share_done() { # LOG
    sed -n 's/^\[ *\([0-9]*%\)\].*/\1, /p' "$1" 2>/dev/null | tail -n 1
}

stop_ticker() {
    if [ -n "$ticker" ]; then
        kill "$ticker" 2>/dev/null || true
        wait "$ticker" 2>/dev/null || true
        ticker=
    fi
}
ticker=
trap stop_ticker EXIT

# The same for a command whose output is to be seen: its lines come when it has ended.
shown() {
    quietly "$@"
    sed 's/^/      /' build/out/quickstart.log
}

mkdir -p build/out
fox=examples/data/fox.safetensors

begin "packages: what is missing is installed (two to three minutes on a new system)"
tools/install_packages.sh

begin "build: the library and the command line, into build/ (one to two minutes on two cores)"
quietly configuring cmake -S . -B build -DCLATTN_TESTS=OFF
quietly compiling cmake --build build -j "$(nproc)"
clattn=build/clattn
"$clattn" --version

begin "attention: the first layer of a sentence encoder on \"The quick brown fox jumps over the lazy dog.\""
echo "      the first run of a kernel on a device waits for its compiler; on a CPU (PoCL) that can be a minute"
shown "computing and drawing" "$clattn" run "$fox:q" "$fox:k" "$fox:v" -o build/out/fox.npy --verify \
    --heatmap build/out/fox.svg --labels examples/data/fox_tokens.txt

begin "check: the same against what the model itself computed (tensor o of $fox)"
shown checking "$clattn" check "$fox"

begin "benchmark: the device against the CPU as the sequence grows (half a minute to two)"
echo "      times are medians; the first run of each algorithm waits for the compiler"
shown measuring "$clattn" bench 'b1 h8 d64' --sweep n=128:1024 --json build/out/scaling.json --plot build/out/scaling.svg

printf '\nDone in %d s.\n' "$SECONDS"
echo "  build/out/fox.svg      the attention weights, a panel a head, with the words on the axes"
echo "  build/out/scaling.svg  time against sequence length"
echo "  build/out/fox.npy, build/out/scaling.json  the numbers"
echo "Next: $clattn --help, $clattn devices, README.md"
