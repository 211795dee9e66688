"""Sequences become Arrow's arrays: memory, words and names, as pyarrow sees them."""

import numpy as np
import pytest
from support.strategies import address, filled

from seqcore import TensorSequence, split_to_sequence

pa = pytest.importorskip("pyarrow")

from support.arrow.values import SHARED_NAMES, addresses_of, assert_elements, sound  # noqa: E402


def test_the_items_name_is_items():
    seq = TensorSequence([filled("float32", 3)])
    assert pa.array(seq).type == pa.large_list(pa.float32())
    field = pa.array(seq).type.value_field
    assert (field.name, field.nullable) == ("item", True)
    inside = pa.array(TensorSequence([filled("float32", (2, 3))])).type.value_field.type.value_field
    assert (inside.name, inside.nullable) == ("item", True)


def test_words_of_several_bytes_a_letter():
    words = np.array(["", "é", "\U0001f600", "a\0b"], object)
    assert sound(pa.array(TensorSequence([words, words[::-1]]))).to_pylist() == [[*words], [*words[::-1]]]


# --- memory ---


def shares(seq):
    """Each element is given away where it is."""
    made = sound(pa.array(seq))
    got = [here for here, one in zip(addresses_of(made), seq, strict=True) if one.size]
    assert got == [address(one) for one in seq if one.size]
    assert_elements(made, list(seq))


@pytest.mark.parametrize("shape", [(12,), (12, 2), (12, 2, 3)])
@pytest.mark.parametrize("name", SHARED_NAMES)
def test_no_copy_where_elements_lie_together(name, shape):
    source = filled(name, shape)
    rows = split_to_sequence(source, [3, 0, 5, 4])
    shares(rows)
    shares(rows[1:])
    shares(rows[:2])
    shares(rows[2:3])
    shares(split_to_sequence(source, 5))
    shares(TensorSequence.from_offsets(source, [0, 4, 4, 12]))
    shares(TensorSequence.from_offsets(source, [2, 4, 9]))
    shares(TensorSequence.from_offsets(source[1:11], [2, 4, 9])[1:])
    shares(TensorSequence.from_lengths(source, [5, 7]))
    shares(TensorSequence([source]))
    shares(TensorSequence([source[2:5]]))
    shares(rows.copy())
    rows.compact()
    shares(rows)


@pytest.mark.parametrize("name", SHARED_NAMES)
def test_no_copy_of_rows_without_their_axis(name):
    source = filled(name, (6, 4))
    rows = split_to_sequence(source, keepdims=0)
    shares(rows)
    shares(rows[2:5])
    numbers = split_to_sequence(filled(name, 6), keepdims=0)
    shares(numbers)
    shares(numbers[1:4])


@pytest.mark.parametrize("name", SHARED_NAMES)
def test_no_copy_of_what_came_from_arrow(name):
    source = filled(name, (9, 2))
    given = pa.array(split_to_sequence(source, [2, 3, 0, 4]))
    seq = TensorSequence.from_arrow(given)
    shares(seq)
    shares(seq[1:3])
    assert address(seq[0]) == address(source)
    again = TensorSequence.from_arrow(pa.array(seq))
    assert address(again[1]) == address(source[2:])
    shares(TensorSequence.from_arrow(given[1:]))


def test_the_memory_is_read_only():
    made = pa.array(split_to_sequence(filled("int32", (4, 2))))
    assert not made.values.values.buffers()[1].is_mutable
