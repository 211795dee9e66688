"""The chart on the first page: typical rows of a run, good and bad, each beside what people use today."""

import math

from .chart import MARGIN, WIDTH, as_speedup, as_value, described, label, lines, svg, turned

TITLE = "Speedup over lists, NumPy and others"
ROWS = [  # what is done, the row of the benchmarks, its peer, and how to name that
    (
        "Split an array into 20,000 parts",
        "split 100,000 x 8 float32 into 20,000 uneven parts",
        "slicing list comprehension",
        "list comprehension",
    ),
    (
        "Remove half of 100,000 by a mask",
        "del seq[mask] of half of 100,000",
        "a list comprehension that keeps the others",
        "list comprehension",
    ),
    (
        "Concatenate 10,000 of 1 to 39 rows",
        "concatenate 10,000 arrays of 1 to 39 x 8 float32",
        "np.concatenate",
        "np.concatenate",
    ),
    (
        "Pad 10,000 of 1 to 19 rows",
        "to_padded of 10,000 x 1 to 19 x 8 float32",
        "a loop over a list",
        "loop over a list",
    ),
    (
        "Open a file of 100,000, 200 MB",
        "load a file of 100,000 x 1 to 999 float32 (200 MB)",
        "unpickling a list",
        "unpickling a list",
    ),
    (
        "Insert near the last edit, of 10⁶",
        "500 inserts within ±8 of the last edit, n = 10⁶",
        "list.insert",
        "list.insert",
    ),
    (
        "Insert at random positions, of 10⁵",
        "2,000 inserts at random positions, n = 10⁵",
        "list.insert",
        "list.insert",
    ),
    (
        "Loop over 100,000 one by one",
        "iterate over 100,000 elements of 1 x 8",
        "iterate over a list",
        "list",
    ),
    (
        "ONNX recurrent loop, 1,000 steps",
        "a loop with a recurrent state: append, 1,000 iterations",
        "onnxruntime",
        "onnxruntime",
    ),
    (
        "ONNX recurrent loop, 10,000 steps",
        "a loop with a recurrent state: append, 10,000 iterations",
        "onnxruntime",
        "onnxruntime",
    ),
    (
        "ONNX independent loop, 1,000 steps",
        "a PyTorch loop: append and stack, 1,000 iterations",
        "onnxruntime",
        "onnxruntime",
    ),
]
LOWEST, HIGHEST = -1, 4  # powers of ten at the ends of the axis, at least


def front(run):
    """Return the SVG, or None where the run hasn't all of its rows."""
    found = {(row["row"], row["peer"]): turned(row) for row in run["rows"] if row["ratio"] is not None}
    if not all((title, peer) in found for _, title, peer, _ in ROWS):
        return None
    speedups = [1 / found[title, peer]["ratio"] for _, title, peer, _ in ROWS]
    low = min(LOWEST, math.floor(math.log10(min(speedups))))
    high = max(HIGHEST, math.ceil(math.log10(max(speedups))))

    def x_of(speedup):
        return MARGIN + 16 + (math.log10(speedup) - low) / (high - low) * (WIDTH - 2 * MARGIN - 40)

    decades = [10.0**power for power in range(low, high + 1)]
    numbers = [(x_of(one), as_speedup(one)) for one in decades]
    parts = [label(MARGIN, 26, TITLE, "title")]
    y = lines(parts, 44, "Right of 1× seqcore is faster. Logarithmic axis.", "note") + 4
    parts += [label(x, y, text, "note mid") for x, text in numbers]
    y, said = y + 24, []
    bars = []
    for (words, title, peer, name), speedup in zip(ROWS, speedups, strict=True):
        row = found[title, peer]
        theirs, ours = (as_value(row[key], row["unit"]) for key in ("peer_value", "ours"))
        bars.append(label(MARGIN, y, words, "row halo"))
        bars.append(label(WIDTH - MARGIN, y, as_speedup(speedup), "row end halo"))
        for x, _ in numbers:  # beside the bar alone, so that no word stands across a line
            grid = "even" if x == x_of(1) else "grid"
            bars.append(f'  <path class="{grid}" d="M{x:.1f} {y + 3} v15"/>')
        left, right = sorted((x_of(speedup), x_of(1)))
        kind = "holds" if speedup >= 1 else "short"
        width = max(right - left, 1)
        bars.append(f'  <rect class="{kind}" x="{left:.1f}" y="{y + 6}" width="{width:.1f}" height="9"/>')
        bars.append(label(MARGIN, y + 29, f"{name} {theirs}, seqcore {ours}", "note halo"))
        said.append(f"{words}: {as_speedup(speedup)}, {ours} instead of {theirs} with {name}.")
        y += 52
    parts += bars
    y = lines(parts, y + 4, described(run["machine"]), "note")
    return svg(TITLE, " ".join(said), y, parts)
