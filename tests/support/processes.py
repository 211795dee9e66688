"""What the tests that start processes of their own give these."""

import multiprocessing
import os
import subprocess
import sys
import sysconfig

# Finds what is written outside its memory sooner than Python's own allocator, which is all that builds
# without a GIL have.
PLAIN_MALLOC = {} if sysconfig.get_config_var("Py_GIL_DISABLED") else {"PYTHONMALLOC": "malloc"}

METHODS = [
    name for name in ("fork", "forkserver", "spawn") if name in multiprocessing.get_all_start_methods()
]


def run_python(*arguments, timeout=300, start_new_session=False, **environment):
    """Run Python with some arguments, and with the modules that this process finds."""
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        start_new_session=start_new_session,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


def output_of(*arguments, **options):
    """What Python prints that is run with some arguments; see `run_python`."""
    ended = run_python("-X", "faulthandler", *arguments, **options)
    assert ended.returncode == 0, f"it ended at {ended.stdout[-300:]}: {ended.stderr[-3000:]}"
    return ended.stdout


def lines_of(script, *arguments, **environment):
    """What a script of damaged files prints, which doesn't crash and finds no fault."""
    script = ("-W", "error", script.__file__)
    lines = output_of(*script, *arguments, OMP_NUM_THREADS="1", **environment).splitlines()
    faults = [i for i, line in enumerate(lines) if line.startswith("FAULT")]
    assert not faults, "\n".join(lines[faults[0] - 1 :][:40])
    return lines
