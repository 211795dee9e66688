"""sequence_map of ufuncs: over whole blocks or not, it gives what the ufunc gives element by element."""

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from seqcore.core.arrow import first_other_shape
from support.random_cases import examples
from support.strategies import NUMBER_NAMES, filled

import seqcore as sq
from seqcore._maps import elementwise

pytestmark = [pytest.mark.mostly_slow(3), pytest.mark.usefixtures("blocks_of_few")]

SHAPES = [(2, 3), (), (0,), (5,), (1,), (3, 0, 2), (1, 1), (), (4,), (2, 2, 2), (5,)]
BINARY = [np.add, np.subtract, np.multiply, np.maximum, np.less, np.divide, np.floor_divide, np.logaddexp]
WORKERS = pytest.mark.parametrize("max_workers", [1, 2, None])


def tensors(name, shapes=SHAPES, start=1):
    return [filled(name, shape, start=start + 3 * i) for i, shape in enumerate(shapes)]


def pieces(name, trailing=()):
    """A split of uneven lengths, with a whole array and nothing among the pieces."""
    lengths = [3, 0, 1, 5, 2, 0]
    seq = sq.split_to_sequence(filled(name, (11, *trailing), start=1), lengths)
    seq.insert(2, filled(name, (4, *trailing), start=7))
    return seq


def serially(body, *inputs):
    """What a loop over the elements gives, or the first exception with the element's number."""
    inputs = [one if isinstance(one, (list, sq.TensorSequence)) else np.asarray(one) for one in inputs]
    rows = []
    for i in range(len(inputs[0])):
        row = [one if isinstance(one, np.ndarray) else one[i] for one in inputs]
        try:
            rows.append(body(*row))
        except Exception as error:
            return error, i
    return rows, None


def assert_close(found, expected):
    found._check()
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        other = np.asarray(other, object if one.dtype == object else None)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if other.dtype.kind in "OSUb":
            assert np.array_equal(one, other)
        else:
            wide = np.complex128 if other.dtype.kind == "c" else np.float64
            rtol = 1e-3 if other.dtype.itemsize == 2 else 1e-5
            np.testing.assert_allclose(one.astype(wide), other.astype(wide), rtol=rtol, atol=1e-8)
            if other.dtype.kind in "iu":
                assert np.array_equal(one, other)


def assert_maps(body, *inputs, **options):
    """The map gives what a loop gives, be it tensors or an exception for an element."""
    with np.errstate(all="ignore"):
        expected, failed = serially(body, *inputs)
        if failed is not None:
            with pytest.raises(type(expected), match=rf"element {failed}\b"):
                sq.sequence_map(body, *inputs, **options)
            return
        found = sq.sequence_map(body, *inputs, **options)
    if expected and isinstance(expected[0], tuple):
        assert isinstance(found, tuple)
        for k, one in enumerate(found):
            assert_close(one, [row[k] for row in expected])
    else:
        assert_close(found, expected)


# --- types and shapes ---


@pytest.mark.parametrize("name", NUMBER_NAMES)
@pytest.mark.parametrize("body", [*BINARY, np.divmod])
def test_two_sequences_of_equal_shapes(body, name):
    for make in (tensors, pieces):
        assert_maps(body, make(name), sq.TensorSequence([np.array(one) for one in make(name)]))
    assert_maps(body, pieces(name, (2,)), pieces(name, (2,)))


def test_a_third_input_is_out_and_read_only():
    seq, whole = tensors("int64", [(2,)] * 3), np.zeros(2, np.int64)
    for out in (whole, [whole.copy() for _ in range(3)]):
        with pytest.raises(ValueError, match=r"element 0\b"):
            sq.sequence_map(np.add, seq, seq, out)
    assert whole.tolist() == [0, 0]


def test_strings():
    words = [filled("string", shape, i) for i, shape in enumerate([(2,), (), (0, 2), (2, 2)])]
    assert_maps(np.add, words, words)
    assert_maps(np.add, words, "!")
    assert_maps(
        np.add, sq.split_to_sequence(filled("string", (6, 2)), [1, 0, 5]), np.array(["a", "b"], object)
    )
    assert_maps(np.negative, words)
    assert_maps(np.add, words, 1)


# --- any inputs ---

