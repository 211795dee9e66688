#!/usr/bin/env bash
# Fuzz one target for some seconds, on a core that is built for it: see README.md.
#
#     bash tests/hardening/fuzz/run.sh edits 600 [OPTION …]
#
# PYTHON is the Python with the packages that README.md names, WORK where the build and the corpora stay.
set -euo pipefail

target=$1 seconds=$2
root=$(cd "$(dirname "$0")/../../.." && pwd)
python=$(command -v "${PYTHON:-python}")
work=${WORK:-${TMPDIR:-/tmp}/seqcore-fuzz}

# Models run in onnxruntime, which allocates what a model asks for: that is for the limits below to stop, and
# under AddressSanitizer would end the process.
sanitizers=address,undefined
preload=asan_with_fuzzer.so
if [ "$target" = models ]; then
    sanitizers=undefined
    preload=ubsan_with_fuzzer.so
fi

build=$work/$preload
mkdir -p "$build" "$work/corpus/$target" "$work/found"
rm -rf "$build/seqcore"
cp -r "$root/seqcore" "$root/setup.py" "$root/pyproject.toml" "$root/README.md" "$root/LICENSE" "$build"
find "$build/seqcore" -name '*.so' -delete
# Cython's own code adds 0 to a null pointer here and there, which is all that pointer-overflow would say.
flags="-g -O1 -fno-omit-frame-pointer -fsanitize=$sanitizers,fuzzer-no-link -fno-sanitize=pointer-overflow
    -fno-sanitize-recover=all"
(cd "$build" && CC=clang LDSHARED="clang -shared" CFLAGS=$flags "$python" setup.py -q build_ext --inplace)

cd "$build"
limits=(-timeout=60 -rss_limit_mb=4096)
if [ "$target" = models ]; then
    ulimit -v 12000000
    limits=(-timeout=60 -rss_limit_mb=8192 -malloc_limit_mb=1000000)
fi
# What Python keeps for itself is no leak. pymalloc would hide what lies behind the end of a small block.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
export PYTHONMALLOC=malloc PYTHONPATH=$build:$root/tests OMP_NUM_THREADS=1
LD_PRELOAD=$("$python" -c 'import atheris; print(atheris.path())')/$preload "$python" -m hardening.fuzz "$target" \
    fuzz "$work/corpus/$target" -max_total_time="$seconds" "${limits[@]}" -artifact_prefix="$work/found/$target-" \
    "${@:3}"
