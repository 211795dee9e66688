"""What the tests that start processes of their own give these."""

import multiprocessing
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

# Finds what is written outside its memory sooner than Python's own allocator, which is all that builds
# without a GIL have.
PLAIN_MALLOC = {} if sysconfig.get_config_var("Py_GIL_DISABLED") else {"PYTHONMALLOC": "malloc"}

METHODS = [
    name for name in ("fork", "forkserver", "spawn") if name in multiprocessing.get_all_start_methods()
]


def output_of(*arguments, timeout=300, **environment):
    """What Python prints that is run with some arguments, and with the modules that this process finds."""
    path = os.pathsep.join(filter(None, sys.path))
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    assert ended.returncode == 0, f"it ended at {ended.stdout[-300:]}: {ended.stderr[-3000:]}"
    return ended.stdout


def lines_of(script, *arguments, **environment):
    """What a script of damaged files prints, which doesn't crash and finds no fault."""
    file = Path(script.__file__)
    found = os.pathsep.join([str(file.parents[1]), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-X", "faulthandler", file, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": found, **environment},
    )
    lines = ended.stdout.splitlines()
    faults = [i for i, line in enumerate(lines) if line.startswith("FAULT")]
    assert not faults, "\n".join(lines[faults[0] - 1 :][:40])
    assert ended.returncode == 0, f"the process ended at {lines[-1:]}: {ended.stderr[-3000:]}"
    return lines
