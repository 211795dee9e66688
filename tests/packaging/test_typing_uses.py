"""What users write and the types it has: run as tests here, and checked by type checkers in `test_typing`.

`assert_type` does nothing at run time. A line without it is checked too: that it is no type error.
"""

from array import array
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, assert_type

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import seqcore as sq

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
from onnx import parser

from seqcore.onnx import GraphBody, InferenceSession, from_proto, lower, to_proto
from seqcore.onnx.backend import SeqcoreBackendRep, prepare, run_model, supports_device
from seqcore.onnx.lowering import Note, lower_with_report

T = TypeVar("T", bound=np.generic)

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


def ramp(n: int) -> F32:
    return np.linspace(0, 1, n).astype(np.float32)


def frames() -> sq.TensorSequence[np.float32]:
    return sq.TensorSequence([ramp(3), ramp(4), ramp(5)])


# -- the container -----------------------------------------------------------------------------------


def test_arrays_tell_the_type() -> None:
    assert_type(sq.TensorSequence([ramp(2), ramp(3)]), sq.TensorSequence[np.float32])
    assert_type(sq.TensorSequence(ramp(n) for n in range(3)), sq.TensorSequence[np.float32])
    assert_type(sq.TensorSequence((ramp(2),), copy=True), sq.TensorSequence[np.float32])
    assert_type(sq.TensorSequence([ramp(2)], "float32"), sq.TensorSequence[np.float32])
    assert_type(sq.TensorSequence(frames()), sq.TensorSequence[np.float32])
    assert_type(sq.TensorSequence([ramp(2)[0]]), sq.TensorSequence[Any])
    different_ranks = [np.zeros(2), np.zeros((2, 3))]
    assert_type(sq.TensorSequence(different_ranks), sq.TensorSequence[np.float64])


def test_a_dtype_tells_the_type() -> None:
    assert_type(sq.TensorSequence(dtype=np.float32), sq.TensorSequence[np.float32])
    assert_type(sq.TensorSequence(dtype=np.dtype(np.int8)), sq.TensorSequence[np.int8])
    assert_type(sq.TensorSequence([], np.float32), sq.TensorSequence[np.float32])
    assert_type(sq.TensorSequence([[1.5]], dtype=np.float32), sq.TensorSequence[np.float32])


def test_what_tells_no_type() -> None:
    assert_type(sq.TensorSequence([[1, 2], [3]]), sq.TensorSequence[Any])
    assert_type(sq.TensorSequence([["to", "be"], ["or"]]), sq.TensorSequence[Any])
    assert_type(sq.TensorSequence([1.5, True]), sq.TensorSequence[Any])
    assert_type(sq.TensorSequence(dtype="float32"), sq.TensorSequence[Any])
    assert_type(sq.TensorSequence([], "string"), sq.TensorSequence[Any])
    assert_type(sq.TensorSequence(dtype=str), sq.TensorSequence[Any])
    unknown: sq.TensorSequence = sq.TensorSequence(dtype=float)
    unknown.append(np.zeros(2))


def test_looking() -> None:
    seq = frames()
    assert_type(seq[0], F32)
    assert_type(seq[np.int64(0)], F32)
    assert_type(seq[np.array([1], np.int32)], sq.TensorSequence[np.float32])
    assert_type(seq[[0, 0]], sq.TensorSequence[np.float32])
    assert_type(seq[[True] * len(seq)], sq.TensorSequence[np.float32])
    assert_type(seq[seq.lengths() > 0], sq.TensorSequence[np.float32])
    assert_type(seq.__getitems__(range(1)), sq.TensorSequence[np.float32])
    assert_type(seq[::2], sq.TensorSequence[np.float32])
    assert_type(seq.dtype, np.dtype[np.float32])
    assert_type(seq.nbytes, int)
    assert_type(seq.pinned_nbytes, int)
    assert_type(seq.shapes, list[tuple[int, ...]])
    assert_type(seq.values(), F32)
    assert_type(seq.lengths(), NDArray[np.int64])
    assert_type(seq.offsets(np.int32), NDArray[np.int32])
    assert_type(seq.to_padded(shape=8, multiple_of=4), F32)
    batch, mask = seq.to_padded(return_mask=True)
    assert_type(batch, F32)
    assert_type(mask, NDArray[np.bool_])
    again: sq.TensorSequence[np.float32]
    again = sq.TensorSequence.from_padded(batch, seq.lengths(), side="left")
    again = sq.TensorSequence.from_lengths(seq.values(), [4, 8, 0])
    again = sq.TensorSequence.from_offsets(again.values(), again.offsets())
    assert len(again) == len(seq)
    assert_type(len(seq), int)
    assert_type(seq == seq.copy(), bool)
    assert_type(ramp(3) in seq, bool)
    assert_type(seq.index(ramp(4), 1, stop=-1), int)
    assert_type(seq.count([1.5]), int)
    assert_type([frame.dtype for frame in seq], list[np.dtype[np.float32]])
    assert_type(next(reversed(seq)), F32)


