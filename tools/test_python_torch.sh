#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# python/tests with PyTorch there, whose packages (gigabytes, with CUDA, from where pip looks) are too large for .ci/run:
# there the tests that need it are skipped. docs/testing.md has the last run.
#   tools/test_python_torch.sh [--with DIR]    --with: an environment that has PyTorch, which is read and not changed
# Writes to build-python-torch/ only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source_dir=$PWD
env=$PWD/build-python-torch
export CLATTN_CACHE_DIR=off CLATTN_TUNING_FILE=off OMP_WAIT_POLICY=passive PYTHONDONTWRITEBYTECODE=1

if [ "${1-}" = --with ]; then
    "$2/bin/python" -m venv "$env"
    "$2/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
        >"$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/with.pth"
else
    python3 -m venv "$env"
    "$env/bin/pip" install --quiet torch
fi
"$env/bin/pip" install --quiet './python[test]'
"$env/bin/python" -c 'import platform, numpy, torch; print("Python", platform.python_version(), "NumPy", numpy.__version__, "PyTorch", torch.__version__)'
cd python
POCL_CACHE_DIR=${POCL_CACHE_DIR-$source_dir/build-test/pocl-cache} "$env/bin/python" -m pytest -q -p no:cacheprovider -rs | tee "$env/report"
if grep -q '^SKIPPED.*torch' "$env/report"; then
    echo "test_python_torch: tests of PyTorch were skipped"
    exit 1
fi
