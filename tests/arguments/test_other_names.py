"""Names of other libraries: each call that a message names is run, and gives what plain Python gives."""

import copy
import inspect
import math
import operator
import pickle
import re
import statistics
from pathlib import Path

import numpy as np
import pytest

import seqcore as sq
from seqcore import BatchSampler, Columns, TensorSequence
from seqcore._arguments import other_names

ARRAYS = [np.arange(1, 1 + n * 2, dtype=np.float32).reshape(n, 2) for n in (3, 1, 2)]
CLASSES = {
    "seq": (TensorSequence, other_names.SEQUENCE),
    "columns": (Columns, other_names.COLUMNS),
    "sampler": (BatchSampler, other_names.SAMPLER),
}

# What the calls that messages name give, written without seqcore. What returns nothing changes the sequence.
PLAIN = {
    **{
        f"seq.reduce(np.{name}, axis=None)": f"[np.{name}(a) for a in arrays]"
        for name in other_names._REDUCED
    },
    **{f"sequence_map(np.{name}, seq)": f"[np.{name}(a) for a in arrays]" for name in other_names._OF_EACH},
    **{
        f"seq.astype({dtype!r})": f"[a.astype({dtype!r}) for a in arrays]"
        for dtype in other_names._CASTS.values()
    },
    "seq.accumulate(np.cumsum)": "[np.cumsum(a, 0) for a in arrays]",
    "seq.accumulate(np.cumprod)": "[np.cumprod(a, 0) for a in arrays]",
    "seq.take_rows(0)": "np.stack([a[0] for a in arrays])",
    "seq.take_rows(-1)": "np.stack([a[-1] for a in arrays])",
    "seq.windows(4)": "arrays",
    "seq.to_padded()": "padded",
    "sequence_map(function, seq)": "[function(a) for a in arrays]",
    "seq[[function(a) for a in seq]]": "[a for a in arrays if function(a)]",
    "seq[seq.lengths() > 1]": "[a for a in arrays if len(a) > 1]",
    "seq[np.argsort(seq.lengths())]": "sorted(arrays, key=len)",
    "sequence_map(np.sort, seq)": "[np.sort(a) for a in arrays]",
    "np.argsort(seq.lengths())": "np.argsort([len(a) for a in arrays])",
    "len(seq[np.random.permutation(len(seq))])": "3",
    "seq.shapes": "[a.shape for a in arrays]",
    "seq.lengths()": "[len(a) for a in arrays]",
    "seq[0].ndim": "2",
    "len(seq)": "3",
    "seq.lengths().sum()": "6",
    "seq.offsets()": "[0, 3, 4, 6]",
    "seq.values()": "np.concatenate(arrays)",
    "sequence_map(lambda a: a.reshape(-1), seq)": "[a.reshape(-1) for a in arrays]",
    "sequence_map(lambda a: a.clip(0, 1), seq)": "[a.clip(0, 1) for a in arrays]",
    "concat_from_sequence(seq, 0)": "np.concatenate(arrays)",
    "concat_from_sequence(same, 0, new_axis=1)": "np.stack(list(same))",
    "np.asarray(same)": "np.stack(list(same))",
    "torch.from_numpy(seq.to_padded())": "padded",
    "torch.tensor(seq.values())": "np.concatenate(arrays)",
    "seq.tolist()": "[a.tolist() for a in arrays]",
    "pyarrow.array(seq)": "pyarrow.array([a.tolist() for a in arrays])",
    "pandas.Series(list(seq))": "arrays",
    "list(seq)": "arrays",
    "seq.copy()": "arrays",
    "seq.compact()": "arrays",
    "seq[np.repeat(np.arange(len(seq)), 2)]": "[a for a in arrays for _ in range(2)]",
    "np.frombuffer(seq.values().tobytes(), np.float32)": "np.concatenate(arrays).ravel()",
    "seq.append(tensor)": "[*arrays, tensor]",
    "seq.erase(position)": "[arrays[0], arrays[2]]",
    "del seq[indices]": "[arrays[1]]",
    "seq[indices]": "[arrays[2], arrays[0]]",
    "seq[position]": "arrays[1]",
    "seq[:5]": "arrays",
    "seq[-5:]": "arrays",
    "np.unique(seq.values())": "sorted({x for a in arrays for x in a.ravel()})",
    "list(enumerate(seq))": "list(enumerate(arrays))",
    "save(path, seq)": "arrays",
    # Columns.
    "columns.dtypes": "{'tokens': np.dtype('float32'), 'label': np.dtype('int64')}",
    "columns[:]": "{'tokens': seq, 'label': label}",
    "columns.names": "['tokens', 'label']",
    'torch.from_numpy(columns["tokens"].to_padded())': "padded",
    'torch.tensor(columns["label"])': "label",
    "len(columns)": "3",
    "len(columns.names)": "2",
    "[columns[name] for name in columns.names]": "[seq, label]",
    "[(name, columns[name]) for name in columns.names]": "[('tokens', seq), ('label', label)]",
    "dict(columns)": "{'tokens': seq, 'label': label}",
    'columns | {"name": column}': "{'tokens': seq, 'label': label, 'name': column}",
    "columns + columns": "{'tokens': seq + seq, 'label': np.concatenate([label] * 2)}",
    'columns[["tokens", "label"]]': "{'tokens': seq, 'label': label}",
    "columns[mask]": "{'tokens': seq[mask], 'label': label[mask]}",
    'columns[np.argsort(columns["label"])]': "{'tokens': seq[[1, 2, 0]], 'label': np.sort(label)}",
    "len(columns[np.random.permutation(len(columns))])": "3",
    "columns[indices]": "{'tokens': seq[indices], 'label': label[indices]}",
    "columns[position]": "{'tokens': arrays[1], 'label': label[1]}",
    "columns[:5]": "{'tokens': seq, 'label': label}",
    "columns[-5:]": "{'tokens': seq, 'label': label}",
    'Columns({name: columns[name] for name in columns.names if name != "label"})': "{'tokens': seq}",
    'Columns({"new" if name == "label" else name: columns[name] for name in columns.names})': (
        "{'tokens': seq, 'new': label}"
    ),
    "pyarrow.table(columns).to_pandas()": "pandas.DataFrame({'tokens': lists, 'label': label})",
    "pyarrow.table(columns)": "pyarrow.table({'tokens': lists, 'label': label})",
    "list(columns)": "[{'tokens': a, 'label': x} for a, x in zip(arrays, label)]",
    # A sampler.
    'sampler.state_dict()["epoch"]': "0",
    "len(sampler)": "2",
    "sampler.set_epoch(1)": "arrays",
    "len(next(iter(sampler)))": "2",
    # The package.
    "TensorSequence([[1, 2], [3]])": "[np.array([1, 2]), np.array([3])]",
    "split_to_sequence(array, 2)": "[array[:2], array[2:]]",
    "split_to_sequence(array, keepdims=0)": "list(array)",
    'sequence_empty("float32")': "arrays[:0]",
    "TensorSequence.from_padded(padded, lengths)": "arrays",
    "from seqcore.torch import PadCollate, PackCollate": "arrays",
    "import seqcore.torch": "arrays",
    "split_to_sequence(array)": "[array[i : i + 1] for i in range(3)]",
    "TensorSequence(arrays)": "arrays",
    "TensorSequence.from_arrow(pyarrow.array(seq))": "arrays",
    "load(saved)": "arrays",
    'load(saved_columns)[["label", "tokens"]]': "{'label': label, 'tokens': seq}",
    'Columns({"tokens": seq})': "{'tokens': seq}",
    "import seqcore.onnx": "arrays",
    # Keywords.
    "np.expand_dims(seq.reduce(np.sum), 1)": "np.stack([a.sum(axis=0, keepdims=True) for a in arrays])",
    "sequence_map(lambda a: a.std(ddof=1), seq).values()": "[a.std(ddof=1) for a in arrays]",
    "seq.to_padded().swapaxes(0, 1)": "padded.swapaxes(0, 1)",
    "map_batches(function, seq)": "[function(a) for a in arrays]",
    "TensorSequence.from_lengths(values, lengths)": "arrays",
    "TensorSequence.from_offsets(values, offsets)": "arrays",
    "TensorSequence.from_padded(padded.swapaxes(0, 1).swapaxes(0, 1), lengths)": "arrays",
    "split_to_sequence(array, axis=1)": "[array[:, i : i + 1] for i in range(2)]",
    "sampler.set_epoch(epoch)": "arrays",
}
# How a message writes a call, where a test needs another value for it.
AS_WRITTEN = {
    "concat_from_sequence(same, 0, new_axis=1)": "concat_from_sequence(seq, 0, new_axis=1)",
    "np.asarray(same)": "np.asarray(seq)",
    "list(enumerate(seq))": "enumerate(seq)",
    "len(next(iter(sampler)))": "next(iter(sampler))",
    "len(seq[np.random.permutation(len(seq))])": "seq[np.random.permutation(len(seq))]",
    "len(columns[np.random.permutation(len(columns))])": "columns[np.random.permutation(len(columns))]",
    "TensorSequence.from_arrow(pyarrow.array(seq))": "TensorSequence.from_arrow(array)",
    "load(saved)": "load(path)",
    'load(saved_columns)[["label", "tokens"]]': "load(path)[names]",
    "np.frombuffer(seq.values().tobytes(), np.float32)": "seq.values().tobytes()",
    "TensorSequence.from_padded(padded.swapaxes(0, 1).swapaxes(0, 1), lengths)": (
        "TensorSequence.from_padded(batch.swapaxes(0, 1), lengths)"
    ),
}


