"""Print how the ratios compare to their targets: `python -m benchmarks [--only PATTERN] [--quick]`."""

import argparse
import json
import os
import platform
import re
import sys

import numpy as np

import seqcore

from . import cases, embedded, models  # noqa: F401  (they declare the rows)
from .declare import CASES
from .measure import measure

HEADINGS = ["row", "ours", "peer", "", "ratio", "target", "aim", "verdict"]
UNITS = [(1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]


def as_time(seconds):
    size, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def as_ratio(ratio):
    """1/25 reads better than 0.04."""
    if ratio > 0.5:
        return f"{ratio:.3g}" if ratio >= 1 else f"{ratio:.2f}"
    return f"1/{1 / ratio:,.0f}" if ratio < 0.01 else f"1/{1 / ratio:.3g}"


def verdict(result):
    if result.holds is None:
        return "not installed"
    if not result.holds:
        return f"short by {result.shortfall(result.limit.target) - 1:.0%}"
    return "holds, aim too" if result.meets_aim else "holds"


def cells(result):
    """One line of the table."""
    limit = result.limit
    if result.unit == "bytes":
        ours, target, aim = f"{result.ours:.1f} bytes", f"≤ {limit.target} bytes", f"{limit.aim} bytes"
        return [result.title, ours, "", "", "", target, aim, verdict(result)]
    sign = "≥" if limit.at_least else "≤"
    return [
        result.title,
        "" if result.ours is None else as_time(result.ours),
        limit.peer,
        "" if result.peer is None else as_time(result.peer),
        "" if result.ratio is None else as_ratio(result.ratio),
        f"{sign} {as_ratio(limit.target)}",
        "" if limit.aim is None else as_ratio(limit.aim),
        verdict(result),
    ]


def print_lines(lines, widths):
    for line in lines:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(padded).rstrip(), flush=True)


def plot(results, path):
    """Draw ours / peer for each row on a log scale, the target as a mark; "at least" is turned around."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [result for result in results if result.unit == "s" and result.ratio is not None]
    figure, axes = pyplot.subplots(figsize=(12, 1.8 + 0.42 * len(shown)), layout="constrained")
    for y, result in enumerate(shown):
        power, ends = -1 if result.limit.at_least else 1, [y - 0.42, y + 0.42]
        ratio, target = result.ratio**power, result.limit.target**power
        bar = axes.barh(y, ratio - 1, left=1, height=0.6, color="#4c8c6a" if result.holds else "#c8553d")
        if all(other.holds != result.holds for other in shown[:y]):
            bar.set_label("holds" if result.holds else "falls short")
        axes.plot([target] * 2, ends, color="black", linewidth=2, label="_" if y else "target")
        if result.limit.aim is not None:
            axes.plot([result.limit.aim**power] * 2, ends, color="black", linewidth=1, linestyle=":")
        text = f"{as_ratio(ratio)}  (≤ {as_ratio(target)})"
        axes.text(1.01, y, text, transform=axes.get_yaxis_transform(), va="center", fontsize=9)
    axes.plot([], [], color="black", linewidth=1, linestyle=":", label="aim")
    axes.axvline(1, color="grey", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}" if x >= 1 else f"1/{1 / x:g}")
    labels = [f"{result.title}\n/ {result.limit.peer}" for result in shown]
    axes.set_yticks(range(len(shown)), labels, fontsize=8)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("time of ours / time of the peer: left is faster")
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.1)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=120)


def as_json(results):
    rows = [
        {
            "row": result.title,
            "unit": result.unit,
            "ours": result.ours,
            "peer": result.limit.peer if result.unit == "s" else None,
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
        "numpy": np.__version__,
        "seqcore": seqcore.__version__,
    }


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", default="", help="only the rows whose title matches")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--plot", metavar="FILE", help="draw a chart as well")
    parser.add_argument("--json", metavar="FILE", help="write the numbers as well")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    chosen = [case for case in CASES if re.search(options.only, case.title, re.IGNORECASE)]
    if not chosen:
        sys.exit(f"no row matches {options.only!r}")
    nrounds, seconds = (5, 0.002) if options.quick else (21, 0.01)

    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print(f"ratio: the median of {nrounds} pairs, taken in turn\n")
    widths = [max(len(case.title) for case in chosen), 10, 28, 7, 7, 10, 8, 0]
    print_lines([HEADINGS], widths)
    results = []
    for case in chosen:
        results += (measured := measure(case, nrounds, seconds))
        print_lines(map(cells, measured), widths)

    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(as_json(results), file, indent=2, ensure_ascii=False)
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
