#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clattn bench: usage errors, table, crossovers, JSON, plot, and that what is too long is cut.
#   bench.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
verb=bench
ASAN_OPTIONS=${ASAN_OPTIONS:-}:allocator_may_return_null=1
export ASAN_OPTIONS

# ---- wrong use ----
run 2 "no problem"
run 2 "an unknown word" 'b1 n8 d8 fast'
says "an unknown word" 'problem "b1 n8 d8 fast": fast: no such word'
run 2 "a problem without quotes" b1 h2 n64 d64
says "a problem without quotes" 'put quotes around a problem'
run 2 "a problem without queries" 'h2 d64'
says "a problem without queries" 'the number of queries is missing'
for sweep in n n= n=8 n=8: n=16:8 n=0:8 x=1:2 n=1:2:1 n=1:2:3:4 n=1:2x nn=1:2; do
    run 2 "--sweep $sweep" 'd8' --sweep "$sweep"
    says "--sweep $sweep" "--sweep $sweep: "
done
run 2 "heads that do not divide, in a sweep" 'h8/8 d8 n8' --sweep 'h=1:8:3' --devices cpu --algorithms reference \
    --repeat x
run 2 "--repeat 0" 'n8 d8' --repeat 0
run 2 "--limit 0" 'n8 d8' --limit 0
run 2 "an unknown algorithm" 'n8 d8' --algorithms blass --devices cpu
says "an unknown algorithm" "'blass'; did you mean blas"
run 2 "an algorithm twice" 'n8 d8' --algorithms reference,reference
run 2 "an empty entry" 'n8 d8' --algorithms reference,
run 2 "a device twice" 'n8 d8' --devices cpu,cpu
says "a device twice" 'the same device, cpu'
run 2 "a plot that is no svg" 'n8 d8' --plot "$work/x.png"
run 2 "one file for two outputs" 'n8 d8' --plot "$work/x.svg" --json "$work/x.svg"
run 1 "a folder that is not there" 'n8 d8' --json "$work/none/x.json"
says "a folder that is not there" 'none'

# ---- a sweep on the CPU ----
run 0 "a sweep" 'h2 d8' --sweep n=8:32 --devices cpu --algorithms reference --repeat 5 --json "$work/a.json" \
    --plot "$work/a.svg"
for n in 8 16 32; do
    says "a sweep" "^b1 h2 n$n d8 f32\$"
done
says "a sweep" '^  cpu +reference .* 1\.00x .* 5$'
holds "JSON: three entries" [ "$(grep -c '"median_ms"' "$work/a.json")" -eq 3 ]
for key in problem device algorithm median_ms min_ms max_ms gflops peak_bytes cold_ms transfers_ms; do
    holds "JSON: $key" grep -q "\"$key\":" "$work/a.json"
done
holds "the plot is an SVG" grep -q '<svg' "$work/a.svg"
holds "the plot names its line" grep -q 'reference on cpu' "$work/a.svg"
holds "no temporary file is left" [ "$(ls -A "$work" | sort | tr '\n' ' ')" = "a.json a.svg err out " ]
run 0 "several sizes without a sweep" 'n16 d8' 'n8 d8' --devices cpu --algorithms reference --repeat 1
holds "sizes come in order" [ "$(grep '^b1 h1' "$work/out" | tr '\n' ';')" = "b1 h1 n8 d8 f32;b1 h1 n16 d8 f32;" ]
run 0 "keys alone" 'q1 d8 causal=bottom-right' --sweep k=10:1000:10 -d cpu --algorithms reference --repeat 1
says "keys alone" '^b1 h1 q1 k1000 d8 f32 causal=bottom-right$'
run 0 "every mask" 'n16 d8 causal window=3,1 keep bias lengths scale=0.3 f64' --devices cpu --algorithms reference \
    --repeat 1

run 0 "plain loops unasked" 'h4 d64' --sweep n=64:1024:16 --devices cpu --repeat 1
says "plain loops unasked: where it is small" '^  cpu +reference '
says "plain loops unasked: left out, and said so" '^reference was left out of 1 of 2 problems, the first b1 h4 n1024 d64 f32: .*--algorithms all'
run 0 "a list of algorithms" 'h4 n1024 d64' --devices cpu --algorithms blas --repeat 1
if grep -q 'left out' "$work/out"; then not_ok "a list of algorithms: others are not missed"; else ok; fi

# ---- cut, refused ----
run 0 "a limit" 'h8 d64' --sweep n=128:512 --devices cpu --algorithms reference --limit 0.0001
says "a limit: fewer repeats" '1 of [0-9]+ repeats and no transfers, by the limit of 0\.0001 s'
says "a limit: larger sizes are not run" '^  cpu reference not run: a run would take about '
number() { sed -n "s/.*\"$1\":[[:space:]]*\([0-9.e+-]*\).*/\1/p" "$work/cold.json"; } # KEY
POCL_CACHE_DIR=$work/cold CLATTN_CACHE_DIR=off "$clattn" bench 'n16 d8' --devices opencl --algorithms fused_split \
    --limit 0.001 --json "$work/cold.json" >"$work/out" 2>"$work/err"