def names_for(code, folder):
    for package in ("torch", "pyarrow", "pandas", "onnx"):
        if package in code or (package == "pyarrow" and re.search(r"\b(save|load)\(", code)):
            pytest.importorskip(package)
    seq = TensorSequence(ARRAYS)
    label = np.array([5, 1, 3])
    names = {name: getattr(sq, name) for name in sq.__all__}
    for package in ("torch", "pyarrow", "pandas"):
        if package in code:
            names[package] = pytest.importorskip(package)
    if "saved" in code:
        sq.save(folder / "saved.arrow", seq)
        sq.save(folder / "columns.arrow", Columns({"tokens": seq, "label": label}))
    return names | {
        "np": np,
        "arrays": ARRAYS,
        "lists": [array.tolist() for array in ARRAYS],
        "padded": np.stack([np.pad(a, [(0, 3 - len(a)), (0, 0)]) for a in ARRAYS]),
        "seq": seq,
        "same": sq.split_to_sequence(ARRAYS[0]),
        "array": ARRAYS[0],
        "label": label,
        "columns": Columns({"tokens": seq, "label": label}),
        "sampler": BatchSampler(seq, batch_size=2),
        "tensor": ARRAYS[1],
        "column": label + 1,
        "position": 1,
        "epoch": 2,
        "indices": [2, 0],
        "mask": np.array([True, False, True]),
        "values": np.concatenate(ARRAYS),
        "lengths": [3, 1, 2],
        "offsets": [0, 3, 4, 6],
        "function": (lambda a: a.max() > 3) if "[function(a)" in code else (lambda a: a * 2),
        "path": folder / "a.arrow",
        "saved": folder / "saved.arrow",
        "saved_columns": folder / "columns.arrow",
    }


