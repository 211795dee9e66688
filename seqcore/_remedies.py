"""What people type first and seqcore spells otherwise: an error that names the way."""

import numbers

import numpy as np

from seqcore._shown import shown

_MAP = "sequence_map(body, seq) applies a body to each element, map_batches(body, seq) to many at a time"
_JOIN = "seq.values() joins the elements along axis 0, concat_from_sequence(seq, axis) along any axis"
_STACK = "concat_from_sequence(seq, 0, new_axis=1) stacks elements of one shape, seq.to_padded() pads others"
_SHAPE = "each element has its own: seq.shapes lists them, seq.lengths() has the extents along axis 0"
_SPLIT = "split_to_sequence(array) cuts an array, TensorSequence.from_lengths(array, lengths) by lengths"
_ORDER = "seq[np.argsort(seq.lengths())] has the elements in order of length; any other order works alike"
_FILTER = "seq[mask] has the elements for which a bool is true, as in seq[seq.lengths() > 3]"
_FILES = "seqcore.save(path, seq) writes a sequence to a file, and seqcore.load(path) maps it"
_APPEND = "seq.append(tensor) puts one behind the others, seq.insert(position, tensor) before a position"

# Names that a sequence doesn't have.
_OF_SEQUENCES = {
    **dict.fromkeys(("map", "apply"), _MAP),
    **dict.fromkeys(("concat", "concatenate", "cat", "join", "flatten"), _JOIN),
    **dict.fromkeys(("stack", "numpy", "to_numpy"), _STACK),
    **dict.fromkeys(("pad", "pad_sequence"), "seq.to_padded() pads the elements to the longest"),
    **dict.fromkeys(("shape", "ndim"), _SHAPE),
    **dict.fromkeys(("lens", "length"), "seq.lengths() has the extents along axis 0"),
    **dict.fromkeys(("sort", "argsort"), _ORDER),
    "filter": _FILTER,
    **dict.fromkeys(("add", "push"), _APPEND),
    **dict.fromkeys(("to", "cast"), "seq.astype(dtype) converts the elements"),
    "reshape": _MAP,
    "split": _SPLIT,
    "shuffle": "seq[rng.permutation(len(seq))] has the elements in random order",
    "save": _FILES,
}

# Reductions, which NumPy's functions look for as methods.
_REDUCTIONS = frozenset(
    ("sum", "mean", "max", "min", "std", "var", "prod", "all", "any", "argmax", "argmin", "cumsum", "cumprod")
)

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
    **dict.fromkeys(("values", "lengths", "offsets", "astype", "tolist"), "a method of TensorSequence"),
    **dict.fromkeys(("InferenceSession", "GraphBody", "lower"), "import seqcore.onnx"),
    **dict.fromkeys(("empty", "zeros"), "sequence_empty(dtype)"),
    **dict.fromkeys(("insert", "erase", "at", "length"), "sequence_insert and its kin, or len(seq)"),
}


class Elsewhere:
    """A name that a sequence lacks: to look it up is an AttributeError that says what there is.

    For NumPy's reductions it is something to call, a TypeError then: `np.sum(seq)` looks for a method first.
    A descriptor for each name costs nothing elsewhere, while a `__getattr__` makes every method call slower.
    """

    def __init__(self, name):
        self.name = name

    def __get__(self, sequence, owner):
        if sequence is None:
            return self
        kind = type(sequence).__name__
        if self.name in _REDUCTIONS:
            return _Refused(
                f"a {kind} has no '{self.name}', for it may be meant of each element or of all: "
                f"sequence_map(np.{self.name}, seq) takes each element's, "
                f"np.{self.name}(seq.values()) that of all"
            )
        raise AttributeError(
            f"a {kind} has no attribute '{self.name}': {_OF_SEQUENCES[self.name]}",
            name=self.name,
            obj=sequence,
        )


class _Refused:
    """A method that is none; a class, so that nothing is bound and nothing takes it for a function."""

    def __init__(self, message):
        self.message = message

    def __call__(self, *args, **kwargs):
        raise TypeError(self.message)


def missing_name(module, name):
    """Raise the AttributeError for a name that a module lacks."""
    remedy = _OF_PACKAGE.get(name)
    raise AttributeError(
        f"module '{module}' has no attribute '{name}'" + (f": you may want {remedy}" if remedy else ""),
        name=name,
    )


_UFUNCS = {
    **{"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide", "%": "remainder"},
    **{"**": "power", "@": "matmul", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"},
    **{"&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "~": "invert", "abs": "absolute"},
    "neg": "negative",
}


def refuse_operator(sequence, symbol, other):
    """Raise the TypeError for an operator of arrays; NotImplemented where the other side may know better."""
    ours = isinstance(other, type(sequence)) or isinstance(sequence, type(other))
    if not ours and not isinstance(other, numbers.Number | np.ndarray | np.generic | list | tuple):
        return NotImplemented
    also = ", and seq.append(tensor) puts a tensor behind the others" if symbol == "+" else ""
    raise TypeError(
        f"a {type(sequence).__name__} is no array, so '{symbol}' does not work on its elements: "
        f"sequence_map(np.{_UFUNCS[symbol]}, seq, {_operand(sequence, other)}) does{also}"
    )


def _operand(sequence, other):
    """A number as NumPy's of the sequence's type, for a bare one would make the result another type."""
    dtype = sequence.dtype
    plain = type(other) in (bool, int, float, complex) and dtype is not None and dtype.kind in "biufc"
    if plain and np.result_type(dtype, other) == dtype:
        return f"np.{dtype.type.__name__}({shown(other)})"
    return "other"


def refuse_unary(symbol):
    """Raise the TypeError for an operator of one array."""
    name = _UFUNCS[symbol]
    raise TypeError(
        f"a TensorSequence is no array, so '{symbol.replace('neg', '-')}' does not work on its elements: "
        f"sequence_map(np.{name}, seq) does"
    )
