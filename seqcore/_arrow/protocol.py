"""What the methods of `TensorSequence` call: Arrow's PyCapsule interface."""

from functools import partial

from seqcore._arrow.chunks import sequence_of
from seqcore._arrow.layouts import layout_of
from seqcore._format.text import snapshot_of
from seqcore._shown import shown
from seqcore.core.arrow_export import array_capsule, schema_capsule, stream_capsule
from seqcore.core.arrow_import import read_array, read_schema, read_stream


def give_schema(seq):
    """A capsule of the type of a sequence's array."""
    return schema_capsule(layout_of(snapshot_of(seq)).field)


def give_array(seq, requested):
    """Capsules of the type and of the array of a sequence as it stands."""
    seq = snapshot_of(seq)
    layout = layout_of(seq, None if requested is None else read_schema(requested))
    return schema_capsule(layout.field), array_capsule(layout.column(seq))


def give_stream(seq, requested):
    """A capsule of a stream of the arrays of a sequence as it stands."""
    seq = snapshot_of(seq)
    layout = layout_of(seq, None if requested is None else read_schema(requested))
    bounds = layout.bounds(seq)
    # Not a generator: where a consumer leaves off, Python would have to run it to end it.
    return stream_capsule(layout.field, map(partial(_column, seq, layout), bounds, bounds[1:]))


def _column(seq, layout, start, stop):
    return layout.column(seq[start:stop])


def take(given):
    """A sequence of what gives itself away by Arrow's interface.

    Raises
    ------
    TypeError
        If it does not, or has elements that are no tensors.
    ValueError
        If it is damaged, or was taken before.
    """
    if getattr(given, "__arrow_c_array__", None) is not None:
        capsules = given.__arrow_c_array__()
        if not isinstance(capsules, tuple) or len(capsules) != 2:
            raise TypeError(
                f"{type(given).__name__}.__arrow_c_array__ gave {shown(capsules)}, not two capsules"
            )
        chunk = read_array(*capsules)
        return sequence_of(chunk.field, [chunk])
    if getattr(given, "__arrow_c_stream__", None) is not None:
        stream = read_stream(given.__arrow_c_stream__())
        return sequence_of(stream.field, stream)
    raise TypeError(
        f"{shown(given)} is no array of Arrow's: a {type(given).__name__} has neither __arrow_c_array__ nor "
        "__arrow_c_stream__"
    )
