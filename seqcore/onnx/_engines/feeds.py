"""A session's inputs and outputs: what they are called, what they may be, and whether a feed is that."""

from collections.abc import Mapping

import numpy as np
import onnxruntime
from onnx import TensorProto, TypeProto

from seqcore._arguments.shown import add_note, got, shown_error
from seqcore._arguments.tensors import as_tensor
from seqcore._format.text import snapshot_of
from seqcore.core.arrow import first_misfit
from seqcore.core.maps import TensorType
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING, type_name
from seqcore.onnx._model.tensors import dtype_of


class NodeArg:
    """An input or output of a model, as onnxruntime describes it.

    Attributes
    ----------
    name : str
    type : str
        For example `tensor(float)`, `seq(tensor(int64))` or `optional(tensor(bool))`.
    shape : list
        A tensor's lengths, a str for one with a name and None for one that isn't known; `[]` for others.
    """

    def __init__(self, name: str, kind: TypeProto) -> None:
        self.name = name
        self.type: str = type_text(kind)
        self.shape: list[int | str | None] = _shape(kind)

    def __repr__(self):
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"

    __str__ = __repr__


def type_text(kind):
    """Return a type in onnxruntime's words."""
    which = kind.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        word = TensorProto.DataType.Name(getattr(kind, which).elem_type).lower()
        return f"tensor({word})" if which == "tensor_type" else f"sparse_tensor({word})"
    if which == "sequence_type":
        return f"seq({type_text(kind.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional({type_text(kind.optional_type.elem_type)})"
    if which == "map_type":
        key = TensorProto.DataType.Name(kind.map_type.key_type).lower()
        return f"map({key},{type_text(kind.map_type.value_type)})"
    return ""


def _shape(kind):
    if kind.WhichOneof("value") == "optional_type":
        kind = kind.optional_type.elem_type
    if kind.WhichOneof("value") != "tensor_type":
        return []
    return [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
        for dim in kind.tensor_type.shape.dim
    ]


class Feed:
    """An input, and whether what is fed to it is what the model declares.

    Parameters
    ----------
    name : str
    kind : TypeProto

    Attributes
    ----------
    type : TensorType, class or None
        The type for `taken_feed`. None for strings, and for all but tensors and sequences.
    is_scalar : bool
        True if it is declared as a tensor without axes.
    is_sequence : bool
        True if it is declared as a sequence of tensors of a type that sequences have.
    """

    def __init__(self, name, kind):
        self.name = name
        self.kind = kind
        which = kind.WhichOneof("value")
        self._dtype = dtype_of(kind.tensor_type.elem_type) if which == "tensor_type" else None
        self._element_dtype = self._element_shape = None
        if which == "sequence_type" and kind.sequence_type.elem_type.HasField("tensor_type"):
            element = kind.sequence_type.elem_type.tensor_type
            self._element_dtype = dtype_of(element.elem_type)
            self._element_shape = _declared_shape(element)
            self._elements = TensorType(self._element_dtype, self._element_shape)
        shape = None if self._dtype is None else _declared_shape(kind.tensor_type)
        self._shaped = TensorType(None, shape)
        goes = self._dtype is not None and self._dtype != STRING
        self.is_scalar = shape == ()
        self.is_sequence = self._element_dtype is not None
        self.type = TensorType(self._dtype, shape) if goes else list if self.is_sequence else None

    def check(self, value):
        """Return a value that was fed, in the form that plans work on.

        A tensor is an array of the declared type, a sequence one that the plan may edit, an empty optional
        None.

        Raises
        ------
        TypeError
            If it is of another kind or element type than declared.
        ValueError
            If a tensor's shape contradicts the declared one.
        """
        if self._dtype is None:  # asked first: to NumPy, None is float64
            return self._other(value)
        if isinstance(self.type, TensorType) and self.type.takes(value):
            return value
        array = _tensor(self.name, value, self._dtype)
        if not self._shaped.takes(array):
            wanted = ", ".join(
                str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"
                for dim in self.kind.tensor_type.shape.dim
            )
            raise ValueError(f"input '{self.name}' has shape {array.shape}, expected ({wanted})")
        return array

    @property
    def declares_elements(self):
        """True if it is a sequence whose element shapes are declared."""
        return self._element_shape is not None

    def has_fitting_elements(self, value):
        """Return whether the elements of a fed sequence have the declared shapes, as far as one sees."""
        if issubclass(type(value), TensorSequence):  # not isinstance, which believes a `__class__`
            return self._fits_all(value)
        # Other threads may edit a list.
        return isinstance(value, list | tuple) and TensorType(None, self._element_shape).takes_all([*value])

    def _fits_all(self, seq):
        shape = self._element_shape
        return shape is None or first_misfit(seq, len(shape), len(shape), shape) == len(seq)

    def as_list(self, value):
        """Return a sequence as onnxruntime takes it, None if an element has another shape than declared.

        Parameters
        ----------
        value : list or TensorSequence
            A list that nobody else edits.

        Raises
        ------
        TypeError, ValueError
            As `check`.
        """
        # Arrays of objects may hold others than strings.
        is_list = type(value) is list and self._element_dtype != STRING
        if is_list and self._elements.takes_all(value):
            return value
        if type(value) is list or value.dtype != self._element_dtype:
            value = self.check(value)
        return list(value) if self._fits_all(value) else None

    def _other(self, value):
        which = self.kind.WhichOneof("value")
        if which == "optional_type":
            return None if value is None else Feed(self.name, self.kind.optional_type.elem_type).check(value)
        if which == "sequence_type":
            return _sequence(self.name, value, self.kind.sequence_type.elem_type)
        return value  # onnxruntime's business, as are tensors of types that sequences don't have


