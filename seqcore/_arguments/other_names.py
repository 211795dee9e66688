"""Names that other libraries use, and the call that does the same here.

Tables of attributes, of keywords, and of functions for `reduce`. The tests run each call in them. Messages
name it:

::

    seq.sum()                       … has no attribute 'sum': use seq.reduce(np.sum, axis=None) …
    seq.to_padded(fill_value=0)     … got an unexpected keyword argument 'fill_value': use padding_value=
    seq.reduce(max)                 how must be …, got <built-in function max> …: use np.max
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from seqcore._arguments.shown import got, shown

_Function = TypeVar("_Function", bound=Callable[..., Any])

# -- attributes ----------------------------------------------------------------------------------------

_REDUCED = ("sum", "prod", "mean", "std", "var", "min", "max", "any", "all", "argmin", "argmax")
_OF_EACH = (
    "abs",
    "conj",
    "diff",
    "exp",
    "imag",
    "log",
    "median",
    "real",
    "round",
    "sqrt",
    "squeeze",
    "transpose",
)
_PADDED = ("densify", "pad", "pad_sequence", "to_dense", "to_padded_tensor", "to_tensor", "padded")

_CASTS = {"double": "float64", "float": "float32", "half": "float16", "int": "int32", "long": "int64"}

_STACKS = "seq.to_padded() for elements padded to one array, seq.values() for elements joined along axis 0"
_LENGTHS = "seq.lengths() for lengths along axis 0"

SEQUENCE: dict[str, str] = {
    **{name: f"seq.reduce(np.{name}, axis=None) for one result of each element" for name in _REDUCED},
    **{name: f"sequence_map(np.{name}, seq) for each element" for name in _OF_EACH},
    **{name: f"seq.accumulate(np.{name}) for each element" for name in ("cumsum", "cumprod")},
    **{name: f"seq.astype({dtype!r})" for name, dtype in _CASTS.items()},
    **dict.fromkeys(_PADDED, "seq.to_padded()"),
    **dict.fromkeys(("map", "apply"), "sequence_map(function, seq)"),
    "filter": "seq[[function(a) for a in seq]], or a mask such as seq[seq.lengths() > 1]",
    **dict.fromkeys(
        ("sort", "sort_values"),
        "seq[np.argsort(seq.lengths())] to sort by length, sequence_map(np.sort, seq) within each element",
    ),
    "argsort": "np.argsort(seq.lengths())",
    **dict.fromkeys(("shuffle", "sample"), "seq[np.random.permutation(len(seq))]"),
    "shape": f"seq.shapes for the shape of each element, {_LENGTHS}",
    **dict.fromkeys(("dim", "ndim"), "seq[0].ndim; ranks may differ"),
    **dict.fromkeys(("clone", "detach"), "seq.copy()"),
    "contiguous": "seq.compact(), which changes the sequence itself",
    "repeat": "seq[np.repeat(np.arange(len(seq)), 2)]",
    "tobytes": "seq.values().tobytes()",
    **dict.fromkeys(
        ("size", "numel"),
        f"len(seq) for the number of elements, {_LENGTHS}, seq.lengths().sum() for their sum",
    ),
    **dict.fromkeys(("len", "length", "num_elements"), f"len(seq) for the number of elements, {_LENGTHS}"),
    **dict.fromkeys(("row_lengths", "counts"), "seq.lengths()"),
    **dict.fromkeys(("row_splits", "row_offsets", "indptr"), "seq.offsets()"),
    **dict.fromkeys(("flat", "flat_values", "flatten", "ravel", "content", "explode"), "seq.values()"),
    **dict.fromkeys(("reshape", "view"), "sequence_map(lambda a: a.reshape(-1), seq) for each element"),
    **dict.fromkeys(
        ("T", "mT", "permute", "swapaxes", "t"), "sequence_map(np.transpose, seq) for each element"
    ),
    "clip": "sequence_map(lambda a: a.clip(0, 1), seq) for each element",
    **dict.fromkeys(("cat", "concat", "concatenate", "join"), "concat_from_sequence(seq, 0)"),
    "stack": "concat_from_sequence(seq, 0, new_axis=1), or seq.to_padded() for elements of different shapes",
    **dict.fromkeys(
        ("to_numpy", "numpy", "array", "asarray"), f"np.asarray(seq) for elements of one shape, {_STACKS}"
    ),
    **dict.fromkeys(
        ("to_torch", "torch", "to", "cuda", "cpu", "device", "pin_memory", "requires_grad"),
        "torch.from_numpy(seq.to_padded()), or torch.tensor(seq.values()) for elements joined along axis 0",
    ),
    **dict.fromkeys(("item", "to_list", "to_pylist"), "seq.tolist()"),
    "to_arrow": "pyarrow.array(seq)",
    "to_pandas": "pandas.Series(list(seq))",
    "unbind": "list(seq)",
    **dict.fromkeys(("add", "push", "push_back"), "seq.append(tensor)"),
    **dict.fromkeys(("delete", "drop"), "seq.erase(position), or del seq[indices]"),
    **dict.fromkeys(("take", "select", "index_select"), "seq[indices]"),
    **dict.fromkeys(("first", "last"), "seq.take_rows(0) or seq.take_rows(-1)"),
    **dict.fromkeys(("chunk", "split", "unfold", "sliding_window_view"), "seq.windows(4)"),
    **dict.fromkeys(("loc", "iloc", "at"), "seq[position]"),
    "head": "seq[:5]",
    "tail": "seq[-5:]",
    "unique": "np.unique(seq.values()) for the values",
    "items": "enumerate(seq)",
    **dict.fromkeys(("save", "dump", "to_file", "tofile"), "save(path, seq)"),
}

COLUMNS: dict[str, str] = {
    **dict.fromkeys(("columns", "column_names", "features"), "columns.names"),
    **dict.fromkeys(
        ("shape", "num_rows", "size"), "len(columns) for the number of rows, columns.names for the columns"
    ),
    "num_columns": "len(columns.names)",
    "values": "[columns[name] for name in columns.names]",
    "to_dict": "dict(columns)",
    **dict.fromkeys(
        ("map", "apply", "assign", "add_column", "insert", "join", "merge", "update"),
        'columns | {"name": column}',
    ),
    "copy": "columns[:]",
    "dtype": "columns.dtypes",
    **dict.fromkeys(("concat", "concatenate", "append", "extend"), "columns + columns"),
    **dict.fromkeys(("select_columns", "get_columns"), 'columns[["tokens", "label"]]'),
    **dict.fromkeys(("filter", "query"), "columns[mask], one bool for each row"),
    **dict.fromkeys(("sort", "sort_values"), 'columns[np.argsort(columns["label"])]'),
    **dict.fromkeys(("shuffle", "sample"), "columns[np.random.permutation(len(columns))]"),
    **dict.fromkeys(("take", "select"), "columns[indices]"),
    **dict.fromkeys(("loc", "iloc", "at", "row"), "columns[position]"),
    "head": "columns[:5]",
    "tail": "columns[-5:]",
    **dict.fromkeys(
        ("drop", "pop", "remove_columns"),
        'Columns({name: columns[name] for name in columns.names if name != "label"})',
    ),
    **dict.fromkeys(
        ("rename", "rename_column"),
        'Columns({"new" if name == "label" else name: columns[name] for name in columns.names})',
    ),
    **dict.fromkeys(("to_arrow", "to_table"), "pyarrow.table(columns)"),
    "to_pandas": "pyarrow.table(columns).to_pandas()",
    **dict.fromkeys(("iterrows", "itertuples", "to_list"), "list(columns)"),
    **dict.fromkeys(
        ("collate", "set_format", "to", "to_torch", "with_format"),
        'torch.from_numpy(columns["tokens"].to_padded()) for a sequence, torch.tensor(columns["label"]) for '
        "an array",
    ),
}

SAMPLER: dict[str, str] = {
    "epoch": 'sampler.state_dict()["epoch"]',
    "num_batches": "len(sampler)",
    "shuffle": "sampler.set_epoch(1), which changes the order",
    "next": "next(iter(sampler))",
}

MODULE: dict[str, str] = {
    **dict.fromkeys(
        (
            *("array", "asarray", "from_list", "from_iter", "ragged", "constant"),
            *("ListArray", "RaggedTensor", "nested_tensor"),
        ),
        "TensorSequence([[1, 2], [3]])",
    ),
    **dict.fromkeys(
        ("concat", "concatenate", "cat", "hstack", "join", "vstack"), "concat_from_sequence(seq, 0)"
    ),
    "stack": "concat_from_sequence(seq, 0, new_axis=1)",
    **dict.fromkeys(("split", "array_split"), "split_to_sequence(array, 2)"),
    **dict.fromkeys(("unbind", "unstack"), "split_to_sequence(array, keepdims=0)"),
    "from_numpy": "split_to_sequence(array) for rows, TensorSequence(arrays) for a list of arrays",
    "from_arrow": "TensorSequence.from_arrow(array)",
    "from_lengths": "TensorSequence.from_lengths(values, lengths)",
    "from_offsets": "TensorSequence.from_offsets(values, offsets)",
    "from_padded": "TensorSequence.from_padded(padded, lengths)",
    **dict.fromkeys(("pad", "pad_sequence", "to_padded"), "seq.to_padded()"),
    **dict.fromkeys(("pack_padded_sequence", "pack_sequence"), "seq.values() and seq.offsets()"),
    **dict.fromkeys(("empty", "zeros"), 'sequence_empty("float32")'),
    "windows": "seq.windows(4)",
    "map": "sequence_map(function, seq)",
    **dict.fromkeys(("read", "open"), "load(path)"),
    "write": "save(path, seq)",
    **dict.fromkeys(("Dataset", "DataFrame", "Table"), 'Columns({"tokens": seq})'),
    "Sequence": "TensorSequence(arrays)",
    "onnx": "import seqcore.onnx first",
    "torch": "import seqcore.torch first",
    **dict.fromkeys(
        ("DataLoader", "PackCollate", "PadCollate", "collate", "default_collate"),
        "from seqcore.torch import PadCollate, PackCollate, for PyTorch's DataLoader",
    ),
}


class OtherName:
    """A name that instances of a class don't have; the AttributeError says what to write.

    It is a descriptor, and not found by a `__getattr__`: with one every call of a method takes several times
    as long, and an AttributeError in a property of a subclass is lost.
    """

    __slots__ = ("name", "remedy")

    def __init__(self, name: str, remedy: str) -> None:
        self.name, self.remedy = name, remedy

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self  # so that whoever goes through `dir(cls)` finds something
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}: use {self.remedy}")

    def __repr__(self) -> str:
        return f"<no attribute: use {self.remedy}>"


def other_names(table):
    """Return the descriptors of a table, a dict by name."""
    return {name: OtherName(name, remedy) for name, remedy in table.items()}


def without_other_names(instance, names):
    """Return the names of an instance for `dir`."""
    kind = type(instance)
    return [name for name in names if not isinstance(getattr(kind, name, None), OtherName)]


class _WithOtherNames:
    """The base of a Python class that has such names."""

    __slots__ = ()

    def __dir__(self):
        return without_other_names(self, object.__dir__(self))


class NamesOfColumns(_WithOtherNames):
    """The names that Columns don't have."""

    __slots__ = ()


