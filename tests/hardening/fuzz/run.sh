#!/usr/bin/env bash
# Fuzz a target for some seconds, or replay files, on a core that is built for it: see README.md.
#
#     bash tests/hardening/fuzz/run.sh edits 600 [OPTION …]
#     bash tests/hardening/fuzz/run.sh edits FILE …
#
# PYTHON is the Python with the packages that README.md names, WORK where the build and the corpora stay.
set -euo pipefail

target=$1
shift
root=$(cd "$(dirname "$0")/../../.." && pwd)
python=$(command -v "${PYTHON:-python}")
work=${WORK:-${TMPDIR:-/tmp}/seqcore-fuzz}

# Models run in onnxruntime, which allocates what a model asks for: under AddressSanitizer that ends the process.
sanitizers=address,undefined
preload=asan_with_fuzzer.so
limits=(-timeout=60 -rss_limit_mb=4096)
if [ "$target" = models ]; then
    sanitizers=undefined
    preload=ubsan_with_fuzzer.so
    ulimit -v 8000000
    limits=(-timeout=60 -rss_limit_mb=0)
fi

build=$work/$preload
mkdir -p "$build" "$work/corpus/$target" "$work/found"
# With the times of the files, so that only what has changed is built again.
tar -C "$root" -c --exclude='*.so' --exclude='*.c' seqcore setup.py pyproject.toml README.md LICENSE |
    tar -C "$build" -x
# Cython's own code adds 0 to a null pointer here and there, which is all that pointer-overflow would say.
flags="-g -O1 -fno-omit-frame-pointer -fsanitize=$sanitizers,fuzzer-no-link -fno-sanitize=pointer-overflow"
(cd "$build" && CC=clang LDSHARED="clang -shared" CFLAGS="$flags -fno-sanitize-recover=all" \
    "$python" setup.py -q build_ext --inplace)

# What Python keeps for itself is no leak. Its own allocator would hide what lies behind the end of a small block.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:malloc_context_size=8:quarantine_size_mb=64
export UBSAN_OPTIONS=print_stacktrace=1
export PYTHONMALLOC=malloc PYTHONPATH=$build:$root/tests OMP_NUM_THREADS=1
if [ -e "$1" ]; then
    arguments=(replay "$@")
else
    arguments=(fuzz "$work/corpus/$target" -max_total_time="$1" "${limits[@]}"
        -artifact_prefix="$work/found/$target-" "${@:2}")
fi
LD_PRELOAD=$("$python" -c 'import atheris; print(atheris.path())')/$preload \
    "$python" -P -m hardening.fuzz "$target" "${arguments[@]}"
