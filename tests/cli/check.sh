#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clattn check: usage errors, verdicts on files made here, and the packed vectors on every algorithm.
#   check.sh CLATTN [VECTORS]      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
verb=check
vectors=${2:-$(dirname "$0")/../vectors}

last() { # NAME LINE
    if [ "$(tail -n 1 "$work/out")" = "$2" ]; then ok; else not_ok "$1: the last line is not '$2'"; fi
}

# pack FILE HEADER: a safetensors file with that header; its data come on stdin
pack() {
    length=$(printf %s "$2" | wc -c)
    {
        printf "\\$(printf %o $((length % 256)))\\$(printf %o $((length / 256)))"
        printf '\0\0\0\0\0\0'
        printf %s "$2"
        cat
    } >"$1"
}

# one FILE DESCRIPTION [SHAPE]: a case "c" with Q, K, V, Y of one element each: 0, 0, and V and Y from stdin, four bytes
# each; beside them attn_mask, past_key, past_value (0) and nonpad_kv_seqlen (1), for who names them
one() {
    shape=${3:-1,1}
    { printf '\0\0\0\0\0\0\0\0' && cat && printf '\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0'; } |
        pack "$1" "{\"__metadata__\":{\"c\":\"$2\"},\
\"c/Q\":{\"dtype\":\"F32\",\"shape\":[$shape],\"data_offsets\":[0,4]},\
\"c/K\":{\"dtype\":\"F32\",\"shape\":[$shape],\"data_offsets\":[4,8]},\
\"c/V\":{\"dtype\":\"F32\",\"shape\":[$shape],\"data_offsets\":[8,12]},\
\"c/Y\":{\"dtype\":\"F32\",\"shape\":[$shape],\"data_offsets\":[12,16]},\
\"c/attn_mask\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]},\
\"c/past_key\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1],\"data_offsets\":[20,24]},\
\"c/past_value\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1],\"data_offsets\":[24,28]},\
\"c/nonpad_kv_seqlen\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[28,36]}}"
}
q='\"' # a quote inside the metadata's JSON text
sdpa="{${q}op${q}:${q}sdpa${q},${q}in${q}:[${q}Q${q},${q}K${q},${q}V${q}],${q}out${q}:{${q}Y${q}:[0.001,0.0]}}"

# ---- wrong use ----
run 2 "no file"
run 2 "a file that is not there" "$work/none.safetensors"
says "a file that is not there" 'none\.safetensors'
echo hello >"$work/text.safetensors"
run 2 "a file that is no safetensors file" "$work/text.safetensors"
printf '' | pack "$work/empty.safetensors" '{}'
run 2 "a file without cases" "$work/empty.safetensors"
says "a file without cases" 'holds no cases'
run 2 "a filter that matches nothing" "$vectors/seed.safetensors" --device cpu --filter 'nothing*'
says "a filter that matches nothing" "matches 'nothing\*'"
run 2 "an unknown algorithm" "$vectors/seed.safetensors" --device cpu --algorithm referense
says "an unknown algorithm" "'referense'; did you mean reference"
run 2 "an unknown option" "$vectors/seed.safetensors" --divice cpu
run 2 "two files" "$vectors/seed.safetensors" "$vectors/seed.safetensors"

