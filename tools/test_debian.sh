#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# This tree on another release of Debian, in a root of its own (debootstrap): its compilers, its PoCL, and rusticl of its
# Mesa, of which .ci/run has only those of Debian 12. docs/devices.md has the last run.
#   tools/test_debian.sh [RELEASE]      trixie, which is Debian 13
# Needs root and 3 GB, and compiles kernels for long; build-debian/RELEASE is used again, but for the tree in it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
release=${1:-trixie}
root=$PWD/build-debian/$release

if [ "${TEST_DEBIAN_MOUNTS-}" != own ]; then # what is mounted below is gone with this script
    export TEST_DEBIAN_MOUNTS=own
    exec unshare --mount "$0" "$@"
fi

# Runs a line of shell in the root, in the tree.
inside() {
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb CLATTN_CACHE_DIR=off \
        CLATTN_TUNING_FILE=off OMP_WAIT_POLICY=passive POCL_CACHE_DIR=/clattn/build-test/pocl-cache \
        ${rusticl:+RUSTICL_ENABLE=llvmpipe} ${rusticl:+OCL_ICD_VENDORS=/etc/OpenCL/vendors/rusticl.icd} \
        /bin/bash -c "cd /clattn && $1"
}
rusticl=
status=0
step() {
    local start=$SECONDS result=passed
    echo "-- $1"
    inside "$2" </dev/null || { result=FAILED && status=1; }
    echo "== $1: $result, $((SECONDS - start)) s"
}

if [ ! -e "$root/made" ]; then
    command -v debootstrap >/dev/null || { echo "test_debian: debootstrap is missing: apt-get install debootstrap" >&2 && exit 1; }
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
    mkdir -p "$root"
    debootstrap --variant=minbase --include=ca-certificates "$release" "$root" "$mirror" >"$root.log"
    touch "$root/made"
fi
cp /etc/hosts /etc/resolv.conf "$root/etc/"
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --bind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
rm -rf "$root/clattn"
git clone --quiet . "$root/clattn"

step quickstart tools/quickstart.sh
step build "cmake -S . -B build-test -DCLATTN_TESTS=ON -DCLATTN_EXAMPLES=ON -DCLATTN_WERROR=ON >/dev/null &&
    cmake --build build-test -j $(nproc) >/dev/null"
step devices "build-test/clattn devices"
step vectors "build-test/clattn check tests/vectors/onnx.safetensors --algorithm all"
step gradients "build-test/clattn check tests/vectors/torch.safetensors --algorithm all --filter 'grad_*'"
step tests "cd build-test && ctest -j $(nproc) --output-on-failure -R '^test_(algo_|attention|backward_(lanes|tiles|materialised)|cases_|decoder|dropout|encoder|interop|linear|multihead|norm|op_|options|points|rotary|self_test|softmax|sums|tokens|train_vectors|weights)'"

step "Mesa's packages" "apt-get install -y --no-install-recommends mesa-opencl-icd libgl1-mesa-dri >/dev/null"
rusticl=yes
step "devices of rusticl" "build-test/clattn devices | grep rusticl"
step "vectors by rusticl" "build-test/clattn check tests/vectors/onnx.safetensors --device opencl --algorithm all"
for words in '' more ops; do
    step "oclgrind_run $words by rusticl" "build-test/tests/oclgrind_run $words"
done
exit $status
