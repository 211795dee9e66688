"""Run the code and the commands of pages: each page in an empty folder and a fresh environment.

    python .ci/follow.py [--wheel FILE] [PAGE …]

The packages that a page names are installed. seqcore-tensors is installed before, from the given wheel or one
that is built here, so that the page's commands find it by its name. Blocks become files, commands run as they
are, and code runs in its order. CONTRIBUTING.md is followed in a fresh clone, except commands that take more
than a few minutes. The suite runs the same code in its own environment; this finds steps that a page lacks.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/c-api.md", "docs/models.md", "docs/other-runtimes.md", "CONTRIBUTING.md"]
LONG = ("benchmarks", ".ci/", "pre-commit", "failed_allocations", "-n 2", "[--jobs")
# Runs the blocks of a page in one process, as a reader's session would.
SESSION = """
import json, subprocess, sys, traceback
sys.path.insert(0, "")
names = {"__name__": "__main__"}
for kind, line, text, fails in json.load(open(sys.argv[1], encoding="utf-8")):
    print(f"-- {kind} at line {line}", flush=True)
    if kind == "shell":
        for command in text.splitlines():
            print("$", command, flush=True)
            subprocess.run(["bash", "-ec", command], check=True)
    else:
        name = f"line{line}.py"  # a file, as a notebook's cells are to those who ask for their source
        open(name, "w", encoding="utf-8").write(text)
        try:
            exec(compile(text, name, "exec"), names)
        except Exception as error:
            if type(error).__name__ not in fails:
                raise
            traceback.print_exc(limit=0)
"""


def blocks_of(page):
    """The blocks of a page: [kind, line, text, what it shows]; files are written at once, by the caller."""
    source = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for one in re.finditer(r"^```(\w+)\n((?s:.*?))^```$", source, re.M):
        line = source.count("\n", 0, one.start()) + 1
        if one[1] == "text":
            if found:
                found[-1][3] = one[2]
        else:
            found.append([one[1], line, one[2], ""])
    return source, found


def follow(page, wheel):
    """Do what a page says, and return what failed, or None."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        place = folder / "here"
        place.mkdir()
        environment = os.environ | {
            "PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PIP_QUIET": "1",
            "PYTHONWARNINGS": "",
        }
        for name in ("PYTHONPATH", "VIRTUAL_ENV"):
            environment.pop(name, None)

        def run(command, cwd):
            print("$", command, flush=True)
            subprocess.run(["bash", "-ec", command], cwd=cwd, env=environment, check=True)

        source, blocks = blocks_of(page)
        if page == "CONTRIBUTING.md":
            run(f"git clone -q {ROOT} .", place)
            commands = re.findall(r"^    (\S.*)$", source, re.M)
            table = source.partition("## Commands")[2].partition("\n\n- ")[0]
            commands += re.findall(r"^\|.*?\| `([^`]+)`", table, re.M)
            for command in commands:
                is_one = command.startswith(("pip", "pytest", "python"))  # not the name of a file
                if is_one and not any(word in command for word in LONG):
                    run(command, place)
            return
        run(f"pip install {wheel}", place)
        # Packages that a sentence names, and those that blocks need, which the reader is told there.
        for command in dict.fromkeys(re.findall(r"`(pip install (?!\"?\.)[^`]+)`", source)):
            run(command, place)
        needs = re.findall(r"^<!-- needs: (.+?) -->", source, re.M)
        for need in dict.fromkeys(one for text in needs for one in text.split(", ")):
            run(f"pip install '{need}'", place)
        for name, given in re.findall(r"^<!-- given: (\S+) from (\S+) -->$", source, re.M):
            shutil.copy(ROOT / given, place / name)
        todo = []
        for kind, line, text, shown in blocks:
            if name := re.match(r"(?:#|//|/\*) (\w+\.(?:py|pyx|c|cpp|toml))(?: \*/)?\n", text):
                (place / name[1]).write_text(text, encoding="utf-8")
            elif kind in ("python", "shell"):
                todo.append([kind, line, text, re.findall(r"^(\w+(?:Error|Exception))\b", shown, re.M)])
        (folder / "todo.json").write_text(json.dumps(todo), encoding="utf-8")
        (folder / "session.py").write_text(SESSION, encoding="utf-8")
        run(f"python {folder / 'session.py'} {folder / 'todo.json'}", place)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", default=PAGES)
    parser.add_argument("--wheel", type=Path, help="the wheel to install")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = options.wheel
        if wheel is None:
            command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(ROOT)]
            subprocess.run(command, check=True)
            (wheel,) = Path(folder).glob("seqcore_tensors-*.whl")
        for page in options.pages:
            print(f"== {page}", flush=True)
            follow(page, wheel.resolve())
    print("all pages could be followed")


if __name__ == "__main__":
    main()
