"""The models in `tests/models/exported`: of which family, by which exporter, and what to feed them.

A size is about the length of a model's lists. The scripts beside the models make them from these feeds too.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[2] / "models" / "exported"
SIZES = {"short": 4, "middle": 32, "long": 512}
MODELS = {}  # a model's name → what is known of it


@dataclass(frozen=True)
class Exported:
    """A model. Its feed is made by a function for each input, of a size and a generator.

    `least` is the smallest size that the model allows, `sizes` those that it is measured at.
    """

    name: str
    family: str
    exporter: str
    inputs: dict
    least: int
    sizes: dict

    @property
    def path(self):
        return FOLDER / f"{self.name}.onnx"

    def feed(self, n, rng):
        return {key: make(n, rng) for key, make in self.inputs.items()}

    def example(self, n, seed=0):
        return self.feed(n, np.random.default_rng(seed))


def add(family, name, least=0, exporter="torchscript", long=SIZES["long"], **inputs):
    MODELS[name] = Exported(name, family, exporter, inputs, least, SIZES | {"long": long})


def lengths_of(shape, n):
    """A shape, where None stands for the size and -2 for twice as many."""
    return [n if length is None else length if length >= 0 else -length * n for length in shape]


def floats(*shape, scale=1.0, at=0.0):
    def make(n, rng):
        return (rng.standard_normal(lengths_of(shape, n)) * scale + at).astype(np.float32)

    return make


def doubles(*shape):
    return lambda n, rng: rng.standard_normal(lengths_of(shape, n))


def shares(*shape):
    """Numbers between 0 and 1, all different."""

    def make(n, rng):
        shape_now = lengths_of(shape, n)
        count = int(np.prod(shape_now))
        return ((rng.permutation(count) + 0.5) / max(count, 1)).astype(np.float32).reshape(shape_now)

    return make


def whole(*shape, below, least=0):
    return lambda n, rng: rng.integers(least, below, lengths_of(shape, n))


def number(value):
    return lambda n, rng: np.array(value)


def size(n, rng):
    return np.array(n)


def ramp(n, rng):
    """Sorted rows, by their first number."""
    rows = rng.standard_normal((n, 4)).astype(np.float32)
    rows[:, 0] = np.sort(rows[:, 0])
    return rows


def boxes(*shape, dtype=np.float32):
    """Boxes within 32 by 32, at least 2 wide and high: left, top, right, bottom."""

    def make(n, rng):
        corners = rng.integers(0, 20, [*lengths_of(shape, n), 2])
        return np.concatenate([corners, corners + rng.integers(2, 12, corners.shape)], -1).astype(dtype)

    return make


def parts(*shape, most=4):
    """A list of as many tensors as the size, whose first axis differs."""
    return lambda n, rng: [
        rng.standard_normal((rng.integers(1, most + 1), *shape)).astype(np.float32) for _ in range(n)
    ]


def vectors(width):
    return lambda n, rng: [rng.standard_normal(width).astype(np.float32) for _ in range(n)]


def places(n, rng):
    return rng.integers(0, max(n, 1), n)


def real_size(n, rng):
    return np.array(n, np.float32)


def tree(n, rng):
    """Of n nodes above n leaves, which two earlier ones each joins."""
    return np.array([rng.integers(0, n + k, 2) for k in range(n)], np.int64).reshape(n, 2)


def links(n, rng):
    """A graph in which each node leads to the next two, and to some by chance."""
    edges = (rng.random((n, n)) < 0.5 / max(n, 1)).astype(np.float32)
    for k in range(n):
        edges[k, [(k + 1) % n, (k + 2) % n]] = 1
    return edges


def pyramid(n, rng):
    return [floats(2, 16 >> k, 16 >> k)(n, rng) for k in range(3)]


def images(n, rng):
    return [rng.random((2, rng.integers(3, 9), rng.integers(3, 9)), np.float32) for _ in range(n)]


def sentences(*width, below=0):
    """Three words for each sentence on average: the lengths in `lengths` add up to it."""
    if below:
        return whole(-3, below=below)
    return floats(-3, *width)


def lengths(n, rng):
    """From 1 to 5, three on average."""
    steps = rng.integers(-2, 3, (n + 1) // 2)
    return 3 + np.stack([steps, -steps], 1).reshape(-1)[:n] * (np.arange(n) < n // 2 * 2)


def marks(n, rng):
    """Where the parts of `lengths` begin, and the end of the last."""
    return np.concatenate([[0], np.cumsum(lengths(n, rng))]).astype(np.int64)


x8 = {"x": floats(None, 8)}

add("queues", "queue_delays", least=1, **x8)
add("queues", "breadth_first", least=1, long=64, edges=links, start=number(0))
add("queues", "stack_machine", least=1, codes=whole(None, below=3), rows=floats(None, 4, scale=1e-3))
add("queues", "ring_buffer", least=1, **x8)
add("queues", "merge_sorted", least=1, long=256, a=ramp, b=ramp)
add("queues", "replay_memory", least=1, room=number(16), **x8)

add("decoders", "greedy_gru", least=1, state=floats(8), start=number(3), limit=size)
add("decoders", "kv_cache", least=1, **x8)
add("decoders", "kv_layers", least=1, **x8)
add("decoders", "ctc_collapse", logits=floats(None, 6))
add("decoders", "pointer_decoder", least=1, **x8)
add("decoders", "nucleus", least=1, logits=floats(None), p=number(np.float32(0.9)))
add("decoders", "speculative", least=1, draft=whole(None, below=12), start=number(1))
add("decoders", "cross_attention", least=1, source=floats(None, 8), steps=size)

add("beams", "beam_search", table=floats(10, 10), steps=size)
add("beams", "beam_backpointers", least=1, scores=shares(None, 4, 6))
add("beams", "finished_beams", table=floats(10, 10), first=whole(None, below=10), limit=number(6))
add("beams", "viterbi", least=1, emissions=floats(None, 5))

add("windows", "sliding_means", least=2, x=floats(-2, 8))
add("windows", "rolling_states", least=1, **x8)
add("windows", "overlap_add", least=1, frames=floats(None, 6))
add("windows", "while_windows", least=4, x=floats(None, 8), width=number(4))
add("windows", "delta_features", least=1, **x8)
add("windows", "moving_median", least=1, x=floats(None), width=number(7))
add("windows", "conv_stream", least=1, x=floats(2, -4))

image = {"image": floats(3, 32, 32), "boxes": boxes(None, dtype=np.int64)}
add("crops", "resized_crops", least=1, **image)
add("crops", "padded_crops", least=1, image=floats(32, 32), boxes=boxes(None, dtype=np.int64))
add(
    "crops",
    "line_strips",
    page=floats(1, 32, 48, scale=50, at=128),
    tops=whole(None, below=28),
    lefts=whole(None, below=20),
    rights=whole(None, least=20, below=48),
)
add("crops", "tiles", least=4, image=floats(2, 16, None))
add("crops", "stitched", least=1, tiles=floats(-2, 3, 3), columns=number(2))

add("sentences", "ragged_softmax", least=1, x=sentences(), lengths=lengths)
add("sentences", "ragged_attention", least=1, x=sentences(8), lengths=lengths)
add("sentences", "sentence_means", least=1, tokens=sentences(below=20), lengths=lengths)
add("sentences", "split_at_marks", tokens=sentences(below=3))
add("sentences", "sorted_by_length", least=1, x=sentences(4), lengths=lengths)
add("sentences", "span_pooling", least=1, x=floats(40, 8), spans=whole(None, 2, below=40))

add("splits", "unbind_rows", least=1, x=floats(None, 2, 8))
add("splits", "unbind_recurrence", least=1, x=floats(None, 2, 8))
add("splits", "unbind_reversed", least=1, **x8)
add("splits", "unbind_pairs", least=1, x=floats(None, 4), y=floats(None, 4))
add("splits", "unbind_columns", least=1, x=floats(3, None))
add("splits", "unbind_edits", least=1, x=floats(None, 4))
add("splits", "unbind_out", least=1, x=floats(None, 4))
add("splits", "chunk_thirds", least=3, x=floats(None, 4))
add("splits", "split_blocks", least=1, x=floats(-4, 8))
add("splits", "split_block_norms", least=1, x=floats(-2, 4))
add("splits", "chunk_heads", least=1, **x8)
add("splits", "split_pairs", least=1, x=floats(None, 4), y=floats(None, 4))
add("splits", "gated_splits", least=1, x=floats(None, 16), c=floats(4))
add("splits", "window_attention", least=1, x=sentences(8), marks=marks)
add("splits", "repeated_phonemes", least=1, x=floats(None, 8), durations=whole(None, below=5, least=1))
add("splits", "interleaved_rows", least=1, x=floats(None, 8), counts=whole(None, below=5))

add("lists", "list_means", least=1, parts=parts(4))
add("lists", "list_to_list", parts=parts(4), x=floats(4))
add("lists", "list_updates", least=1, x=floats(None, 4))
add("lists", "list_ends", least=2, x=floats(None, 4))
add("lists", "branch_lists", least=1, x=floats(None, 4))
add("lists", "comprehension", least=1, x=floats(None, 4))
add("lists", "reversed_list", x=floats(None, 4))
add("lists", "accumulators", x=floats(None, 4), enough=number(np.float32(100)))
add("lists", "flattened", least=1, x=sentences(4), counts=lengths)
add("lists", "extended", least=1, x=floats(None, 4))
add("lists", "nested_branches", least=1, x=floats(None, 4), signs=whole(None, below=3))
add("lists", "double_states", least=1, x=doubles(None, 4))
add("lists", "bool_masks", least=1, x=whole(None, below=3))
add("lists", "longest_of", least=1, parts=parts(4))
add("lists", "kept_and_rest", x=floats(None, 4), mark=number(np.float32(1)))

add("states", "stacked_lstm", least=1, **x8)
add("states", "bidirectional", least=1, **x8)
add("states", "skip_states", **x8)
add("states", "tree_states", least=1, leaves=floats(None, 8), children=tree)
add("states", "early_exit", x=floats(8), limit=size)
add("states", "batched_gru", least=1, x=floats(None, 2, 4))

detected = {"boxes": boxes(-8), "scores": shares(-8), "counts": lambda n, rng: np.full(n, 8)}
add("detectors", "image_detections", least=1, long=128, **detected)
add("detectors", "class_detections", least=1, boxes=boxes(12), scores=shares(12, None))
add("detectors", "proposals", boxes=boxes(None, 14), scores=shares(None, 14))
add(
    "detectors",
    "level_pooling",
    least=1,
    levels=pyramid,
    boxes=boxes(None),
)
add("detectors", "pasted_masks", least=1, masks=floats(None, 5, 5), boxes=boxes(None, dtype=np.int64))
add("detectors", "tracks", least=1, long=128, boxes=boxes(None), reach=number(np.float32(12)))
add("detectors", "image_batches", least=1, images=images)

splits = {"x": sentences(8), "lengths": lengths}
add("maps", "map_norms", least=1, exporter="text", **splits)
add("maps", "map_resized", least=1, exporter="text", images=images)
add("maps", "map_pairs", least=1, exporter="text", x=floats(None, 4), y=floats(None, 4), w=floats(4))
add("maps", "map_padded", least=1, exporter="text", parts=parts(4))
add("maps", "map_rounds", least=1, exporter="text", states=vectors(4), w=floats(4, 4), rounds=number(5))
add("maps", "map_then_pick", least=1, exporter="text", x=floats(None, 4), order=places)

add("scripts", "script_relu_rows", least=1, exporter="onnxscript", **x8)
add("scripts", "script_softmax_map", least=1, exporter="onnxscript", x=sentences(8), sizes=lengths)
add("scripts", "script_positive_rows", exporter="onnxscript", x=floats(None, 4))
add("scripts", "script_fifo", least=1, exporter="onnxscript", x=floats(None, 4))
add("scripts", "script_fibonacci", exporter="onnxscript", a=floats(4), b=floats(4), limit=real_size)
add("scripts", "script_front_inserts", least=1, exporter="onnxscript", x=floats(None, 4))

add("dynamo", "dynamo_blocks", least=3, exporter="dynamo", x=floats(-4, 8))
add("dynamo", "dynamo_gates", least=2, exporter="dynamo", x=floats(3, -6))
add("dynamo", "dynamo_prefix", least=2, exporter="dynamo", x=floats(-2, 4), y=floats(-2, 4))

add("ragged", "tf_softmax", least=1, exporter="tf2onnx", x=sentences(), marks=marks)
add("ragged", "tf_attention", least=1, exporter="tf2onnx", x=sentences(8), marks=marks)
add("ragged", "tf_decay", least=1, exporter="tf2onnx", long=128, x=sentences(), marks=marks)
# The exporters whose models have answers of the framework.
FRAMEWORKS = ("torchscript", "dynamo", "tf2onnx")


def flat(k, feed, results):
    """The feed and results of a case as named arrays: a list has its length, and its elements' numbers."""
    named = {}
    for kind, values in (("in", feed.items()), ("out", enumerate(results))):
        for key, value in values:
            if isinstance(value, list):
                named[f"{k}/{kind}/{key}/length"] = np.array(len(value))
                named |= {f"{k}/{kind}/{key}/{i}": one for i, one in enumerate(value)}
            else:
                named[f"{k}/{kind}/{key}"] = value
    return named


def answers(one):
    """Feeds and PyTorch's results for them, as they are stored; none for models not made of a module."""
    path = one.path.with_suffix(".npz")
    cases = {}
    if not path.exists():
        return []
    with np.load(path) as stored:
        for name, array in stored.items():
            k, kind, key, *element = name.split("/")
            values = cases.setdefault(k, {"in": {}, "out": {}})[kind]
            if not element:
                values[key] = array
            elif element == ["length"]:
                values[key] = []
            else:
                values[key].append(array)
    return [(case["in"], [*case["out"].values()]) for case in cases.values()]
