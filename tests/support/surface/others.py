"""The calls of operators, maps, training, columns, Arrow and files."""

import copy
import pickle

import numpy as np
from support.surface.answers import several
from support.surface.calls import call, error, section
from support.surface.operands import (
    BASE,
    EACH,
    MORE,
    RANK5,
    ROWS,
    SIZES,
    SOURCES,
    TENSOR,
    WORDS,
    failing,
)

import seqcore as sq
from seqcore import BatchSampler, Columns, TensorSequence

section("operators", [
    call("element_type", lambda dtype="int8": sq.element_type(dtype), memory="out"),
    call("sequence_construct", lambda tensor: sq.sequence_construct(tensor, tensor),
         lambda tensor: [tensor, tensor]),
    call("sequence_construct, five", lambda tensors: sq.sequence_construct(*tensors),
         lambda tensors: tensors),
    call("sequence_empty", lambda dtype="float32": sq.sequence_empty(dtype), lambda: []),
    call("sequence_length", lambda seq: sq.sequence_length(seq), lambda seq: len(seq), touches="none"),
    call("sequence_length, of a list", lambda tensors: sq.sequence_length(tensors),
         lambda tensors: len(tensors)),
    call("sequence_at", lambda seq, position=-1: sq.sequence_at(seq, position), lambda seq: seq[-1],
         touches="one"),
    call("sequence_at, an array", lambda seq: sq.sequence_at(seq, np.array([0])), lambda seq: seq[0],
         touches="one"),
    call("sequence_insert", lambda seq, tensor, position=0: sq.sequence_insert(seq, tensor, position),
         lambda seq, tensor: [tensor, *seq], touches="none"),
    call("sequence_insert, into none", lambda tensor: sq.sequence_insert([], tensor),
         lambda tensor: [tensor]),
    call("sequence_erase", lambda seq, position=0: sq.sequence_erase(seq, position), lambda seq: seq[1:],
         touches="none"),
    call("sequence_erase, of a list", lambda tensors: sq.sequence_erase(tensors),
         lambda tensors: tensors[:-1]),
    call("split_to_sequence", lambda input=ROWS[:60], split=None, axis=0, keepdims=1: sq.split_to_sequence(
        input, split, axis, keepdims), lambda: np.split(ROWS[:60], 60)),
    call("split_to_sequence, dropped", lambda: sq.split_to_sequence(RANK5, axis=2, keepdims=0),
         lambda: [RANK5[:, :, 0], RANK5[:, :, 1]]),
    call("split_to_sequence, evenly", lambda split=7: sq.split_to_sequence(ROWS, split),
         lambda: np.split(ROWS, range(7, 3000, 7))),
    call("split_to_sequence, lengths", lambda split=EACH: sq.split_to_sequence(ROWS, split),
         lambda: np.split(ROWS, [1000])),
    call("split_to_sequence, a list", lambda axis=0: sq.split_to_sequence(ROWS, [1000, 0, 2000], axis),
         lambda: np.split(ROWS, [1000, 1000])),
    call("split_to_sequence, nothing", lambda: sq.split_to_sequence(ROWS[:0]), lambda: []),
    call("split_to_sequence, words", lambda: sq.split_to_sequence(WORDS, axis=1),
         lambda: np.split(WORDS, 2, axis=1), memory="loose"),
    call("concat_from_sequence", lambda seq, axis=0, new_axis=0: sq.concat_from_sequence(seq, axis, new_axis),
         lambda seq: np.concatenate(seq), on="even", touches="join"),
    call("concat_from_sequence, columns", lambda seq, axis=-1: sq.concat_from_sequence(seq, axis),
         lambda seq: np.concatenate(seq, -1), on="even"),
    call("concat_from_sequence, stacked", lambda seq, axis=1: sq.concat_from_sequence(seq, axis, new_axis=1),
         lambda seq: np.stack(seq, 1), on="even"),
    call("concat_from_sequence, a list", lambda: sq.concat_from_sequence(MORE, 0),
         lambda: np.concatenate(MORE)),
    error("sequence_construct, mixed", TypeError, lambda: sq.sequence_construct(TENSOR, 1j), memory="out"),
    error("sequence_at, nowhere", IndexError, lambda seq: sq.sequence_at(seq, 99), memory="out"),
    error("sequence_insert, another type", TypeError, lambda seq: sq.sequence_insert(seq, 1j), memory="out"),
    error("sequence_erase, nothing", IndexError, lambda: sq.sequence_erase([]), memory="out"),
    error("split_to_sequence, wrongly", ValueError, lambda: sq.split_to_sequence(ROWS, [1, 2])),
    error("split_to_sequence, no axis", ValueError, lambda: sq.split_to_sequence(BASE, axis=2), memory="out"),
    error("split_to_sequence, no integer", TypeError, lambda: sq.split_to_sequence(BASE, 1.5), memory="out"),
    error("split_to_sequence, negative", ValueError, lambda: sq.split_to_sequence(BASE, [-1, 21]),
          memory="out"),
    error("split_to_sequence, a scalar", ValueError, lambda: sq.split_to_sequence(1), memory="out"),
    error("concat_from_sequence, wrongly", ValueError, lambda seq: sq.concat_from_sequence(seq, 0)),
    error("concat_from_sequence, nothing", ValueError, lambda: sq.concat_from_sequence([], 0), memory="out"),
    error("concat_from_sequence, no axis", ValueError, lambda seq: sq.concat_from_sequence(seq, 7),
          memory="out"),
])  # fmt: skip


