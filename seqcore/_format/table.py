"""The table of the first and last elements."""

from html import escape
from itertools import chain, islice

import numpy as np

_ROWS = 5  # at either end


def table_of(snapshot):
    """Return the table as HTML: position, shape, bytes and first values."""
    rows = ""
    for i in positions_shown(len(snapshot)):
        rows += _row(i, None if i is None else snapshot[i])
    return (
        '<table style="margin:0;color:inherit"><thead><tr><th>position</th><th>shape</th><th>bytes</th>'
        f"<th>first values</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def positions_shown(n):
    """Return the positions of the first and last of n rows, with None for those in between."""
    return range(n) if n <= 2 * _ROWS + 1 else chain(range(_ROWS), [None], range(n - _ROWS, n))


def first_values(tensor):
    """Return the first values of an array as text."""
    values = [_value(item) for item in islice(_items(tensor), min(tensor.size, 4))]
    return " ".join(values) + (" …" if tensor.size > len(values) else "")


def _row(position, tensor):
    if tensor is None:
        return '<tr><td colspan="4">…</td></tr>'
    cells = (position, tensor.shape, f"{tensor.nbytes:,}", first_values(tensor))
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