# ---- verdicts ----
printf '\0\0\200\077\0\0\200\077' | one "$work/right.safetensors" "$sdpa"
run 0 "a right value" "$work/right.safetensors" -d cpu
last "a right value" "1 passed, 0 failed, 0 skipped"
printf '\0\0\200\077\0\0\0\100' | one "$work/wrong.safetensors" "$sdpa"
run 1 "a wrong value" "$work/wrong.safetensors" --device cpu --algorithm reference
says "a wrong value" '^FAIL c, reference on cpu: Y\[0,0\] is 1, not 2: off by 1, allowed 0\.002 \(1 of 1 elements\)'
last "a wrong value" "0 passed, 1 failed, 0 skipped"
run 1 "a wrong value by the library's choice" "$work/wrong.safetensors"
says "a wrong value by the library's choice" '^FAIL c, (fused_lanes|fused_tiles|blas) on ' # not fused_split: one key
last "a wrong value by the library's choice" "0 passed, 1 failed, 0 skipped"
printf '\0\0\300\177\0\0\300\177' | one "$work/nan.safetensors" "$sdpa"
run 0 "NaN for NaN" "$work/nan.safetensors" --device cpu
printf '\0\0\200\077\0\0\300\177' | one "$work/nan2.safetensors" "$sdpa"
run 1 "one for NaN" "$work/nan2.safetensors" --device cpu
printf '\0\0\300\177\0\0\200\077' | one "$work/nan3.safetensors" "$sdpa"
run 1 "NaN for one" "$work/nan3.safetensors" --device cpu
printf '\0\0\200\177\0\0\200\177' | one "$work/inf.safetensors" "$sdpa"
run 0 "infinity for infinity" "$work/inf.safetensors" --device cpu
printf '\0\0\200\177\0\0\200\377' | one "$work/inf2.safetensors" "$sdpa"
run 1 "infinity for minus infinity" "$work/inf2.safetensors" --device cpu
printf '\0\0\200\077\0\0\200\077' | one "$work/later.safetensors" "{${q}op${q}:${q}warp${q}}"
run 0 "an op that is not known" "$work/later.safetensors" --device cpu
says "an op that is not known" '1  op warp comes with a later version'
last "an op that is not known" "0 passed, 0 failed, 1 skipped"

# ---- cases that are not what they claim to be count as failed ----
printf '\0\0\200\077\0\0\200\077' | one "$work/broken.safetensors" "{${q}op${q}"
run 1 "a description that is no JSON" "$work/broken.safetensors" --device cpu
says "a description that is no JSON" '^FAIL c, on cpu: its description'
bad() { # NAME REPLACEMENT PATTERN [DESCRIPTION SHAPE]
    printf '\0\0\200\077\0\0\200\077' |
        one "$work/bad.safetensors" "$(printf %s "${4:-$sdpa}" | sed "$2")" "${5:-1,1}"
    run 1 "$1" "$work/bad.safetensors" --device cpu
    says "$1" "$3"
}
bad "a tensor that is not there" 's/Y/Y_inf/' 'c/Y_inf'
bad "tolerances that are none" 's/0\.001/true/' 'its tolerances are not \[rtol, atol\]'
bad "a negative tolerance" 's/0\.001/-1/' 'its tolerances are not'
bad "no outputs" 's/out/exit/' 'names no outputs'
bad "an empty list of outputs" 's/{[^{]*0\.001[^}]*}/{}/' 'names no outputs'
bad "a mask that is not there" 's/V\\"]/V\\",\\"mask\\"]/' 'c/mask'
bad "an input that is not known" 's/V\\"]/V\\",\\"alibi\\"]/' 'the input alibi is not known'
bad "an attribute that is not known" 's/{/{\\"attrs\\":{\\"dropout_p\\":0.1},/' 'the attribute dropout_p is not known'
bad "a layout that is no text" 's/{/{\\"attrs\\":{\\"layout\\":1},/' 'layout is not a text'
bad "an output that is not known" 's/Y/logits/' 'the output logits is not known'
bad "an attribute that is no number" 's/{/{\\"attrs\\":{\\"scale\\":\\"x\\"},/' 'scale is not a number'
bad "a flag that is none" 's/{/{\\"attrs\\":{\\"is_causal\\":2},/' 'the attribute is_causal is 2, not 0 or 1'
bad "an unknown layout" 's/{/{\\"attrs\\":{\\"layout\\":\\"SBHD\\"},/' 'the layout SBHD is not known'
bad "a layout for rank 4" 's/{/{\\"attrs\\":{\\"layout\\":\\"BSHD\\"},/' 'needs tensors of rank 4'
onnx="{${q}op${q}:${q}Attention${q},${q}opset${q}:23,${q}attrs${q}:{},${q}in${q}:[${q}Q${q},${q}K${q},${q}V${q}],\
${q}out${q}:{${q}Y${q}:[0.001,0.0]}}"
onnx() { bad "Attention: $1" "$2" "$3" "$onnx" 1,1,1,1; } # NAME REPLACEMENT PATTERN
bad "Attention: of rank 2" 's/x/x/' 'rank 2, not 3 or 4' "$onnx"
bad "Attention: of rank 3 without heads" 's/x/x/' 'q_num_heads is 0, for 1 columns' "$onnx" 1,1,1
onnx "without an opset" 's/23/null/' 'its opset is 0, not 23 to 25'
onnx "of an opset to come" 's/23/26/' 'its opset is 26, not 23 to 25'
onnx "an attribute of opset 25" 's/{}/{\\"left_window_size\\":2}/' 'the attribute left_window_size is not known'
onnx "an input of opset 24" 's/V\\"]/V\\",\\"nonpad_kv_seqlen\\"]/' 'the input nonpad_kv_seqlen is not known'
onnx "heads that 4D inputs have not" 's/{}/{\\"q_num_heads\\":2}/' 'q_num_heads is 2, for 1 heads'
onnx "a precision that is none" 's/{}/{\\"softmax_precision\\":7}/' 'softmax_precision is 7, which is none of 1, 10, 11 and 16'
onnx "half a cache" 's/V\\"]/V\\",\\"past_key\\"]/' 'only one of past_key and past_value'
onnx "a cache within and one without" \
    's/23/24/;s/V\\"]/V\\",\\"past_key\\",\\"past_value\\",\\"nonpad_kv_seqlen\\"]/' 'nonpad_kv_seqlen and a cache of its own'
