"""What is saved is loaded: every type and shape, not copied, not read before it is looked at."""

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.saved import (
    FILE_NAMES,
    MAPPED_NAMES,
    address,
    lies_in,
    mappings,
    needs_proc,
    open_files,
    pa,
    ragged,
    resident,
    saved,
)
from support.strategies import LAYOUTS, array_lists, assert_holds, dtype_of, filled, laid_out

import seqcore as sq
from seqcore import TensorSequence, split_to_sequence

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


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tensors.arrow"


# --- what comes back ---


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", FILE_NAMES)
def test_every_type_and_shape_comes_back(path, name, shapes):
    arrays = tensors(name, shapes)
    back = saved(path, TensorSequence(arrays))
    assert type(back) is TensorSequence
    assert back.dtype == dtype_of(name)
    assert_holds(back, arrays)


@pytest.mark.parametrize("name", FILE_NAMES)
def test_nothing_comes_back_with_its_type(path, name):
    back = saved(path, TensorSequence(dtype=name))
    assert back.dtype == dtype_of(name)
    assert_holds(back, [])
    back.append(filled(name, 3))
    assert_holds(back, [filled(name, 3)])


@pytest.mark.parametrize("axes", [1, 2, 9, 31])
@pytest.mark.parametrize("last", [2, 3])
def test_any_number_of_axes(path, axes, last):
    arrays = [filled("int16", (n, *(1,) * (axes - 1)))[..., None] for n in (2, 0, 3)]
    arrays += [filled("int16", (2, *(1,) * (axes - 1), last))]
    assert_holds(saved(path, arrays), arrays)
    assert_holds(saved(path, arrays[:3]), arrays[:3])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["int32", "bool", "string"])
def test_every_layout(path, name, layout):
    source = laid_out(filled(name, (4, 6)), layout)
    for seq in (
        TensorSequence([source]),
        TensorSequence([source, source[..., :2]]),
        split_to_sequence(source, axis=0),
        split_to_sequence(source, axis=1),
        split_to_sequence(source, [1, 0, source.shape[1] - 1], axis=1),
        split_to_sequence(source, axis=1, keepdims=0)[::-1],
        TensorSequence([source[0, ..., 0]])[[0, 0, 0]],
    ):
        assert_holds(saved(path, seq), list(seq))


@given(array_lists(st.sampled_from(FILE_NAMES)))
def test_any_elements_of_one_rank(tmp_path_factory, arrays):
    arrays = [array for array in arrays if array.ndim == arrays[0].ndim]
    path = tmp_path_factory.getbasetemp() / "any.arrow"
    assert_holds(saved(path, TensorSequence(arrays)), arrays)


@pytest.mark.parametrize("make", [list, tuple, TensorSequence])
def test_lists_and_tuples_of_tensors(path, make):
    arrays = tensors("float32", [(2, 3), (1, 3)])
    assert_holds(saved(path, make(arrays)), arrays)


def test_selections_and_edited_sequences(path):
    seq = ragged([3, 0, 1, 2, 5, 0])
    for other in (
        seq[::-1],
        seq[[4, 4, 0, 1]],
        seq + seq,
        seq[1:1],
        seq[::2] + TensorSequence([[9, 9]], "int32"),
    ):
        assert_holds(saved(path, other), list(other))
    seq.insert(2, seq.pop())
    seq.append(np.int32([7]))
    assert_holds(saved(path, seq), list(seq))


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_floats_come_back_to_the_bit(path, name):
    integers = np.random.default_rng(0).integers(0, 256, 8_000, np.uint8)
    floats = integers.view(name)
    floats[:4] = -0.0, np.nan, np.inf, np.finfo(name).smallest_subnormal
    (back,) = saved(path, [floats])
    assert back.tobytes() == floats.tobytes()


@pytest.mark.parametrize("name", [name for name in MAPPED_NAMES if "int" in name])
def test_the_least_and_the_largest_integers(path, name):
    info = np.iinfo(name)
    ends = np.array([info.min, info.max, 0, 1], name)
    assert_holds(saved(path, [ends, ends[:0]]), [ends, ends[:0]])


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


def test_many_elements(path):
    lengths = np.random.default_rng(1).integers(0, 4, 50_000)
    seq = ragged(lengths.tolist(), "int16")
    back = saved(path, seq)
    assert np.array_equal(back.lengths(), lengths)
    assert np.array_equal(back.values(), seq.values())


def test_subclasses_are_saved_as_sequences(path):
    class Own(TensorSequence):
        pass

    back = saved(path, Own(tensors("int8", [3, 2])))
    assert type(back) is TensorSequence
    assert_holds(back, tensors("int8", [3, 2]))


# --- where the values lie ---


@pytest.mark.mostly_slow(19)
@needs_proc
@pytest.mark.parametrize("shapes", [shapes for shapes in SHAPES.values() if len(shapes) > 1], ids=str)
@pytest.mark.parametrize("name", MAPPED_NAMES)
def test_elements_lie_in_the_file(path, name, shapes):
    back = saved(path, TensorSequence(tensors(name, shapes)))
    assert all(lies_in(element, path) for element in back if element.nbytes)
    assert all(lies_in(element, path) for element in back[::-1] + back if element.nbytes)


@needs_proc
@pytest.mark.parametrize("name", ["float32", "bool", "int64"])
def test_joined_values_lie_in_the_file(path, name):
    back = saved(path, ragged([3, 0, 2, 4], name, behind=(2, 2)))
    assert lies_in(back.values(), path)
    assert address(back.values()) == address(back[0])


@needs_proc
def test_several_files_lie_each_in_its_own(tmp_path):
    paths = [tmp_path / f"{i}.arrow" for i in range(3)]
    for i, path in enumerate(paths):
        sq.save(path, ragged([2, 3], start=i))
    back = sq.load(paths)
    assert [lies_in(element, paths[i // 2]) for i, element in enumerate(back)] == [True] * 6


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


def test_loaded_sequences_are_edited_like_any(path):
    arrays = tensors("int32", [3, 2, 0, 4])
    back = saved(path, arrays)
    before = path.read_bytes()
    back.append(arrays[0])
    back.insert(1, np.int32([5]))
    back.erase(0)
    back[1:3] = arrays[::-1]
    back.reverse()
    model = [np.int32([5]), *arrays[::-1], arrays[3], arrays[0]][::-1]
    assert_holds(back, model)
    back.compact()
    assert_holds(back, model)
    assert path.read_bytes() == before
    assert_holds(sq.load(path), arrays)


def test_one_file_of_one_column(path):
    sq.save(path, ragged([1, 2]))
    with pa.memory_map(str(path)) as source:
        assert pa.ipc.open_file(source).schema.names == ["tensors"]
