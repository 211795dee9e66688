"""TensorSequence as an object: how it is made, what it says about itself, which protocols it keeps."""

import gc
import re
import types
import typing
import weakref
from collections.abc import Collection, Hashable, MutableSequence, Sequence

import numpy as np
import pytest
from hypothesis import given
from support.strategies import array_lists, assert_holds, filled, same

from seqcore import TensorSequence, split_to_sequence


class Tagged(TensorSequence):
    """A subclass with attributes."""


@pytest.fixture
def arrays():
    return [filled("float32", (2, 3)), filled("float32", 4, start=10), filled("float32", (), start=20)]


# --- making one ---


@given(array_lists())
def test_holds_what_it_is_made_from(arrays):
    assert_holds(TensorSequence(arrays), arrays)


@pytest.mark.parametrize("make", [list, tuple, iter, lambda arrays: (a for a in arrays), TensorSequence])
def test_any_iterable_makes_a_sequence(arrays, make):
    assert_holds(TensorSequence(make(arrays)), arrays)


@pytest.mark.parametrize("tensors", [(), [], iter(())])
def test_no_tensors_and_no_type_is_an_error(tensors):
    with pytest.raises(ValueError, match="dtype"):
        TensorSequence(tensors)
    with pytest.raises(ValueError, match="dtype"):
        TensorSequence()


@pytest.mark.parametrize("tensors", [5, None, 1.5, object()])
def test_what_is_not_iterable_is_a_type_error(tensors):
    with pytest.raises(TypeError):
        TensorSequence(tensors, "float32")


@pytest.mark.parametrize("dtype", ["nonsense", "datetime64[s]", "S3", "V8", "i4,i4", 5, bytes, object()])
def test_unknown_dtype_is_a_type_error(dtype):
    with pytest.raises(TypeError):
        TensorSequence(dtype=dtype)


def test_made_without_init_is_not_a_trap(arrays):
    seq = TensorSequence.__new__(TensorSequence)
    assert len(seq) == 0
    assert list(seq) == []
    repr(seq)
    seq._check()


# --- what it says about itself ---


@pytest.mark.parametrize("name", ["dtype", "nbytes", "pinned_nbytes", "shapes"])
def test_attributes_are_read_only(arrays, name):
    seq = TensorSequence(arrays)
    with pytest.raises(AttributeError):
        setattr(seq, name, getattr(seq, name))
    with pytest.raises(AttributeError):
        delattr(seq, name)


@pytest.mark.parametrize("count", [0, 1, 3, 100_000])
def test_repr_is_short_and_says_type_and_length(count):
    seq = split_to_sequence(np.zeros((count, 2), "uint16")) if count else TensorSequence(dtype="uint16")
    assert len(repr(seq)) < 500
    assert "uint16" in repr(seq)
    assert "TensorSequence" in repr(seq)
    assert re.search(rf"\b{count}\b", repr(seq).replace(",", ""))


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "</td><i>", "<b>", "<img src=x onerror=y>"])
def test_html_escapes_strings(text):
    html = TensorSequence([np.array([text, text], object), text], dtype=str)._repr_html_()
    assert text not in html


def test_html_of_a_subclass_escapes_its_name(arrays):
    evil = type("<script>", (TensorSequence,), {})
    assert "<script>" not in evil(arrays)._repr_html_()


# --- protocols ---


@pytest.mark.parametrize("protocol", [MutableSequence, Sequence, Collection])
def test_is_a_mutable_sequence(arrays, protocol):
    assert isinstance(TensorSequence(arrays), protocol)
    assert issubclass(TensorSequence, protocol)
    assert issubclass(Tagged, protocol)


def test_has_every_method_of_a_mutable_sequence(arrays):
    seq = TensorSequence(arrays)
    methods = [name for name in dir(MutableSequence) if callable(getattr(MutableSequence, name))]
    assert "insert" in methods
    assert [name for name in methods if not hasattr(seq, name)] == []


def test_can_be_subscripted_as_a_type():
    alias = TensorSequence[np.float32]
    assert isinstance(alias, types.GenericAlias)
    assert typing.get_origin(alias) is TensorSequence
    assert typing.get_args(alias) == (np.float32,)


def test_is_not_hashable(arrays):
    seq = TensorSequence(arrays)
    with pytest.raises(TypeError, match="unhashable"):
        hash(seq)
    assert not isinstance(seq, Hashable)


@pytest.mark.parametrize("kind", [TensorSequence, Tagged])
def test_can_be_weakly_referenced(arrays, kind):
    """A subclass also when it is part of a cycle."""
    seq = kind(arrays)
    if kind is Tagged:
        seq.me = seq
    ref = weakref.ref(seq)
    assert ref() is seq
    del seq
    gc.collect()
    assert ref() is None


def test_subclasses_have_attributes_and_methods(arrays):
    class Frames(TensorSequence):
        def __init__(self, tensors, rate):
            super().__init__(tensors)
            self.rate = rate

        def first(self):
            return self[0]

    frames = Frames(arrays, rate=25)
    assert frames.rate == 25
    assert same(frames.first(), arrays[0])
    frames.append(arrays[0])
    assert_holds(frames, [*arrays, arrays[0]])


def test_plain_sequences_have_no_attributes(arrays):
    with pytest.raises(AttributeError):
        TensorSequence(arrays).rate = 25


def test_numpy_does_not_broadcast_over_it(arrays):
    seq = TensorSequence(arrays)
    assert TensorSequence.__array_ufunc__ is None
    for operate in ("__mul__", "__sub__", "__truediv__", "__lt__", "__matmul__", "__eq__", "__add__"):
        assert getattr(np.ones(3, "float32"), operate)(seq) is NotImplemented
    with pytest.raises(TypeError):
        np.ones(3, "float32") * seq
    with pytest.raises(TypeError):
        np.ones(3, "float32") + seq
    with pytest.raises(TypeError):
        np.add(np.ones(3, "float32"), seq)
    with pytest.raises(TypeError):
        seq - np.ones(3, "float32")
