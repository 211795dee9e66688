"""What the export scripts share: they register modules, export them, and keep what PyTorch answers.

The feeds come from `tests/support/models/exported.py`, and so do the dynamic axes: an axis whose length
depends on the size.
"""

import inspect
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1]))

from support.models.exported import MODELS, flat  # noqa: E402  (it is found by now)

OPSET = 17
MODULES = {}  # a model's name → the module's class
ONNX_MODELS = {}  # a model's name → a function that makes a ModelProto


def snake(name):
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def module(made):
    """Register a module under its name in snake case."""
    MODULES[snake(made.__name__)] = made
    return made


def onnx_model(make):
    """Register a function that returns a model, under its name."""
    ONNX_MODELS[make.__name__] = make
    return make


def build(made):
    """An instance with seeded weights."""
    torch.manual_seed(len(made.__name__))
    return made().eval()


def tensors(feed, names):
    """A feed as a module's arguments; what it should be, an int or a tensor, the annotations don't say."""
    return tuple(
        [torch.from_numpy(one.copy()) for one in feed[name]]
        if isinstance(feed[name], list)
        else torch.from_numpy(np.array(feed[name]))
        for name in names
    )


def arrays(value):
    """A module's result as a list of arrays, and lists of arrays."""

    def plain(one):
        return [plain(inner) for inner in one] if isinstance(one, list | tuple) else np.asarray(one)

    return [plain(one) for one in value] if isinstance(value, tuple) else [plain(value)]


def dynamic_axes(one, names):
    """Axes whose lengths differ between feeds of two sizes, or between a list's elements."""
    small, large = one.example(5), one.example(16)
    axes = {}
    for name in names:
        found = [*small[name], *large[name]] if isinstance(small[name], list) else [small[name], large[name]]
        lengths = enumerate(zip(*(array.shape for array in found), strict=True))
        if changing := {axis: f"{name}_{axis}" for axis, these in lengths if len({*these}) > 1}:
            axes[name] = changing
    return axes


def export(name):
    """Export a module through TorchScript, or by torch.export, as the list of models says."""
    one, used = MODELS[name], build(MODULES[name])
    names = list(inspect.signature(used.forward).parameters)
    arguments = tensors(one.example(5), names)
    axes = dynamic_axes(one, names)
    options = {"input_names": names, "opset_version": OPSET, "dynamo": one.exporter == "dynamo"}
    if options["dynamo"]:
        shapes = {key: dict.fromkeys(axes.get(key, {}), torch.export.Dim.DYNAMIC) for key in names}
        options |= {"dynamic_shapes": shapes, "opset_version": 18, "external_data": False, "verbose": False}
    else:
        used = torch.jit.script(used)
        options["dynamic_axes"] = axes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(used, arguments, str(FOLDER / f"{name}.onnx"), **options)
    strip(name)


def strip(name):
    """Take out what only debuggers read, and paths of whoever exported: it's most of a small file."""
    path = FOLDER / f"{name}.onnx"
    proto = onnx.load(path)

    def clean(nodes):
        for node in nodes:
            node.doc_string = ""
            del node.metadata_props[:]
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    clean(graph.node)
                    for value in (*graph.value_info, *graph.input, *graph.output):
                        del value.metadata_props[:]

    clean(proto.graph.node)
    for function in proto.functions:
        function.doc_string = ""
        clean(function.node)
    for value in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        del value.metadata_props[:]
    del proto.metadata_props[:]
    del proto.graph.metadata_props[:]
    onnx.save(proto, path)


def keep_answers(name):
    """Store feeds of small sizes with PyTorch's own results."""
    one, used = MODELS[name], build(MODULES[name])
    names = list(inspect.signature(used.forward).parameters)
    stored = {}
    for k, n in enumerate(sorted({one.least, max(one.least, 1), 5})):
        feed = one.example(n, seed=1)
        with torch.no_grad():
            results = arrays(used(*tensors(feed, names)))
        stored |= flat(k, feed, results)
    np.savez_compressed(FOLDER / f"{name}.npz", **stored)


def main():
    """Export all that is registered, or what the command line names."""
    chosen = sys.argv[1:] or [*MODULES, *ONNX_MODELS]
    for name in chosen:
        path = FOLDER / f"{name}.onnx"
        if name in MODULES:
            export(name)
            keep_answers(name)
        else:
            onnx.save(ONNX_MODELS[name](), path)
        onnx.checker.check_model(path)  # a full check counts on PyTorch's shapes, which may be wrong
        print(f"{path.name:32}{path.stat().st_size:6} bytes")
