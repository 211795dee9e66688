"""Every allocation of every operation is made to fail in turn: an exception, and all as it was.

In a subprocess, with CPython's own hook. What NumPy or Python make of a failure of their own inside an
operation, a `SystemError` or `PicklingError` among it, is not ours to judge; the sequence has to be whole
all the same.
"""

import subprocess
import sys

import pytest

pytest.importorskip("_testcapi", reason="this Python was built without the hook that makes allocations fail")

SCRIPT = """
import copy, pickle, sys
import _testcapi
import numpy as np
import seqcore as sq

tensor, rank3 = np.zeros(3, np.float32), np.zeros((2, 2, 2), np.float32)
more = [np.full(4, i, np.float32) for i in range(50)]

OPERATIONS = {
    "put in one": lambda s: (s.append(tensor), s.append(rank3), s.insert(3, tensor)),
    "put in one of Python's": lambda s: s.append([1.0, 2.0]),
    "put in many": lambda s: s.extend(more),
    "put in itself": lambda s: s.extend(s),
    "replace": lambda s: s.__setitem__(2, rank3),
    "replace a slice": lambda s: s.__setitem__(slice(2, 6), more),
    "replace steps": lambda s: s.__setitem__(slice(None, None, 2), more[:11]),
    "take out": lambda s: s.pop(7),
    "take out a slice": lambda s: s.__delitem__(slice(3, 9)),
    "take out steps": lambda s: s.__delitem__(slice(None, None, 3)),
    "take out an equal one": lambda s: s.remove(tensor),
    "reverse": lambda s: s.reverse(),
    "clear": lambda s: s.clear(),
    "compact": lambda s: s.compact(),
    "look": lambda s: (s[3], s[2:9], s[::2], list(s), tensor in s, s.shapes, s.nbytes, s.pinned_nbytes),
    "copy": lambda s: (s.copy(), copy.deepcopy(s), s + more),
    "pickle": lambda s: pickle.loads(pickle.dumps(s, 5)),
    "compare": lambda s: s == other,
    "show": lambda s: (repr(s), s._repr_html_()),
    "split": lambda s: sq.split_to_sequence(np.zeros((3000, 2))),
    "split by lengths": lambda s: sq.split_to_sequence(np.zeros((30, 2)), [10, 20]),
    "split rank 5": lambda s: sq.split_to_sequence(np.zeros((2,) * 5), keepdims=0),
    "join": lambda s: (sq.concat_from_sequence(s[:5], 0), sq.concat_from_sequence(s[:5], 0, 1)),
    "operators": lambda s: (sq.sequence_at(s, 2), sq.sequence_insert(s, tensor), sq.sequence_erase(s)),
    "construct": lambda s: (sq.TensorSequence(more, copy=True), sq.TensorSequence(["a", ["b"]])),
    "map": lambda s: sq.sequence_map(lambda a: a, s),
}

def fresh():
    s = sq.split_to_sequence(np.arange(40, dtype=np.float32).reshape(20, 2))
    s.insert(5, tensor)
    s.append(rank3)
    return s

def contents(s):
    s._check()
    return [(t.shape, t.tobytes()) for t in s]

other = fresh()
operation = OPERATIONS[sys.argv[1]]
failures = 0
for shared in (False, True):                # whether the buffer is another sequence's too
    succeeded, k = 0, 0
    while succeeded < 5 and k < 400:        # allocations are numbered from 1; some failures go unnoticed
        k += 1
        s = fresh()
        before, keeper = contents(s), s.copy() if shared else None
        failed = False
        _testcapi.set_nomemory(k, k + 1)
        try:
            try:
                operation(s)
            except (MemoryError, SystemError, pickle.PicklingError):
                failed = True
        finally:
            _testcapi.remove_mem_hooks()
        failures += failed
        succeeded = 0 if failed else succeeded + 1
        if failed and sys.argv[1] != "put in one":      # which is three operations
            assert contents(s) == before, f"allocation {k} left the sequence changed"
        s._check()
        assert not shared or contents(keeper) == before, f"allocation {k} changed a copy"
print(failures)
"""

OPERATIONS = [
    line.split(chr(34))[1]
    for line in SCRIPT.splitlines()
    if line.startswith(4 * " " + chr(34)) and "lambda" in line
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_failed_allocation_leaves_all_as_it_was(operation):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", SCRIPT, operation],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= 0


def test_operations_are_all_there():
    assert len(OPERATIONS) == 26
