"""What is saved as parts that memory holds: sequences as they come, single tensors gathered."""

from itertools import pairwise

from seqcore._arrow.protocol import bounds_of
from seqcore.core.sequence import TensorSequence
from seqcore.core.spans import lie_together

_GATHERED = 32 << 20  # bytes of single tensors that become one part
_COPIED = 64 << 20  # bytes of elements that lie apart which are copied together at a time


def parts_of(given):
    """The sequences to save.

    Parameters
    ----------
    given : TensorSequence, list or tuple of tensors, or iterable
        Of sequences or of tensors.
    """
    if isinstance(given, TensorSequence):
        return iter([given[:]])
    if isinstance(given, list | tuple) and not any(isinstance(item, TensorSequence) for item in given):
        return iter([TensorSequence(given)])
    if isinstance(given, str | bytes | dict) or hasattr(given, "__array__") or hasattr(given, "__dlpack__"):
        raise TypeError(
            f"what is saved are sequences, lists of tensors, or an iterable of either, not a bare "
            f"{type(given).__name__}: put it into a list"
        )
    return _gathered(iter(given))


def _gathered(items):
    """Sequences as they are, and runs of tensors between them as sequences."""
    loose = None
    for item in items:
        if isinstance(item, TensorSequence):
            if loose is not None:
                yield loose
                loose = None
            yield item[:]
            continue
        if loose is None:
            loose = TensorSequence([item])
        else:
            loose.append(item)
        del item
        if loose.pinned_nbytes >= _GATHERED:
            yield loose
            loose = None
    if loose is not None:
        yield loose


def cut(part, layout):
    """The stretches of a sequence that go into one batch each."""
    for start, stop in pairwise(bounds_of(part, layout)):
        stretch = part[start:stop]
        pieces = 1 if lie_together(stretch) else max(1, -(-stretch.nbytes // _COPIED))
        size = -(-len(stretch) // pieces)
        for first in range(0, len(stretch), size):
            yield stretch[first : first + size]
