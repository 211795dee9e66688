"""Draw the charts of a run: a file for each group, and the one on the first page.

They are drawn from what `--json` writes: `python -m benchmarks.charts RUN.json FOLDER` draws a run anew.
"""

import json
import sys
from pathlib import Path

from .chart import CHARTS, chart
from .front import front


def draw(run, folder):
    """Write the charts of a run, a dict as `--json` has it, into a folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    shown = [row for row in run["rows"] if row["peer"] is not None and row["ratio"] is not None]
    for name, (title, groups) in CHARTS.items():
        if rows := [row for row in shown if row["group"] in groups]:
            text = chart(title, rows, run["machine"])
            (Path(folder) / f"benchmark-{name}.svg").write_text(text, encoding="utf-8")
    if text := front(run):
        (Path(folder) / "benchmark-front.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run, folder = sys.argv[1:]
    draw(json.loads(Path(run).read_text(encoding="utf-8")), folder)
