#!/usr/bin/env bash
# Compiles every kernel that the library may build on GPUs, with the compilers of seven of them and without any: NVIDIA
# sm_75 and sm_90 (clang-15, libclc, ptxas), AMD gfx90a (clang-15) and gfx1100 (clang-19; 15 takes half its registers),
# Intel dg2, pvc and tgllp (ocloc). The library says itself which programs (build/tests/offline_keys).
#   tools/compile_offline.sh [--first | --quick | --others] [--docs] [BUILD-FOLDER]
#     --first   the first choices of fused_tiles in f32
#     --quick   of these the lightest and the heaviest kind, on sm_75, gfx90a and dg2
#     --others  all kernels but those of fused_tiles' forward pass, which take most of the time
#     --targets "A B"   these alone
#     --docs    writes the tables into docs/devices.md, between its marks; with --others the last two
# A compiler that is missing is taken from apt into build-offline/, unpacked, not installed; where there is none its
# rows are skipped, with the reason. Exit status 1: a program that does not compile, or a first choice that spills
# registers, keeps arrays in memory or takes more local memory than the device has. Results: build-offline/results.tsv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$PWD/build-offline
tree19=$work/clang-19 treeigc=$work/ocloc
lib=usr/lib/x86_64-linux-gnu

# ---- one program: `compile_offline.sh --one NUMBER`, started by the script itself ----

program_text() { # FILE HELPERS
    local file
    for file in args.h real.clh reduce.clh mask.clh $2 "$1"; do
        [ "$file" = - ] || printf '#line 1 "%s"\n%s\n' "$file" "$(cat "kernels/$file")"
    done
}

# What each compiler prints, as rows "kernel registers spilled-bytes private-bytes local-bytes".
read_ptxas() {
    awk '/Compiling entry/ { split($0, x, "\047"); name = x[2] }
        /stack frame/ { stack = $1; spill = $5 }
        /Used [0-9]+ registers/ {
            match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
            smem = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH) + 0 : 0
            print name, registers, spill, stack, smem }'
}

# gfx90a has accumulation registers too, which count; spills of scalar registers go to lanes of vector ones.
read_amdgcn() {
    awk '/^(  - |    )\.[a-z_]+:/ {
            key = $0; gsub(/^(  - |    )|:.*/, "", key); value = $NF
            if (key == ".name") name = value
            if (key == ".group_segment_fixed_size") shared = value
            if (key == ".private_segment_fixed_size") private = value
            if (key == ".vgpr_count") registers = value
            if (key == ".vgpr_spill_count") print name, registers, 4 * value, private, shared }' "$1"
}

# Registers: the highest that the code names. Arrays in private memory show in the code alone.
read_ocloc() { # FOLDER KERNELS...
    local folder=$1 kernel asm spilled
    shift
    for kernel in "$@"; do
        asm=$folder/dis/${kernel}_KernelHeap.asm
        spilled=$(sed -n "s/.*kernel $kernel .*spilled around \([0-9]*\).*/\1/p" "$folder/log")
        echo "$kernel $(grep -oE '\br[0-9]+' "$asm" | sort -Vu | tail -n 1 | tr -d r) ${spilled:-0} $(grep -cE 'scratch|\.ss\[' "$asm") -"
    done
}

ptx_of() { # OPTIONS...: compiled once for both; libclc has no offset of a launch there, which is a constant to the driver
    local ptx
    ptx=$work/ptx/$(sha256sum "$dir/text.cl" "${BASH_SOURCE[0]}" <(printf '%s ' "$@") | sha256sum | cut -c1-24)
    [ -s "$ptx" ] || { clang-15 -x cl -O3 -target nvptx64--nvidiacl -Xclang -target-cpu -Xclang sm_75 -Xclang -target-feature \
        -Xclang +ptx75 -Dnative_exp=exp -Dnative_exp2=exp2 -Dnative_log=log "-Dget_global_offset(d)=((size_t)0)" \
        -Xclang -mlink-builtin-bitcode -Xclang \
        /usr/lib/clc/nvptx64--nvidiacl.bc "$@" -S "$dir/text.cl" -o "$dir/ptx" && mv "$dir/ptx" "$ptx"; }
    echo "$ptx"
}

