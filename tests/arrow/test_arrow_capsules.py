"""What is in the capsules of Arrow's C data interface: memory and its encoding, by ctypes."""

import sys

import numpy as np
import pytest
from support.arrow.c_data import Array, ArrayStream, Schema, children, look, release, taken
from support.strategies import filled, laid_out

from seqcore import TensorSequence, split_to_sequence


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


@pytest.mark.parametrize("layout", ["strided", "reversed", "transposed", "unaligned"])
def test_copies_are_aligned(layout):
    """So that what is not as it should be goes to consumers who want it so."""
    source = laid_out(filled("float64", (4, 3)), layout)
    for seq in (TensorSequence([source, filled("float64", (1, 3)), source]), split_to_sequence(source)):
        schema, array = taken(seq)
        assert innermost(schema, array).buffers[1] % 8 == 0
        release(schema)
        release(array)


def test_a_lone_surrogate_is_an_error():
    seq = TensorSequence([np.array(["a", "é", "\ud800", "b"], object)])
    message = r"the string '\\ud800' has surrogates, which UTF-8 can't encode"
    with pytest.raises(ValueError, match=message):
        seq.__arrow_c_array__()


def test_exported_strings_keep_no_copy():
    """CPython can keep the UTF-8 of a string in it."""
    word = "".join(["é"] * 1000)
    size = sys.getsizeof(word)
    array = taken(TensorSequence([np.array([word], object)]))
    assert sys.getsizeof(word) == size
    for one in array:
        release(one)