class NamesOfSamplers(_WithOtherNames):
    """The names that a BatchSampler doesn't have."""

    __slots__ = ()


for _class, _table in ((NamesOfColumns, COLUMNS), (NamesOfSamplers, SAMPLER)):
    for _name, _descriptor in other_names(_table).items():
        setattr(_class, _name, _descriptor)


def no_attribute_of_module(name):
    """Return the AttributeError for a name that the package doesn't have."""
    remedy = f": use {MODULE[name]}" if name in MODULE else ""
    return AttributeError(f"module 'seqcore' has no attribute {name!r}{remedy}")


# -- keywords ------------------------------------------------------------------------------------------

_WORKERS = dict.fromkeys(
    (
        *(
            "n_jobs",
            "num_workers",
            "n_workers",
            "workers",
            "num_proc",
            "n_proc",
            "processes",
            "num_processes",
        ),
        *("threads", "n_threads", "num_threads", "nthreads", "parallel", "concurrency"),
    ),
    "max_workers=",
)
_TYPES = dict.fromkeys(
    ("dtype", "dtypes", "output_dtype", "otypes", "meta", "return_dtype"), "output_dtypes="
)
_BARS = dict.fromkeys(("tqdm", "verbose", "show_progress", "progress_bar", "desc"), "progress=True")
_POOLS = dict.fromkeys(("pool", "client", "backend"), "executor=")
_SIDES = dict.fromkeys(("padding_side", "pad_side", "where"), "side=")

