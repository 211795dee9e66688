"""Collate functions for PyTorch: each kind of batch, column and option, compared with the plain way."""

import pickle

import numpy as np
import pytest

import seqcore as sq

torch = pytest.importorskip("torch")
from seqcore.torch import PackCollate, PadCollate  # noqa: E402

ROWS = [[1, 2, 3], [4], [], [5, 6]]
LABELS = np.array([3, 1, 0, 2])


def columns(dtype="uint16"):
    tokens = sq.TensorSequence([np.array(row, dtype) for row in ROWS])
    boxes = sq.TensorSequence([np.ones((len(row), 2), np.float32) for row in ROWS])
    return sq.Columns({"tokens": tokens, "boxes": boxes, "label": LABELS, "at": np.ones((4, 2))})


def rows_of(batch):
    return [{name: batch[name][i] for name in batch.names} for i in range(len(batch))]


def owns(tensors, batch):
    """Whether tensors are written without a change of the batch."""
    before = pickle.dumps([batch[name].tolist() for name in batch.names])
    for tensor in tensors.values():
        if isinstance(tensor, torch.Tensor):
            assert tensor.is_contiguous()
            tensor.zero_()
    return before == pickle.dumps([batch[name].tolist() for name in batch.names])


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("form", [lambda batch: batch, rows_of], ids=["columns", "rows"])
def test_padded(form, side):
    batch = columns()
    options = {"side": side, "multiple_of": 4, "dtype": {"tokens": torch.int64}}
    collate = PadCollate({"tokens": -100}, **options)
    got = pickle.loads(pickle.dumps(collate))(form(batch))
    in_rows = ["at_mask"] if form is rows_of else []  # a row of rank 1 may be of any length
    assert [*got] == ["tokens", "tokens_mask", "boxes", "boxes_mask", "label", "at", *in_rows]
    want = [
        [-100] * (4 - len(row)) + row if side == "left" else row + [-100] * (4 - len(row)) for row in ROWS
    ]
    assert got["tokens"].dtype == torch.int64
    assert got["tokens"].tolist() == want
    assert got["tokens_mask"].dtype == torch.bool
    assert got["tokens_mask"].tolist() == [[one != -100 for one in row] for row in want]
    assert got["boxes"].shape == (4, 4, 2)
    assert got["boxes"].dtype == torch.float32
    assert not got["boxes"][~got["boxes_mask"]].any()
    assert got["label"].tolist() == LABELS.tolist()
    assert got["at"].shape == (4, 4 if in_rows else 2)
    assert owns(got, batch)


@pytest.mark.parametrize("form", [lambda batch: batch, rows_of], ids=["columns", "rows"])
@pytest.mark.parametrize("dtype", [None, "int64", torch.int64, torch.bfloat16, torch.float16])
def test_packed(form, dtype):
    batch = sq.Columns({"tokens": columns()["tokens"], "more": columns()["boxes"], "label": LABELS})
    got = pickle.loads(pickle.dumps(PackCollate(dtype=dtype)))(form(batch))
    assert [*got] == ["tokens", "more", "label", "cu_seqlens", "max_seqlen", "position_ids"]
    want = {None: torch.uint16, "int64": torch.int64}.get(dtype, dtype)
    assert got["tokens"].dtype == want
    assert got["tokens"].tolist() == [1, 2, 3, 4, 5, 6]
    assert got["more"].shape == (6, 2)
    assert got["cu_seqlens"].dtype == torch.int32
    assert got["cu_seqlens"].tolist() == [0, 3, 4, 4, 6]
    assert type(got["max_seqlen"]) is int
    assert got["max_seqlen"] == 3
    assert got["position_ids"].dtype == torch.int64
    assert got["position_ids"].tolist() == [0, 1, 2, 0, 0, 1]
    assert got["label"].dtype == torch.int64
    assert owns(got, batch)


@pytest.mark.parametrize(
    "name", ["bool", "uint8", "int8", "uint16", "int32", "uint64", "float16", "float64", "complex64"]
)
def test_types_and_orders(name):
    """Whatever is selected, in any order: none has a negative stride, or is read-only."""
    data = sq.Columns({"x": [np.array(row, name) for row in ROWS], "y": np.arange(4).astype(name)})
    for order in ([3, 1], [0, 2, 3], [2], slice(None, None, -1)):
        for collate in (PadCollate(), PackCollate()):
            got = collate(data[order])
            assert got["x"].dtype == got["y"].dtype == getattr(torch, name)
            assert got["y"].tolist() == data[order]["y"].tolist()
            assert owns(got, data)


