"""A chart of a group of rows, as SVG, of a phone's width."""

import math
import textwrap
from html import escape
from itertools import groupby

UNITS = {
    "s": [(1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
    "bytes": [(1e6, "MB"), (1e3, "kB"), (1, "bytes")],
    "%": [(1, "%")],
    "times": [(1, "times")],
}


def as_value(value, unit):
    size, name = next((pair for pair in UNITS[unit] if value >= pair[0]), UNITS[unit][-1])
    return f"{value / size:.3g} {name}"


def as_ratio(ratio):
    """1/25 reads better than 0.04."""
    if ratio > 0.5:
        return f"{ratio:.3g}" if ratio >= 1 else f"{ratio:.2f}"
    return f"1/{1 / ratio:,.0f}" if ratio < 0.01 else f"1/{1 / ratio:.3g}"


CHARTS = {  # their titles, and the groups that are on them
    "container": ("Split, concatenate, access, edit", ["container", "embedded"]),
    "maps": ("Maps", ["maps"]),
    "ragged": ("Ragged data", ["ragged"]),
    "files": ("Arrow and files", ["files"]),
    "loaders": ("Loaders of training data", ["loaders"]),
    "models": ("ONNX loops that append to lists", ["models"]),
}
WIDTH, MARGIN = 360, 14  # the same as those of a phone, so that 12 units stay 12 pixels
STYLE = """
    text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1d2b28 }
    .title { font-size: 14px; font-weight: 600 }
    .row { font-weight: 600 }
    .note { font-size: 11.5px; fill: #4b5b55 }
    .mid { text-anchor: middle }
    .end { text-anchor: end }
    .panel { fill: #f7f9f8; stroke: #c8d3cf }
    .holds { fill: #3f8f6c }
    .short { fill: #c2571f }
    .grid { stroke: #d5dedb }
    .even { stroke: #4b5b55 }
    .target { stroke: #1d2b28; stroke-width: 2.5 }
    .aim { stroke: #1d2b28; stroke-width: 1.5; stroke-dasharray: 2 2 }
    .halo { stroke: #f7f9f8; stroke-width: 4px; stroke-linejoin: round; paint-order: stroke }
    @media (prefers-color-scheme: dark) {
      text { fill: #dfe7e4 }
      .note { fill: #a9b8b2 }
      .panel { fill: #181b1a; stroke: #2e3633 }
      .holds { fill: #5fb58f }
      .short { fill: #e07a45 }
      .grid { stroke: #343d3a }
      .even { stroke: #a9b8b2 }
      .target, .aim { stroke: #dfe7e4 }
      .halo { stroke: #181b1a }
    }
"""


def as_speedup(speedup):
    """Return 12× or 1,900×: two significant digits, which is what such a figure is good for."""
    if speedup < 9.5:
        return f"{speedup:.2g}×"
    unit = 10 ** (math.floor(math.log10(speedup)) - 1)
    return f"{round(speedup / unit) * unit:,.0f}×"


class Axis:
    """A logarithmic axis with a place for some speedups, 0.1× and 10×."""

    def __init__(self, speedups):
        self.low, self.high = math.log10(min(*speedups, 0.1)), math.log10(max(*speedups, 10))

    def __call__(self, speedup):
        share = (math.log10(speedup) - self.low) / (self.high - self.low)
        return MARGIN + 10 + share * (WIDTH - 2 * MARGIN - 20)

    def decades(self):
        return [10.0**power for power in range(math.ceil(self.low), math.floor(self.high) + 1)]

    def numbers(self, y):
        decades = self.decades()
        shown = decades if len(decades) < 6 else [one for one in decades if round(math.log10(one)) % 2 == 0]
        return [label(self(one), y, as_speedup(one), "note mid") for one in shown]

    def lines(self, y):
        """The grid behind a bar."""
        return [
            f'  <path class="{"even" if one == 1 else "grid"}" d="M{self(one):.1f} {y - 4} v17"/>'
            for one in self.decades()
        ]


def chart(title, rows, machine):
    """Return the SVG of a group of rows."""
    rows = [turned(row) for row in rows]
    axis = Axis([1 / value for row in rows for value in (row["ratio"], row["target"], row["aim"] or 1)])
    parts, y = [], 26
    parts.append(label(MARGIN, y, title, "title"))
    times = all(row["unit"] == "s" for row in rows)
    what = (
        "Speedup over the library that is named. Right of 1× seqcore is faster. Logarithmic axis."
        if times
        else "How many times less memory or time than the peer. Right of 1× is less. Logarithmic axis."
    )
    y = lines(parts, y + 18, what, "note")
    y = legend(parts, y + 2)
    parts += axis.numbers(y)
    y += 6
    for name, of_row in groupby(rows, key=lambda row: row["row"]):
        of_row = [*of_row]
        y = lines(parts, y + 18, name, "row") - 16
        for row in of_row:
            y = bar(parts, y + 16, row, axis)
        y += 6
    parts += axis.numbers(y + 8)
    y = lines(parts, y + 32, described(machine), "note")
    return svg(title, summary(rows), y, parts)


def turned(row):
    """A row whose ratios are ours / peer, whichever way its target is put."""
    power = -1 if row["direction"].startswith("peer") else 1
    return row | {key: row[key] and row[key] ** power for key in ("ratio", "target", "aim")}


def bar(parts, y, row, axis):
    """Draw the peer, the speedup and its target; both values; and below them a bar with marks."""
    verdict = "holds" if row["holds"] else "short"
    speedup = 1 / row["ratio"]
    figures = f"{as_speedup(speedup)} (≥ {as_speedup(1 / row['target'])})"
    ours, theirs = (as_value(row[key], row["unit"]) for key in ("ours", "peer_value"))
    both = f"seqcore {ours}, peer {theirs}"
    parts.append(label(MARGIN, y, row["peer"]))
    parts.append(label(WIDTH - MARGIN, y, figures, "end"))
    parts.append(label(MARGIN, y + 15, both, "note"))
    y += 22
    parts += axis.lines(y)
    left, right = sorted((axis(speedup), axis(1)))
    parts.append(
        f'  <rect class="{verdict}" x="{left:.1f}" y="{y}" width="{max(right - left, 1):.1f}" height="9"/>'
    )
    for kind in ("aim", "target"):
        if row[kind] is not None:
            parts.append(f'  <path class="{kind}" d="M{axis(1 / row[kind]):.1f} {y - 2} v13"/>')
    return y + 12


def legend(parts, y):
    x = MARGIN
    for kind, word in (("holds", "holds"), ("short", "falls short")):
        parts.append(f'  <rect class="{kind}" x="{x}" y="{y - 9}" width="14" height="9"/>')
        parts.append(label(x + 19, y, word, "note"))
        x += 34 + 7 * len(word)
    for kind in ("target", "aim"):
        parts.append(f'  <path class="{kind}" d="M{x + 4} {y - 11} v13"/>')
        parts.append(label(x + 11, y, kind, "note"))
        x += 30 + 7 * len(kind)
    return y + 22


def label(x, y, text, kind=""):
    kind = f' class="{kind}"' if kind else ""
    return f'  <text{kind} x="{x:g}" y="{y:g}">{escape(text)}</text>'


def lines(parts, y, text, kind):
    """A text in as many lines as it takes; returns where the next one would stand."""
    for line in textwrap.wrap(text, 46 if kind == "row" else 50):
        parts.append(label(MARGIN, y, line, kind))
        y += 16
    return y


def summary(rows):
    return " ".join(f"{row['row']}: {as_speedup(1 / row['ratio'])} {row['peer']}." for row in rows)


def described(machine):
    versions = {
        "python": "Python",
        "numpy": "NumPy",
        "onnxruntime": "onnxruntime",
        "torch": "PyTorch",
        "pyarrow": "pyarrow",
    }
    named = [
        f"{word} {machine[name].partition('+')[0]}" for name, word in versions.items() if name in machine
    ]
    return f"{machine['cpus']} CPUs, {machine['processor']}, {', '.join(named)}; medians of pairs"


def svg(title, description, height, parts):
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc"',
            f'     viewBox="0 0 {WIDTH} {height}" width="{WIDTH * 3 // 2}" height="{height * 3 // 2}">',
            f'  <title id="title">{escape(title)}</title>',
            f'  <desc id="desc">{escape(description)}</desc>',
            f"  <style>{STYLE}  </style>",
            f'  <rect class="panel" x="0.6" y="0.6" width="{WIDTH - 1.2}" height="{height - 1.2}" rx="8"/>',
            *parts,
            "</svg>\n",
        ]
    )