amdgcn() { # CLANG LIBCLC TARGET OPTIONS...
    local clang=$1 libclc=$2 target=$3
    shift 3
    $clang -x cl -O3 -target amdgcn-amd-amdhsa -mcpu="$target" -nogpulib -Wno-linker-warnings -Xclang -mlink-builtin-bitcode \
        -Xclang "$libclc" "$@" -S "$dir/text.cl" -o "$dir/s" && read_amdgcn "$dir/s"
}

compile() { # TARGET OPTIONS-TEXT KERNELS...
    local target=$1 text=$2 options
    read -ra options <<<"-D__OPENCL_VERSION__=120 $2"
    shift 2
    case $target in
    sm_*) ptxas -v -arch="$target" "$(ptx_of "${options[@]}")" -o "$dir/cubin" 2>&1 | read_ptxas ;;
    gfx90a) amdgcn clang-15 /usr/lib/clc/amdgcn--amdhsa.bc gfx90a "${options[@]}" ;;
    gfx1100) LD_LIBRARY_PATH=$tree19/$lib:$tree19/usr/lib/llvm-19/lib amdgcn "$tree19/usr/lib/llvm-19/bin/clang" \
        "$tree19/usr/lib/clc/amdgcn--amdhsa.bc" gfx1100 "${options[@]}" ;;
    *) LD_LIBRARY_PATH=$treeigc/$lib:$treeigc/$lib/intel-opencl
        export LD_LIBRARY_PATH
        "$treeigc/usr/bin/ocloc" compile -file "$dir/text.cl" -device "$target" -options "-D__OPENCL_VERSION__=120 $text" \
            -out_dir "$dir" -output k >"$dir/log" 2>&1 || { cat "$dir/log" >&2; return 1; }
        (cd "$dir" && "$treeigc/usr/bin/ocloc" disasm -file ./*.bin -dump dis -device "$target" >/dev/null 2>&1)
        read_ocloc "$dir" "$@" ;;
    esac
}

# What was compiled once, of the same text, is not compiled again.
compile_one() { # NUMBER
    local target file helper options kernels known
    dir=$work/programs/$1
    mkdir -p "$dir"
    IFS=$'\t' read -r target file helper options kernels < <(sed -n "$1p" "$work/programs.tsv")
    program_text "$file" "$helper" >"$dir/text.cl"
    known=$work/known/$({ printf '%s\n' "$target" "$options" "$kernels" && cat "$dir/text.cl" "${BASH_SOURCE[0]}"; } | sha256sum | cut -c1-32)
    # shellcheck disable=SC2086 # kernels are words
    if [ -s "$known" ]; then
        cp "$known" "$dir/result"
    elif ! compile "$target" "$options" $kernels >"$dir/result" 2>"$dir/errors" || [ ! -s "$dir/result" ]; then
        printf 'FAILED 0 0 0 0\n' >"$dir/result"
        printf 'compile_offline: %s %s %s\n%s\n' "$target" "$file" "$options" "$(head -n 5 "$dir/errors")" >&2
    else
        cp "$dir/result" "$known"
    fi
    awk -v key="$target	$file	$options" 'BEGIN { OFS = "\t" } { print key, $1, $2, $3, $4, $5 }' "$dir/result" >"$work/results/$1"
    rm -rf "$dir"
}

if [ "${1-}" = --one ]; then
    compile_one "$2"
    exit
fi

# ---- compilers ----

skipped=() # "TARGET: reason"

# Packages of apt, unpacked into a folder unless they are there.
take_packages() { # FOLDER FILE-THAT-SHALL-BE-THERE PACKAGES...
    local folder=$1 wanted=$2 deb
    shift 2
    [ ! -e "$folder/$wanted" ] || return 0
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
    rm -rf "$folder" && mkdir -p "$folder/debs"
    (cd "$folder/debs" && timeout 120 apt-get download "$@" >/dev/null 2>&1) || return 1
    for deb in "$folder"/debs/*.deb; do dpkg -x "$deb" "$folder"; done
    rm -rf "$folder/debs"
    [ -e "$folder/$wanted" ]
}

find_compilers() { # TARGETS...
    local target
    targets=()
    if ! command -v ptxas >/dev/null && [ -x /usr/local/cuda/bin/ptxas ]; then
        PATH=$PATH:/usr/local/cuda/bin
    fi
    for target in "$@"; do
        case $target in
        sm_* | gfx90a)
            if ! command -v clang-15 >/dev/null || [ ! -e /usr/lib/clc/nvptx64--nvidiacl.bc ]; then
                skipped+=("$target: no clang-15 or no libclc-15: tools/install_packages.sh --ci installs them")
            elif [ "$target" != gfx90a ] && ! command -v ptxas >/dev/null; then
                skipped+=("$target: no ptxas; it comes with NVIDIA's CUDA toolkit")
            else
                targets+=("$target")
            fi ;;
        gfx1100)
            if take_packages "$tree19" usr/lib/llvm-19/bin/clang clang-19 libclang-cpp19 libllvm19 libclang-common-19-dev \
                libclc-19 libclc-19-dev; then
                targets+=("$target")
            else
                skipped+=("$target: this release's apt has no clang-19 and libclc-19")
            fi ;;
        *)
            if take_packages "$treeigc" usr/bin/ocloc intel-opencl-icd libigc1 libigdfcl1 libigdgmm12 libopencl-clang14 \
                libllvmspirvlib14; then
                ln -sf libiga64.so.1 "$treeigc/$lib/libiga64.so" # what ocloc's disassembler asks for
                targets+=("$target")
            else
                skipped+=("$target: this release's apt has no ocloc in intel-opencl-icd")
            fi ;;
        esac
    done
}

# ---- all ----

first=0 quick=0 others=0 docs=0 build=build wanted="sm_75 sm_90 gfx90a gfx1100 dg2 pvc tgllp"
while [ $# -gt 0 ]; do
    case $1 in
    --first) first=1 ;;
    --quick) first=1 quick=1 wanted="sm_75 gfx90a dg2" ;;
    --docs) docs=1 ;;
    --others) others=1 ;;
    --targets) wanted=${2-} && shift ;;
    -*) sed -n '2,16p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
    *) build=$1 ;;
    esac
    shift
done
mkdir -p "$work/results" "$work/ptx" "$work/known"
rm -f "$work"/results/*
# shellcheck disable=SC2086 # words
find_compilers $wanted
"$build/tests/offline_keys" >"$work/all.tsv"
awk -F '\t' -v targets=" ${targets[*]-} " -v first=$first -v quick=$quick -v others=$others 'index(targets, " " $1 " ") &&
    (!first || ($2 == "default" && $3 == "f32" && $4 == "attention_tiles.cl")) && (!others || $4 != "attention_tiles.cl") && (!quick || $9 == ($8 == "any" ? 3 : 0))' \
    "$work/all.tsv" >"$work/keys.tsv"
awk -F '\t' 'BEGIN { OFS = "\t" } { key = $1 OFS $4 OFS $5 OFS $10 }
    !(key in kernels) { order[++count] = key } !((key, $6) in seen) { seen[key, $6]; kernels[key] = kernels[key] " " $6 }
    END { for (i = 1; i <= count; i++) print order[i], kernels[order[i]] }' "$work/keys.tsv" >"$work/programs.tsv"
programs=$(wc -l <"$work/programs.tsv")
echo "compile_offline: $programs programs for ${targets[*]-nothing}"
seq "$programs" | xargs -r -P "$(nproc)" -n 1 bash "${BASH_SOURCE[0]}" --one
cat /dev/null $(find "$work/results" -type f) >"$work/compiled.tsv"
awk -f tools/offline_table.awk -v results="$work/results.tsv" -v tables="$work/tables.md" "$work/compiled.tsv" "$work/keys.tsv" &&
    status=0 || status=$?
for reason in ${skipped[@]+"${skipped[@]}"}; do echo "compile_offline: skipped $reason"; done
echo "compile_offline: $programs programs, ${#skipped[@]} targets skipped"
if [ $docs = 1 ]; then # with --others its own tables alone
    begin='<!-- offline tables begin'
    [ $others = 0 ] || begin='### Gradients by fused_tiles'
    awk -v tables="$work/tables.md" -v begin="$begin" -v others=$others 'index($0, "<!-- offline tables end") == 1 { skip = 0 }
        !skip && !(others && index($0, begin) == 1)
        index($0, begin) == 1 {
            skip = 1; take = !others
            while ((getline line <tables) > 0) { if (index(line, begin) == 1) take = 1; if (take) print line }
        }' docs/devices.md >"$work/devices.md"
    cp "$work/devices.md" docs/devices.md
fi
exit $status
