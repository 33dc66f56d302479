#!/usr/bin/env bash
# What must hold for the files of the repository as texts: no path of somebody's machine, no file over 500 lines in the
# library, unique file names there, nothing left open in the code, scripts that parse. Exit status 1 with a line for each.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bad=0
complain() { # TEXT, then lines on standard input; none is right
    local lines
    lines=$(cat)
    [ -n "$lines" ] || return 0
    printf 'check_repository: %s:\n%s\n' "$1" "$lines"
    bad=$((bad + 1))
}

texts() { # files of the repository that are texts
    find . -type f -not -path './.git/*' -not -path './build*' -not -path './shared/*' -not -name '*.safetensors' -print0
}
paths() { texts | xargs -0 grep -nIE '(^|[^A-Za-z0-9_.])/(home|root|work|Users)/[A-Za-z0-9_]' || true; }
long_files() { find host kernels include -type f -print0 | xargs -0 wc -l | awk '$2 != "total" && $1 > 500'; }
repeated_names() { find host include -type f -printf '%f\n' | sort | uniq -d; }
open_ends() {
    grep -rnwE 'TODO|FIXME|XXX|not implemented' host kernels include examples tests tools bench .ci --exclude=check_repository.sh || true
}
broken_scripts() {
    local script
    for script in .ci/run tools/*.sh bench/*.sh; do bash -n "$script" 2>&1 || true; done
    for script in tests/{cli,examples,models}/*.sh; do sh -n "$script" 2>&1 || true; done
}

complain "paths of a machine" < <(paths)
complain "files over 500 lines" < <(long_files)
complain "file names used twice" < <(repeated_names)
complain "left open" < <(open_ends)
complain "scripts that do not parse" < <(broken_scripts)
[ "$bad" = 0 ]
