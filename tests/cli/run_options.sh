# SPDX-License-Identifier: Apache-2.0
# For run.sh: types, and every option of an attention call, with results that are known by hand. Sourced.
# Most take scores of 0 and V = I, so that O is the weights.

# ---- types: f16 and bf16 as they lie; each tensor its own ----
npy q16.npy f2 '(1, 1)' 0
npy k16.npy f2 '(2, 1)' 0 0
npy eye16.npy f2 '(2, 2)' 1 0 0 1
good "f16" $run q16.npy k16.npy eye16.npy -o ../out/o.npy --lse ../out/l.npy --verify
"$clattn" inspect ../out/o.npy >"$work/stdout"
holds "f16: o is f16" grep -q '^f16  \[1, 2\]' "$work/stdout"
"$clattn" inspect ../out/l.npy >"$work/stdout"
holds "f16: lse is in the type of the sums" grep -q '^f32' "$work/stdout"
good "f16 in, f32 out" $run q16.npy k16.npy eye16.npy -o ../out/o.npy --o-type f32
same "f16 in, f32 out: values" "$(values ../out/o.npy)" "0.5 0.5"
good "mixed types" $run q.npy k16.npy eye16.npy -o ../out/o.npy --bias bias.npy --verify
same "mixed types: values" "$(values ../out/o.npy)" "1 0"
good "f64 with f16" $run q64.npy k16.npy eye16.npy -o ../out/o.npy --lse ../out/l.npy
same "f64 with f16: values" "$(values ../out/o.npy f8) $(values ../out/l.npy f8)" "0.5 0.5 0.6931472"
good "bf16 through a file" $run q.npy k.npy eye.npy -o ../out/b.safetensors:o --o-type bf16
"$clattn" inspect ../out/b.safetensors >"$work/stdout"
holds "bf16 through a file: it is bf16" grep -q 'bf16  *\[1, 2\]' "$work/stdout"
bad "bf16 in an npy file" 2 'bf16, which NPY files do not have.*--o-type f32' $run q.npy k.npy eye.npy -o $out --o-type bf16
bad "o-type" 2 '--o-type q8_0 is none of' $run q.npy k.npy eye.npy -o $out --o-type q8_0
npy k32.npy f4 '(2, 32)' for 32: 0 for 32: 1
npy q32.npy f4 '(1, 32)' for 32: 0
npy v32.npy f4 '(2, 32)' for 32: 1 for 32: 3
for type in f16 bf16 q8_0 q4_0 q8_0,q4_0 f64; do
    good "kv-type $type" $run q32.npy k32.npy v32.npy -o ../out/o.npy --kv-type $type --verify
    same "kv-type $type: the mean of V" "$(values ../out/o.npy | awk '{printf "%.2f %.2f %d", $1, $32, NF}')" "2.00 2.00 32"
done
bad "kv-type" 2 '--kv-type i8 is no type' $run q32.npy k32.npy v32.npy -o $out --kv-type i8
bad "kv-type without whole blocks" 2 '--kv-type q8_0: k.*whole blocks of 32' $run q.npy k.npy eye.npy -o $out --kv-type q8_0