CLIP = np._core.umath.clip  # the ufunc of three inputs behind np.clip
EXACT = [np.negative, np.modf, np.add, np.subtract, np.less, np.maximum, np.divmod, CLIP]
DTYPES = st.sampled_from(["bool", "int8", "int64", "float16", "float32", "complex64"])
EXTENTS = st.sampled_from([0, 1, 1, 2, 2, 3])
HELD = st.sampled_from(["arrays", "table", "inside", "selected", "joined", "reversed", "even"])
KINDS = ["same", "lower", "lower", "each lower", "by turns", "in other order", "any", "broadcast"]


def several(shapes):
    return st.lists(shapes, min_size=1, max_size=4)


@st.composite
def inputs_of(draw, ufunc, n):
    """Draw the inputs of a map, sequences and broadcast arrays, and what each has for every element.

    Most have the shapes of the others, or some of their last axes, with extents of 1 in place of some.
    """
    rank = draw(st.integers(0, 3))
    some = draw(several(st.tuples(*[EXTENTS] * rank) | st.lists(EXTENTS, max_size=3).map(tuple)))
    if draw(st.booleans()):  # they differ along axis 0 only
        some = [(*shape[:1], *some[0][1:]) for shape in some]
    values = np.random.default_rng(draw(st.integers(0, 9)))
    inputs, rows = [], []
    for k in range(ufunc.nin):
        kind = draw(st.sampled_from(KINDS[: len(KINDS) - (k == 0)]))
        flags = draw(st.lists(st.booleans(), max_size=3))
        own = some
        if kind in ("lower", "broadcast"):
            own = [cut(some[0], flags)]
        elif kind == "each lower":
            own = [cut(shape, flags) for shape in some]
        elif kind == "by turns":
            own = [cut(shape, flags[:: (-1) ** i]) for i, shape in enumerate([*some, *some])]
        elif kind == "in other order":
            own = draw(st.permutations(some))
        elif kind == "any":
            own = draw(several(st.lists(EXTENTS, max_size=4).map(tuple)))
        name = draw(DTYPES)
        arrays = [values.integers(-3, 4, own[i % len(own)]).astype(name) for i in range(n)]
        if kind == "broadcast":
            arrays = arrays[:1] * n
        elif draw(st.booleans()):
            arrays = [np.broadcast_to(one.reshape(-1)[0], one.shape) if one.size else one for one in arrays]
        inputs.append(arrays[0] if kind == "broadcast" else held(draw(HELD), arrays))
        rows.append(arrays)
    order = draw(st.permutations(range(ufunc.nin)))
    if not isinstance(inputs[order[0]], sq.TensorSequence):
        order = range(ufunc.nin)
    return [inputs[k] for k in order], [rows[k] for k in order]


def cut(shape, flags):
    """Return the extents of the last axes, one for each flag, with 1 where the flag is False."""
    return tuple(extent if keep else 1 for extent, keep in zip(shape[::-1], flags, strict=False))[::-1]


