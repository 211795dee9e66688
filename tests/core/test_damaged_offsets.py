"""Offsets that fall, leave the values or overflow: an error at the element that is used, and nowhere else."""

import html
import itertools
import pickle

import numpy as np
import pytest
from support.arrow.producers import Node, lists, numbers
from support.damaged_elements import assert_damaged
from support.saved import pa, shaped_table, write_column

import seqcore as sq
from seqcore import TensorSequence

LENGTHS = [2, 3, 1, 4, 2, 5]
ENDS = [0, *itertools.accumulate(LENGTHS)]


def with_offsets(path, width, given):
    """A file whose offsets are those of LENGTHS, except some that are written over."""
    values = np.arange(ENDS[-1])
    kind = pa.LargeListArray if width == 8 else pa.ListArray
    write_column(path, kind.from_arrays(pa.array(ENDS, pa.int64() if width == 8 else pa.int32()), values))
    data, whole = path.read_bytes(), np.array(ENDS, f"<i{width}")
    assert data.count(whole.tobytes()) == 1
    for at, number in given.items():
        whole[at] = number
    where = data.index(np.array(ENDS, f"<i{width}").tobytes())
    path.write_bytes(data[:where] + whole.tobytes() + data[where + whole.nbytes :])
    return values


DAMAGES = {
    "falls": ({3: 1}, {2}),
    "falls below 0": ({2: -1}, {1, 2}),
    "is beyond the values": ({2: 18}, {1, 2}),
    "is the largest": ({4: 2**31 - 1}, {3, 4}),
    "is the smallest": ({4: -(2**31)}, {3, 4}),
    "is beyond, at the front": ({1: 1000}, {0, 1}),
    "is below 0, at the end": ({5: -7}, {4, 5}),
    "two": ({1: 100, 4: -100}, {0, 1, 3, 4}),
    "all in between": (dict.fromkeys(range(1, 6), 10**6), set(range(6))),
}
LARGE_DAMAGES = {
    "the largest": ({3: 2**63 - 1}, {2, 3}),
    "the smallest": ({3: -(2**63)}, {2, 3}),
    "sums overflow": ({1: 2**62, 3: 2**62, 5: 2**62}, set(range(6))),
    "differences overflow": ({2: 2**63 - 1, 3: -(2**63)}, {1, 2, 3}),
    "times 8 is 0": ({3: 2**61}, {2, 3}),
}
CASES = [
    *((4, *case) for case in DAMAGES.values()),
    *((8, *case) for case in (*DAMAGES.values(), *LARGE_DAMAGES.values())),
]
IDS = [*(f"int32 {name}" for name in DAMAGES), *(f"int64 {name}" for name in (*DAMAGES, *LARGE_DAMAGES))]


def shown(values, given, damaged):
    """What whole elements are, beside offsets that were written over."""
    ends = [given.get(i, end) for i, end in enumerate(ENDS)]
    return [None if i in damaged else values[ends[i] : ends[i + 1]] for i in range(len(LENGTHS))]


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize(("width", "given", "damaged"), CASES, ids=IDS)
def test_offsets_of_a_file(tmp_path, width, given, damaged):
    path = tmp_path / "tensors.arrow"
    model = shown(with_offsets(path, width, given), given, damaged)
    seq = sq.load(path)
    assert_damaged(seq, damaged, model)
    for at in damaged:
        with pytest.raises(ValueError, match=rf"element {at}, number {at} of the file,.*arrow is damaged"):
            seq[at]
        with pytest.raises(ValueError, match=rf"element 0, number {at} of the file,"):
            seq[at:][0]
        with pytest.raises(ValueError, match=rf"element 1, number {at} of the file,"):
            seq[[0, at]][1]
    for one in (seq, sq.Columns({"tokens": seq})):
        assert one._repr_html_() == f"<p>{html.escape(repr(one))}</p>"
    # A pickle by path reads no offset; what it brings back is as damaged.
    for one, wanted in (
        (seq, model),
        (seq[::-1], model[::-1]),
        (seq[[5, 0, 3]], [model[i] for i in (5, 0, 3)]),
    ):
        back = pickle.loads(pickle.dumps(one))
        bad = {i for i, element in enumerate(wanted) if element is None}
        if bad:
            assert_damaged(back, bad, wanted)
        else:
            assert back.tolist() == [element.tolist() for element in wanted]