def _raising(t):
    raise KeyError(3)


section("maps", [
    call("sequence_map", lambda seq, body=(lambda t: t * 2), output_dtypes=None: sq.sequence_map(
        body, seq, output_dtypes=output_dtypes), lambda seq: [t * 2 for t in seq]),
    call("sequence_map, two outputs", lambda seq: sq.sequence_map(several, seq),
         lambda seq: tuple(map(list, zip(*map(several, seq), strict=True)))),
    call("sequence_map, two inputs", lambda seq, other=1: sq.sequence_map(np.add, seq, seq),
         lambda seq: [t + t for t in seq]),
    call("sequence_map, further", lambda seq, other=3: sq.sequence_map(lambda t, u: t, seq, other),
         lambda seq: seq),
    call("sequence_map, elementwise", lambda seq: sq.sequence_map(np.negative, seq),
         lambda seq: [-t for t in seq]),
    call("sequence_map, sums", lambda seq: sq.sequence_map(np.sum, seq),
         lambda seq: [t.sum() for t in seq], memory="out"),
    call("sequence_map, sums of joined", lambda seq: sq.sequence_map(np.max, seq[::-1] + seq),
         lambda seq: [t.max() for t in [*seq[::-1], *seq]], on="even"),
    call("sequence_map, not all fit", lambda seq: sq.sequence_map(np.add, seq, seq[::-1]),
         on="even"),
    call("sequence_map, a whole tensor", lambda seq: sq.sequence_map(np.add, seq, np.float64(3))),
    call("sequence_map, types given", lambda seq, dtypes=("float32", np.float32): sq.sequence_map(
        lambda t: (t, t), seq, output_dtypes=dtypes), lambda seq: (seq, seq)),
    call("sequence_map, of nothing", lambda seq: sq.sequence_map(abs, seq[:0], output_dtypes="int8"),
         lambda seq: []),
    call("sequence_map, a list", lambda tensors: sq.sequence_map(lambda t: t, tensors),
         lambda tensors: tensors),
    call("sequence_map, reported", lambda seq, progress=(lambda done, total: None): sq.sequence_map(
        lambda t: t, seq, progress=progress), lambda seq: seq),
    call("sequence_map, a result", lambda seq, result=TENSOR: sq.sequence_map(lambda t: result, seq)),
    call("sequence_map, one of two results",
         lambda seq, result=TENSOR: sq.sequence_map(lambda t: (t, result), seq)),
    call("sequence_map, on threads", lambda seq, max_workers=2, chunksize=1: sq.sequence_map(
        lambda t: t, seq, max_workers=max_workers, chunksize=chunksize), lambda seq: seq, memory="out"),
    call("sequence_map, a result on a thread", lambda seq, result=TENSOR: sq.sequence_map(
        lambda t: result, seq, max_workers=2, chunksize=1), memory="out"),
    call("sequence_map, an executor", lambda seq, executor=None: sq.sequence_map(
        np.negative, seq, executor=executor), lambda seq: [-t for t in seq]),
    # Not np.cumsum, of whose calls Python's cache of methods keeps the names, some hundred strings.
    call("map_batches", lambda seq, body=np.negative, batch_size=4: sq.map_batches(
        body, seq, batch_size=batch_size), lambda seq: [-t for t in seq]),
    call("map_batches, accumulated", lambda seq: sq.map_batches(np.add.accumulate, seq, batch_size=1),
         lambda seq: [np.add.accumulate(t) for t in seq]),
    call("map_batches, stacked", lambda seq, batch_size=4: sq.map_batches(
        lambda b: (b, b), seq, batch_size=batch_size, new_axis=1), lambda seq: (seq, seq)),
    call("map_batches, further", lambda seq, other=3: sq.map_batches(lambda t, u: t, seq, other),
         lambda seq: seq),
    call("map_batches, new_axis", lambda seq, new_axis=0: sq.map_batches(np.negative, seq, new_axis=new_axis),
         lambda seq: [-t for t in seq]),
    call("map_batches, types", lambda seq, output_dtypes=None, max_workers=1: sq.map_batches(
        np.negative, seq, output_dtypes=output_dtypes, max_workers=max_workers),
        lambda seq: [-t for t in seq]),
    call("map_batches, a result", lambda seq, result=BASE: sq.map_batches(lambda t: result, seq)),
    call("map_batches, one of two results",
         lambda seq, result=BASE: sq.map_batches(lambda t: (t, result), seq)),
    error("sequence_map, a body that raises", TypeError, lambda seq: sq.sequence_map({}.__getitem__, seq)),
    error("sequence_map, a function that raises", KeyError, lambda seq: sq.sequence_map(_raising, seq)),
    error("sequence_map, a wrong result", TypeError, lambda seq: sq.sequence_map(lambda t: None, seq)),
    error("sequence_map, other lengths", ValueError, lambda seq: sq.sequence_map(np.add, seq, seq[1:]),
          memory="out"),
    error("map_batches, another length", ValueError, lambda seq: sq.map_batches(
        lambda b: b[1:], seq, batch_size=4)),
], on="ragged", memory="loose")  # fmt: skip

