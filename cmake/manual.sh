#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The manual page of the command line, from what it says itself.
#   manual.sh CLATTN >clattn.1
set -eu
clattn=$1

# Text as it stands: backslashes are the formatter's, and a line may not begin with its words.
as_is() { sed -e 's/\\/\\e/g' -e "s/^\\([.']\\)/\\\\\\&\\1/" -e 's/-/\\-/g'; }
plain() {
    echo .nf
    as_is
    echo .fi
}

version=$("$clattn" --version)
printf '.TH CLATTN 1 "" "%s" "User Commands"\n' "$version"
cat <<'END'
.SH NAME
clattn \- Transformer attention on OpenCL devices and CPUs
.SH SYNOPSIS
.B clattn
.I VERB ...
.SH DESCRIPTION
END
"$clattn" --help | sed '1,/^Usage/d' | plain
for verb in $("$clattn" --help | awk '/^  [a-z]+ /{ print $1 }'); do
    printf '.SH %s\n' "$(echo "$verb" | tr '[:lower:]' '[:upper:]')"
    "$clattn" "$verb" --help | plain
done
