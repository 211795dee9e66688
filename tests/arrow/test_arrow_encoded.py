"""What is encoded, and lists within lists: read once, and refused for what an element sees alone."""

import numpy as np
import pytest
from support.strategies import assert_holds

from seqcore import TensorSequence

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")

from_arrow = TensorSequence.from_arrow
INDICES = np.random.default_rng(0).integers(0, 5_000, 20_000)


def int64s(*lists):
    return [np.array(one, np.int64) for one in lists]


@pytest.mark.slow
def test_a_dictionary_of_many_chunks_is_decoded_once():
    whole = pa.DictionaryArray.from_arrays(
        pa.array(INDICES.astype("i4")), pa.array([f"w{i}" for i in range(5_000)])
    )
    chunks = pa.chunked_array([whole.slice(i, 200) for i in range(0, len(whole), 200)])
    seq = from_arrow(chunks)
    assert [str(word) for word in seq] == [f"w{i}" for i in INDICES]
    # Objects of the same strings: decoded anew for each chunk, they would be others.
    first = {}
    assert all(first.setdefault(str(word), word[()]) is word[()] for word in seq)


def test_other_dictionaries_in_one_stream_are_told_apart():
    def encoded(letter):
        words = pa.array([f"{letter}{i}" for i in range(100)])
        return pa.DictionaryArray.from_arrays(pa.array(np.arange(0, 100, 2, dtype="i4")), words)

    seq = from_arrow(pa.chunked_array([encoded(letter) for letter in "abcdefgh" * 20]))
    assert [str(word) for word in seq] == [f"{a}{i}" for a in "abcdefgh" * 20 for i in range(0, 100, 2)]


def test_dictionaries_within_a_dictionary_are_told_apart():
    """Of two chunks whose lists lie in the same memory and refer to other words."""
    numbers, bounds = pa.array(np.arange(100, dtype="i4")), pa.array(np.arange(101, dtype="i4"))
    scattered = pa.array(np.arange(0, 100, 2, dtype="i4"))

    def encoded(letter):
        words = pa.DictionaryArray.from_arrays(numbers, pa.array([f"{letter}{i}" for i in range(100)]))
        return pa.DictionaryArray.from_arrays(scattered, pa.ListArray.from_arrays(bounds, words))

    seq = from_arrow(pa.chunked_array([encoded("a"), encoded("b")]))
    assert seq.tolist() == [[f"{a}{i}"] for a in "ab" for i in range(0, 100, 2)]


def test_lists_that_nobody_refers_to_may_have_nulls():
    values = pa.array([[1, None], [2, 3], [4]])
    seq = from_arrow(pa.DictionaryArray.from_arrays(pa.array([1, 2, 1]), values))
    assert_holds(seq, int64s([2, 3], [4], [2, 3]))
    with pytest.raises(TypeError, match="element 2 has nulls"):
        from_arrow(pa.DictionaryArray.from_arrays(pa.array([1, 2, 0, 0]), values))


def test_views_over_runs():
    runs = pc.run_end_encode(pa.array([1, 1, 2, 2, 2, 3]))
    views = pa.ListViewArray.from_arrays(pa.array([3, 0], "i4"), pa.array([3, 2], "i4"), runs)
    assert_holds(from_arrow(views), int64s([2, 2, 3], [1, 1]))


@pytest.mark.parametrize(
    "child",
    [
        pa.array([1, 2, None, 4, 5]),
        pa.array([1, 2, None, 4, 5]).dictionary_encode(),
        pa.array([[1], [2], [None], [4], [5]], pa.list_(pa.int64(), 1)),
    ],
    ids=["numbers", "dictionary", "lists"],
)
def test_nulls_between_views(child):
    views = pa.ListViewArray.from_arrays(pa.array([3, 0], "i4"), pa.array([2, 2], "i4"), child)
    shape = (2, 1) if isinstance(child, pa.FixedSizeListArray) else (2,)
    assert_holds(from_arrow(views), [one.reshape(shape) for one in int64s([4, 5], [1, 2])])
    views = pa.ListViewArray.from_arrays(pa.array([3, 1], "i4"), pa.array([2, 2], "i4"), child)
    with pytest.raises(TypeError, match="element 1 has nulls"):
        from_arrow(views)


def test_views_of_lists_of_several_lengths():
    views = pa.array([[[1], [2]], [[3, 4]]], pa.list_view(pa.list_(pa.int64())))
    assert_holds(from_arrow(views), int64s([[1], [2]], [[3, 4]]))


def lists_of_views(items):
    rows = pa.ListViewArray.from_arrays(pa.array([3, 0, 5], "i4"), pa.array([2, 2, 2], "i4"), pa.array(items))
    return pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], "i4"), rows)


def test_nulls_between_views_within_lists():
    seq = from_arrow(lists_of_views([1, 2, None, 4, 5, 6, 7]))
    assert_holds(seq, int64s([[4, 5]], [[1, 2]], [[6, 7]]))
    with pytest.raises(TypeError, match="element 2 has nulls"):
        from_arrow(lists_of_views([1, 2, None, 4, 5, 6, None]))


def views_of_views(items):
    rows = pa.ListViewArray.from_arrays(pa.array([3, 0, 5], "i4"), pa.array([2, 2, 2], "i4"), pa.array(items))
    return pa.ListViewArray.from_arrays(pa.array([1, 0, 2], "i4"), pa.array([1, 1, 1], "i4"), rows)


def test_nulls_between_views_of_views():
    seq = from_arrow(views_of_views([1, 2, None, 4, 5, 6, 7]))
    assert_holds(seq, int64s([[1, 2]], [[4, 5]], [[6, 7]]))
    with pytest.raises(TypeError, match="element 2 has nulls"):
        from_arrow(views_of_views([1, 2, None, 4, 5, 6, None]))


RAGGED = {
    "two levels": (pa.array([[[1], [2]], [[3, 4], [5]]]), 1),
    "sliced": (pa.array([[[1]], [[1], [2]], [[3, 4], [5]]])[1:], 1),
    "three levels": (pa.array([[[[1], [2]]], [[[3], [5]]], [[[3], [5, 6]]]]), 2),
    "of one size": (pa.array([[[1], [1]], [[1], [1, 2]]], pa.list_(pa.list_(pa.int64()), 2)), 1),
}


@pytest.mark.parametrize(("array", "at"), RAGGED.values(), ids=RAGGED)
def test_the_ragged_element_is_named(array, at):
    with pytest.raises(ValueError, match=f"^element {at} is ragged.*lists of"):
        from_arrow(array)


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1])
def test_no_number_is_rounded_for_a_type_that_is_asked_for(value):
    seq = TensorSequence([np.array([value])])
    asked = pa.list_(pa.float64()).__arrow_c_schema__()
    made = pa.Array._import_from_c_capsule(*seq.__arrow_c_array__(asked))
    assert made.type == pa.large_list(pa.int64())
    assert made.to_pylist() == [[value]]


def test_lists_of_one_size_over_nothing():
    seq = TensorSequence([np.zeros((3, 0))] * 2)
    made = pa.array(seq, pa.list_(pa.list_(pa.float64(), 0), 3))
    assert made.to_pylist() == [[[], [], []]] * 2


@pytest.mark.parametrize("asked", [pa.binary(), pa.null(), pa.date32(), pa.string_view(), pa.decimal128(3)])
def test_empty_bools_are_of_no_other_type(asked):
    made = pa.Array._import_from_c_capsule(
        *TensorSequence(dtype=bool).__arrow_c_array__(asked.__arrow_c_schema__())
    )
    assert made.type == pa.large_list(pa.bool_())