section("training", [
    call("pack", lambda lengths=SIZES, capacity=9, strategy="best_fit_decreasing", max_count=None: sq.pack(
        lengths, capacity, strategy=strategy, max_count=max_count)),
    call("pack, spaces far apart", lambda: sq.pack(SIZES, 2**62)),
    call("pack, first fit", lambda: sq.pack(SIZES, 9, strategy="first_fit_decreasing")),
    call("pack, next fit", lambda: sq.pack(SIZES, 9, strategy="next_fit", max_count=2)),
    call("pack, a sequence", lambda seq: sq.pack(seq, 30), on="even"),
    call("pack, a list", lambda: sq.pack([3, 1, 2], 9)),
    call("BatchSampler", lambda lengths=SIZES, batch_size=4, shuffle=True, seed=0, rank=0, world_size=1,
         drop_last=False: BatchSampler(lengths, batch_size=batch_size, shuffle=shuffle, seed=seed, rank=rank,
                                       world_size=world_size, drop_last=drop_last)),
    call("BatchSampler, max_tokens", lambda max_tokens=20: BatchSampler(SIZES, max_tokens=max_tokens)),
    call("BatchSampler, a sequence", lambda seq: [*BatchSampler(seq, batch_size=4)], on="even"),
    call("BatchSampler.__iter__", lambda sampler: [*sampler]),
    call("BatchSampler.__iter__, tokens", lambda: [*BatchSampler(SIZES, max_tokens=20, drop_last=True)]),
    call("BatchSampler.__iter__, packs", lambda: [*BatchSampler(SIZES, capacity=20, seed=3)]),
    call("BatchSampler.__iter__, in order", lambda: [*BatchSampler(
        SIZES, batch_size=7, shuffle=False, world_size=2)]),
    call("BatchSampler.__len__", lambda sampler: len(sampler), lambda: 10),
    call("BatchSampler.__repr__", lambda sampler: repr(sampler)),
    call("BatchSampler.sampler", lambda sampler: sampler.sampler is sampler, lambda: True),
    call("BatchSampler.set_epoch", lambda sampler, epoch=1: sampler.set_epoch(epoch), lambda: None),
    call("BatchSampler.state_dict", lambda sampler: sampler.state_dict()),
    call("BatchSampler.load_state_dict", lambda sampler: sampler.load_state_dict(sampler.state_dict()),
         lambda: None),
    call("BatchSampler.load_state_dict, odd", lambda sampler, state=None: sampler.load_state_dict(
        sampler.state_dict() if state is None else state), lambda: None),
    call("BatchSampler.__getstate__", lambda sampler: pickle.loads(pickle.dumps(sampler))),
    call("BatchSampler.__setstate__", lambda sampler: copy.copy(sampler)),
    call("BatchSampler, mixed", lambda: [
        *BatchSampler(SIZES, batch_size=4, sources=SOURCES, weights=(3, 1), unit="tokens", stop="all")],
        memory="out"),  # NumPy's indexing by an array ends the process
    error("pack, too long", ValueError, lambda: sq.pack(SIZES, 5), memory="out"),
    error("BatchSampler, no limit", ValueError, lambda: BatchSampler(SIZES)),
], memory="loose")  # fmt: skip


