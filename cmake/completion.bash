# SPDX-License-Identifier: Apache-2.0
# Completion of clattn in bash: its verbs, their options as --help tells them, and files.
_clattn() {
    local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words=
    if [ "$COMP_CWORD" = 1 ]; then
        words="$("$program" --help 2>/dev/null | awk '/^  [a-z]+ /{ print $1 }') --help --version"
    elif [ "$before" = --device ] || [ "$before" = -d ]; then
        words="$("$program" devices --json 2>/dev/null | sed -n 's/.*"device":[[:space:]]*"\([^"]*\)".*/\1/p') opencl opencl:gpu opencl:cpu"
    elif [ "$before" = --algorithm ] || [ "$before" = -a ]; then
        words="fused_split fused_lanes fused_tiles materialised blas reference"
    elif [[ $word == -* ]]; then
        words="$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -e '(^|[ ,[])--[a-z][a-z-]*' | grep -oE -e '--.*' | sort -u) --help"
    fi
    if [ -n "$words" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -o filenames -o bashdefault -F _clattn clattn
