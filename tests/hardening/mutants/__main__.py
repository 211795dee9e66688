"""Plant mistakes in the compiled core, one at a time, and see whether the tests of its area fail.

    PYTHONPATH=tests python -m hardening.mutants [--only WORDS] [--slow]

works in a copy of the tree. For each mutant it builds one module, without optimization, and runs the tests of
its area. A mutant that survives shows what no test holds.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hardening.mutants import exchange, loops, storage

ROOT = Path(__file__).parents[3]
MUTANTS = [*exchange.MUTANTS, *loops.MUTANTS, *storage.MUTANTS]
FOLDERS = ("seqcore", "tests", "benchmarks", "docs")
FILES = ("setup.py", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")


def copy_tree(folder):
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name)
    for name in FILES:
        shutil.copy2(ROOT / name, folder)


def build(folder):
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    environment = {**os.environ, "CFLAGS": "-O0 -fPIC"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])


def run_tests(folder, tests, slow):
    """Return whether the tests passed, and what failed first."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *["-m", ""] * slow]
    # First a quick file that is about such mistakes.
    command += [f"tests/{path}" for path in ("core/test_guards.py", *tests.split())]
    environment = {**os.environ, "PYTHONPATH": str(folder), "SEQCORE_SEED": ""}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired:
        return False, "no end"
    if done.returncode == 0:
        return True, ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return False, failed[0][:120] if failed else f"the process ended with {done.returncode}"


def try_one(folder, mutant, slow):
    (path,) = mutant.places(folder / "seqcore" / "core")
    original = path.read_text(encoding="utf-8")
    try:
        path.write_text(original.replace(mutant.before, mutant.after), encoding="utf-8")
        build(folder)
        return run_tests(folder, mutant.tests, slow)
    finally:
        path.write_text(original, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="mutants whose description has these words")
    parser.add_argument("--slow", action="store_true", help="run slow tests too")
    given = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if given.only in mutant.what]
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy_tree(Path(folder))
        build(Path(folder))
        for mutant in chosen:
            start = time.monotonic()
            passed, failure = try_one(Path(folder), mutant, given.slow)
            outcome, seconds = "SURVIVED" if passed else "caught  ", time.monotonic() - start
            print(f"{outcome} {mutant.what}  [{seconds:.0f} s] {failure}", flush=True)
            survivors += [mutant.what] * passed
    print(f"\n{len(chosen) - len(survivors)} of {len(chosen)} caught", *survivors, sep="\n")


if __name__ == "__main__":
    main()
