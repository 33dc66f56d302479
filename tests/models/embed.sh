#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/embed with all-MiniLM-L6-v2 against tests/vectors/minilm*: token ids, embeddings in f32 and f16, states of
# each layer, batches, and what is said of bad files. Usage: embed.sh BUILD MODELS; prints "N passed, N failed".
[ $# -eq 2 ] || { echo "usage: $0 BUILD MODELS" >&2; exit 2; }
build=$(cd "$1" && pwd) && models=$(cd "$2" && pwd) || exit 2
here=$(cd "$(dirname "$0")" && pwd) || exit 2
. "$here/tools.sh"
program=$build/examples/embed
model=$models/minilm

# ---- tokens ----

# The numbers of the lists "ids", a list a line.
awk '/"ids": \[/ { list = 1; line = ""; next } list && /\]/ { list = 0; print substr(line, 2) }
    list { gsub(/[^0-9]/, ""); line = line " " $0 }' "$vectors/minilm_texts.json" >expected.txt
check "ids of $(wc -l <expected.txt) texts" sh -c "[ -s expected.txt ] &&
    '$program' -m '$model' -f '$vectors/minilm_texts.json' --ids | cmp - expected.txt"

# ---- embeddings, on each device ----

for device in ${DEVICES:-opencl cpu}; do
    "$program" -m "$model" -f "$vectors/minilm_texts.json" --device "$device" --out all.npy --stages stages.safetensors \
        >table.txt
    check "$device" diff_tensors "$device: f32" all.npy "$vectors/minilm.safetensors:embeddings" 2e-6
    check "$device" diff_tensors "$device: unit length" all.npy unit 1e-6
    for stage in h0 h1 h2 h3 h4 h5 h6 q0 k0 v0 o0; do
        check "$device $stage" diff_tensors "$device: $stage" "stages.safetensors:$stage" \
            "$vectors/minilm.safetensors:sentence0/$stage" 2e-5
    done
    "$program" -m "$model" -f "$vectors/minilm_texts.json" --device "$device" --batch 1 --out single.npy >single.txt
    check "$device" diff_tensors "$device: batch and one by one" single.npy all.npy 1e-6
    "$program" -m "$model" -f "$vectors/minilm_texts.json" --device "$device" --dtype f16 --out half.npy >half.txt
    check "$device" diff_tensors "$device: f16" half.npy "$vectors/minilm.safetensors:embeddings" 1e-3 0.99999
    check "$device: similarity of texts 1 and 2" awk 'NR == 2 { d = $3 - 0.614662; ok = d < 1e-5 && d > -1e-5 }
        END { exit !ok }' table.txt
done

# ---- lines, standard input, JSON ----

printf 'One line.\r\n\nThe last, without an end' >lines.txt
check "lines of a file and of the standard input are the same" sh -c \
    "'$program' -m '$model' -f lines.txt --device cpu --out a.npy && '$program' -m '$model' --device cpu --out b.npy <lines.txt && cmp a.npy b.npy"
check "three lines are three texts" sh -c "[ \$('$program' -m '$model' -f lines.txt --ids | wc -l) -eq 3 ]"
check "JSON holds texts, ids and numbers" sh -c "'$program' -m '$model' -f lines.txt --device cpu --json |
    grep -q '\"text\": \"One line.\", \"ids\": \\[101, 2028, 2240, 1012, 102\\], \"embedding\": \\[-*[0-9]'"
printf 'a\0b \\u0000\n' >zero.txt
printf '["a\\u0000b \\\\u0000"]' >zero.json
check "zeros in texts, of lines and of JSON" sh -c "'$program' -m '$model' -f zero.txt --ids >a.ids &&
    '$program' -m '$model' -f zero.json --ids | cmp - a.ids && grep -q '^101 11113 1032 1057' a.ids"
check "zeros in JSON that is printed" sh -c "'$program' -m '$model' -f zero.txt --device cpu --json |
    grep -qF '\"text\": \"a\\u0000b \\\\u0000\"'"
check "no texts at all" sh -c "'$program' -m '$model' -f /dev/null --device cpu --out none.npy"

# ---- errors ----

mkdir cut renamed
cp "$model/config.json" "$model/vocab.txt" cut
cp "$model/config.json" "$model/vocab.txt" renamed
head -c 50000000 "$model/model.safetensors" >cut/model.safetensors
LC_ALL=C sed '1s/encoder.layer.3.output.dense.bias/encoder.layer.3.output.dense.beta/' "$model/model.safetensors" \
    >renamed/model.safetensors
printf 'fine\nnot \377 fine\n' >latin.txt
check "a model that was cut" refuses 'cut/model.safetensors' -m cut -f lines.txt --device cpu
check "a tensor that is missing" refuses 'no tensor encoder.layer.3.output.dense.bias' -m renamed -f lines.txt --device cpu
check "no UTF-8" refuses 'text 2 is not UTF-8: its byte 5' -m "$model" -f latin.txt --device cpu
check "no such folder" refuses 'none/vocab.txt' -m none -f lines.txt
check "no such texts" refuses 'none.txt' -m "$model" -f none.txt
check "no such option" refuses 'no option' -m "$model" --fast 1
check "no model" refuses 'FOLDER is missing'
sed 's/"hidden_size": 384/"hidden_size": 380/' "$model/config.json" >cut/config.json
check "a width that heads do not divide" refuses 'no multiple' -m cut -f lines.txt --device cpu
sed 's/"num_hidden_layers": 6/"num_hidden_layers": 5/' "$model/config.json" >renamed/config.json
LC_ALL=C sed '1s/output.dense.beta/output.dense.bias/' renamed/model.safetensors >five && mv five renamed/model.safetensors
check "a tensor that the model does not have" refuses 'encoder.layer.5.* does not have' -m renamed -f lines.txt --device cpu
sed 's/"vocab_size": 30522/"vocab_size": 30000/' "$model/config.json" >renamed/config.json
check "another vocabulary" refuses 'is \[30522, 384\]' -m renamed -f lines.txt --device cpu
printf '[1, 2]' >numbers.json
check "texts that are none" refuses 'item 0' -m "$model" -f numbers.json

finish
