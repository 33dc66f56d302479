#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ctrl-C and SIGTERM: what was measured is printed and written, exit status 130 or 143; the second ends at once; files
# that a run would have written stay as they were, and nothing lies about.
#   interrupt.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
dir=$work/files
mkdir "$dir"

# begin VERB ARGUMENTS...: in the background, as $child
begin() {
    : >"$work/out"
    "$clattn" "$@" >"$work/out" 2>"$work/err" &
    child=$!
}
# until_there COMMAND...: or until the program ends, or two minutes have passed
until_there() {
    for _ in $(seq 1200); do
        "$@" >/dev/null 2>&1 && return
        kill -0 "$child" 2>/dev/null || return
        sleep 0.1
    done
}
prints() { grep -Eq "$1" "$work/out"; }
is_staged() { ls -A "$dir" | grep -q '^\.clattn-'; }
# ended STATUS NAME
ended() {
    wait "$child"
    status=$?
    if [ "$status" -eq "$1" ]; then ok; else not_ok "$2: exit status $status, not $1"; fi
}
same_files() { [ "$(ls -A "$dir" | sort | tr '\n' ' ')" = "$1" ]; }
zeros() { # FILE DIMS BYTES: an f32 array
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($2), }" >"$1"
    head -c "$3" /dev/zero >>"$1"
}

# ---- bench: one problem is done, the next would take for ever ----
begin bench 'n16 d8' 'h8 n2048 d64' --devices cpu --algorithms blas --repeat 1000 --limit 1000 --json "$dir/a.json"
until_there prints '^b1 h1 n16 d8'
kill -INT "$child"
ended 130 "bench"
says "bench" '^interrupted: [12] of 2 problems were measured to the end'
says "bench: the first problem" '"problem":.*n16' "$dir/a.json"
holds "bench: nothing else is left" same_files 'a.json '

# ---- the second signal does not wait, and takes temporary files away ----
begin bench 'h8 n8192 d128' --devices cpu --algorithms reference --limit 1000 --json "$dir/a.json"
until_there is_staged
sleep 0.5
for _ in $(seq 100); do # signals that wait to be taken are one
    kill -TERM "$child" 2>/dev/null || break
    sleep 0.2
done
ended 143 "bench, twice"
holds "bench, twice: the older file stays" grep -q n16 "$dir/a.json"
holds "bench, twice: nothing else is left" same_files 'a.json '
rm "$dir/a.json"

# ---- linear layers ----
begin bench --linear 'm8 n8 k8' 'm4096 n4096 k4096' --devices cpu --algorithms blas --repeat 100 --json "$dir/b.json"
until_there prints '^  cpu +blas'
kill -INT "$child"
ended 130 "linear layers"
says "linear layers" '^interrupted$'
says "linear layers: the first" 'm8 n8 k8' "$dir/b.json"
rm "$dir/b.json"

# ---- study ----
begin study all --device cpu --json "$dir/c.json"
until_there prints '^scale: '
kill -TERM "$child"
ended 143 "study"
says "study" '^interrupted$'
says "study" '[1-9] agree, 0 off'
says "study: what was run" '"experiment":.*"sdpa"' "$dir/c.json"
holds "study: nothing else is left" same_files 'c.json '
rm "$dir/c.json"

# ---- check ----
begin check "$(dirname "$0")/../vectors/onnx.safetensors" --algorithm all
sleep 1
kill -INT "$child"
ended 130 "check"
says "check" '^interrupted: [0-9]+ of [0-9]+ runs'
says "check" ' passed, 0 failed, '

# ---- run: nothing is worth keeping, it ends at once ----
zeros "$work/q.npy" '1, 8, 8192, 64' 16777216
echo old >"$dir/o.npy"
begin run "$work/q.npy" "$work/q.npy" "$work/q.npy" --device cpu --algorithm reference -o "$dir/o.npy"
until_there is_staged
sleep 0.5
kill -INT "$child"
ended 130 "run"
holds "run: the older file stays" [ "$(cat "$dir/o.npy")" = old ]
holds "run: nothing else is left" same_files 'o.npy '

finish
