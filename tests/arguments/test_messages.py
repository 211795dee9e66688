"""Errors say what is wrong, where, what was expected and which call helps.

The rows of docs/errors.md and those of `MISTAKES`, which are too rare for the page, are one table.
"""

import re

import numpy as np
import pytest
from support.pages import ROOT

import seqcore as sq

F8 = np.zeros(2)
F4 = np.zeros(2, np.float32)


def names():
    """Return what the rows use: `seq` has float32 elements of lengths 3, 2 and 4, `ints` int64 ones."""
    return {
        "np": np,
        "sq": sq,
        "F4": F4,
        "F8": F8,
        "seq": sq.TensorSequence([np.arange(n, dtype=np.float32) for n in (3, 2, 4)]),
        "ints": sq.TensorSequence([[1, 2], [3]]),
        "bools": sq.TensorSequence([np.array(True), np.array(False), np.array(True)]),
        "array": np.arange(6.0).reshape(3, 2),
        "rows": np.arange(10),
        "mask": np.ones((2, 3), bool),
    }


# The mistake, the exception, and the words that its message must have, in any order.
MISTAKES = [
    ("sq.Columns(np.zeros(2, [('x', 'f4')]))", TypeError, ["a structured array", "array.dtype.names"]),
    ("sq.Columns([('x', [1, 2])])", TypeError, ["a list of tuples", "dict(...)"]),
    ("seq.accumulate(np.sqrt)", TypeError, ["ufunc must be", "two arguments", "sqrt"]),
    ("seq.accumulate('max')", TypeError, ["ufunc must be", "use np.maximum"]),
    ("seq.accumulate(np.matmul)", TypeError, ["ufunc must be", "matmul"]),
    ("seq.accumulate(np.bitwise_or)", TypeError, ["bitwise_or can't", "elements of dtype float32:"]),
    ("ints.accumulate(np.bitwise_or, dtype='f4')", TypeError, ["elements of dtype int64 as float32:"]),
    ("sq.TensorSequence({1, 2})", TypeError, ["order", "set", "list"]),
    ("sq.TensorSequence(pyarrow.array([1.0, 2.0]))", TypeError, ["DoubleArray", "from_arrow(...)"]),
    # A tensor of another dtype: which one, both dtypes, astype.
    (
        "sq.TensorSequence([F8] * 777 + [F4])",
        TypeError,
        ["tensors[777]", "float32", "float64", ".astype('float64')"],
    ),
    ("sq.sequence_construct(F8, F4)", TypeError, ["tensors[1]", "float32", "float64"]),
    ("sq.sequence_map(np.add, [F8, F8, F4], 1)", TypeError, ["tensors[2]", "float32", "float64"]),
    ("seq.extend([F4, F4, F8])", TypeError, ["tensors[2]", "float32", "float64", ".astype('float32')"]),
    ("seq + [F4, F8]", TypeError, ["tensors[1]", "float32", "float64"]),
    ("seq[0:2] = [F4, F8]", TypeError, ["tensors[1]", "float32", "float64"]),
    ("seq + sq.TensorSequence([F8])", TypeError, ["the added sequence has dtype float64", "('float32')"]),
    ("sq.TensorSequence([F8, ['a']])", TypeError, ["tensors[1]", "'a'", "float64", "strings"]),
    ("sq.TensorSequence(['a', F8])", TypeError, ["tensors[1]", "float64", "string"]),
    # Python values that would need another dtype.
    ("ints.extend([[1], [2.5]])", TypeError, ["tensors[1]", "[2.5]", "float64", "int64"]),
    ("ints.to_padded(np.nan)", TypeError, ["padding_value", "nan", "float64", "int64", "seq.astype"]),
    (
        "sq.TensorSequence(dtype='int8').extend([[1], [300]])",
        OverflowError,
        ["tensors[1]", "[300]", "int8", "127"],
    ),
    ("sq.TensorSequence([1j], dtype='complex64').append(10**999)", OverflowError, ["does not fit complex64"]),
    # Ragged nested lists: which tensor, and where in it.
    (
        "sq.TensorSequence([[1, 2], [[1, 2], [3]]])",
        ValueError,
        ["tensors[1]", "ragged", "[1] has length 1", "length 2"],
    ),
    (
        "sq.TensorSequence([[[1], [2], 3]])",
        ValueError,
        ["tensors[0]", "ragged", "[2] is not a list", "length 1"],
    ),
    (
        "ints.append([[[1], [2]], [[3], [4, 5]]])",
        ValueError,
        ["the tensor", "[1][1] has length 2", "[0][0] has length 1"],
    ),
    ("ints.append([[1, 2], np.arange(3)])", ValueError, ["ragged", "[1] has length 3", "[0] has length 2"]),
    ("sq.TensorSequence([['a'], [['b'], 'c']])", ValueError, ["tensors[1]", "ragged", "[1] is not a list"]),
    # Values that are not tensors.
    ("sq.TensorSequence([F8, None])", TypeError, ["tensors[1]", "None", "expected an array"]),
    ("sq.TensorSequence([np.array(['a', b'b'], object)])", TypeError, ["tensors[0]", "bytes"]),
    ("sq.TensorSequence([{'a': F8}])", TypeError, ["tensors[0]", "dict", "expected an array"]),
    ("sq.TensorSequence(np.array({'a': F8}, object))", TypeError, ["shape ()", "array.item()"]),
    ("sq.TensorSequence([np.array({'a': F8}, object)])", TypeError, ["is an object array", "array.item()"]),
    ("sq.TensorSequence([np.array([b'ab'])])", TypeError, ["bytes16", "array.astype(str)"]),
    ("sq.TensorSequence([np.zeros(2, np.longdouble)])", TypeError, ["array.astype('float64')"]),
    ("sq.TensorSequence([np.array([[1], [2, 3]], object)])", TypeError, ["from_arrow(series)"]),
    ("sq.TensorSequence([F8, np.ma.array([1.0])])", TypeError, ["tensors[1]", "masked", ".filled()"]),
    (
        "sq.TensorSequence([F8, np.array(['2020'], 'M8[D]')])",
        TypeError,
        ["tensors[1]", "datetime64", "float32", "array.view('int64')"],
    ),
    ("seq.append(seq)", TypeError, ["the tensor is a TensorSequence", "extend", "concat_from_sequence"]),
    ("sq.TensorSequence([seq, seq])", TypeError, ["tensors[0] is a TensorSequence", "concat_from_sequence"]),
    ("sq.split_to_sequence(seq)", TypeError, ["TensorSequence", "concat_from_sequence"]),
    # Values that are not several tensors.
    ("seq[0:2] = array", TypeError, ["ndarray", "split_to_sequence(array)"]),
    ("sq.TensorSequence('abc')", TypeError, ["'abc'", "iterable of tensors", "list"]),
    ("sq.TensorSequence(5)", TypeError, ["5 of type int", "iterable of tensors"]),
    ("sq.sequence_map(np.sum, array)", TypeError, ["TensorSequence", "(3, 2)", "split_to_sequence(array)"]),
    ("sq.sequence_length(5)", TypeError, ["5 of type int", "TensorSequence", "list"]),
    # Positions, masks and indices.
    ("seq[1.5]", TypeError, ["integer", "1.5 of type float"]),
    ("seq[np.where(np.array([True, False, True]))]", TypeError, ["tuple", "seq[mask]", "np.flatnonzero"]),
    ("seq[np.array([True, False])]", IndexError, ["mask has length 2", "sequence has length 3"]),
    ("seq[ints]", TypeError, ["TensorSequence", "1-D array", "np.array(index)"]),
    ("seq[bools[:2]]", IndexError, ["mask has length 2", "sequence has length 3"]),
    ("seq[[0, True]]", TypeError, ["integers or bools", "1 bool among 2"]),
    ("seq[[np.array(1.5)]]", TypeError, ["item 0", "float64", "integers or bools"]),
    ("seq[[0, 'a']]", TypeError, ["item 1", "'a'", "integers or bools"]),
    ("seq[[0, 2]] = [F4]", ValueError, ["expected 2 tensors", "got 1"]),
    ("seq.index([9.0])", ValueError, ["no element equals", "[9.0]"]),
    ("seq.index(seq[0], 1, 2)", ValueError, ["from position 1 to 2"]),
    # Splits, lengths and offsets.
    ("sq.split_to_sequence(rows, -1)", ValueError, ["split must be positive", "-1"]),
    ("sq.split_to_sequence(rows, 0)", ValueError, ["split must be positive", "0"]),
    ("sq.split_to_sequence(rows, [[1, 2]])", ValueError, ["split must be an integer or a 1-D", "(1, 2)"]),
    (
        "sq.TensorSequence.from_lengths(rows, [0, 4, 10])",
        ValueError,
        ["lengths[2] is 10", "offsets?", "from_offsets"],
    ),
    ("sq.TensorSequence.from_lengths(rows, [4., 6.])", TypeError, ["lengths", "integers", "[4.0, 6.0]"]),
    (
        "sq.TensorSequence.from_lengths(rows, np.array([4., 6.]))",
        TypeError,
        ["lengths", "integers", "float64"],
    ),
    (
        "sq.TensorSequence.from_offsets(rows, [6, 4])",
        ValueError,
        ["offsets[1] is 4", "lengths?", "from_lengths"],
    ),
    ("sq.TensorSequence.from_offsets(rows, [0, 12])", ValueError, ["offsets[1] is 12", "length 10"]),
    # Elements of several ranks, of which an empty list is one.
    ("sq.TensorSequence([[[1, 2]], []]).values()", ValueError, ["element 1", "np.empty((0, 2))"]),
    ("sq.TensorSequence([[], [[1, 2]]]).take_rows(-1, empty=0)", ValueError, ["np.empty((0, 2))"]),
    ("sq.TensorSequence([[[1, 2]], []]).reduce(np.sum)", ValueError, ["element 1", "np.empty((0, 2))"]),
    ("pyarrow.array(sq.TensorSequence([[], [[1, 2]]]))", ValueError, ["element 1", "np.empty((0, 2))"]),
    # Padding.
    ("sq.TensorSequence.from_padded(array)", TypeError, ["needs lengths", "split_to_sequence"]),
    ("sq.TensorSequence.from_padded(array, mask)", ValueError, ["mask has shape", "as the batch"]),
    ("sq.TensorSequence.from_padded(array, 2 * mask.T)", ValueError, ["mask[0, 0] is 2", "0 or 1"]),
    ("seq.to_padded((2, 5))", TypeError, ["padding_value", "scalar", "shape="]),
    ("seq.to_padded(shape=(2, 3))", ValueError, ["shape", "2", "rank 1"]),
    # Arrays.
    ("np.array(seq)", ValueError, ["element 1", "(2,)", "(3,)", "seq.to_padded()"]),
    ("np.asarray(ints, copy=False)", ValueError, ["copy", "seq.values()"]),
    ("seq + F4", TypeError, ["ndarray", "(2,)", "seq.append", "sequence_map(np.add"]),
    ("np.shape(ints)", TypeError, ["np.shape", "seq.shapes"]),
    ("seq.astype(str)", TypeError, ["float32", "string", "sequence_map"]),
    ("ints.reduce(np.logical_or, empty=0)", TypeError, ["empty is 0", "bool: pass a bool"]),
    ("sq.Columns({'a': pyarrow.array([[1], [2, 3]])})", TypeError, ["column 'a'", "from_arrow(x)"]),
    # Maps.
    ("sq.sequence_map(np.sort, [[1.0]], output_dtypes=('f8', 'f8'))", TypeError, ["2", "output_dtypes says"]),
    ("sq.sequence_map(lambda a: None if len(a) > 3 else a, seq)", TypeError, ["element 2", "None", "return"]),
    ("sq.map_batches(lambda a: None, seq)", TypeError, ["elements 0 to 2", "None", "return"]),
    ("sq.map_batches(np.cumsum, seq, axis=0)", TypeError, ["'axis'", "functools.partial", "lambda"]),
    (
        "sq.sequence_map(np.sin, seq, max_workers=-1)",
        ValueError,
        ["max_workers is -1", "max_workers=None", "CPU"],
    ),
    ("sq.sequence_map(array, seq)", TypeError, ["body", "callable", "ndarray"]),
]

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8").partition("\n## What you'd type\n")[0]
ON_PAGE = re.findall(r"^\| `([^`]+)` \| (.+?) \| .+ \|$", PAGE.partition("\n## Dtypes")[2], re.M)
ANY = TypeError, ValueError, IndexError, KeyError, OverflowError, AttributeError
TABLE = [(mistake, ANY, [words]) for mistake, words in ON_PAGE] + MISTAKES


