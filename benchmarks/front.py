"""The picture on the first page: a few rows of a run, in plain words, each beside what people use today."""

import math

from .chart import MARGIN, WIDTH, as_value, described, label, lines, svg, turned

TITLE = "How many times quicker"
ROWS = [  # the words for it, the row, its peer, the words for that, and for one operation
    (
        "Cut an array into 100,000 rows",
        "split 100,000 x 8 float32 into rows",
        "slicing list comprehension",
        "a list",
        "",
    ),
    (
        "Insert in the midst of a million",
        "500 inserts within ±8 of a cursor, n = 10⁶",
        "list.insert",
        "a list",
        " an insert",
    ),
    ("Join 30,000 arrays", "join 30,000 whole arrays of 1 to 8 x 8 float32", "np.concatenate", "NumPy", ""),
    (
        "Pad 10,000 of different lengths",
        "to_padded of 10,000 x 1 to 19 x 8 float32",
        "torch's pad_sequence",
        "PyTorch",
        "",
    ),
    (
        "Load 100,000 arrays from a file",
        "load a file of 100,000 x 1 to 999 float32 (200 MB)",
        "unpickling a list",
        "pickle",
        "",
    ),
    (
        "A model of 10,000 appends",
        "a PyTorch loop: append and stack, 10,000 iterations",
        "onnxruntime",
        "onnxruntime",
        " an append",
    ),
]
MOST = 5  # decades that a bar has room for


def front(run):
    """Return the SVG, or None where the run hasn't all of its rows."""
    found = {(row["row"], row["peer"]): turned(row) for row in run["rows"] if row["ratio"] is not None}
    if not all((title, peer) in found for _, title, peer, *_ in ROWS):
        return None
    parts, said, y = [label(MARGIN, 26, TITLE, "title")], [], 52
    for words, title, peer, name, one in ROWS:
        row = found[title, peer]
        times = as_times(1 / row["ratio"])
        both = [as_value(row[key], row["unit"]) for key in ("peer_value", "ours")]
        parts.append(label(MARGIN, y, words, "row"))
        parts.append(label(WIDTH - MARGIN, y, times, "row end"))
        width = (WIDTH - 2 * MARGIN) * min(max(math.log10(1 / row["ratio"]), 0.05) / MOST, 1)
        parts.append(f'  <rect class="holds" x="{MARGIN}" y="{y + 6}" width="{width:.1f}" height="8"/>')
        parts.append(label(MARGIN, y + 28, f"{name}: {both[0]}, seqcore: {both[1]}{one}", "note"))
        said.append(f"{words}: {times} as quick as {name}, {both[1]} for {both[0]}{one}.")
        y += 52
    y = lines(parts, y, "Bars are logarithmic. " + described(run["machine"]), "note")
    return svg(TITLE, " ".join(said), y, parts)


def as_times(times):
    return f"{times:,.0f} times" if times >= 9.5 else f"{times:.1f} times"
