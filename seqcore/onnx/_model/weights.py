"""Weights: where the data of a model's large tensors are, and how sessions find them.

They are the tensors with more numbers than anything is decided by, and those in files of their own. A small
message says where they are as ONNX says it of external data, so that onnxruntime finds them: in memory, in
files beside the model, or in the model's own file.
"""

import math
import os
from collections.abc import Iterable
from typing import BinaryIO

from onnx import ModelProto, TensorProto, helper

from seqcore.onnx._model.tensors import one_line

# Larger constants are weights: nothing is decided by their numbers.
MOST_NUMBERS = 4096
# Weights of more bytes than this are not held in two sessions, nor longer than one needs them.
HEAVY = 1 << 20
# So many bytes of a tensor are looked for in a file, before all of them are compared, and so often.
_NEEDLE, _CHUNK, _MOST_COMPARED = 256, 1 << 20, 16
# Types whose numbers have bytes of their own.
_WHOLE_BYTES = frozenset(range(1, 17)) - {TensorProto.STRING}


class Weights:
    """The data of weights, and the files that they are in.

    Attributes
    ----------
    folder : str or None
        The folder of external data.
    buffers : dict of str to bytes
        The location that a tensor names → its data, where they came with the model.
    stubs : dict of str to TensorProto
        By their names, what says of the weights of a model where they are.
    defaults : set of str
        The names of those that are inputs too.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder
        self.buffers: dict[str, bytes] = {}
        self.stubs: dict[str, TensorProto] = {}
        self.defaults: set[str] = set()
        self._ntaken = 0
        self._stamps: dict[str, tuple[int, int]] = {}  # of the files, as they were

    @property
    def nbytes(self) -> int:
        """The size of all of them in bytes."""
        return nbytes_of(self.stubs.values())

    def take(self, tensor: TensorProto) -> TensorProto:
        """Return a tensor that says where its data are, and keep these."""
        weightless = TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
        if tensor.data_location == TensorProto.EXTERNAL:
            weightless.external_data.extend(tensor.external_data)
        else:
            location = f"seqcore/weights/{self._ntaken}"
            self._ntaken += 1
            self.buffers[location] = tensor.raw_data
            _say_where(weightless, location, 0, len(self.buffers[location]))
        weightless.data_location = TensorProto.EXTERNAL
        return weightless

    def leave_in(self, path: str) -> None:
        """Let go of large ones that lie in the file of the model: who needs them reads them there."""
        if self.nbytes < HEAVY:
            return
        at = 0
        with open(path, "rb") as file:
            for tensor in self.stubs.values():
                location = location_of(tensor)
                raw = self.buffers.get(location)
                # They stand there in the order of the message, as they are.
                if raw is not None and (found := _place_of(raw, file, at)) is not None:
                    at = found + len(raw)
                    del tensor.external_data[:]
                    _say_where(tensor, os.path.basename(path), found, len(raw))
                    del self.buffers[location]

    def keep_only(self, names: set[str]) -> None:
        """Release the data of all tensors except some."""
        kept = {location_of(self.stubs[name]) for name in names if name in self.stubs}
        self.buffers = {location: raw for location, raw in self.buffers.items() if location in kept}

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
        raw = self.buffers.get(location_of(tensor))
        if raw is None:
            raw = self._read(tensor)
        full.raw_data = raw
        full.ClearField("data_location")
        del full.external_data[:]
        return full

    def _read(self, tensor: TensorProto) -> bytes:
        self.check_files([tensor])
        said = {one.key: one.value for one in tensor.external_data}
        try:
            with open(self._path_of(tensor), "rb") as file:
                file.seek(int(said.get("offset", 0)))
                raw = file.read(int(said["length"])) if "length" in said else file.read()
        except (OSError, ValueError) as error:
            raise ValueError(f"the model's external data can't be read: {one_line(error)}") from error
        expected = nbytes_of([tensor])
        if len(raw) != expected and tensor.data_type in _WHOLE_BYTES:
            raise ValueError(
                f"the model's external data can't be read: '{tensor.name}' has {len(raw)} bytes, "
                f"not {expected}"
            )
        return raw

    def filled_model(self, model: ModelProto, *, with_files: bool = True) -> ModelProto:
        """Return a message with the data of its weights, in it; those in files may stay there."""
        for tensor in model.graph.initializer:
            is_outside = tensor.data_location == TensorProto.EXTERNAL
            if is_outside and (with_files or location_of(tensor) in self.buffers):
                tensor.CopyFrom(self.filled(tensor))
        return model

    def _path_of(self, tensor: TensorProto) -> str:
        """Return the path of a tensor's file, which a model may not have elsewhere than in its folder."""
        if self.folder is None:
            raise ValueError("the model has external data: pass its path instead of its bytes")
        location = location_of(tensor)
        within = os.path.normpath(location)
        if not location or os.path.isabs(location) or within.split(os.sep)[0] == os.pardir:
            raise ValueError(
                f"the model is not valid: '{tensor.name}' has its data at '{location}', outside of its folder"
            )
        return os.path.join(self.folder, within)

    def check(self) -> None:
        """Raise ValueError where a tensor's data are in a file that isn't there; remember the files."""
        for tensor in self.stubs.values():
            if location_of(tensor) not in self.buffers:
                path = self._path_of(tensor)
                if not os.path.isfile(path):
                    raise ValueError(f"the model's external data can't be read: there is no file {path}")
                self._stamps[path] = _stamp_of(path)

    def check_files(self, tensors: Iterable[TensorProto]) -> None:
        """Raise ValueError if a file has changed since the model was loaded."""
        for path in {self._path_of(one) for one in tensors if location_of(one) not in self.buffers}:
            if not os.path.isfile(path) or self._stamps.get(path) != _stamp_of(path):
                raise ValueError(f"the file {path} was changed since the model was loaded, or is gone")

    def for_onnxruntime(self, model: ModelProto) -> str:
        """Have a message name files as onnxruntime takes them; return the folder that they are relative to.

        It follows no symbolic link that leads out of the folder. Caches of models consist of such.
        """
        outside = [one for one in model.graph.initializer if one.external_data]
        outside = [one for one in outside if location_of(one) not in self.buffers]
        if not outside:
            return ""
        self.check_files(outside)
        real = [os.path.realpath(self._path_of(one)) for one in outside]
        folder = os.path.commonpath([os.path.dirname(path) for path in real])
        for tensor, path in zip(outside, real, strict=True):
            for one in tensor.external_data:
                if one.key == "location":
                    one.value = os.path.relpath(path, folder)
        return folder


