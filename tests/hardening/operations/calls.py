"""Operations by functions: ONNX's operators, the C-level API, and maps."""

import threading

import numpy as np

import seqcore as sq
from operations.operands import (
    BASE,
    LENGTHS,
    MORE,
    RANK3,
    RANK5,
    ROWS,
    TENSOR,
    WATCHED,
    Operation,
    fails,
    group,
    loosely,
    uniform,
)
from seqcore._maps import threads


@group
def operators():
    return {
        "construct": Operation(lambda s: sq.sequence_construct(*MORE[:5])),
        "empty": Operation(lambda s: (sq.sequence_empty("int8"), sq.sequence_empty())),
        "length": Operation(lambda s: (sq.sequence_length(s), sq.sequence_length(MORE[:3]))),
        "at": Operation(lambda s: (sq.sequence_at(s, 3), sq.sequence_at(s, np.array([2])))),
        "insert": Operation(lambda s: (sq.sequence_insert(s, TENSOR, 2), sq.sequence_insert([], TENSOR))),
        "erase": Operation(lambda s: (sq.sequence_erase(s, 2), sq.sequence_erase(MORE[:3]))),
        "split": Operation(lambda s: sq.split_to_sequence(ROWS)),
        "split and drop": Operation(lambda s: sq.split_to_sequence(RANK5, axis=2, keepdims=0)),
        "split evenly": Operation(lambda s: sq.split_to_sequence(ROWS, 7)),
        "split by lengths": Operation(lambda s: sq.split_to_sequence(ROWS, LENGTHS)),
        "split by a list": Operation(lambda s: sq.split_to_sequence(ROWS, [1000, 0, 2000])),
        "split wrongly": Operation(lambda s: fails(ValueError, sq.split_to_sequence, ROWS, [1, 2])),
        "split nothing": Operation(lambda s: sq.split_to_sequence(ROWS[:0])),
        "join": Operation(lambda s: sq.concat_from_sequence(s, 0), make=uniform),
        "join columns": Operation(lambda s: sq.concat_from_sequence(s, -1), make=uniform),
        "stack": Operation(lambda s: sq.concat_from_sequence(s, 1, new_axis=1), make=uniform),
        "join a list": Operation(lambda s: sq.concat_from_sequence(MORE, 0)),
        "join wrongly": Operation(lambda s: fails(ValueError, sq.concat_from_sequence, s, 0)),
    }


@group
def c_api():
    from support import c_api as api

    memory, shape = np.arange(6, dtype=np.float32), api.extents(2, 3)
    address = memory.ctypes.data
    lengths = api.extents(1, 19)
    WATCHED.append(memory)

    return loosely(
        {
            "new_sequence": Operation(
                lambda s: (api.new_sequence("int8"), api.is_sequence(s), api.type_num(s))
            ),
            "at": Operation(lambda s: (api.at(s, 3), api.size(s))),
            "insert": Operation(lambda s: api.insert(s, -2, RANK3)),
            "append": Operation(lambda s: api.append(s, RANK3)),
            "replace": Operation(lambda s: api.replace(s, 2, RANK3)),
            "erase": Operation(lambda s: api.erase(s, 2)),
            "insert_memory": Operation(lambda s: api.insert_memory(s, 3, address, 2, shape, None, memory)),
            "insert_memory without items": Operation(
                lambda s: api.insert_memory(s, 3, None, 2, api.extents(0, 3), None, memory)
            ),
            "insert_memory nowhere": Operation(
                lambda s: fails(IndexError, api.insert_memory, s, 99, address, 2, shape, None, memory)
            ),
            "split": Operation(lambda s: (api.split(ROWS, 0, 7, 0), api.split(ROWS, 1, 1, 1))),
            "split_lengths": Operation(lambda s: api.split_lengths(BASE, 0, lengths, 2)),
            "join": Operation(lambda s: (api.join(s[:3], 0, 0), api.join(s[:3], 1, 1))),
            "no sequence": Operation(lambda s: fails(TypeError, api.hold, 7)),
        }
    )


@group
def maps():
    def several(a):
        return a + 1, a.sum()

    def missing(a):
        raise KeyError(3)

    def numbers():
        return sq.split_to_sequence(np.arange(6.0))

    def made(run, partly=False):
        return Operation(run, partly, numbers)

    threads._Pool.patience = 0.2  # seconds until a thread that died is missed: here that happens often
    return loosely(
        {
            "serial": made(lambda s: sq.sequence_map(lambda a: a + 1, s)),
            "two outputs": made(lambda s: sq.sequence_map(several, s)),
            "two inputs": made(lambda s: sq.sequence_map(np.add, s, s)),
            "flat": made(lambda s: sq.sequence_map(np.sqrt, s)),
            "sums": made(lambda s: sq.sequence_map(np.sum, s)),
            "sums of rows": made(lambda s: sq.sequence_map(np.max, s[::-1] + s)),
            "flat, not all fit": made(lambda s: sq.sequence_map(np.add, s, s[::-1]), False),
            # Not np.cumsum, of whose calls Python's cache of methods keeps the names, some hundred strings.
            "batches": made(lambda s: sq.map_batches(np.add.accumulate, s, batch_size=4)),
            "stacked batches": made(lambda s: sq.map_batches(lambda b: (b, b), s, batch_size=4, new_axis=1)),
            "a batch of another length": made(
                lambda s: fails(ValueError, sq.map_batches, lambda b: b[1:], s, batch_size=4)
            ),
            "a whole tensor": made(lambda s: sq.sequence_map(np.add, s, np.float64(3))),
            "types given": made(lambda s: sq.sequence_map(several, s, output_dtypes=["float64", float])),
            "of nothing": made(lambda s: sq.sequence_map(abs, s[:0], output_dtypes="int8")),
            "a list": made(lambda s: sq.sequence_map(lambda a: a, MORE[:4])),
            "reported": made(lambda s: sq.sequence_map(lambda a: a, s, progress=lambda done, total: None)),
            "on threads": made(OnThreads(lambda a: a + 1)),
            "a body that raises": made(lambda s: fails(TypeError, sq.sequence_map, {}.__getitem__, s)),
            "a function that raises": made(lambda s: fails(KeyError, sq.sequence_map, missing, s)),
            "a wrong result": made(lambda s: fails(TypeError, sq.sequence_map, lambda a: None, s)),
        },
        alone=False,
    )


class OnThreads:
    """A map on two threads, whose allocations fail from the moment on when both have been started.

    Not while they start: Thread.start() of CPython waits for ever for a thread that had no memory to begin.
    """

    def __init__(self, body):
        self.body = body

    def __call__(self, seq, arm=lambda: None):
        # Locks alone: a Barrier's own is released by Python code, for which there may be no memory.
        first, armed, here = threading.Lock(), threading.Lock(), threading.local()
        armed.acquire()

        def body(a):
            if not hasattr(here, "begun"):
                here.begun = True
                if first.acquire(blocking=False):
                    armed.acquire(timeout=10)
                else:
                    arm()
                    armed.release()
            return self.body(a)

        sq.sequence_map(body, seq, max_workers=2, chunksize=1)
