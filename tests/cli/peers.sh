#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench/peers.py, with clattn alone and with those peers that are small: scenarios, goals, results compared, memory,
# files written. PyTorch, ONNX Runtime and OpenVINO are not asked for: each absent peer is a line with its reason.
#   peers.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
build=$(cd "$(dirname "$1")" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)

cd "$work" || exit 1
if ! command -v python3 >/dev/null; then
    echo "skipped 1: there is no python3"
    echo "0 passed, 0 failed"
    exit 0
fi

run() { # STATUS NAME ARGUMENTS...
    want=$1
    name=$2
    shift 2
    ends "$want" "$name" python3 "$root/bench/peers.py" --build "$build" --out "$work/results" --rounds 1 "$@"
}

# ---- wrong use ----
run 2 "an unknown peer" --peers torc
run 2 "an unknown scenario" --peers none --only nosuch
for line in 'a: b1 n8' 'a: n8 d8 fast' 'n8 d8' 'a: n8 d8 ; peer>=1' 'a: n8 d8 ; faster(b)>=1' 'a: linear m8 n8 d8' 'a: n8 d8 ; order>=1' \
    'a: backward n8 d32 kv=q8_0'; do
    echo "$line" >"$work/wrong.txt"
    run 2 "a file that says $line" --peers none --scenarios "$work/wrong.txt"
done
printf 'a: n8 d8\na: n9 d8\n' >"$work/wrong.txt"
run 2 "a name twice" --peers none --scenarios "$work/wrong.txt"
says "a name twice" 'a is there twice' "$work/err"

# ---- the file of the repository can be read: its first scenario's name is asked for ----
run 0 "a scenario of the repository" --peers none --only tiny --threads 1
says "a scenario of the repository" '^\| `tiny` \| b8 h12 n32 d32 \| [0-9.]+ ± [0-9]+ % \| [0-9.]+ \| [0-9]+ \| ([0-9]+ %|-) \|'
says "a goal without peers" 'peers >= 1: not measured'

# ---- every kind of problem, judged against double; NumPy where it is there ----
cat >"$work/some.txt" <<'END'
# comment
full:    b2 h4/2 n40 d16                    ; fma>=0 read>=0 call>=0
causal:  b1 h2 q7 k40 d16 causal=bottom-right ; faster(full)>=0 # comment
window:  b1 h2 n20 d16 causal window=5,0    ; order(full)<=1000
masks:   b1 h2 n40 d16 keep bias
half:    b1 h2 n40 d16 f16
brain:   b1 h2 n40 d16 bf16
mixed:   b1 h4 q1 k64 d32 kv=q8_0
layer:   linear m5 n7 k9
gelu:    linear m5 n7 k9 bias gelu
train:   backward b2 h4/2 q30 k40 d16 causal=bottom-right
END
run 0 "problems" --peers numpy --scenarios "$work/some.txt"
says "problems" '^10 scenarios, .* 0 wrong results'
says "goals" '^goals: 5, met [45], missed 0, not measured [01]$'
for name in full causal window masks half brain mixed layer gelu train; do
    says "a row for $name" "^\\| \`$name\` \\|" "$work/results/peers.md"
    says "JSON for $name" "\"name\": \"$name\"" "$work/results/peers.json"
done
if python3 -c 'import numpy' 2>/dev/null; then
    says "NumPy's times" '^    clattn plan .*; NumPy article [0-9.]+ ms'
else
    says "NumPy is absent" '^skipped peer numpy: No module named .numpy.$'
    echo "skipped 1: NumPy's times, since python3 has no numpy"
fi

# ---- goals that cannot be met ----
echo 'a: n8 d8 ; fma>=2' >"$work/some.txt"
run 1 "a goal that cannot be met" --peers none --scenarios "$work/some.txt"
says "a goal that cannot be met" 'fma >= 2: 0\.[0-9]+ \*\*missed\*\*'

# ---- memory, and a document ----
printf '# x\n<!-- peers -->\nold\n<!-- /peers -->\nrest\n<!-- memory -->\n<!-- /memory -->\n' >"$work/doc.md"
run 0 "memory" --peers none --problem 'n8 d8' --memory --memory-sizes 128,256 --docs "$work/doc.md"
says "memory" '^\| clattn \| [0-9.]+ \| [0-9.]+ \|' "$work/doc.md"
says "memory of both passes" '^\| clattn, forward and backward \| [0-9.]+ \| [0-9.]+ \|' "$work/doc.md"
says "the document's table" '^\| `problem` \| n8 d8 \|' "$work/doc.md"
says "the rest stays" '^rest$' "$work/doc.md"
if grep -q '^old$' "$work/doc.md"; then not_ok "the old part is still there"; else ok; fi

# ---- errors: our rows, and those of peers that are there ----
printf '# x\n<!-- accuracy -->\nold\n<!-- /accuracy -->\n' >"$work/doc.md"
ends 0 "accuracy" python3 "$root/bench/accuracy.py" --build "$build" --queries 1 --docs "$work/doc.md"
says "accuracy: ours" '^\| f32 \| `fused_lanes` \|( [0-9.e-]+ \([0-9.]+\) \|){5}$' "$work/doc.md"
says "accuracy: gradients" '^\| x10 \| `fused_lanes` \|( [0-9.e-]+ \([0-9.]+\) \|){3}$' "$work/doc.md"
says "accuracy: peers are counted" '^[012] peers, [012] absent$' "$work/err"
if python3 -c 'import torch' 2>/dev/null; then
    says "accuracy: PyTorch" '^\| bf16 \| PyTorch \|( [0-9.e-]+ \([0-9.]+\) \|){4} - \|$' "$work/doc.md"
    says "accuracy: PyTorch's gradients" '^\| x3 \| PyTorch \|( [0-9.e-]+ \([0-9.]+\) \|){3}$' "$work/doc.md"
else
    says "PyTorch is absent" '^skipped peer torch: ' "$work/err"
fi

# ---- the examples against PyTorch: without models there is nothing to time ----
ends 2 "models that are not there" python3 "$root/bench/models.py" --build "$build" --models "$work/nowhere"
says "models that are not there" '^models: .*nowhere/minilm is not there$' "$work/err"

finish