def test_numbers_of_elements() -> None:
    seq = frames()
    assert_type(seq.reduce(np.add), NDArray[Any])
    assert_type(seq.reduce(np.sum, axis=None, initial=1.5), NDArray[Any])
    assert_type(seq.reduce(np.mean, dtype=np.float64), F64)
    assert_type(seq.reduce(np.maximum, axis=-1, dtype="float32"), NDArray[Any])
    assert_type(seq.segment_ids(), NDArray[np.int64])
    assert_type(seq.position_ids(np.int32), NDArray[np.int32])
    assert_type(seq.to_padded(dtype=np.float64), F64)
    assert_type(seq.to_padded(0, dtype="float64", shape=8), NDArray[Any])
    batch, mask = seq.to_padded(dtype=np.float64, return_mask=True)
    assert_type(batch, F64)
    assert_type(mask, NDArray[np.bool_])
    long: sq.TensorSequence[np.bool_] = sq.TensorSequence([np.bool_(True), np.bool_(False), np.bool_(True)])
    assert_type(seq[long], sq.TensorSequence[np.float32])


def test_batches() -> None:
    seq = frames()
    assert_type(sq.pack(seq, 8), sq.TensorSequence[np.int64])
    assert_type(sq.pack([3, 4], 8, strategy="next_fit", max_count=2), sq.TensorSequence[np.int64])
    sampler = sq.BatchSampler(seq, batch_size=2, seed=3, rank=0, world_size=1, drop_last=True)
    assert_type(list(sampler), list[list[int]])
    sampler = sq.BatchSampler(seq.lengths(), max_tokens=8)
    sampler.set_epoch(1)
    assert_type(sampler.state_dict(), dict[str, Any])
    sampler.load_state_dict(sampler.state_dict())
    assert_type(len(sampler), int)


def test_columns() -> None:
    columns = sq.Columns({"frames": frames(), "label": [0, 1, 2], "where": np.zeros((3, 2))})
    assert_type(columns[0], dict[str, Any])
    assert_type(columns[1:], sq.Columns)
    assert_type(columns[[0, 2]], sq.Columns)
    assert_type(columns[frames().lengths() > 3], sq.Columns)
    assert_type(columns.names, list[str])
    assert_type(columns.__getitems__([0, 1]), sq.Columns)
    assert_type(columns == columns[:], bool)
    assert_type(list(columns), list[dict[str, Any]])
    assert "label" in columns


def test_editing() -> None:
    seq = frames()
    seq.append(ramp(2))
    seq.append([0.5, 0.25])
    seq.append(np.float32(1.5))
    seq.append(0.5)
    seq.append(seq[0] / 255)
    seq.append(array("f", [1, 2]))
    seq.insert(-1, ramp(2) * 2 + 1)
    seq.insert(np.array([0]), np.zeros((3, 8), np.float32))
    seq.extend([ramp(1), [0.5]])
    seq.extend(seq)
    seq += (ramp(n) for n in range(2))
    seq[0] = ramp(6)
    seq[1:3] = [ramp(1), [2.0]]
    del seq[0], seq[-2:]
    seq.erase()
    seq.erase(np.int64(0))
    assert_type(seq.pop(), F32)
    seq.remove(ramp(1))
    seq.reverse()
    seq.compact()
    assert_type(seq.copy(), sq.TensorSequence[np.float32])
    assert_type(seq + seq, sq.TensorSequence[np.float32])
    assert_type(seq + [ramp(2)], sq.TensorSequence[np.float32])
    assert_type([[0.5]] + seq, sq.TensorSequence[np.float32])
    seq.clear()


def test_platform_integers() -> None:
    # NumPy's stubs don't know that `np.arange` gives int64 where `np.intp` is that.
    tokens = sq.TensorSequence(dtype=np.intp)
    tokens.append(np.arange(3))
    tokens.append(np.zeros(2, np.intp))
    if tokens.dtype == np.int64:
        tokens.append(np.zeros(2, np.int64))


def test_subclass() -> None:
    class Track(sq.TensorSequence[np.float32]):
        name = ""

    track = Track([ramp(2)])
    assert_type(track.copy(), Track)
    assert_type(track[:1], sq.TensorSequence[np.float32])
    assert_type(track[0], F32)


