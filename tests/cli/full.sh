#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A disk that is full, under every output there is: a line that names it, exit status 1, the older file as it was and
# nothing beside it. Full means that no file may be longer than half a kilobyte (EFBIG), and where a small file system
# can be mounted, that it has no room (ENOSPC). Then folders that are read-only or not there.
#   full.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
verb=run
tests=$(cd "$(dirname "$0")/.." && pwd)
dir=$work/files
mkdir "$dir"
q=$tests/vectors/torch.safetensors:sdpa_gqa_8_2/Q
k=$tests/vectors/torch.safetensors:sdpa_gqa_8_2/K
v=$tests/vectors/torch.safetensors:sdpa_gqa_8_2/V

# limited COMMAND...: files of 512 bytes at most; what it prints goes through a pipe
limited() {
    (
        trap '' XFSZ
        ulimit -f 1
        export GCOV_PREFIX="$work/counts" # where branches are counted, theirs would end in the middle too
        "$@" 2>&1 >/dev/null
        echo "status $?"
    ) | cat >"$work/err"
    return "$(sed -n 's/^status //p' "$work/err")"
}
plainly() { "$@" >/dev/null 2>"$work/err"; }
# fails HOW NAME OUTPUT COMMAND...: the output is a file in $dir
fails() {
    how=$1 what=$2 output=$dir/$3
    shift 3
    echo old >"$output"
    : >"$work/out"
    $how "$@"
    status=$?
    if [ "$status" -eq 1 ]; then ok; else not_ok "$what: exit status $status, not 1"; fi
    says "$what" '^clattn: .+' "$work/err"
    if [ "$(cat "$output")" = old ]; then ok; else not_ok "$what: the older file has changed"; fi
    rm "$output"
    if [ -z "$(ls -A "$dir" | grep -v filler)" ]; then ok; else not_ok "$what: left behind: $(ls -A "$dir")"; fi
}
gnuplot=$(command -v gnuplot)
outputs() { # HOW
    fails "$1" "run -o" o.npy "$clattn" run "$q" "$k" "$v" --device cpu -o "$dir/o.npy"
    fails "$1" "run -o, safetensors" o.safetensors "$clattn" run "$q" "$k" "$v" --device cpu -o "$dir/o.safetensors"
    fails "$1" "run --weights" w.npy "$clattn" run "$q" "$k" "$v" --device cpu --weights "$dir/w.npy"
    fails "$1" "run --dump" d.safetensors "$clattn" run "$q" "$k" "$v" --device cpu --dump "$dir/d.safetensors"
    fails "$1" "run --heatmap" h.svg "$clattn" run "$q" "$k" "$v" --device cpu --heatmap "$dir/h.svg"
    fails "$1" "bench --json" b.json "$clattn" bench 'n8 d8' 'n9 d8' --devices cpu --algorithms blas --repeat 2 --json "$dir/b.json"
    fails "$1" "bench --linear --json" l.json "$clattn" bench --linear 'm8 n8 k8' 'm9 n8 k8' 'm7 n8 k8' --devices cpu --repeat 2 --json "$dir/l.json"
    fails "$1" "study --json" s.json "$clattn" study sdpa --device cpu --json "$dir/s.json"
    [ -z "$gnuplot" ] || {
        fails "$1" "bench --plot" p.svg "$clattn" bench 'd8' --sweep n=8:16 --devices cpu --algorithms blas --repeat 2 --plot "$dir/p.svg"
        fails "$1" "study --plot" c.svg "$clattn" study scale --device cpu --plot "$dir/c.svg"
    }
}
outputs limited

# ---- the tuner's record, which holds those of other devices too ----
record() {
    echo 'clattn tuning 1'
    echo 'device another | one | 1 | 1 | 1 units'
    for i in 1 2 3 4 5 6 7 8 9 10; do echo "a key as long as those of plans are, number $i: v=$i | 1 ms, default 2 ms"; done
}
record >"$work/record"
cp "$work/record" "$dir/tuning.txt"
limited "$clattn" tune 'q1 k64 d8' --algorithms fused_split --limit 1 --out "$dir/tuning.txt"
status=$?
if [ "$status" -eq 1 ] || grep -q 'nothing to tune' "$work/err"; then ok; else not_ok "tune: exit status $status, not 1"; fi
says "tune" 'tuning.txt cannot be written: |nothing to tune' "$work/err"
holds "tune: the older record stays" cmp -s "$work/record" "$dir/tuning.txt"
holds "tune: nothing is left behind" [ "$(ls -A "$dir")" = tuning.txt ]
rm "$dir/tuning.txt"

# ---- standard output ----
"$clattn" devices >/dev/full 2>"$work/err"
status=$?
if [ "$status" -eq 1 ]; then ok; else not_ok "standard output: exit status $status, not 1"; fi
says "standard output" 'standard output cannot be written' "$work/err"

# ---- no room: a file system of 64 KiB, full ----
if mount -t tmpfs -o size=64k tmpfs "$dir" 2>/dev/null; then
    trap 'umount "$dir"; rm -rf "$work"' EXIT
    head -c 61440 /dev/zero >"$dir/filler" # what it leaves is the older file's block
    outputs plainly
    # The cache of programs: no error, and no half of a file.
    if CLATTN_CACHE_DIR=$dir "$clattn" check "$tests/vectors/torch.safetensors" --filter sdpa_gqa_8_2 >/dev/null; then ok
    else not_ok "the cache of programs: exit status $?"; fi
    holds "the cache of programs: nothing is left behind" [ "$(ls -A "$dir")" = filler ]
    rm "$dir/filler"
    umount "$dir"
    trap 'rm -rf "$work"' EXIT
fi

# ---- folders ----
for option in -o --lse --weights --column-sums --entropy --dump; do
    name=missing$option.safetensors
    run 1 "a folder that is not there: $option" "$q" "$k" "$v" --device cpu "$option" "$work/none/$name"
done
finish