# empty FILE DESCRIPTION NAME SHAPE...: a case "c" with tensors of no elements
empty() {
    file=$1
    header="{\"__metadata__\":{\"c\":\"$2\"}"
    shift 2
    while [ $# -gt 0 ]; do
        header="$header,\"c/$1\":{\"dtype\":\"F32\",\"shape\":[$2],\"data_offsets\":[0,0]}"
        shift 2
    done
    printf '' | pack "$file" "$header}"
}
empty "$work/columns.safetensors" "$(printf %s "$onnx" | sed 's/{}/{\\"q_num_heads\\":10000,\\"kv_num_heads\\":1}/')" \
    Q 0,1,10000 K 0,2,1 V 0,2,1000000000000000 Y 0,1,1
run 1 "Attention: columns that are too many" "$work/columns.safetensors" --device cpu
says "Attention: columns that are too many" '10000 heads of 1000000000000000 columns are too many'
onnx "a negative soft cap" 's/{}/{\\"softcap\\":-1}/' 'softcap: -1'
onnx "a window below -1" 's/23/25/;s/{}/{\\"left_window_size\\":-2}/' 'a window of -2 and -1 keys'
bad "RotaryEmbedding: of opset 22" 's/Attention/RotaryEmbedding/;s/23/22/;s/\[.*\],/[],/' 'its opset is 22' "$onnx" 1,1,1,1

# A last axis of 1 is short where there are more keys: with a past, the mask lets only the first key through.
printf '\0\0\200\077\0\0\0\0' | one "$work/short.safetensors" "$(printf %s "$onnx" |
    sed 's/V\\"]/V\\",\\"attn_mask\\",\\"past_key\\",\\"past_value\\"]/')" 1,1,1,1
run 0 "a short mask of one key" "$work/short.safetensors" --device cpu
last "a short mask of one key" "1 passed, 0 failed, 0 skipped"
bad "a dump of rank 2" 's/sdpa/clattn_run/' 'not 4'
bad "a dump with an option to come" 's/sdpa/clattn_run/;s/{/{\\"attrs\\":{\\"dropout\\":0.1},/' 'the attribute dropout is not known'

