# SPDX-License-Identifier: Apache-2.0
# For run.sh: results that are known by hand. Sourced.

run="run --device $device"

# ---- which head sees which key head, in every layout (open case C01): V of key heads 10 and 20 ----
npy q4.npy f4 '(1, 4, 1, 1)' 0 0 0 0
npy kv.npy f4 '(1, 2, 1, 1)' 10 20
good "grouped heads, bhsd" $run q4.npy kv.npy kv.npy -o ../out/o.npy
same "grouped heads, bhsd: values" "$(values ../out/o.npy)" "10 10 20 20"
npy q3.npy f4 '(4, 1, 1)' 0 0 0 0
npy kv3.npy f4 '(2, 1, 1)' 10 20
good "grouped heads, rank 3" $run q3.npy kv3.npy kv3.npy -o ../out/o.npy --lse ../out/l.npy --weights ../out/w.npy
same "grouped heads, rank 3: values" "$(values ../out/o.npy)" "10 10 20 20"
same "grouped heads, rank 3: lse of one key is its score" "$(values ../out/l.npy)" "0 0 0 0"
same "grouped heads, rank 3: one weight of 1" "$(values ../out/w.npy)" "1 1 1 1"
npy qe.npy f4 '(1, 1, 4)' 0 0 0 0
npy kve.npy f4 '(1, 1, 2)' 10 20
good "grouped heads, bse" $run qe.npy kve.npy kve.npy -o ../out/o.npy --layout bse --heads 4/2
same "grouped heads, bse: values" "$(values ../out/o.npy)" "10 10 20 20"
npy qe2.npy f4 '(1, 4)' 0 0 0 0
npy kve2.npy f4 '(1, 2)' 10 20
good "grouped heads, [S, E] by --heads" $run qe2.npy kve2.npy kve2.npy -o ../out/o.npy --heads 4/2
same "grouped heads, [S, E]: values" "$(values ../out/o.npy)" "10 10 20 20"

# ---- layouts: two queries, two heads, V dim 2; the same numbers in each order ----
# weights are uniform, so that O[h] is the mean of V over the keys: head 0: (1 + 3) / 2, (2 + 4) / 2; head 1 plus 10
npy z_bhsd.npy f4 '(1, 2, 2, 1)' 0 0 0 0
npy v_bhsd.npy f4 '(1, 2, 2, 2)' 1 2 3 4 11 12 13 14
npy z_bshd.npy f4 '(1, 2, 2, 1)' 0 0 0 0
npy v_bshd.npy f4 '(1, 2, 2, 2)' 1 2 11 12 3 4 13 14
npy z_bse.npy f4 '(1, 2, 2)' 0 0 0 0
npy v_bse.npy f4 '(1, 2, 4)' 1 2 11 12 3 4 13 14
good "layout bhsd" $run z_bhsd.npy z_bhsd.npy v_bhsd.npy -o ../out/o.npy --layout bhsd
same "layout bhsd: values" "$(values ../out/o.npy)" "2 3 2 3 12 13 12 13"
good "layout bshd" $run z_bshd.npy z_bshd.npy v_bshd.npy -o ../out/o.npy --layout bshd
same "layout bshd: o as q" "$(values ../out/o.npy)" "2 3 12 13 2 3 12 13"
good "layout bse" $run z_bse.npy z_bse.npy v_bse.npy -o ../out/o.npy --layout bse --heads 2
same "layout bse: o as q" "$(values ../out/o.npy)" "2 3 12 13 2 3 12 13"
good "inspect of the result" inspect ../in/v_bse.npy
good "layout bse, causal" $run z_bse.npy z_bse.npy v_bse.npy -o ../out/o.npy --layout bse --heads 2 --causal
same "layout bse, causal: values" "$(values ../out/o.npy)" "1 2 11 12 2 3 12 13"
npy z_sd.npy f4 '(2, 1)' 0 0
npy v_sd.npy f4 '(2, 2)' 1 2 3 4
good "layout sd" $run z_sd.npy z_sd.npy v_sd.npy -o ../out/o.npy --layout sd
same "layout sd: values" "$(values ../out/o.npy)" "2 3 2 3"