holds "a first run beyond the limit, with builds in it, is no sample" \
    awk "BEGIN {exit !($(number median_ms) > 0 && 10 * $(number median_ms) < $(number cold_ms))}"
rm -rf "$work/cold" "$work/cold.json"
run 1 "nothing applies" 'n8 d8' --devices cpu --algorithms fused_lanes
says "nothing applies" '^  cpu fused_lanes cannot: '
says "nothing applies" 'nothing was measured'
run 1 "too large for the memory" 'n20000000 d1 keep' --devices cpu --algorithms reference
says "too large for the memory" '^clattn: bench: b1 h1 n20000000'

# ---- all devices and algorithms, results compared ----
run 0 "all algorithms" 'h2 d16' --sweep n=32:64 --repeat 2 --plot "$work/b.svg" --json "$work/b.json"
for algorithm in fused_lanes fused_tiles materialised; do
    says "all algorithms: $algorithm" "^  opencl:[0-9:]+ +$algorithm .*x"
    holds "plot with transfers: $algorithm" grep -q "$algorithm on opencl:.*with transfers" "$work/b.svg"
done
says "all algorithms: blas" '^  cpu +blas .* 1\.00x '
says "the crossover" '^b1 h2 d16 f32: opencl:[0-9:]+ (is ahead of cpu|overtakes cpu|does not overtake cpu)'
says "the crossover with transfers" 'transfers included \('

# ---- scores that are infinite: their NaN stands in for what an algorithm leaves unwritten ----
run 1 "NaN in a result" 'n8 d64 scale=3e38' --devices cpu --algorithms blas --repeat 1
says "NaN in a result" '^  cpu blas failed: its result has NaN'
run 1 "NaN in gradients" 'n8 d64 scale=3e38' --backward --devices cpu --algorithms blas --repeat 1
says "NaN in gradients" '^  cpu blas failed: its d[QKV] has NaN'

# ---- forward and backward pass ----
run 0 "a profile of both passes" 'n64 d16' --backward --profile --devices opencl --algorithms fused_lanes --repeat 1
says "a profile of both passes" '^profile on opencl:[0-9:]+ by fused_lanes: 5 runs'
for kernel in attention_lanes attention_lanes_prepare attention_lanes_backward; do
    says "a profile of both passes: $kernel" "^  $kernel +1 +[0-9.]+ +[0-9.]+ % +[0-9.]+ +[0-9.]+ +[0-9.]+ (reading|computing) +[0-9]+ %\$"
done
run 0 "both passes" 'h2 d8' --sweep n=8:16 --backward --devices cpu --algorithms reference,blas --repeat 2 \
    --json "$work/c.json" --plot "$work/c.svg"
says "both passes" '^b1 h2 n16 d8 f32, forward and backward$'
says "both passes, each alone" 'vs (blas|reference) +forward ms +backward ms +with transfers'
says "both passes: two algorithms" '^  cpu +blas( +[0-9.]+){4} '
holds "JSON of both passes" [ "$(grep -c '"backward_ms":' "$work/c.json")" -eq 4 ]
holds "operations: 3.5 times 4 n^2 d of each head" grep -q '"operations":[[:space:]]*57344,' "$work/c.json"
holds "the plot says both passes" grep -q 'Attention, forward and backward' "$work/c.svg"
run 1 "no backward pass" 'n8 d8' --backward --algorithms fused_split
says "no backward pass" 'fused_split cannot: it has no backward pass'
run 0 "both passes on all devices" 'h2 n40 d16 causal' --backward --repeat 1
says "both passes on a device" '^  opencl:[0-9:]+ +fused_lanes '
printf 'a: n8 d8\nb: backward n9 d8 ; torch>=1\nc: linear m8 n8 k8\n' >"$work/mixed.txt"
run 0 "a file with both" --file "$work/mixed.txt" --backward --devices cpu --algorithms reference --repeat 1
says "a file with both: backward" '^b1 h1 n9 d8 f32, forward and backward$'
says "a file with both: what is left out" '^1 problems of --file are without --backward: not run$'
run 0 "a file without backward" --file "$work/mixed.txt" --devices cpu --algorithms reference --repeat 1
says "a file without backward" '^b1 h1 n8 d8 f32$'
says "a file without backward: what is left out" '^1 problems of --file are for --backward: not run$'

# ---- gnuplot is missing: said before anything is measured ----
mkdir "$work/bin"
ln -s "$(command -v sh)" "$work/bin/sh"
cat >"$work/bare" <<END
#!/bin/sh
PATH='$work/bin' exec '$clattn' "\$@"
END
chmod +x "$work/bare"
clattn=$work/bare
run 1 "no gnuplot" 'n8 d8' --plot "$work/c.svg" --devices cpu --algorithms reference
says "no gnuplot" 'install the package gnuplot-nox'
holds "no gnuplot: nothing is measured" [ ! -s "$work/out" ]

finish
