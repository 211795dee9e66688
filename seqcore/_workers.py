"""How a map is run: what it hands out, to whom, and how the results come together.

Elements go out in chunks, each to whoever is free, and come back in any order. `Outputs.add` takes them in
the order of the sequence, so that types, errors and results are those of a serial loop::

    claim ──▶ run_chunk (anywhere) ──▶ finished ──▶ add, in order

An element that fails lowers the bound: from there on nothing is started, before it all is.
"""

import contextvars
import importlib
import os
import queue
import sys
import threading
import time
import traceback
from dataclasses import dataclass

from seqcore._tensors import as_tensor
from seqcore.core.calls import Bound, OutputError, absorb, apply, apply_raw, put_results, rows
from seqcore.core.sequence import TensorSequence

ENOUGH = 1e-4  # seconds of work that tell what an element takes
NOT_WORTH_IT = 5e-4  # seconds of work that threads would not make shorter
SMALL_GRAPH = 4e-6  # seconds an element: most of them go into handing arrays over, which holds the GIL
CHUNK = 1e-2  # seconds of work that are handed out at once
REMOTE_CHUNK = 5e-2  # the same, where a chunk has to travel
REMOTE_NBYTES = 4 << 20  # and what it may weigh
SAMPLE = 64  # elements that are run to find out


def is_graph(body):
    """Whether a body is a compiled ONNX graph, found out without an import of what may not be installed."""
    module = sys.modules.get("seqcore.onnx.body")
    return module is not None and isinstance(body, module.GraphBody)


class Outputs:
    """The output sequences of a map, whose number and types the first element settles."""

    def __init__(self, single, dtypes):
        self.single = single
        self.sequences = None
        if dtypes is not None:
            self.sequences = fresh(dtypes)

    @property
    def dtypes(self):
        return None if self.sequences is None else tuple(one.dtype for one in self.sequences)

    def add(self, chunk):
        """Add the next chunk; what has failed in it is raised, as a serial loop would have met it."""
        element, error, chunk.error = chunk.start + chunk.count, chunk.error, None
        if chunk.note is not None and not isinstance(error, OutputError):
            error.add_note(chunk.note)
        if chunk.results is not None:
            if self.sequences is None and chunk.results:
                self._settle(chunk)
            try:
                put_results(self.sequences or (), bool(self.single), chunk.results)
            except BaseException as output_error:
                element, error = complete(self.sequences), output_error
        elif chunk.sequences is not None:
            for mine, more in zip(self.sequences, chunk.sequences, strict=True):
                absorb(mine, more)
        try:
            if error is not None:
                raise_for(error, element)
        finally:
            del error  # it refers to this frame

    def _settle(self, chunk):
        first = chunk.results[0]
        if self.single is None:
            self.single = not isinstance(first, tuple)
        values = (first,) if self.single else first
        try:
            if not self.single and not values:
                raise TypeError("the body returned an empty tuple, but has to return a tensor")
            self.sequences = fresh(as_tensor(value).dtype for value in values)
        except BaseException as error:
            raise_for(OutputError(None, error), chunk.start)


def fresh(dtypes):
    return tuple(TensorSequence(dtype=dtype) for dtype in dtypes)


def raise_for(error, element):
    """Raise what element `element` of a map has failed with."""
    if isinstance(error, OutputError):
        output, reason = error.args
        which = "" if output is None else f", output {output}"
        if type(reason) in (TypeError, ValueError, OverflowError):
            raise type(reason)(f"element {element} of the map{which}: {reason}") from reason
        error = reason  # of a class that may not be made from a message
    error.add_note(f"raised for element {element} of a SequenceMap")
    try:
        raise error
    finally:
        del error


@dataclass(slots=True)
class Chunk:
    """What came of some elements: bare results where their types aren't known yet, else sequences."""

    start: int
    count: int
    error: BaseException | None
    results: list | None = None
    sequences: tuple | None = None
    note: str | None = None  # the traceback of an error in another process


def run_chunk(body, inputs, start, stop, bound, dtypes, single):
    """Run the body for the elements from start to stop, as far as the bound allows."""
    graph, results, sequences, error = is_graph(body), [], None, None
    try:
        if graph:
            _run_graph(body, inputs, start, stop, bound, single, results)
        elif dtypes is None:
            apply_raw(body, inputs, start, stop, bound, results)
        if dtypes is not None:
            sequences = fresh(dtypes)
            if graph:
                put_results(sequences, single, results)
            else:
                apply(body, inputs, start, stop, bound, sequences, single)
    except BaseException as caught:
        error = caught
    if sequences is not None:
        results = None
    count = len(results) if sequences is None else complete(sequences)
    if error is not None:
        bound.lower(start + count)
    try:
        return Chunk(start, count, error, results, sequences)
    finally:
        del error  # it refers to this frame


