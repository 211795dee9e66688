"""What is in the capsules of Arrow's C data interface: memory and its encoding, by ctypes."""

import numpy as np
import pytest
from support.c_data import FORMATS, Array, ArrayStream, Schema, children, decode, look, release, taken, view
from support.strategies import filled, laid_out

from seqcore import TensorSequence, split_to_sequence

SHARED_NAMES = [name for name in FORMATS if name not in ("bool", "string")]


def let_go(*structs):
    for one in structs:
        release(one)


def test_capsules():
    seq = TensorSequence([filled("int16", 3)])
    pair = seq.__arrow_c_array__()
    assert type(pair) is tuple
    assert len(pair) == 2
    assert look(pair[0], Schema).release
    assert look(pair[1], Array).release
    assert look(seq.__arrow_c_schema__(), Schema).release
    assert look(seq.__arrow_c_stream__(), ArrayStream).release
    assert seq.__arrow_c_array__(requested_schema=None) is not None
    assert seq.__arrow_c_stream__(requested_schema=None) is not None


def innermost(schema, array):
    while schema.n_children:
        schema, array = children(schema)[0], children(array)[0]
    return array


@pytest.mark.parametrize("name", SHARED_NAMES)
def test_a_split_is_given_without_a_copy(name):
    source = filled(name, (6, 2))
    schema, array = taken(split_to_sequence(source, [1, 0, 3, 2]))
    start, *_ = view(array.buffers[1], "i8", 1)
    first = innermost(schema, array).buffers[1] + start * 2 * source.itemsize
    assert first == source.ctypes.data
    let_go(schema, array)


@pytest.mark.parametrize("layout", ["strided", "reversed", "transposed", "unaligned"])
def test_copies_are_aligned(layout):
    """So that what is not as it should be goes to consumers who want it so."""
    source = laid_out(filled("float64", (4, 3)), layout)
    schema, array = taken(TensorSequence([source, filled("float64", (1, 3)), source]))
    assert innermost(schema, array).buffers[1] % 8 == 0
    let_go(schema, array)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 1000])
def test_bools_are_packed(count):
    flags = np.arange(count) % 3 == 0
    schema, array = taken(split_to_sequence(flags, 5))
    packed = view(innermost(schema, array).buffers[1], "u1", (count + 7) // 8)
    assert np.unpackbits(packed, bitorder="little", count=count).astype(bool).tolist() == flags.tolist()
    let_go(schema, array)


def test_strings_are_utf8():
    words = np.array(["", "aé", "\U0001f600", "a\0b", "x" * 1000], object)
    schema, array = taken(TensorSequence([words[:2], words[2:]]))
    text = children(array)[0]
    ends = view(text.buffers[1], "i8", 6)
    assert np.diff(ends).tolist() == [len(word.encode()) for word in words]
    assert decode(schema, array) == [words[:2].tolist(), words[2:].tolist()]
    let_go(schema, array)


def test_a_lone_surrogate_is_an_error():
    seq = TensorSequence([np.array(["\ud800"], object)])
    with pytest.raises(ValueError, match=r"surrogate|UTF-8|utf-8"):
        seq.__arrow_c_array__()