def same(result, plain):
    if isinstance(result, Columns):
        return list(result.names) == list(plain) and all(same(result[name], plain[name]) for name in plain)
    if isinstance(plain, dict):
        return list(result) == list(plain) and all(same(result[name], plain[name]) for name in plain)
    if isinstance(plain, TensorSequence):
        return result == plain
    if isinstance(plain, list | tuple):
        return len(result) == len(plain) and all(map(same, result, plain))
    if hasattr(plain, "equals"):
        return (
            result.to_pydict() == plain.to_pydict()
            if hasattr(plain, "to_pydict")
            else str(result) == str(plain) or (plain.tolist() == result.tolist())
        )
    return bool(np.all(np.asarray(result) == np.asarray(plain)))


@pytest.mark.parametrize("code", PLAIN)
def test_each_call_that_a_message_names(code, tmp_path):
    if code == "import seqcore.onnx":
        pytest.importorskip("onnxruntime")
    names = names_for(code, tmp_path)
    wanted = eval(PLAIN[code], dict(names))
    try:
        compiled = compile(code, "message", "eval")
    except SyntaxError:
        exec(code, names)
        result = None
    else:
        result = eval(compiled, names)
    if result is None:
        result = sq.load(names["path"]) if "save" in code else names["seq"]
    assert same(result, wanted), (result, wanted)