def test_the_page_is_read():
    assert len(ON_PAGE) > 45


@pytest.mark.parametrize(("mistake", "error", "words"), TABLE, ids=[row[0] for row in TABLE])
def test_mistake(mistake, error, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = names()
    for package in ("awkward", "pandas", "pyarrow", "torch"):
        if f"{package}." in mistake:
            given[package] = pytest.importorskip(package)
    before = given["seq"].copy(), given["ints"].copy()
    with pytest.raises(error) as caught:
        exec(mistake, given)
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert "\n" not in message
    assert (given["seq"], given["ints"]) == before


class TestColumnsOfArrays:
    """A Series and a 1-D object array of arrays count as lists of their items."""

    @staticmethod
    def column(*items):
        column = np.empty(len(items), object)
        column[:] = items
        return column

    def test_an_object_array_of_arrays(self):
        column = self.column(np.arange(3.0), np.arange(1.0))
        assert sq.TensorSequence(column) == sq.TensorSequence([np.arange(3.0), np.arange(1.0)])
        assert np.shares_memory(sq.TensorSequence(column)[0], column[0])

    def test_an_object_array_of_lists(self):
        assert sq.TensorSequence(self.column([1, 2], [3])).tolist() == [[1, 2], [3]]

    def test_an_empty_object_array(self):
        assert len(sq.TensorSequence(np.empty(0, object), dtype="int8")) == 0
        with pytest.raises(ValueError, match="dtype"):
            sq.TensorSequence(np.empty(0, object))

    def test_extend_and_slices_take_them_too(self):
        seq = sq.TensorSequence([[1.0]])
        seq.extend(self.column(np.arange(2.0), np.arange(1.0)))
        seq[:1] = self.column(np.arange(3.0), np.arange(1.0))
        assert seq.lengths().tolist() == [3, 1, 2, 1]

    def test_the_item_at_fault_is_named(self):
        with pytest.raises(TypeError, match=r"tensors\[1\] has dtype float32, expected float64"):
            sq.TensorSequence(self.column(np.arange(3.0), np.arange(1, dtype=np.float32)))
        with pytest.raises(TypeError, match=r"tensors\[0\] is None"):
            sq.TensorSequence(self.column(None, np.arange(1.0)))

    @pytest.mark.parametrize("items", [("a", "b"), (1, 2), (1.5, np.arange(2))])
    def test_an_object_array_of_scalars_is_one_array(self, items):
        with pytest.raises(TypeError, match="iterable of tensors, got an ndarray of dtype object"):
            sq.TensorSequence(self.column(*items))

    def test_an_object_array_as_one_element(self):
        with pytest.raises(
            TypeError, match=r"tensors\[0\] is an object array.*TensorSequence\(list\(array\)\)"
        ):
            sq.TensorSequence([self.column(np.arange(3.0), np.arange(1.0))])

    def test_a_series(self):
        pd = pytest.importorskip("pandas")
        column = pd.Series([np.arange(3.0), np.arange(1.0)], index=["b", "a"])
        assert sq.TensorSequence(column) == sq.TensorSequence([np.arange(3.0), np.arange(1.0)])
        assert sq.TensorSequence(column[column.map(len) > 9], dtype="float64").shapes == []

    def test_a_series_with_missing_values(self):
        pd = pytest.importorskip("pandas")
        for missing in (None, np.nan, pd.NA):
            with pytest.raises(TypeError, match=r"tensors\[1\] is missing in this Series: fill or drop"):
                sq.TensorSequence(pd.Series([np.arange(3.0), missing]))

    def test_other_columns_and_tables(self):
        pd = pytest.importorskip("pandas")
        with pytest.raises(TypeError, match=r"got one Series.*from_arrow"):
            sq.TensorSequence(pd.Series([1.0, 2.0]))
        with pytest.raises(TypeError, match="DataFrame, which is a table: pass a column"):
            sq.TensorSequence(pd.DataFrame({"a": [1.0]}))


class TestArrayOfASequence:
    def test_of_rank_0_and_of_none(self):
        assert np.asarray(sq.TensorSequence([1.0, 2.0])).tolist() == [1.0, 2.0]
        empty = np.asarray(sq.TensorSequence(dtype="int8"))
        assert (empty.shape, empty.dtype) == ((0,), np.int8)

    def test_another_dtype(self):
        result = np.array(sq.TensorSequence([[1, 2], [3, 4]]), dtype="float32")
        assert (result.dtype, result.tolist()) == (np.float32, [[1, 2], [3, 4]])

    def test_objects(self):
        ragged = np.array(sq.TensorSequence([[1, 2], [3]]), dtype=object)
        assert [item.tolist() for item in ragged] == [[1, 2], [3]]
        assert np.array(sq.TensorSequence([[1, 2], [3, 4]]), dtype=object).shape == (2, 2)

    def test_a_subclass_that_was_not_initialized(self):
        with pytest.raises(TypeError, match="not initialized"):
            np.array(sq.TensorSequence.__new__(sq.TensorSequence))


MODEL = """<ir_version: 8, opset_import: ["": 17]>
count (seq(float[N]) parts, float[2] x) => (int64 n, float[2] y) {
    n = SequenceLength (parts)
    y = Neg (x)
}"""

# What is fed and asked for, the exception, and the words that its message must have.
FEEDS = [
    ({"parts": [F4]}, None, ValueError, ["lacks 'x'", "'parts', 'x'"]),
    ({"parts": [F4], "x": F4, "z": F4}, None, ValueError, ["no input 'z'", "'parts', 'x'"]),
    ({"parts": [F4], "x": F4}, ["nope"], ValueError, ["no output 'nope'", "its outputs are '24', 'y'"]),
    ({"parts": [F4], "x": F4}, "y", TypeError, ["output_names", "list", "'y'"]),
    ({"parts": [F4], "x": F8}, None, TypeError, ["'x'", "float64", "expected float32"]),
    ({"parts": [F4], "x": F4[:1]}, None, ValueError, ["'x'", "(1,)", "expected (2)"]),
    ({"parts": [F4], "x": None}, None, TypeError, ["'x'", "None", "tensor"]),
    ({"parts": [F4, F8], "x": F4}, None, TypeError, ["'parts'", "tensors[1]", "float64", "float32"]),
    ({"parts": F4, "x": F4}, None, TypeError, ["'parts'", "list of tensors", "ndarray"]),
    ([F4], None, TypeError, ["input_feed", "dict", "list"]),
]


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize(
    ("feed", "outputs", "error", "words"), FEEDS, ids=[" ".join(row[3]) for row in FEEDS]
)
def test_session(feed, outputs, error, words):
    pytest.importorskip("onnxruntime")
    from onnx import parser

    from seqcore.onnx import InferenceSession

    model = parser.parse_model(MODEL)
    model.graph.node[0].output[0] = model.graph.output[0].name = "24"  # a name as PyTorch gives them
    with pytest.raises(error) as caught:
        InferenceSession(model).run(outputs, feed)
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
