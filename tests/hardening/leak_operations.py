"""The operations that are counted for leaks, in groups: see leaks.py."""

import atexit
import copy
import tempfile
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from operations import GROUPS as SHARED
from operations import fails, fresh
from support.bodies import Inline
from support.surface import BASE, CALLS, MORE, SEQUENCES, TENSOR, Operands

import seqcore as sq

GROUPS = {}


def group(function):
    GROUPS[function.__name__] = function
    return function


def calls(*sections):
    """Each call of these sections of the registry on a sequence of its own, errors too."""
    operations = {}
    for label, one in CALLS.items():
        if one.section in sections and label not in LEFT_OUT:

            def run(one=one):
                operands = Operands(SEQUENCES[one.on]())
                if one.raises:
                    fails(one.raises, one, operands)
                else:
                    one(operands)

            operations[f"{one.section}: {label}"] = run
    return operations


def call(run, *arguments):
    return run(*arguments)


def shared(name):
    return {label: lambda one=one: call(*one.prepare(one.make())) for label, one in SHARED[name]().items()}


# Threads of a pool end when they like, and NumPy keeps the text of each attribute that is asked for.
LEFT_OUT = ("sequence_map, on threads", "sequence_map, a result on a thread")


# -- the container ---------------------------------------------------------------------------------------


class Reentering:
    """Owns an array's memory, and edits the sequence that lets go of it."""

    def __init__(self, seq):
        self.seq, self.memory = seq, np.zeros(3, np.float32)
        self.__array_interface__ = self.memory.__array_interface__

    def __del__(self):
        self.seq.append(TENSOR)
        len(self.seq), self.seq[-1]
        self.seq.reverse()


def reentered(edit):
    def run():
        seq = fresh()
        seq.insert(2, Reentering(seq))
        seq.insert(3, Reentering(seq))
        edit(seq)
        seq.clear()
        seq.clear()

    return run


class Number:
    def __index__(self):
        raise KeyError("no number")


@group
def container():
    more = {
        "lists too deep": lambda: fails(ValueError, fresh().append, endless),
        "a number that raises": lambda: fails(KeyError, fresh().insert, Number(), TENSOR),
        "nothing made": lambda: fails(TypeError, sq.TensorSequence.__new__(sq.TensorSequence).append, 1),
        "views of elements": lambda: fresh().append(fresh()[2][:1].T),
        "memoryviews of elements": lambda: fresh().append(memoryview(fresh()[2])),
        "finalizers at clear": reentered(lambda seq: seq.clear()),
        "finalizers at del": reentered(lambda seq: seq.__delitem__(slice(1, 6))),
        "finalizers at pop": reentered(lambda seq: (seq.pop(2), seq.pop(2))),
        "finalizers at replace": reentered(lambda seq: seq.__setitem__(2, TENSOR)),
        "finalizers at slices": reentered(lambda seq: seq.__setitem__(slice(1, 9), MORE[:2])),
        "finalizers at compact": reentered(lambda seq: seq.compact()),
    }
    return calls("edits", "looks", "copies", "ragged", "reductions") | shared("more_types") | more


endless = []
endless.append(endless)


@group
def c_api():
    from support import c_api as api

    memory, shape = BASE.copy(), api.extents(20, 2)

    def held():
        seq = fresh()
        snapshot = api.hold(seq)
        seq.clear()
        api.let_go(snapshot)

    return shared("c_api") | {
        "hold": held,
        "replace nowhere": lambda: fails(IndexError, api.replace, fresh(), 99, TENSOR),
        "insert nowhere": lambda: fails(IndexError, api.insert, fresh(), 99, TENSOR),
        "append a wrong type": lambda: fails(TypeError, api.append, fresh(), BASE.astype(int)),
        "erase nowhere": lambda: fails(IndexError, api.erase, fresh(), 99),
        "memory at NULL": lambda: fails(
            ValueError, api.insert_memory, fresh(), 0, None, 2, shape, None, memory
        ),
        "memory of no owner": lambda: fails(
            ValueError, api.insert_memory, fresh(), 0, memory.ctypes.data, 2, shape, None, None
        ),
        "split_lengths that don't fit": lambda: fails(
            ValueError, api.split_lengths, BASE, 0, api.extents(1, 99), 2
        ),
        "join nothing": lambda: fails(ValueError, api.join, fresh()[:0], 0, 0),
    }


