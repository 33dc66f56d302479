# SPDX-License-Identifier: Apache-2.0
# For run.sh: weights in their forms, of some rows and heads, and what is made of them. Sourced.
# Two heads; scores of head 0 are 0, those of head 1 are ln 3 times the key (0 1).

run="run --device $device"
w=../out/w.npy
npy wq.npy f4 '(1, 2, 2, 1)' 0 0 1.0986123 1.0986123
npy wk.npy f4 '(1, 1, 2, 1)' 0 1
npy wv.npy f4 '(1, 1, 2, 1)' 5 7
two="wq.npy wk.npy wv.npy"
near() { values "$1" | sed 's/0\.7[45]0*[0-9]*/A/g; s/0\.2[45][0-9]*/B/g; s/1\.0986[0-9]*/L/g'; }

good "weights" $run $two --weights $w --verify
same "weights: of a head of zeros, and of one that takes 3 : 1" "$(values $w | sed 's/0\.25[0-9]*/B/g; s/0\.75[0-9]*/A/g')" "0.5 0.5 0.5 0.5 B A B A"
good "weights, scaled scores" $run $two --weights $w --weights-form scaled --causal --verify
same "weights, scaled scores: under masks too" "$(near $w)" "0 0 0 0 0 L 0 L"
good "weights, masked scores" $run $two --weights $w --weights-form masked --causal --verify
same "weights, masked scores: -inf" "$(near $w)" "0 -inf 0 0 0 -inf 0 L"
good "weights, capped scores" $run $two --weights $w --weights-form capped --softcap 1.0986123 --verify
same "weights, capped scores: tanh 1 of the cap" "$(values $w | sed 's/0\.8366[0-9]*/C/g')" "0 0 0 0 0 C 0 C"
good "weights, mean" $run $two --weights $w --weights-mean --verify
same "weights, mean: of 0.5 0.5 and 0.25 0.75" "$(values $w | sed 's/0\.375[0-9]*/M/g; s/0\.625[0-9]*/N/g')" "M N M N"
good "weights, a row of a head" $run $two --weights $w --weights-rows 1 --weights-heads 1 --causal --verify
same "weights, a row of a head: values" "$(values $w | sed 's/0\.25[0-9]*/B/g; s/0\.75[0-9]*/A/g')" "B A"
good "weights, heads in another order" $run $two --weights $w --weights-rows 0 --weights-heads 1,0
same "weights, heads in another order: values" "$(values $w | sed 's/0\.25[0-9]*/B/g; s/0\.75[0-9]*/A/g')" "B A 0.5 0.5"
npy rows.npy i8 '(1,)' 1
good "weights, rows from a file" $run $two --weights $w --weights-rows rows.npy --weights-mean --causal
same "weights, rows from a file: values" "$(values $w | sed 's/0\.375[0-9]*/M/g; s/0\.625[0-9]*/N/g')" "M N"
good "column sums and entropy" $run $two --column-sums ../out/c.npy --entropy ../out/e.npy --causal --verify
same "column sums: the first query sees the first key alone" "$(values ../out/c.npy | sed 's/1\.25[0-9]*/B/g; s/0\.75[0-9]*/A/g')" "1.5 0.5 B A"
same "entropy: 0, ln 2, 0, 0.5623" "$(values ../out/e.npy | sed 's/0\.69314[0-9]*/T/g; s/0\.5623[0-9]*/E/g')" "0 T 0 E"
good "everything in one file, with a map" $run $two -o ../out/all.safetensors:o --weights ../out/all.safetensors:w \
    --weights-form scaled --column-sums ../out/all.safetensors:c --entropy ../out/all.safetensors:e --heatmap ../out/m.svg
holds "everything in one file: the sums" grep -Eq '^sums +f32 \[1, 2, 2\] in .*:c$' "$work/stdout"
holds "everything in one file: the map" is_svg ../out/m.svg
good "weights, rank 2" $run q.npy k.npy eye.npy --weights $w --weights-rows 0 --column-sums ../out/c.npy
holds "weights, rank 2: as q has it" grep -Eq '^weights +f32 \[1, 2\] in' "$work/stdout"
holds "weights, rank 2: sums" grep -Eq '^sums +f32 \[2\] in' "$work/stdout"

bad "weights, no such form" 2 '--weights-form raw is none of softmax, scaled' $run $two --weights $w --weights-form raw
bad "weights, form without a file" 2 '--weights-form says how --weights are to be' $run $two -o $out --weights-form scaled
bad "weights, mean of scores" 2 '--weights-mean averages weights after the softmax' $run $two --weights $w --weights-mean --weights-form masked
bad "weights, no such row" 2 '--weights-rows 0,2: entry 1 is 2, outside 0 to 1' $run $two --weights $w --weights-rows 0,2
bad "weights, a head twice" 2 '--weights-heads 1,1: 1 is there twice' $run $two --weights $w --weights-heads 1,1
bad "column sums over an input" 2 'wk.npy' $run $two --column-sums wk.npy