# ---- scores ----
npy one.npy f4 '(1, 1)' 1
npy far.npy f4 '(2, 1)' 0 1000
good "soft cap" $run one.npy far.npy eye.npy -o ../out/o.npy --softcap 0.6931472 --verify
same "soft cap: e^cap = 2" "$(values ../out/o.npy | sed 's/0.333333[0-9]*/T/; s/0.666666[0-9]*/U/')" "T U"
bad "soft cap beyond f32" 2 '--softcap: 1e\+60; ' $run one.npy far.npy eye.npy -o $out --softcap 1e60
bad "soft cap of 0" 2 '--softcap 0 is no finite number above 0' $run one.npy far.npy eye.npy -o $out --softcap 0
good "ALiBi" $run z_sd.npy z_sd.npy eye.npy --alibi-slopes 0.6931472 -o ../out/o.npy --verify
same "ALiBi: half a step away" "$(values ../out/o.npy | sed 's/0.333333[0-9]*/T/g; s/0.66666[0-9]*/U/g')" "U T T U"
good "ALiBi, the usual slopes" $run z_bhsd.npy z_bhsd.npy v_bhsd.npy --alibi -o ../out/a.npy --verify
npy slopes.npy f4 '(2,)' 0.0625 0.00390625
cp ../out/a.npy usual.npy
good "ALiBi, slopes from a file" $run z_bhsd.npy z_bhsd.npy v_bhsd.npy --alibi-slopes slopes.npy -o ../out/o.npy
holds "ALiBi: the usual slopes of two heads are 1/16 and 1/256" cmp -s usual.npy ../out/o.npy
bad "ALiBi twice" 2 'say one of them' $run z_sd.npy z_sd.npy eye.npy --alibi --alibi-slopes 1 -o $out
bad "ALiBi, a place beyond its own" 2 '--offsets 7000000000000: batch 0 has 7000000000000; with ALiBi' $run z_sd.npy z_sd.npy eye.npy --alibi --offsets 7000000000000 -o $out
bad "ALiBi, too many slopes" 2 '2 numbers for 1 head;' $run z_sd.npy z_sd.npy eye.npy --alibi-slopes 1,2 -o $out
bad "ALiBi without alignment" 2 '--alibi with 2 queries and 4 keys needs an alignment' $run $three --alibi -o $out
good "ALiBi with an alignment" $run $three --alibi --align bottom-right -o ../out/o.npy --verify
npy sink.npy f4 '(1,)' 0
good "sinks" $run q.npy k.npy eye.npy --sinks sink.npy -o ../out/o.npy --verify
same "sinks: a third key without a value" "$(values ../out/o.npy | sed 's/0.333333[0-9]*/T/g')" "T T"
good "sinks in f64" $run q64.npy k.npy eye.npy --sinks sink.npy -o ../out/o.npy --verify
bad "sinks, too many" 2 '--sinks slopes.npy \[2\]: should be \[1\]' $run q.npy k.npy eye.npy --sinks slopes.npy -o $out

# ---- who sees whom ----
good "key lengths" $causal --key-lengths 1
same "key lengths: values" "$(values ../out/o.npy)" "1 0 0 0 1 0 0 0"
bad "key lengths of more batches" 2 '--key-lengths 1,2: 2 numbers for 1 batch' $causal --key-lengths 1,2
bad "lengths of more batches" 2 '--lengths 1,2: 2 numbers for 1 batch' $causal --lengths 1,2
bad "lengths twice" 2 '--lengths and --key-lengths are the same' $causal --key-lengths 1 --lengths 1
good "query lengths" $causal --query-lengths 1 --key-lengths 2
same "query lengths: the others see nothing" "$(values ../out/o.npy)" "0.5 0.5 0 0 0 0 0 0"
good "prefix lengths" $causal --causal=top-left --prefix-lengths 2
same "prefix lengths: seen by all" "$(values ../out/o.npy)" "0.5 0.5 0 0 0.5 0.5 0 0"
bad "prefix lengths alone" 2 'prefix-lengths loosen --causal' $causal --prefix-lengths 2
npy off.npy i8 '(1,)' 1
good "offsets from a file" $causal --causal --offsets off.npy
same "offsets from a file: values" "$(values ../out/o.npy | sed 's/0.3333333[0-9]*/T/g')" "0.5 0.5 0 0 T T T 0"
bad "offsets and align" 2 'both place the queries' $causal --causal --offsets off.npy --align 1
npy qs.npy i8 '(1, 2)' 7 9
npy ks.npy i8 '(4,)' 9 9 7 9
good "segments" $causal --query-segments qs.npy --key-segments ks.npy --verify
same "segments: keys of the same number" "$(values ../out/o.npy | sed 's/0.3333333[0-9]*/T/g')" "0 0 1 0 T T 0 T"
bad "segments of one side" 2 'add --key-segments' $causal --query-segments qs.npy
bad "segments of another size" 2 'it takes \[1, 4\]' $causal --query-segments qs.npy --key-segments qs.npy

npy short.npy b1 '(1, 3)' 0 1 1
good "a mask shorter than the keys" $causal --keep short.npy --short-masks --verify
same "a mask shorter than the keys: the missing are not seen" "$(values ../out/o.npy)" "0 0.5 0.5 0 0 0.5 0.5 0"
bad "a mask shorter than the keys, not said" 2 '--keep short.npy \[1, 3\]: .*3 is neither 1 nor 4; with --short-masks' $causal --keep short.npy

