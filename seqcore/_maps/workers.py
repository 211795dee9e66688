"""The workers that run a map's chunks, behind one small interface.

===============  ============================================================================================
`Futures`        executors of `concurrent.futures`, and others with its interface, such as loky's and mpi4py's
`DaskWorkers`    a Dask client; it sends large inputs once, and runs the tasks of lost workers again
`RayWorkers`     Ray's module; the same, and large inputs are in its object store
`threads._Pool`  the threads of a map
===============  ============================================================================================

To add another way to run maps, add a class here, and a line to `workers_of`.
"""

import os
from importlib.util import find_spec
from types import ModuleType

from seqcore._arguments.shown import got


class NoWorker(Exception):
    """No worker can be started for a task, and none has it."""


class Workers:
    """The interface of workers to a map.

    Attributes
    ----------
    executor : object
        The object that the caller of the map gave.
    count : int
        The number of workers.
    pickler : str
        The name of the module that pickles bodies and results.
    lends : int or None
        The bytes of results that may stay in memory of the executor, which is limited; None if results arrive
        in memory of their own.
    chunk_nbytes : int
        The bytes of input in a chunk, at most.
    seconds, least : float
        The seconds of work in a chunk, and the least where there is so much left.
    patience : float
        The seconds after which to ask `loss`.
    """

    pickler = "pickle"
    lends: int | None = None
    chunk_nbytes = 4 << 20
    seconds = 5e-2
    least = 5e-3
    patience = 1.0

    def __init__(self, executor, count):
        self.executor = executor
        self.count = count if isinstance(count, int) and count > 0 else os.cpu_count() or 1

    @property
    def name(self):
        """The name of the executor in messages."""
        return getattr(self.executor, "__name__", None) or type(self.executor).__name__

    def submit(self, done, function, *args):
        """Have a worker call a function, and return the task; raise `NoWorker` if there is none.

        At its end `done` is called in any thread, with a function that returns the result or raises.
        """
        raise NotImplementedError

    def cancel(self, task):
        """Cancel a task if it hasn't started; `done` is called all the same."""
        task.cancel()

    def send(self, tensor):
        """Send a large tensor to all workers at once.

        Returns what replaces it among the arguments of a task, or None to share it by a file.
        """
        return

    def has_ended(self, task):
        """Return whether a task has ended, though `done` may not have been called. Asked while none is."""
        return False

    def loss(self, tasks):
        """Return the exception for tasks whose results will not come, or None. Asked while none comes."""
        return None


class Futures(Workers):
    """An executor of `concurrent.futures`."""

    def __init__(self, executor):
        super().__init__(executor, getattr(executor, "_max_workers", None))
        package = type(executor).__module__.partition(".")[0]
        # Both depend on it, so that their own maps take any function.
        if package in ("loky", "joblib") and find_spec("cloudpickle"):
            self.pickler = "cloudpickle"

    def submit(self, done, function, *args):
        future = self.executor.submit(function, *args)
        # Not concurrent.futures.wait, which never returns if others cancel a future.
        future.add_done_callback(lambda future: done(future.result))
        return future

    def has_ended(self, task):
        return task.done()


class DaskWorkers(Workers):
    """A client of `dask.distributed`."""

    pickler = "cloudpickle"

    def __init__(self, client):
        if getattr(client, "asynchronous", False):
            raise TypeError(
                "the Dask client is asynchronous, but a map waits for its results: make it by Client(...) "
                "without asynchronous=True"
            )
        super().__init__(client, sum(client.nthreads().values()))

    def submit(self, done, function, *args):
        # Not pure, because Dask would otherwise run equal chunks, of one map or two, as one task.
        future = self.executor.submit(function, *args, pure=False)
        future.add_done_callback(lambda future: done(future.result))
        return future

    def send(self, tensor):
        try:
            # Not by its hash, which takes longer to compute than the tensor to send.
            return self.executor.scatter(tensor, broadcast=True, hash=False)
        except TimeoutError:  # there is no worker yet
            return None


class RayWorkers(Workers):
    """The cluster that Ray's module is connected to."""

    pickler = "ray.cloudpickle"
    chunk_nbytes, least = 16 << 20, 2e-2  # a task costs more than a millisecond

    def __init__(self, ray):
        if not ray.is_initialized():
            raise ValueError("Ray is not connected: call ray.init() before the map")
        super().__init__(ray, int(ray.cluster_resources().get("CPU", 0)))
        self.remote = None
        # Results may fill 25 % of the smallest object store.
        stores = [node["Resources"].get("object_store_memory", 0) for node in ray.nodes() if node["Alive"]]
        self.lends = int(min(stores, default=0)) // 4

    def submit(self, done, function, *args):
        if self.remote is None:
            self.remote = self.executor.remote(function)
        task = self.remote.remote(*args)
        task.future().add_done_callback(lambda future: done(future.result))
        return task

    def cancel(self, task):
        """Let it run: Ray 2.60 ends the caller's process if a task ends while it is being cancelled."""

    def send(self, tensor):
        return self.executor.put(tensor)


def workers_of(executor):
    """Return the workers of what a caller has given as executor."""
    from concurrent import futures

    if isinstance(executor, getattr(futures, "InterpreterPoolExecutor", ())):  # since Python 3.14
        raise TypeError(
            "an InterpreterPoolExecutor can't run maps, because NumPy works in one interpreter of a process: "
            "pass max_workers=, or a ProcessPoolExecutor"
        )
    if isinstance(executor, futures.Executor):
        return Futures(executor)
    if isinstance(executor, ModuleType) and executor.__name__ == "ray":
        return RayWorkers(executor)
    if not isinstance(executor, type) and hasattr(executor, "apply_async"):
        raise TypeError(
            f"executor is a pool of {type(executor).__module__}, which loses the tasks of workers that die: "
            "pass concurrent.futures.ProcessPoolExecutor(...), with the pool's context as mp_context, or the "
            "module ray itself"
        )
    if hasattr(executor, "nthreads") and hasattr(executor, "scatter"):
        return DaskWorkers(executor)
    raise TypeError(
        "executor must be a concurrent.futures.Executor, such as ProcessPoolExecutor(), a Dask Client or the "
        f"module ray, got {got(executor)}"
    )