# By function, then by keyword: what to write, or a whole sentence after a colon of its own.
KEYWORDS: dict[str, dict[str, str]] = {
    "to_padded": {
        **dict.fromkeys(
            (
                "fill_value",
                "value",
                "pad_value",
                "constant_values",
                "default_value",
                "fill",
                "padding",
                "pad_token_id",
            ),
            "padding_value=",
        ),
        **dict.fromkeys(
            (
                "length",
                "max_length",
                "maxlen",
                "max_len",
                "total_length",
                "output_size",
                "size",
                "width",
                "L",
            ),
            "shape=",
        ),
        **_SIDES,
        **dict.fromkeys(("truncation", "truncating", "clip"), "truncate=True"),
        **dict.fromkeys(("mask", "return_attention_mask", "attention_mask"), "return_mask=True"),
        "pad_to_multiple_of": "multiple_of=",
        "return_tensors": "torch.from_numpy(seq.to_padded())",
        "batch_first": "seq.to_padded().swapaxes(0, 1) for the elements along axis 1",
    },
    "reduce": {
        **dict.fromkeys(("func", "function", "ufunc", "op", "operation", "reduction"), "how="),
        "dim": "axis=",
        **dict.fromkeys(("default", "default_value", "fill_value", "fill", "mask_identity"), "empty="),
        **dict.fromkeys(("ddof", "correction"), "sequence_map(lambda a: a.std(ddof=1), seq).values()"),
        "keepdims": "np.expand_dims(seq.reduce(np.sum), 1)",
    },
    "from_padded": {
        **dict.fromkeys(("mask", "attention_mask"), "lengths=mask"),
        **_SIDES,
        "padding_value": "lengths=(batch != 0).sum(axis=1)",
        **dict.fromkeys(("length", "row_lengths", "sizes"), "lengths="),
        "batch_first": "TensorSequence.from_padded(batch.swapaxes(0, 1), lengths)",
    },
    "TensorSequence": {
        **dict.fromkeys(("data", "arrays", "values", "elements", "object"), "tensors="),
        "lengths": "TensorSequence.from_lengths(values, lengths)",
        "offsets": "TensorSequence.from_offsets(values, offsets)",
        **dict.fromkeys(("device", "requires_grad"), "torch.from_numpy(seq.to_padded()) for PyTorch"),
        **dict.fromkeys(("axis", "dim"), "split_to_sequence(array, axis=1) to split one array"),
    },
    "sequence_map": {
        **_WORKERS,
        **_TYPES,
        **_BARS,
        **_POOLS,
        **dict.fromkeys(("chunk_size", "blocksize"), "chunksize="),
        **dict.fromkeys(("batch_size", "batched", "vectorized"), "map_batches(function, seq)"),
        "max_threads": "max_workers=",
    },
    "map_batches": {
        **_WORKERS,
        **_TYPES,
        **_BARS,
        **_POOLS,
        **dict.fromkeys(("chunksize", "chunk_size", "batchsize"), "batch_size="),
        "max_threads": "max_workers=",
    },
    "BatchSampler": {
        **dict.fromkeys(("bs", "batch", "n", "max_batch_size", "max_count"), "batch_size="),
        **dict.fromkeys(("token_budget", "max_tokens_per_batch", "num_tokens", "tokens"), "max_tokens="),
        **dict.fromkeys(("max_length", "bin_size"), "capacity="),
        **dict.fromkeys(("num_replicas", "ranks", "num_ranks"), "world_size="),
        **dict.fromkeys(("random_state", "generator", "rng"), "seed="),
        **dict.fromkeys(("sequence", "seq", "dataset", "data", "sampler"), "lengths="),
        "epoch": "sampler.set_epoch(epoch)",
    },
    "pack": {
        **dict.fromkeys(("max_length", "max_tokens", "bin_size", "bin_capacity"), "capacity="),
        **dict.fromkeys(("algorithm", "method"), "strategy="),
        **dict.fromkeys(("max_items", "max_elements", "batch_size"), "max_count="),
        **dict.fromkeys(("sequence", "seq", "sizes", "items"), "lengths="),
    },
    "load": {
        **dict.fromkeys(("columns", "names", "usecols"), "load(path)[names]"),
        **dict.fromkeys(("name", "field", "key"), "column="),
    },
}

