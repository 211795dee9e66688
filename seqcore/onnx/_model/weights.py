"""Weights: where the data of a model's large tensors are, and how sessions find them.

They are the tensors with more numbers than anything is decided by. A small message, the stub, says where the
data are, as ONNX says it of external data, so that onnxruntime finds them:

    the model was given as       the data are
    a path                       in the model's file, and in the files beside it that the model names
    bytes                        in these bytes
    a message                    in copies of their own
"""

import math
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, helper

from seqcore.onnx._model.graph import STANDARD
from seqcore.onnx._model.load import all_graphs, all_tensors, parse, path_of
from seqcore.onnx._model.tensors import one_line
from seqcore.onnx._thresholds import HEAVY, LEAST_LEFT, MOST_NUMBERS

# Types whose numbers have bytes of their own.
_WHOLE_BYTES = frozenset(range(1, 17)) - {TensorProto.STRING}
# The locations of weights in the bytes of a model, and of copies.
_GIVEN, _COPIES = "seqcore/model", "seqcore/weights"


class Weights:
    """The data of weights, and the files that they are in.

    Parameters
    ----------
    path : str or None
        The path of the model, to whose folder external data are relative.
    data : bytes, optional
        The bytes of the model, if stubs name places in them.

    Attributes
    ----------
    stubs : dict of str to TensorProto
        The stubs of the weights that are initializers of the model, by their names.
    inner : dict of str to TensorProto
        The stubs of those inside its graphs and functions, by names of ours.
    defaults : set of str
        The names of those that are inputs too.
    """

    def __init__(self, path: str | None = None, data: bytes | None = None) -> None:
        self._path = path
        self.stubs: dict[str, TensorProto] = {}
        self.inner: dict[str, TensorProto] = {}
        self.defaults: set[str] = set()
        self._buffers: dict[str, bytes] = {} if data is None else {_GIVEN: data}
        self._stamps: dict[str, tuple[int, int]] = {}  # of the files, as they were
        self._paths: dict[str, str] = {}  # the files of locations, links followed

    @property
    def nbytes(self) -> int:
        """The size of all of them in bytes."""
        return nbytes_of((*self.stubs.values(), *self.inner.values()))

    def take(self, tensor: TensorProto) -> TensorProto:
        """Return a tensor's stub; its data stay where they are, or are copied if they are in the tensor.

        Raises
        ------
        ValueError
            If the data are in a file that isn't there.
        """
        stub = TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
        if tensor.data_location == TensorProto.EXTERNAL:
            stub.external_data.extend(tensor.external_data)
            self.stamp(tensor)
        else:
            location = f"{_COPIES}/{len(self._buffers)}"
            self._buffers[location] = tensor.raw_data
            _say_where(stub, location, 0, len(self._buffers[location]))
        stub.data_location = TensorProto.EXTERNAL
        return stub

    def stamp(self, tensor: TensorProto) -> None:
        """Remember how the file of a tensor is now, if it is the first one in it."""
        if location_of(tensor) in self._buffers:
            return
        path = self._path_of(tensor)
        if path not in self._stamps:
            if not os.path.isfile(path):
                raise ValueError(f"the model's external data can't be read: there is no file {path}")
            self._stamps[path] = _stamp_of(path)

    def filled(self, tensor: TensorProto) -> TensorProto:
        """Return a tensor with its data.

        Raises
        ------
        ValueError
            If they are in a file that can't be read, or was changed.
        """
        if tensor.data_location != TensorProto.EXTERNAL:
            return tensor
        full = TensorProto()
        full.CopyFrom(tensor)
        full.raw_data = self._read(tensor)
        full.ClearField("data_location")
        del full.external_data[:]
        return full

    def _read(self, tensor: TensorProto) -> bytes:
        said = {one.key: one.value for one in tensor.external_data}
        expected = nbytes_of([tensor])
        try:
            offset = int(said.get("offset", 0))
            length = int(said["length"]) if "length" in said else -1
            if offset < 0 or not -1 <= length <= sys.maxsize - offset:
                raise ValueError(f"'{tensor.name}' begins at {offset} and has a length of {length}")
            buffer = self._buffers.get(location_of(tensor))
            if buffer is not None:
                raw = buffer[offset : None if length < 0 else offset + length]
            else:
                self._check_files([tensor])
                with open(self._path_of(tensor), "rb") as file:
                    file.seek(offset)
                    raw = file.read(length)
        except (OSError, ValueError) as error:
            raise ValueError(f"the model's external data can't be read: {one_line(error)}") from error
        if len(raw) != expected and tensor.data_type in _WHOLE_BYTES:
            raise ValueError(
                f"the model's external data can't be read: '{tensor.name}' has {len(raw)} bytes, "
                f"not {expected}"
            )
        return raw

    def fill(self, model: ModelProto, *, with_files: bool = True) -> ModelProto:
        """Put the data of weights into a message, and return it; those in files may stay there."""
        for tensor in all_tensors(model):
            if tensor.data_location == TensorProto.EXTERNAL:
                if location_of(tensor) in self._buffers:
                    tensor.CopyFrom(self.filled(tensor))
                elif with_files:
                    self.stamp(tensor)
                    tensor.CopyFrom(self.filled(tensor))
        return model

    def fill_small(self, model: ModelProto) -> None:
        """Put small tensors that are in files into a message: onnxruntime infers shapes by their numbers."""
        for tensor in all_tensors(model):
            if not is_weight(tensor):
                tensor.CopyFrom(_near(tensor, self))

    def _path_of(self, tensor: TensorProto) -> str:
        """Return the path of a tensor's file, links followed.

        A model may not have data elsewhere than in its folder or, if it is a link itself, in that of its
        file: caches of models consist of such links.
        """
        if self._path is None:
            raise ValueError("the model has external data: pass its path instead of its bytes")
        location = location_of(tensor)
        if location in self._paths:
            return self._paths[location]
        within = os.path.normpath(location)
        wrong = f"the model is not valid: '{tensor.name}' has its data at '{location}',"
        if not location or os.path.isabs(location) or within.split(os.sep)[0] == os.pardir:
            raise ValueError(f"{wrong} outside of its folder")
        folder = os.path.dirname(self._path)
        path = os.path.realpath(os.path.join(folder, within))
        folders = (os.path.realpath(folder), os.path.dirname(os.path.realpath(self._path)))
        if not any(path.startswith(os.path.join(one, "")) for one in folders):
            raise ValueError(f"{wrong} a link to {path}, outside of its folder: copy it there")
        self._paths[location] = path
        return path

    def _check_files(self, tensors: Iterable[TensorProto]) -> None:
        """Raise ValueError if a file has changed since the model was loaded."""
        for path in {self._path_of(one) for one in tensors}:
            if not os.path.isfile(path) or self._stamps.get(path) != _stamp_of(path):
                raise ValueError(f"the file {path} was changed since the model was loaded, or is gone")

    def for_onnxruntime(self, model: ModelProto) -> tuple[str, dict[str, bytes]]:
        """Have a message name files as onnxruntime takes them.

        It follows no symbolic link that leads out of the folder.

        Returns
        -------
        folder : str
            The folder that the files are relative to.
        buffers : dict of str to bytes
            The location that tensors name → the data, of those in memory.
        """
        stubs = [one for one in model.graph.initializer if one.data_location == TensorProto.EXTERNAL]
        locations = {location_of(one) for one in stubs}
        buffers = {location: self._buffers[location] for location in sorted(locations & self._buffers.keys())}
        outside = [one for one in stubs if location_of(one) not in buffers]
        if not outside:
            return "", buffers
        self._check_files(outside)
        paths = [self._path_of(one) for one in outside]
        folder = os.path.commonpath([os.path.dirname(path) for path in paths])
        for tensor, path in zip(outside, paths, strict=True):
            for one in tensor.external_data:
                if one.key == "location":
                    one.value = os.path.relpath(path, folder)
        return folder, buffers


