"""The line that a sequence is in a terminal."""

from seqcore.dtypes import type_name

_SHAPES = 6  # that the line names


def as_text(seq):
    """Return one short line, whatever the length.

    Examples
    --------
    >>> import seqcore as sq
    >>> sq.sequence_empty("int8")
    <TensorSequence of 0 int8 tensors>
    """
    snapshot = snapshot_of(seq)
    n = len(snapshot)
    head = f"{type(seq).__name__} of {n:,} {type_of(snapshot)} {plural(n, 'tensor')}"
    shapes = " ".join(str(shape) for shape in snapshot[:_SHAPES].shapes)
    return f"<{head}{': ' if n else ''}{shapes}{' …' if n > _SHAPES else ''}>"


def type_of(seq):
    """Return the name of the element type, also of a sequence that was never initialised."""
    return "untyped" if seq.dtype is None else type_name(seq.dtype)


def plural(number, word):
    """Return the word, with an s where it stands for another number than one."""
    return word if number == 1 else f"{word}s"


def snapshot_of(seq):
    """The elements as they stand, whatever a subclass makes of slices."""
    from seqcore.core.sequence import TensorSequence  # which needs this

    return TensorSequence.__getitem__(seq, slice(None))