def complete(sequences):
    """How many elements all outputs have, of which the last gets its one last."""
    return len(sequences[-1])


GRAPH_ROWS = 1024  # of a graph that are run between two looks at the bound


def _run_graph(body, inputs, start, stop, bound, single, results):
    """Append the graph's outputs for the elements from start to stop, and raise for the first that fails."""
    for at in range(start, stop, GRAPH_ROWS):
        if not bound.allows(at):
            break
        try:
            results += _unpacked(body.run_many(rows(inputs, at, min(at + GRAPH_ROWS, stop))), single)
        except BaseException as error:
            failed = at + getattr(error, "seqcore_element", 0)
            if failed > at:  # what came before it, its batch did not keep
                results += _unpacked(body.run_many(rows(inputs, at, failed)), single)
            raise


def _unpacked(results, single):
    return [result for (result,) in results] if single else results


class Job:
    """A map that is being run: what is left to claim, and what has come back."""

    def __init__(self, body, inputs, n, outputs, chunksize, report):
        self.body, self.inputs, self.n = body, inputs, n
        self.outputs, self.chunksize, self.report = outputs, chunksize, report
        self.bound = Bound()
        self.claimed = 0  # elements handed out, from the front
        self.added = 0  # elements in the outputs
        self.done = 0  # elements that have come back, in any order
        self.waiting = {}  # chunks that came back too early, by their start
        self.seconds = 0.0  # that one element takes, as far as was measured

    def run(self, start, stop):
        return run_chunk(
            self.body, self.inputs, start, stop, self.bound, self.outputs.dtypes, self.outputs.single
        )

    def take_back(self, chunk):
        """Take a finished chunk, and add all chunks whose turn has come."""
        self.done += chunk.count
        self.waiting[chunk.start] = chunk
        while (chunk := self.waiting.pop(self.added, None)) is not None:
            self.outputs.add(chunk)
            self.added += chunk.count
        if self.report is not None:
            self.report(self.done)

    def sample(self):
        """Run the first elements here: the first settles the types, all tell what an element takes."""
        # A graph becomes faster while it is warming up, so it gets a longer look.
        graph = is_graph(self.body)
        enough, most = (20 * ENOUGH, 16 * SAMPLE) if graph else (ENOUGH, SAMPLE)
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
        if is_graph(self.body) and self.seconds < SMALL_GRAPH:
            return False
        return self.seconds * (self.n - self.claimed) >= NOT_WORTH_IT

    def claim(self, workers, seconds, size_limit=None):
        """The next elements that nobody has, as (start, stop), or None. At the end chunks become smaller."""
        left = self.n - self.claimed
        if left <= 0 or not self.bound.allows(self.claimed):
            return None
        size = self.chunksize
        if size is None:
            size = max(1, min(left // (2 * workers), int(seconds / max(self.seconds, 1e-9))))
            size = min(size, size_limit or size)
        start, self.claimed = self.claimed, min(self.n, self.claimed + size)
        return start, self.claimed


def run_here(job):
    """All of it in the calling thread."""
    if job.report is not None:
        job.sample()
        size = max(1, int(REMOTE_CHUNK / max(job.seconds, 1e-9)))  # between two reports
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


# -- threads -----------------------------------------------------------------------------------------


def run_on_threads(job, workers):
    """On threads of this map's own: nested maps can't wait for each other, and a fork finds none."""
    if job.chunksize is None:
        job.sample()
        if not job.pays_on_threads:
            run_rest_here(job)
            return
    finished = queue.SimpleQueue()
    lock = threading.Lock()

    def work():
        try:
            while True:
                with lock:
                    claimed = job.claim(workers, CHUNK)
                if claimed is None:
                    return
                finished.put(job.run(*claimed))
        except BaseException as error:  # a failure of ours, such as no memory
            finished.put(error)
        finally:
            _say_done(finished)

    threads = []
    try:
        for _ in range(min(workers, job.n - job.claimed)):
            run = contextvars.copy_context().run
            thread = threading.Thread(target=run, args=(work,), name="seqcore-map")
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads to spare
                break
            threads.append(thread)
        if not threads:
            run_rest_here(job)
        failure = _gather(job, finished, len(threads))
        for thread in threads:
            thread.join()
    except BaseException:  # Ctrl-C: what runs, runs on, but nothing more is started
        job.bound.lower(0)
        raise
    if failure is not None:
        try:
            raise failure
        finally:
            del failure


def _say_done(finished):
    """Tell that a thread is done: the caller waits for it, so also where there is no memory at the moment."""
    while True:
        try:
            finished.put(None)
        except MemoryError:
            time.sleep(0.01)
        else:
            return


def _gather(job, finished, running):
    """Take chunks back until all threads are done; return what a chunk has failed with.

    After a failure the threads stop by themselves: no element behind it is started.
    """
    failure = None
    while running:
        item = finished.get()
        if item is None:
            running -= 1
        elif failure is None:
            try:
                if not isinstance(item, Chunk):
                    raise item
                job.take_back(item)
            except Exception as error:
                failure = error
            except BaseException as error:
                if job.bound.allows(job.n):
                    raise  # no element has failed: it is Ctrl-C in this thread
                failure = error
            if failure is not None:
                job.bound.lower(job.added)
    try:
        return failure
    finally:
        del failure  # it refers to this frame


# -- executors ---------------------------------------------------------------------------------------


def run_on_executor(job, executor, client):
    """On an executor of the caller's, whose workers may be threads, processes or other machines."""
    if job.chunksize is None:
        job.sample()
    workers = _count_workers(executor, client)
    nbytes = sum(one.nbytes for one in job.inputs if isinstance(one, TensorSequence))
    size_limit = max(1, REMOTE_NBYTES * job.n // max(nbytes, 1))
    pickler = "pickle" if client is None else "cloudpickle"
    pending, finished = {}, queue.SimpleQueue()
    try:
        while (claimed := job.claim(workers, REMOTE_CHUNK, size_limit)) is not None:
            future = _submit(job, executor, pickler, *claimed)
            pending[future] = claimed[0]
            # Not concurrent.futures.wait, to which a future that others cancel is never done.
            future.add_done_callback(finished.put)
        while pending:
            future = finished.get()
            start = pending.pop(future)
            if future.cancelled() and not job.bound.allows(start):
                continue  # by us, below
            chunk = future.result()
            chunk.start = start
            if chunk.error is not None:
                job.bound.lower(start + chunk.count)
                # What lies behind the failure need not begin.
                for other in [other for other, start in pending.items() if not job.bound.allows(start)]:
                    other.cancel()
            job.take_back(chunk)
    except BaseException:
        job.bound.lower(0)
        for future in list(pending):
            future.cancel()
        raise


def _submit(job, executor, pickler, start, stop):
    """Send a chunk with what it needs of the inputs."""
    inputs = tuple(one[start:stop] if isinstance(one, TensorSequence) else one for one in job.inputs)
    return executor.submit(
        run_away,
        *(job.body, inputs, stop - start, job.bound.shifted(start), job.outputs.dtypes, job.outputs.single),
        *(_Context(contextvars.copy_context()), os.getpid(), pickler),
    )


def run_away(body, inputs, n, bound, dtypes, single, context, home, pickler):
    """Run a chunk where an executor has brought it."""
    chunk = context.run(run_chunk, body, inputs, 0, n, bound, dtypes, single)
    if chunk.error is not None and os.getpid() != home:
        trace = "".join(traceback.format_exception(chunk.error)).rstrip()
        chunk.note = f"in process {os.getpid()}:\n{trace}"
        chunk.error = _portable(chunk.error, importlib.import_module(pickler))
    return chunk


def _portable(error, pickler):
    """An exception as it is, if it survives the way home."""
    try:
        pickler.loads(pickler.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}, which can't be pickled: {error}")
    return error


class _Context:
    """The caller's context variables, which don't cross processes."""

    def __init__(self, context=None):
        self.context = context

    def run(self, function, *args):
        return function(*args) if self.context is None else self.context.run(function, *args)

    def __reduce__(self):
        return _Context, ()


def _count_workers(executor, client):
    count = getattr(executor, "_max_workers", None)
    if client is not None:
        count = sum(client.nthreads().values())
    return count if isinstance(count, int) and count > 0 else os.cpu_count() or 1
