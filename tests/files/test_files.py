"""What is saved is loaded: every type and shape, not copied, not read before it is looked at."""

import gc

import numpy as np
import pytest
from support.saved import (
    FILE_NAMES,
    MAPPED_NAMES,
    lies_in,
    mappings,
    needs_proc,
    open_files,
    ragged,
    resident,
    saved,
)
from support.strategies import assert_holds, dtype_of, filled

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.mostly_slow(3)

SHAPES = {
    "numbers": [(), (), ()],
    "one number": [()],
    "rows": [(3,), (0,), (1,), (40,), (0,)],
    "one row": [(5,)],
    "no numbers": [(0,), (0,)],
    "matrices": [(2, 3), (0, 3), (5, 3)],
    "rows of one": [(2, 1), (1, 1)],
    "no width": [(2, 0), (0, 0), (3, 0)],
    "no height": [(0, 3), (0, 3)],
    "cubes": [(2, 3, 4), (1, 3, 4), (0, 3, 4)],
    "hollow": [(2, 0, 4), (1, 0, 4)],
    "deep": [(1, 2, 1, 2, 3), (2, 2, 1, 2, 3)],
    "other widths": [(2, 3), (2, 4), (0, 7), (3, 0), (1, 1), (0, 0)],
    "other depths": [(2, 3, 4), (2, 3, 5), (0, 3, 4)],
    "other middles": [(1, 1, 2, 2), (1, 3, 2, 2), (1, 0, 2, 2)],
}


def tensors(name, shapes):
    return [filled(name, shape, 7 * i) for i, shape in enumerate(shapes)]


# --- what comes back ---


@pytest.mark.parametrize("name", FILE_NAMES)
def test_nothing_comes_back_with_its_type(path, name):
    back = saved(path, TensorSequence(dtype=name))
    assert back.dtype == dtype_of(name)
    assert_holds(back, [])
    back.append(filled(name, 3))
    assert_holds(back, [filled(name, 3)])


def test_strings_of_any_kind(path):
    words = ["", "é", "日本語", "a\0b", "\n", "😀" * 3, "x" * 100_000, "e\u0301", "\ufeff", "nan", " "]
    for arrays in (
        [np.array(words, object), np.array([], object), np.array(words[:1], object)],
        [np.array(word, object) for word in words],
        [np.array([words[:4], words[4:8]], object), np.array([words[:3]], object)],
    ):
        back = saved(path, arrays)
        assert_holds(back, arrays)
        assert all(type(word) is str for element in back for word in element.ravel())


# --- where the values lie ---


@pytest.mark.mostly_slow(19)
@needs_proc
@pytest.mark.parametrize("shapes", [shapes for shapes in SHAPES.values() if len(shapes) > 1])
@pytest.mark.parametrize("name", MAPPED_NAMES)
def test_elements_lie_in_the_file(path, name, shapes):
    back = saved(path, TensorSequence(tensors(name, shapes)))
    assert all(lies_in(element, path) for element in back if element.nbytes)
    assert all(lies_in(element, path) for element in back[::-1] + back if element.nbytes)


@pytest.mark.slow
@needs_proc
@pytest.mark.thread_unsafe
def test_no_element_is_read_before_it_is_looked_at(path):
    sq.save(path, ragged([1 << 18] * 40))
    back = sq.load(path)
    pickled, picked = back.__reduce_ex__(5), back[[30, 2, 2]] + back[::3]
    assert len(back) == 40
    assert back.shapes == [(1 << 18,)] * 40
    assert resident(path) < 8 << 20
    assert sum(int(element[-1]) for element in back) > 0
    del pickled, picked


@pytest.mark.slow
@needs_proc
@pytest.mark.thread_unsafe
def test_what_nobody_has_any_longer_is_unmapped(path):
    before = open_files()
    for i in range(5):
        back = saved(path, ragged([3, i]))
        element = back[0]
        del back
        gc.collect()
        assert lies_in(element, path)
        del element
    gc.collect()
    assert [*mappings(path)] == []
    assert open_files() == before


def test_elements_outlive_sequence_and_file(path):
    back = saved(path, ragged([100, 200], "float64"))
    first, values = back[0], back.values()
    expected = np.array(values)
    back.clear()
    del back
    path.unlink()
    gc.collect()
    assert np.array_equal(first, expected[:100])
    assert np.array_equal(values, expected)


@pytest.mark.parametrize("name", FILE_NAMES)
def test_nobody_can_write_into_elements(path, name):
    back = saved(path, tensors(name, [(2, 3), (1, 3)]))
    before = path.read_bytes()
    for array in (*back, back.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = array[::-1]
        base = array
        while isinstance(base, np.ndarray):
            assert not base.flags.writeable
            with pytest.raises(ValueError, match=r"(?i)writeable"):
                base.flags.writeable = True
            base = base.base
    assert path.read_bytes() == before
