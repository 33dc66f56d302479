#!/usr/bin/env bash
# Compiles every kernel file as the library does, preludes first, but for no device: OpenCL C 1.2, warnings are errors,
# and for f32 with cl_khr_fp64 off, so that a literal without its f is an error. No driver is needed, only clang.
#   tools/check_kernels.sh          exit status 1 when something does not compile, or a kernel file has no row here
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../kernels"

clang=$(command -v clang-14 || command -v clang) || {
    echo "check_kernels: clang is needed; tools/install_packages.sh --ci installs it" >&2
    exit 1
}
preludes=(args.h real.clh reduce.clh mask.clh) # the order of runtime/program.c

# One row a key: file, then its defines (see the head comment of the file). REAL is added, 32 and 64.
keys=(
    "copy.cl WG=64"
    "cache.cl WG=64 BY_ROW=0"
    "cache.cl WG=1 BY_ROW=1"
    "merge.cl WG=64"
    "peak.cl LANES=8 WG=1 CHAINS=12 HINT="
    "peak.cl LANES=1 WG=64 CHAINS=8 HINT="
    "linear.cl LANES=16 STAGED=0 MR=8 NV=3 ROWS=512 ROOM=1024"
    "linear.cl LANES=8 STAGED=1 MR=4 NV=3 ROWS=1024 ROOM=2048"
    "linear.cl LANES=4 STAGED=1 MR=4 NV=3 ROWS=1024 ROOM=2048"
    "gemv.cl LANES=16 STAGED=1 STORAGE=8 TOKENS=1"
    "gemv.cl LANES=8 STAGED=1 STORAGE=9 TOKENS=8"
    "gemv.cl LANES=16 STAGED=1 STORAGE=10 TOKENS=2"
    "gemv.cl LANES=4 STAGED=1 STORAGE=2 TOKENS=4"
    "linear_parts.cl LANES=8 STAGED=1 WG=1"
    "linear_parts.cl LANES=4 STAGED=1 WG=64"
    "rows.cl LANES=16 STAGED=1 WG=1"
    "rows.cl LANES=8 STAGED=0 WG=1"
    "rows.cl LANES=4 STAGED=1 WG=64"
    "pointwise.cl LANES=16 STAGED=0 WG=1"
    "pointwise.cl LANES=8 STAGED=1 WG=1"
    "pointwise.cl LANES=4 STAGED=1 WG=64"
    "tokens.cl LANES=16 STAGED=1 WG=1"
    "tokens.cl LANES=4 STAGED=1 WG=64"
    "random.cl LANES=16 STAGED=0 WG=1"
    "random.cl LANES=4 STAGED=1 WG=64"
    "sums.cl LANES=16 STAGED=0 WG=1"
    "sums.cl LANES=4 STAGED=1 WG=64"
    "rows_backward.cl LANES=16 STAGED=1 WG=1"
    "rows_backward.cl LANES=8 STAGED=0 WG=1"
    "rows_backward.cl LANES=4 STAGED=1 WG=64"
    "points_backward.cl LANES=16 STAGED=0 WG=1"
    "points_backward.cl LANES=4 STAGED=1 WG=64"
    "embed_backward.cl LANES=16 STAGED=1 WG=1"
    "embed_backward.cl LANES=4 STAGED=1 WG=64"
    "optimizer.cl LANES=16 STAGED=0 WG=1"
    "optimizer.cl LANES=4 STAGED=1 WG=64"
    "weights.cl LANES=16 STAGED=1 WG=1 TQ=48 TK=64 DS=64 RQ=6 RV=4 HINT="
    "weights.cl LANES=4 STAGED=1 WG=64 TQ=32 TK=32 DS=32 RQ=4 RV=1 HINT="
    "weights.cl LANES=4 STAGED=1 WG=1 TQ=12 TK=32 DS=16 RQ=6 RV=2 HINT="
)
for masks in 0 1 2 3; do
    keys+=(
        "attention_lanes.cl LANES=16 STAGED=0 JV=3 R1=8 RO=6 OV=4 BM=192 BN=64 DC=64 VC=64 DEEP=0 DROPOUT=0 MASKS=$masks"
        "attention_lanes.cl LANES=8 STAGED=1 JV=3 R1=4 RO=6 OV=2 BM=96 BN=64 DC=256 VC=256 DEEP=0 DROPOUT=1 MASKS=$masks"
        "attention_lanes.cl LANES=4 STAGED=0 JV=3 R1=4 RO=6 OV=2 BM=12 BN=64 DC=512 VC=512 DEEP=1 DROPOUT=0 MASKS=$masks"
        "attention_lanes.cl LANES=4 STAGED=1 JV=3 R1=4 RO=6 OV=2 BM=12 BN=64 DC=512 VC=512 DEEP=1 DROPOUT=1 MASKS=$masks"
        "attention_split.cl LANES=16 ACC=16 STAGED=1 STORAGE=-1 DROPOUT=1 MOST=16 CAP=8192 MASKS=$masks"
        "attention_split.cl LANES=4 ACC=8 STAGED=1 STORAGE=2 DROPOUT=0 MOST=16 CAP=8192 MASKS=$masks"
        "attention_tiles.cl TR=16 TC=16 NR=4 NC=4 NV=1 DC=32 JC=16 SLICED=0 STAGED=1 ALIGNED4=0 PREFETCH=0 HINT= DROPOUT=1 MASKS=$masks"
        "attention_tiles.cl TR=8 TC=8 NR=2 NC=4 NV=2 DC=16 JC=8 SLICED=1 STAGED=0 ALIGNED4=1 PREFETCH=1 HINT= DROPOUT=0 MASKS=$masks"
        "attention_tiles.cl TR=8 TC=8 NR=2 NC=4 NV=2 DC=16 JC=8 SLICED=1 STAGED=0 ALIGNED4=2 PREFETCH=0 HINT= DROPOUT=0 MASKS=$masks"
        "softmax.cl WG=64 KEYS=256 MASKS=$masks HINT="
        "scores_backward.cl WG=64 KEYS=256 MASKS=$masks HINT="
    )