def calls_in(remedy):
    """The calls of the table that a message names, the first of which it begins with."""
    written = {code: AS_WRITTEN.get(code, code) for code in PLAIN}
    assert any(remedy.startswith(one) for one in written.values()), remedy
    # None may be there that no test runs.
    rest = remedy
    for one in sorted(written.values(), key=len, reverse=True):
        rest = rest.replace(one, "")
    assert not re.search(r"\w\(|\w\[", rest), rest
    return [code for code, one in written.items() if one in remedy]


# --- attributes ---


@pytest.mark.parametrize("kind", CLASSES)
def test_attributes(kind):
    cls, table = CLASSES[kind]
    instance = names_for("", Path())[kind]
    for name, remedy in table.items():
        assert calls_in(remedy)
        assert not hasattr(instance, name), name
        assert getattr(instance, name, 7) == 7
        assert name not in dir(instance)
        assert name not in vars(cls)
        with pytest.raises(AttributeError) as caught:
            getattr(instance, name)
        assert str(caught.value) == f"'{cls.__name__}' object has no attribute '{name}': use {remedy}"
        assert not callable(getattr(cls, name))
        assert remedy in repr(getattr(cls, name))
    assert set(dir(instance)) >= {"__dir__", "__len__"} | {
        name for name in vars(cls) if not name.startswith("_")
    }


def test_other_attributes_are_missing_as_ever():
    for kind in CLASSES:
        with pytest.raises(AttributeError, match=r"object has no attribute 'foo'$"):
            names_for("", Path())[kind].foo  # noqa: B018


def test_the_module():
    for name, remedy in other_names.MODULE.items():
        if name not in ("onnx", "torch"):
            assert not hasattr(sq, name)
        assert calls_in(remedy)
        with pytest.raises(AttributeError) as caught:
            sq.__getattr__(name)
        assert str(caught.value) == f"module 'seqcore' has no attribute '{name}': use {remedy}"
    with pytest.raises(AttributeError, match=r"module 'seqcore' has no attribute 'foo'$"):
        sq.foo  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'concat'"):
        from seqcore import concat  # noqa: F401


class TestSubclasses:
    def test_have_the_message_and_may_have_the_name(self):
        class Clips(TensorSequence):
            shape = "mine"

            def sum(self):
                return 7

            @property
            def mean(self):
                return self.missing  # whose error must not be replaced

        clips = Clips([[1, 2], [3]])
        assert clips.sum() == 7
        assert clips.shape == "mine"
        assert {"sum", "mean", "shape"} <= set(dir(clips))
        assert "max" not in dir(clips)
        with pytest.raises(AttributeError, match="no attribute 'missing'"):
            clips.mean  # noqa: B018
        with pytest.raises(AttributeError, match=r"'Clips' object has no attribute 'max': use seq\.reduce"):
            clips.max()
        clips.max = 3
        assert clips.max == 3
        assert copy.copy(clips).max == 3
        assert copy.deepcopy(clips).max == 3

    def test_with_a_getattr_of_its_own(self):
        class Any(TensorSequence):
            def __getattr__(self, name):
                return name

        assert Any([[1]]).sum == "sum"


def test_protocols_find_what_they_found(monkeypatch):
    """Copies, pickles, NumPy and pandas ask for names such as `shape`."""
    seq = names_for("", Path())["seq"]
    columns = names_for("", Path())["columns"]
    sampler = names_for("", Path())["sampler"]
    for one in (seq, columns):
        assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert list(copy.deepcopy(sampler)) == list(pickle.loads(pickle.dumps(sampler))) == list(sampler)
    assert np.asarray(seq, dtype=object).shape == (3,)
    assert np.ndim(np.array([seq, None], dtype=object)) == 1
    pandas = pytest.importorskip("pandas")
    assert len(pandas.Series(list(seq))) == 3
    assert pandas.api.types.is_list_like(seq)


