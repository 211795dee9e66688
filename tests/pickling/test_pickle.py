"""Pickles carry values, types and sharing; damaged ones are exceptions; copies are apart."""

import copy
import pickle

import numpy as np
import pytest
from support.strategies import NUMBER_NAMES, assert_holds, filled, laid_out

from seqcore import TensorSequence, split_to_sequence


class Tagged(TensorSequence):
    """A subclass with attributes and an __init__ of its own."""

    def __init__(self, tensors, tag):
        super().__init__(tensors)
        self.tag = tag


def out_of_band(seq):
    """Pickle with the data apart: the pickle, and the buffers."""
    buffers = []
    data = pickle.dumps(seq, protocol=5, buffer_callback=buffers.append)
    return data, buffers


def sizes(buffers):
    return [buffer.raw().nbytes for buffer in buffers]


def bookkeeping(seq):
    """The bytes that a pickle may have beside the data."""
    return 1000 + 32 * len(seq)


# --- what comes back ---


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_subclass_that_refers_to_itself_comes_back(protocol):
    seq = Tagged([filled("int8", 3)], tag=None)
    seq.tag = seq
    back = pickle.loads(pickle.dumps(seq, protocol))
    assert back.tag is back
    assert_holds(back, [filled("int8", 3)])


# --- out of band ---


@pytest.mark.parametrize("name", [n for n in NUMBER_NAMES if n != "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_split_array_travels_once_as_one_buffer(name, axis, keepdims):
    source = filled(name, (100, 200))
    pieces = split_to_sequence(source, axis=axis, keepdims=keepdims)
    data, buffers = out_of_band(pieces)
    assert sizes(buffers).count(source.nbytes) == 1
    whole = buffers[sizes(buffers).index(source.nbytes)]
    assert np.shares_memory(np.frombuffer(whole.raw(), np.uint8), source)
    assert sum(sizes(buffers)) + len(data) < source.nbytes + bookkeeping(pieces)


@pytest.mark.parametrize("layout", ["strided", "reversed", "transposed", "fortran", "offset"])
def test_other_layouts_travel_at_most_once(layout):
    source = laid_out(filled("float32", (64, 64)), layout)
    seq = split_to_sequence(source)
    data, buffers = out_of_band(seq)
    room = source.nbytes if source.base is None else source.base.nbytes
    assert sum(sizes(buffers)) + len(data) < room + bookkeeping(seq)


def test_erased_pieces_travel_at_most_once():
    source = filled("float32", (1000, 16))
    seq = split_to_sequence(source)
    del seq[::2]
    data, buffers = out_of_band(seq)
    assert sum(sizes(buffers)) + len(data) < source.nbytes + bookkeeping(seq)
    assert_holds(pickle.loads(data, buffers=buffers), [source[i : i + 1] for i in range(1, 1000, 2)])


def test_whole_arrays_travel_out_of_band():
    arrays = [filled("float64", (100, 10)), filled("float64", 3000)]
    seq = TensorSequence(arrays)
    data, buffers = out_of_band(seq)
    assert {a.nbytes for a in arrays} <= set(sizes(buffers))
    assert sum(sizes(buffers)) + len(data) < seq.nbytes + bookkeeping(seq)


def test_whole_arrays_that_begin_at_one_place():
    """They differ in their shapes, or in their strides alone."""
    table = filled("float64", (64, 64))
    arrays = [table, table.T, table[:, :32], table[:, ::2], table[:32], table[::2], table[0], table[:, 0]]
    seq = TensorSequence([*arrays, *arrays])
    data, buffers = out_of_band(seq)
    assert_holds(pickle.loads(data, buffers=buffers), [*arrays, *arrays])


def test_a_sequence_of_one_broadcast_value_is_not_blown_up_by_its_pieces():
    seq = split_to_sequence(np.broadcast_to(np.float32(1), (100, 100)))
    data, buffers = out_of_band(seq)
    assert sum(sizes(buffers)) + len(data) < 2 * 40_000


@pytest.mark.parametrize("make", [bytes, bytearray])
def test_loaded_elements_are_views_of_the_buffers(make):
    source = filled("int32", (10, 10))
    data, buffers = out_of_band(split_to_sequence(source))
    raw = [make(buffer.raw()) for buffer in buffers]
    back = pickle.loads(data, buffers=raw)
    whole = max(raw, key=len)
    assert all(np.shares_memory(element, np.frombuffer(whole, np.uint8)) for element in back)
    assert_holds(back, list(source.reshape(10, 1, 10)))


@pytest.mark.parametrize("size", [0, 1, 399])
def test_too_small_a_buffer_is_an_exception(size):
    source = filled("int32", (10, 10))
    data, buffers = out_of_band(split_to_sequence(source))
    raw = [bytes(buffer.raw()) for buffer in buffers]
    raw = [buffer[:size] if len(buffer) == source.nbytes else buffer for buffer in raw]
    with pytest.raises(Exception, match=r"\w"):
        pickle.loads(data, buffers=raw)


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("keep", range(0, 400, 7))
def test_cut_off_pickles_are_exceptions(keep):
    data = pickle.dumps(split_to_sequence(filled("int32", (5, 20))))
    with pytest.raises(Exception, match=r"\w"):
        pickle.loads(data[: min(keep, len(data) - 1)])


# --- copy.copy and copy.deepcopy ---


def test_deepcopy_knows_what_it_has_copied():
    seq = Tagged([filled("int8", 3)], tag=None)
    seq.tag = seq
    deep = copy.deepcopy(seq)
    assert deep.tag is deep
    first, second = copy.deepcopy([seq, seq])
    assert first is second is not seq
