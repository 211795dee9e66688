"""The state of a running map: the units left to claim, and the chunks that are finished.

Units are handed out in chunks, and finish in any order. `Outputs.add` takes them in the order of the
sequence, so that types, errors and results are those of a serial loop::

    claim ──▶ work.run (anywhere) ──▶ collect ──▶ outputs.add, in order

A unit that fails lowers the bound: units after it are no longer started, all units before it still are.
"""

import heapq
import math
import time

from seqcore.core.maps import Bound

ENOUGH, MOST = 4e-4, 2e-3  # seconds of work to measure a unit by; and of few units
REPORT = 5e-2  # seconds between two reports of progress
SAMPLE = 64  # units to measure, at most
FIRST = 4  # units, because the first take longer
GROWTH = 15  # times as many units as before are in the next chunk of a sample, at most


class Job:
    """A running map. `report` is None, or called with the number of elements done.

    Only the thread that called the map uses it, so it needs no lock.
    """

    def __init__(self, work, outputs, chunksize, report):
        self.work, self.outputs, self.chunksize, self.report = work, outputs, chunksize, report
        self.n = self.stop = work.n  # units in all, and how many of them may be claimed for now
        self.bound = Bound()
        self.claimed = 0  # units handed out, from the front
        self.returned = []  # … and given back: starts and stops, as a heap
        self.added = 0  # units in the outputs
        self.done = self.reported = 0  # elements that are finished, in any order
        self.waiting = {}  # chunks that finished before an earlier one, by their start
        self.seconds = 0.0  # for one unit, as measured so far
        self.measured = 0.0, 0.0  # seconds and units of measured chunks, weighted to the latest

    def collect(self, chunk):
        """Take a finished chunk, and add all chunks that are next in order to the outputs."""
        self.done += self.work.elements(chunk.start, chunk.start + chunk.count)
        self.waiting[chunk.start] = chunk
        while (chunk := self.waiting.pop(self.added, None)) is not None:
            self.outputs.add(chunk)
            self.added += chunk.count
        if self.report is not None and self.done > self.reported:
            self.reported = self.done
            self.report(self.done)

    def run_here(self, size):
        """Run the next units in the calling thread; return how many, and the seconds that each took."""
        start, stop = self.claim(size)
        since = time.perf_counter()
        self.collect(self.work.run(start, stop, self.bound, *self.outputs.types, start == 0))
        return stop - start, (time.perf_counter() - since) / (stop - start)

    def sample(self):
        """Run the next units in the calling thread, to measure the time for a unit."""
        # Units that run in batches speed up while they warm up, so more of them are measured.
        enough, most = (2 * ENOUGH, 16 * SAMPLE) if self.work.in_batches else (ENOUGH, SAMPLE)
        spent, before, size, ran = 0.0, math.inf, 1, 0
        while self.left and ran < most:
            units, seconds = self.run_here(min(size, most - ran))
            # The last chunk has the most units, but something else may have delayed it.
            self.seconds, before = min(seconds, before), (seconds if ran else math.inf)
            spent += units * seconds / (1 if ran else 20)  # the first unit also warms up
            ran += units
            if ran > 1 and spent + seconds > (enough if ran >= FIRST else MOST):
                break
            size = min(max(1, int((enough - spent) / max(seconds, 1e-9))), GROWTH * ran)

    def measure(self, chunk):
        """Update the time for a unit from a chunk that a worker has timed."""
        if chunk.count:
            seconds, units = self.measured
            self.measured = seconds / 2 + chunk.seconds, units / 2 + chunk.count
            self.seconds = self.measured[0] / self.measured[1]

    @property
    def left(self):
        """The number of units that are not claimed, and may be."""
        spans = [(self.claimed, self.stop), *self.returned]
        return sum(stop - start for start, stop in spans if self.bound.allows(start))

    def claim(self, size):
        """Return the next units as (start, stop); None if none are left. A given chunksize comes first."""
        size = self.chunksize or size
        if self.returned and self.bound.allows(self.returned[0][0]):
            start, stop = heapq.heappop(self.returned)
            if start + size < stop:
                heapq.heappush(self.returned, (start + size, stop))
            return start, min(stop, start + size)
        start = self.claimed
        if start >= self.stop or not self.bound.allows(start):
            return None
        self.claimed = min(self.stop, start + size)
        return start, self.claimed

    def give_back(self, start, stop):
        """Have units claimed again that a worker has not started."""
        if start < stop and self.bound.allows(start):
            heapq.heappush(self.returned, (start, stop))


def run_serially(job):
    """Run the units that are left in the calling thread."""
    if job.report is not None and not job.claimed:
        job.sample()
    while job.left:
        job.run_here(job.n if job.report is None else max(1, int(REPORT / max(job.seconds, 1e-9))))
