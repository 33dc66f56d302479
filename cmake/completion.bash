# SPDX-License-Identifier: Apache-2.0
# Completion of clattn in bash: its verbs, their options as --help tells them, what options take, and files.
_clattn() {
    # Words as a person sees them: bash cuts them at colons too, which devices have in their names, and at '='.
    local line=${COMP_LINE:0:COMP_POINT} program=${COMP_WORDS[0]} list=()
    read -ra list <<<"$line"
    [[ $line == *[[:space:]] ]] && list+=("")
    local word=${list[${#list[@]} - 1]} verb=${list[1]} before= front= words=
    [ ${#list[@]} -lt 2 ] || before=${list[${#list[@]} - 2]}
    [[ $before != --causal && $before != --verify ]] || before= # their values stand behind '='
    [[ $word != --*=* ]] || { before=${word%%=*} front=$before= word=${word#*=}; }
    case $before in
    -a) before=--algorithm ;;
    -d | --devices) before=--device ;;
    esac
    if [ ${#list[@]} -le 2 ] || { [ "$verb" = help ] && [ ${#list[@]} -eq 3 ]; }; then
        words="$("$program" --help 2>/dev/null | awk '/^  [a-z]+ /{ print $1 }')"
        [ ${#list[@]} -gt 2 ] || words+=" help --help --version"
    elif [ "$before" = --device ]; then
        words="$("$program" devices --json 2>/dev/null | sed -n 's/.*"device":[[:space:]]*"\([^"]*\)".*/\1/p') opencl opencl:gpu opencl:cpu"
    elif [[ $before == --* ]] && words=$("$program" help "$before" 2>/dev/null) && [ -n "$words" ]; then
        :
    elif [ "$verb" = study ] && [ ${#list[@]} -eq 3 ] && [[ $word != -* ]]; then
        words=$("$program" study --help 2>/dev/null | awk '/^  [a-z]+  /{ print $1 }')
    elif [[ $word == -* ]]; then
        words="$("$program" "$verb" --help 2>/dev/null | grep -oE -e '(^|[ ,[])--[a-z][a-z-]*' | grep -oE -e '--.*' | sort -u) --help"
    fi
    if [ -z "$words" ]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    fi
    [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/$front}")
    local colons=${word%"${word##*:}"} # what bash keeps of the word
    [ -z "$colons" ] || [[ $COMP_WORDBREAKS != *:* ]] || COMPREPLY=("${COMPREPLY[@]#"$colons"}")
}
complete -o bashdefault -F _clattn clattn
