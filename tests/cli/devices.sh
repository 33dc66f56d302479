#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clattn devices --build.
#   devices.sh CLATTN      last line: N passed, N failed; exit status 1 when something failed
set -u
case $1 in /*) clattn=$1 ;; *) clattn=$PWD/$1 ;; esac
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

check() { # NAME TEST...
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $name"
        sed 's/^/    /' "$work/out" "$work/err" | head -20
    fi
}
has() { grep -q "$1" "$work/out"; }
entries() { find "$work/cache" -name '*.clprog' 2>/dev/null | wc -l; }

CLATTN_CACHE_DIR=$work/cache
export CLATTN_CACHE_DIR
if ! "$clattn" devices --device opencl >"$work/out" 2>"$work/err"; then
    echo "no OpenCL device: 1 skipped"
    echo "0 passed, 0 failed"
    exit 0
fi

"$clattn" devices --device opencl --build >"$work/out" 2>"$work/err"
check "build: exit status" [ $? = 0 ]
check "build: what was compiled" has "kernels  *[1-9][0-9]* programs compiled, [0-9]* already there, in .*kept in $work/cache"
filled=$(entries)
check "build: fills the folder" [ "$filled" -gt 3 ]
"$clattn" devices --device opencl --build >"$work/out" 2>"$work/err"
check "build again: nothing to compile" has "kernels  *0 programs compiled, $filled already there"
check "build again: the same files" [ "$(entries)" = "$filled" ]
"$clattn" devices --device opencl --build --json >"$work/out" 2>"$work/err"
check "build: JSON" has '"restored":.*'"$filled"
CLATTN_CACHE_DIR=off "$clattn" devices --device cpu --build >"$work/out" 2>"$work/err"
check "build: nothing on cpu" [ $? = 0 ]

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