done

for rest in "DROPOUT=0 MASKS=0" "DROPOUT=0 MASKS=1" "DROPOUT=0 MASKS=3" "DROPOUT=1 MASKS=3"; do
    for file in backward bias; do
        [ "$file ${rest#* }" = "bias MASKS=3" ] || [ $file = backward ] || continue
        keys+=(
            "attention_lanes_$file.cl LANES=16 STAGED=1 JV=4 R1=6 RO=4 OV=4 BM=128 BQ=48 DC=64 DEEP=0 $rest"
            "attention_lanes_$file.cl LANES=8 STAGED=1 JV=3 R1=4 RO=6 OV=2 BM=24 BQ=24 DC=256 DEEP=0 $rest"
            "attention_lanes_$file.cl LANES=4 STAGED=1 JV=3 R1=4 RO=6 OV=2 BM=12 BQ=12 DC=512 DEEP=1 $rest"
        )
    done
done

for rest in "DROPOUT=0 MASKS=0" "DROPOUT=0 MASKS=1" "DROPOUT=0 MASKS=3" "DROPOUT=1 MASKS=3"; do
    for own in 0 1; do
        keys+=(
            "attention_tiles_backward.cl TR=8 TC=16 NR=4 NC=4 NV=2 DC=32 JC=16 SLICED=1 STAGED=1 ALIGNED4=0 PREFETCH=0 HINT= PROBES=1 CALL=noinline OWN_KEYS=$own $rest"
            "attention_tiles_backward.cl TR=8 TC=8 NR=4 NC=4 NV=2 DC=16 JC=8 SLICED=0 STAGED=0 ALIGNED4=2 PREFETCH=0 HINT= PROBES=1 CALL=noinline OWN_KEYS=$own $rest"
        )
    done
    [ "${rest#* }" != MASKS=3 ] ||
        keys+=("attention_tiles_bias.cl TR=8 TC=16 NR=4 NC=4 NV=1 DC=32 JC=32 SLICED=1 STAGED=1 ALIGNED4=0 PREFETCH=0 HINT= PROBES=1 CALL=noinline OWN_KEYS=0 $rest")