section("columns", [
    # CPython's dictiter_new leaks where it has no memory.
    call("Columns", lambda seq: Columns({"s": seq, "n": np.arange(len(seq))}), memory="out"),
    call("Columns, of lists", lambda: Columns({"s": MORE[:3], "n": [1, 2, 3]}), memory="out"),
    call("Columns, odd", lambda column=(1, 2): Columns({"a": column}), memory="out"),
    call("Columns, of anything", lambda columns={"a": [1]}: Columns(columns), memory="out"),
    call("Columns.names", lambda columns: columns.names, lambda: ["a", "b", "c"]),
    call("Columns.keys", lambda columns: [*columns.keys()], lambda: ["a", "b", "c"]),
    call("Columns.dtypes", lambda columns: [*columns.dtypes], lambda: ["a", "b", "c"]),
    call("Columns.nbytes", lambda columns: columns.nbytes),
    call("Columns.__len__", lambda columns: len(columns), lambda seq: len(seq)),
    call("Columns.__repr__", lambda columns: repr(columns)),
    call("Columns._repr_html_", lambda columns: columns._repr_html_(), on="ragged", memory="out"),
    call("Columns.items", lambda columns: [name for name, _ in columns.items()], lambda: ["a", "b", "c"]),
    call("Columns.items, a column", lambda columns: dict(columns.items())["b"],
         lambda seq: np.arange(len(seq))),
    call("Columns.get", lambda columns, name="b", default=None: columns.get(name, default),
         lambda seq: np.arange(len(seq))),
    call("Columns.get, nothing", lambda columns, default=7: columns.get("x", default), lambda: 7),
    # CPython 3.11 keeps what it gives a comprehension for which there is no memory.
    call(
        "Columns.__or__",
        lambda columns, indices: (columns | {"d": columns["a"]})["d"],
        lambda seq: seq,
        memory="out",
    ),
    call("Columns.__or__, odd", lambda columns, more={"b": [1]}: columns[:1] | more, memory="out"),
    call("Columns.__or__, in place", lambda columns: [*(columns | {"a": columns["b"]}).names],
         lambda: ["a", "b", "c"]),
    call("Columns.__add__", lambda columns: (columns + columns[::-1])["a"], lambda seq: [*seq, *seq[::-1]]),
    call("Columns.__add__, arrays", lambda columns: (columns + columns[::-1])["c"],
         lambda seq: np.concatenate([np.arange(4 * len(seq)).reshape(-1, 4),
                                     np.arange(4 * len(seq)).reshape(-1, 4)[::-1]])),
    call("Columns.__getitem__, names", lambda columns, key=("c", "a"): columns[[*key]].names,
         lambda: ["c", "a"]),
    call("Columns.__contains__", lambda columns, name="a": name in columns, lambda: True),
    call("Columns.__eq__", lambda columns: columns == columns[:], memory="out"),
    call("Columns.__getitem__", lambda columns, key=-1: columns[key]),
    call("Columns.__getitem__, a sequence", lambda columns: columns["a"], lambda seq: seq),
    call("Columns.__getitem__, an array", lambda columns: columns["b"], lambda seq: np.arange(len(seq))),
    call("Columns.__getitem__, a matrix", lambda columns: columns["c"],
         lambda seq: np.arange(4 * len(seq)).reshape(-1, 4)),
    call("Columns.__getitem__, a slice", lambda columns: columns[1:9]),
    call("Columns.__getitem__, steps backwards", lambda columns: columns[::-2]["b"],
         lambda seq: np.arange(len(seq))[::-2]),
    call("Columns.__getitem__, two falling", lambda columns: columns[[1, 0]]["b"], lambda: np.array([1, 0])),
    call("Columns.__getitem__, rows of a matrix", lambda columns: columns[::-1]["c"],
         lambda seq: np.arange(4 * len(seq)).reshape(-1, 4)[::-1]),
    call("Columns.__getitem__, indices", lambda columns, indices: columns[indices]),
    call("Columns.__getitem__, a mask", lambda columns, mask: columns[mask]["b"],
         lambda mask: np.flatnonzero(mask)),
    call("Columns.__getitems__", lambda columns, indices: columns.__getitems__(indices)),
    call("Columns.__iter__", lambda columns: list(columns[:4])),
    call("Columns.__reduce__", lambda columns: columns.__reduce__()[0](*columns.__reduce__()[1])),
    call("Columns.__reduce__, pickled", lambda columns: pickle.loads(pickle.dumps(columns)), memory="out"),
    call("Columns.__arrow_c_schema__", lambda columns: columns.__arrow_c_schema__(), on="even", memory="out"),
    call("Columns.__arrow_c_stream__", lambda columns: columns.__arrow_c_stream__(), on="even"),
    call("Columns.from_arrow", lambda columns_stream: Columns.from_arrow(columns_stream), on="even"),
    call("Columns.from_arrow, odd", lambda columns, table=None: Columns.from_arrow(
        columns if table is None else table), on="even", memory="out"),
    error("Columns, other lengths", ValueError, lambda seq: Columns({"s": seq, "n": [1]})),
    error("Columns.__or__, other lengths", ValueError, lambda columns: columns | {"d": [1]}, memory="out"),
    error("Columns.__add__, other names", ValueError, lambda columns: columns + columns[["a"]], memory="out"),
    error("Columns.__add__, other types", TypeError,
          lambda columns: columns + (columns | {"b": columns["a"]}), memory="out"),
    error("Columns.__getitem__, names twice", ValueError, lambda columns: columns[["a", "a"]], memory="out"),
    error("Columns.__getitem__, no name", KeyError, lambda columns: columns["x"], memory="out"),
    error("Columns.__getitem__, nowhere", IndexError, lambda columns: columns[99], memory="out"),
    error("Columns.from_dataset, no data set", TypeError, lambda columns: Columns.from_dataset(columns),
          memory="out"),  # data sets are in tests/files/test_from_dataset.py
    error("Columns.__hash__", TypeError, lambda columns: hash(columns), memory="out"),
], memory="loose")  # fmt: skip

