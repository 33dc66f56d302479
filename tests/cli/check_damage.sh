#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `clattn check` on cases whose text is damaged in one place, lengths kept: an attribute, input or output of another name,
# a value of another kind or out of range. Each is one case that fails and says why, or is one that still holds.
# Usage: check_damage.sh CLATTN
[ $# -ge 1 ] || { echo "usage: $0 CLATTN" >&2; exit 2; }
tests=$(cd "$(dirname "$0")/.." && pwd)
vectors=$tests/vectors
. "$tests/cli/judge.sh"
. "$tests/cli/run_tools.sh" # npy
tried=0
LC_ALL=C
export LC_ALL CLATTN_CACHE_DIR=off CLATTN_TUNING_FILE=off

# The places of a case's text: what is there and what to put instead, a tab between. Quotes are written \" in the file.
places() { # FILE CASE
    grep -aoE "\"$2\":\"\{(\\\\.|[^\"\\\\])*\"" "$1" | head -n 1 | sed "s/^\"$2\"://" | awk '{
        text = $0
        while (match(text, /\\"[A-Za-z_0-9.]+\\"/)) { # names and texts
            word = substr(text, RSTART + 2, RLENGTH - 4)
            text = substr(text, RSTART + RLENGTH)
            if (word ~ /^(note|opset|rtol|atol)$/ || seen[word]++) continue
            last = substr(word, length(word))
            print "\\\\\"" word "\\\\\"\t\\\\\"" substr(word, 1, length(word) - 1) (last == "X" ? "Z" : "X") "\\\\\""
        }
        text = $0
        while (match(text, /\\"[a-z_A-Z]+\\":(-?[0-9.]+|true|false|null)[,}]/)) { # values of attributes
            pair = substr(text, RSTART, RLENGTH - 1)
            text = substr(text, RSTART + RLENGTH)
            split(pair, part, ":")
            name = part[1]
            gsub(/\\/, "\\\\", name)
            value = part[2]
            if (name ~ /note/ || seen[pair]++) continue
            n = length(value)
            print name ":" value "\t" name ":" substr("-9999999999", 1 + (n == 1), n)
            print name ":" value "\t" name ":" (n == 1 ? 3 : substr("[          ", 1, n - 1) "]")
            if (n > 2) print name ":" value "\t" name ":" substr("0.5555555555", 1, n)
        }
    }'
}

# damages FILE CASE
damages() {
    case $1 in /*) file=$1 ;; *) file=$vectors/$1.safetensors ;; esac
    case_name=$2
    run 0 "$2" "$file" --device cpu --filter "$2"
    places "$file" "$2" >"$work/places"
    while IFS='	' read -r from to; do
        sed "s/$from/$to/g" "$file" >"$work/damaged.safetensors"
        cmp -s "$file" "$work/damaged.safetensors" && continue
        tried=$((tried + 1))
        "$clattn" check "$work/damaged.safetensors" --device cpu --filter "$2" >"$work/out" 2>"$work/err"
        status=$?
        if [ $status -gt 1 ] || { [ $status -eq 1 ] && ! grep -q "$2" "$work/out"; }; then
            not_ok "$case_name: $from to $to: exit status $status"
        else
            [ $status -eq 0 ] || caught=$((caught + 1))
            ok
        fi
    done <"$work/places"
}

verb=check
caught=0
damages torch mha_bias_kv_kdim
damages torch mha_dead_batch
damages torch dec_all_masks
damages torch enc_causal_kpm
damages torch sdpa_layout_bshd_gqa_causal
damages torch grad_gqa
damages seed s000_causal
damages seed s000_permutation_pe
damages seed s001_mask
damages seed s001_sdpa
damages onnx test_attention_3d_with_past_and_present_qk_matmul_softmax
damages onnx test_attention_4d_causal_nonpad_continued_prefill
for op in LayerNormalization RMSNormalization Softmax RotaryEmbedding; do
    damages onnx "$(grep -aoE "\"[a-z_0-9]+\":\"\{\\\\\"op\\\\\":\\\\\"$op" "$vectors/onnx.safetensors" | head -n 1 | cut -d'"' -f2)"
done
cd "$work" || exit 2
npy q.npy f4 '(2, 2, 3, 32)' for 384: 1
npy k.npy f4 '(2, 1, 5, 32)' for 320: 0.5
npy keep.npy u1 '(3, 4)' for 11: 1 for 1: 0
npy segments.npy i4 '(2, 3)' for 6: 1
npy key_segments.npy i4 '(2, 5)' for 10: 1
npy slopes.npy f4 '(2,)' 0.5 0.25
npy rows.npy f4 '(5, 32)' for 160: 1
npy pages.npy f4 '(3, 1, 2, 32)' for 192: 1
npy table.npy i4 '(2, 2)' 0 1 2 0
verb=run
run 0 "dump" q.npy k.npy k.npy -o o.npy -d cpu --keep keep.npy --short-masks --key-lengths 5,4 --query-lengths 3,2 --prefix-lengths 1,2 \
    --causal --offsets 1,2 --window 3,1 --alibi-slopes slopes.npy --sinks slopes.npy --softcap 2 --kv-type q8_0,f16 --query-segments segments.npy \
    --key-segments key_segments.npy --scale 0.5 --batch-invariant --dump dump.safetensors --lse l.npy --weights w.npy
run 0 "dump of sequences" rows.npy rows.npy rows.npy -o o.npy -d cpu --layout sd --cu-queries 0,2,5 --cu-keys 0,3,5 --causal=bottom-right \
    --dump sequences.safetensors
run 0 "dump of pages" q.npy pages.npy pages.npy -o o.npy -d cpu --block-table table.npy --key-lengths 3,4 --dump pages.safetensors
verb=check
for file in dump sequences pages; do
    damages "$work/$file.safetensors" run
done
echo "$tried damaged cases, $caught of them caught"
holds "most damage is caught" test "$caught" -gt $((tried / 2))
finish
