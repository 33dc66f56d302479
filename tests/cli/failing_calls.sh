#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each call of the C library that the command line makes for memory and files fails in turn, one in a run of the command
# (failing_calls.c): it ends in one line that says what is wrong, or as it would have, and leaves no other file behind.
# Usage: failing_calls.sh CLATTN LIBRARY [MOST]   MOST calls of a command at most, evenly among them; `all` for all.
[ $# -ge 2 ] || { echo "usage: $0 CLATTN LIBRARY [MOST]" >&2; exit 2; }
tests=$(cd "$(dirname "$0")/.." && pwd)
case $2 in /*) library=$2 ;; *) library=$PWD/$2 ;; esac
most=${3:-${CALLS_MOST:-12}}
. "$tests/cli/judge.sh"
. "$tests/cli/run_tools.sh" # npy
tried=0
export CLATTN_CACHE_DIR=off CLATTN_TUNING_FILE=off

cd "$work" || exit 2
npy q.npy f4 '(1, 2, 3, 4)' for 12: 1 for 12: 2
npy k.npy f4 '(1, 2, 5, 4)' for 20: 0.5 for 20: 1
npy v.npy f4 '(1, 2, 5, 4)' for 20: 1 for 20: 3
npy keep.npy u1 '(3, 5)' for 14: 1 for 1: 0
npy bias.npy f4 '(3, 5)' for 15: 0.25
npy lengths.npy i8 '(1,)' 4
npy slopes.npy f4 '(2,)' 0.5 0.25
npy q1.npy f4 '(1, 3, 8)' for 24: 1
npy k1.npy f4 '(1, 5, 8)' for 40: 0.5
npy rows.npy f4 '(3, 8)' for 24: 1
printf 'one\ntwo\nthree\n' >rows.txt
printf 'a\nb\nc\nd\ne\n' >columns.txt
printf '# problems\nfirst: h2 n8 d8\nsecond: h2/1 q3 k9 d8 causal=bottom-right\n' >problems.txt
export CLATTN_DEVICE=cpu

fresh_out() { rm -rf out && mkdir out; }

# tries NAME WORDS...: of `clattn WORDS...`, all of whose files are in out/
tries() {
    name=$1
    shift
    fresh_out
    if ! CALL_LOG=$work/log CALL_SEEN=$work/seen LD_PRELOAD=$library "$clattn" "$@" >"$work/first" 2>"$work/err"; then
        failed=$((failed + 1))
        echo "FAIL $name: without a failure"
        head -5 "$work/err"
        return
    fi
    ls out >"$work/files"
    rm -rf "$work/wanted" && cp -r out "$work/wanted"
    numbers=$(awk -v most="$most" '{ n[NR] = $1 } END {
        step = most == "all" || NR < most ? 1 : NR / most
        for (i = 1; i < NR + 1; i += step) print n[int(i)] }' "$work/log")
    for number in $numbers; do
        fresh_out
        tried=$((tried + 1))
        timeout 120 env "CALL_FAILS=$number" "LD_PRELOAD=$library" "$clattn" "$@" >"$work/stdout" 2>"$work/err"
        status=$?
        call=$(awk -v n="$number" '$1 == n { print $2 }' "$work/log")
        if [ $status -gt 2 ]; then
            complain "exit status $status"
        elif [ $status -gt 0 ] && [ ! -s "$work/err" ] && [ ! -s "$work/stdout" ]; then
            complain "exit status $status, and not a word"
        elif ls -A out | grep -vxF -f "$work/files" | grep -q .; then
            complain "it left $(ls -A out | grep -vxF -f "$work/files" | head -1)"
        elif [ $status -eq 0 ] && [ "$1" = run ] && ! diff -r out "$work/wanted" >/dev/null; then
            complain "exit status 0, and another result"
        elif [ $status -eq 0 ] && [ "$1" = inspect ] && ! cmp -s "$work/stdout" "$work/first"; then
            complain "exit status 0, and another text"
        else
            passed=$((passed + 1))
        fi
    done
}
complain() {
    failed=$((failed + 1))
    echo "FAIL $name: call $number, $call: $1"
    head -3 "$work/err"
}

run="run q.npy k.npy v.npy -o out/o.npy"
tries run $run --verify
tries masks $run --keep keep.npy --bias bias.npy --key-lengths lengths.npy --window 2,1 --causal=bottom-right --alibi-slopes slopes.npy
tries outputs $run --lse out/l.npy --weights out/w.npy --column-sums out/s.npy --entropy out/e.npy --explain
tries heatmap $run --heatmap out/map.svg --labels rows.txt,columns.txt
tries dump $run --dump out/dump.safetensors --causal=top-left --softcap 2 --sinks slopes.npy
tries types run q.npy k.npy v.npy -o out/o.safetensors:o --o-type bf16 --kv-type f16,f64
tries heads run q1.npy k1.npy k1.npy -o out/o.npy --layout bse --heads 2 --batch-invariant --causal --offsets 0
tries sequences run rows.npy rows.npy rows.npy -o out/o.npy --layout sd --cu-queries 0,1,3 --cu-keys 0,2,3
"$clattn" $run --dump dump.safetensors --keep keep.npy >/dev/null 2>&1
tries dumped check dump.safetensors
tries cases check "$tests/vectors/torch.safetensors" --filter 'sdpa_bmask_??'
tries layers check "$tests/vectors/torch.safetensors" --filter 'mha_bias_kv_kdim*'
tries decoder check "$tests/vectors/torch.safetensors" --filter dec_all_masks
tries encoder check "$tests/vectors/torch.safetensors" --filter enc_causal_kpm
tries gradients check "$tests/vectors/torch.safetensors" --filter grad_gqa
tries norm check "$tests/vectors/onnx.safetensors" --filter test_layer_normalization_3d_axis_negative_2_epsilon
tries rotary check "$tests/vectors/onnx.safetensors" --filter test_rotary_embedding_no_position_ids_interleaved
tries onnx check "$tests/vectors/onnx.safetensors" --filter '*3d_gqa_with_past_and_present*'
tries inspect inspect "$tests/vectors/seed.safetensors"
tries bench bench --file problems.txt --repeat 1 --json out/b.json --devices cpu --algorithms reference
tries backward bench 'h2 n8 d8' --backward --repeat 1 --devices cpu --sweep n=8:16 --plot out/p.svg
tries linear bench --linear 'm4 n8 k8 f32 bias gelu' --repeat 1 --devices cpu --json out/b.json
tries study study sdpa --json out/s.json
tries more study batched --type f32
tries doctor doctor --device cpu
tries devices devices --device cpu --json
echo "$tried calls failed in turn"
finish
