#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs clattn into a folder and as a Debian package, and uses both as strangers do: find_package, pkg-config, shared
# and static, C and C++, the manual, completion, the command line.
#   package.sh [--install-deb]    --install-deb: installs the .deb on this system and removes it again; needs root
# Last line: N passed, N failed; exit status 1 when something failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source_dir=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CLATTN_CACHE_DIR=off CLATTN_TUNING_FILE=off

passed=0
failed=0
holds() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'package: FAILED: %s\n' "$name"
        tail -n 15 "$work/log" | sed 's/^/    /'
    fi
}
fails() { ! "$@"; }
finish() {
    printf '%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" = 0 ]
    exit
}

build=$work/build
holds "configure" cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DCLATTN_TESTS=OFF -DCLATTN_EXAMPLES=OFF -DCLATTN_BENCH=OFF
holds "build" cmake --build "$build" -j "$(nproc)"
[ "$failed" = 0 ] || finish

# ---- into a folder ----
prefix=$work/usr
holds "install" cmake --install "$build" --prefix "$prefix"
lib=$(dirname "$(find "$prefix" -name libclattn.so)")
export LD_LIBRARY_PATH=$lib PKG_CONFIG_PATH=$lib/pkgconfig
soname() { readelf -d "$lib/libclattn.so" | grep -q 'SONAME.*\[libclattn.so.0\]'; }
holds "soname" soname
symbols() { nm -D --defined-only "$lib/libclattn.so" | awk '{ print $3 }' >"$work/symbols" && [ -s "$work/symbols" ]; }
holds "symbols" symbols
foreign_symbols() { grep -vE '^(clattn_[a-z0-9_]+@@CLATTN_0|CLATTN_0(@@CLATTN_0)?)$' "$work/symbols"; }
holds "symbols: none but clattn_*, with a version" fails foreign_symbols
# Every function that a header declares is there.
declared() {
    cat "$prefix"/include/clattn/*.h | tr '\n' ' ' | grep -oE 'CLATTN_API [^(;]*\(' | grep -oE 'clattn_[a-z0-9_]+ *\($' | tr -d ' (' |
        sort -u >"$work/declared"
    [ "$(wc -l <"$work/declared")" -gt 100 ]
}
holds "symbols: there are declarations" declared
missing_symbols() { sed 's/@.*//' "$work/symbols" | sort -u | comm -13 - "$work/declared" | grep .; }
holds "symbols: all that the headers declare" fails missing_symbols
build_paths() { find "$prefix" -type f -exec grep -alF -e "$source_dir" -e "$build" {} +; }
holds "no path of the build in what is installed" fails build_paths

holds "find_package: configure" cmake -S tests/package -B "$work/consumer" "-DCMAKE_PREFIX_PATH=$prefix"
holds "find_package: build" cmake --build "$work/consumer"
for program in shared_c static_c shared_cpp; do
    holds "find_package: $program" "$work/consumer/$program"
done
uses_shared() { ldd "$1" | grep -q 'libclattn\.so\.0'; }
holds "find_package: shared is shared" uses_shared "$work/consumer/shared_c"
holds "find_package: static is static" fails uses_shared "$work/consumer/static_c"

pkg_shared() { cc -std=c11 -Wall -Wextra -Werror tests/package/consumer.c -o "$work/pkg_shared" $(pkg-config --cflags --libs clattn) && "$work/pkg_shared"; }
pkg_static() {
    cc -std=c11 tests/package/consumer.c -o "$work/pkg_static" $(pkg-config --cflags --static --libs clattn | sed "s|-lclattn|$lib/libclattn.a|") &&
        "$work/pkg_static"
}
pkg_cpp() { c++ -std=c++17 -Wall -Wextra -Werror tests/package/consumer.cpp -o "$work/pkg_cpp" $(pkg-config --cflags --libs clattn) && "$work/pkg_cpp"; }
holds "pkg-config: shared" pkg_shared
holds "pkg-config: static" pkg_static
holds "pkg-config: C++" pkg_cpp
# ---- programs of other versions (clattn/version.h) ----
# An older header knows a field less, a newer one a field more; the library is today's.
other_header() { # NAME SED-SCRIPT
    mkdir -p "$work/$1" && cp -r "$prefix/include/clattn" "$work/$1" && sed -i "$2" "$work/$1/clattn/attention.h" &&
        ! cmp -s "$prefix/include/clattn/attention.h" "$work/$1/clattn/attention.h"
}
struct_sed() { printf '/^typedef struct clattn_attention_args/,/^}/{%s}' "$1"; } # SED-SCRIPT, within the struct
words=$(sed -nE "$(struct_sed 's/.*reserved\[([0-9]+)\].*/\1/p')" "$prefix/include/clattn/attention.h")
holds "an older header" other_header older "$(struct_sed "/int64_t self_check;/d; s/reserved\[$words\]/reserved[$((words + 1))]/")"
holds "a newer header" other_header newer "$(struct_sed "s/uint64_t reserved\[$words\]/int64_t brand_new; uint64_t reserved[$((words - 1))]/")"
other() { # HEADERS PROGRAM OPTIONS...
    local headers=$work/$1 program=$work/$2
    shift 2
    cc -std=c11 -Wall -Wextra -Werror "$@" -I"$headers" tests/package/grown.c -o "$program" -L"$lib" -lclattn && "$program"
}
holds "an older program computes" other older older_program
holds "a newer program computes without what is new" other newer newer_program
holds "a newer program that sets what is new is refused by name" other newer newer_field -DSETS_NEW_FIELD

# ---- as a part of another project ----
holds "subproject: configure" cmake -S tests/package/subproject -B "$work/subproject" "-DCLATTN_SOURCE=$source_dir"
holds "subproject: build" cmake --build "$work/subproject" -j "$(nproc)"
for program in shared_c static_c; do
    holds "subproject: $program" "$work/subproject/in/$program"
done
only_libraries() { ! find "$work/subproject" -type f -perm -u+x -name 'clattn' -o -name 'test_*' | grep .; }
holds "subproject: neither command line nor tests" only_libraries

# Each header alone, in C and in C++.
alone() {
    local header
    for header in "$prefix"/include/clattn/*.h; do
        case $header in */opencl.h) continue ;; esac
        echo "#include <clattn/${header##*/}>" | cc -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" -xc - || return 1
        echo "#include <clattn/${header##*/}>" | c++ -std=c++11 -Wall -Wextra -Werror -fsyntax-only -I"$prefix/include" -xc++ - || return 1
    done
}
holds "each header alone, in C11 and C++11" alone