def test_an_element_of_a_later_batch_is_named_by_its_number_in_the_file(tmp_path):
    path = tmp_path / "tensors.arrow"
    batches = [pa.record_batch({"tensors": pa.array([[k, k + 1], [k + 2], [k + 3]] * 2)}) for k in (100, 200)]
    with pa.ipc.new_file(str(path), batches[0].schema) as to:
        for batch in batches:
            to.write_batch(batch)
    ends = np.array([0, 2, 3, 4, 6, 7, 8], "<i4").tobytes()
    data = path.read_bytes()
    assert data.count(ends) == 2
    at = data.rindex(ends)
    path.write_bytes(data[:at] + np.array([0, 2, 3, 99, 6, 7, 8], "<i4").tobytes() + data[at + len(ends) :])
    seq = sq.load(path)
    assert seq[1].tolist() == [102]
    with pytest.raises(ValueError, match=r"element 8, number 8 of the file,"):
        seq[8]
    with pytest.raises(ValueError, match=r"element 2, number 8 of the file,"):
        seq[6:][2]


@pytest.mark.parametrize(
    ("at", "number"), [(0, -1), (0, 18), (6, 18), (6, -1), (6, 2**31 - 1), (0, -(2**31))]
)
def test_the_ends_are_judged_when_a_file_is_loaded(tmp_path, at, number):
    path = tmp_path / "tensors.arrow"
    for width in (4, 8):
        with_offsets(path, width, {at: number})
        with pytest.raises(ValueError, match=r"tensors\.arrow"):
            sq.load(path)


@pytest.mark.parametrize("at", [0, 6])
def test_ends_within_the_values_leave_the_others_outside(tmp_path, at):
    """The first and the last offset say from where to where all others may be."""
    path = tmp_path / "tensors.arrow"
    given, damaged = {at: ENDS[3]}, {0, 1, 2} if at == 0 else {3, 4, 5}
    model = shown(with_offsets(path, 4, given), given, damaged)
    assert_damaged(sq.load(path), damaged, model)


@pytest.mark.parametrize("width", ["i4", "i8"])
def test_offsets_of_arrow_in_memory(width):
    """Of a producer of the C interface, and of one with an offset of its own."""
    ends = np.array([0, 2, 9, 4, 6, 3, 8], width)
    node = lists(ends, numbers(np.arange(8)))
    seq = TensorSequence.from_arrow(node)
    model = [np.arange(0, 2), None, None, np.arange(4, 6), None, np.arange(3, 8)]
    assert_damaged(seq, {1, 2, 4}, model)
    part = Node("+l" if width == "i4" else "+L", 3, [None, ends], [numbers(np.arange(8))], offset=3)
    assert_damaged(TensorSequence.from_arrow(part), {1, 2}, [np.arange(4, 6), None, None])


def test_damaged_elements_are_shown_as_such():
    """What is printed in a debugger is no error."""
    seq = TensorSequence.from_arrow(lists(np.array([0, 3, 2, 5]), numbers(np.arange(5))))
    for one in (seq, seq[::-1], seq[[1, 0]]):
        for shown in (repr(one), str(one)):
            assert "damaged" in shown


def test_lengths_that_overflow_together():
    """Elements without items may be as long as can be counted: twice 2**62 can't."""
    seq = TensorSequence.from_offsets(np.zeros((2**62, 0), np.int8), [0, 2**62])
    twice = seq[[0] * 4]
    assert twice.shapes == [(2**62, 0)] * 4
    assert twice.nbytes == 0
    with pytest.raises(OverflowError, match="sum to more than fits int64"):
        twice.offsets()
    for join in (TensorSequence.values, lambda seq: sq.concat_from_sequence(seq, 0)):
        with pytest.raises(ValueError, match="larger than any array"):
            join(twice)
    for make in (lambda: twice.astype("int8"), twice.copy().compact, lambda: pickle.dumps(twice)):
        make()
    with pytest.raises(ValueError, match="too large"):
        twice.astype("complex128")


