# SPDX-License-Identifier: Apache-2.0
# For the scripts that call the program as `$clattn $verb ARGUMENTS`: its path from the script's first argument, a folder
# $work for what they write, with the last command's streams in $work/out and $work/err, and verdicts. Sourced; the
# script says $verb, and ends with `finish`.
set -u
case $1 in /*) clattn=$1 ;; *) clattn=$PWD/$1 ;; esac
work=$(mktemp -d "${TMPDIR:-/tmp}/clattn-cli-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

ok() { passed=$((passed + 1)); }
not_ok() { # TEXT
    failed=$((failed + 1))
    echo "FAIL $1"
    sed 's/^/    /' "$work/out" "$work/err" | head -40
}
# ends STATUS NAME COMMAND...: the exit status must be STATUS
ends() {
    want=$1
    name=$2
    shift 2
    "$@" >"$work/out" 2>"$work/err"
    status=$?
    if [ "$status" -eq "$want" ]; then ok; else not_ok "$name: exit status $status, not $want"; fi
}
# run STATUS NAME ARGUMENTS...: as `ends`; a usage error is one line on stderr, and none on stdout
run() {
    want=$1
    name=$2
    shift 2
    "$clattn" $verb "$@" >"$work/out" 2>"$work/err"
    status=$?
    if [ "$status" -ne "$want" ]; then
        not_ok "$name: exit status $status, not $want"
    elif [ "$want" -eq 2 ] && { [ "$(wc -l <"$work/err")" -ne 1 ] || [ -s "$work/out" ]; }; then
        not_ok "$name: not one line on stderr alone"
    else
        ok
    fi
}
# says NAME PATTERN [FILE]: a line of both streams, or of the file, has the pattern
says() {
    says_name=$1 says_pattern=$2
    shift 2
    [ $# -gt 0 ] || set -- "$work/out" "$work/err"
    if grep -Eq -- "$says_pattern" "$@"; then ok; else not_ok "$says_name: no line has $says_pattern"; fi
}
holds() { # NAME COMMAND...
    what=$1
    shift
    if "$@" >/dev/null 2>&1; then ok; else not_ok "$what"; fi
}
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
