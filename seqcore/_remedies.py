"""Errors for names and operators that a sequence doesn't have: they name the call to use instead."""

import numbers

import numpy as np

from seqcore._shown import shown

_MAP = "sequence_map(f, seq) applies a function to each element, map_batches(f, seq) to many at a time"
_JOIN = "seq.values() concatenates the elements along axis 0, concat_from_sequence(seq, axis) along any axis"
_STACK = "concat_from_sequence(seq, 0, new_axis=1) stacks elements of one shape, seq.to_padded() pads others"
_SHAPE = "seq.shapes is the list of the elements' shapes, seq.lengths() has the lengths along axis 0"
_SPLIT = "split_to_sequence(array) splits an array, TensorSequence.from_lengths(array, lengths) by lengths"
_ORDER = "seq[np.argsort(seq.lengths())] sorts the elements by length; any other order works the same way"
_FILTER = "seq[mask] selects elements by an array of bools, for example seq[seq.lengths() > 3]"
_FILES = "seqcore.save(path, seq) writes a sequence to a file, and seqcore.load(path) memory-maps it"
_APPEND = "seq.append(tensor) appends a tensor, seq.insert(position, tensor) inserts one"

# Names that a sequence doesn't have.
_OF_SEQUENCES = {
    **dict.fromkeys(("map", "apply"), _MAP),
    **dict.fromkeys(("concat", "concatenate", "cat", "join", "flatten"), _JOIN),
    **dict.fromkeys(("stack", "numpy", "to_numpy"), _STACK),
    **dict.fromkeys(("pad", "pad_sequence"), "seq.to_padded() pads the elements to the longest one"),
    **dict.fromkeys(("shape", "ndim"), _SHAPE),
    **dict.fromkeys(("lens", "length"), "seq.lengths() has the lengths along axis 0"),
    **dict.fromkeys(("sort", "argsort"), _ORDER),
    "filter": _FILTER,
    **dict.fromkeys(("add", "push"), _APPEND),
    **dict.fromkeys(("to", "cast"), "seq.astype(dtype) converts the elements"),
    "reshape": _MAP,
    "split": _SPLIT,
    "shuffle": "seq[rng.permutation(len(seq))] shuffles the elements",
    "save": _FILES,
}

# Reductions, which NumPy's functions look up as methods.
_REDUCTIONS = frozenset(
    ("sum", "mean", "max", "min", "std", "var", "prod", "all", "any", "argmax", "argmin", "cumsum", "cumprod")
)

_REDUCED = _REDUCTIONS - {"std", "var", "cumsum", "cumprod"}  # which `reduce` knows

# Names that the package doesn't have.
_OF_PACKAGE = {
    **dict.fromkeys(("concat", "concatenate", "cat", "join"), "concat_from_sequence(seq, axis)"),
    "stack": "concat_from_sequence(seq, axis, new_axis=1)",
    **dict.fromkeys(("split", "unbind", "chunk"), "split_to_sequence(array)"),
    **dict.fromkeys(("map", "apply", "vmap"), "sequence_map(body, seq) and map_batches(body, seq)"),
    **dict.fromkeys(("pad", "pad_sequence", "to_padded"), "seq.to_padded()"),
    **dict.fromkeys(("Sequence", "sequence", "array", "from_list"), "TensorSequence(tensors)"),
    **{
        name: f"TensorSequence.{name}"
        for name in ("from_lengths", "from_offsets", "from_padded", "from_arrow")
    },
    **dict.fromkeys(("values", "lengths", "offsets", "astype", "tolist"), "the method of TensorSequence"),
    **dict.fromkeys(("InferenceSession", "GraphBody", "lower"), "import seqcore.onnx"),
    **dict.fromkeys(("empty", "zeros"), "sequence_empty(dtype)"),
    **dict.fromkeys(
        ("insert", "erase", "at", "length"), "sequence_insert, sequence_erase, sequence_at, or len(seq)"
    ),
}


class Elsewhere:
    """A name that a sequence lacks: its lookup raises an AttributeError that names the call to use.

    For NumPy's reductions the lookup gives a callable that raises, because `np.sum(seq)` looks up a method
    first. A descriptor for each name costs nothing, while a `__getattr__` would make all method calls slower.
    """

    def __init__(self, name):
        self.name = name

    def __get__(self, sequence, owner):
        if sequence is None:
            return self
        kind = type(sequence).__name__
        if self.name in _REDUCTIONS:
            each = "seq.reduce({}, axis=None)" if self.name in _REDUCED else "sequence_map({}, seq)"
            return _Refused(
                f"a {kind} has no method '{self.name}': np.{self.name}(seq.values()) reduces all values, "
                f"{each.format(f'np.{self.name}')} each element"
            )
        raise AttributeError(
            f"a {kind} has no attribute '{self.name}': {_OF_SEQUENCES[self.name]}",
            name=self.name,
            obj=sequence,
        )


class _Refused:
    """A callable that raises; an object, so that it isn't bound and nothing takes it for a method."""

    def __init__(self, message):
        self.message = message

    def __call__(self, *args, **kwargs):
        raise TypeError(self.message)


def missing_name(module, name):
    """Raise the AttributeError for a name that a module lacks."""
    remedy = _OF_PACKAGE.get(name)
    raise AttributeError(
        f"module '{module}' has no attribute '{name}'" + (f": use {remedy}" if remedy else ""),
        name=name,
    )


_UFUNCS = {
    **{"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide", "%": "remainder"},
    **{"**": "power", "@": "matmul", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"},
    **{"&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "~": "invert", "abs": "absolute"},
    "neg": "negative",
}


def refuse_operator(sequence, symbol, other):
    """Raise the TypeError for an operator of arrays; NotImplemented if the other operand may support it."""
    ours = isinstance(other, type(sequence)) or isinstance(sequence, type(other))
    if not ours and not isinstance(other, numbers.Number | np.ndarray | np.generic | list | tuple):
        return NotImplemented
    also = ", or seq.append(tensor) to add an element" if symbol == "+" else ""
    raise TypeError(
        f"a {type(sequence).__name__} is not an array and doesn't support '{symbol}': use "
        f"sequence_map(np.{_UFUNCS[symbol]}, seq, {_operand(sequence, other)}){also}"
    )


def _operand(sequence, other):
    """Return a number as one of the sequence's dtype, because a Python number could change the dtype."""
    dtype = sequence.dtype
    plain = type(other) in (bool, int, float, complex) and dtype is not None and dtype.kind in "biufc"
    if plain and np.result_type(dtype, other) == dtype:
        return f"np.{dtype.type.__name__}({shown(other)})"
    return "other"


def refuse_unary(symbol):
    """Raise the TypeError for an operator of one array."""
    name = _UFUNCS[symbol]
    raise TypeError(
        f"a TensorSequence is not an array and doesn't support '{symbol.replace('neg', '-')}': use "
        f"sequence_map(np.{name}, seq)"
    )
