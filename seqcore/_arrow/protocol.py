"""Arrow's PyCapsule interface, for the methods of `TensorSequence`."""

from functools import partial

from seqcore._arguments.protocols import instead_of
from seqcore._arguments.shown import got, shown
from seqcore._arrow.chunks import sequence_of
from seqcore._arrow.layouts import layout_of
from seqcore._format.text import snapshot_of
from seqcore.core.arrow import (
    array_capsule,
    read_array,
    read_schema,
    read_stream,
    schema_capsule,
    stream_capsule,
)


def give_schema(seq):
    """Export the type of a sequence's array, as a capsule."""
    return schema_capsule(layout_of(snapshot_of(seq)).field)


def give_array(seq, requested):
    """Export a snapshot of a sequence: the capsules of the type and of the array."""
    seq = snapshot_of(seq)
    layout = layout_of(seq, None if requested is None else read_schema(requested))
    return schema_capsule(layout.field), array_capsule(layout.field, layout.column(seq))


def give_stream(seq, requested):
    """Export a snapshot of a sequence as a stream of arrays, in a capsule."""
    seq = snapshot_of(seq)
    layout = layout_of(seq, None if requested is None else read_schema(requested))
    bounds = layout.bounds(seq)
    # Not a generator, because closing an unfinished one runs Python code.
    return stream_capsule(layout.field, map(partial(_column, seq, layout), bounds, bounds[1:]))


def _column(seq, layout, start, stop):
    return layout.column(seq[start:stop])


def take(given):
    """Import an object with Arrow's PyCapsule interface as a sequence.

    Raises
    ------
    TypeError
        If the object lacks the interface, or its type is not supported.
    ValueError
        If the array is damaged, or was consumed before.
    """
    if getattr(given, "__arrow_c_array__", None) is not None:
        capsules = given.__arrow_c_array__()
        if not isinstance(capsules, tuple) or len(capsules) != 2:
            raise TypeError(
                f"{type(given).__name__}.__arrow_c_array__ must return two capsules, got {shown(capsules)}"
            )
        chunk = read_array(*capsules)
        return sequence_of(chunk.field, [chunk])
    if getattr(given, "__arrow_c_stream__", None) is not None:
        stream = read_stream(given.__arrow_c_stream__())
        return sequence_of(stream.field, stream)
    raise TypeError(
        f"expected an Arrow array, an object with __arrow_c_array__ or __arrow_c_stream__, got {got(given)}: "
        f"{instead_of(given, 'pyarrow.array(...) makes one')}"
    )