# The arguments that PyTorch's class of the same name takes behind the first.
_AS_IN_PYTORCH: dict[str, tuple[str, ...]] = {"BatchSampler": ("batch_size", "drop_last")}

# The parameters that may not be given by position, in the order of the signature; the tests compare it.
_ONLY_BY_NAME: dict[str, tuple[str, ...]] = {
    "to_padded": ("side", "shape", "multiple_of", "truncate", "dtype", "return_mask", "out"),
    "reduce": ("axis", "initial", "empty", "dtype"),
    "from_padded": ("side",),
    "TensorSequence": ("copy",),
}


def refuse_arguments(name, most, given, named):
    """Raise the TypeError of a function that got arguments which it doesn't have.

    Parameters
    ----------
    name : str
        The name of the function; of a constructor, that of the class.
    most : int
        The number of arguments that it takes by position.
    given : tuple
        The further arguments.
    named : dict
        The arguments under names that it doesn't have.
    """
    _refuse(name, most, given, named, _ONLY_BY_NAME[name])


def _refuse(name, most, given, named, only_by_name):
    if given:
        total = most + len(given)
        words = [f"{key}={shown(value)}" for key, value in zip(only_by_name, given, strict=False)]
        raise TypeError(
            f"{name}() takes {most} positional argument{'s' if most != 1 else ''}, but {total} were given"
            + (f": use {', '.join(words)}" if words else "")
        )
    unknown = next(iter(named))
    remedy = KEYWORDS.get(name, {}).get(unknown)
    if remedy is None and name in ("sequence_map", "map_batches"):
        raise TypeError(
            f"{name}() got an unexpected keyword argument {unknown!r}: pass arguments of the body by "
            f"functools.partial(body, {unknown}=...) or a lambda"
        )
    raise TypeError(
        f"{name}() got an unexpected keyword argument {unknown!r}" + (f": use {remedy}" if remedy else "")
    )


