"""Extensions that tests compile: what several tests need is compiled once in a run, for all its workers."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import seqcore

PACKAGE = Path(seqcore.__file__).parent
# The last one, because Cython's types lack the fields that a new Python adds.
FLAGS = "-O1 -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers"
SECONDS = 1200  # as long as that under ThreadSanitizer


def build(folder, setup="setup.py", kept=None):
    """Compile the extensions of a setup.py in a folder, without a warning.

    `kept` is a folder with what was compiled before: the same files are not compiled again.
    """
    sources = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    if kept is None:
        compile_all(folder, setup)
        return
    place = kept / hashlib.sha256(repr((setup, sources)).encode()).hexdigest()[:20]
    with locked(place.with_suffix(".lock")):
        if not place.exists():
            compile_all(folder, setup)
            made = [path for path in folder.iterdir() if path.suffix in (".so", ".pyd")]
            new = place.with_suffix(".new")
            new.mkdir()
            for path in made:
                shutil.copy2(path, new)
            new.rename(place)
    shutil.copytree(place, folder, dirs_exist_ok=True)


def compile_all(folder, setup):
    # An editable install is found by a hook of Python's imports, which Cython does not ask.
    path = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))
    strict = {} if sys.platform == "win32" else {"CFLAGS": FLAGS}
    done = subprocess.run(
        [sys.executable, setup, "-q", "build_ext", "--inplace"],
        cwd=folder,
        env=os.environ | strict | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr.lower(), done.stderr


@contextlib.contextmanager
def locked(path):
    """Hold a lock among the workers of a run."""
    until = time.monotonic() + SECONDS
    while True:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            break
        except FileExistsError:
            assert time.monotonic() < until, f"{path} is held by another worker"
            time.sleep(0.1)
    try:
        yield
    finally:
        path.unlink()