# -- operators and maps ----------------------------------------------------------------------------------


@group
def operators():
    return calls("operators", "training")


# -- Arrow and files -------------------------------------------------------------------------------------


def taken_twice():
    """The array of a pair of capsules is there for one."""
    capsules = sq.split_to_sequence(BASE).__arrow_c_array__()
    once = types.SimpleNamespace(__arrow_c_array__=lambda: capsules)
    sq.TensorSequence.from_arrow(once)
    fails(ValueError, sq.TensorSequence.from_arrow, once)


@group
def arrow():
    """Without a package: what goes out and comes in, what nobody takes, and what is refused."""
    return {**calls("arrow", "columns"), "taken twice": taken_twice}


@group
def files():
    """By way of pyarrow, into files and out of them."""
    import pyarrow as pa

    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    wrong = Path(folder.name, "wrong.arrow")
    wrong.write_bytes(b"ARROW1\0\0")
    take, lists = sq.TensorSequence.from_arrow, pa.array([[1, 2], [], [3]])
    nulls, tables = pa.array([[1], None]), pa.table({"a": [[1]], "b": [[2]]})
    uniform = SEQUENCES["even"]
    return calls("files") | {
        "to pyarrow": lambda: (pa.array(uniform()), pa.chunked_array(uniform())),
        "there and back": lambda: take(pa.array(uniform()))[2:5],
        "a slice of a chunk": lambda: take(pa.chunked_array([lists, lists])[1:5])[3],
        "not nulls": lambda: fails(TypeError, take, nulls),
        "not tables": lambda: fails(TypeError, take, tables),
        "load of what is damaged": lambda: fails(ValueError, sq.load, wrong),
    }


@group
def maps():
    def stumbles(a):
        if a[0] == 3:
            raise KeyError("three")
        return a

    def no_tensor(a):
        return a if a[0] < 3 else object()

    def more_later(a):
        return a if a[0] < 3 else (a, a)

    numbers = sq.split_to_sequence(np.arange(6.0))
    pool = ThreadPoolExecutor(2)
    operations = calls("maps")
    for how, options in {
        "serial": {},
        "threads": {"max_workers": 2, "chunksize": 1},
        "pool": {"executor": pool, "chunksize": 2},
        "executor": {"executor": Inline()},
        "typed": {"output_dtypes": "float64"},
        "reported": {"progress": lambda done, total: None},
    }.items():

        def run(body, *more, options=options):
            return sq.sequence_map(body, numbers, *more, **options)

        operations |= {
            f"{how}: right": lambda run=run: run(lambda a: a + 1),
            f"{how}: raises": lambda run=run: fails(KeyError, run, stumbles),
            f"{how}: no tensor": lambda run=run: fails(TypeError, run, no_tensor),
            f"{how}: another number": lambda run=run: fails(TypeError, run, more_later),
            f"{how}: lengths differ": lambda run=run: fails(ValueError, run, np.add, numbers[1:]),
        }
    return operations


# -- ONNX ------------------------------------------------------------------------------------------------