section("arrow", [
    call("__arrow_c_schema__", lambda seq: seq.__arrow_c_schema__(), touches=""),
    call("__arrow_c_array__", lambda seq: seq.__arrow_c_array__()),
    call("__arrow_c_array__, of a type", lambda seq, schema: seq.__arrow_c_array__(schema)),
    call("__arrow_c_stream__", lambda seq: seq.__arrow_c_stream__()),
    call("from_arrow", lambda seq, array=None: TensorSequence.from_arrow(seq if array is None else array),
         lambda seq: seq),
    call("from_arrow, a stream", lambda stream: TensorSequence.from_arrow(stream), lambda seq: seq),
    error("__arrow_c_array__, two ranks", ValueError, lambda seq: seq.__arrow_c_array__(), on="two ranks"),
    call("__arrow_c_array__, odd", lambda seq, schema=None: seq.__arrow_c_array__(schema), memory="out"),
    call("from_arrow, words", lambda stream: TensorSequence.from_arrow(stream), lambda seq: seq,
         on="pairs of words"),
    # NumPy's prod, by which the sizes of shapes are added up, ends the process where it has no memory.
    call("from_arrow, shapes", lambda stream: TensorSequence.from_arrow(stream), lambda seq: seq, on="shapes",
         memory="out"),
    error("__arrow_c_array__, no schema", TypeError, lambda seq: seq.__arrow_c_array__(7), memory="out"),
    error("from_arrow, no array", TypeError, lambda: TensorSequence.from_arrow(7), memory="out"),
], on="even", memory="loose")  # fmt: skip

