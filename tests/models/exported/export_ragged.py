"""Functions over ragged tensors, by TensorFlow's exporter: its loops count, and put the rows into a list.

Run with TensorFlow 2.21 and tf2onnx 1.17: `python export_ragged.py`.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import tensorflow as tf
import tf2onnx

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1]))

from support.models.exported import MODELS, flat  # noqa: E402  (it is found by now)


def mapped(function, row):
    """What a function makes of each row of a ragged tensor: values, and where rows begin."""

    def ragged_map(x, marks):
        rows = tf.RaggedTensor.from_row_splits(x, marks, validate=False)
        signature = tf.RaggedTensorSpec(row, tf.float32, ragged_rank=0)
        made = tf.map_fn(function, rows, fn_output_signature=signature)
        return made.values, made.row_splits

    return ragged_map


def attention(words):
    return tf.nn.softmax(words @ tf.transpose(words)) @ words


def decay(row):
    """A loop in the loop."""

    def step(i, level, levels):
        level = level * 0.5 + row[i]
        return i + 1, level, levels.write(i, level)

    levels = tf.TensorArray(tf.float32, size=tf.shape(row)[0])
    start = tf.constant(0), tf.zeros([]), levels
    return tf.while_loop(lambda i, level, levels: i < tf.shape(row)[0], step, start)[2].stack()


FUNCTIONS = {
    "tf_softmax": (mapped(tf.nn.softmax, [None]), [None]),
    "tf_attention": (mapped(attention, [None, 8]), [None, 8]),
    "tf_decay": (mapped(decay, [None]), [None]),
}


def export(name):
    """Write a model, and what TensorFlow answers."""
    function, shape = FUNCTIONS[name]
    signature = [tf.TensorSpec(shape, tf.float32, name="x"), tf.TensorSpec([None], tf.int64, name="marks")]
    used, path = tf.function(function, input_signature=signature), FOLDER / f"{name}.onnx"
    proto, _ = tf2onnx.convert.from_function(used, input_signature=signature, opset=17)
    proto.doc_string = ""
    onnx.save(proto, path)
    stored = {}
    for k, n in enumerate((1, 5)):
        feed = MODELS[name].example(n, seed=1)
        stored |= flat(k, feed, [one.numpy() for one in used(*map(tf.constant, feed.values()))])
    np.savez_compressed(path.with_suffix(".npz"), **stored)
    print(f"{path.name:32}{path.stat().st_size:6} bytes")


for name in FUNCTIONS:
    export(name)
