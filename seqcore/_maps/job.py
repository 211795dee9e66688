"""A map that is being run: what is left to claim, and what has come back.

Units go out in chunks, each to whoever is free, and come back in any order. `Outputs.add` takes them in the
order of the sequence, so that types, errors and results are those of a serial loop::

    claim ──▶ work.run (anywhere) ──▶ finished ──▶ add, in order

A unit that fails lowers the bound: from there on nothing is started, before it all is.
"""

import time

from seqcore.core.calls import Bound

ENOUGH = 1e-4  # seconds of work that tell what a unit takes
NOT_WORTH_IT = 5e-4  # seconds of work that threads would not make shorter
REPORT = 5e-2  # seconds between two reports of progress
SAMPLE = 64  # units that are run to find out


class Job:
    """A map that is being run. `report` is called with the elements done, or None.

    Attributes
    ----------
    chunks : int
        How many chunks came back.
    in_blocks : int
        How many units ran in blocks, which is quick, and not one by one.
    """

    def __init__(self, work, outputs, chunksize, report):
        self.work, self.outputs, self.chunksize, self.report = work, outputs, chunksize, report
        self.n = work.n
        self.bound = Bound()
        self.claimed = 0  # units handed out, from the front
        self.added = 0  # units in the outputs
        self.done = 0  # elements that have come back, in any order
        self.chunks = self.in_blocks = 0
        self.waiting = {}  # chunks that came back too early, by their start
        self.seconds = 0.0  # that one unit takes, as far as was measured
        self.largest = 0  # chunk that came back measured
        self.measured = 0.0, 0.0  # seconds and units of those, of which older ones count less

    def run(self, start, stop):
        return self.work.run(start, stop, self.bound, self.outputs.dtypes, self.outputs.single)

    def take_back(self, chunk):
        """Take a finished chunk, and add all chunks whose turn has come."""
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
        """Learn from a chunk that a worker has measured what a unit takes."""
        if chunk.count:
            seconds, units = self.measured
            self.measured = seconds / 2 + chunk.seconds, units / 2 + chunk.count
            self.seconds = self.measured[0] / self.measured[1]
            self.largest = max(self.largest, chunk.count)

    def sample(self):
        """Run the first units here: the first settles the types, all tell what a unit takes."""
        # What runs in batches becomes faster while it is warming up, so it gets a longer look.
        enough, most = (20 * ENOUGH, 16 * SAMPLE) if self.work.in_batches else (ENOUGH, SAMPLE)
        began = time.perf_counter()
        while self.claimed < min(self.n, most):
            start, self.claimed = self.claimed, min(self.n, max(1, 2 * self.claimed))
            since = time.perf_counter()
            self.take_back(self.run(start, self.claimed))
            now = time.perf_counter()
            self.seconds = (now - since) / (self.claimed - start)
            if now - began > enough:
                break

    @property
    def pays_on_threads(self):
        """Whether threads could make what is left any shorter, as far as that is known."""
        if self.seconds < self.work.small:
            return False
        return self.seconds * (self.n - self.claimed) >= NOT_WORTH_IT

    def claim(self, workers, seconds, limit=None):
        """The next units that nobody has, as (start, stop), or None. At the end chunks become smaller."""
        left = self.n - self.claimed
        if left <= 0 or not self.bound.allows(self.claimed):
            return None
        size = self.chunksize
        if size is None:
            size = max(1, min(left // (2 * workers), int(seconds / max(self.seconds, 1e-9))))
            size = min(size, limit or size)
        start, self.claimed = self.claimed, min(self.n, self.claimed + size)
        return start, self.claimed


def run_here(job):
    """All of it in the calling thread."""
    if job.report is not None:
        job.sample()
        size = max(1, int(REPORT / max(job.seconds, 1e-9)))
    elif job.outputs.dtypes is None:
        size = 1  # which settles the types
    else:
        size = job.n
    while job.claimed < job.n:
        start, job.claimed = job.claimed, min(job.n, job.claimed + size)
        job.take_back(job.run(start, job.claimed))
        if job.report is None:
            size = job.n


def run_rest_here(job):
    start, job.claimed = job.claimed, job.n
    if start < job.n:
        job.take_back(job.run(start, job.n))
