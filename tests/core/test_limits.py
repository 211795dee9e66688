"""At the limits of lengths, sizes and ranks: right, or an error that says what is at fault.

Huge arrays are views that repeat one item, so nothing here takes the memory that its shapes speak of.
"""

import copy
import pickle
import sys

import numpy as np
import pytest
from support import c_api
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence

# -- rank ------------------------------------------------------------------------------------------------

ONES = (1,) * 61
NUMBERS64 = np.arange(8, dtype="int16").reshape(*ONES, 2, 2, 2)
WORDS64 = np.array(list("abcdefgh"), object).reshape(*ONES, 2, 2, 2)


@pytest.mark.parametrize("array", [NUMBERS64, WORDS64, NUMBERS64.T], ids=["numbers", "strings", "transposed"])
def test_rank_64_is_as_any_other(array):
    part = array[..., :1] if array.shape[-1] > 1 else array[:1]
    seq = TensorSequence([array, part])
    seq.insert(1, array)
    model = [array, array, part]
    assert_holds(seq, model)
    assert array in seq
    assert seq.index(part) == 2
    assert seq.count(array) == 2
    for other in (seq.copy(), copy.deepcopy(seq), seq[::-1][::-1], TensorSequence(seq, copy=True)):
        assert other == seq
        other.compact()
        assert_holds(other, model)
    assert_holds(sq.sequence_map(lambda tensor: tensor, seq), model)
    axis = -1 if array.shape[-1] > 1 else 0
    np.testing.assert_array_equal(sq.concat_from_sequence(seq, axis), np.concatenate(model, axis))
    np.testing.assert_array_equal(sq.concat_from_sequence(seq[:2], 0), np.concatenate(model[:2], 0))


@pytest.mark.parametrize("array", [NUMBERS64, WORDS64], ids=["numbers", "strings"])
@pytest.mark.parametrize("axis", [0, 61, 63, -1, -64])
def test_rank_64_is_split_and_joined(array, axis):
    n = array.shape[axis]
    assert_holds(sq.split_to_sequence(array, axis=axis), np.split(array, n, axis))
    pieces = sq.split_to_sequence(array, axis=axis, keepdims=0)
    assert_holds(pieces, [array.take(i, axis) for i in range(n)])
    np.testing.assert_array_equal(sq.concat_from_sequence(pieces, axis, new_axis=1), array)


def test_rank_64_is_pickled():
    for seq in (TensorSequence([NUMBERS64] * 2), sq.split_to_sequence(NUMBERS64, axis=-1, keepdims=0)):
        assert pickle.loads(pickle.dumps(seq)) == seq


def test_strings_of_more_than_32_axes_are_pickled_no_more_than_numpy_pickles_them():
    with pytest.raises(RuntimeError, match="32 dimensions"):
        pickle.dumps(WORDS64)
    with pytest.raises(RuntimeError, match="32 dimensions"):
        pickle.dumps(TensorSequence([WORDS64]))


@pytest.mark.parametrize("axis", [0, 64, -1, -65])
def test_rank_65_is_an_error_that_says_so(axis):
    with pytest.raises(ValueError, match="at most 64 axes: elements of rank 64 can't be stacked along a new"):
        sq.concat_from_sequence([NUMBERS64, NUMBERS64], axis, new_axis=1)


@pytest.mark.parametrize("axis", [65, -66, 2**31, -(2**63), 10**30])
def test_axes_beyond_rank_64_are_errors(axis):
    with pytest.raises(ValueError, match=f"axis {axis} is out of range"):
        sq.concat_from_sequence([NUMBERS64, NUMBERS64], axis, new_axis=1)
    with pytest.raises(ValueError, match=f"axis {axis} is out of range .*-64 to 63"):
        sq.split_to_sequence(NUMBERS64, axis=axis)


@pytest.mark.parametrize(
    "array", [NUMBERS64, WORDS64, NUMBERS64[:, 0, :0]], ids=["numbers", "strings", "none"]
)
def test_rank_64_shows_itself(array):
    seq = TensorSequence([array])
    assert str(array.shape) in repr(seq)
    shown = seq._repr_html_()
    assert str(array.shape) in shown
    assert " ".join(map(str, array.reshape(-1)[:4].tolist())) in shown.replace("&#x27;", "")


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("array", [NUMBERS64, WORDS64], ids=["numbers", "strings"])
def test_rank_64_goes_through_protos(array, count):
    onnx = pytest.importorskip("seqcore.onnx", exc_type=ImportError)
    seq = TensorSequence([array] * count)
    for more in ([], [array[..., :1]], [array.reshape(8)]):
        seq.extend(more)
        assert onnx.from_proto(onnx.to_proto(seq)) == seq


