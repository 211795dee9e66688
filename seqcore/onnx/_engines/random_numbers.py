"""Random numbers: a session draws one stream of them, as onnxruntime's does.

A generator belongs to a node in a session of onnxruntime and begins anew with it. So a model that draws runs
on one engine only, and each node gets a seed of its own: onnxruntime takes the node's number in its session,
which is the same in several parts of a model.
"""

from __future__ import annotations

import random

from onnx import parser

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of
from seqcore.onnx._runtimes.sessions import single_threaded_session

# A seed is a float32: up to here all integers are.
_SEEDS = 1 << 24


def drawing_nodes(prepared: Prepared) -> list[Node]:
    """Return the nodes of a model that draw random numbers."""
    return [node for node in prepared.model.graph.all_nodes() if _draws(node, prepared)]


def _draws(node: Node, prepared: Prepared) -> bool:
    if node.is_op("Dropout"):
        training = node.input(2)
        return bool(training) and prepared.condition(training) is not False
    return record_of(node).draws


def give_seeds(nodes: list[Node]) -> None:
    """Give a seed to each node without one; `onnxruntime.set_seed` decides which."""
    text = (
        '<ir_version: 8, opset_import: ["": 13]> f () => (float[1] y) { y = RandomUniform <shape = [1]> () }'
    )
    (drawn,) = single_threaded_session(parser.parse_model(text).SerializeToString()).run(None, {})
    generator = random.Random(float(drawn[0]))
    for node in nodes:
        if node.attribute("seed") is None:
            seed = generator.randrange(_SEEDS)
            node.set_attribute("seed", seed if node.is_op("Dropout") else float(seed))
