"""The HTML representation for notebooks."""

from html import escape

import numpy as np

from seqcore._format.histogram import histogram_of
from seqcore._format.pictures import pictures_of
from seqcore._format.table import table_of
from seqcore._format.text import as_text, plural, snapshot_of, type_of
from seqcore.core.arrow import first_misfit


def as_html(seq):
    """Return a heading, pictures, a table of the first and last elements, and a histogram of the lengths.

    Only the values that are shown are read, but all shapes. For a damaged file it is the line of `repr`.
    """
    try:
        return _as_html(seq)
    except ValueError:  # an element that can't be read
        return f"<p>{escape(as_text(seq))}</p>"


def _as_html(seq):
    snapshot = snapshot_of(seq)
    n = len(snapshot)
    lengths = sorted_lengths(snapshot)
    differ = len(lengths) > 0 and lengths[0] != lengths[-1]
    heading = [
        f"{escape(type(seq).__name__)}: {n:,} {plural(n, 'tensor')} of {type_of(snapshot)}",
        f"{snapshot.nbytes:,} bytes",
        *([] if differ else _one_for_all(snapshot, lengths)),
    ]
    shown = [table_of(snapshot)] if n else []
    if differ:
        shown.append(histogram_of(lengths, n))
    style = "display:flex;flex-wrap:wrap;align-items:flex-start;gap:12px 32px"
    below = f'<div style="{style}">{"".join(shown)}</div>' if shown else ""
    return f"<div><p>{', '.join(heading)}</p>{pictures_of(snapshot)}{below}</div>"


def sorted_lengths(snapshot):
    """Return the lengths along axis 0 in ascending order, without elements of rank 0. O(n log n)."""
    if len(snapshot) == 0:
        return np.zeros(0, np.int64)
    try:
        lengths = snapshot.lengths()
    except ValueError:  # an element of rank 0
        lengths = np.array([shape[0] for shape in snapshot.shapes if shape], np.int64)
    lengths.sort()
    return lengths


def _have_one_shape(snapshot):
    """Return whether all elements, one at least, have one shape."""
    (shape,) = snapshot[:1].shapes
    return first_misfit(snapshot, len(shape), len(shape), shape) == len(snapshot)


def _one_for_all(snapshot, lengths):
    """Return the common shape or length of all elements as text, if there is one."""
    n = len(snapshot)
    if n and _have_one_shape(snapshot):
        (shape,) = snapshot[:1].shapes
        return [f"{'each ' if n > 1 else ''}of shape {shape}"]
    return [f"each of length {lengths[0]:,}"] if 0 < len(lengths) == n else []
