#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `clattn run`, `devices`, `inspect` and the verb table, as a user types them.
# Usage: run.sh CLATTN [DEVICE]     DEVICE defaults to cpu. Prints "N passed, N failed"; exit status 1 on a failure.
# Needs a shell, awk, od and cmp; inputs are tests/vectors and files that this script makes from numbers.

[ $# -ge 1 ] || { echo "usage: $0 CLATTN [DEVICE]" >&2; exit 2; }
case $1 in /*) clattn=$1 ;; *) clattn=$PWD/$1 ;; esac
device=${2:-cpu}
tests=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/clattn-cli-XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
mkdir "$work/in" "$work/out"
cd "$work/in" || exit 2
passed=0
failed=0

. "$tests/cli/run_tools.sh"
. "$tests/cli/run_values.sh"
. "$tests/cli/run_errors.sh"
. "$tests/cli/run_options.sh"
. "$tests/cli/run_weights.sh"
. "$tests/cli/run_files.sh"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
