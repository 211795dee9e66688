"""The rows about ragged data: selections, values, padding, batches and elementwise bodies."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise

import numpy as np

import seqcore as sq

from .declare import OURS, Limit, Side, case, floats, optional

COUNT = 100_000


def generator():
    return np.random.default_rng(1)


def rows():
    """An array, its rows as a sequence, and as a list."""
    array = floats(COUNT, 8)
    return array, sq.split_to_sequence(array), [array[i : i + 1] for i in range(COUNT)]


# --- select ---


@case("seq[indices] of 100,000 elements in random order", Limit("list comprehension", 1 / 5))
def select():
    _, seq, pieces = rows()
    indices = generator().permutation(COUNT)
    as_list = indices.tolist()
    return {
        OURS: Side(lambda: seq[indices]),
        "list comprehension": Side(lambda: [pieces[i] for i in as_list]),
    }


@case("seq[indices] and values() of 100,000 rows in random order", Limit("array[indices]", 1.5))
def select_values():
    array, seq, _ = rows()
    indices = generator().permutation(COUNT)
    return {
        OURS: Side(lambda: seq[indices].values()),
        "array[indices]": Side(lambda: array[indices, None]),
    }


@case("windows: 1,000,000 of 100,000 elements", Limit("two copies of 1,000,000 offsets", 10))
def windows():
    lengths = generator().integers(1, 20, COUNT)
    seq, offsets = sq.TensorSequence.from_lengths(floats(lengths.sum()), lengths), np.arange(1_000_001)
    return {
        OURS: Side(lambda: seq.windows(1)),
        "two copies of 1,000,000 offsets": Side(lambda: (offsets.copy(), offsets.copy())),
    }


@case("windows of 2 rows of 20,000 separate arrays", Limit("a comprehension of slices", 1.2))
def windows_of_arrays():
    arrays = [floats(length) for length in generator().integers(1, 9, 20_000)]
    seq = sq.TensorSequence(arrays)
    return {
        OURS: Side(lambda: seq.windows(2)),
        "a comprehension of slices": Side(
            lambda: [array[i : i + 2] for array in arrays for i in range(0, len(array), 2)]
        ),
    }


@case("truncate 20,000 separate arrays to 2 rows", Limit("a comprehension of slices", 1.2))
def truncate_arrays():
    arrays = [floats(length) for length in generator().integers(1, 9, 20_000)]
    seq = sq.TensorSequence(arrays)
    return {
        OURS: Side(lambda: seq.truncate(2)),
        "a comprehension of slices": Side(lambda: [array[:2] for array in arrays]),
    }


@case("TensorSequence of 10,000 object arrays of 10 strings", Limit("np.array of each", 2))
def object_arrays():
    words = np.array([f"w{i}" for i in range(100_000)], object)
    arrays = [words[i : i + 10] for i in range(0, len(words), 10)]
    return {
        OURS: Side(lambda: sq.TensorSequence(arrays)),
        "np.array of each": Side(lambda: [np.array(array) for array in arrays]),
    }


@case("tolist() of 100,000 x 1 to 19 float32", Limit("slices of values().tolist()", 1.2))
def as_lists():
    lengths = generator().integers(1, 20, COUNT)
    seq = sq.TensorSequence.from_lengths(floats(lengths.sum()), lengths)

    def slices():
        numbers, offsets = seq.values().tolist(), seq.offsets().tolist()
        return [numbers[i:j] for i, j in pairwise(offsets)]

    return {OURS: Side(seq.tolist), "slices of values().tolist()": Side(slices)}


@case("windows of 8: of 500,000 x 1 to 19, shuffled", Limit("two copies of as many offsets", 10))
def windows_of_shuffled():
    lengths = generator().integers(1, 20, 5 * COUNT)
    seq = sq.TensorSequence.from_lengths(floats(lengths.sum()), lengths)[generator().permutation(5 * COUNT)]
    offsets = np.arange(len(seq.windows(8)) + 1)
    return {
        OURS: Side(lambda: seq.windows(8)),
        "two copies of as many offsets": Side(lambda: (offsets.copy(), offsets.copy())),
    }


@case("running sums of 100,000 x 1 to 19 float32", Limit("a loop of np.add.accumulate", 1 / 10))
def running_sums():
    lengths = generator().integers(1, 20, COUNT)
    seq = sq.TensorSequence.from_lengths(floats(lengths.sum()), lengths)
    pieces = [*seq]
    return {
        OURS: Side(lambda: seq.accumulate(np.add)),
        "a loop of np.add.accumulate": Side(lambda: [np.add.accumulate(piece) for piece in pieces]),
    }


@case("the last rows of 100,000 x 1 to 19 float32", Limit("values()[offsets()[1:] - 1]", 1.2))
def last_rows():
    lengths = generator().integers(1, 20, COUNT)
    seq = sq.TensorSequence.from_lengths(floats(lengths.sum()), lengths)
    return {
        OURS: Side(lambda: seq.take_rows(-1)),
        "values()[offsets()[1:] - 1]": Side(lambda: seq.values()[seq.offsets()[1:] - 1]),
    }


@case("del seq[mask] of half of 100,000", Limit("a list comprehension that keeps the others", 1 / 3))
def remove_by_mask():
    array, _, pieces = rows()
    mask = generator().random(COUNT) < 0.5
    marks = mask.tolist()

    def remove(seq):
        del seq[mask]

    return {
        OURS: Side(remove, fresh=lambda: sq.split_to_sequence(array)),
        "a list comprehension that keeps the others": Side(
            lambda: [piece for piece, gone in zip(pieces, marks, strict=True) if not gone]
        ),
    }


# --- values and padding ---


@case("lengths() of 100,000", Limit("np.fromiter(map(len, list))", 1 / 10))
def lengths():
    _, seq, pieces = rows()
    return {
        OURS: Side(seq.lengths),
        "np.fromiter(map(len, list))": Side(lambda: np.fromiter(map(len, pieces), np.int64, COUNT)),
    }


@case(
    "to_padded of 10,000 x 1 to 19 x 8 float32",
    Limit("torch's pad_sequence", 1 / 15),
    Limit("a loop over a list", 1 / 4),
    Limit("memory copy of the batch", 4),
)
def pad():
    lengths = generator().integers(1, 19, 10_000, endpoint=True)
    seq = sq.TensorSequence.from_lengths(floats(lengths.sum(), 8), lengths)
    batch = seq.to_padded()
    arrays = [element.copy() for element in seq]

    def loop():
        padded = np.zeros((len(arrays), max(map(len, arrays)), 8), np.float32)
        for row, one in zip(padded, arrays, strict=True):
            row[: len(one)] = one
        return padded

    sides = {
        OURS: Side(seq.to_padded),
        "a loop over a list": Side(loop),
        "memory copy of the batch": Side(batch.copy),
    }
    if torch := optional("torch"):
        tensors = [torch.from_numpy(one) for one in arrays]
        pad_sequence = torch.nn.utils.rnn.pad_sequence
        sides["torch's pad_sequence"] = Side(lambda: pad_sequence(tensors, batch_first=True))
    return sides


# --- reductions ---


def summed(arrays):
    return [array.sum() for array in arrays]


@case(
    "reduce(np.add) of 100,000 x 1 to 19 float32",
    Limit("np.add.reduceat", 1.5),
    Limit("list comprehension", 1 / 100),
    Limit("awkward's ak.sum", 1.5),
    most_rounds=11,
)
def reduce():
    lengths = generator().integers(1, 19, COUNT, endpoint=True)
    seq = sq.TensorSequence.from_lengths(floats(lengths.sum()), lengths)
    values, begins, arrays = seq.values(), seq.offsets()[:-1], list(seq)
    sides = {
        OURS: Side(lambda: seq.reduce(np.add)),
        "np.add.reduceat": Side(lambda: np.add.reduceat(values, begins)),
        "list comprehension": Side(lambda: summed(arrays)),
    }
    if ak := optional("awkward"):
        array = ak.unflatten(values, lengths)
        sides["awkward's ak.sum"] = Side(lambda: ak.sum(array, axis=1))
    return sides


# --- packing ---


def pack_in_python(lengths, capacity):
    """Best fit decreasing over a tree of the spaces that packs have, as TRL and others do."""
    leaves = 1 << capacity.bit_length()
    tree = [0] * (2 * leaves)  # the largest space that occurs below each node
    packs = {space: [] for space in range(capacity + 1)}  # with that space
    done = []

    def set_leaf(space, value):
        at = leaves + space
        tree[at] = value
        while at > 1:
            at //= 2
            tree[at] = max(tree[2 * at], tree[2 * at + 1])

    def least(length):
        """Find the least space from `length` on."""
        at = leaves + length
        if tree[at]:
            return length
        while at > 1 and (at % 2 or not tree[at + 1]):
            at //= 2
        if at == 1:
            return None
        at += 1
        while at < leaves:
            at = 2 * at if tree[2 * at] else 2 * at + 1
        return at - leaves

    for i in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        length = lengths[i]
        space = least(length)
        if space is None:
            pack, space = [], capacity
            done.append(pack)
        else:
            pack = packs[space].pop()
            if not packs[space]:
                set_leaf(space, 0)
        pack.append(i)
        if space > length:
            packs[space - length].append(pack)
            set_leaf(space - length, space - length)
    return done


@case(
    "pack 100,000 lengths of 1 to 2,048 by best fit",
    Limit("best fit in Python, over a tree of spaces", 1 / 50),
    most_rounds=5,
)
def pack():
    lengths = np.clip(generator().lognormal(5.5, 1, COUNT).astype(np.int64), 1, 2048)
    as_list = lengths.tolist()
    assert len(sq.pack(lengths, 2048)) <= len(pack_in_python(as_list, 2048))
    return {
        OURS: Side(lambda: sq.pack(lengths, 2048), noperations=COUNT),
        "best fit in Python, over a tree of spaces": Side(
            lambda: pack_in_python(as_list, 2048), noperations=COUNT
        ),
    }


# --- maps ---


@case(
    "sequence_map(np.sqrt) over 100,000 x 8 float32",
    Limit("list comprehension", 1 / 10, aim=1 / 30),
    most_rounds=7,
)
def map_ufunc():
    _, seq, pieces = rows()
    return {
        OURS: Side(lambda: sq.sequence_map(np.sqrt, seq), noperations=COUNT),
        "list comprehension": Side(lambda: [np.sqrt(piece) for piece in pieces], noperations=COUNT),
    }


@case("sequence_map(np.sqrt) over 10,000 images of 1 to 19 by 1 to 19", Limit("list comprehension", 1))
def map_ufunc_over_images():
    extents = generator().integers(1, 19, (10_000, 2), endpoint=True)
    images = [floats(*shape) for shape in extents.tolist()]
    seq = sq.TensorSequence(images)
    return {
        OURS: Side(lambda: sq.sequence_map(np.sqrt, seq), noperations=len(images)),
        "list comprehension": Side(lambda: [np.sqrt(image) for image in images], noperations=len(images)),
    }


@case(
    "map_batches(np.sqrt) over 100,000 x 8 float32", Limit("the ufunc on the whole array, and a split", 1.5)
)
def map_batches():
    array, seq, _ = rows()
    return {
        OURS: Side(lambda: sq.map_batches(np.sqrt, seq), noperations=COUNT),
        "the ufunc on the whole array, and a split": Side(
            lambda: sq.split_to_sequence(np.sqrt(array)), noperations=COUNT
        ),
    }


def map_graph(arrays):
    """Measure a SequenceMap of an elementwise graph: onnxruntime's, and ours on one thread."""
    ort, onnx = optional("onnxruntime"), optional("onnx")
    if not (ort and onnx):
        return {}
    from seqcore.onnx import GraphBody

    body = "scaled (float[n] x, float[n] y) => (float[n] z) { s = Mul(x, y) z = Add(s, x) }"
    mapped = "z = SequenceMap (x, y) <body = " + body + ">"
    header = '<ir_version: 8, opset_import: ["": 17]>'
    model = onnx.parser.parse_model(
        f"{header} map (seq(float[n]) x, seq(float[n]) y) => (seq(float[n]) z) {{ {mapped} }}"
    )
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ours, seq, count = (
        GraphBody(onnx.parser.parse_graph(body), {"": 17}),
        sq.TensorSequence(arrays),
        len(arrays),
    )
    return {
        OURS: Side(lambda: sq.sequence_map(ours, seq, seq), noperations=count),
        "onnxruntime": Side(lambda: session.run(None, {"x": arrays, "y": arrays}), noperations=count),
    }


