#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/translate_molecules with ANNalog against tests/vectors/annalog*: ids of the results, logits of each step, the
# encoder's memory, and what is said of bad files. Usage: translate_molecules.sh BUILD MODELS.
[ $# -eq 2 ] || { echo "usage: $0 BUILD MODELS" >&2; exit 2; }
build=$(cd "$1" && pwd) && models=$(cd "$2" && pwd) || exit 2
here=$(cd "$(dirname "$0")" && pwd) || exit 2
. "$here/tools.sh"
program=$build/examples/translate_molecules
model=$models/annalog

# ---- the given molecules, on each device ----

awk -F '"' '/"smiles":/ { print $4 }' "$vectors/annalog.json" >smiles.txt
awk -F '"' '/"out":/ { print $4 }' "$vectors/annalog.json" | paste -d '>' smiles.txt - | sed 's/>/ -> /' >results.txt
awk '/"out_ids": \[/ { list = 1; line = ""; next } list && /\]/ { list = 0; print substr(line, 2) }
    list { gsub(/[^0-9]/, ""); line = line " " $0 }' "$vectors/annalog.json" >ids.txt
names=$(awk -F '"' '/^"[a-z]+": \{/ { print $2 }' "$vectors/annalog.json")

for device in ${DEVICES:-opencl cpu}; do
    check "$device: molecules" sh -c "[ \$(wc -l <results.txt) -eq 3 ] &&
        '$program' -m '$model' -f smiles.txt --device $device --dump dump.safetensors | diff results.txt -"
    check "$device: ids" sh -c "[ -s ids.txt ] && '$program' -m '$model' -f smiles.txt --device $device --ids | diff ids.txt -"
    i=0
    for molecule in $names; do
        check "$device $molecule" diff_tensors "$device: $molecule: memory" "dump.safetensors:$i/memory" \
            "$vectors/annalog.safetensors:$molecule/memory" 5e-6
        check "$device $molecule" diff_tensors "$device: $molecule: logits of each step" "dump.safetensors:$i/logits" \
            "$vectors/annalog.safetensors:$molecule/logits" 1e-3
        i=$((i + 1))
    done
done

# ---- errors ----

mkdir cut
cp "$model/vocab.txt" cut
head -c 10000000 "$model/model.safetensors" >cut/model.safetensors
check "a model that was cut" refuses 'cut/model.safetensors' -m cut -s C --device cpu
LC_ALL=C sed '1s/decoder.fc_out.bias/decoder.fc_out.bean/' "$model/model.safetensors" >cut/model.safetensors
check "a tensor that is missing" refuses 'no tensor decoder.fc_out.bias' -m cut -s C --device cpu
head -n 50 "$model/vocab.txt" >cut/vocab.txt
check "another vocabulary" refuses 'needs \[50, 256\]' -m cut -s C --device cpu
check "a molecule that is too long" refuses 'more than 100 tokens' -m "$model" -s "$(printf 'C%.0s' $(seq 101))" --device cpu
check "no UTF-8" refuses 'not UTF-8: its byte 2' -m "$model" -s "$(printf 'C\377')" --device cpu
check "no such folder" refuses 'none/vocab.txt' -m none -s C
check "a molecule and a file" refuses '-s and -f: give one' -m none -s C -f smiles.txt
check "no such option" refuses 'no option' -m "$model" --fast 1

finish
