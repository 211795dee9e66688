"""Print how many lines of each file of the core have run, by gcc's counters: `.ci/coverage` calls this.

Cython marks each piece of C with its line. A line has run if any of its C has.
"""

import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path

MARK = re.compile(r'\s*/\* "(seqcore/core/\w+\.p[yx][xd])":(\d+)$')


def origins(path):
    """Return the file and line that each line of a C file was made from, or None."""
    found, here = [None], None
    for line in path.read_text(encoding="utf-8").splitlines():
        mark = MARK.match(line)
        here = (mark[1], int(mark[2])) if mark else here
        if line.startswith("}"):  # C code after a function belongs to no line of ours
            here = None
        found.append(here)
    return found


def main():
    lines = defaultdict(int)
    for data in Path("build").rglob("*.gcda"):
        done = subprocess.run(
            ["gcov", "--json-format", "--stdout", data], capture_output=True, text=True, check=True
        )
        for report in filter(None, done.stdout.splitlines()):
            for file in json.loads(report)["files"]:
                path = Path(file["file"])
                if path.parts[:2] == ("seqcore", "core") and path.suffix == ".c":
                    known = origins(path)
                    for line in file["lines"]:
                        if known[line["line_number"]]:
                            lines[known[line["line_number"]]] += line["count"]
    files = defaultdict(list)
    for (name, _), count in sorted(lines.items()):
        files[name].append(count > 0)
    for name, ran in files.items():
        print(f"{name:40} {sum(ran) / len(ran):6.1%} of {len(ran)} lines")
    every = [one for ran in files.values() for one in ran]
    print(f"{'the core':40} {sum(every) / max(len(every), 1):6.1%} of {len(every)} lines")


main()