def nested(depth, leaf):
    for _ in range(depth):
        leaf = [leaf]
    return leaf


@pytest.mark.parametrize("leaf", [1.5, "x"])
def test_lists_64_deep_are_tensors(leaf):
    (shape,) = TensorSequence([nested(64, leaf)]).shapes
    assert shape == (1,) * 64


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("depth", [65, 500, 100_000])
@pytest.mark.parametrize("leaf", [1.5, "x"])
def test_deeper_lists_are_errors_that_say_so(depth, leaf):
    seq = TensorSequence([leaf])
    for attempt in (seq.append, lambda value: TensorSequence([value])):
        with pytest.raises(ValueError, match="nested more than 64 deep"):
            attempt(nested(depth, leaf))
    assert nested(depth, leaf) not in seq
    assert len(seq) == 1


def test_a_list_within_itself_is_an_error():
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="nested more than 64 deep"):
        TensorSequence([endless])


# -- positions, steps, lengths ---------------------------------------------------------------------------

BEYOND = [2**31, 2**32 + 1, 2**62, 2**63 - 1, 2**63, 2**64 + 1, 10**30]
BEYOND += [-number for number in BEYOND] + [-(2**63) - 1]
NUMPY_INTEGERS = [np.int64(2**63 - 1), np.int64(-(2**63)), np.array([2**63 - 1]), np.array(-(2**63))]
NUMPY_INTEGERS += [np.uint64(2**64 - 1), np.int8(-6), np.array([5])]


def few(n=5):
    return sq.split_to_sequence(np.arange(n), keepdims=0)


@pytest.mark.parametrize("position", [*BEYOND, *NUMPY_INTEGERS])
def test_positions_beyond_are_errors_that_name_them(position):
    seq = few()
    number = int(np.asarray(position).item())
    value = 1 if np.ndim(position) == 0 else [1]  # an array of rank 1 between the brackets is a selection
    for attempt, last in [
        (lambda: seq[position], 4),
        (lambda: seq.pop(position), 4),
        (lambda: seq.erase(position), 4),
        (lambda: seq.__setitem__(position, value), 4),
        (lambda: seq.__delitem__(position), 4),
        (lambda: seq.insert(position, 1), 5),
        (lambda: sq.sequence_at(seq, position), 4),
        (lambda: sq.sequence_erase(seq, position), 4),
        (lambda: sq.sequence_insert(seq, 1, position), 5),
        (lambda: sq.sequence_at([*seq], position), 4),
        (lambda: sq.sequence_erase((*seq,), position), 4),
        (lambda: sq.sequence_insert([*seq], 1, position), 5),
    ]:
        if number == last:
            continue  # where insert puts it behind the others
        with pytest.raises(IndexError) as caught:
            attempt()
        assert str(caught.value) == (
            f"position {number} is out of range for a sequence of 5 tensors (-5 to {last})"
        )
    assert_holds(seq, list(np.arange(5)))


@pytest.mark.mostly_slow(7)
@pytest.mark.parametrize("step", [None, 1, 2, -1, -2, *BEYOND])
@pytest.mark.parametrize("start", [None, 0, 3, -2, *BEYOND])
def test_slices_reach_beyond_as_a_lists_do(start, step):
    model = list(np.arange(5))
    for stop in (None, 0, 2, -1, *BEYOND):
        key = slice(start, stop, step)
        assert_holds(few()[key], model[key])
        seq, rest = few(), list(model)
        del seq[key], rest[key]
        assert_holds(seq, rest)
        seq, rest = few(), list(model)
        news = [np.array(-1)] * len(rest[key])
        seq[key] = news
        rest[key] = news
        assert_holds(seq, rest)


@pytest.mark.parametrize("number", [number for number in BEYOND if number > 0])
def test_a_map_takes_any_count(number):
    for options in ({"chunksize": number}, {"max_workers": number}, {"max_workers": 2, "chunksize": number}):
        assert_holds(sq.sequence_map(lambda a: a + 1, few(), **options), list(np.arange(1, 6)))