def _place_of(raw: bytes, file: BinaryIO, start: int) -> int | None:
    """Return where bytes stand in a file, from a place on; None where they don't, or much is like them."""
    needle = raw[:_NEEDLE]
    ncompared = 0
    file.seek(start)
    window = b""
    while chunk := file.read(_CHUNK):
        window += chunk
        found = window.find(needle)
        if found < 0:
            gone = max(len(window) - len(needle) + 1, 0)
            start, window = start + gone, window[gone:]
            continue
        start += found
        file.seek(start)
        if all(file.read(_CHUNK)[: len(raw) - i] == raw[i : i + _CHUNK] for i in range(0, len(raw), _CHUNK)):
            return start
        ncompared += 1
        if ncompared == _MOST_COMPARED:
            break  # zeros among zeros, say
        start += 1
        file.seek(start)
        window = b""
    return None


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


def without_weights(
    model: ModelProto, folder: str | None, path: str | None = None
) -> tuple[ModelProto, Weights]:
    """Return a message of its own memory without weights, and these. Their names are inputs of its graph.

    Of a model from a path, large ones are left in the file.

    So onnx's checker and its inference, which want to see no data, know their types.
    """
    weights = Weights(folder)
    weightless = ModelProto()
    for source, target, kept in (
        (model, weightless, "graph"),
        (model.graph, weightless.graph, "initializer"),
    ):
        for field, value in source.ListFields():
            if field.name == kept:
                continue
            if hasattr(value, "extend"):
                getattr(target, field.name).extend(value)
            elif hasattr(value, "CopyFrom"):
                getattr(target, field.name).CopyFrom(value)
            else:
                setattr(target, field.name, value)
    fed = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if not is_weight(tensor):
            weightless.graph.initializer.add().CopyFrom(tensor)
            continue
        weights.stubs[tensor.name] = weights.take(tensor)
        if tensor.name in fed:
            weights.defaults.add(tensor.name)
        else:
            value = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            weightless.graph.input.append(value)
    if path is not None:
        weights.leave_in(path)
    return weightless, weights


def is_weight(tensor: TensorProto) -> bool:
    """Return whether a tensor's data are left aside."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return True
    return math.prod(tensor.dims) > MOST_NUMBERS and tensor.HasField("raw_data")