# Rows of 2^-20 and -2^-20, which an epsilon of 0 leaves at 1 and -1, and 1e-5 would make small. All other weights are 0.
tensors=
where=0
for tensor in src:1,1,2:8 out:1,1,2:8 norm1.weight:2:8 norm2.weight:2:8 self_attn.in_proj_weight:6,2:48 \
    self_attn.out_proj.weight:2,2:16 linear1.weight:1,2:8 linear2.weight:2,1:8; do
    shape=${tensor#*:}
    tensors="$tensors,\"c/${tensor%%:*}\":{\"dtype\":\"F32\",\"shape\":[${shape%:*}],\"data_offsets\":[$where,$((where + ${tensor##*:}))]}"
    where=$((where + ${tensor##*:}))
done
{
    printf '\0\0\200\065\0\0\200\265'
    for row in 77:277 77:77 77:77; do printf "\\0\\0\\200\\0${row%:*}\\0\\0\\200\\${row#*:}"; done
    head -c 80 /dev/zero
} | pack "$work/epsilon.safetensors" "{\"__metadata__\":{\"c\":\"{${q}op${q}:${q}encoder_layer${q},\
${q}attrs${q}:{${q}nhead${q}:1,${q}bias${q}:0,${q}layer_norm_eps${q}:0},${q}in${q}:[${q}src${q},${q}self_attn.in_proj_weight${q},\
${q}self_attn.out_proj.weight${q},${q}linear1.weight${q},${q}linear2.weight${q},${q}norm1.weight${q},${q}norm2.weight${q}],\
${q}out${q}:{${q}out${q}:[0.0,0.00001]}}\"}$tensors}"
run 0 "an epsilon of 0" "$work/epsilon.safetensors" --device cpu
last "an epsilon of 0" "1 passed, 0 failed, 0 skipped"

# The result has the type of the scale, f32, and not of X, f16.
printf '\0\074\0\100\0\0\200\077\0\0\200\077\206\350\041\077\206\350\241\077' | pack "$work/rms.safetensors" \
    "{\"__metadata__\":{\"c\":\"{${q}op${q}:${q}RMSNormalization${q},${q}opset${q}:23,${q}in${q}:[${q}X${q},${q}scale${q}],\
${q}out${q}:{${q}Y${q}:[0.000001,0.0]}}\"},\"c/X\":{\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[0,4]},\
\"c/scale\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]},\"c/Y\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[12,20]}}"
run 0 "RMSNormalization: a scale of another type" "$work/rms.safetensors" --device cpu
last "RMSNormalization: a scale of another type" "1 passed, 0 failed, 0 skipped"

# softmax NAME OPSET SHAPE BYTES WANTED: of zeros, WANTED are the upper two bytes of a number, in octal
softmax() {
    { head -c "$4" /dev/zero && i=0 && while [ $i -lt "$4" ]; do printf "\\0\\0\\$5" && i=$((i + 4)); done; } |
        pack "$work/softmax.safetensors" "{\"__metadata__\":{\"c\":\"{${q}op${q}:${q}Softmax${q},${q}opset${q}:$2,\
${q}in${q}:[${q}input${q}],${q}out${q}:{${q}output${q}:[0.0,0.000001]}}\"},\
\"c/input\":{\"dtype\":\"F32\",\"shape\":[$3],\"data_offsets\":[0,$4]},\
\"c/output\":{\"dtype\":\"F32\",\"shape\":[$3],\"data_offsets\":[$4,$(($4 * 2))]}}"
    run 0 "Softmax: $1" "$work/softmax.safetensors" --device cpu
    last "Softmax: $1" "1 passed, 0 failed, 0 skipped"
}
softmax "of one number" 13 "" 4 '200\077'
softmax "over the last axis" 13 2,2,2 32 '0\077'
softmax "over all axes from the second on" 11 2,2,2 32 '200\076'

# ---- a dump replays ----
if "$clattn" run "$vectors/torch.safetensors:sdpa_gqa_mask/Q" "$vectors/torch.safetensors:sdpa_gqa_mask/K" \
    "$vectors/torch.safetensors:sdpa_gqa_mask/V" --keep "$vectors/torch.safetensors:sdpa_gqa_mask/attn_mask" \
    --causal=bottom-right --window 5,2 --scale 0.25 --lengths 9,4 --lse "$work/lse.npy" -o "$work/o.npy" \
    --dump "$work/dump.safetensors" --device cpu >"$work/out" 2>"$work/err"; then
    ok
    run 0 "a dump" "$work/dump.safetensors" --device cpu
    last "a dump" "1 passed, 0 failed, 0 skipped"
else
    not_ok "a dump is written"
fi

# ---- the packed vectors ----
run 0 "the seed articles" "$vectors/seed.safetensors" --device cpu
last "the seed articles" "7 passed, 0 failed, 0 skipped"

run 0 "weights alone, of an algorithm that does not run there" "$vectors/onnx.safetensors" --device cpu --algorithm fused_split \
    --filter '*with_past_and_present_qk_matmul_bias_3d*'
last "weights alone, of an algorithm that does not run there" "0 passed, 0 failed, 2 skipped"

# rows OP CASES ALGORITHMS...: each algorithm's row of an op says that all cases passed
rows() {
    op=$1
    cases=$2
    shift 2
    for algorithm in "$@"; do
        row=$(grep -E "^$algorithm +[^ ]+ +$op " "$work/out" | awk '{ print $4, $5, $6 }' | sort -u)
        if [ "$row" = "$cases 0 0" ]; then
            ok
        else
            failed=$((failed + 1))
            echo "FAIL $op, $algorithm: ${row:-no row} passed, failed and skipped, not $cases 0 0"
        fi
    done
}
fused="fused_split fused_lanes fused_tiles"
for algorithm in blas reference; do
    run 0 "PyTorch's vectors on $algorithm" "$vectors/torch.safetensors" --device cpu --algorithm $algorithm --filter 'sdpa_*'
    rows sdpa 90 $algorithm
    run 0 "PyTorch's gradients on $algorithm" "$vectors/torch.safetensors" --device cpu --algorithm $algorithm \
        --filter 'grad_*'
    rows sdpa_grad 9 $algorithm
    run 0 "tensors that broadcast on $algorithm" "$vectors/broadcast.safetensors" --device cpu --algorithm $algorithm
    rows sdpa 28 $algorithm
    rows sdpa_grad 28 $algorithm
done
for algorithm in fused_tiles materialised; do
    run 0 "PyTorch's gradients on $algorithm" "$vectors/torch.safetensors" --algorithm $algorithm --filter 'grad_*'
    rows sdpa_grad 9 $algorithm
done
# On all algorithms only some, whose kernels Attention needs anyway: building kernels is what takes the time here.
run 0 "PyTorch's vectors" "$vectors/torch.safetensors" --algorithm all --filter 'sdpa_dead*'
rows sdpa 2 $fused materialised blas reference
run 0 "ONNX's attention" "$vectors/onnx.safetensors" --algorithm all --filter 'test_attention_*'
rows Attention 70 $fused materialised blas reference
run 0 "ONNX's rotary embedding" "$vectors/onnx.safetensors" --algorithm all --filter 'test_rotary*'
rows RotaryEmbedding 6 -
run 0 "ONNX's norms" "$vectors/onnx.safetensors" --algorithm all --filter '*_normalization_*'
rows LayerNormalization 4 -
rows RMSNormalization 4 -
run 0 "ONNX's softmax" "$vectors/onnx.safetensors" --algorithm all --filter 'test_softmax_*'
rows Softmax 4 -
for device in cpu opencl; do
    for modules in 'mha 20' 'encoder_layer 7' 'decoder_layer 5'; do
        run 0 "PyTorch's ${modules% *} on $device" "$vectors/torch.safetensors" --device $device \
            --filter "$(echo "$modules" | cut -c 1-3)_*"
        rows ${modules% *} ${modules#* } -
    done
done

finish
