#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Places where nothing can be written: below a file, in /proc, and a folder that is read-only, by a mount where root may,
# else by its rights. An output that was asked for there is one line that names it and exit status 1, before the work;
# the cache of programs, the record of the tuner and a home are done without.
#   readonly.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
. "$(dirname "$0")/judge.sh"
fox=$(cd "$(dirname "$0")/../.." && pwd)/examples/data/fox.safetensors
gnuplot=$(command -v gnuplot)
ASAN_OPTIONS=${ASAN_OPTIONS:-}:allocator_may_return_null=1
export ASAN_OPTIONS

echo text >"$work/file"
mkdir "$work/fixed"
if mount -t tmpfs -o ro tmpfs "$work/fixed" 2>/dev/null; then
    trap 'umount "$work/fixed"; rm -rf "$work"' EXIT
else
    chmod 555 "$work/fixed"
fi
places="$work/file/below /proc"
! mkdir "$work/fixed/probe" 2>/dev/null && places="$places $work/fixed" || echo "no folder can be made read-only here"

# refuses PATH ARGUMENTS...: one line, which names the path, and nothing else
refuses() {
    path=$1
    shift
    ends 1 "$*" "$clattn" "$@"
    says "$*" "^clattn: .*$path.* cannot be written: ." "$work/err"
    if [ "$(wc -l <"$work/err")" -eq 1 ]; then ok; else not_ok "$*: not one line on stderr"; fi
    if [ ! -e "$path" ]; then ok; else not_ok "$*: $path is there"; fi
}
three="$fox:q $fox:k $fox:v"
outputs() { # PLACE
    for option in -o --lse --weights --column-sums --entropy --dump; do
        refuses "$1/x.safetensors" run $three --device cpu "$option" "$1/x.safetensors"
    done
    refuses "$1/x.npy" run $three --device cpu -o "$1/x.npy"
    refuses "$1/x.svg" run $three --device cpu --heatmap "$1/x.svg"
    refuses "$1/x.json" run $three --explain --profile-json "$1/x.json"
    refuses "$1/x.json" bench 'n8 d8' --devices cpu --json "$1/x.json"
    refuses "$1/x.json" bench --linear 'm8 n8 k8' --devices cpu --json "$1/x.json"
    refuses "$1/x.json" study all --device cpu --json "$1/x.json"
    [ -z "$gnuplot" ] || {
        refuses "$1/x.svg" run $three --explain --roofline "$1/x.svg"
        refuses "$1/x.svg" bench 'n8 d8' --sweep n=8:16 --devices cpu --plot "$1/x.svg"
        refuses "$1/x.svg" bench 'n8 d8' --devices cpu --roofline "$1/x.svg"
        refuses "$1/x.svg" study scale --device cpu --plot "$1/x.svg"
    }
}

# ---- what goes on without ----
# works NAME COMMAND...: the right result, without a word
works() {
    ends 0 "$@"
    if [ ! -s "$work/err" ]; then ok; else not_ok "$1: not without a word"; fi
}
attention() { "$clattn" run $three -o "$work/o.npy" --no-lint; }
kept() { # PLACE
    CLATTN_CACHE_DIR=$1 works "the cache in $1" attention
    CLATTN_CACHE_DIR=$1/deep/er works "the cache below $1" attention
    CLATTN_TUNING_FILE=$1/tuning.txt works "the record in $1" attention
    CLATTN_TUNING_FILE=$1/tuning.txt ends 0 "the record in $1, shown" "$clattn" tune --show
    (
        unset CLATTN_CACHE_DIR CLATTN_TUNING_FILE XDG_CACHE_HOME
        HOME=$1
        export HOME
        works "a home in $1" attention
        XDG_CACHE_HOME=$1/cache
        export XDG_CACHE_HOME
        works "XDG_CACHE_HOME in $1" attention
        echo "$passed $failed" >"$work/counts"
    )
    read -r passed failed <"$work/counts"
}
tunes() { # FILE COMMAND...: the record cannot be written, which is said before anything is measured
    file=$1
    shift
    if "$clattn" devices --device opencl >/dev/null 2>&1; then
        ends 1 "tune into $file" "$@"
        says "tune into $file" "^clattn: tune: tuning: $file cannot be written: ." "$work/err"
        if [ "$(wc -l <"$work/err")" -eq 1 ] && [ ! -s "$work/out" ]; then ok; else not_ok "tune into $file: not one line"; fi
    fi
}
for place in $places; do
    outputs "$place"
    kept "$place"
    tunes "$place/tuning.txt" "$clattn" tune 'n8 d8' --limit 1 --out "$place/tuning.txt"
    tunes "$place/tuning.txt" env CLATTN_TUNING_FILE="$place/tuning.txt" "$clattn" tune 'n8 d8' --limit 1
done

# ---- no home ----
for home in "$work/none" relative ""; do
    ends 0 "HOME=$home" env -u CLATTN_CACHE_DIR -u CLATTN_TUNING_FILE -u XDG_CACHE_HOME HOME="$home" "$clattn" run $three --verify --no-lint
done
ends 0 "no HOME" env -u CLATTN_CACHE_DIR -u CLATTN_TUNING_FILE -u XDG_CACHE_HOME -u HOME "$clattn" run $three --verify --no-lint
holds "a home that is not there is not made" [ ! -e "$work/none" ]
ends 2 "tune without a home" env -u CLATTN_CACHE_DIR -u CLATTN_TUNING_FILE -u XDG_CACHE_HOME -u HOME "$clattn" tune 'n8 d8' --limit 1
says "tune without a home" 'nothing to tune|there is no record to write to' "$work/err"
finish
