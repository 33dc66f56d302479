# SPDX-License-Identifier: Apache-2.0
# For run.sh: safetensors, --verify, --dump, --heatmap, --explain, devices and inspect. Sourced.

run="run --device $device"
torch="$tests/vectors/torch.safetensors"
case_of() { echo "$torch:$1/Q $torch:$1/K $torch:$1/V"; }

# ---- verify ----
for name in sdpa_rank3 sdpa_gqa_8_2 sdpa_f64_inputs sdpa_dk192_dv128 sdpa_head_d1; do
    good "verify $name" $run $(case_of $name) -o ../out/o.npy --lse ../out/l.npy --weights ../out/w.npy --verify
    same "verify $name: a line for each result" "$(grep -c '^verify: ok, .*max error .* at \[.*\], allowed .*; [0-9]* rows' "$work/stderr")" 3
done
good "verify with masks" $run $(case_of sdpa_bmask_BHQ1) -o ../out/o.npy --keep "$torch:sdpa_bmask_BHQ1/attn_mask" --verify
good "verify with a bias" $run $(case_of sdpa_fmask_1H11) --bias "$torch:sdpa_fmask_1H11/attn_mask" --verify
good "verify with the other layout" $run $(case_of sdpa_layout_bshd_gqa_causal) --layout bshd --causal --verify

good "verify some rows" $run $(case_of sdpa_gqa_8_2) -o ../out/o.npy --verify=5
holds "verify some rows: as many as asked for" grep -q '; 5 rows$' "$work/stderr"
npy one.npy f4 '(1, 1)' 1
npy far.npy f4 '(2, 1)' 200 0
npy inf.npy f4 '(2, 1)' 1 inf
good "verify infinity behind a weight that underflows" $run one.npy far.npy inf.npy -o ../out/o.npy --verify
holds "verify infinity behind a weight that underflows: it is not lost" sh -c "od -An -tf4 -j128 ../out/o.npy | grep -q '[ni][an][nf]'"

npy nan.npy f4 '(2, 1)' nan nan
good "NaN alone" $run nan.npy far.npy far.npy -o ../out/o.npy
same "NaN alone: it is said" "$(cat "$work/stderr")" "clattn: warning: all 2 results are NaN: look for NaN or infinities in Q, K, V or --bias"
good "NaN alone, no warnings" $run nan.npy far.npy far.npy -o ../out/o.npy --no-lint
same "NaN alone, no warnings: silence" "$(cat "$work/stderr")" ""
good "NaN alone, verified" $run nan.npy far.npy far.npy -o ../out/o.npy --verify
holds "NaN alone, verified: how many" grep -q '^verify: ok, .*; 2 of 2 results are NaN$' "$work/stderr"

# ---- tensors that share a file ----
good "results in one file" $run $(case_of sdpa_rank3) -o ../out/r.safetensors:o --lse ../out/r.safetensors:lse
"$clattn" inspect ../out/r.safetensors >"$work/stdout"
holds "results in one file: both are there" sh -c "grep -q '^o  *f32  *\[3, 5, 8\]' '$work/stdout' && grep -q '^lse  *f32  *\[3, 5\]' '$work/stdout'"

holds_all() { # NAME COUNT: the file has that many tensors, and those of the first run
    "$clattn" inspect r.safetensors >"$work/stdout" 2>&1
    same "$1: tensors" "$(grep -c ' f32 ' "$work/stdout")" "$2"
}
run_it $run $(case_of sdpa_rank3) -o r.safetensors:o --lse r.safetensors:lse
good "results beside others" $run $(case_of sdpa_rank3) -o r.safetensors:again
holds_all "results beside others" 3
good "results in place of others" $run $(case_of sdpa_gqa_8_2) -o r.safetensors:again
holds_all "results in place of others" 3
holds "results in place of others: the older one is gone" sh -c "! grep -q '^again .*\[3, 5, 8\]' '$work/stdout'"
run_it $run $(case_of sdpa_rank3) --dump r.safetensors
good "results beside a case" $run $(case_of sdpa_rank3) -o r.safetensors
good "results beside a case: its metadata are kept" check r.safetensors --device cpu
echo "no tensors" >r.safetensors
cp r.safetensors kept
bad "results beside what is no safetensors file" 1 'r\.safetensors is there, and no tensor can be added to it: ' \
    $run $(case_of sdpa_rank3) -o r.safetensors:o
holds "results beside what is no safetensors file: it is as it was" cmp -s kept r.safetensors
rm -f kept r.safetensors

# ---- links and read-only files ----
cp q2.npy target.npy
ln -s target.npy link.npy
good "output through a link" $run $three -o link.npy
holds "output through a link: it is still one" test -L link.npy
same "output through a link: its file is written" "$(values target.npy)" "0.25 0.25 0.25 0.25 0.25 0.25 0.25 0.25"
ln -s nowhere.npy dangling.npy
bad "output through a link that leads nowhere" 1 'leads nowhere' $run $three -o dangling.npy
bad "output over an input through a link" 2 'would replace the file' $run target.npy k4.npy eye4.npy -o link.npy
cp q2.npy fixed.npy
chmod 444 fixed.npy
bad "output over a read-only file" 1 'fixed.npy cannot be written: it is there, and is read-only' $run $three -o fixed.npy
holds "output over a read-only file: it is as it was" cmp -s q2.npy fixed.npy

