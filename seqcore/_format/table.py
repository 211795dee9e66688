"""The table of the first and last elements."""

from html import escape
from itertools import chain, islice

import numpy as np

_ROWS = 5  # at either end


def table_of(snapshot):
    """Return the table as HTML: position, shape, bytes and first values."""
    n = len(snapshot)
    shown = range(n) if n <= 2 * _ROWS + 1 else chain(range(_ROWS), [None], range(n - _ROWS, n))
    rows = ""
    for i in shown:
        rows += _row(i, None if i is None else snapshot[i])
    return (
        '<table style="margin:0;color:inherit"><thead><tr><th>position</th><th>shape</th><th>bytes</th>'
        f"<th>first values</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _row(position, tensor):
    if tensor is None:
        return '<tr><td colspan="4">…</td></tr>'
    values = [_value(item) for item in islice(_items(tensor), min(tensor.size, 4))]
    more = " …" if tensor.size > len(values) else ""
    cells = (position, tensor.shape, f"{tensor.nbytes:,}", " ".join(values) + more)
    return "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>"


def _items(tensor):
    # Not .flat, which NumPy supports up to rank 32 only, nor .reshape(-1), which may copy.
    if tensor.ndim == 0:
        yield tensor[()]
    elif tensor.ndim == 1:
        yield from tensor
    else:
        for part in tensor:
            yield from _items(part)


def _value(item):
    if isinstance(item, str):
        return f"{item[:60]!r:.40}"
    return f"{item:.4g}" if isinstance(item, np.inexact) else str(item)
