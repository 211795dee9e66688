"""Laws: neutral elements change nothing, equal things are equal, and the order of inputs says nothing."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mixtures import mixtures
from support.results import same
from support.strategies import NUMERIC_NAMES

import seqcore as sq
from seqcore import Columns, TensorSequence

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**53 + 1, 2**63 - 1, -(2**53) - 1])
INTEGERS = NUMBERS | st.sampled_from([2**63, 2**64 - 1, 2**64])
FLOATS = st.floats(allow_nan=False) | st.sampled_from([-0.0, 5e-324])
ITEMS = {
    "integers": NUMBERS,
    "floats": FLOATS,
    "bools": st.booleans(),
    "strings": st.text("aé\U0001f600", max_size=3),
}


EMPTY = [[], (), functools.reduce(lambda inner, _: [inner], range(63), [])]


def lists_of(items):
    return st.lists(st.lists(items, min_size=1, max_size=4), min_size=1, max_size=5)


def by_files(lists, path):
    pytest.importorskip("pyarrow")
    sq.save(path, iter(lists))
    return sq.load(path)


def by_map(lists, **options):
    """By a body that returns the lists, where a tuple would have the values of several outputs."""
    return sq.sequence_map(lambda i: list(lists[int(i)]), TensorSequence(range(len(lists))), **options)


WAYS = {
    "constructor": lambda lists, path: TensorSequence(lists),
    "copy": lambda lists, path: TensorSequence(lists, copy=True),
    "generator": lambda lists, path: TensorSequence(iter(lists)),
    "operator": lambda lists, path: sq.sequence_construct(*lists),
    "Columns": lambda lists, path: Columns({"a": [*map(np.array, lists[:0]), *lists]})["a"],
    "map": lambda lists, path: by_map(lists),
    "map on threads": lambda lists, path: by_map(lists, max_workers=2, chunksize=1),
    "save": by_files,
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("lists") / "lists.arrow"


def made(way, lists, path):
    result = WAYS[way](lists, path)
    return result if isinstance(result, TensorSequence) else TensorSequence([*result])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("items", ITEMS)
@given(st.data())
def test_an_empty_list_says_nothing_of_the_type(items, way, path, data):
    lists, at = data.draw(lists_of(ITEMS[items])), data.draw(st.integers(0, 5))
    empty = data.draw(st.sampled_from(EMPTY[: 2 if way == "save" else 3]))  # a file has one rank
    with_empty = [*lists[:at], empty, *lists[at:]]
    found = made(way, with_empty, path)
    assert found.dtype == made(way, lists, path).dtype
    assert found.tolist() == [list(one) for one in with_empty]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("items", ITEMS)
@given(st.data())
def test_no_order_of_lists_changes_the_type_or_a_digit(items, way, path, data):
    lists = data.draw(lists_of(ITEMS[items]))
    moved = data.draw(st.permutations(lists))
    found = made(way, moved, path)
    assert found.dtype == made(way, lists, path).dtype
    assert found.tolist() == moved


@given(st.lists(INTEGERS, min_size=1, max_size=4))
def test_integers_stay_what_they_are_or_are_refused(numbers):
    try:
        seq = TensorSequence([numbers])
    except OverflowError:
        fits = min(numbers) >= -(2**63) and max(numbers) < 2**63
        assert not fits
        assert min(numbers) < 0 or max(numbers) >= 2**64
    else:
        assert seq.tolist() == [numbers]
        assert seq.dtype.kind in "iu"


@given(st.lists(INTEGERS, min_size=1, max_size=4))
def test_an_element_is_the_same_appended_or_given(numbers):
    try:
        seq = TensorSequence([numbers])
    except OverflowError:
        return
    other = TensorSequence(dtype=seq.dtype)
    other.append(numbers)
    assert other == seq


# --- sequences ---


@given(mixtures(), mixtures())
def test_neutral_elements(one, other):
    seq, model = one
    none = TensorSequence(dtype=seq.dtype)
    for made in (seq + none, none + seq, seq + [], [] + seq, seq[:], seq[::-1][::-1], seq + seq[:0]):
        assert same(made, model)
        assert made == seq
    if other[0].dtype == seq.dtype:
        assert same((seq + other[0])[: len(seq)], model)
        assert same((seq + other[0])[len(seq) :], other[1])


@given(mixtures(), st.randoms(use_true_random=False))
def test_permuted_and_back(mixture, random):
    seq, model = mixture
    order = [*range(len(model))]
    random.shuffle(order)
    moved = seq[order]
    assert same(moved, [model[i] for i in order])
    assert moved[np.argsort(np.array(order, int))] == seq


@given(mixtures(one_rank=True))
def test_joined_and_split(mixture):
    seq, model = mixture
    if not model or len({one.shape[1:] for one in model}) > 1:
        return
    values = seq.values()
    assert TensorSequence.from_lengths(values, seq.lengths()) == seq
    assert TensorSequence.from_offsets(values, seq.offsets()) == seq
    assert sq.split_to_sequence(values, seq.lengths()) == seq
    assert same(sq.concat_from_sequence(seq, 0), np.concatenate(model))
    batch, mask = seq.to_padded("" if seq.dtype == object else 0, return_mask=True)
    assert TensorSequence.from_padded(batch, mask.sum(1)) == seq


def with_nans(name, lengths):
    return TensorSequence([np.full(length, np.nan, name) for length in lengths], name)


@pytest.mark.parametrize("name", [name for name in NUMERIC_NAMES if name[:2] in ("fl", "co")])
@given(st.lists(st.integers(0, 2), min_size=1, max_size=4))
def test_equality_doesnt_ask_who_is_compared(name, lengths):
    seq = with_nans(name, lengths)
    assert (seq == seq) == (seq == seq[:]) == (not any(lengths))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=4))
def test_equality_of_columns_doesnt_ask_who_is_compared(lengths):
    for column in (with_nans("float32", lengths), np.where(lengths, np.nan, 1)):
        columns = Columns({"a": column})
        assert (columns == columns) == (columns == columns[:]) == (not any(lengths))