@pytest.mark.parametrize("dtype", [None, "int32", torch.int32])
def test_strings_stay_strings(dtype):
    batch = sq.Columns({"ids": [[1, 2], [3]], "words": [["007", "8"], ["9"]]})
    assert PadCollate(dtype=dtype)(batch)["words"] == [["007", "8"], ["9"]]
    assert PackCollate(dtype=dtype)(batch)["words"] == ["007", "8", "9"]


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_complex_numbers_that_numpy_does_not_have():
    batch = PadCollate(dtype=torch.complex32)(sq.TensorSequence([np.array([1 + 2j], "complex64")]))
    assert batch["values"].tolist() == [[1 + 2j]]


def test_bfloat16():
    pytest.importorskip("ml_dtypes")
    seq = sq.TensorSequence([np.array(row, "float32") for row in ROWS]).astype("bfloat16")
    assert PadCollate()(seq)["values"].dtype == torch.bfloat16
    assert PadCollate(dtype=torch.bfloat16)(seq)["values"].tolist() == PadCollate()(seq)["values"].tolist()
    got = PackCollate(dtype="bfloat16")(columns()["tokens"])["values"]
    assert got.dtype == torch.bfloat16
    assert got.tolist() == [1, 2, 3, 4, 5, 6]


def test_batches_without_names():
    seq = columns()["tokens"]
    for batch in (seq, [*seq], [torch.tensor(row, dtype=torch.int64) for row in ROWS], ROWS):
        got = PadCollate(-1, dtype="int64")(batch)
        assert [*got] == ["values", "values_mask"]
        assert got["values"][:2].tolist() == [[1, 2, 3], [4, -1, -1]]
    assert [*PadCollate(mask=False)(seq)] == ["values"]
    assert PadCollate()([torch.tensor(1.5), torch.tensor(2.5)])["values"].tolist() == [1.5, 2.5]
    for labels in ([1, 0.5], [2**63, 1], [True, False], [np.float32(0.5)] * 2, [torch.tensor(1), 2]):
        got = PadCollate()([{"y": label} for label in labels])["y"]
        plain = sq.Columns({"y": labels})["y"]
        assert got.tolist() == plain.tolist()
        assert got.numpy().dtype == plain.dtype
    same = PadCollate()([{"a": [1, 2]}, {"a": [3, 4]}])  # rows that happen to be of one length
    assert same["a_mask"].all()


def test_strings():
    batch = sq.Columns({"tokens": [[1], [2, 3]], "name": ["a", "bc"], "words": [["x"], ["y", "z"]]})
    for collate in (PadCollate(), PackCollate()):
        for form in (batch, [batch[0], batch[1]]):
            assert collate(form)["name"] == ["a", "bc"]
    assert PadCollate()(batch)["words"] == [["x"], ["y", "z"]]
    assert PackCollate()(batch)["words"] == ["x", "y", "z"]


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.mostly_at_night(2)
def test_in_a_loader(num_workers):
    data = sq.Columns({"tokens": [[i] * (i % 5 + 1) for i in range(40)], "i": np.arange(40)})
    sampler = sq.BatchSampler(data["tokens"], max_tokens=20)
    options = {"batch_sampler": sampler, "num_workers": num_workers}
    if num_workers:
        options["multiprocessing_context"] = "spawn"
    want = list(sampler)
    for collate in (PadCollate(dtype="int64"), PackCollate(dtype="int64")):
        loader = torch.utils.data.DataLoader(data, collate_fn=collate, **options)
        assert [batch["i"].tolist() for batch in loader] == want


