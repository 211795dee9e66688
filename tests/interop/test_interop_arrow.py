"""Elements go to Arrow, and its arrays into sequences."""

import gc
import pickle

import numpy as np
import pytest
from support.strategies import NUMERIC_NAMES, address, assert_holds, filled, laid_out, same
from test_interop import READ_ONLY_DLPACK, refused

from seqcore import TensorSequence, split_to_sequence

pa = pytest.importorskip("pyarrow")

ARROW_NAMES = [name for name in NUMERIC_NAMES if "complex" not in name]
SHARED_NAMES = [name for name in ARROW_NAMES if name != "bool"]  # Arrow has eight bools in a byte


# --- elements to Arrow ---


@pytest.mark.parametrize("name", SHARED_NAMES)
def test_rows_become_arrays_that_share_memory(name):
    source = filled(name, (3, 4))
    rows = split_to_sequence(source, keepdims=0)
    made = pa.array(rows[1])
    assert made.buffers()[1].address == address(rows[1])
    assert not made.buffers()[1].is_mutable
    rows.clear()
    expected = source[1].copy()
    del source
    gc.collect()
    assert same(np.asarray(made), expected)


@pytest.mark.parametrize(
    ("name", "layout"), [("bool", "plain"), ("int32", "strided"), ("float32", "reversed")]
)
def test_other_rows_are_copied(name, layout):
    source = laid_out(filled(name, 5), layout)
    element = TensorSequence([source])[0]
    made = pa.array(element)
    assert made.buffers()[1].address != address(element)
    assert same(np.asarray(made), source)


@pytest.mark.parametrize("layout", ["plain", "transposed", "strided", "broadcast"])
@pytest.mark.parametrize("name", SHARED_NAMES)
def test_elements_become_tensors_that_share_memory(name, layout):
    source = laid_out(filled(name, (2, 3)), layout)
    made = pa.Tensor.from_numpy(TensorSequence([source])[0])
    assert not made.is_mutable
    assert address(made.to_numpy()) == address(source)
    assert not made.to_numpy().flags.writeable
    assert same(made.to_numpy(), source)


@pytest.mark.parametrize("name", ["int8", "complex64", "bfloat16"])
def test_elements_become_buffers_that_share_memory(name):
    source = filled(name, (2, 3))
    made = pa.py_buffer(TensorSequence([source])[0])
    assert made.address == address(source)
    assert made.size == source.nbytes
    assert not made.is_mutable
    assert made.to_pybytes() == source.tobytes()


@pytest.mark.parametrize(
    ("name", "shape", "step"), [("complex64", 3, 1), ("bfloat16", 3, 1), ("int8", (2, 2), 1), ("int8", (), 1)]
)
def test_what_arrow_has_no_array_for_is_its_error(name, shape, step):
    with pytest.raises(pa.ArrowException):
        pa.array(TensorSequence([filled(name, shape)])[0])


# --- its arrays into sequences ---


@pytest.mark.parametrize("name", SHARED_NAMES)
def test_arrays_are_taken_by_reference(name):
    source = filled(name, 6)
    for made in (pa.array(source), pa.array(source)[2:5], pa.array(source)[:0]):
        expected = np.array(made.to_pylist(), source.dtype)
        seq = TensorSequence([made])
        seq.append(made)
        assert_holds(seq, [expected, expected])
        assert np.shares_memory(seq[0], source) == bool(len(made))
        assert made in seq
    made = pa.concat_arrays([pa.array(source), pa.array(source)])[:6]  # in memory of Arrow's own
    pieces = split_to_sequence(made, [2, 4])
    del made
    gc.collect()
    assert_holds(pieces, [source[:2], source[2:]])
    assert_holds(pickle.loads(pickle.dumps(pieces)), [source[:2], source[2:]])


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (pa.array([True, False]), np.array([True, False])),
        (pa.array(["a", "é"]), np.array(["a", "é"], object)),
        (pa.array(["a"], pa.large_string()), np.array(["a"], object)),
        (pa.array([], pa.string()), np.array([], object)),
        (pa.array(["a", "b", "a"]).dictionary_encode(), np.array(["a", "b", "a"], object)),
        (pa.array([2, 1, 2]).dictionary_encode(), np.array([2, 1, 2])),
        (pa.chunked_array([[1, 2], [3]]), np.array([1, 2, 3])),
        (pa.chunked_array([], pa.float32()), np.array([], np.float32)),
        (pa.array([1.0, float("nan")])[:1], np.array([1.0])),
        (pa.array([1, None, 3])[2:], np.array([3])),
        (pa.py_buffer(b"ab"), np.array([97, 98], np.int8)),
    ],
)
def test_other_arrays_go_in(made, expected):
    seq = TensorSequence([made], dtype=expected.dtype)
    seq.append(made)
    assert_holds(seq, [expected, expected])


@pytest.mark.parametrize("layout", ["plain", "transposed", "strided"])
@pytest.mark.parametrize("name", SHARED_NAMES)
def test_tensors_are_taken_by_reference(name, layout):
    source = laid_out(filled(name, (2, 3)), layout)
    seq = TensorSequence([pa.Tensor.from_numpy(source)])
    assert np.shares_memory(seq[0], source)
    gc.collect()
    assert_holds(seq, [source])


NULLS = {
    "int": pa.array([1, None]),
    "float": pa.array([1.0, None]),
    "bool": pa.array([True, None]),
    "string": pa.array(["a", None]),
    "null": pa.nulls(2),
    "slice": pa.array([1, 2, None])[1:],
    "chunks": pa.chunked_array([[1], [2, None]]),
    "dictionary": pa.array([1, None]).dictionary_encode(),
    "in the dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([1, None])),
    "in a chunk's dictionary": pa.chunked_array(
        [pa.DictionaryArray.from_arrays([0, 1], pa.array([1, None]))]
    ),
    "runs": pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([5, None])),
}


@pytest.mark.parametrize("made", NULLS.values(), ids=NULLS)
def test_arrays_with_nulls_are_type_errors(made):
    refused(made, TypeError, "with nulls.*fill or drop")
    refused([made], TypeError, "with nulls")


OTHERS = {
    "bytes": pa.array([b"a"]),
    "timestamp": pa.array([1], pa.timestamp("s")),
    "date": pa.array([1], pa.date32()),
    "duration": pa.array([1], pa.duration("s")),
    "time": pa.array([1], pa.time32("s")),
    "decimal": pa.array([1], pa.decimal128(5)),
    "struct": pa.array([{"a": 1}]),
    "list": pa.array([[1, 2], [3]]),
    "list of one length": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
    "tensors": pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 2, 3))),
    "table": pa.table({"a": [1, 2], "b": [1.5, 2.5]}),
    "batch": pa.record_batch({"a": [1, 2]}),
    "scalar": pa.scalar(1),
    "no scalar": pa.scalar(None),
    "type": pa.int64(),
}


@pytest.mark.parametrize("made", OTHERS.values(), ids=OTHERS)
def test_other_types_are_type_errors(made):
    refused(made, TypeError)


needs_scalars = pytest.mark.skipif(
    not READ_ONLY_DLPACK or not hasattr(pa.FixedShapeTensorScalar, "__dlpack__"),
    reason="Arrow's tensor scalars have no protocol, or NumPy asks for the old DLPack",
)


@needs_scalars
def test_tensor_scalars_are_taken_by_reference():
    source = filled("float32", (3, 2, 2))
    seq = TensorSequence(list(pa.FixedShapeTensorArray.from_numpy_ndarray(source)))
    assert_holds(seq, list(source))
    assert all(np.shares_memory(element, source) for element in seq)
