"""The operations whose allocations are made to fail, in groups: those of support/surface, and a few more.

`prepare(seq)` makes the arguments and returns them behind what is called. `partly`: the operation is several
edits, and the first may hold when the last has failed. `loose`: it leads through code of NumPy, ctypes or
the interpreter, which makes another exception of a failed allocation, or leaks itself. Then any exception
will do, and only references to sources are counted. Where such code ends the process differs from one Python
to the next: these are run with the one that they were tried with. `alone`: allocations fail one at a time.

Left out ("out" in the registry), for a failed allocation ends the process there (CPython 3.11, NumPy 2.4,
protobuf 7, Cython 3.3):
  np.errstate, on the way of Python floats        CPython's PyContextVar_Set
  hashes of dtypes, on that of foreign bytes      NumPy's PyArray_DescrHash
  and fixed-width strings
  pickle of dtypes: __reduce_ex__ is in           NumPy's arraydescr_reduce
  to_proto and from_proto                         protobuf's PyUpb_Message_New
  for name, value in some_dict.items()            CPython's dictiter_new
or leaks or waits for ever in others:
  hold and let_go by ctypes                       whose result is lost where it can't become an int
  Thread.start()                                  CPython waits for a thread that had no memory to begin
  ThreadPoolExecutor                              as do its futures for a worker that had none
Where a function shares a variable with a comprehension inside it, CPython 3.11 loses the arguments if it has
no memory for that. So functions for notebooks and pickles which get tensors have none. Padding is loose, for
its arguments are read in Python: CPython 3.11 loses a block where it has no memory for a list display or the
frame of a call.
"""

import threading
from collections import namedtuple

import numpy as np
from support.surface import BASE, CALLS, RANK3, ROWS, SEQUENCES, WATCHED, Operands

import seqcore as sq
from seqcore._maps import threads

__all__ = ["GROUPS", "WATCHED", "OnThreads", "fails", "fresh"]

Operation = namedtuple("Operation", "prepare partly make loose alone")
fresh = SEQUENCES["mixed"]
# Of each further type, what copies, compares and moves its items.
OF_EACH_TYPE = (
    "append", "compact", "concat_from_sequence", "__iter__", "__eq__", "__reduce__, restored", "__deepcopy__",
    "index", "to_padded", "values",
)  # fmt: skip


def fails(error, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def operation(one, kind=None):
    """Return a call of the registry as an operation, on its own kind of sequence or another."""
    loose = one.memory == "loose" or kind == "words"

    def prepare(seq):
        arguments = one.arguments(Operands(seq)).values()
        if one.raises is None:
            return (one.run, *arguments)
        return (fails, one.raises, one.run, *arguments)

    alone = loose and one.section != "maps"
    return Operation(prepare, one.partly, SEQUENCES[kind or one.on], loose, alone)


def of_section(name):
    def group():
        if name == "maps":
            threads._Pool.patience = (
                0.2  # seconds until a thread that died is missed: here that happens often
            )
        calls = {label: one for label, one in CALLS.items() if one.section == name and one.memory != "out"}
        operations = {label: operation(one) for label, one in calls.items()}
        return operations | (on_threads() if name == "maps" else {})

    return group


def more_types():
    operations = {}
    for kind in ("words", "pairs of words", "bools", "bytes", "complex", "bfloat16"):
        for label in OF_EACH_TYPE:
            try:
                CALLS[label](Operands(SEQUENCES[kind]()))
            except (ValueError, TypeError, ImportError):
                continue  # not of strings of other ranks, or there is no such type here
            operations[f"{kind}: {label}"] = operation(CALLS[label], kind)
    return operations


def files():
    """Through pyarrow, whose own failures are MemoryErrors too."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return {}
    return of_section("files")()


def c_api():
    from support import c_api as api

    memory, shape = np.arange(6, dtype=np.float32), api.extents(2, 3)
    address = memory.ctypes.data
    lengths = api.extents(1, 19)
    WATCHED.append(memory)
    calls = {
        "new_sequence": lambda s: (api.new_sequence("int8"), api.is_sequence(s), api.type_num(s)),
        "at": lambda s: (api.at(s, 3), api.size(s)),
        "insert": lambda s: api.insert(s, -2, RANK3),
        "append": lambda s: api.append(s, RANK3),
        "replace": lambda s: api.replace(s, 2, RANK3),
        "erase": lambda s: api.erase(s, 2),
        "insert_memory": lambda s: api.insert_memory(s, 3, address, 2, shape, None, memory),
        "insert_memory without items": lambda s: api.insert_memory(
            s, 3, None, 2, api.extents(0, 3), None, memory
        ),
        "insert_memory nowhere": lambda s: fails(
            IndexError, api.insert_memory, s, 99, address, 2, shape, None, memory
        ),
        "split": lambda s: (api.split(ROWS, 0, 7, 0), api.split(ROWS, 1, 1, 1)),
        "split_lengths": lambda s: api.split_lengths(BASE, 0, lengths, 2),
        "join": lambda s: (api.join(s[:3], 0, 0), api.join(s[:3], 1, 1)),
        "no sequence": lambda s: fails(TypeError, api.hold, 7),
    }
    return {
        name: Operation(lambda s, run=run: (run, s), False, fresh, True, True) for name, run in calls.items()
    }


def on_threads():
    def numbers():
        return sq.split_to_sequence(np.arange(6.0))

    return {"on threads": Operation(lambda seq: (OnThreads(seq),), False, numbers, True, False)}


class OnThreads:
    """A map on two threads, whose allocations fail from the moment on when both have been started.

    Not while they start: Thread.start() of CPython waits for ever for a thread that had no memory to begin.
    """

    def __init__(self, seq):
        self.seq = seq

    def __call__(self, arm=lambda: None):
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
            return a + 1

        sq.sequence_map(body, self.seq, max_workers=2, chunksize=1)


SECTIONS = (
    "edits", "looks", "copies", "ragged", "rows", "reductions", "operators", "maps", "training", "columns",
    "arrow",
)  # fmt: skip
GROUPS = {name: of_section(name) for name in SECTIONS}
GROUPS |= {"more_types": more_types, "files": files, "c_api": c_api}
