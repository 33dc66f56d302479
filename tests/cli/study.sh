#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clattn study: usage errors, each experiment on the cpu and on the OpenCL device, in f64 and f32, JSON, plots.
#   study.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
verb=study
cd "$work" || exit 1

# ---- wrong use ----
run 2 "no name"
run 2 "an unknown name" sdpaa
says "an unknown name" "no experiment 'sdpaa'; did you mean sdpa\?"
run 2 "two names" sdpa scale
run 2 "an unknown type" sdpa --type f16
run 2 "no time" cost --limit 0
run 2 "too small" cost --to 100
run 2 "a seed" scale --seed -1
run 2 "no curves" sdpa --plot x.svg
says "no curves" 'sdpa has no curves'
run 2 "not an SVG" scale --plot x.png
run 1 "no such folder" sdpa --device cpu --json nowhere/x.json
run 1 "no such device" sdpa --device opencl:99:99

# ---- each experiment ----
devices=cpu
"$clattn" devices | grep -q '^opencl' && devices="cpu opencl"
for device in $devices; do
    for type in f64 f32; do
        for experiment in sdpa batched heads order causal; do
            run 0 "$experiment on $device in $type" "$experiment" --device "$device" --type "$type"
            says "$experiment on $device in $type" "^$experiment agrees in [0-9]+ figures"
        done
    done
done
if [ "$devices" != cpu ]; then
    run 0 "scale on a device" scale --device opencl --seed 5
    says "scale on a device" '^scale agrees in 25 figures'
    run 0 "stack on a device" stack --device opencl --type f32 --seed 5
    says "stack on a device" 'targets 4 to 7 changed: change of output 4 .* 0 +0 +0 +0$'
    says "stack, each place" 'target 2 changed: outputs behind it that change +- +5 +5 +0 +0$'
    run 0 "gradient on a device" gradient --device opencl --type f32 --seed 5
    says "gradient on a device" '^gradient agrees in 49 figures'
    says "gradient, medians" 'd_k 1024: median .dQ., raw +- +0\.00030'
    run 0 "cost on a device" cost --device opencl --to 512 --json cost.json
    says "cost on a device" 'entries of the score matrix that are written +262144 +262144 +262144 +0 '
    holds "rows of cost" grep -q '"materialised_ms":' cost.json
fi

# ---- all of them ----
run 0 "all" all -d cpu --to 1024 --plot a.svg --json a.json
says "all" '^[0-9]+ agree, 0 off, 0 failed, 0 skipped$'
says "layers" '^ +24( +[0-9.e+-]+){5}$'
for each in scale cost gradient; do
    holds "a plot of $each" [ -s "a-$each.svg" ]
done
holds "an SVG" grep -q '<svg' a-scale.svg
holds "JSON" grep -q '"experiment":.*"scale"' a.json
holds "JSON's figures" [ "$(grep -c '"figure":.*"d_k ' a.json)" -eq 65 ]
holds "JSON's layers" [ "$(grep -c '"residual_norm_before":' a.json)" -eq 9 ]

finish
