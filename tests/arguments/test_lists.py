"""Python numbers, strings and nested lists of them beside `np.array`, by every way into a sequence."""

import functools
import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.races import together
from support.strategies import NAMES, NUMERIC_NAMES, dtype_of, filled

import seqcore as sq
from seqcore import TensorSequence
from seqcore._arguments import tensors as slow

WEAK = {bool: False, int: 0, float: 0.0, complex: 0j}
ERRORS = (TypeError, ValueError, OverflowError)


class Int(int):
    pass


class Float(float):
    pass


class Text(str):
    __slots__ = ()


class List(list):
    pass


def leaves(value):
    """Yield the items of nested lists; an array counts as one."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def converted(value, name):
    """Return the array that NumPy makes of Python values for a dtype, or raise as seqcore does."""
    dtype = dtype_of(name)
    if isinstance(value, np.generic) and value.dtype != dtype and not isinstance(value, str):
        raise TypeError("another dtype")
    weak, strong = set(), set()
    for item in leaves(value):
        kind = next((kind for kind in (bool, int, float, complex, str) if isinstance(item, kind)), None)
        if isinstance(item, np.ndarray | np.generic):
            strong.add(item.dtype)
        elif kind is None:
            raise TypeError("no tensor")
        else:
            weak.add(kind)
    texts = {str} & weak or {one for one in strong if one.kind in "UO"}
    if texts or dtype.kind == "O":
        if weak - {str} or {one for one in strong if one.kind not in "UO"} or dtype.kind != "O":
            raise TypeError("strings and numbers")
        array = np.array(value, object)
        if any(isinstance(item, list | tuple) for item in array.reshape(-1)):
            raise ValueError("ragged")
        return array
    if name == "bfloat16" and float in weak:  # which NumPy promotes to float64, alone of all floats
        weak = weak - {float} | {int}
    if np.result_type(dtype, *(WEAK[kind] for kind in weak), *strong) != dtype:
        raise TypeError("another dtype")
    with np.errstate(over="ignore"):
        array = np.array(value, dtype if name != "bfloat16" else np.float64).astype(dtype)
        wide = np.array(value, np.complex128 if dtype.kind == "c" else np.float64)
    if dtype.kind in "fcV" and np.any(np.isfinite(array) != np.isfinite(wide)):
        raise OverflowError("too large")
    return array


def same(array, expected):
    return (
        array.dtype == expected.dtype
        and array.shape == expected.shape
        and (
            [*map(type, array.reshape(-1)), *array.reshape(-1)]
            == [str] * array.size + expected.reshape(-1).tolist()
            if array.dtype == object
            else np.array_equal(array, expected, equal_nan=True)
            and np.array_equal(np.signbit(array.real), np.signbit(expected.real))
            if array.dtype.kind in "fc"
            else array.tobytes() == expected.tobytes()
            or bool(np.all((array == expected) | ((array != array) & (expected != expected))))
        )
    )


def put_in_map(value, name):
    value = list(value) if isinstance(value, tuple) else value  # a tuple has the values of several outputs
    return sq.sequence_map(lambda one: value, [np.zeros(1)], output_dtypes=dtype_of(name))


def edited(edit):
    """Return a function that edits a sequence of one element, which a failed edit must not change."""

    def put(value, name):
        seq = TensorSequence([filled(name, 2)])
        before = seq.copy()
        try:
            edit(seq, value)
        except ERRORS:
            seq._check()
            assert seq == before
            raise
        return seq

    return put


# Each returns a sequence with the value last.
WAYS = {
    "constructor": lambda value, name: TensorSequence([value], name),
    "constructor, copies": lambda value, name: TensorSequence([value], name, copy=True),
    "behind an array": lambda value, name: TensorSequence([filled(name, 2), value]),
    "behind empty lists": lambda value, name: TensorSequence([[], [[]], (), filled(name, 2), value]),
    "generator": lambda value, name: TensorSequence((one for one in [value]), name),
    "Columns": lambda value, name: sq.Columns({"a": [filled(name, (2, 2)), value]})["a"],
    "map": put_in_map,
    "append": edited(lambda seq, value: seq.append(value)),
    "insert": edited(lambda seq, value: seq.insert(1, value)),
    "extend": edited(lambda seq, value: seq.extend([value])),
    "extend by two": edited(lambda seq, value: seq.extend(([], value))),
    "add": edited(lambda seq, value: seq.__iadd__([value])),
    "assign": edited(lambda seq, value: seq.__setitem__(0, value)),
    "assign a slice": edited(lambda seq, value: seq.__setitem__(slice(0, 1), [value])),
    "assign a selection": edited(lambda seq, value: seq.__setitem__([0], [value])),
}

bounds = st.sampled_from([2**k + d for k in (7, 8, 15, 16, 31, 32, 53, 63, 64) for d in (-1, 0, 1)])
integers = st.integers(-300, 300) | bounds | bounds.map(lambda n: -n) | st.just(10**400)
exact = {
    "int": integers,
    "float": st.floats()
    | st.floats(-1000, 1000, width=16)
    | st.sampled_from([65519.99, 65520.0, 3.4e38, 1e39]),
    "bool": st.booleans(),
    "complex": st.complex_numbers(max_magnitude=1e40, allow_nan=False),
    "text": st.text(max_size=3),
}
others = st.one_of(
    st.sampled_from(NUMERIC_NAMES).map(lambda name: filled(name, 2)[1]),
    integers.map(Int),
    st.floats(allow_nan=False).map(Float),
    st.text(max_size=2).map(Text),
    st.text(max_size=2).map(np.str_),
    st.none(),
)


@st.composite
def values(draw):
    """Draw a scalar or a list, most often regular and of one kind."""
    kinds = draw(st.lists(st.sampled_from([*exact, *exact, "other"]), min_size=1, max_size=2))
    items = st.one_of(*[others if kind == "other" else exact[kind] for kind in kinds])
    rank = draw(st.integers(0, 3))
    shape = draw(st.lists(st.integers(0, 3), min_size=rank, max_size=rank))
    make = draw(st.sampled_from([list, list, tuple, List]))
    ragged = draw(st.integers(0, 9)) == 0

    def nested(level):
        if level == rank:
            return draw(items)
        length = shape[level] + (ragged and draw(st.integers(0, 1)))
        return make([nested(level + 1) for _ in range(length)])

    return nested(0)


@pytest.mark.parametrize("way", WAYS)
@given(values(), st.sampled_from(NAMES))
@example([1.5, 2], "float16")
@example([2**63, 1], "uint64")
@example([2**64, 1], "uint64")
@example([1, -1], "uint64")
@example(-129, "int8")
@example(70000, "float16")
@example([1.0, 1e39], "float32")
@example([1, 1e39j], "complex64")
@example(10**400, "float64")
@example([[1, 2], [3, 2**40]], "int32")
@example([["a"], ["b", "c"]], "string")
@example([["a", "b"], ["c", 1]], "string")
def test_a_value_becomes_what_numpy_makes_of_it(way, value, name):
    try:
        expected = converted(value, name)
    except ERRORS as error:
        kind = type(error)
        is_nested = isinstance(value, list | tuple)
        if kind is ValueError or (
            is_nested and 10**400 in [one for one in leaves(value) if type(one) is int]
        ):
            kind = ERRORS  # more than one thing is wrong
        with pytest.raises(kind):
            WAYS[way](value, name)
        return
    seq = WAYS[way](value, name)
    seq._check()
    at = 0 if way.startswith("assign") else -1
    assert same(seq[at], expected)
    assert not seq[at].flags.writeable


@pytest.mark.parametrize("way", WAYS)
def test_lists_as_deep_as_numpys_arrays(way):
    value = functools.reduce(lambda inner, _: [inner], range(64), 1)
    assert WAYS[way](value, "int64")[0 if way.startswith("assign") else -1].shape == (1,) * 64
    with pytest.raises(ValueError, match="nested more than 64 deep"):
        WAYS[way]([value], "int64")


@given(values())
def test_without_a_type_the_quick_way_agrees_with_numpys(value):
    def made(quickly):
        with pytest.MonkeyPatch.context() as patch:
            if not quickly:
                patch.setattr(slow, "read", lambda value, dtype: None)
            try:
                return slow.as_tensor(value)
            except ERRORS as error:
                return type(error)

    quick, other = made(True), made(False)
    if isinstance(other, type):
        with pytest.raises(other):
            TensorSequence([value])
        assert quick is other
    else:
        assert same(quick, other)
        assert same(TensorSequence([value])[0], other)
        only = [*leaves(value)]
        if not all(isinstance(one, int | np.integer | np.bool_) for one in only):
            expected = np.array(value)
            assert same(quick, expected.astype(object) if expected.dtype.kind == "U" else expected)


@given(
    st.lists(
        st.one_of(
            values(),
            st.sampled_from(NAMES).map(lambda name: filled(name, 3)),
            st.sampled_from([[], (), [[], []], 7, [1, 2], [[1, 2]], [3]]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.booleans(),
    st.booleans(),
)
@example([[], [], 0, [[], []]], False, False)
@example([[1], [2], np.zeros(2, int), [3], 4, [5]], True, False)
def test_many_become_what_each_becomes(given_, copied, by_generator):
    """The type is that of the first with items, and each becomes what `append` makes of it."""
    typed = next(
        (one for one in given_ if isinstance(one, np.ndarray) or any(True for _ in leaves(one))), None
    )
    single, error, at = None, None, 0
    try:
        single = TensorSequence(dtype="float64" if typed is None else TensorSequence([typed]).dtype)
        for one in given_:
            at = len(single)
            single.append(one)
    except ERRORS as caught:
        error = caught
    tensors = (one for one in given_) if by_generator else given_
    if error is not None:
        with pytest.raises(ERRORS) as caught:
            TensorSequence(tensors, copy=copied)
        if single is not None and len(single) and type(error) is type(caught.value):
            assert f"tensors[{at}]" in str(caught.value)
        return
    seq = TensorSequence(tensors, copy=copied)
    seq._check()
    assert len(seq) == len(given_)
    assert all(same(mine, other) for mine, other in zip(seq, single, strict=True))
    for mine, one in zip(seq, given_, strict=True):
        if isinstance(one, np.ndarray) and one.size and one.dtype.kind != "O":
            assert np.shares_memory(mine, one) != copied
    if copied or not any(isinstance(one, np.ndarray) for one in given_):
        assert seq.pinned_nbytes <= seq.nbytes * 8 // 7 + 16


# -- types that no value has set -----------------------------------------------------------------------


def saved(tensors, path):
    pytest.importorskip("pyarrow")
    sq.save(path / "some.arrow", (one for one in tensors))
    return sq.load(path / "some.arrow")


def mapped(tensors, **options):
    return sq.sequence_map(lambda at: list(tensors[at]), list(range(len(tensors))), **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda tensors, path: TensorSequence(tensors),
        lambda tensors, path: TensorSequence(tensors, copy=True),
        lambda tensors, path: TensorSequence(one for one in tensors),
        lambda tensors, path: sq.Columns({"a": tensors})["a"],
        saved,
        lambda tensors, path: mapped(tensors),
        lambda tensors, path: mapped(tensors, max_workers=2, chunksize=1),
    ],
    ids=["constructor", "copy", "generator", "Columns", "save", "map", "map on threads"],
)
class TestEmptyLists:
    def test_alone_are_float64(self, make, tmp_path):
        seq = make([[], []], tmp_path)
        assert (seq.dtype, seq.shapes) == (np.float64, [(0,), (0,)])

    def test_what_is_wrong_behind_them_is_named(self, make, tmp_path):
        with pytest.raises(TypeError, match=r"(tensors\[2\]|part 2|element 2).*None"):
            make([[], [1], [None]], tmp_path)


def test_empty_arrays_have_a_type():
    assert TensorSequence([[], np.zeros(0, "int8"), [1]]).dtype == np.int8


@pytest.mark.parametrize("fifth", [None, (1, 2), np.zeros(1, "int16"), (), 5])
@pytest.mark.parametrize("are_two", [False, True])
def test_outputs_of_a_map_get_the_types_of_later_chunks(fifth, are_two):
    def body(i):
        one = [] if i < 2 else np.full(2, i, "int8")
        return fifth if i == 5 and fifth is not None else (one, one) if are_two else one

    def run(**options):
        try:
            return repr(sq.sequence_map(body, list(range(8)), **options))
        except (TypeError, OverflowError) as error:
            return str(error)

    with ThreadPoolExecutor(2) as executor:
        assert run(executor=executor, chunksize=1) == run(max_workers=1)


def test_outputs_of_a_map_get_their_types_one_by_one():
    results = [([], []), ([], ["a"]), ([1], []), ([2], ["b"])]
    first, second = sq.sequence_map(lambda at: results[at], [0, 1, 2, 3])
    assert (first.tolist(), second.tolist()) == ([[], [], [1], [2]], [[], ["a"], [], ["b"]])
    assert (first.dtype, second.dtype) == (np.int64, object)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1, 2**63], "uint64"),
        ([2**63 - 1, -1], "int64"),
        ([True, 2**63], "uint64"),
        ([-1, np.uint64(2**63 - 1)], "int64"),
        ([1, np.uint64(2**64 - 1)], "uint64"),
        ([[np.int64(2**62 + 1)], [np.uint64(1)]], "int64"),
        ([1.0, 2**63], "float64"),
        ([0.5, np.int64(2)], "float64"),
    ],
)
def test_integers_keep_their_digits(value, dtype):
    seq = TensorSequence([value])
    assert seq.dtype == dtype
    assert seq.tolist() == [np.array(value, object).astype(dtype).tolist()]
    assert sq.Columns({"a": [[], value]})["a"].dtype == dtype


@pytest.mark.parametrize("value", [[-1, 2**63], [2**64], [-1, np.uint64(2**63)], [1.0, 2**70]])
def test_integers_of_no_dtype_are_refused(value):
    with pytest.raises(OverflowError, match=r"tensors\[0\].*fits no integer dtype"):
        TensorSequence([value])


def test_what_comes_later_never_changes_the_type():
    with pytest.raises(OverflowError, match=r"tensors\[1\].*int64"):
        TensorSequence([[1], [2**63]])
    with pytest.raises(TypeError, match=r"tensors\[1\].*float64"):
        TensorSequence([[1], [1.5]])


# -- memory --------------------------------------------------------------------------------------------


def test_lists_go_into_one_buffer():
    rng = random.Random(0)
    lists = [[0.5] * rng.randrange(1, 20) for _ in range(20_000)]
    arrays = [np.array(one, np.float32) for one in lists]
    nbytes = sum(4 * len(one) for one in lists)
    for make in (
        lambda: TensorSequence(lists, "float32"),
        lambda: TensorSequence(arrays, copy=True),
        lambda: TensorSequence((one for one in lists), "float32"),
    ):
        tracemalloc.start()
        try:
            seq = make()
            taken = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert taken <= nbytes * 8 // 7 + 16 * len(seq) + 10_000
        assert seq.lengths().tolist() == [len(one) for one in lists]


# -- lists that change while they are read -------------------------------------------------------------


class Clears(int):
    """An integer whose conversion empties the lists that it is in."""

    lists = ()

    def _clear(self):
        for one in self.lists:
            one.clear()
        return 7

    __int__ = __index__ = _clear

    def __float__(self):
        return float(self._clear())


@pytest.mark.parametrize("dtype", [None, "int8", "float32", "float16", "complex64"])
def test_a_number_that_changes_its_own_list(dtype):
    for build in (lambda one: [1, one, 3], lambda one: [[1, 2], [one, 3]]):
        evil = Clears(5)
        value = build(evil)
        evil.lists = [value, *[one for one in value if isinstance(one, list)]]
        tensors = [[1, 2], value, [3]]
        try:
            seq = TensorSequence(tensors, dtype)
        except (*ERRORS, RuntimeError):  # NumPy's own: the content of a list has changed
            continue
        seq._check()
        assert seq[0].tolist() == [1, 2]


def test_lists_that_other_threads_change():
    """Each element is what its list was at one moment."""
    rows = [[0] * 50 for _ in range(20)]
    nested = [[[0] * 9 for _ in range(3)] for _ in range(5)]
    tensors = [*rows, *nested]
    stop = []

    def change():
        for k in range(400):
            for row in rows:
                row[:] = [k] * (k % 60)
            for one in nested:
                one[:] = [[k] * (k % 9) for _ in range(k % 4)]
            tensors[k % 20 :] = [*rows[k % 20 :], *nested]
        stop.append(True)

    def read():
        while not stop:
            for seq in (TensorSequence(tensors, "int64"), TensorSequence(rows, "float32")):
                seq._check()
                assert all(len(set(one.ravel().tolist())) <= 1 for one in seq if one.ndim == 1)

    together(change, read, read)