def _declared_shape(kind):
    """Return the lengths that a type of tensors declares, -1 for others; None for those of any rank."""
    if not kind.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim)


def _tensor(name, value, dtype):
    if isinstance(value, onnxruntime.OrtValue):
        value = value.numpy()
    if issubclass(type(value), TensorSequence):
        raise TypeError(f"input '{name}' is a tensor, got a sequence of {len(value)} tensors")
    if value is None:
        raise TypeError(f"input '{name}' is a tensor, got None")
    try:
        array = as_tensor(value) if isinstance(value, np.ndarray | np.generic) else as_tensor(value, dtype)
    except Exception as error:
        _raise_naming(name, error)
    if array.dtype != dtype:
        raise TypeError(f"input '{name}' has dtype {type_name(array.dtype)}, expected {type_name(dtype)}")
    return array


def _raise_naming(name, error):
    """Raise an error of Python's own that names the input, or another library's with a note."""
    for kind in (TypeError, OverflowError, ValueError):
        if isinstance(error, kind):
            raise kind(
                f"input '{name}': {shown_error(error)}"
            ) from error  # its own class may want other arguments
    add_note(error, f"input '{name}'")
    raise error


def _sequence(name, value, element):
    if element.WhichOneof("value") != "tensor_type":
        return value  # a sequence of maps
    dtype = dtype_of(element.tensor_type.elem_type)
    if dtype is None:
        raise TypeError(f"input '{name}' is a sequence of an element type that is not supported")
    if issubclass(type(value), TensorSequence):
        if value.dtype != dtype:
            raise TypeError(
                f"input '{name}' is a sequence of dtype {type_name(value.dtype)}, expected {type_name(dtype)}"
            )
        return snapshot_of(value)  # of the class itself: a plan edits nothing else in place
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"input '{name}' is a sequence: expected a TensorSequence or a list of tensors, got {got(value)}"
        )
    try:
        return TensorSequence(value, dtype=dtype)
    except Exception as error:
        _raise_naming(name, error)


def with_safe_strings(feed, names):
    """Return a feed in which all arrays of objects are of exact strings, as onnxruntime has to get them.

    It ends the process at an item that can't be made a string. `names` are the inputs that are strings.
    """
    if not isinstance(feed, Mapping):
        return feed
    safe = {name: _tensor(name, value, STRING) for name, value in feed.items() if _has_objects(value)}
    for name in names:
        if isinstance(feed.get(name), list | tuple):
            safe[name] = _tensor(name, feed[name], STRING)
    return {**feed, **safe} if safe else feed


def _has_objects(value):
    # A subclass may lie about its dtype.
    return isinstance(value, np.ndarray) and np.asarray(value).dtype == STRING


def check_feed(feed, kinds):
    """Raise an exception that names the input where a feed is to blame.

    Parameters
    ----------
    feed : object
        The feed as the user passed it.
    kinds : dict of str to TypeProto
        The types of inputs, as far as they are known.
    """
    if not isinstance(feed, Mapping):
        raise TypeError(f"input_feed must be a dict of the inputs by name, got {got(feed)}")
    for name, value in feed.items():
        if name in kinds:
            one = Feed(name, kinds[name])
            # onnxruntime takes an array of one element for a scalar.
            is_one = one.is_scalar and issubclass(type(value), np.ndarray) and value.size == 1
            one.check(value.reshape(()) if is_one else value)