# ---- dump: the same problem through another layout is the same case, byte by byte ----
run_it run --device cpu --algorithm reference $(case_of sdpa_layout_bshd_gqa_causal) --layout bshd --causal --dump ../out/c.safetensors
same "dump: exit status" "$status" 0
cp ../out/c.safetensors first.safetensors
c=first.safetensors
run_it run --device cpu --algorithm reference $c:run/Q $c:run/K $c:run/V --causal --dump ../out/c.safetensors
holds "dump: canonical tensors give the same case" cmp -s $c ../out/c.safetensors
good "dump: check replays it" check $c --device cpu
same "dump: check's verdict" "$(tail -n 1 "$work/stdout")" "1 passed, 0 failed, 0 skipped"
run_it $run $(case_of sdpa_bmask_BHQ1) --drop "$torch:sdpa_bmask_BHQ1/attn_mask" --bias "$torch:sdpa_fmask_BHQK/attn_mask" \
    --causal=bottom-right --window 3,inf --lengths 4,5 --scale 0.3 --lse ../out/l.npy --weights ../out/w.npy --verify \
    --dump ../out/c.safetensors
same "dump of all options: exit status" "$status" 0
cp ../out/c.safetensors all.safetensors 2>/dev/null
good "dump of all options: check replays it" check all.safetensors --device cpu
same "dump of all options: check's verdict" "$(tail -n 1 "$work/stdout")" "1 passed, 0 failed, 0 skipped"
bad "dump over an input" 2 'would replace' $run $c:run/Q $c:run/K $c:run/V --causal --dump $c

# ---- heat map ----
printf 'the\n<b>&"fox"\njumps\r\n\nend' >five.txt
printf '1\n2\n3\n4\n5\n6\nseven' >seven.txt
rank3=$(case_of sdpa_rank3)
good "heat map" $run $rank3 --heatmap ../out/m.svg
holds "heat map: a drawing" is_svg ../out/m.svg
same "heat map: a panel a head and the mean" "$(grep -c 'head [0-2]<\|mean of 3 heads<' ../out/m.svg)" 4
bad "heat map that is no SVG" 2 'run: --heatmap .*m.png: the plot is SVG' $run $rank3 --heatmap ../out/m.png
good "heat map with labels" $run $rank3 --heatmap ../out/m.svg --labels five.txt,seven.txt
holds "heat map with labels: a drawing" is_svg ../out/m.svg
holds "heat map with labels: escaped" grep -q '&lt;b&gt;&amp;&quot;fox&quot;' ../out/m.svg
holds "heat map with labels: keys" grep -q '>seven</text>' ../out/m.svg
bad "labels, too few" 2 'five.txt has 5 lines, but there are 7 keys' $run $rank3 --heatmap ../out/m.svg --labels five.txt
bad "labels, no file" 2 'nothere.txt' $run $rank3 --heatmap ../out/m.svg --labels nothere.txt
bad "heat map of nothing" 2 'no weights to draw' $run none.npy k4.npy eye4.npy -o ../out/o.npy --heatmap ../out/m.svg
npy big.npy f4 '(600, 1)' for 600: 1
good "heat map of 600 x 600" $run big.npy big.npy big.npy --heatmap ../out/m.svg --causal
holds "heat map of 600 x 600: averaged" grep -q 'mean of 2 × 2 weights' ../out/m.svg
holds "heat map of 600 x 600: a drawing" is_svg ../out/m.svg

# ---- explain, devices, inspect ----
good "explain" $run $rank3 --explain
holds "explain: names the algorithm" grep -q '^algorithm ' "$work/stderr"
good "devices" devices
holds "devices: cpu is there" grep -q '^cpu ' "$work/stdout"
good "devices --json" devices --json
holds "devices --json: JSON" is_json "$work/stdout"
bad "devices, a word" 2 'one word too many' devices all
good "inspect safetensors" inspect "$torch"
same "inspect safetensors: the count" "$(tail -n 1 "$work/stdout")" "1042 tensors, 131 metadata keys"
good "inspect npy" inspect eye4.npy
same "inspect npy: type and shape" "$(cat "$work/stdout")" "f32  [4, 4]  64 bytes"
printf 'GGUF\3\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0n.x\4\0\0\0\7\0\0\0\1\0\0\0\0\0\0\0t\1\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0' >two.gguf
head -c 28 /dev/zero >>two.gguf
good "inspect gguf" inspect two.gguf
same "inspect gguf: tensor, metadata, counts" "$(tr -s '\n ' ' ' <"$work/stdout")" \
    "t f16 [2] 4 bytes metadata n.x: u32 7 1 tensor, 1 metadata key "
head -c 98 two.gguf >cut.gguf
bad "inspect gguf, cut" 2 'cut.gguf: .*4 bytes' inspect cut.gguf
bad "inspect, missing" 2 'nothere.npy' inspect nothere.npy
bad "inspect, broken" 2 'broken.npy' inspect broken.npy
bad "inspect, no file" 2 'needs a file' inspect