def _say_where(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def _stamp_of(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def nbytes_of(tensors: Iterable[TensorProto]) -> int:
    """Return the approximate size of tensors in bytes."""
    return sum(math.prod(one.dims) * _itemsize(one) for one in tensors)


def _itemsize(tensor: TensorProto) -> int:
    try:
        return helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except KeyError:  # of a type that only the next version knows
        return 1


def location_of(tensor: TensorProto) -> str:
    """Return the location that a tensor with external data names."""
    return next((one.value for one in tensor.external_data if one.key == "location"), "")


def is_weight(tensor: TensorProto) -> bool:
    """Return whether a tensor's data are left aside."""
    is_outside = tensor.data_location == TensorProto.EXTERNAL or tensor.HasField("raw_data")
    return is_outside and math.prod(tensor.dims) > MOST_NUMBERS


def without_weights(
    model: ModelProto, path: str | None, data: bytes | None = None
) -> tuple[ModelProto, Weights]:
    """Return a message of its own memory without weights, and these.

    Weights that are initializers of the model become inputs of its graph, so that onnx's checker and its
    inference, which want to see no data, know their types. For those inside graphs and functions there are
    constants with their names in `Weights.inner`: see `weight_of`.

    Parameters
    ----------
    model : ModelProto
    path : str or None
        The path of the model, to whose folder external data are relative.
    data : bytes, optional
        The bytes that `open_model` left data in.
    """
    weights = Weights(path, data)
    weightless = without_fields(model, ModelProto(), "graph")
    without_fields(model.graph, weightless.graph, "initializer")
    fed = {value.name for value in model.graph.input}
    # onnxruntime takes the last of several of one name.
    for name, tensor in {one.name: one for one in model.graph.initializer if one.name}.items():
        if not is_weight(tensor):
            weightless.graph.initializer.append(_near(tensor, weights))
            continue
        weights.stubs[name] = weights.take(tensor)
        if name in fed:
            weights.defaults.add(name)
        else:
            value = helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
            weightless.graph.input.append(value)
    _take_inner(weightless, weights)
    return weightless, weights


def without_fields(source: Any, target: Any, *names: str) -> Any:
    """Copy all fields of a message except some, and return the copy."""
    for field, value in source.ListFields():
        if field.name in names:
            continue
        if hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        elif hasattr(value, "CopyFrom"):
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)
    return target


def _near(tensor: TensorProto, weights: Weights) -> TensorProto:
    """Return a small tensor with its data, which may be in a file."""
    if tensor.data_location != TensorProto.EXTERNAL or tensor.data_type not in _WHOLE_BYTES:
        return tensor
    weights.stamp(tensor)
    return weights.filled(tensor)


def _take_inner(model: ModelProto, weights: Weights) -> None:
    """Take the weights of Constant nodes and of graphs inside a model, and read what else is in files.

    A text that names the weight takes the place of each: see `weight_of`.
    """
    for depth, graph in enumerate(all_graphs(model)):
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.TENSOR:
                    is_constant = node.op_type == "Constant" and node.domain in STANDARD
                    _mark(attribute.t, weights, takes=is_constant)
        if depth and isinstance(graph, GraphProto) and graph.initializer:
            fed = {value.name for value in graph.input}
            for tensor in graph.initializer:
                _mark(tensor, weights, takes=tensor.name not in fed)


def _mark(tensor: TensorProto, weights: Weights, takes: bool = True) -> None:
    if takes and is_weight(tensor):
        name = f"{_COPIES}/{len(weights.inner)}"
        weights.inner[name] = weights.take(tensor)
        mark = TensorProto(name=tensor.name, data_type=TensorProto.STRING, doc_string=name)
        mark.string_data.append(name.encode())
        tensor.CopyFrom(mark)
    elif tensor.data_location == TensorProto.EXTERNAL:
        tensor.CopyFrom(_near(tensor, weights))


def weight_of(constant: TensorProto, weights: Weights) -> TensorProto:
    """Return the stub that a constant stands for, or else the constant."""
    if constant.data_type == TensorProto.STRING and constant.doc_string:
        return weights.inner.get(constant.doc_string, constant)
    return constant


# Reading a large model without its weights.


def open_model(model: Any, name: str = "the bytes") -> tuple[ModelProto, bytes | None]:
    """Return a model as a message, and the bytes that it was given as if its weights are still in them.

    The data of large initializers stay where they are, in the bytes or in the file at a path. So memory is
    never needed for a second copy of them.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
    name : str, optional
        The name of bytes in messages.
    """
    if isinstance(model, bytes | bytearray | memoryview):
        data = bytes(model)
        light = _left_in(data, _GIVEN) if len(data) >= HEAVY else None
        return parse(data if light is None else light, name), None if light is None else data
    if isinstance(model, str | os.PathLike):
        path = path_of(model)
        with open(path, "rb") as file:
            data = file.read()
        light = _left_in(data, os.path.basename(path)) if len(data) >= HEAVY else None
        return parse(data if light is None else light, path), None
    return parse(model), None


class _Unusual(Exception):
    """A message isn't written as protobuf writes them."""


def _left_in(data: bytes, location: str) -> bytes | None:
    """Return a serialized model whose large initializers name places in its own data; None if it can't be.

    ModelProto { 7: GraphProto { 5: TensorProto { 9: raw_data }}}, each as its key, its length and its bytes.
    """
    view = memoryview(data)
    try:
        fields = list(_fields(view, 0, len(view)))
        graphs = [one for one in fields if one[0] == 7]
        if len(graphs) != 1:
            return None
        ((_, begin, start, end),) = graphs
        parts: list[Any] = []
        copied = start
        for number, first, inner, last in _fields(view, start, end):
            if number == 5 and last - inner >= LEAST_LEFT and (stub := _stub(view, inner, last, location)):
                parts += [view[copied:first], b"\x2a", _varint_of(len(stub)), stub]
                copied = last
        parts.append(view[copied:end])
    except _Unusual:
        return None  # protobuf says what is wrong
    size = sum(map(len, parts))
    return b"".join([view[:begin], b"\x3a", _varint_of(size), *parts, view[end:]])


def _stub(view: memoryview, start: int, end: int, location: str) -> bytes | None:
    """Return a serialized tensor whose raw data are at a location; None for one with other data, or few."""
    fields = list(_fields(view, start, end))
    raw = [one for one in fields if one[0] == 9]
    is_outside = any(number in (13, 14) for number, *_ in fields)
    if len(raw) != 1 or is_outside or raw[0][3] - raw[0][2] < LEAST_LEFT:
        return None
    ((_, begin, first, last),) = raw
    place = TensorProto(data_location=TensorProto.EXTERNAL)
    _say_where(place, location, first, last - first)
    return b"".join([view[start:begin], view[last:end], place.SerializeToString()])


def _fields(view: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of a message: number, where it begins, and where its value begins and ends."""
    at = start
    while at < end:
        begin = at
        key, at = _varint(view, at)
        kind = key & 7
        value = at
        if kind == 0:
            _, at = _varint(view, at)
        elif kind == 2:
            length, value = _varint(view, at)
            at = value + length
        else:
            raise _Unusual  # these messages have no fields of other kinds
        if at > end:
            raise _Unusual
        yield key >> 3 if kind == 2 or key >> 3 == 14 else 0, begin, value, at


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    """Return the number that is written at a place, seven bits in a byte, and the place behind it."""
    number = shift = 0
    while at < len(view) and shift < 64:
        byte = view[at]
        number |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return number, at
        shift += 7
    raise _Unusual


def _varint_of(number: int) -> bytes:
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])