# --- keywords ---

FUNCTIONS = {
    "to_padded": lambda seq, /, *a, **k: seq.to_padded(*a, **k),
    "reduce": lambda seq, /, *a, **k: seq.reduce(*a, **k),
    "from_padded": lambda seq, /, *a, **k: TensorSequence.from_padded(seq.to_padded(), *a, **k),
    "TensorSequence": lambda seq, /, *a, **k: TensorSequence(*a, **k),
    "sequence_map": lambda seq, /, *a, **k: sq.sequence_map(np.negative, seq, *a, **k),
    "map_batches": lambda seq, /, *a, **k: sq.map_batches(np.negative, seq, *a, **k),
    "BatchSampler": lambda seq, /, *a, **k: BatchSampler(seq, *a, **k),
    "pack": lambda seq, /, *a, **k: sq.pack(*a, **k),
    "load": lambda seq, /, *a, **k: sq.load(*a, **k),
}
SIGNATURES = {
    name: inspect.signature(getattr(sq, name, None) or getattr(TensorSequence, name)) for name in FUNCTIONS
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_keywords(function):
    table = other_names.KEYWORDS[function]
    parameters = SIGNATURES[function].parameters
    for name, remedy in table.items():
        assert name not in parameters
        if re.match(r"\w+=", remedy):
            assert remedy.partition("=")[0] in parameters
        else:
            calls_in(remedy)
        with pytest.raises(TypeError) as caught:
            FUNCTIONS[function](TensorSequence(ARRAYS), **{name: 1})
        assert str(caught.value) == (
            f"{function}() got an unexpected keyword argument {name!r}: use {remedy}"
        )
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
        FUNCTIONS[function](TensorSequence(ARRAYS), foo=1)


def test_every_function_with_a_table_is_here():
    assert other_names.KEYWORDS.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize("function", [*other_names._ONLY_BY_NAME, "BatchSampler"])
def test_too_many_arguments(function):
    parameters = SIGNATURES[function].parameters.values()
    only_by_name = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    if function in other_names._AS_IN_PYTORCH:
        assert set(other_names._AS_IN_PYTORCH[function]) < set(only_by_name)
        only_by_name = list(other_names._AS_IN_PYTORCH[function])
    if function != "BatchSampler":
        assert list(other_names._ONLY_BY_NAME[function]) == only_by_name
    most = sum(one.kind is one.POSITIONAL_OR_KEYWORD and one.name != "self" for one in parameters)
    given = [[3, 1, 2]] * (most - (function in ("from_padded", "BatchSampler"))) + ["first", 2][
        : len(only_by_name)
    ]
    words = ", ".join(f"{name}={value!r}" for name, value in zip(only_by_name, ("first", 2), strict=False))
    with pytest.raises(TypeError, match=rf"{function}\(\) takes {most} positional.*: use {words}$"):
        FUNCTIONS[function](TensorSequence(ARRAYS), *given)
    with pytest.raises(TypeError, match="positional"):
        FUNCTIONS[function](TensorSequence(ARRAYS), *given, *[1] * 9)


def test_errors_from_inside_are_left_alone():
    def body(array):
        raise TypeError("body() got an unexpected keyword argument 'n_jobs'")

    with pytest.raises(TypeError, match=r"^body\(\) got an unexpected keyword argument 'n_jobs'(?!:)"):
        sq.sequence_map(body, TensorSequence(ARRAYS))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        sq.sequence_map(np.negative)
    for given, words in (((32,), "batch_size=32"), ((32, True), "batch_size=32, drop_last=True")):
        with pytest.raises(TypeError, match=rf"given: use {words}$"):  # in PyTorch's order
            BatchSampler([1], *given)
    with pytest.raises(TypeError, match="multiple values for argument 'lengths'"):
        BatchSampler([1], lengths=[1])
    with pytest.raises(
        TypeError, match=r"lengths must be a sequence or integers, got Columns: pass columns\['x'\]"
    ):
        BatchSampler(Columns({"label": [1, 2], "x": [[1], [2, 3]]}), batch_size=1)
    assert len(BatchSampler(Columns({"x": [[1], [2, 3]]})["x"], batch_size=1)) == 2


# --- reductions ---

HOWS = {
    "max": (max, np.max),
    "min": (min, np.min),
    "sum": (sum, np.sum),
    "any": (any, np.any),
    "all": (all, np.all),
    "math.prod": (math.prod, np.prod),
    "statistics.mean": (statistics.mean, np.mean),
    "statistics.pstdev": (statistics.pstdev, np.std),
    "operator.add": (operator.add, np.add),
    "operator.mul": (operator.mul, np.multiply),
    "'mean'": ("mean", np.mean),
    "np.average": (np.average, np.mean),
}


@pytest.mark.parametrize("name", HOWS)
def test_functions_of_python(name):
    given, meant = HOWS[name]
    seq = TensorSequence([[1, 2, 3], [4], [2, 7]])
    with pytest.raises(TypeError, match=rf"how must be .*, got .*: use np\.{meant.__name__}$"):
        seq.reduce(given)
    plain = {"add": sum, "multiply": math.prod}.get(meant.__name__, given)
    plain = {"mean": statistics.mean}.get(plain, plain) if isinstance(plain, str) else plain
    wanted = [plain(element.tolist()) for element in seq]
    np.testing.assert_allclose(seq.reduce(meant), wanted)


def test_functions_that_are_no_reductions():
    seq = TensorSequence([[1.0, 2.0, 5.0], [4.0]])
    with pytest.raises(TypeError, match=r"use seq\.lengths\(\)$"):
        seq.reduce(len)
    with pytest.raises(TypeError, match=r"use sequence_map\(np\.median, seq\)\.values\(\)$"):
        seq.reduce(np.median)
    assert sq.sequence_map(np.median, seq).values().tolist() == [2, 4]
    with pytest.raises(TypeError, match=r"use sequence_map\(function, seq\)\.values\(\)$"):
        seq.reduce(lambda a: a[-1])
    assert sq.sequence_map(lambda a: a[-1], seq).values().tolist() == [5, 4]
    with pytest.raises(TypeError, match=r"use seq\.astype\(bool\)\.reduce\(np\.sum\)$"):
        seq.reduce(np.count_nonzero)
    assert seq.astype(bool).reduce(np.sum).tolist() == [3, 1]


def test_dtypes_and_masks_of_pytorch():
    torch = pytest.importorskip("torch")
    seq = TensorSequence([[1, 2, 5], [4]])
    for dtype, name in ((torch.float32, "float32"), (torch.int64, "int64"), (torch.bool, "bool")):
        for call in (
            lambda dtype: TensorSequence(seq.tolist(), dtype=dtype),
            lambda dtype: seq.astype(dtype),
            lambda dtype: seq.to_padded(dtype=dtype),
        ):
            with pytest.raises(TypeError, match=f"torch.{name} is PyTorch's dtype: pass '{name}'"):
                call(dtype)
        for call in (seq.lengths, seq.offsets, seq.segment_ids, seq.position_ids):
            with pytest.raises(TypeError, match=rf"an integer type, got torch\.{name}: pass '{name}'"):
                call(dtype)
        assert seq.astype(name).dtype == name
    batch, mask = seq.to_padded(return_mask=True)
    assert TensorSequence.from_padded(batch, torch.from_numpy(mask)) == seq
    assert TensorSequence.from_padded(batch, torch.from_numpy(mask).sum(axis=1)) == seq


def test_batches_of_a_sampler_one_by_one():
    """As from `DataLoader(data, sampler=BatchSampler(…))`."""
    with pytest.raises(
        TypeError, match=r"item 0 is .* of type list; DataLoader takes a BatchSampler as batch_sampler="
    ):
        TensorSequence([[1], [2]]).__getitems__([[0, 1]])


def test_functions_of_pytorch():
    torch = pytest.importorskip("torch")
    seq = TensorSequence([[1.0, 2.0, 5.0], [4.0]])
    for name in ("max", "sum", "mean", "std", "argmax", "any", "prod"):
        with pytest.raises(TypeError, match=rf"got .*: use np\.{name}$"):
            seq.reduce(getattr(torch, name))
