"""What is saved as parts that memory holds: sequences as they come, single tensors gathered."""

from itertools import pairwise

from seqcore._format.text import snapshot_of
from seqcore._shown import shown_error
from seqcore.core.sequence import TensorSequence
from seqcore.core.layout import lie_together

_GATHERED = 32 << 20  # bytes of single tensors that become one part
_COPIED = 64 << 20  # bytes of elements that lie apart which are copied together at a time
_BATCH = 1 << 30  # bytes of a batch, for not every reader takes arrays of more than 2³¹ items


def parts_of(given):
    """The sequences to save, each with the number of the item that it begins with.

    Parameters
    ----------
    given : TensorSequence, list or tuple of tensors, or iterable
        Of sequences or of tensors.
    """
    if isinstance(given, TensorSequence):
        return iter([(0, snapshot_of(given))])
    if isinstance(given, list | tuple) and not any(isinstance(item, TensorSequence) for item in given):
        return iter([(0, TensorSequence(given))])
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        raise TypeError(
            f"a {type(given).__name__} is no sequence: save what TensorSequence.from_arrow makes of it, or "
            "of one of its columns"
        )
    if isinstance(given, str | bytes | dict) or hasattr(given, "__array__") or hasattr(given, "__dlpack__"):
        raise TypeError(
            f"what is saved are sequences, lists of tensors, or an iterable of either, not a bare "
            f"{type(given).__name__}: put it into a list"
        )
    return _gathered(iter(given))


def _gathered(items):
    """Sequences as they are, and tensors between them gathered."""
    loose, first = None, 0
    for number, item in enumerate(items):
        if isinstance(item, TensorSequence):
            if loose is not None:
                yield first, loose
                loose = None
            yield number, snapshot_of(item)
            continue
        try:
            # A copy: generators like to fill one array again and again.
            if loose is None:
                loose, first, gathered = TensorSequence([item], copy=True), number, 0
            else:
                loose.extend(TensorSequence([item], loose.dtype, copy=True))
        except (TypeError, ValueError) as error:
            raise about(f"part {number}", error) from error
        del item
        tensor = loose[-1]
        if tensor.ndim != loose[0].ndim:
            raise ValueError(
                f"part {number} is a tensor of shape {tensor.shape}, but those before it are of rank "
                f"{loose[0].ndim}: a file has one rank"
            )
        gathered += tensor.nbytes
        if gathered >= _GATHERED:
            yield first, loose
            loose = None
    if loose is not None:
        yield first, loose


def about(name, error):
    """A TypeError or ValueError that says which part it is about."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{name}: {shown_error(error)}")


def cut(part, layout):
    """The stretches of a sequence that go into one batch each."""
    for start, stop in pairwise(layout.bounds(part)):
        stretch = part[start:stop]
        most = _BATCH if lie_together(stretch) else _COPIED
        pieces = max(1, -(-stretch.nbytes // most))
        size = -(-len(stretch) // pieces)
        for first in range(0, len(stretch), size):
            yield stretch[first : first + size]
