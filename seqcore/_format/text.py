"""The one-line representation."""

from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import type_name

_SHAPES = 6  # in the line, at most


def as_text(seq):
    """Return one short line for a sequence of any length.

    Examples
    --------
    >>> import seqcore as sq
    >>> sq.sequence_empty("int8")
    <TensorSequence of 0 int8 tensors>
    """
    snapshot = snapshot_of(seq)
    n = len(snapshot)
    head = f"{type(seq).__name__} of {n:,} {type_of(snapshot)} {plural(n, 'tensor')}"
    try:
        shapes = " ".join(str(shape) for shape in snapshot[:_SHAPES].shapes)
    except ValueError:  # offsets in a damaged file; a debugger shows the line all the same
        shapes = "(damaged)"
    return f"<{head}{': ' if n else ''}{shapes}{' …' if n > _SHAPES else ''}>"


def type_of(seq):
    """Return the name of the element type; "untyped" for a sequence that is not initialized."""
    return "untyped" if seq.dtype is None else type_name(seq.dtype)


def plural(number, word):
    """Return the word, with an s unless the number is one."""
    return word if number == 1 else f"{word}s"


def snapshot_of(seq):
    """Return a snapshot of a sequence, also if a subclass overrides slices."""
    return TensorSequence.__getitem__(seq, slice(None))
