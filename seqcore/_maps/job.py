"""The state of a running map: the units left to claim, and the chunks that are finished.

Units are handed out in chunks to any free worker, and finish in any order. `Outputs.add` takes them in the
order of the sequence, so that types, errors and results are those of a serial loop::

    claim ──▶ work.run (anywhere) ──▶ finished ──▶ add, in order

A unit that fails lowers the bound: units after it are no longer started, all units before it still are.
"""

import time

from seqcore.core.calls import Bound

ENOUGH = 1e-4  # seconds of work to measure a unit by
NOT_WORTH_IT = 5e-4  # seconds of work that threads would not speed up
REPORT = 5e-2  # seconds between two reports of progress
SAMPLE = 64  # units to measure, at most


class Job:
    """A running map. `report` is None, or called with the number of elements done.

    Attributes
    ----------
    chunks : int
        The number of finished chunks.
    in_blocks : int
        The number of units that ran in blocks, which is fast, and not one by one.
    """

    def __init__(self, work, outputs, chunksize, report):
        self.work, self.outputs, self.chunksize, self.report = work, outputs, chunksize, report
        self.n = work.n
        self.bound = Bound()
        self.claimed = 0  # units handed out, from the front
        self.added = 0  # units in the outputs
        self.done = 0  # elements that are finished, in any order
        self.chunks = self.in_blocks = 0
        self.waiting = {}  # chunks that finished before an earlier one, by their start
        self.seconds = 0.0  # for one unit, as measured so far
        self.largest = 0  # units in a measured chunk so far
        self.measured = 0.0, 0.0  # seconds and units of measured chunks, weighted to the latest

    def run(self, start, stop):
        return self.work.run(start, stop, self.bound, self.outputs.dtypes, self.outputs.single)

    def collect(self, chunk):
        """Take a finished chunk, and add all chunks that are next in order to the outputs."""
        self.done += self.work.elements(chunk.start, chunk.start + chunk.count)
        self.chunks += 1
        self.in_blocks += chunk.in_blocks
        self.waiting[chunk.start] = chunk
        while (chunk := self.waiting.pop(self.added, None)) is not None:
            self.outputs.add(chunk)
            self.added += chunk.count
        if self.report is not None:
            self.report(self.done)

    def measure(self, chunk):
        """Update the time for a unit from a chunk that a worker has timed."""
        if chunk.count:
            seconds, units = self.measured
            self.measured = seconds / 2 + chunk.seconds, units / 2 + chunk.count
            self.seconds = self.measured[0] / self.measured[1]
            self.largest = max(self.largest, chunk.count)

    def sample(self):
        """Run the first units in the calling thread, to set the types and to measure the time for a unit."""
        # Units that run in batches speed up while they warm up, so more of them are measured.
        enough, most = (20 * ENOUGH, 16 * SAMPLE) if self.work.in_batches else (ENOUGH, SAMPLE)
        began = time.perf_counter()
        while self.claimed < min(self.n, most):
            start, self.claimed = self.claimed, min(self.n, max(1, 2 * self.claimed))
            since = time.perf_counter()
            self.collect(self.run(start, self.claimed))
            now = time.perf_counter()
            self.seconds = (now - since) / (self.claimed - start)
            if now - began > enough:
                break

    @property
    def pays_on_threads(self):
        """True if threads can be expected to speed up the remaining units."""
        if self.seconds < self.work.small:
            return False
        return self.seconds * (self.n - self.claimed) >= NOT_WORTH_IT

    def claim(self, workers, seconds, limit=None):
        """Return the next units as (start, stop), or None. Towards the end chunks become smaller."""
        left = self.n - self.claimed
        if left <= 0 or not self.bound.allows(self.claimed):
            return None
        size = self.chunksize
        if size is None:
            size = max(1, min(left // (2 * workers), int(seconds / max(self.seconds, 1e-9))))
            size = min(size, limit or size)
        start, self.claimed = self.claimed, min(self.n, self.claimed + size)
        return start, self.claimed


def run_serially(job):
    """Run all units in the calling thread."""
    if job.report is not None:
        job.sample()
        size = max(1, int(REPORT / max(job.seconds, 1e-9)))
    elif job.outputs.dtypes is None:
        size = 1  # it sets the types
    else:
        size = job.n
    while job.claimed < job.n:
        start, job.claimed = job.claimed, min(job.n, job.claimed + size)
        job.collect(job.run(start, job.claimed))
        if job.report is None:
            size = job.n


def run_rest_serially(job):
    start, job.claimed = job.claimed, job.n
    if start < job.n:
        job.collect(job.run(start, job.n))