# ---- sequences, pages ----
npy qr.npy f4 '(1, 3, 1)' 0 0 0
npy vr.npy f4 '(1, 4, 1)' 2 4 8 16
npy kr.npy f4 '(1, 4, 1)' 0 0 0 0
good "sequences" $run qr.npy kr.npy vr.npy --cu-queries 0,1,3 --cu-keys 0,2,4 -o ../out/o.npy --lse ../out/l.npy --verify
same "sequences: the mean of each one's values" "$(values ../out/o.npy)" "3 12 12"
npy cu.npy i8 '(3,)' 0 1 3
good "sequences from a file" $run qr.npy kr.npy vr.npy --cu-queries cu.npy --cu-keys 0,2,4 --key-lengths 2,1 -o ../out/o.npy
same "sequences with lengths" "$(values ../out/o.npy)" "3 8 8"
bad "sequences, causal" 2 '--causal with 2 queries and 2 keys needs an alignment' $run qr.npy kr.npy vr.npy --cu-queries 0,1,3 --cu-keys 0,2,4 -o $out --causal
good "sequences, causal and aligned" $run qr.npy kr.npy vr.npy --cu-queries 0,1,3 --cu-keys 0,2,4 -o ../out/o.npy --causal=bottom-right
same "sequences, causal and aligned: values" "$(values ../out/o.npy)" "3 8 12"
bad "sequences without keys" 2 'add --cu-keys' $run qr.npy kr.npy vr.npy --cu-queries 0,1,3 -o $out
bad "sequences of another number" 2 '2 numbers, and --cu-queries has 3' $run qr.npy kr.npy vr.npy --cu-queries 0,1,3 --cu-keys 0,4 -o $out
bad "sequences that fall" 2 '--cu-queries 0,3,1: falls from 3 to 1' $run qr.npy kr.npy vr.npy --cu-queries 0,3,1 --cu-keys 0,2,4 -o $out
far=-9000000000000000000,9000000000000000000,3 # their differences are no 64-bit numbers
bad "sequences that start far away" 2 '--cu-queries .*starts at -9' $run qr.npy kr.npy vr.npy --cu-queries=$far --cu-keys 0,2,4 -o $out
bad "keys of sequences that start far away" 2 '--cu-keys .*starts at -9' $run qr.npy kr.npy vr.npy --cu-queries 0,1,3 --cu-keys=$far -o $out
npy q4d.npy f4 '(1, 1, 1, 1)' 0
npy kp.npy f4 '(3, 1, 2, 1)' for 6: 0
npy vp.npy f4 '(3, 1, 2, 1)' 1 2 nan nan 8 nan
npy table.npy i8 '(1, 2)' 0 2
good "pages" $run q4d.npy kp.npy vp.npy --block-table table.npy --key-lengths 3 -o ../out/o.npy --verify
same "pages: 1, 2 and 8" "$(values ../out/o.npy)" "3.666667"
bad "pages without lengths" 2 'add --key-lengths' $run q4d.npy kp.npy vp.npy --block-table table.npy -o $out
npy wild.npy i8 '(1, 2)' 0 9
npy empty4.npy f4 '(0, 1, 1, 1)'
npy no.npy i8 '(0,)'
npy many.npy i8 '(0, 6000000000000000000)'
bad "more keys than can be counted" 2 '6000000000000000000 pages of 2 keys are too many' $run empty4.npy kp.npy vp.npy --block-table many.npy --key-lengths no.npy -o $out
bad "a page that is not there" 2 '--block-table wild.npy: .*is 9, outside 0 to 2' $run q4d.npy kp.npy vp.npy --block-table wild.npy --key-lengths 3 -o $out

# ---- computing ----
good "batch-invariant" $run z_bhsd.npy z_bhsd.npy v_bhsd.npy -o ../out/o.npy --batch-invariant
good "max-workspace" $run z_bhsd.npy z_bhsd.npy v_bhsd.npy -o ../out/o.npy --max-workspace 1000000
bad "max-workspace of 0" 2 '--max-workspace 0 is no number of bytes' $run q.npy k.npy eye.npy -o $out --max-workspace 0