@pytest.mark.parametrize("name", ["chunksize", "max_workers"])
@pytest.mark.parametrize("number", [0, *(number for number in BEYOND if number < 0)])
def test_a_map_refuses_counts_below_one(name, number):
    with pytest.raises(ValueError, match=f"{name} is {number}, but must be at least 1"):
        sq.sequence_map(lambda a: a, few(), **{name: number})


@pytest.mark.parametrize("number", [number for number in BEYOND if number > 0])
def test_split_takes_one_length_of_any_size(number):
    assert sq.split_to_sequence(np.arange(5), number).shapes == [(5,)]
    assert sq.split_to_sequence(np.arange(0), number).shapes == []


@pytest.mark.parametrize(
    ("split", "fault"),
    [
        ([2**63 - 1, 2**63 - 1, 7], "split[0] is 9223372036854775807: the sum"),  # 5, in 64 bits
        ([5, 2**62, 2**62, 2**62, 2**62], "split[1] is 4611686018427387904: the sum"),
        ([1, 2**63], "split[1] is 9223372036854775808: the sum"),
        ([2**64, 5], "split[0] is 18446744073709551616: the sum"),
        ([5, -(2**63)], "split[1] is -9223372036854775808, but a length can't be negative"),
        (np.array([2**64 - 1, 6], np.uint64), "split[0] is 18446744073709551615: the sum"),
        (-(2**63), "split must be positive, got -9223372036854775808"),
        (-(10**30), f"split must be positive, got {-(10**30)}"),
    ],
)
def test_lengths_whose_sum_would_wrap_are_errors(split, fault):
    with pytest.raises(ValueError, match="split") as caught:
        sq.split_to_sequence(np.arange(5), split)
    assert fault in str(caught.value)


# -- sizes -----------------------------------------------------------------------------------------------

SIZES = [2**31, 2**32 + 5, 2**58, 2**62, 2**63 - 1]


def repeated(*shape, dtype=np.int8):
    return np.broadcast_to(np.ones((), dtype), shape)


