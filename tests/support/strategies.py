"""What the tests draw from: element types, shapes, and arrays of every layout NumPy has."""

import contextlib
import itertools

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from seqcore.dtypes import ELEMENT_TYPES

NUMERIC_NAMES = [name for name in ELEMENT_TYPES if name != "string"]
NUMBER_NAMES = [*NUMERIC_NAMES, "bfloat16"]
NAMES = [*NUMBER_NAMES, "string"]
OPERATOR_NAMES = [*NUMERIC_NAMES, "string"]  # which all of ONNX's sequence operators take
LAYOUTS = ["plain", "fortran", "transposed", "strided", "reversed", "offset", "broadcast", "unaligned"]
A_NAME_FOR_EACH_SIZE = ["uint8", "int16", "float32", "int64", "complex128"]


def types_and_layouts(layouts):
    """Each type, each layout, and each size of an item in each layout; strings too.

    Loops that copy items know of a type no more than that. All types in all layouts would say nothing new.
    """
    everywhere = [*A_NAME_FOR_EACH_SIZE, "string"]
    others = [name for name in NAMES if name not in everywhere]
    return [*itertools.product(everywhere, layouts), *zip(others, itertools.cycle(layouts))]


def dtype_of(name):
    """The NumPy type behind an element type's name."""
    return np.dtype({"string": object, "bfloat16": ml_dtypes.bfloat16}.get(name, name))


def filled(name, shape, start=0):
    """An array of its own memory whose values count up from start, as far as the type can tell them apart."""
    shape = (shape,) if isinstance(shape, int) else shape
    count = np.arange(start, start + np.prod(shape, dtype=int)) % 100
    if name == "string":
        return np.array([f"s{i}" for i in count], dtype=object).reshape(shape).copy()
    if name == "bool":
        count = count % 3 == 0
    return count.astype(dtype_of(name)).reshape(shape).copy()


def address(array):
    """Where an array begins in memory."""
    return array.__array_interface__["data"][0]


def laid_out(array, layout):
    """The same values in another layout of memory, as a view where the layout needs one."""
    if layout == "fortran":
        return array.copy(order="F")
    if layout == "transposed":
        return array.T.copy(order="C").T
    if layout == "strided":
        wide = np.zeros([2 * n + 1 for n in array.shape], array.dtype)
        view = wide[(*(slice(1, None, 2) for _ in array.shape), ...)]
        view[...] = array
        return view
    if layout == "reversed":
        back = (*(slice(None, None, -1) for _ in array.shape), ...)
        return array[back].copy(order="C")[back]
    if layout == "offset":
        room = np.zeros(array.size + 3, array.dtype)
        view = room[2 : 2 + array.size].reshape(array.shape)
        view[...] = array
        return view
    if layout == "broadcast":
        return np.broadcast_to(array, (2, *array.shape))
    if layout == "unaligned" and not array.dtype.hasobject:
        room = np.zeros(array.nbytes + 1, np.uint8)
        view = room[1:].view(array.dtype).reshape(array.shape)
        view[...] = array
        return view
    return array


def same(left, right):
    """Whether two arrays have the same type, shape and values."""
    return left.dtype == right.dtype and left.shape == right.shape and bool(np.all(left == right))


def assert_holds(seq, arrays):
    """The sequence is sound, and its elements are these arrays."""
    seq._check()
    assert len(seq) == len(arrays)
    assert list(seq.shapes) == [array.shape for array in arrays]
    for element, array in itertools.zip_longest(seq, arrays):
        assert type(element) is np.ndarray
        assert not element.flags.writeable
        assert same(element, array), (element, array)


@contextlib.contextmanager
def unedited(seq):
    """Check that a sequence is as it was when the block began."""
    before = seq.copy()
    yield
    seq._check()
    assert seq == before


names = st.sampled_from(NAMES)
number_names = st.sampled_from(NUMBER_NAMES)
layouts = st.sampled_from(LAYOUTS)
shapes = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@st.composite
def arrays(draw, names=names, shapes=shapes, layouts=layouts):
    """An array of some element type, shape and layout; its values count up from a drawn number."""
    array = filled(draw(names), draw(shapes), start=draw(st.integers(0, 99)))
    return laid_out(array, draw(layouts))


@st.composite
def array_lists(draw, names=names, max_size=6):
    """Arrays of one element type."""
    name = draw(names)
    return draw(st.lists(arrays(st.just(name)), min_size=1, max_size=max_size))


def slices(length):
    """Slices within and beyond a sequence of this length, with steps of either sign."""
    bound = st.none() | st.integers(-length - 2, length + 2)
    step = st.none() | st.integers(-3, 3).filter(bool)
    return st.builds(slice, bound, bound, step)
