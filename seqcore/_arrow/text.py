"""Strings: UTF-8 in Arrow's buffers, `str` in a sequence's. Always a copy."""

from itertools import pairwise

import numpy as np

from seqcore._arrow.fields import LARGE_TEXT, TEXT, TEXT_VIEW, Column, Field
from seqcore._shown import shown

TEXTS = TEXT, LARGE_TEXT, TEXT_VIEW

_INLINE = 12  # bytes of a view that are in the view itself


def read_text(chunk, first, count):
    """The strings of `count` items of a chunk's buffers, as an object array."""
    try:
        return _views(chunk, first, count) if chunk.field.format == TEXT_VIEW else _texts(chunk, first, count)
    except UnicodeDecodeError as error:
        raise ValueError(f"an Arrow array of strings is no UTF-8: {error}") from None


def _texts(chunk, first, count):
    strings = np.empty(count, object)
    if not count:
        return strings
    offsets = chunk.buffer(1, np.int32 if chunk.field.format == TEXT else np.int64, first, count + 1)
    if offsets[0] < 0 or np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("the offsets of an Arrow array of strings don't rise: it is damaged")
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
    )  # length, first bytes, number of a buffer, place in it
    # Behind the views and their buffers comes one that says how long those are.
    room = chunk.buffer(len(chunk.addresses) - 1, np.int64, 0, max(len(chunk.addresses) - 3, 0))
    for i, (length, _, buffer, place) in enumerate(numbers.tolist()):
        if 0 <= length <= _INLINE:
            strings[i] = views[i, 4 : 4 + length].tobytes().decode()
        elif length < 0 or not 0 <= buffer < len(room) or not 0 <= place <= int(room[buffer]) - length:
            raise ValueError(f"string {i} of an Arrow array lies outside of its buffers: it is damaged")
        else:
            strings[i] = chunk.buffer(2 + buffer, np.uint8, place, length).tobytes().decode()
    return strings


def text_field(field):
    """The field of strings that was asked for, if `text_column` makes it, else the usual one."""
    if field is not None and field.format in (TEXT, LARGE_TEXT):
        return field
    return Field(LARGE_TEXT)


def text_column(strings, field):
    """A column of the strings of an array of rank 1."""
    try:
        encoded = [string.encode() for string in strings]
    except UnicodeEncodeError as error:
        raise ValueError(f"{shown(error.object)} has surrogates, of which UTF-8 knows none") from None
    ends = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=ends[1:])
    if field.format == TEXT:
        if ends[-1] > np.iinfo(np.int32).max:
            raise OverflowError(
                "the strings are longer together than 32-bit offsets count: ask for large_string"
            )
        ends = ends.astype(np.int32)
    return Column(len(encoded), (None, ends, np.frombuffer(b"".join(encoded), np.uint8)))
