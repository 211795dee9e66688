"""Print how many lines of each file of the core have run, by gcc's counters: `.ci/coverage` calls this.

A line has run if any of the C that Cython has made of it has.
"""

import json
import subprocess
from collections import defaultdict
from pathlib import Path


def main():
    lines = defaultdict(lambda: defaultdict(int))
    for data in Path("build").rglob("*.gcda"):
        done = subprocess.run(
            ["gcov", "--json-format", "--stdout", data], capture_output=True, text=True, check=True
        )
        for report in done.stdout.splitlines():
            for file in json.loads(report)["files"]:
                if file["file"].startswith("seqcore/core/") and file["file"].endswith((".pyx", ".pxd")):
                    counts = lines[file["file"]]
                    for line in file["lines"]:
                        counts[line["line_number"]] += line["count"]
    total = ran = 0
    for name, counts in sorted(lines.items()):
        missing = sorted(number for number, count in counts.items() if not count)
        total, ran = total + len(counts), ran + len(counts) - len(missing)
        print(f"{name:40} {1 - len(missing) / len(counts):6.1%}  {', '.join(map(str, missing))}"[:180])
    print(f"{'the core':40} {ran / max(total, 1):6.1%} of {total} lines")


main()