@pytest.mark.parametrize("n", SIZES)
def test_pieces_of_huge_arrays(n):
    array = repeated(n)
    for split, lengths in [
        (n // 2, [n // 2, n // 2, n % 2]),
        (n - 1, [n - 1, 1]),
        (n + 1, [n]),
        ([1, n - 3, 0, 2], [1, n - 3, 0, 2]),
    ]:
        seq = sq.split_to_sequence(array, split)
        lengths = [length for length in lengths if length or isinstance(split, list)]
        assert seq.shapes == [(length,) for length in lengths]
        assert [len(piece) for piece in seq] == lengths
        assert seq.nbytes == n
        assert seq.pinned_nbytes == 1
        assert (seq + seq + seq).nbytes == 3 * n  # more than 63 bits count
        assert str(lengths[0]) in repr(seq)
        assert f"{n:,} bytes" in seq._repr_html_()
        seq.reverse()
        del seq[0]
        seq.insert(0, array)
        assert seq.nbytes == n + sum(lengths[:-1])
        seq._check()


@pytest.mark.parametrize("n", SIZES)
def test_lengths_of_huge_arrays_are_checked(n):
    with pytest.raises(ValueError, match=rf"split\[1\] is {n}:.* exceeds axis 0, which has length {n}"):
        sq.split_to_sequence(repeated(n), [n, n])
    with pytest.raises(ValueError, match=f"is {n - 1}, but axis 0 has length {n}"):
        sq.split_to_sequence(repeated(n), [n - 1])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("n", [2**45, 2**57, 2**58, 2**59, 2**60 - 1, 2**62])
def test_more_pieces_than_memory_are_an_error_that_says_how_many(n, axis):
    array = repeated(n, 1) if axis == 0 else repeated(1, n)
    for split, keepdims in [(None, 1), (None, 0), (1, 1)]:
        with pytest.raises(MemoryError, match=f"no memory for {n} elements"):
            sq.split_to_sequence(array, split, axis, keepdims)
    with pytest.raises(MemoryError, match=f"no memory for {n // 3 + (n % 3 > 0)} elements"):
        sq.split_to_sequence(array, 3, axis)


@pytest.mark.parametrize("n", SIZES[2:])
def test_what_has_no_memory_says_so(n):
    seq = sq.split_to_sequence(repeated(n), n // 3)
    for attempt in (
        lambda: sq.concat_from_sequence(seq, 0),
        lambda: sq.sequence_at(seq, 0),
        lambda: seq.compact(),
        lambda: copy.deepcopy(seq),
        lambda: pickle.dumps(seq),
        lambda: TensorSequence([repeated(n)], copy=True),
        lambda: TensorSequence(seq, copy=True),
        lambda: TensorSequence([np.broadcast_to(np.array("x", object), n // 8)]),
    ):
        with pytest.raises(MemoryError, match=r"Unable to allocate .* for an array with shape \(\d+,\)"):
            attempt()
        assert len(seq) == 3 + (n % 3 > 0)
    whole = seq + seq + seq
    with pytest.raises(MemoryError, match=r"no memory for .* bytes of 12 tensors|Unable to allocate"):
        whole.compact()


@pytest.mark.parametrize("n", SIZES[2:])
def test_what_is_larger_than_memory_is_compared_all_the_same(n):
    seq = sq.split_to_sequence(repeated(n), n // 3)
    assert seq == seq.copy()
    assert repeated(n // 3) in seq
    assert seq.count(repeated(n // 3)) == 3
    assert seq.index(repeated(n // 3), 1) == 1
    seq.remove(repeated(n // 3))
    assert len(seq) == 2 + (n % 3 > 0)


def test_joins_larger_than_any_array_are_value_errors():
    for elements, axis, new_axis in [
        ([repeated(2**62)] * 2, 0, 0),
        ([repeated(2**63 - 1), repeated(1)], 0, 0),
        ([repeated(2**62)] * 2, 0, 1),
        ([repeated(2**62)] * 2, -1, 1),
        ([repeated(2**31, 2**31)] * 2, 1, 0),
        ([repeated(2**60 - 1, dtype=np.float64)] * 2, 0, 0),
        ([np.empty((2**62, 0), np.int8)] * 2, 0, 0),
    ]:
        with pytest.raises(
            ValueError,
            match=r"2 tensors (stacked|concatenated) along a?.*axis .* larger than any array can be",
        ):
            sq.concat_from_sequence(elements, axis, new_axis)
    pieces = sq.split_to_sequence(repeated(2**63 - 1), 2**61)
    with pytest.raises(ValueError, match="8 tensors concatenated along axis 0 would be larger"):
        sq.concat_from_sequence(pieces[:3] + pieces[:3] + pieces[:2], 0)


def test_a_join_takes_what_is_needed_of_huge_arrays():
    huge = repeated(2**62)
    for part in (huge[:3], huge[2**61 : 2**61 + 3], huge[-3:]):
        np.testing.assert_array_equal(sq.concat_from_sequence([part, part], 0), np.ones(6))
    seq = sq.split_to_sequence(huge, [2**61, 3, 2**61 - 3])
    np.testing.assert_array_equal(sq.concat_from_sequence(seq[1:2], 0), np.ones(3))


def test_arrays_without_items_may_have_any_shape():
    shapes = [(2**62, 0), (0, 2**62), (2**31, 0, 2**31)]
    arrays = [np.empty(shape, np.int8) for shape in shapes]
    seq = TensorSequence(arrays)
    seq.compact()
    assert seq.shapes == shapes
    assert seq.nbytes == seq.pinned_nbytes == 0
    assert seq == TensorSequence(arrays)
    assert seq.index(arrays[1]) == 1
    assert pickle.loads(pickle.dumps(seq)) == seq
    assert sq.split_to_sequence(arrays[0], axis=1).shapes == []
    assert sq.split_to_sequence(arrays[0], 2**61).shapes == [(2**61, 0)] * 2
    assert sq.concat_from_sequence(arrays[:1] * 5, 1).shape == (2**62, 0)


@pytest.mark.parametrize("n", [2**31 - 5, 2**31, 2**40, 2**62])
def test_protos_above_protobufs_limit(n):
    onnx = pytest.importorskip("seqcore.onnx", exc_type=ImportError)
    for seq in (TensorSequence([repeated(n)]), sq.split_to_sequence(repeated(n), n // 2)):
        with pytest.raises(ValueError, match=r"bytes are too many .* at most 2,147,483,647; make several"):
            onnx.to_proto(seq)


def test_protos_of_many_tensors_above_the_limit():
    onnx = pytest.importorskip("seqcore.onnx", exc_type=ImportError)
    seq = TensorSequence([repeated(2**24)] * 1000)
    with pytest.raises(ValueError, match="16,777,222,000 bytes are too many"):
        onnx.to_proto(seq)


@pytest.mark.skipif(sys.platform == "win32", reason="files there have no holes")
def test_files_above_protobufs_limit(tmp_path):
    onnx = pytest.importorskip("seqcore.onnx", exc_type=ImportError)
    path = tmp_path / "hole.pb"
    with open(path, "wb") as file:
        file.truncate(2**31)
    with pytest.raises(ValueError, match="2,147,483,648 bytes are too many"):
        onnx.from_proto(path)


@pytest.mark.parametrize("stride", [8, -8, 2**62, -(2**62), 2**63 - 8, -(2**63)])
def test_memory_that_leaves_the_address_space_is_not_read(stride):
    """Of memory whose size nobody tells, what elements reach counts."""
    numbers = np.arange(3.0)

    class Memory:
        def __init__(self):
            self.__array_interface__ = numbers.__array_interface__ | {"shape": (3,), "strides": (stride,)}

    assert TensorSequence([np.asarray(Memory())]).pinned_nbytes == 2 * abs(stride) + 8


# -- the C-level API -------------------------------------------------------------------------------------


@pytest.mark.parametrize("strides", [None, 0])
@pytest.mark.parametrize(
    "shape",
    [(2**63 - 1,), (2**61,), (2**31, 2**31), (0, 2**62), (-1,), (-(2**63),)],
)
def test_memory_of_impossible_shapes_is_refused(shape, strides):
    seq, memory = TensorSequence(dtype="float32"), np.arange(6, dtype=np.float32)
    steps = None if strides is None else c_api.extents(*[0] * len(shape))
    with pytest.raises(ValueError, match=r"array is too big|negative dimensions"):
        c_api.insert_memory(seq, 0, memory.ctypes.data, len(shape), c_api.extents(*shape), steps, memory)
    assert_holds(seq, [])


def test_memory_of_huge_possible_shapes_is_taken():
    seq, memory = TensorSequence(dtype="int8"), np.ones(1, np.int8)
    c_api.insert_memory(seq, 0, memory.ctypes.data, 1, c_api.extents(2**62), c_api.extents(0), memory)
    c_api.insert_memory(seq, 0, memory.ctypes.data, 64, c_api.extents(*[1] * 64), None, memory)
    assert seq.shapes == [(1,) * 64, (2**62,)]
    assert seq[1][2**61] == 1


@pytest.mark.parametrize("rank", [65, -1, 2**31 - 1, -(2**31)])
def test_memory_of_impossible_rank_is_refused(rank):
    seq, memory = TensorSequence(dtype="int8"), np.ones(1, np.int8)
    with pytest.raises(ValueError, match=r"within \[0, 64\]"):
        c_api.insert_memory(seq, 0, memory.ctypes.data, rank, c_api.extents(*[1] * 70), None, memory)


@pytest.mark.parametrize("position", [2**31, 2**63 - 1, -(2**63)])
def test_c_positions_beyond(position):
    seq, memory = few(), np.arange(2)
    for attempt in (
        lambda: c_api.at(seq, position),
        lambda: c_api.insert(seq, position, 1),
        lambda: c_api.replace(seq, position, 1),
        lambda: c_api.erase(seq, position),
        lambda: c_api.insert_memory(seq, position, memory.ctypes.data, 1, c_api.extents(2), None, memory),
    ):
        with pytest.raises(IndexError, match=f"position {position} is out of range"):
            attempt()
    assert_holds(seq, list(np.arange(5)))


def test_c_lengths_beyond():
    array = np.arange(6)
    assert c_api.split(array, 0, 2**63 - 1, 0).shapes == [(6,)]
    for attempt, fault in [
        (lambda: c_api.split(array, 0, -(2**63), 0), "split must be positive, got -9223372036854775808"),
        (lambda: c_api.split(array, 2**31 - 1, 1, 0), "axis 2147483647 is out of range"),
        (lambda: c_api.split_lengths(array, 0, c_api.extents(2**63 - 1, 7), 2), "split.0. is 92233"),
        (
            lambda: c_api.split_lengths(array, 0, None, 2**63 - 1),
            "lengths is NULL, expected 9223372036854775807 len",
        ),
        (
            lambda: c_api.split_lengths(array, 0, c_api.extents(6), -(2**63)),
            "number of lengths is -92233720368547758",
        ),
    ]:
        with pytest.raises(ValueError, match=fault):
            attempt()
