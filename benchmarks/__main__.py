"""Print how the ratios compare to their targets: `python -m benchmarks [--only PATTERN] [--quick]`.

`python -m benchmarks matrix` measures every public call instead.
"""

import argparse
import json
import os
import platform
import re
import sys

import seqcore

from . import container, embedded, exported, files, loaders, maps, matrix, models, ragged, storage  # noqa: F401  (rows)
from .chart import as_ratio, as_value
from .charts import draw
from .declare import CASES, optional
from .measure import measure

HEADINGS = ["row", "ours", "peer", "", "ratio", "target", "aim", "verdict"]
PACKAGES = ["numpy", "onnx", "onnxruntime", "torch", "pyarrow", "polars"]


def verdict(result):
    if result.holds is None:
        return "not installed"
    if not result.holds:
        return f"short by {result.shortfall(result.limit.target) - 1:.0%}"
    return "holds, aim too" if result.meets_aim else "holds"


def cells(result):
    """One line of the table."""
    limit = result.limit
    sign, unit = "≥" if limit.at_least else "≤", result.case.unit
    if limit.peer is None:
        ours, target, aim = (
            "" if value is None else as_value(value, unit) for value in (result.ours, limit.target, limit.aim)
        )
        return [result.case.title, ours, "", "", "", f"{sign} {target}", aim, verdict(result)]
    return [
        result.case.title,
        "" if result.ours is None else as_value(result.ours, unit),
        limit.peer,
        "" if result.peer is None else as_value(result.peer, unit),
        "" if result.ratio is None else as_ratio(result.ratio),
        f"{sign} {as_ratio(limit.target)}",
        "" if limit.aim is None else as_ratio(limit.aim),
        verdict(result),
    ]


def print_lines(lines, widths):
    for line in lines:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(padded).rstrip(), flush=True)


def as_json(results):
    rows = [
        {
            "group": result.case.group,
            "row": result.case.title,
            "unit": result.case.unit,
            "ours": result.ours,
            "peer": result.limit.peer,
            "peer_value": result.peer,
            "ratio": result.ratio,
            "direction": "peer / ours at least" if result.limit.at_least else "ours / peer at most",
            "target": result.limit.target,
            "aim": result.limit.aim,
            "holds": result.holds,
        }
        for result in results
    ]
    return {"machine": machine(), "statistic": "median of paired ratios", "rows": rows}


def machine():
    return {
        "cpus": os.cpu_count(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "seqcore": seqcore.__version__,
        **{name: module.__version__ for name in PACKAGES if (module := optional(name))},
    }


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", default="", help="only the rows whose title matches")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--plot", metavar="FOLDER", help="draw a chart of each group as well, as SVG")
    parser.add_argument("--json", metavar="FILE", help="write the numbers as well")
    return parser.parse_args(arguments)


def parse_matrix(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks matrix", description="Every public call beside the best other way."
    )
    parser.add_argument("--only", metavar="PATTERN", default="", help="only the cells whose title matches")
    parser.add_argument("--quick", action="store_true", help="up to 10,000 elements, fewer rounds")
    parser.add_argument("--json", metavar="FILE", dest="json_file", help="write the numbers as well")
    parser.add_argument("--markdown", metavar="FILE", help="write the table as well")
    parser.add_argument("--against", metavar="FILE", help="print what has moved since the run that wrote it")
    parser.add_argument(
        "--compare",
        metavar="FILE",
        nargs="+",
        help="measure nothing; print what has moved in each pair of earlier runs, before and after",
    )
    return parser.parse_args(arguments)


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["matrix"]:
        matrix.main(**vars(parse_matrix(arguments[1:])))
        return
    options = parse(arguments)
    chosen = [case for case in CASES if re.search(options.only, case.title, re.IGNORECASE)]
    if not chosen:
        sys.exit(f"no row matches {options.only!r}")
    nrounds, seconds = (5, 0.002) if options.quick else (21, 0.01)

    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print(f"ratio: the median of {nrounds} pairs, taken in turn\n")
    widths = [max(len(case.title) for case in chosen), 10, 32, 7, 7, 10, 8, 0]
    print_lines([HEADINGS], widths)
    results = []
    for case in chosen:
        results += (measured := measure(case, nrounds, seconds))
        print_lines(map(cells, measured), widths)

    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(as_json(results), file, indent=2, ensure_ascii=False)
    if options.plot:
        draw(as_json(results), options.plot)


if __name__ == "__main__":
    main()
