"""Loading: a model in any of its forms becomes a small message and its weights, which nobody looks into.

    path, bytes or ModelProto ──▶ message without weights ──▶ checks, normal form, passes
                             └──▶ weights: bytes by name  ───────────────────────────────▶ sessions

Weights are the tensors with more numbers than anything is decided by, and those in files of their own. The
small message says where they are as ONNX says it of external data, so that onnxruntime finds them.
"""

import math
import os
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, ModelProto, TensorProto, helper

from seqcore.onnx._model.tensors import one_line

# Larger constants are weights: nothing is decided by their numbers.
MOST_NUMBERS = 4096
# Weights of more bytes than this are not held in two sessions, nor longer than one needs them.
HEAVY = 1 << 20


class Weights:
    """Where the data of weights are.

    Attributes
    ----------
    folder : str or None
        What external data are relative to.
    buffers : dict of str to bytes
        The location that a tensor names → its data, where they came with the model.
    stubs : dict of str to TensorProto
        By their names, what says of the weights of a model where they are.
    defaults : set of str
        The names of those that are inputs too.
    nbytes : int
        Of all that the model has.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder
        self.buffers: dict[str, bytes] = {}
        self.stubs: dict[str, TensorProto] = {}
        self.defaults: set[str] = set()

    @property
    def nbytes(self) -> int:
        return sum(math.prod(one.dims) * _itemsize(one) for one in self.stubs.values())

    def take(self, tensor: TensorProto) -> TensorProto:
        """Return a tensor that says where its data are, and keep these."""
        hollow = TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)
        if tensor.data_location == TensorProto.EXTERNAL:
            hollow.external_data.extend(tensor.external_data)
        else:
            location = f"seqcore/weights/{len(self.buffers)}"
            self.buffers[location] = tensor.raw_data
            length = str(len(self.buffers[location]))
            for key, value in (("location", location), ("offset", "0"), ("length", length)):
                hollow.external_data.add(key=key, value=value)
        hollow.data_location = TensorProto.EXTERNAL
        return hollow

    def filled(self, tensor: TensorProto) -> TensorProto:
        """Return a tensor with its data.

        Raises
        ------
        ValueError
            If they are in a file that can't be read.
        """
        if tensor.data_location != TensorProto.EXTERNAL:
            return tensor
        full = TensorProto()
        full.CopyFrom(tensor)
        raw = self.buffers.get(location_of(tensor))
        if raw is None:
            folder = self._checked_folder()
            try:
                onnx.external_data_helper.load_external_data_for_tensor(full, folder)
            except (OSError, ValueError, onnx.checker.ValidationError) as error:
                raise ValueError(f"the model's external data can't be read: {one_line(error)}") from error
        else:
            full.raw_data = raw
        full.ClearField("data_location")
        del full.external_data[:]
        return full

    def filled_model(self, model: ModelProto, *, with_files: bool = True) -> ModelProto:
        """Return a message with the data of its weights, in it; those in files may stay there."""
        for tensor in model.graph.initializer:
            is_outside = tensor.data_location == TensorProto.EXTERNAL
            if is_outside and (with_files or location_of(tensor) in self.buffers):
                tensor.CopyFrom(self.filled(tensor))
        return model

    def _checked_folder(self) -> str:
        if self.folder is None:
            raise ValueError("the model keeps data in files beside it: give its path")
        return self.folder

    def check(self) -> None:
        """Raise ValueError where the data of weights are in a file that isn't there."""
        for tensor in self.stubs.values():
            if location_of(tensor) not in self.buffers:
                path = os.path.join(self._checked_folder(), location_of(tensor))
                if not os.path.isfile(path):
                    raise ValueError(f"the model's external data can't be read: there is no file {path}")


def _itemsize(tensor: TensorProto) -> int:
    try:
        return helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except KeyError:  # of a type that only the next version knows
        return 1


def location_of(tensor: TensorProto) -> str:
    """Return the location that a tensor with external data names."""
    return next((one.value for one in tensor.external_data if one.key == "location"), "")


def parse(model: Any) -> ModelProto:
    """Return a model as a ModelProto, its external data left where they are.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike

    Raises
    ------
    ValueError
        If the bytes or the file are no model.
    TypeError
        If `model` is none of these.
    FileNotFoundError
        If there is no file at the path.
    """
    if isinstance(model, ModelProto):
        return model
    if isinstance(model, bytes | bytearray | memoryview):
        data, what = bytes(model), "the bytes"
    elif isinstance(model, str | os.PathLike):
        what = path_of(model)
        with open(what, "rb") as file:
            data = file.read()
    else:
        raise TypeError(f"a model is a path, bytes or a ModelProto, not {type(model).__name__}")
    try:
        loaded = ModelProto.FromString(data)
    except DecodeError as error:
        raise ValueError(f"{what} can't be read as an ONNX model: {one_line(error)}") from error
    if not loaded.HasField("graph"):
        raise ValueError(f"{what} can't be read as an ONNX model: there is no graph in it")
    return loaded


def path_of(model: Any) -> str:
    """Return a path as a str, whatever bytes it consists of."""
    return os.fsdecode(os.fspath(model))


def folder_of(model: Any) -> str | None:
    """Return the folder that a model's external data are relative to, None where there is none."""
    if isinstance(model, str | os.PathLike):
        return os.path.dirname(os.path.abspath(path_of(model)))
    return None


def without_weights(model: ModelProto, folder: str | None) -> tuple[ModelProto, Weights]:
    """Return a message of its own memory without weights, and these. Their names are inputs of its graph.

    So onnx's checker and its inference, which want to see no data, know their types.
    """
    weights = Weights(folder)
    hollow = ModelProto()
    for source, target, kept in ((model, hollow, "graph"), (model.graph, hollow.graph, "initializer")):
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
            hollow.graph.initializer.add().CopyFrom(tensor)
            continue
        weights.stubs[tensor.name] = weights.take(tensor)
        if tensor.name in fed:
            weights.defaults.add(tensor.name)
        else:
            value = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            hollow.graph.input.append(value)
    return hollow, weights


def is_weight(tensor: TensorProto) -> bool:
    """Return whether a tensor's data are left aside."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return True
    return math.prod(tensor.dims) > MOST_NUMBERS and tensor.HasField("raw_data")


def operators_of(model: ModelProto) -> set[tuple[str, str]]:
    """Return the operators of a message in all depths, as pairs of domain and name."""
    found = set()
    todo = [model.graph, *model.functions]
    while todo:
        for node in todo.pop().node:
            found.add((node.domain, node.op_type))
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    todo.append(attribute.g)
                elif attribute.type == AttributeProto.GRAPHS:
                    todo += attribute.graphs
    return found
