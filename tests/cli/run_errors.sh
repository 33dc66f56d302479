# SPDX-License-Identifier: Apache-2.0
# For run.sh: wrong use and failed jobs: exit status, one line, nothing written. Sourced.

run="run --device $device"
out=../out/o.npy

# ---- the verb table ----
bad "unknown verb" 2 "there is no verb 'rnu'; did you mean .clattn run" rnu
good "help" --help
good "help verb" help run
good "version" --version
holds "version: text" grep -Eq '^clattn [0-9]+\.[0-9]+\.[0-9]+$' "$work/stdout"
for verb in run check bench devices inspect; do
    good "$verb --help" $verb --help
    holds "$verb --help: usage first" sh -c "head -n 1 '$work/stdout' | grep -q '^Usage: clattn $verb'"
done
good "run --help" run --help
holds "run --help states the polarity" grep -q 'NONZERO = MAY BE SEEN' "$work/stdout"
run_it
same "no verb: exit status" "$status" 2

# ---- options ----
three="q2.npy k4.npy eye4.npy"
bad "unknown option" 2 '--casual; did you mean --causal' $run $three -o $out --casual
bad "unknown option, letters changed about" 2 '--hlep; did you mean --help' $run $three -o $out --hlep
bad "unknown letter" 2 'there is no option -z' $run $three -o $out -z
bad "missing value" 2 '--bias needs a value' $run $three -o $out --bias
bad "value missing before an option" 2 '--bias needs a value' $run $three --bias --causal -o $out
bad "flag with a value" 2 '--explain takes no value' $run $three -o $out --explain=yes
bad "verify, no number" 2 '--verify=yes is no number of rows' $run $three -o $out --verify=yes
bad "verify, no rows" 2 '--verify=0 is no number of rows' $run $three -o $out --verify=0
bad "option given twice" 2 '--scale is given twice' $run $three -o $out --scale 1 --scale 2
bad "too few words" 2 'needs three tensor files' $run q2.npy k4.npy -o $out
bad "too many words" 2 "'causal' is one word too many; did you mean --causal" $run $three causal -o $out
bad "nothing to do" 2 'add -o' $run $three
bad "algorithm" 2 '--algorithm fast is none of .*reference' $run $three -o $out --algorithm fast
bad "scale" 2 '--scale nan is no finite number' $run $three -o $out --scale nan
bad "scale, trailing text" 2 '--scale 1x' $run $three -o $out --scale 1x
bad "window" 2 '--window 3 is not LEFT,RIGHT' $run $three -o $out --window 3 --align 0
bad "window, negative" 2 '--window -2,0 is not LEFT,RIGHT' $run $three -o $out --window -2,0 --align 0
bad "layout" 2 '--layout hdbs is none of' $run $three -o $out --layout hdbs
bad "heads" 2 '--heads 4/ is not H' $run $three -o $out --heads 4/
bad "heads that do not divide each other" 2 '4 query heads do not divide into 3' $run $three -o $out --heads 4/3
bad "causal, misspelt" 2 '--causal=left' $run $three -o $out --causal=left
bad "contradiction" 2 'contradict' $run $three -o $out --causal=top-left --align bottom-right
bad "align alone" 2 'neither is given' $run $three -o $out --align top-left
bad "align, no number" 2 '--align x' $run $three -o $out --causal --align x
bad "labels alone" 2 'add --heatmap' $run $three -o $out --labels x.txt
bad "batch too high" 2 '--batch 1 of 1' $run $three --heatmap ../out/m.svg --batch 1

# ---- alignment when N != M ----
bad "causal without alignment" 2 '2 queries and 4 keys.*--causal=top-left.*--causal=bottom-right' $run $three -o $out --causal
bad "window without alignment" 2 '2 queries and 4 keys.*--align' $run $three -o $out --window 1,1

# ---- input files ----
bad "missing file" 2 'q: .*nothere.npy' $run nothere.npy k4.npy eye4.npy -o $out
bad "missing mask" 2 'keep: .*nothere.npy' $run $three -o $out --keep nothere.npy
bad "missing tensor in a file" 2 'q: .*sdpa_rank3/X' $run "$tests/vectors/torch.safetensors:sdpa_rank3/X" k4.npy eye4.npy -o $out
bad "a file that names no type" 2 'q.txt' $run q.txt k4.npy eye4.npy -o $out
echo "no array" >broken.npy
bad "not an npy" 2 'k: .*broken.npy' $run q2.npy broken.npy eye4.npy -o $out
head -c 130 k4.npy >short.npy
bad "a truncated npy" 2 'k: .*short.npy' $run q2.npy short.npy eye4.npy -o $out
bad "a folder" 2 'q: ' $run . k4.npy eye4.npy -o $out
npy i8.npy i8 '(2, 1)' 0 0
bad "integers" 2 'i64; attention takes f32, f64, f16 and bf16' $run i8.npy i8.npy i8.npy -o $out