def held(how, arrays):
    """Return the arrays as a sequence: of one table, of many arrays, selected, reversed, or joined."""
    n, shape = len(arrays), arrays[0].shape
    if how == "joined":
        return held("table", arrays[: n // 2 + 1]) + sq.TensorSequence(
            arrays[n // 2 + 1 :], dtype=arrays[0].dtype
        )
    if how in ("selected", "reversed"):
        seq = held("table", arrays[::-1])
        return seq[::-1] if how == "reversed" else seq[np.arange(n)[::-1]]
    if how == "even" and all(one.shape == shape for one in arrays):
        return sq.split_to_sequence(np.stack(arrays), keepdims=0)
    if (
        how == "arrays"
        or not shape
        or any((one.ndim, one.shape[1:]) != (len(shape), shape[1:]) for one in arrays)
    ):
        return sq.TensorSequence(arrays)
    if how == "inside":
        return held("table", [*arrays[-1:], *arrays, *arrays[:1]])[1:-1]
    return sq.TensorSequence.from_lengths(np.concatenate(arrays), [len(one) for one in arrays])


@given(
    data=st.data(),
    ufunc=st.sampled_from(EXACT),
    n=st.sampled_from([1, 2, 5, 70]),
    block=st.sampled_from([elementwise.BLOCK, 7]),
    on_error=st.sampled_from(["ignore", "warn", "raise"]),
)
@settings(
    max_examples=examples(900), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_inputs(monkeypatch, data, ufunc, n, block, on_error):
    monkeypatch.setattr(elementwise, "BLOCK", block)
    inputs, rows = data.draw(inputs_of(ufunc, n))
    with np.errstate(all=on_error):
        with warnings.catch_warnings(record=True) as expected_warnings:
            warnings.simplefilter("always")
            expected, failed = serially(ufunc, *rows)
        with warnings.catch_warnings(record=True) as found_warnings:
            warnings.simplefilter("always")
            if failed is not None:
                with pytest.raises(type(expected), match=rf"element {failed}\b"):
                    sq.sequence_map(ufunc, *inputs)
                return
            found = sq.sequence_map(ufunc, *inputs)
    assert {str(one.message) for one in found_warnings} == {str(one.message) for one in expected_warnings}
    for k, one in enumerate(found if isinstance(found, tuple) else [found]):
        one._check()
        of_output = [row[k] if isinstance(row, tuple) else row for row in expected]
        assert [(a.dtype, a.shape) for a in one] == [(a.dtype, a.shape) for a in of_output]
        for a, b in zip(one, of_output, strict=True):
            np.testing.assert_array_equal(a, b)


@given(
    lengths=st.lists(st.integers(0, 3), min_size=2, max_size=9), at=st.integers(0, 8), how=HELD, other=HELD
)
@settings(max_examples=examples(900))
def test_where_shapes_begin_to_differ(lengths, at, how, other):
    """Two lengths change places, so that both sequences have as many items and mostly the same ends."""
    arrays, at = [np.zeros(length) for length in lengths], at % len(lengths)
    order = np.arange(len(arrays))
    order[[at - 1, at]] = order[[at, at - 1]]
    swapped = [arrays[i] for i in order]
    differ = [one.shape != two.shape for one, two in zip(arrays, swapped, strict=True)]
    found = first_other_shape(held(how, arrays), held(other, swapped))
    assert found == [*differ, True].index(True)


def test_two_lengths_that_change_places_behind_the_first():
    one, two = [[0, 1, 2], [0, 1], [0]], [[0, 1, 2], [0], [0, 1]]
    found = sq.sequence_map(np.add, *map(sq.TensorSequence, (one, two)))
    assert found.tolist() == [[0, 2, 4], [0, 1], [0, 1]]


# --- ufuncs of another kind ---


def test_gufuncs_are_called_by_the_element():
    squares = [filled("float64", (k, k)) for k in (2, 3, 1, 2)]
    assert_maps(np.matmul, squares, squares)
    assert_maps(np.matmul, [filled("float64", (3,), i) for i in range(4)], [filled("float64", (3,))] * 4)
    assert_maps(np.matmul, sq.split_to_sequence(filled("float64", (6, 2)), 2), filled("float64", (2, 3)))
    assert_maps(np.matmul, sq.split_to_sequence(np.arange(6.0), 2), np.ones(6))
    if hasattr(np, "vecdot"):
        assert_maps(
            np.vecdot, sq.split_to_sequence(np.arange(6.0), 2), sq.split_to_sequence(np.arange(6.0), 2)
        )


@pytest.mark.parametrize("kind", ["ragged", "pieces", "strings"])
def test_a_python_function_is_called_once_for_each_item_in_order(kind):
    seen = []
    body = np.frompyfunc(lambda item: seen.append(item) or str(item), 1, 1)
    seq = {"ragged": tensors("int64"), "pieces": pieces("int64"), "strings": pieces("string")}[kind]
    result = sq.sequence_map(body, seq)
    items = [item for one in seq for item in one.ravel().tolist()]
    assert seen == items
    assert [item for one in result for item in one.ravel().tolist()] == [str(item) for item in items]
    assert [one.shape for one in result] == [one.shape for one in seq]


def test_a_python_function_that_fails_is_called_up_to_there():
    seen = []

    def function(item):
        seen.append(item)
        if item == 6:
            raise KeyError("six")
        return str(item)

    with pytest.raises(KeyError, match=r"element 3\b"):
        sq.sequence_map(np.frompyfunc(function, 1, 1), sq.split_to_sequence(np.arange(12), 2))
    assert seen == [*range(7)]


# --- any ---


def test_a_block_without_memory_goes_element_by_element(monkeypatch):
    def no_memory(sequence):
        raise MemoryError("no memory for a copy of the block")

    monkeypatch.setattr(elementwise, "items_of", no_memory)
    seq = sq.TensorSequence([[1.0, 4.0], [9.0]])
    assert [a.tolist() for a in sq.sequence_map(np.sqrt, seq)] == [[1.0, 2.0], [3.0]]
