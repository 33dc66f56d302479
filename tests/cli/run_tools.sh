# SPDX-License-Identifier: Apache-2.0
# For run.sh: making arrays, reading them, and judging what a command did. Sourced.

pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    echo "FAILED: $*"
    sed 's/^/    /' "$work/stderr" 2>/dev/null | head -5
}

# npy NAME DESCR SHAPE NUMBER...: DESCR f4, f8, i8, u1 or b1; SHAPE "(2, 3)"; "for N: X" fills in N times X.
npy() {
    npy_name=$1 npy_descr=$2 npy_shape=$3
    shift 3
    case $npy_descr in u1 | b1) npy_order='|' ;; *) npy_order='<' ;; esac
    npy_head="{'descr': '$npy_order$npy_descr', 'fortran_order': False, 'shape': $npy_shape, }"
    {
        printf '\223NUMPY\001\000\166\000%-117s\n' "$npy_head"
        printf "$(echo "$@" | awk -v type="$npy_descr" -f "$tests/cli/bytes.awk")"
    } >"$npy_name"
}

# values FILE.npy [f4|f8]: its numbers on one line, blanks between them.
values() {
    values_skip=$(($(od -An -tu2 -j8 -N2 "$1") + 10))
    od -An -v -t"${2:-f4}" -j"$values_skip" "$1" | awk '{ for (i = 1; i <= NF; i++) printf "%s%.7g", n++ ? " " : "", $i }
        END { print "" }'
}

# run_it ARGUMENT...: runs clattn in an empty out/ and keeps its streams and status.
run_it() {
    rm -rf "$work/out"
    mkdir "$work/out"
    status=0
    "$clattn" "$@" >"$work/stdout" 2>"$work/stderr" || status=$?
}

# good NAME ARGUMENT...: exit status 0.
good() {
    good_name=$1
    shift
    run_it "$@"
    if [ "$status" -eq 0 ]; then pass; else fail "$good_name: exit status $status, not 0"; fi
}

# bad NAME STATUS PATTERN ARGUMENT...: that exit status; one line on stderr, which begins with "clattn: " and matches
# the extended regular expression; and no file in out/.
bad() {
    bad_name=$1 bad_status=$2 bad_pattern=$3
    shift 3
    run_it "$@"
    if [ "$status" -ne "$bad_status" ]; then
        fail "$bad_name: exit status $status, not $bad_status"
    elif [ "$(wc -l <"$work/stderr")" -ne 1 ]; then
        fail "$bad_name: $(wc -l <"$work/stderr") lines on stderr, not 1"
    elif ! grep -Eq '^clattn: ' "$work/stderr" || ! grep -Eq -- "$bad_pattern" "$work/stderr"; then
        fail "$bad_name: the message does not match $bad_pattern"
    elif [ -n "$(ls -A "$work/out")" ]; then
        fail "$bad_name: files were left: $(ls -A "$work/out" | tr '\n' ' ')"
    else
        pass
    fi
}

# same NAME GOT WANTED
same() {
    if [ "$2" = "$3" ]; then pass; else fail "$1: got '$2', wanted '$3'"; fi
}

# holds NAME COMMAND...
holds() {
    holds_name=$1
    shift
    if "$@"; then pass; else fail "$holds_name"; fi
}

# is_json FILE: by whatever of python3 and jq there is, else by brackets.
is_json() {
    if command -v jq >/dev/null 2>&1; then
        jq . "$1" >/dev/null 2>&1
    elif command -v python3 >/dev/null 2>&1; then
        python3 -m json.tool "$1" >/dev/null 2>&1
    else
        awk '{ s = s $0 } END { gsub(/\\./, "", s); gsub(/"[^"]*"/, "s", s)
            a = gsub(/\[/, "[", s); b = gsub(/\]/, "]", s); c = gsub(/\{/, "{", s); d = gsub(/\}/, "}", s)
            exit !(a == b && c == d && s !~ /"/) }' "$1"
    fi
}

# is_svg FILE
is_svg() {
    if command -v rsvg-convert >/dev/null 2>&1; then
        rsvg-convert "$1" -o "$work/picture.png" && [ -s "$work/picture.png" ]
    elif command -v xmllint >/dev/null 2>&1; then
        xmllint --noout "$1"
    else
        grep -q '^<svg ' "$1" && tail -n 1 "$1" | grep -q '^</svg>$'
    fi
}
