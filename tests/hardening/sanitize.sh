#!/usr/bin/env bash
# Run tests on a core that is built with sanitizers, in a folder and an environment of their own.
#
#   sanitize.sh address PYTHON [pytest's arguments …]           AddressSanitizer and UndefinedBehaviorSanitizer
#   sanitize.sh thread PYTHON SANITIZED [pytest's arguments …]  ThreadSanitizer; both are builds of one version
#                                                               without a GIL, the second with the sanitizer
#
# Needs gcc and its sanitizer libraries. Any report is a failure; they are shown at the end.
set -euo pipefail
kind=$1 python=$2
shift 2
if [ "$kind" = thread ]; then
    sanitized=$1
    shift
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
# Reports go to files, since pytest would swallow what a test prints.
trap 'cat "$work"/report.* 2>/dev/null || true; rm -rf "$work"' EXIT

"$python" -m venv "$work/env"
python=$work/env/bin/python
export PIP_PREFER_BINARY=1
"$python" -m pip install -q "numpy>=2" pytest hypothesis ml_dtypes tqdm "Cython>=3.3" "setuptools>=77" onnx onnxruntime

git clone -q "$root" "$work/tree"
cd "$work/tree"
flags="-g -O1 -fno-omit-frame-pointer -fsanitize=$kind"
if [ "$kind" = address ]; then flags+=" -fsanitize=undefined -fno-sanitize-recover=undefined"; fi
CC=gcc LDSHARED="gcc -shared" CFLAGS=$flags LDFLAGS=$flags "$python" setup.py -q build_ext --inplace
export PYTHONPATH=$work/tree

library() { realpath "$(gcc -print-file-name="$1")"; }
if [ "$kind" = address ]; then
    # Python leaves memory at its end on purpose; what operations leave behind, leaks.py counts.
    export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:abort_on_error=1:log_path=$work/report
    export UBSAN_OPTIONS=print_stacktrace=1:log_path=$work/report
    export PYTHONMALLOC=malloc
    export LD_PRELOAD="$(library libasan.so) $(library libubsan.so) $(library libstdc++.so)"
else
    # Everything else was built by the quick interpreter; only the tests run in the sanitized one.
    site=$("$python" -c "import sysconfig; print(sysconfig.get_path('platlib'))")
    export PYTHONPATH=$PYTHONPATH:$site
    # tqdm has a thread that nobody waits for.
    export TSAN_OPTIONS="suppressions=$root/tests/hardening/tsan.supp:report_thread_leaks=0"
    export TSAN_OPTIONS=$TSAN_OPTIONS:exitcode=66:log_path=$work/report
    python=$sanitized
fi
if [ $# = 0 ]; then
    # Without those that count memory, or run other people's programs alone.
    set -- tests --ignore=tests/hardening/test_failed_allocations.py --ignore=tests/hardening/test_leaks.py \
        --ignore=tests/packaging/test_typing.py --ignore=tests/packaging/test_docs_build.py --ignore=tests/packaging/test_demo.py
fi
"$python" -m pytest -q -p no:cacheprovider -m "" "$@"
