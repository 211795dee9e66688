"""Runs Splits whose outputs have no names, in a process of its own: onnxruntime (1.32) ends it there."""

import numpy as np
from support.models.sessions import model, reference

from seqcore.onnx import GraphBody, InferenceSession, lower

PLAIN = "f (float[8] x) => (float[2] y) { y, p, q, r = Split <num_outputs = 4> (x) }"
LISTS = """
    f (float[8] x) => (float[2] y, seq(float[]) s) {
        y, p, q, r = Split <num_outputs = 4> (x)
        s = SplitToSequence (x)
    }
"""
MAP = """
    f (float[N, 8] x) => (float[M, 2] y) {
        s = SplitToSequence <keepdims = 0> (x)
        t = SequenceMap (s) <body = b (float[8] z) => (float[2] u) {
            u, p, q, r = Split <num_outputs = 4> (z)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (t)
    }
"""
X = np.arange(8, dtype=np.float32)


def nameless(text):
    given = model(text, 18)
    graphs = [given.graph, *(one.g for node in given.graph.node for one in node.attribute)]
    (split,) = [node for graph in graphs for node in graph.node if node.op_type == "Split"]
    split.output[1:] = ["", "", ""]
    return given


def results(kind):
    if kind == "body":
        yield GraphBody(nameless(PLAIN))(X)
        return
    if kind == "lowered":
        yield reference(lower(nameless(LISTS))).run(["y"], {"x": X})[0]
        return
    used = InferenceSession(nameless({"plain": PLAIN, "lists": LISTS, "map": MAP}[kind]))
    for n in (1, 1, 1, 1, 600):
        yield used.run(["y"], {"x": np.stack([X] * n) if kind == "map" else X})[0].reshape(-1)[:2]


if __name__ == "__main__":
    for kind in ("plain", "lists", "body", "map", "lowered"):
        print(kind, *{str(result) for result in results(kind)}, flush=True)