# ---- polarity of masks (open case A16): scores 0, V = I ----
npy q.npy f4 '(1, 1)' 0
npy k.npy f4 '(2, 1)' 0 0
npy eye.npy f4 '(2, 2)' 1 0 0 1
npy first.npy b1 '(1, 2)' 1 0
npy first_u8.npy u1 '(1, 2)' 7 0
npy bias.npy f4 '(1, 2)' 0 -inf
good "keep" $run q.npy k.npy eye.npy -o ../out/o.npy --keep first.npy
same "keep: nonzero may be seen" "$(values ../out/o.npy)" "1 0"
good "keep, u8" $run q.npy k.npy eye.npy -o ../out/o.npy --keep first_u8.npy
same "keep, u8: any nonzero may be seen" "$(values ../out/o.npy)" "1 0"
good "drop" $run q.npy k.npy eye.npy -o ../out/o.npy --drop first.npy
same "drop: nonzero may not be seen" "$(values ../out/o.npy)" "0 1"
good "keep and drop together" $run q.npy k.npy eye.npy -o ../out/o.npy --lse ../out/l.npy --keep first.npy --drop first.npy
same "keep and drop: nothing is left, zeros" "$(values ../out/o.npy)" "0 0"
same "keep and drop: nothing is left, lse" "$(values ../out/l.npy)" "-inf"
good "bias" $run q.npy k.npy eye.npy -o ../out/o.npy --bias bias.npy
same "bias: -inf hides" "$(values ../out/o.npy)" "1 0"

# ---- causal and windows with M != N (open cases B01 to B03): scores 0, V = I of 4 ----
npy q2.npy f4 '(2, 1)' 0 0
npy k4.npy f4 '(4, 1)' 0 0 0 0
npy eye4.npy f4 '(4, 4)' 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1
causal="$run q2.npy k4.npy eye4.npy -o ../out/o.npy"
good "causal top-left" $causal --causal=top-left
same "causal top-left: values" "$(values ../out/o.npy)" "1 0 0 0 0.5 0.5 0 0"
good "causal bottom-right" $causal --causal=bottom-right --window -1,0
same "causal bottom-right: values" "$(values ../out/o.npy | sed 's/0.3333333[0-9]*/T/g')" "T T T 0 0.25 0.25 0.25 0.25"
good "causal with an offset" $causal --causal --align 1
same "causal with an offset: values" "$(values ../out/o.npy | sed 's/0.3333333[0-9]*/T/g')" "0.5 0.5 0 0 T T T 0"
good "causal --align top-left" $causal --causal --align top-left
good "window to one side" $causal --window 1,inf --align bottom-right
same "window to one side: values" "$(values ../out/o.npy | sed 's/0.3333333[0-9]*/T/g')" "0 T T T 0 0 0.5 0.5"
good "window 0,0" $causal --window 0,0 --align 2
same "window 0,0: values" "$(values ../out/o.npy)" "0 0 1 0 0 0 0 1"
good "lengths" $causal --lengths 2
same "lengths: values" "$(values ../out/o.npy)" "0.5 0.5 0 0 0.5 0.5 0 0"
npy lengths.npy i8 '(1,)' 1
good "lengths from a file" $causal --lengths lengths.npy
same "lengths from a file: values" "$(values ../out/o.npy)" "1 0 0 0 1 0 0 0"
good "length 0" $causal --lengths 0
same "length 0: zeros" "$(values ../out/o.npy)" "0 0 0 0 0 0 0 0"

# ---- scale: 0 is a number, not the default (open case C14) ----
npy q1.npy f4 '(1, 1)' 100
npy k12.npy f4 '(2, 1)' 0 100
good "default scale" $run q1.npy k12.npy eye.npy -o ../out/o.npy
same "default scale: values" "$(values ../out/o.npy)" "0 1"
good "scale 0" $run q1.npy k12.npy eye.npy -o ../out/o.npy --scale 0
same "scale 0: uniform" "$(values ../out/o.npy)" "0.5 0.5"
good "scale -1" $run q1.npy k12.npy eye.npy -o ../out/o.npy --scale -1
same "scale -1: values" "$(values ../out/o.npy)" "1 0"

# ---- f64, NaN under a mask, sizes of zero ----
npy q64.npy f8 '(1, 1)' 0
npy k64.npy f8 '(2, 1)' 0 0
npy eye64.npy f8 '(2, 2)' 1 0 0 1
good "f64" $run q64.npy k64.npy eye64.npy -o ../out/o.npy
same "f64: values" "$(values ../out/o.npy f8)" "0.5 0.5"
npy nan.npy f4 '(2, 2)' 1 2 nan inf
good "NaN under a mask" $run q.npy k.npy nan.npy -o ../out/o.npy --keep first.npy
same "NaN under a mask: not seen" "$(values ../out/o.npy)" "1 2"
npy none.npy f4 '(0, 1)' ''
npy none_v.npy f4 '(0, 2)' ''
good "no keys" $run q2.npy none.npy none_v.npy -o ../out/o.npy --lse ../out/l.npy
same "no keys: zeros" "$(values ../out/o.npy)" "0 0 0 0"
same "no keys: lse" "$(values ../out/l.npy)" "-inf -inf"
good "no queries" $run none.npy k4.npy eye4.npy -o ../out/o.npy --verify
same "no queries: empty" "$(values ../out/o.npy)" ""