def explains_arguments(function: _Function) -> _Function:
    """Decorate a function of Python, or a constructor, so that wrong arguments lead to the right ones.

    It costs nothing but a call: only what Python itself refused is looked at.
    """
    name = function.__qualname__.removesuffix(".__init__")
    constructs = name != function.__qualname__

    @functools.wraps(function)
    def explained(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # from inside the function
            import inspect  # only here: NumPy doesn't always import it

            parameters = inspect.signature(function).parameters
            kinds = [one.kind for one in parameters.values()]
            most = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
            takes_any = inspect.Parameter.VAR_POSITIONAL in kinds
            named = {key: value for key, value in kwargs.items() if key not in parameters}
            given = () if takes_any else args[most:]
            if not named and not given:
                raise
        by_name = (key for key, one in parameters.items() if one.kind is one.KEYWORD_ONLY)
        return _refuse(name, most - constructs, given, named, _AS_IN_PYTORCH.get(name, tuple(by_name)))

    return cast("_Function", explained)


# -- reductions ----------------------------------------------------------------------------------------

_HOWS = (
    "a ufunc of two arguments, such as np.add, or np.sum, np.prod, np.mean, np.std, np.var, np.min, np.max, "
    "np.any, np.all, np.argmin or np.argmax"
)

# By the name of a function of Python, PyTorch or another library, or by the name itself.
REDUCTIONS: dict[str, str] = {
    **{name: f"np.{name}" for name in _REDUCED},
    **{name: f"np.{name}" for name in ("amin", "amax", "add", "multiply", "minimum", "maximum")},
    **{
        "mul": "np.multiply",
        "fmean": "np.mean",
        "average": "np.mean",
        "pstdev": "np.std",
        "pvariance": "np.var",
    },
    **dict.fromkeys(("len", "size", "count", "length", "numel"), "seq.lengths()"),
    "count_nonzero": "seq.astype(bool).reduce(np.sum)",
}


def not_a_reduction(how):
    """Return the message for what `reduce` doesn't know."""
    name = how if isinstance(how, str) else getattr(how, "__name__", None)
    remedy = REDUCTIONS.get(name) if type(name) is str else None
    if remedy is None:
        # NumPy's own functions and lambdas alike.
        shows = f"np.{name}" if type(name) is str and getattr(np, name, None) is how else "function"
        remedy = f"sequence_map({shows}, seq).values()" if callable(how) else None
    return f"how must be {_HOWS}, got {got(how)}" + ("" if remedy is None else f": use {remedy}")