# ---- dump and replay ----
replays() { # NAME ARGUMENT...
    replays_name=$1
    shift
    good "dump, $replays_name" "$@" --lse ../out/l.npy --verify --dump ../out/c.safetensors
    cp ../out/c.safetensors replay.safetensors
    good "dump, $replays_name: check replays it" check replay.safetensors --device cpu
    same "dump, $replays_name: check's verdict" "$(tail -n 1 "$work/stdout")" "1 passed, 0 failed, 0 skipped"
}
npy qr2.npy f4 '(2, 1)' 1 2
npy kr2.npy f4 '(2, 1)' 0 3
npy table1.npy i8 '(1, 1)' 1
replays "scores" $run qr2.npy kr2.npy eye.npy --softcap 2 --alibi --sinks sink.npy --causal --prefix-lengths 2 --query-lengths 2
replays "segments" $run $three --query-segments qs.npy --key-segments ks.npy --batch-invariant
replays "sequences" $run qr.npy kr.npy vr.npy --cu-queries 0,1,3 --cu-keys 0,2,4 --causal=bottom-right
replays "pages" $run q4d.npy kp.npy vp.npy --block-table table.npy --key-lengths 3
replays "blocks" $run q32.npy k32.npy v32.npy --kv-type q8_0,q4_0
replays "f64 and f32" $run q64.npy k.npy eye64.npy --bias bias.npy
replays "a short mask" $run $three --keep short.npy --short-masks
replays "f16" $run q16.npy k16.npy eye16.npy
replays "f16 to f32" $run q16.npy k.npy eye16.npy --o-type f32
replays "weights" $run qr2.npy kr2.npy eye.npy --weights ../out/w.npy

# ---- warnings: on stderr, and the result is there all the same ----
warned() { # NAME PATTERN ARGUMENT...
    warned_name=$1 warned_pattern=$2
    shift 2
    good "$warned_name" "$@" -o ../out/o.npy
    same "$warned_name: one warning" "$(grep -c '^clattn: warning: ' "$work/stderr")" 1
    holds "$warned_name: what it says" grep -Eq -- "^clattn: warning: $warned_pattern" "$work/stderr"
    good "$warned_name, not wanted" "$@" -o ../out/o.npy --no-lint
    same "$warned_name: no warning" "$(cat "$work/stderr")" ""
}
npy low.npy f4 '(1, 2)' 0 -65504
npy min.npy f4 '(1, 2)' 0 -10000
npy zero.npy f4 '(1, 2)' 0 0
npy hide.npy f4 '(1, 2)' -inf -inf
npy no.npy b1 '(1, 2)' 0 0
npy yes.npy b1 '(1, 2)' 1 1
npy seven.npy b1 '(1, 2)' 7 1
npy after.npy b1 '(2, 2)' 0 1 1 1
npy big16.npy f2 '(2, 1)' inf 0
warned "a finite mask" '--bias low.npy: 1 of 2 numbers are -65504 .*write -inf' $run q.npy k.npy eye.npy --bias low.npy
warned "another finite mask" '--bias min.npy: 1 of 2 numbers are -10000 .*write -inf' $run q.npy k.npy eye.npy --bias min.npy
warned "a bias of zeros" '--bias zero.npy: all 2 numbers are 0' $run q.npy k.npy eye.npy --bias zero.npy
warned "every row masked" 'rows: all, 1 of 1 see no key' $run q.npy k.npy eye.npy --bias hide.npy
warned "keep hides all" '--keep no.npy: all 2 are 0.*give it as `--drop`' $run q.npy k.npy eye.npy --keep no.npy
warned "drop hides all" '--drop yes.npy: all 2 are nonzero.*give it as `--keep`' $run q.npy k.npy eye.npy --drop yes.npy
warned "bool bytes" '--keep seven.npy: 1 of 2 bytes are neither 0 nor 1' $run q.npy k.npy eye.npy --keep seven.npy
warned "scale 0" '--scale: is 0.*leave --scale unset' $run q.npy k.npy eye.npy --scale 0
warned "key lengths of 0" '--key-lengths 0: are 0' $run q.npy k.npy eye.npy --key-lengths 0
warned "f16 with infinity" 'k \(big16.npy\): 1 of 2 numbers are infinite' $run q16.npy big16.npy eye16.npy
warned "some rows masked" 'rows: 1 of 2 see no key, first \[0,0,1\].*--query-lengths says so' $run z_sd.npy z_sd.npy v_sd.npy --drop after.npy --causal --window 0,0
good "no warning" $run z_sd.npy z_sd.npy v_sd.npy --causal -o ../out/o.npy
same "no warning: silence" "$(cat "$work/stderr")" ""
