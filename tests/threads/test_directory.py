"""The lock of the directory of tables, which all sequences share: no fork and no allocator waits for it."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.thread_unsafe

# A thread makes slots of a large sequence of many tables without the GIL, and asks for memory for their ids
# there; the other one has the GIL meanwhile, and makes slots too. An allocator that is traced takes the GIL.
TRACED = """
import threading, tracemalloc
import numpy as np, seqcore as sq
from seqcore.core.maps import chained

large = [chained([sq.split_to_sequence(np.arange(9.0)) for _ in range(9000)]) for _ in range(6)]
small, ended = sq.split_to_sequence(np.arange(10.0)), []
tracemalloc.start()

def edit():
    for seq in large:
        for i in range(100):
            seq.insert(i * 300, np.zeros(1))
    ended.append(True)

other = threading.Thread(target=edit)
other.start()
while not ended:
    small[[0, 1]]
other.join()
print("ended")
"""

# A thread gives ids to many tables without the GIL; forked children need one each.
FORKED = """
import os, signal, threading
import numpy as np, seqcore as sq
from seqcore.core.maps import chained

large = chained([sq.split_to_sequence(np.arange(9.0)) for _ in range(30_000)])
ended = []

def edit():
    while not ended:
        seq = large.copy()
        for i in range(9):
            seq.insert(i * 20000, np.zeros(1))

other = threading.Thread(target=edit)
other.start()
for _ in range(200):
    child = os.fork()
    if child == 0:
        signal.alarm(10)        # ends a child that waits for ever
        seq = sq.split_to_sequence(np.arange(4.0))[[0, 2]]
        os._exit(len(seq))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2, "a child has waited for ever"
ended.append(True)
other.join()
print("ended")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(TRACED, id="traced"),
        pytest.param(
            FORKED,
            id="forked",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork"),
            ],
        ),
    ],
)
def test_nobody_waits_for_ever(script):
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.stdout, ended.stderr) == ("ended\n", "")
