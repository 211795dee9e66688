"""What type checkers should refuse. Never run: most lines are an error at run time too.

Each line is marked, and a mark on a line that is not refused is an error in `test_typing`.
"""

import numpy as np
import onnx
from numpy.typing import NDArray

import seqcore as sq
from seqcore.onnx import GraphBody, InferenceSession, from_proto, lower, to_proto

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


def wide(tensor: F64) -> F64:
    return tensor


def narrow(tensor: F32) -> F32:
    return tensor


def nothing(tensor: F32) -> None:
    del tensor


def types(seq: sq.TensorSequence[np.float32], array: F64) -> None:
    sq.TensorSequence()  # type: ignore[call-overload]
    sq.TensorSequence(3)  # type: ignore[call-overload]
    sq.TensorSequence([array], dtype=3)  # type: ignore[call-overload]
    sq.TensorSequence([array], np.float64, True)  # type: ignore[call-overload]
    sq.element_type(None)  # type: ignore[call-overload]
    sq.sequence_empty(None)  # type: ignore[call-overload]
    _: sq.TensorSequence[np.float64] = seq  # type: ignore[assignment]


def tensors_of_another_type(seq: sq.TensorSequence[np.float32], array: NDArray[np.bool_]) -> None:
    other = sq.TensorSequence([array])
    seq.append(array)  # type: ignore[arg-type]
    seq.insert(0, array)  # type: ignore[arg-type]
    seq.extend([array])  # type: ignore[list-item]
    seq.extend(other)  # type: ignore[arg-type]
    seq[0] = array  # type: ignore[assignment]
    seq[:2] = [array]  # type: ignore[list-item]
    seq += [array]  # type: ignore[list-item]
    print(seq + [array])  # type: ignore[list-item]
    sq.sequence_insert(seq, array)  # type: ignore[misc]


def what_is_no_tensor(seq: sq.TensorSequence[np.float32], words: sq.TensorSequence) -> None:
    seq.append(None)  # type: ignore[arg-type]
    words.append(b"not text")  # type: ignore[arg-type]
    words.append({"a": 1})  # type: ignore[arg-type]
    sq.split_to_sequence(None)  # type: ignore[call-overload]
    sq.sequence_construct(None)  # type: ignore[call-overload]


def what_is_no_sequence(array: F64) -> None:
    sq.sequence_length(array)  # type: ignore[arg-type]
    sq.sequence_at(array, 0)  # type: ignore[call-overload]
    sq.sequence_insert(array, array)  # type: ignore[call-overload]
    sq.concat_from_sequence(array, 0)  # type: ignore[call-overload]
    sq.concat_from_sequence(iter([array]), 0)  # type: ignore[call-overload]
    sq.sequence_map(wide, array)  # type: ignore[call-overload]


def positions(seq: sq.TensorSequence[np.float32]) -> None:
    print(seq[1.0])  # type: ignore[call-overload]
    print(seq["first"])  # type: ignore[call-overload]
    seq.insert(None, [1.0])  # type: ignore[arg-type]
    seq.erase(slice(2))  # type: ignore[arg-type]
    sq.sequence_at(seq, None)  # type: ignore[call-overload]


def other_arguments(seq: sq.TensorSequence[np.float32], array: F64) -> None:
    seq.dtype = np.dtype(np.float32)  # type: ignore[misc]
    sq.split_to_sequence(array, 1.5)  # type: ignore[call-overload]
    sq.split_to_sequence(array, [1.5])  # type: ignore[list-item]
    sq.split_to_sequence(array, axis="rows")  # type: ignore[call-overload]
    sq.concat_from_sequence(seq)  # type: ignore[call-overload]
    sq.concat_from_sequence(seq, axis=None)  # type: ignore[call-overload]


def maps(seq: sq.TensorSequence[np.float32]) -> None:
    sq.sequence_map(wide, seq)  # type: ignore[arg-type]
    sq.sequence_map(nothing, seq)  # type: ignore[arg-type]
    sq.sequence_map(3, seq)  # type: ignore[call-overload]
    sq.sequence_map(narrow)  # type: ignore[call-overload]
    sq.sequence_map(narrow, seq, max_workers="all")  # type: ignore[call-overload]
    sq.sequence_map(narrow, seq, executor=3)  # type: ignore[call-overload]
    sq.sequence_map(narrow, seq, workers=3)  # type: ignore[call-overload]
    sq.sequence_map(narrow, seq, progress=3)  # type: ignore[call-overload]
    sq.sequence_map(narrow, seq, output_dtypes=3)  # type: ignore[call-overload]
    sq.sequence_map(narrow, seq, output_dtypes=(np.float32, np.float32))  # type: ignore[arg-type]


def models(graph: onnx.GraphProto) -> None:
    GraphBody(3)  # type: ignore[arg-type]
    GraphBody(graph, 17)  # type: ignore[arg-type]
    InferenceSession(3)  # type: ignore[arg-type]
    InferenceSession("model.onnx").run("y", {})  # type: ignore[arg-type]
    InferenceSession("model.onnx").run(None, [])  # type: ignore[arg-type]
    lower(3)  # type: ignore[arg-type]
    to_proto(3)  # type: ignore[arg-type]
    from_proto(3)  # type: ignore[call-overload]