# -- the operators -----------------------------------------------------------------------------------


def test_split() -> None:
    assert_type(sq.split_to_sequence(ramp(6)), sq.TensorSequence[np.float32])
    assert_type(sq.split_to_sequence(ramp(6), split=[1, 0, 5]), sq.TensorSequence[np.float32])
    assert_type(sq.split_to_sequence(ramp(6), np.array([2, 4])), sq.TensorSequence[np.float32])
    assert_type(sq.split_to_sequence(ramp(6), 2, axis=0, keepdims=0), sq.TensorSequence[np.float32])
    assert_type(sq.split_to_sequence([[1, 2], [3, 4]], axis=-1), sq.TensorSequence[Any])


def test_join() -> None:
    assert_type(sq.concat_from_sequence(frames(), axis=0), F32)
    assert_type(sq.concat_from_sequence([ramp(2), ramp(2)], 0, new_axis=1), F32)
    assert_type(sq.concat_from_sequence([[1, 2], [3]], 0), NDArray[Any])


def test_sequence_operators() -> None:
    assert_type(sq.sequence_construct(ramp(2), ramp(3)), sq.TensorSequence[np.float32])
    assert_type(sq.sequence_construct(["to", "be"], ["or"]), sq.TensorSequence[Any])
    assert_type(sq.sequence_empty(), sq.TensorSequence[np.float32])
    assert_type(sq.sequence_empty(np.int8), sq.TensorSequence[np.int8])
    assert_type(sq.sequence_empty("int8"), sq.TensorSequence[Any])
    assert_type(sq.sequence_length([[1, 2], [3]]), int)
    assert_type(sq.sequence_at(frames(), -1), F32)
    assert_type(sq.sequence_at([ramp(2), ramp(3)], np.array([1])), F32)
    assert_type(sq.sequence_at((ramp(2),), 0), F32)
    assert_type(sq.sequence_at([[1, 2], [3]], 0), NDArray[Any])
    assert_type(sq.sequence_insert(frames(), ramp(2), 1), sq.TensorSequence[np.float32])
    assert_type(sq.sequence_insert(frames(), [0.5]), sq.TensorSequence[np.float32])
    assert_type(sq.sequence_insert([ramp(3)], ramp(2)), sq.TensorSequence[np.float32])
    assert_type(sq.sequence_insert([], [0.5]), sq.TensorSequence[Any])
    assert_type(sq.sequence_erase(frames()), sq.TensorSequence[np.float32])
    assert_type(sq.sequence_erase([[1], [2, 2]], 1), sq.TensorSequence[Any])


def test_element_types() -> None:
    assert_type(sq.element_type(np.float32), np.dtype[np.float32])
    assert_type(sq.element_type("string"), np.dtype[Any])
    assert_type(sq.ELEMENT_TYPES["int8"], np.dtype[Any])
    assert_type(sq.__version__, str)


def test_generic_functions() -> None:
    def stacked(seq: sq.TensorSequence[T]) -> NDArray[T]:
        return sq.concat_from_sequence(seq, 0, new_axis=1)

    def windows(signal: NDArray[T], length: int) -> sq.TensorSequence[T]:
        return sq.split_to_sequence(signal, length)

    assert_type(stacked(windows(ramp(6), 2)), F32)

    def rows(table: ArrayLike) -> sq.TensorSequence:
        return sq.split_to_sequence(table, keepdims=0)

    assert rows([[1, 2], [3, 4]]).shapes == [(2,), (2,)]


# -- maps --------------------------------------------------------------------------------------------


def widened(frame: F32) -> F64:
    return frame.astype(np.float64)


def span(frame: F32) -> tuple[np.float32, F64]:
    return frame[0], frame.astype(np.float64)


def statistics(frame: F32) -> tuple[float, F64, list[str]]:
    return float(frame.mean()), frame.astype(np.float64), ["a", "b"]


def halves(frame: F32) -> tuple[F32, ...]:
    return frame[:1], frame[1:]


def scaled(frame: F32, by: F32, offset: F32) -> F64:
    return np.asarray(frame * by + offset, np.float64)


def test_outputs_of_a_body() -> None:
    seq = frames()
    assert_type(sq.sequence_map(widened, seq), sq.TensorSequence[np.float64])
    assert_type(
        sq.sequence_map(span, seq), tuple[sq.TensorSequence[np.float32], sq.TensorSequence[np.float64]]
    )
    mean, wide, words = sq.sequence_map(statistics, seq)
    assert_type(mean, sq.TensorSequence[Any])
    assert_type(wide, sq.TensorSequence[Any])
    assert_type(words, sq.TensorSequence[Any])
    assert_type(sq.sequence_map(halves, seq), tuple[sq.TensorSequence[Any], ...])
    assert len(mean) == len(wide) == len(words) == 3


