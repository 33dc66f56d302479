# SPDX-License-Identifier: Apache-2.0
# What the scripts here share: a folder to work in, verdicts, and their count. They set $here and $program.
# shellcheck shell=sh
vectors=$(cd "$here/../vectors" && pwd) || exit 2
work=$(mktemp -d "${TMPDIR:-/tmp}/clattn-models-XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
passed=0
failed=0

# Runs a command, whose exit status is the verdict.
check() { # LABEL COMMAND...
    label=$1
    shift
    if "$@" >log 2>&1; then
        passed=$((passed + 1))
        grep '^ok' log || echo "ok: $label"
    else
        failed=$((failed + 1))
        echo "FAILED: $label"
        sed 's/^/    /' log
    fi
}

diff_tensors() { "$build/tests/models/tensor_diff" "$@"; } # see there

# Whether the program ends in exit status 1 with one line, which holds a text, and prints nothing else.
refuses() { # TEXT ARGUMENTS...
    text=$1
    shift
    "$program" "$@" >out 2>err </dev/null
    status=$?
    cat out err
    [ $status -eq 1 ] && [ "$(wc -l <err)" -eq 1 ] && [ ! -s out ] && grep -q -e "$text" err
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
