"""Memory that a loader's workers dirty, in fresh processes: `python -m benchmarks.workers list fork`.

A forked worker shares memory with its parent until one of them writes to it, and counting references writes.
With a list of arrays, each page that holds array objects is copied for each worker. A sequence counts one
reference for all of its elements.

::

    list        [object|object|object|…] copied      [values] [values] [values] …  shared
    sequence    [pieces]                 shared      [values]                      shared
"""

import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import seqcore as sq

from .declare import optional

COUNT, LONGEST, BATCH, NWORKERS = 300_000, 399, 32, 2  # 240 MB of float32
SMAPS = Path("/proc/self/smaps_rollup")  # Linux's account of a process's memory
EACH = 64  # batches between two measurements of a worker's memory, because one takes a millisecond


def can_measure():
    return SMAPS.exists()


def measured(dataset, method):
    """Bytes of a worker, as means: what it has dirtied in an epoch, and all that it shares with nobody.

    Parameters
    ----------
    dataset : {"list", "split", "loaded", "documents", "pair"}
    method : {"fork", "forkserver", "spawn"}

    Returns
    -------
    dict of float
        `dirtied` and `own`.
    """
    # Each in a fresh process, whose heap is nothing but this data set's.
    command = [sys.executable, "-m", "benchmarks.workers", dataset, method]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent
    )
    return json.loads(done.stdout)


# --- data sets ---


def ragged():
    """An array split into elements of 1 to LONGEST numbers."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, LONGEST, COUNT, endpoint=True)
    return sq.TensorSequence.from_lengths(generator.random(lengths.sum(), np.float32), lengths)


def list_of_arrays():
    return [element.copy() for element in ragged()]


def loaded(folder):
    """Return a loaded file. It has to be on a disk, because the memory of tmpfs counts as dirty."""
    path = Path(folder) / "elements.arrow"
    sq.save(path, ragged())
    return sq.load(path)


DOCUMENTS = 10_000_000


def documents(folder, name):
    """Return as many documents of four tokens, saved and loaded."""
    path = Path(folder) / name
    tokens = np.resize(np.arange(50_000, dtype=np.uint16), 4 * DOCUMENTS)
    sq.save(path, sq.TensorSequence.from_lengths(tokens, np.full(DOCUMENTS, 4)))
    return sq.load(path)


# --- an epoch ---


class Worker:
    """The work of a worker: sum each batch, and return how much memory it has dirtied."""

    def __init__(self):
        self.at_start = self.nbatches = None

    def start(self, number):
        """Begin, in the worker, which has the data set by now."""
        self.at_start, self.nbatches = private_dirty(), 0

    def __call__(self, batch):
        total = sum(float(element.sum()) for element in batch)
        self.nbatches += 1
        if self.nbatches % EACH:
            return total, None
        now = private_dirty()
        return total, (os.getpid(), now - self.at_start, now)


def private_dirty():
    """Bytes that this process has written and shares with nobody."""
    found = re.search(r"^Private_Dirty:\s+(\d+) kB$", SMAPS.read_text(), re.MULTILINE)
    return int(found[1]) * 1024


def epoch(dataset, method):
    """Yield the results of the workers in a shuffled epoch, batch by batch."""
    worker = Worker()
    if optional("torch") is None:
        yield from epoch_by_hand(dataset, method, worker)
        return
    from torch.utils.data import DataLoader

    yield from DataLoader(
        dataset,
        batch_size=BATCH,
        shuffle=True,
        num_workers=NWORKERS,
        multiprocessing_context=method,
        collate_fn=worker,
        worker_init_fn=worker.start,
    )


def epoch_by_hand(dataset, method, worker):
    """The same without PyTorch: each process takes every other batch."""
    context = multiprocessing.get_context(method)
    order = np.random.default_rng(1).permutation(len(dataset))
    starts = range(0, len(order), BATCH)
    results = context.SimpleQueue()
    arguments = [(dataset, order, starts[number::NWORKERS], worker, results) for number in range(NWORKERS)]
    processes = [context.Process(target=run_worker, args=each, daemon=True) for each in arguments]
    for process in processes:
        process.start()
    yield from (results.get() for _ in starts)
    for process in processes:
        process.join()


def run_worker(dataset, order, starts, worker, results):
    worker.start(0)
    for start in starts:
        positions = order[start : start + BATCH].tolist()
        results.put(worker([dataset[position] for position in positions]))


def main(name, method):
    with tempfile.TemporaryDirectory() as folder:
        data_sets = {
            "list": list_of_arrays,
            "split": ragged,
            "loaded": lambda: loaded(folder),
            "documents": lambda: documents(folder, "documents.arrow"),
            "pair": lambda: documents(folder, "documents.idx"),
        }
        dataset = data_sets[name]()
        last = {}
        for _, told in epoch(dataset, method):
            if told is not None:
                last[told[0]] = told[1:]
            if method != "fork" and len(last) == NWORKERS:
                break  # who shares nothing has all of its memory from the start
    dirtied, own = np.mean([*last.values()], axis=0).tolist()
    print(json.dumps({"dirtied": dirtied, "own": own}))


if __name__ == "__main__":
    main(*sys.argv[1:])