def test_bodies_that_return_no_arrays() -> None:
    def number(frame: F32) -> float:
        return float(frame.sum())

    def text(frame: F32) -> list[str]:
        return [str(frame.ndim)]

    def anything(frame: F32) -> ArrayLike:
        return [frame.size]

    assert_type(sq.sequence_map(number, frames()), sq.TensorSequence[Any])
    assert_type(sq.sequence_map(text, frames()), sq.TensorSequence[Any])
    assert_type(sq.sequence_map(anything, frames()), sq.TensorSequence[Any])


def test_several_inputs() -> None:
    seq = frames()
    assert_type(sq.sequence_map(scaled, seq, seq, ramp(1)), sq.TensorSequence[np.float64])
    low, high = sq.sequence_map(lambda frame, k: (frame[:k], frame[-k:]), seq, 2)
    assert low.shapes == high.shapes == [(2,)] * 3

    def both(a: F32, b: F32) -> tuple[F32, F64]:
        return a, b.astype(np.float64)

    same, wide = sq.sequence_map(both, seq, [ramp(1)] * 3)
    assert_type(same, sq.TensorSequence[np.float32])
    assert_type(wide, sq.TensorSequence[np.float64])


def test_lambdas() -> None:
    seq = frames()
    assert_type(sq.sequence_map(lambda frame: frame[1:], seq), sq.TensorSequence[np.float32])
    assert_type(sq.sequence_map(lambda frame: np.sort(frame), seq), sq.TensorSequence[np.float32])
    # What NumPy's stubs say of a mean is Any, and then mypy doesn't know whether there is one output.
    means: sq.TensorSequence = sq.sequence_map(lambda rows: rows.mean(0), seq, max_workers=2)
    assert sq.concat_from_sequence(means, axis=0, new_axis=1).shape == (3,)
    first, second = sq.sequence_map(lambda frame: (frame, frame), seq)
    assert first == second


def test_functions_of_numpy() -> None:
    done: sq.TensorSequence[np.float32] = sq.sequence_map(np.sort, frames(), max_workers=2)
    means: sq.TensorSequence = sq.sequence_map(np.mean, done)
    assert_type(sq.sequence_map(np.sqrt, means), sq.TensorSequence[Any])


def test_lists_of_tensors() -> None:
    arrays = [ramp(2), ramp(3)]
    assert_type(sq.sequence_map(widened, arrays), sq.TensorSequence[np.float64])
    assert_type(sq.sequence_map(widened, tuple(arrays)), sq.TensorSequence[np.float64])
    assert_type(sq.sequence_map(np.flip, [[1, 2, 3], [4, 5]]), Any)


def test_how_a_map_runs() -> None:
    seq = frames()
    seen: list[tuple[int, int]] = []
    report: Callable[[int, int], None] = lambda done, total: seen.append((done, total))  # noqa: E731
    with ThreadPoolExecutor(2) as pool:
        on_pool = sq.sequence_map(widened, seq, executor=pool, chunksize=1, progress=report)
    assert_type(on_pool, sq.TensorSequence[np.float64])
    assert seen[-1] == (3, 3)
    assert_type(
        sq.sequence_map(widened, seq, max_workers=None, progress=False), sq.TensorSequence[np.float64]
    )
    typed: sq.TensorSequence[np.float32] = sq.sequence_map(lambda a: a.max(), seq, output_dtypes="float32")
    assert typed.dtype == np.float32
    pair = sq.sequence_map(span, seq[:0], output_dtypes=(np.float32, "float64"))
    assert_type(pair, tuple[sq.TensorSequence[np.float32], sq.TensorSequence[np.float64]])


class Client:
    """What a map needs of a Dask client, with the types that Dask's has."""

    def __init__(self, pool: Executor) -> None:
        self.pool = pool

    def submit(self, func: Any, *args: Any, pure: bool = True) -> Any:
        return self.pool.submit(func, *args)

    def scatter(self, data: Any, broadcast: bool = False, hash: bool = True) -> Any:
        return data

    def nthreads(self, workers: object = None) -> dict[str, int] | Coroutine[Any, Any, Any]:
        return {"here": 2}


def test_dask_client() -> None:
    pytest.importorskip("cloudpickle")
    with ThreadPoolExecutor(2) as pool:
        done = sq.sequence_map(widened, frames(), executor=Client(pool))
    assert_type(done, sq.TensorSequence[np.float64])