# ---- ranks and shapes ----
npy r1.npy f4 '(2,)' 0 0
npy r5.npy f4 '(1, 1, 1, 1, 1)' 0
npy r3.npy f4 '(1, 2, 1)' 0 0
bad "rank 1" 2 'q \(r1.npy\) is \[2\], rank 1' $run r1.npy k4.npy eye4.npy -o $out
bad "rank 5" 2 'rank 5' $run r5.npy r5.npy r5.npy -o $out
bad "ranks that differ" 2 'q \(r3.npy\) has rank 3, k \(k4.npy\) 2, v \(eye4.npy\) 2' $run r3.npy k4.npy eye4.npy -o $out
bad "layout sd of rank 3" 2 '--layout sd takes rank 2' $run r3.npy r3.npy r3.npy -o $out --layout sd
bad "layout bse without heads" 2 'needs --heads' $run r3.npy r3.npy r3.npy -o $out --layout bse
bad "rank 3 with heads only" 2 '--layout bse' $run r3.npy r3.npy r3.npy -o $out --heads 1
bad "columns that do not divide" 2 'q \(v_bse.npy\).*4 columns do not divide into 3 heads' $run v_bse.npy v_bse.npy v_bse.npy -o $out --layout bse --heads 3
bad "heads that are others" 2 '2 heads, but --heads says 4' $run z_bhsd.npy z_bhsd.npy v_bhsd.npy -o $out --heads 4
npy d2.npy f4 '(4, 2)' 0 0 0 0 0 0 0 0
bad "head dims that differ" 2 'k \(d2.npy\) \[1, 1, 4, 2\]: head dim 2, but q \(q2.npy\) has 1' $run q2.npy d2.npy eye4.npy -o $out
bad "keys and values that differ" 2 'k \(k4.npy\) \[1, 1, 4, 1\] and v \(eye.npy\) \[1, 1, 2, 2\]: heads' $run q2.npy k4.npy eye.npy -o $out
npy h3.npy f4 '(3, 2, 1)' for 6: 0
npy h2.npy f4 '(2, 2, 1)' for 4: 0
bad "heads that do not divide" 2 'k \(h2.npy\): 2 key heads.*3 query heads' $run h3.npy h2.npy h2.npy -o $out
npy d0.npy f4 '(2, 0)' ''
bad "head dim 0" 2 '0' $run d0.npy d0.npy eye.npy -o $out
npy b2.npy f4 '(2, 1, 2, 1)' for 4: 0
npy b3.npy f4 '(3, 1, 2, 1)' for 6: 0
bad "batches that differ" 2 'k \(b3.npy\), v \(b3.npy\): batch 3 and 3, but q \(b2.npy\) has 2' $run b2.npy b3.npy b3.npy -o $out

# ---- masks ----
bad "a float mask for keep" 2 '--keep takes bool or u8.*--bias' $run q.npy k.npy eye.npy -o $out --keep bias.npy
bad "a float mask for drop" 2 '--drop takes bool or u8.*--bias' $run q.npy k.npy eye.npy -o $out --drop bias.npy
bad "a bool for bias" 2 '--keep .nonzero = may be seen. or --drop' $run q.npy k.npy eye.npy -o $out --bias first.npy
bad "an integer mask" 2 'i64; --keep takes bool or u8' $run q.npy k.npy eye.npy -o $out --keep lengths.npy
npy m1.npy b1 '(2,)' 1 1
bad "a mask of rank 1" 2 'rank 1' $run q.npy k.npy eye.npy -o $out --keep m1.npy
npy m3.npy b1 '(1, 3)' 1 1 1
bad "a mask that does not broadcast" 2 '--keep m3.npy \[1, 3\]: .*3.*2' $run q.npy k.npy eye.npy -o $out --keep m3.npy

# ---- lengths and offsets ----
bad "lengths, too many" 2 '2 numbers for 1 batch;' $run $three -o $out --lengths 1,2
bad "lengths, beyond M" 2 '--lengths 5: batch 0 has 5, outside 0 to 4' $run $three -o $out --lengths 5
bad "key lengths, beyond M" 2 '--key-lengths 5: batch 0 has 5, outside 0 to 4' $run $three -o $out --key-lengths 5
bad "lengths, negative" 2 '-1' $run $three -o $out --lengths=-1
bad "lengths, floats" 2 'f32; it takes i32 or i64' $run $three -o $out --lengths q.npy
bad "offsets, too many" 2 '2 numbers for 1 batch;' $run $three -o $out --causal --align 1,2

# ---- devices and writing ----
bad "no such device" 1 'device' run $three --device opencl:99:99 -o $out
CLATTN_DEVICE=gpu bad "a device of the environment" 2 '^clattn: CLATTN_DEVICE: device "gpu": not one of' run $three -o $out
bad "a device that is no device" 2 '^clattn: device "toaster": not one of' run $three --device toaster -o $out
bad "output of no type" 2 'X.npy or FILE.safetensors:NAME' $run $three -o ../out/o.txt
bad "no folder" 1 'no folder ../out/sub/' $run $three -o ../out/sub/o.npy
bad "two outputs in one place" 2 '-o and --lse would write to the same place' $run $three -o $out --lse $out
bad "two tensors of one name" 2 'same place' $run $three -o ../out/a.safetensors:x --lse ../out/a.safetensors:x
cp q2.npy keep_me.npy
bad "output over an input" 2 'would replace the file' $run keep_me.npy k4.npy eye4.npy -o keep_me.npy
holds "output over an input: it is as it was" cmp -s q2.npy keep_me.npy
npy wide.npy f4 '(64, 64)' for 4096: 1
full() {
    trap '' XFSZ
    ulimit -f 2
    export GCOV_PREFIX="$work/counts" # where branches are counted, theirs would end in the middle too
    exec "$clattn" run --device cpu wide.npy wide.npy wide.npy --lse ../out/l.npy -o ../out/o.npy
}
rm -rf "$work/out" && mkdir "$work/out"
(full) >"$work/stdout" 2>"$work/stderr"
same "a file that cannot grow: exit status" "$?" 1
same "a file that cannot grow: lines" "$(wc -l <"$work/stderr" | tr -d ' ')" 1
same "a file that cannot grow: nothing is left, not even what fitted" "$(ls -A "$work/out")" ""