section("files", [  # these need pyarrow
    call("save", lambda path, seq: sq.save(path, seq), lambda: None),
    call("save, parts", lambda path, seq: sq.save(path, iter([seq, seq])), lambda: None),
    call("save, an odd part",
         lambda path, seq, part=None: sq.save(path, iter([seq if part is None else part]))),
    call("Columns.save", lambda columns, path: columns.save(path), lambda: None),
    call("Columns.load", lambda saved: Columns.load(saved)["tensors"], lambda seq: seq),
    call("load", lambda saved: sq.load(saved), lambda seq: seq),
    call("load, several", lambda saved: sq.load([saved, saved]), lambda seq: [*seq, *seq]),
    call("load, columns", lambda saved_columns: sq.load(saved_columns)),
    call("load, one column", lambda saved_columns, column="b": sq.load(saved_columns, column),
         lambda seq: [*np.arange(len(seq))]),
    call("load, a folder", lambda parts: sq.load(parts).lengths(), lambda: np.ones(12, int)),
    call("load, a pattern", lambda parts: sq.load(parts / "*.arrow").lengths(), lambda: np.ones(12, int)),
    call("__reduce__, by path", lambda saved: pickle.loads(pickle.dumps(sq.load(saved)[::-1])),
         lambda seq: seq[::-1], memory="out"),
    error("save, two ranks", ValueError, lambda path, seq: sq.save(path, seq), on="two ranks", memory="out"),
    error("save, parts that fail", KeyError, lambda path, seq: sq.save(path, failing([seq]))),
    error("load, nothing", FileNotFoundError, lambda folder: sq.load(folder / "none*.arrow")),
], on="even", memory="loose")  # fmt: skip
