#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a device can do at most, and how near its kernels come: `clattn devices --peak`, `bench --file --peak --profile
# --roofline`, `run --profile`.
#   profile.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
verb=""
ASAN_OPTIONS=${ASAN_OPTIONS:-}:allocator_may_return_null=1
export ASAN_OPTIONS
fox=$(cd "$(dirname "$0")/../.." && pwd)/examples/data/fox.safetensors

wrong() { # NAME PATTERN ARGUMENTS...: a usage error that says so
    name=$1
    pattern=$2
    shift 2
    run 2 "$name" "$@"
    says "$name" "$pattern" "$work/err"
}

# ---- devices ----
run 0 "devices --peak" devices --peak
says "devices --peak" '^  peak +[0-9.]+ GFLOP/s \(f32 multiply-adds\), reads [0-9.]+ GB/s from memory \([0-9.]+ [MG]iB\), [0-9.]+ from caches'
says "devices --peak" '^cpu '
run 0 "devices --peak --json" devices --peak --json --device opencl
for key in gflops gbytes memory_bytes cached_gbytes cached_bytes; do says "devices --peak --json: $key" "\"$key\":[[:space:]]*[0-9.]+"; done
if grep -q '"cpu"' "$work/out"; then not_ok "--device: another one is listed"; else ok; fi
run 0 "devices --device cpu" devices --device cpu
says "devices --device cpu" '^cpu '
if grep -q ' peak ' "$work/out"; then not_ok "a peak that was not asked for"; else ok; fi
run 1 "a device that is not there" devices --device opencl:7:7

# ---- bench --file ----
cat >"$work/some.txt" <<'END'
# a comment

one: h2 n64 d16 ; peers>=1.5 # another
linear m8 n8 k8
two: linear m8 n8 k8 bias
  h2 q1 k128 d16  # without a name
END
run 0 "bench --file" bench --file "$work/some.txt" --devices cpu --algorithms reference --repeat 1
says "bench --file" '^2 linear layers of --file are no attention: not run$'
says "bench --file" '^b1 h2 n64 d16 f32$'
says "bench --file" '^b1 h2 q1 k128 d16 f32$'
run 0 "bench --file and a word" bench 'n8 d8' --file "$work/some.txt" --devices cpu --algorithms reference --repeat 1
says "bench --file and a word" '^b1 h1 n8 d8 f32$'
# every problem of the file is read before the number of repeats is looked at
wrong "the scenarios of the repository" 'bench: --repeat 0' bench --file "$(dirname "$fox")/../../bench/scenarios.txt" --repeat 0
wrong "no problem" 'a problem is missing' bench
wrong "a file that is not there" 'No such file' bench --file "$work/none"
echo '# nothing' >"$work/empty.txt"
wrong "a file without problems" 'there is no attention problem' bench --file "$work/empty.txt"
echo 'a: n8 d8 fast' >"$work/bad.txt"
wrong "a file with an unknown word" 'fast: no such word' bench --file "$work/bad.txt"
printf 'n8 d8\000x' >"$work/zero.txt"
wrong "a file that is no text" 'zero byte' bench --file "$work/zero.txt"

# ---- bench --peak --profile ----
run 0 "bench --peak" bench 'h2 n64 d16' --devices opencl,cpu --algorithms fused_lanes,blas --repeat 2 --peak --profile \
    --roofline "$work/roof.svg" --json "$work/bench.json"
says "bench --peak" 'with transfers .*of peak'
says "bench --peak" '^  opencl:[0-9:]+ +fused_lanes .* [0-9]+ % '
says "bench --peak: no peaks of cpu" '^  cpu +blas .*  - '
says "bench --peak" 'peaks in between: [0-9.]+ GFLOP/s of f32 multiply-adds, reads [0-9.]+ GB/s of as many bytes'
says "bench --profile" '^profile on opencl:[0-9:]+ by fused_lanes: 5 runs, [0-9.]+ ms each, of which kernels [0-9.]+$'
says "bench --profile" '^  attention_lanes +1 +[0-9.]+ +[0-9.]+ % +[0-9.]+ +[0-9.]+ +[0-9.]+ (reading|computing) +[0-9]+ %$'
for key in peak_gflops peak_gbytes peak_share profile kernels bound_ms share near_gbytes; do
    says "bench --json: $key" "\"$key\":" "$work/bench.json"