@group
def protos():
    import seqcore.onnx as sqo

    plain, mixed, texts = (sqo.to_proto(seq) for seq in (SEQUENCES["even"](), fresh(), SEQUENCES["words"]()))
    data = plain.SerializeToString()
    many = sq.split_to_sequence(np.zeros((40, 2)))
    damaged = copy.deepcopy(mixed)
    damaged.tensor_values[3].raw_data = b"x"
    return {
        "write": lambda: sqo.to_proto(fresh(), "name"),
        "write rows": lambda: sqo.to_proto(many),
        "write strings": lambda: sqo.to_proto(SEQUENCES["words"]()),
        "write what is too large": lambda: fails(ValueError, sqo.to_proto, [np.broadcast_to(1.0, 2**40)]),
        "write no UTF-8": lambda: fails(ValueError, sqo.to_proto, sq.TensorSequence(["\ud800"])),
        "read": lambda: [sqo.from_proto(one) for one in (plain, mixed, texts)],
        "read bytes": lambda: sqo.from_proto(data),
        "read what is cut off": lambda: fails(ValueError, sqo.from_proto, data[:-3]),
        "read what is damaged": lambda: fails(ValueError, sqo.from_proto, damaged),
        "read another type": lambda: fails(TypeError, sqo.from_proto, plain, "int8"),
    }


LOOP = """
    <ir_version: 8, opset_import: ["" : 17]>
    loop (float[N, 2] x, int64 rounds) => (float[M, 2] y, seq(float[2]) all) {
        yes = Constant <value = bool {1}> ()
        none = SequenceEmpty ()
        all = Loop (rounds, yes, none) <body = b (int64 i, bool go, seq(float[2]) s)
                                             => (bool on, seq(float[2]) t) {
            r = Gather <axis = 0> (x, i)
            t = SequenceInsert (s, r)
            on = Identity (go)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    }
"""
EDITS = """
    <ir_version: 8, opset_import: ["" : 17]>
    edits (seq(float[]) s, float[N] x, int64 at) => (seq(float[]) t, int64 n, float[M] joined) {
        more = SequenceInsert (s, x)
        t = SequenceErase (more, at)
        n = SequenceLength (t)
        joined = ConcatFromSequence <axis = 0> (t)
    }
"""


@group
def graphs():
    from onnx import parser

    import seqcore.onnx as sqo

    graph = parser.parse_graph("add (float[N] x, float[N] y) => (float[N] z) { z = Add(x, y) }")
    body = sqo.GraphBody(graph)
    ones = sq.TensorSequence([np.ones(n, np.float32) for n in (2, 3, 2, 2)])
    bad = sq.TensorSequence([*ones[:2], np.ones(5, np.float32), ones[3]])
    loop = sqo.InferenceSession(parser.parse_model(LOOP))
    edits = sqo.InferenceSession(parser.parse_model(EDITS))
    x, n = np.zeros((9, 2), np.float32), np.array(5)
    feed = {"s": ones, "x": np.zeros(2, np.float32), "at": np.array(1)}
    return {
        "body": lambda: body(ones[0], ones[0]),
        "body: wrong shape": lambda: fails(Exception, body, ones[0], ones[1]),
        "body: wrong type": lambda: fails(TypeError, body, ones[0], np.ones(2)),
        "body: wrong number": lambda: fails(TypeError, body, ones[0]),
        "map": lambda: sq.sequence_map(body, ones, ones),
        "map on threads": lambda: sq.sequence_map(body, ones, ones, max_workers=2, chunksize=1),
        "map that fails": lambda: fails(Exception, sq.sequence_map, body, ones, bad),
        "compile": lambda: sqo.GraphBody(graph),
        "compile what is wrong": lambda: fails(ValueError, sqo.GraphBody, wrong_graph(parser)),
        "session: loop": lambda: loop.run(None, {"x": x, "rounds": n}),
        "session: loop too long": lambda: fails(Exception, loop.run, None, {"x": x, "rounds": np.array(99)}),
        "session: edits": lambda: edits.run(None, feed),
        "session: no position": lambda: fails(IndexError, edits.run, None, feed | {"at": np.array(99)}),
        "session: wrong type": lambda: fails(TypeError, edits.run, None, feed | {"x": np.zeros(2)}),
        "session: no feed": lambda: fails(ValueError, edits.run, None, {}),
        "session: no output": lambda: fails(ValueError, edits.run, ["zzz"], feed),
    }


def wrong_graph(parser):
    return parser.parse_graph("add (float[N] x) => (float[N] z) { z = Add(x, missing) }")
