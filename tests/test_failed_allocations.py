"""Every allocation of every operation of the core is made to fail in turn: an exception, and all as it was.

In a subprocess, with CPython's own hook, and only operations that stay in the core: the interpreter and NumPy
don't stand up to this themselves.
"""

import subprocess
import sys

import pytest

pytest.importorskip("_testcapi", reason="this Python was built without the hook that makes allocations fail")

SCRIPT = """
import gc, sys
import _testcapi
import numpy as np
import seqcore as sq
from seqcore._split_join import join_elements, split_by_lengths, split_equally

gc.disable()                                # which would allocate in between
dtype, lengths = np.dtype("float32"), np.array([1000, 2000])
rows, rank5 = np.zeros((3000, 2)), np.zeros((2,) * 5)
uniform = sq.split_to_sequence(np.zeros((5, 2)))
tensor, rank3 = np.zeros(3, np.float32), np.zeros((2, 2, 2), np.float32)
more = [np.full(4, i, np.float32) for i in range(50)]

OPERATIONS = {
    "put in one": lambda s: (s.append(tensor), s.append(rank3), s.insert(3, tensor)),
    "put in many": lambda s: s.extend(more),
    "put in itself": lambda s: s.extend(s),
    "replace": lambda s: s.__setitem__(2, rank3),
    "replace a slice": lambda s: s.__setitem__(slice(2, 6), more),
    "replace steps": lambda s: s.__setitem__(slice(None, None, 2), more[:11]),
    "take out": lambda s: s.pop(7),
    "take out a slice": lambda s: s.__delitem__(slice(3, 9)),
    "take out steps": lambda s: s.__delitem__(slice(None, None, 3)),
    "reverse": lambda s: s.reverse(),
    "clear": lambda s: s.clear(),
    "look": lambda s: (s[3], s[2:9], s[::2], list(s), s.shapes, s.nbytes),
    "copy": lambda s: (s.copy(), s + more),
    "split": lambda s: split_equally(rows, 0, 1, False),
    "split by lengths": lambda s: split_by_lengths(rows, 0, lengths),
    "split rank 5": lambda s: split_equally(rank5, 0, 1, True),
    "join": lambda s: (join_elements(uniform, 0, False), join_elements(uniform, 0, True)),
    "construct": lambda s: sq.TensorSequence(more, dtype),
}

def fresh():
    s = sq.split_to_sequence(np.arange(40, dtype=np.float32).reshape(20, 2))
    s.insert(5, tensor)
    s.append(rank3)
    return s

def contents(s):
    s._check()
    return [(t.shape, t.tobytes()) for t in s]

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
            except MemoryError:
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
    assert len(OPERATIONS) == 18