done
# 2 heads, 64 x 64 pairs, 16 multiply-adds for the score and 16 for the value; q, k, v and o once
says "operations" '"operations":[[:space:]]*524288' "$work/bench.json"
says "bytes" '"moved_bytes":[[:space:]]*32768' "$work/bench.json"
says "the roofline" '<svg' "$work/roof.svg"
says "the roofline's ceiling" 'GFLOP/s of multiply-adds' "$work/roof.svg"
says "the roofline's points" 'attention_lanes: b1 h2 n64 d16 f32' "$work/roof.svg"
run 0 "bench without --peak" bench 'h2 n64 d16' --devices opencl --algorithms fused_lanes --repeat 1
if grep -q 'of peak\|profile on' "$work/out"; then not_ok "a peak that was not asked for"; else ok; fi
wrong "a roofline that is no svg" 'the plot is SVG' bench 'n8 d8' --devices cpu --roofline "$work/x.png"
run 1 "a roofline of nothing" bench 'n8 d8' --devices cpu --algorithms reference --repeat 1 --roofline "$work/none.svg"
says "a roofline of nothing" 'nothing was profiled' "$work/err"

# ---- run --profile ----
run 0 "run --profile" run "$fox:q" "$fox:k" "$fox:v" -o "$work/o.npy" --device opencl --verify --profile \
    --profile-json "$work/run.json" --roofline "$work/run.svg"
says "run --profile" '^profile on opencl:[0-9:]+ by [a-z_]+: 5 runs'
says "run --profile" '^verify: ok' "$work/err"
says "run --profile-json" '"kernel":[[:space:]]*"attention_' "$work/run.json"
says "run --roofline" '<svg' "$work/run.svg"
unprofiled="run $fox:q $fox:k $fox:v -o $work/o2.npy --device cpu"
wrong "run --profile without kernels" '--profile: cpu runs no kernels' $unprofiled --profile
wrong "run --roofline without kernels" '--roofline: cpu runs no kernels' $unprofiled --roofline "$work/run2.svg"
wrong "run --profile-json without kernels" '--profile-json: cpu runs no kernels' $unprofiled --profile-json "$work/run2.json"
if [ -e "$work/o2.npy" ]; then not_ok "a run that failed left a file"; else ok; fi

# ---- --launch-ms: a tiny bound makes many launches of one; 0 and -1 are none on a CPU ----
bounded() { run 0 "bench --launch-ms $1" bench 'h64 n256 d16' --devices opencl --algorithms fused_lanes --repeat 1 --profile --launch-ms "$1"; }
bounded 1e-6
says "bench --launch-ms" '^  attention_lanes +([2-9]|[1-9][0-9]+) '
CLATTN_LAUNCH_MS=1e-6
export CLATTN_LAUNCH_MS
bounded -1
says "bench --launch-ms before the environment" '^  attention_lanes +1 '
unset CLATTN_LAUNCH_MS
wrong "run --launch-ms" 'run: --launch-ms x: a number of milliseconds is needed' run "$fox:q" "$fox:k" "$fox:v" -o "$work/o3.npy" --launch-ms x
wrong "bench --launch-ms" 'bench: --launch-ms nan: a number' bench 'n8 d8' --launch-ms nan
wrong "bench --linear --launch-ms" 'bench: --launch-ms x: a number' bench --linear 'm8 n8 k8' --launch-ms x
wrong "tune --launch-ms" 'tune: --launch-ms 1ms: a number' tune 'n8 d8' --launch-ms 1ms
wrong "check --launch-ms" 'check: --launch-ms x: a number' check "$fox" --launch-ms x
wrong "study --launch-ms" 'study: --launch-ms x: a number' study sdpa --launch-ms x

finish