# -- ONNX --------------------------------------------------------------------------------------------

DOUBLED = """
    <ir_version: 8, opset_import: ["": 17]>
    doubled (float[n] x) => (float[n] y) { y = Add(x, x) }
"""
PAIR = """
    <ir_version: 8, opset_import: ["": 17]>
    pair (float[n] x, int64 i) => (seq(float[n]) s, float[n] y) {
        s = SequenceConstruct(x, x)
        y = SequenceAt(s, i)
    }
"""


def test_graphs_as_bodies(tmp_path: Path) -> None:
    model = parser.parse_model(DOUBLED)
    path = tmp_path / "doubled.onnx"
    path.write_bytes(model.SerializeToString())
    # Whether there are several outputs only the graph tells.
    assert_type(sq.sequence_map(model, frames(), max_workers=2), Any)
    assert_type(sq.sequence_map(model.graph, frames()), Any)
    assert_type(sq.sequence_map(path, frames()), Any)
    assert_type(sq.sequence_map(str(path), [ramp(2)]), Any)
    body = GraphBody(model.graph, opset_imports={"": 17})
    doubled: sq.TensorSequence[np.float32] = sq.sequence_map(body, frames())
    assert doubled.dtype == np.float32
    # Or the caller.
    assert_type(sq.sequence_map(body, frames(), output_dtypes=np.float32), sq.TensorSequence[np.float32])
    assert_type(
        sq.sequence_map(body, frames(), output_dtypes=["float32"]), tuple[sq.TensorSequence[Any], ...]
    )


def test_graph_of_several_outputs() -> None:
    both = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        both (float[n] x, float y) => (float[n] low, float[n] high) { low = Sub(x, y) high = Add(x, y) }
    """)
    low, high = sq.sequence_map(both, frames(), np.float32(1))
    assert low.shapes == high.shapes == [(3,), (4,), (5,)]


def test_graph_body() -> None:
    body = GraphBody(parser.parse_model(DOUBLED), captures={"unused": [1.0]})
    assert_type(body.input_names, tuple[str, ...])
    assert_type(body.output_dtypes, tuple[np.dtype[Any] | None, ...])
    assert_type(body.check(["float32"]), tuple[np.dtype[Any] | None, ...])
    assert_type(body(ramp(2)), NDArray[Any] | Any)
    assert body(ramp(2)).shape == (2,)
    assert_type(body.run_many([(ramp(2),)]), list[tuple[NDArray[Any], ...]])


def test_session() -> None:
    session = InferenceSession(parser.parse_model(PAIR), providers=["CPUExecutionProvider"], max_workers=2)
    s, y = session.run(None, {"x": ramp(3), "i": np.array(1)})
    assert s.shapes == [(3,), (3,)]
    assert y.shape == (3,)
    assert_type(session.run(["y"], {"x": ramp(3), "i": np.array(1)}), list[Any])
    assert_type([one.name for one in session.get_inputs()], list[str])
    assert_type(session.get_outputs()[0].type, str)
    assert_type(session.get_modelmeta().graph_name, str)
    assert_type(session.get_providers(), list[str])


def test_lower(tmp_path: Path) -> None:
    model = parser.parse_model(PAIR)
    path = tmp_path / "pair.onnx"
    path.write_bytes(model.SerializeToString())
    assert_type(lower(model), onnx.ModelProto)
    assert_type(lower(path), onnx.ModelProto)
    assert_type(lower(model.SerializeToString()), onnx.ModelProto)
    assert_type(lower(path, ragged_io=True), onnx.ModelProto)
    lowered, notes = lower_with_report(model, packs=False)
    assert_type(lowered, onnx.ModelProto)
    assert_type(notes, list[Note])
    assert_type(notes[0].is_lowered, bool)


def test_protos(tmp_path: Path) -> None:
    proto = to_proto(frames(), name="frames")
    assert_type(proto, onnx.SequenceProto)
    path = tmp_path / "input_0.pb"
    path.write_bytes(proto.SerializeToString())
    assert_type(from_proto(proto), sq.TensorSequence[Any])
    assert_type(from_proto(path, dtype=np.float32), sq.TensorSequence[np.float32])
    assert_type(from_proto(proto.SerializeToString(), "float32"), sq.TensorSequence[Any])
    assert_type(to_proto([[1, 2], [3]]), onnx.SequenceProto)


def test_backend() -> None:
    model = parser.parse_model(DOUBLED)
    assert_type(supports_device("CPU"), bool)
    assert_type(prepare(model), SeqcoreBackendRep)
    assert run_model(model, [ramp(2)]).y.shape == (2,)