# ---- manual and completion ----
manual() { [ "$(grep -c '^\.SH' "$prefix"/share/man/man1/clattn.1)" -ge 9 ] && grep -q -e '\\-\\-causal' "$prefix"/share/man/man1/clattn.1; }
holds "manual: a part for each verb, its options" manual
# Every option that a verb's parser knows stands in its help, and so in the manual and in the completion.
options_told() {
    local file verb name help missing=0
    for file in host/cli/cmd_*.c; do
        verb=$(basename "$file" .c)
        verb=${verb#cmd_}
        [ "$verb" != run ] || file=host/cli/run_options.c
        help=$("$prefix/bin/clattn" "$verb" --help)
        for name in $(grep -ohE '\{"[a-z][a-z-]*", *(0|'"'.'"'), CLA_ARG_' "$file" | cut -d'"' -f2); do
            grep -qE -e "--$name([^a-z-]|\$)" <<<"$help" || { echo "$verb --help does not tell --$name" && missing=1; }
        done
    done
    return $missing
}
holds "manual: every option" options_told
completes() { # LINE WANTED: the last word of the line completes to WANTED among others
    PATH=$prefix/bin:$PATH bash -c '. "$0"; COMP_LINE=$1; COMP_POINT=${#1}; COMP_WORDS=($1); _clattn; printf "%s\n" "${COMPREPLY[@]}"' \
        "$prefix/share/bash-completion/completions/clattn" "$1" | grep -qxF -e "$2"
}
holds "completion: verbs" completes "clattn be" bench
holds "completion: every verb" completes "clattn " doctor
holds "completion: options" completes "clattn run --caus" --causal
holds "completion: devices" completes "clattn run -d cp" cpu
holds "completion: devices with colons, of which bash keeps what is there" completes "clattn run -d opencl:" gpu
holds "completion: algorithms" completes "clattn run --algorithm fused_l" fused_lanes
holds "completion: lists of algorithms" completes "clattn tune --algorithms fused_s" fused_split
holds "completion: experiments" completes "clattn study gra" gradient
holds "completion: layouts" completes "clattn run --layout b" bshd
holds "completion: types" completes "clattn run --kv-type " q4_0
holds "completion: forms of weights" completes "clattn run --weights-form=c" capped
holds "completion: alignments behind =" completes "clattn run --causal=b" bottom-right
holds "completion: devices behind =" completes "clattn run --device=c" cpu
holds "completion: devices behind =, with colons" completes "clattn run --device=opencl:g" gpu
holds "completion: what is help for" completes "clattn help be" bench
holds "completion: files behind an option without a value" completes "clattn run --causal READ" README.md
holds "completion: files" completes "clattn run READ" README.md

# ---- as a Debian package ----
holds "cpack" cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/deb"
deb=$(find "$work/deb" -maxdepth 1 -name '*.deb' | head -n 1)
if [ -n "$deb" ]; then
    holds "deb: depends on the loader and CLBlast" bash -c 'dpkg-deb -f "$0" Depends | grep -q ocl-icd && dpkg-deb -f "$0" Depends | grep -q libclblast' "$deb"
    dpkg-deb -x "$deb" "$work/unpacked"
    build_paths_deb() { grep -ralF -e "$source_dir" -e "$build" "$work/unpacked"; }
    holds "deb: no path of the build" fails build_paths_deb
    if [ "${1-}" = --install-deb ]; then
        unset LD_LIBRARY_PATH PKG_CONFIG_PATH
        holds "deb: installs" apt-get install -y --no-install-recommends "$deb"
        holds "deb: clattn devices" /usr/bin/clattn devices
        found() { cc tests/package/consumer.c -o "$work/from_deb" $(pkg-config --cflags --libs clattn) && "$work/from_deb"; }
        holds "deb: a program on it" found
        dpkg -L clattn | while read -r path; do [ -d "$path" ] || echo "$path"; done >"$work/files"
        holds "deb: is removed" dpkg -P clattn
        leftover() { while read -r path; do if [ -e "$path" ]; then echo "$path"; fi; done <"$work/files" | grep .; }
        holds "deb: leaves nothing behind" fails leftover
    fi
fi
finish