@pytest.mark.parametrize(
    ("make", "batch", "error", "message"),
    [
        (lambda: PadCollate(side="top"), None, ValueError, "side must be 'right' or 'left', got 'top'"),
        (lambda: PadCollate(multiple_of=0), None, ValueError, "multiple_of is 0"),
        (lambda: PadCollate(mask=1), None, TypeError, "mask must be a bool"),
        (lambda: PadCollate(dtype="time"), None, TypeError, "time"),
        (lambda: PackCollate(dtype={"a": "time"}), None, TypeError, "time"),
        (PadCollate, 3, TypeError, "must be Columns, a sequence, or a list of rows, got 3"),
        (PadCollate, [], ValueError, "the batch has no rows"),
        (
            PadCollate,
            [(torch.ones(2), 1), (torch.ones(3), 0)],
            TypeError,
            "row 0 is a tuple of 2 values: give",
        ),
        (PadCollate, [(torch.ones(2), torch.ones(2))], TypeError, "row 0 is a tuple of 2 values"),
        (PackCollate, [np.ones(2), [np.ones(2), np.ones(2)]], TypeError, "row 1 is a list of 2 values"),
        (PadCollate, [(3, 1), (4, 0)], TypeError, "row 0 is a tuple of 2 values"),
        (PadCollate, [[[1], [2, 3]], [[1], [2]]], ValueError, r"tensors\[0\] is a ragged nested list"),
        (PadCollate, [{"a": [[1], [2, 3]]}], ValueError, r"column 'a': tensors\[0\] is a ragged nested list"),
        (
            PadCollate,
            [{"a": [1], "b": [1]}, {"a": [1], "b": [0.5]}],
            TypeError,
            r"column 'b': tensors\[1\] is",
        ),
        (
            PadCollate,
            [{"a": np.ones(1)}, {"a": np.ones((1, 1))}],
            ValueError,
            "column 'a': element 1 has shape",
        ),
        (
            lambda: PadCollate(300),
            [{"a": np.ones(1, "u1")}],
            OverflowError,
            "column 'a': padding_value is 300",
        ),
        (PackCollate, [{"a": np.ones((1, 2))}, {"a": np.ones((1, 3))}], ValueError, "column 'a': element 1"),
        # Labels are what a column of Columns takes.
        (PadCollate, [{"a": None}, {"a": 1}], TypeError, "column 'a': an item of the column is None"),
        (
            PadCollate,
            [{"a": {"b": 1}}],
            TypeError,
            "column 'a': an item of the column is {'b': 1} of type dict",
        ),
        (
            PadCollate,
            [{"a": torch.tensor(2**24 + 1)}, {"a": torch.tensor(1.0)}],
            TypeError,
            "column 'a' has values of torch.int64 and of torch.float32",
        ),
        (PackCollate, [{"a": np.int8(1)}, {"a": np.int16(1)}], TypeError, "of int8 and of int16: give all"),
        (PadCollate, [sq.TensorSequence([[1]])], TypeError, "row 0 is a TensorSequence, expected one"),
        (lambda: PadCollate(dtype=torch.quint8), None, TypeError, "torch.quint8 is not supported"),
        (PadCollate, [{"a": b"x"}], TypeError, "column 'a': an item of the column is b'x' of type bytes"),
        (PadCollate, [{"a": "x"}, {"a": 1}], TypeError, "column 'a': the column mixes strings and numbers"),
        (PadCollate, [{"a": 2**70}], OverflowError, "column 'a': the column is"),
        (PadCollate, [{"a": 1}, {"b": 1}], ValueError, r"row 1 is .*, but row 0 has 'a'"),
        (PadCollate, [{"a": 1}, 3], ValueError, r"row 1 is 3, but row 0 has 'a'"),
        (PadCollate, {"a": [[1]], "a_mask": [[2]]}, ValueError, "a column 'a_mask', a name that is added"),
        (PackCollate, {"a": [[1]], "cu_seqlens": [2]}, ValueError, "a column 'cu_seqlens'"),
        (PackCollate, {"a": [[1, 2], [3]], "b": [[1], [2]]}, ValueError, "'b' has other lengths than 'a'"),
        (PackCollate, {"a": [1, 2]}, ValueError, "no sequence to pack, only 'a'"),
        (lambda: PadCollate({"x": 1}), {"a": [[1, 2], [3]]}, ValueError, "padding_value has 'x', but .* 'a'"),
        (lambda: PackCollate(dtype={"l": "int8"}), {"a": [[1]], "l": [2]}, ValueError, "dtype has 'l'"),
    ],
)
def test_refused(make, batch, error, message):
    with pytest.raises(error, match=message):
        make()(sq.Columns(batch) if isinstance(batch, dict) else batch)
