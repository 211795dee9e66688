"""at, insert, erase, construct, empty, length: positions, types, what is a tensor; the oracle is `list`."""

import re

import ml_dtypes
import numpy as np
import pytest
from support.strategies import NAMES, assert_holds, dtype_of, filled, types_and_layouts
from test_split import INTEGERS, LAYOUTS, assert_same, laid_out, native

import seqcore as sq

pytestmark = pytest.mark.mostly_slow(2)


def three(kind=sq.TensorSequence):
    """A sequence that tells its positions by its values."""
    return kind([np.array([i]) for i in range(3)])


def told(seq):
    return [int(tensor[0]) for tensor in seq]


KINDS = [sq.TensorSequence, list, tuple]
FORMS = {
    "int": int,
    **{name: np.dtype(name).type for name in INTEGERS},
    "int32 scalar": lambda position: np.array(position, np.int32),
    "int64 scalar": lambda position: np.array(position, np.int64),
    "int32 array": lambda position: np.array([position], np.int32),
    "int64 array": lambda position: np.array([position], np.int64),
}


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2), (2, 0)], ids=str)
@pytest.mark.parametrize(("name", "layout"), types_and_layouts(LAYOUTS))
class TestTypesAndLayouts:
    @pytest.mark.mostly_slow(13)
    def test_construct_and_at(self, name, shape, layout):
        tensors = [laid_out(filled(name, shape, 10 * seed), layout) for seed in range(3)]
        seq = sq.sequence_construct(*tensors)
        assert seq.dtype == dtype_of(name)
        assert_holds(seq, [*map(native, tensors)])
        for position in range(-3, 3):
            assert_same(sq.sequence_at(seq, position), native(tensors[position]))
            assert_same(sq.sequence_at(tensors, position), native(tensors[position]))

    @pytest.mark.mostly_slow(13)
    def test_at_is_a_writable_copy(self, name, shape, layout):
        tensor = laid_out(filled(name, shape), layout)
        seq = sq.sequence_construct(tensor, tensor)
        copy = sq.sequence_at(seq, 0)
        assert copy.flags.writeable
        assert not np.shares_memory(copy, tensor)
        before = tensor.copy()
        copy[...] = filled(name, shape, 1)
        assert_holds(seq, [native(before)] * 2)

    @pytest.mark.mostly_slow(13)
    def test_insert_and_erase(self, name, shape, layout):
        tensors = [laid_out(filled(name, shape, 10 * seed), layout) for seed in range(4)]
        expected = [*map(native, tensors)]
        seq = sq.sequence_construct(*tensors[:3])
        longer = sq.sequence_insert(seq, tensors[3], 1)
        assert_holds(longer, [expected[0], expected[3], *expected[1:3]])
        assert_holds(sq.sequence_erase(longer, 2), [expected[0], expected[3], expected[2]])
        assert_holds(seq, expected[:3])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
