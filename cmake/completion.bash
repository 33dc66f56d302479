# SPDX-License-Identifier: Apache-2.0
# Completion of clattn in bash: its verbs, their options as --help tells them, and files.
_clattn() {
    # Words as a person sees them: bash cuts them at colons too, which devices have in their names.
    local line=${COMP_LINE:0:COMP_POINT} program=${COMP_WORDS[0]} list=()
    read -ra list <<<"$line"
    [[ $line == *[[:space:]] ]] && list+=("")
    local word=${list[${#list[@]} - 1]} before= words=
    [ ${#list[@]} -lt 2 ] || before=${list[${#list[@]} - 2]}
    if [ ${#list[@]} -le 2 ]; then
        words="$("$program" --help 2>/dev/null | awk '/^  [a-z]+ /{ print $1 }') --help --version"
    elif [ "$before" = --device ] || [ "$before" = --devices ] || [ "$before" = -d ]; then
        words="$("$program" devices --json 2>/dev/null | sed -n 's/.*"device":[[:space:]]*"\([^"]*\)".*/\1/p') opencl opencl:gpu opencl:cpu"
    elif [ "$before" = --algorithm ] || [ "$before" = --algorithms ] || [ "$before" = -a ]; then
        words="fused_split fused_lanes fused_tiles materialised blas reference all"
    elif [ "${list[1]}" = study ] && [ ${#list[@]} -eq 3 ] && [[ $word != -* ]]; then
        words=$("$program" study --help 2>/dev/null | awk '/^  [a-z]+  /{ print $1 }')
    elif [[ $word == -* ]]; then
        words="$("$program" "${list[1]}" --help 2>/dev/null | grep -oE -e '(^|[ ,[])--[a-z][a-z-]*' | grep -oE -e '--.*' | sort -u) --help"
    fi
    if [ -z "$words" ]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    local colons=${word%"${word##*:}"} # what bash keeps of the word
    [ -z "$colons" ] || [[ $COMP_WORDBREAKS != *:* ]] || COMPREPLY=("${COMPREPLY[@]#"$colons"}")
}
complete -o bashdefault -F _clattn clattn