@case(
    "SequenceMap of Mul and Add over 10,000 x 8 float32",
    Limit("onnxruntime", 500, aim=3_000, at_least=True),
    most_rounds=5,
)
def map_graph_over_rows():
    return map_graph([row.copy() for row in floats(10_000, 8)])


@case(
    "SequenceMap of Mul and Add over 10,000 x 1 to 15 float32",
    Limit("onnxruntime", 500, aim=3_000, at_least=True),
    most_rounds=5,
)
def map_graph_over_ragged():
    lengths = generator().integers(1, 15, 10_000, endpoint=True)
    return map_graph([floats(length) for length in lengths.tolist()])


# --- what travels ---


def look_up(position, table):
    time.sleep(1e-3)
    return table[int(position)]


@case(
    "map over 1,000 x 1 ms with a table of 100 MB, two processes",
    Limit("serial", 0.8),
    most_rounds=3,
)
def map_with_table():
    seq, table = sq.split_to_sequence(np.arange(1_000), keepdims=0), np.ones(12_500_000)
    processes = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))
    sq.sequence_map(look_up, seq[:8], table[:1000], executor=processes)  # they have started
    return {
        OURS: Side(lambda: sq.sequence_map(look_up, seq, table, executor=processes), noperations=len(seq)),
        "serial": Side(lambda: sq.sequence_map(look_up, seq, table), noperations=len(seq)),
    }
