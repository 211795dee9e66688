"""How a sequence shows itself: a line in a terminal, a table in a notebook."""

from html import escape
from itertools import chain, islice

import numpy as np

from seqcore.dtypes import type_name

_SHAPES = 6  # that the line names
_ROWS = 5  # that the table shows at either end


def as_text(seq):
    """Return one short line, whatever the length.

    Examples
    --------
    >>> import seqcore as sq
    >>> sq.sequence_empty("int8")
    <TensorSequence of 0 int8 tensors>
    """
    snapshot = seq[:]
    n = len(snapshot)
    head = f"{type(seq).__name__} of {n:,} {_type(seq)} tensor{'s' if n != 1 else ''}"
    shapes = " ".join(str(shape) for shape in snapshot[:_SHAPES].shapes)
    return f"<{head}{': ' if n else ''}{shapes}{' …' if n > _SHAPES else ''}>"


def as_html(seq):
    """Return a table of the first and last elements: position, shape, bytes and first values."""
    snapshot = seq[:]
    n = len(snapshot)
    shown = range(n) if n <= 2 * _ROWS + 1 else chain(range(_ROWS), [None], range(n - _ROWS, n))
    rows = "".join(_row(i, None if i is None else snapshot[i]) for i in shown)
    table = (
        "<table><thead><tr><th>position</th><th>shape</th><th>bytes</th>"
        f"<th>first values</th></tr></thead><tbody>{rows}</tbody></table>"
    )
    head = f"{escape(type(seq).__name__)}: {n:,} tensor{'s' if n != 1 else ''} of {_type(seq)}"
    return f"<div><p>{head}, {snapshot.nbytes:,} bytes</p>{table if n else ''}</div>"


def _type(seq):
    return "untyped" if seq.dtype is None else type_name(seq.dtype)


def _row(position, tensor):
    if tensor is None:
        return '<tr><td colspan="4">…</td></tr>'
    values = [_value(item) for item in islice(_items(tensor), min(tensor.size, 4))]
    more = " …" if tensor.size > len(values) else ""
    cells = (position, tensor.shape, f"{tensor.nbytes:,}", " ".join(values) + more)
    return "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>"


def _items(tensor):
    # Not .flat, which NumPy has up to rank 32 only, nor .reshape(-1), which may copy.
    if tensor.ndim == 0:
        yield tensor[()]
    elif tensor.ndim == 1:
        yield from tensor
    else:
        for part in tensor:
            yield from _items(part)


def _value(item):
    if isinstance(item, str):
        return f"{item!r:.40}"
    return f"{item:.4g}" if isinstance(item, np.inexact) else str(item)