done
keys+=("attention_tiles_rows.cl WG=64 DC=32 SLICED=1")

for masks in 6 7; do # score masks that are packed first
    keys+=(
        "attention_lanes.cl LANES=16 STAGED=0 JV=3 R1=8 RO=6 OV=4 BM=192 BN=64 DC=64 VC=64 DEEP=0 DROPOUT=0 MASKS=$masks"
        "attention_lanes.cl LANES=4 STAGED=1 JV=3 R1=4 RO=6 OV=2 BM=96 BN=64 DC=256 VC=256 DEEP=0 DROPOUT=1 MASKS=$masks"
    )
done

helper_of() { # FILE: the .clh files before it, as the host's key names it
    case $1 in
    attention_tiles.cl) echo tiles.clh philox.clh tiles_math.clh ;;
    attention_tiles_backward.cl | attention_tiles_bias.cl) echo tiles.clh philox.clh tiles_math.clh tiles_backward.clh ;;
    attention_lanes.cl) echo lanes.clh lanes_dropout.clh lanes_tile.clh ;;
    attention_lanes_backward.cl | attention_lanes_bias.cl) echo lanes.clh lanes_dropout.clh lanes_backward.clh ;;
    attention_split.cl) echo lanes.clh lanes_dropout.clh ;;
    weights.cl) echo lanes.clh ;;
    softmax.cl) echo scores.clh philox.clh ;;
    scores_backward.cl) echo scores.clh ;;
    linear.cl | gemv.cl | linear_parts.cl) echo lanes.clh act.clh linear.clh ;;
    rows.cl | tokens.cl | sums.cl | rows_backward.cl | embed_backward.cl | optimizer.cl) echo lanes.clh axes.clh ;;
    random.cl) echo lanes.clh axes.clh philox.clh normal.h ;;
    pointwise.cl | points_backward.cl) echo lanes.clh axes.clh act.clh ;;
    esac
}

program_text() {
    local file
    for file in "${preludes[@]}" $(helper_of "$1") "$1"; do
        printf '#line 1 "%s"\n' "$file"
        cat "$file"
    done
}

compile() { # FILE REAL DEFINES...
    local file=$1 real=$2 special=(-Xclang -cl-ext=-cl_khr_fp64 -Wdouble-promotion)
    shift 2
    [ "$real" = 32 ] || special=(-Xclang -cl-ext=+cl_khr_fp64)
    program_text "$file" | "$clang" -x cl -cl-std=CL1.2 -target spir64-unknown-unknown -D__OPENCL_VERSION__=120 -fsyntax-only \
        "${special[@]}" -Wall -Wextra -Wundef -Wno-unused-function -Wno-unused-parameter -Wno-constant-logical-operand \
        -Werror "${@/#/-D}" "-DREAL=$real" -
}

failed=0
compiled=0
for row in "${keys[@]}"; do
    read -ra words <<<"$row"
    [ -s "${words[0]}" ] || continue # seen below
    for real in 32 64; do
        compiled=$((compiled + 1))
        if ! compile "${words[0]}" "$real" "${words[@]:1}"; then
            echo "check_kernels: FAIL $row REAL=$real" >&2
            failed=$((failed + 1))
        fi
    done
done
for file in *.cl; do
    if ! grep -q "^$file " <<<"$(printf "%s\n" "${keys[@]}")"; then
        echo "check_kernels: FAIL $file has no row in tools/check_kernels.sh" >&2
        failed=$((failed + 1))
    fi
done
echo "check_kernels: $((compiled - failed)) of $compiled programs compile"
[ "$failed" = 0 ]