@pytest.mark.parametrize("part", ["offsets", "shapes"])
@pytest.mark.parametrize("order", [None, [1, 0]])
def test_tensors_of_their_own_shapes(part, order):
    """Sizes that are not those of their shapes, and shapes that no tensor has."""
    shapes = [(1, 2), (2, 2), (0, 3), (3, 1)]
    sizes = [2, 4, 0, 3]
    flat = np.arange(9, dtype=np.int16)
    ends = np.cumsum([0, *sizes]).astype(np.int32)
    extents = np.array(shapes, np.int32)
    if part == "offsets":
        ends[2] -= 1
        damaged = {1, 2}
    else:
        extents[1] = 2**16, 2**16
        extents[2] = -1, 0
        damaged = {1, 2}
    table = shaped_table(flat, ends, extents, order)
    whole = [flat[0:2].reshape(1, 2), None, None, flat[6:9].reshape(3, 1)]
    model = [one if one is None or order is None else one.T for one in whole]
    assert_damaged(TensorSequence.from_arrow(table), damaged, model)


# -- numbers that are judged by their ends -------------------------------------------------------------

FAR = range(10**15)


@pytest.mark.parametrize(
    "use",
    [
        lambda: sq.split_to_sequence(np.arange(3))[FAR],
        lambda: sq.split_to_sequence(np.arange(3))[range(-(10**15), 0)],
        lambda: sq.split_to_sequence(np.arange(3)).__delitem__(FAR),
        lambda: sq.split_to_sequence(np.arange(3)).__setitem__(FAR, [[1]]),
        lambda: sq.split_to_sequence(np.arange(3), FAR),
        lambda: sq.split_to_sequence(np.arange(3), range(10**15, 0, -1)),
        lambda: TensorSequence.from_lengths(np.arange(3), FAR),
        lambda: TensorSequence.from_lengths(np.arange(3), range(-(10**15), 1)),
        lambda: TensorSequence.from_offsets(np.arange(3), FAR),
        lambda: TensorSequence.from_offsets(np.arange(3), range(10**15, 0, -1)),
        lambda: TensorSequence.from_offsets(np.arange(3), range(3, -(10**15), -1)),
        lambda: TensorSequence.from_padded(np.zeros((3, 4)), FAR),
        lambda: TensorSequence.from_padded(np.zeros((3, 4)), range(1, 10**15)),
        lambda: sq.split_to_sequence(np.arange(3))[range(10**30)],
        lambda: TensorSequence.from_lengths(np.arange(3), range(10**30)),
        lambda: TensorSequence.from_offsets(np.arange(3), range(10**30)),
    ],
)
def test_ranges_take_neither_time_nor_memory(use):
    with pytest.raises((ValueError, IndexError), match=r"\d"):
        use()


def test_ranges_that_fit():
    seq = sq.split_to_sequence(np.arange(10))
    for key in (
        range(10),
        range(9, -1, -1),
        range(-10, 0),
        range(2, 9, 3),
        range(0),
        range(5, 5),
        range(3, 0),
    ):
        assert seq[key].tolist() == [[i % 10] for i in key]
    assert sq.split_to_sequence(np.arange(6), range(4)).lengths().tolist() == [0, 1, 2, 3]
    assert TensorSequence.from_lengths(np.arange(6), range(3, -1, -1)).lengths().tolist() == [3, 2, 1, 0]
    assert TensorSequence.from_offsets(np.arange(9), range(0, 10, 3)).lengths().tolist() == [3, 3, 3]
    assert TensorSequence.from_padded(np.zeros((3, 4)), range(3)).lengths().tolist() == [0, 1, 2]


@pytest.mark.parametrize("body", [np.negative, np.copy], ids=["elementwise", "one by one"])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="serial"),
        pytest.param({"max_workers": 2, "chunksize": 2}, id="on threads"),
    ],
)
def test_a_map_names_the_element_as_the_caller_counts(tmp_path, body, options):
    with_offsets(tmp_path / "tensors.arrow", 8, {4: 1000})
    seq = sq.load(tmp_path / "tensors.arrow")
    with pytest.raises(ValueError, match=r"element 3, number 3 of the file") as caught:
        sq.sequence_map(body, seq, **options)
    assert caught.value.__notes__ == ["raised for element 3 of a SequenceMap"]
