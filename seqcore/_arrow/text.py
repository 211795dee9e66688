"""Convert strings between UTF-8 in Arrow's buffers and object arrays of `str`. Always a copy."""

from itertools import pairwise

import numpy as np

from seqcore._arguments.shown import shown
from seqcore.core.fields import LARGE_TEXT, TEXT, TEXT_VIEW, Column, Field

TEXTS = TEXT, LARGE_TEXT, TEXT_VIEW

_INLINE = 12  # bytes: shorter strings are stored in the view itself


def read_text(chunk, first, count):
    """Return `count` strings of a chunk as an object array."""
    try:
        return _views(chunk, first, count) if chunk.field.format == TEXT_VIEW else _texts(chunk, first, count)
    except UnicodeDecodeError as error:
        raise ValueError(f"the Arrow array has a string that is not UTF-8: {error}") from None


def _texts(chunk, first, count):
    strings = np.empty(count, object)
    if not count:
        return strings
    offsets = chunk.buffer(1, np.int32 if chunk.field.format == TEXT else np.int64, first, count + 1)
    if offsets[0] < 0 or np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("the Arrow array is damaged: the offsets of its strings decrease")
    low = int(offsets[0])
    data = chunk.buffer(2, np.uint8, low, int(offsets[-1]) - low).tobytes()
    ends = (offsets - low).tolist()
    if data.isascii():
        text = data.decode("ascii")
        strings[:] = [text[start:stop] for start, stop in pairwise(ends)]
    else:
        strings[:] = [data[start:stop].decode() for start, stop in pairwise(ends)]
    return strings


def _views(chunk, first, count):
    strings = np.empty(count, object)
    if not count:
        return strings
    views = chunk.buffer(1, np.uint8, 16 * first, 16 * count).reshape(count, 16)
    numbers = np.ascontiguousarray(views).view(
        np.int32
    )  # length, first bytes, index of a buffer, offset in it
    # The last buffer has the lengths of the data buffers.
    sizes = chunk.buffer(len(chunk.addresses) - 1, np.int64, 0, max(len(chunk.addresses) - 3, 0))
    for i, (length, _, buffer, place) in enumerate(numbers.tolist()):
        if 0 <= length <= _INLINE:
            strings[i] = views[i, 4 : 4 + length].tobytes().decode()
        elif length < 0 or not 0 <= buffer < len(sizes) or not 0 <= place <= int(sizes[buffer]) - length:
            raise ValueError(f"the Arrow array is damaged: string {i} is outside of its buffers")
        else:
            strings[i] = chunk.buffer(2 + buffer, np.uint8, place, length).tobytes().decode()
    return strings


def text_field(field):
    """Return the requested field of strings if `text_column` supports it, else the default one."""
    if field is not None and field.format in (TEXT, LARGE_TEXT):
        return field
    return Field(LARGE_TEXT)


def text_column(strings, field):
    """Return the column of a 1-D array of strings."""
    try:
        encoded = [string.encode() for string in strings]
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the string {shown(error.object)} has surrogates, which UTF-8 can't encode"
        ) from None
    ends = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=ends[1:])
    if field.format == TEXT:
        if ends[-1] > np.iinfo(np.int32).max:
            raise OverflowError("the strings are too long for 32-bit offsets: request large_string")
        ends = ends.astype(np.int32)
    return Column(len(encoded), (None, ends, np.frombuffer(b"".join(encoded), np.uint8)))
