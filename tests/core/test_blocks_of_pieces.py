"""What is known of a block of pieces holds after whatever made the block: results cut like other elements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence


def compacted(seq):
    seq = seq.copy()
    seq.compact()
    return seq


# Each makes new elements of the same shapes and, as integers, of the same values.
MAKERS = {
    "compact": compacted,
    "astype": lambda seq: seq.astype("float32").astype("int64"),
    "flat map": lambda seq: sq.sequence_map(np.positive, seq),
    "batches": lambda seq: sq.map_batches(np.positive, seq),
    "two batches": lambda seq: sq.map_batches(lambda a: a + 0, seq, batch_size=max(1, len(seq) // 2)),
    "from_lengths": lambda seq: TensorSequence.from_lengths(seq.values(), seq.lengths()),
    "from_padded": lambda seq: TensorSequence.from_padded(seq.to_padded(), seq.lengths()),
    "selection": lambda seq: seq[np.arange(len(seq))],
}


def assert_same(seq, model):
    seq._check()
    assert_holds(seq, model)
    assert seq.lengths().tolist() == [len(a) for a in model]
    assert seq.values().tolist() == [x for a in model for x in a]


@given(st.data())
def test_any_history(data):
    lengths = data.draw(st.lists(st.integers(0, 4), max_size=8))
    even = data.draw(st.integers(1, 3))
    array = np.arange(data.draw(st.integers(1, 9)))
    seq = sq.split_to_sequence(array, even)
    model = [array[i : i + even] for i in range(0, len(array), even)]
    seq += TensorSequence.from_lengths(np.arange(sum(lengths)), lengths)
    model += np.split(np.arange(sum(lengths)), np.cumsum(lengths)[:-1]) if lengths else []
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(model)))
        kind = data.draw(st.sampled_from([*MAKERS, "insert", "erase", "reverse"]))
        if kind == "insert":
            seq.insert(at, np.arange(at))
            model.insert(at, np.arange(at))
        elif kind == "erase" and model:
            seq.erase(at % len(model))
            del model[at % len(model)]
        elif kind == "reverse":
            seq.reverse()
            model.reverse()
        elif kind in MAKERS and model:
            seq = MAKERS[kind](seq)
        assert_same(seq, model)


@pytest.mark.parametrize("byte", [1, 2, 3, 127, 128, 255])
def test_bools_of_any_byte(byte):
    """Masks of images are 0 and 255, and NumPy takes them for bools as they are."""
    mask = np.zeros(10, np.uint8)
    mask[[2, 5]] = byte
    mask = mask.view(bool)
    seq = sq.split_to_sequence(np.arange(10.0))
    assert [a[0] for a in seq[mask]] == [2, 5]
    seq[mask] = [[-2.0], [-5.0]]
    del seq[mask]
    seq._check()
    assert [a[0] for a in seq] == [0, 1, 3, 4, 6, 7, 8, 9]


def test_copies_stay_read_only():
    seq = TensorSequence([[1.0], [2.0, 3.0]])
    seen = []
    sq.map_batches(lambda a: seen.append(a) or a, seq)
    sq.map_batches(lambda a: seen.append(a) or a, seq[:1] + seq[:1], new_axis=1)
    for array in (seq.values(), *seen):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_elements_without_items_that_another_type_makes_too_large():
    huge = np.broadcast_to(np.zeros((1, 0)), (2**59, 0))
    with pytest.raises(ValueError, match="too large for an array"):
        TensorSequence([huge]).astype("complex128")


def test_padding_value_that_out_holds():
    out = np.full((3, 2), 7.0)
    TensorSequence([[1.0, 2.0], [3.0], [4.0]]).to_padded(out[0, 0, ...], out=out)
    assert out.tolist() == [[1, 2], [3, 7], [4, 7]]


def test_no_elements_have_as_many_axes_as_are_asked_for():
    nothing = TensorSequence(dtype="float32")
    assert nothing.to_padded(shape=np.array([3, 4])).shape == (0, 3, 4)
    assert nothing.to_padded(multiple_of=[3, 4]).shape == (0, 0, 0)
