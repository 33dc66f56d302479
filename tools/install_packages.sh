#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that clattn needs, those that are missing: the one list of packages.
#   tools/install_packages.sh [--ci]     --ci: also what .ci/run checks with
# Exit status: 0 all there (or no Debian: then it says what to install), 1 something could not be installed.
set -euo pipefail

# A word is a package, or alternatives for different releases: the first that is there is taken.
build_packages=(gcc libc6-dev make cmake pkg-config opencl-headers ocl-icd-opencl-dev pocl-opencl-icd libclblast-dev
    libopenblas-openmp-dev libcjson-dev libutf8proc-dev libcriterion-dev gnuplot-nox)
ci_packages=(git python3 python3-pip python3-venv clang-14 "libclang-rt-14-dev|libclang-common-14-dev" libomp-14-dev clang-format-14 clang-tidy-14 cppcheck
    oclgrind valgrind clang-15 libclc-15 libclc-15-dev g++ dpkg-dev doxygen)

say() { printf 'packages: %s\n' "$*"; }

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Prints the alternative that is installed, else nothing.
installed_of() {
    local name
    for name in ${1//|/ }; do
        if is_installed "$name"; then
            printf '%s\n' "$name"
            return
        fi
    done
}

# Prints the first alternative that apt knows, else nothing.
known_of() {
    local name
    for name in ${1//|/ }; do
        if [ -n "$(apt-cache show --no-all-versions "$name" 2>/dev/null | head -n 1)" ]; then
            printf '%s\n' "$name"
            return
        fi
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo ${sudo_options[@]+"${sudo_options[@]}"} env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

# apt-get with its output in the log; waits up to ten minutes for another apt or dpkg to end.
apt() {
    local try
    for try in $(seq 60); do
        as_root apt-get -o DPkg::Lock::Timeout=600 "$@" </dev/null >"$log" 2>&1 && return 0
        grep -q 'Could not get lock\|is another process using it' "$log" || return 1
        [ "$try" = 1 ] && say "waiting for another apt or dpkg to end"
        sleep 10
    done
    return 1
}

fail() {
    say "$*"
    [ -s "$log" ] && tail -n 5 "$log" | sed 's/^/packages:   /'
    exit 1
}

wanted=("${build_packages[@]}")
case "${1-}" in
'') ;;
--ci) wanted+=("${ci_packages[@]}") ;;
*)
    say "usage: tools/install_packages.sh [--ci]" >&2
    exit 2
    ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    say "this is no Debian or Ubuntu, so nothing was installed; what is needed goes there by the names: ${wanted[*]}"
    exit 0
fi

missing=()
for word in "${wanted[@]}"; do
    [ -n "$(installed_of "$word")" ] || missing+=("$word")
done
if [ ${#missing[@]} = 0 ]; then
    say "all ${#wanted[@]} are there"
    exit 0
fi

sudo_options=()
[ -t 0 ] || sudo_options=(-n)
if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    say "root's rights are needed, and there is no sudo; as root: apt-get install ${missing[*]%%|*}"
    exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
say "asking for the list of packages (apt-get update)"
apt update || say "apt-get update failed ($(grep -m 1 '^[EW]:' "$log" || tail -n 1 "$log")); going on with the old list"
names=()
unknown=()
for word in "${missing[@]}"; do
    name=$(known_of "$word")
    if [ -n "$name" ]; then names+=("$name"); else unknown+=("$word"); fi
done
if [ ${#names[@]} -gt 0 ]; then
    say "installing ${#names[@]}: ${names[*]}"
    apt install -y --no-install-recommends "${names[@]}" || fail "apt-get install failed:"
fi
if [ ${#unknown[@]} -gt 0 ]; then
    : >"$log"
    fail "this release does not have ${unknown[*]}"
fi
say "installed"