class TestPositions:
    def test_at(self, kind, form):
        for position in range(0 if form[0] == "u" else -3, 3):
            assert sq.sequence_at(three(kind), FORMS[form](position)) == range(3)[position]

    def test_erase(self, kind, form):
        for position in range(0 if form[0] == "u" else -3, 3):
            model = [0, 1, 2]
            del model[position]
            seq = three(kind)
            assert told(sq.sequence_erase(seq, FORMS[form](position))) == model
            assert told(seq) == [0, 1, 2]

    def test_insert(self, kind, form):
        for position in range(0 if form[0] == "u" else -3, 4):
            model = [0, 1, 2]
            model.insert(position, 9)
            seq = three(kind)
            assert told(sq.sequence_insert(seq, np.array([9]), FORMS[form](position))) == model
            assert told(seq) == [0, 1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_default_position_is_the_back(kind):
    assert told(sq.sequence_insert(three(kind), np.array([9]))) == [0, 1, 2, 9]
    assert told(sq.sequence_insert(three(kind), np.array([9]), None)) == [0, 1, 2, 9]
    assert told(sq.sequence_erase(three(kind))) == [0, 1]
    assert told(sq.sequence_erase(three(kind), None)) == [0, 1]


def test_minus_one_inserts_before_the_last():
    assert told(sq.sequence_insert(three(), np.array([9]), -1)) == [0, 1, 9, 2]


@pytest.mark.parametrize("position", [None, 0, np.array([0])], ids=repr)
def test_insert_into_an_empty_sequence(position):
    empty = sq.sequence_empty("int64")
    assert told(sq.sequence_insert(empty, np.array([7]), position)) == [7]
    assert len(empty) == 0


def test_erase_the_only_element():
    seq = sq.sequence_erase(sq.sequence_construct(np.zeros(2, np.int8)))
    assert (len(seq), seq.dtype) == (0, np.int8)


def test_results_and_inputs_go_separate_ways():
    seq = three()
    longer, shorter = sq.sequence_insert(seq, np.array([9])), sq.sequence_erase(seq, 0)
    longer.clear()
    shorter.append(np.array([5]))
    assert (told(seq), told(longer), told(shorter)) == ([0, 1, 2], [], [1, 2, 5])
    seq.reverse()
    assert told(shorter) == [1, 2, 5]


def test_tensors_are_taken_by_reference():
    tensor = np.zeros(3)
    for seq in (sq.sequence_construct(tensor), sq.sequence_insert([np.zeros(1)], tensor)):
        assert np.shares_memory(seq[-1], tensor)
        with pytest.raises(ValueError, match="read-only"):
            seq[-1][0] = 1


def test_strings_are_copied_in():
    tensor = np.array(["a", "b"], object)
    sequences = (
        sq.sequence_construct(tensor),
        sq.sequence_insert([tensor], tensor),
        sq.split_to_sequence(tensor),
    )
    tensor[0] = "changed"
    assert [seq[0].flat[0] for seq in sequences] == ["a"] * 3


MAKERS = pytest.mark.parametrize(
    "make", [sq.sequence_construct, sq.split_to_sequence, lambda tensor: sq.sequence_insert([tensor], tensor)]
)


@MAKERS
class TestWhatIsATensor:
    @pytest.mark.parametrize("dtype", ["U3", np.dtypes.StringDType()], ids=str)
    def test_string_arrays_are_converted(self, make, dtype):
        seq = make(np.array([["ab", ""], ["ä", "xyz"]], dtype))
        assert seq.dtype == object
        assert seq[0].flat[0] == "ab"
        assert {type(word) for tensor in seq for word in tensor.flat} == {str}

    def test_subclasses_come_out_plain(self, make):
        class Mine(np.ndarray):
            pass

        assert type(make(np.arange(6).reshape(3, 2).view(Mine))[0]) is np.ndarray

    @pytest.mark.parametrize(
        "dtype", ["M8[s]", "m8[ns]", "S3", "V4", [("a", int)], ml_dtypes.float8_e5m2, ml_dtypes.int4], ids=str
    )
    def test_foreign_type(self, make, dtype):
        name = "structured" if np.dtype(dtype).names else re.escape(np.dtype(dtype).name)
        with pytest.raises(TypeError, match=name):
            make(np.zeros(3, dtype))

    @pytest.mark.parametrize("stranger", [None, 1, b"a", float("nan"), ["a"], np.int64(1)], ids=repr)
    def test_objects_that_are_no_str(self, make, stranger):
        tensor = np.array(["a", "b", "c"], object)
        tensor[1] = stranger
        with pytest.raises(TypeError, match=type(stranger).__name__):
            make(tensor)

    def test_masked_array(self, make):
        with pytest.raises(TypeError, match="mask"):
            make(np.ma.masked_array([1, 2, 3], [0, 1, 0]))


class TestEmptyAndLength:
    @pytest.mark.parametrize("name", NAMES)
    def test_each_type(self, name):
        for dtype in (name, dtype_of(name), dtype_of(name).type):
            seq = sq.sequence_empty(dtype)
            assert (len(seq), seq.dtype) == (0, dtype_of(name))

    def test_default_is_float32(self):
        assert sq.sequence_empty().dtype == np.float32

    @pytest.mark.parametrize("dtype", [str, "str", "string", object, "U", "U5"], ids=repr)
    def test_names_of_strings(self, dtype):
        assert sq.sequence_empty(dtype).dtype == object

    @pytest.mark.parametrize(
        "dtype", ["M8[s]", "m8", "S", bytes, "V4", "float8_e5m2", [("a", int)]], ids=repr
    )
    def test_foreign_type(self, dtype):
        with pytest.raises(TypeError):
            sq.sequence_empty(dtype)

    @pytest.mark.parametrize("kind", KINDS)
    def test_length(self, kind):
        length = sq.sequence_length(three(kind))
        assert (length, type(length)) == (3, int)
        assert sq.sequence_length(sq.sequence_empty("bool")) == 0


class TestPositionErrors:
    @pytest.mark.parametrize("position", [3, -4, 2**31, 2**63, -(2**63) - 1, 2**100, np.uint64(2**64 - 1)])
    @pytest.mark.parametrize("kind", KINDS)
    def test_at_and_erase(self, kind, position):
        for operator in (sq.sequence_at, sq.sequence_erase):
            with pytest.raises(IndexError, match=rf"position {position} .*3 tensors.*\(-3 to 2\)"):
                operator(three(kind), position)

    @pytest.mark.parametrize("position", [4, -4, 2**31, 2**63, -(2**63) - 1, 2**100, np.uint64(2**64 - 1)])
    @pytest.mark.parametrize("kind", KINDS)
    def test_insert(self, kind, position):
        with pytest.raises(IndexError, match=rf"position {position} .*3 tensors.*\(-3 to 3\)"):
            sq.sequence_insert(three(kind), np.array([9]), position)

    @pytest.mark.parametrize("wrap", [np.array, lambda position: np.array([position])])
    def test_in_an_array(self, wrap):
        for operator in (sq.sequence_at, sq.sequence_erase):
            with pytest.raises(IndexError, match=r"position -4 .*\(-3 to 2\)"):
                operator(three(), wrap(-4))

    @pytest.mark.parametrize("position", [0, -1, 1])
    def test_empty_sequence(self, position):
        for operator in (sq.sequence_at, sq.sequence_erase):
            with pytest.raises(IndexError, match=f"position {position} "):
                operator(sq.sequence_empty(), position)

    def test_nothing_to_erase(self):
        with pytest.raises(IndexError):
            sq.sequence_erase(sq.sequence_empty())

    @pytest.mark.parametrize(
        "position",
        [1.0, np.float64(1), "1", 1j, [1], (1,), slice(1), np.array(1.0), np.array([1.0]), np.array("1")],
        ids=repr,
    )
    def test_not_an_integer(self, position):
        for operator in (sq.sequence_at, sq.sequence_erase):
            with pytest.raises(TypeError):
                operator(three(), position)
        with pytest.raises(TypeError):
            sq.sequence_insert(three(), np.array([9]), position)

    @pytest.mark.parametrize("position", [np.array([0, 1]), np.array([], np.int64)], ids=repr)
    def test_not_one_integer(self, position):
        for operator in (sq.sequence_at, sq.sequence_erase):
            with pytest.raises((TypeError, ValueError)):
                operator(three(), position)

    def test_at_needs_a_position(self):
        with pytest.raises(TypeError, match="None"):
            sq.sequence_at(three(), None)


OPERATORS = {
    "at": lambda seq: sq.sequence_at(seq, 0),
    "insert": lambda seq: sq.sequence_insert(seq, np.zeros(1)),
    "erase": sq.sequence_erase,
    "length": sq.sequence_length,
}


@pytest.mark.parametrize("seq", [np.zeros((2, 3)), np.zeros(0), np.float32(1), None, 3, "ab"], ids=repr)
@pytest.mark.parametrize("operator", OPERATORS)
def test_not_a_sequence(operator, seq):
    with pytest.raises(TypeError, match=type(seq).__name__):
        OPERATORS[operator](seq)


class TestTypeErrors:
    @pytest.mark.parametrize("other", NAMES)
    @pytest.mark.parametrize("name", NAMES)
    def test_insert_of_another_type(self, name, other):
        seq = sq.sequence_construct(filled(name, (2,)))
        if name == other:
            assert len(sq.sequence_insert(seq, filled(other, (2,)))) == 2
            return
        with pytest.raises(TypeError, match=rf"(?s)\b{other}\b.*\b{name}\b|\b{name}\b.*\b{other}\b"):
            sq.sequence_insert(seq, filled(other, (2,)))
        with pytest.raises(TypeError, match=rf"(?s)\b{other}\b.*\b{name}\b|\b{name}\b.*\b{other}\b"):
            sq.sequence_construct(filled(name, (2,)), filled(other, (2,)))

    def test_construct_of_nothing(self):
        with pytest.raises((ValueError, TypeError)):
            sq.sequence_construct()

    @pytest.mark.parametrize(
        ("name", "value", "expected"),
        [
            ("int8", [1, -128], np.array([1, -128], np.int8)),
            ("uint64", 2**64 - 1, np.array(2**64 - 1, np.uint64)),
            ("float32", [[1, 2.5]], np.array([[1, 2.5]], np.float32)),
            ("float32", 0.1, np.array(0.1, np.float32)),
            ("float16", float("nan"), None),
            ("complex64", 1.5, np.array(1.5, np.complex64)),
            ("bool", [True, False], np.array([True, False])),
            ("string", ["a", "b"], np.array(["a", "b"], object)),
        ],
    )
    def test_python_values_that_fit(self, name, value, expected):
        got = sq.sequence_insert(sq.sequence_empty(name), value)[0]
        if expected is None:
            assert got.dtype == dtype_of(name)
            assert np.isnan(got)
        else:
            assert_same(got, expected)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *[("int8", 128), ("int8", [0, -129]), ("uint8", -1), ("uint64", 2**64), ("int64", 2**63)],
            *[("int64", 1.7), ("int64", [1, 2.0]), ("int64", None), ("int64", "1"), ("int64", {1})],
            *[("float64", None), ("float32", [1, None]), ("float64", "1")],
            pytest.param("float64", object(), id="float64-object"),
            *[("float32", 1e300), ("float16", 70000), ("float32", 1j), ("complex64", "1")],
            *[("bool", 1), ("bool", 0.5), ("string", 1), ("string", ["a", None]), ("string", b"a")],
        ],
        ids=repr,
    )
    def test_python_values_that_do_not(self, name, value):
        seq = sq.sequence_empty(name)
        with pytest.raises((TypeError, OverflowError)):
            sq.sequence_insert(seq, value)
        assert len(seq) == 0
