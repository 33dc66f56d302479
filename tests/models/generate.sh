#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/generate with SmolLM2-135M against tests/vectors/smollm2*: ids, logits of each step with and without the
# cache, weights stored, f32 and f16, memory, and what is said of bad files and prompts.
# Usage: generate.sh BUILD MODELS; prints "N passed, N failed".
[ $# -eq 2 ] || { echo "usage: $0 BUILD MODELS" >&2; exit 2; }
build=$(cd "$1" && pwd) && models=$(cd "$2" && pwd) || exit 2
here=$(cd "$(dirname "$0")" && pwd) || exit 2
. "$here/tools.sh"
program=$build/examples/generate
model=$models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
smol() { "$build/tests/models/check_logits" "$vectors/smollm2" "$@"; }

for i in 0 1 2; do
    smol prompt $i >prompt$i
done

# Runs prompt I with options, and compares all logits.
agrees() { # I MAX_ABS OPTIONS...
    index=$1 most=$2
    shift 2
    "$program" -m "$model" -f prompt$index --logits run.safetensors "$@" >text 2>err || { cat err; return 1; }
    smol compare $index run.safetensors $most
}
# The same with the reference's ids, whatever ours are.
follows() { # I MAX_ABS OPTIONS...
    index=$1 most=$2
    shift 2
    "$program" -m "$model" -f prompt$index --then "$(smol then $index)" --logits run.safetensors "$@" >text 2>err ||
        { cat err; return 1; }
    smol compare $index run.safetensors $most any
}

# ---- ids and logits ----

for device in ${DEVICES:-opencl cpu}; do
    for i in 0 1 2; do
        check "$device: prompt $i, f32" agrees $i 1e-3 -n 48 --weights f32 --device "$device"
    done
    check "$device: without the cache" agrees 0 1e-3 -n 48 --weights f32 --no-cache --device "$device"
    few=48
    [ "$device" != cpu ] || few=3 # which converts blocks and halves anew in each call
    for i in 0 1 2; do
        check "$device: prompt $i, weights as stored" follows $i 1e-3 -n $few --weights stored --device "$device"
    done
    check "$device: f16" follows 2 0.1 -n $few --weights f16 --device "$device"
done
check "the ids of weights as stored" agrees 1 1e-3 -n 48
check "the text of prompt 0" sh -c "'$program' -m '$model' -f prompt0 -n 48 --greedy |
    grep -q '^The answer is: 2018-01-22 12:12:53.\$'"
check "ids as numbers" sh -c "'$program' -m '$model' -f prompt0 -n 3 --ids | tail -n 1 | grep -q '^ids: 7042 30 198\$'"
check "no ids" sh -c "'$program' -m '$model' -f prompt0 -n 0 --ids | tail -n 1 | grep -q '^ids:\$'"
check "done twice, shown once" sh -c "'$program' -m '$model' -f prompt0 -n 3 --ids --repeat 2 >twice &&
    [ \$(wc -l <twice) -eq 2 ] && grep -q '^ids: 7042 30 198\$' twice"
check "the largest logits" sh -c "'$program' -m '$model' -f prompt0 -n 1 --top 2 | grep -q '^0: 7042 17.371[0-9]* 260 14.888'"
check "random tokens are the same again" sh -c "
    '$program' -m '$model' -p Once -n 8 --temperature 1 --seed 3 --ids >a && '$program' -m '$model' -p Once -n 8 --temperature 1 --seed 3 --ids >b && cmp a b"
check "and others with another seed" sh -c "
    '$program' -m '$model' -p Once -n 8 --temperature 1 --seed 4 --ids >b && ! cmp -s a b"

# ---- memory: below 1.3 times weights and cache ----

check "memory" sh -c "'$program' -m '$model' -f prompt2 -n 8 --verbose 2>&1 | tee log2 | grep -q 'device memory' &&
    awk '/device memory/ { for (i = 1; i < NF; i++) if (\$(i + 1) == \"times\") { print; exit !(\$i > 0 && \$i < 1.3) } }' log2"

# ---- errors ----

head -c 90000000 "$model" >cut.gguf
head -c 1000000 "$model" >header.gguf
LC_ALL=C sed 's/blk.3.attn_k.weight/blk.3.attn_K.weight/' "$model" >renamed.gguf
LC_ALL=C sed 's/llama.block_count\x04\x00\x00\x00\x1e/llama.block_count\x04\x00\x00\x00\x1d/' "$model" >fewer.gguf
printf 'not \377 fine' >latin.txt
printf 'word %.0s' $(seq 9000) >long.txt
: >empty.txt
check "a model that was cut" refuses 'cut.gguf' -m cut.gguf -p x
check "a header that was cut" refuses 'header.gguf' -m header.gguf -p x
check "no GGUF file" refuses 'no GGUF file' -m prompt0 -p x
check "no such file" refuses 'none.gguf' -m none.gguf -p x
check "a tensor that is missing" refuses 'blk.3.attn_k.weight' -m renamed.gguf -p x --device cpu
check "tensors that are left over" refuses 'tensor "blk.29.*not known' -m fewer.gguf -p x --device cpu
check "no UTF-8" refuses 'not UTF-8: byte 4' -m "$model" -f latin.txt
check "a prompt past the context" refuses '8192' -m "$model" -f long.txt
check "an empty prompt" refuses 'empty' -m "$model" -f empty.txt
check "no such device" refuses 'nowhere' -m "$model" -p x --device nowhere
check "no such weights" refuses 'none of stored' -m "$model" -p x --weights q9
check "no such option" refuses 'fast' -m "$model" -p x --fast
check "no number" refuses 'no such number' -m "$model" -p x -n many
for ids in '' ' ' '1,,2' '1,' ',1' '1;2' '1 -2'; do
    check "no ids: \"$ids\"" refuses 'no list of tokens' -m none.gguf -p x --then "$ids"
done
check "an id beyond the vocabulary" refuses '"99999999999999999999" is no token' -m "$model" -p x --then 99999999999999999999
check "no model" refuses 'needs -m' -p x

finish
