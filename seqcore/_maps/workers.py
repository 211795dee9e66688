"""The workers of an executor, a pool or a cluster, behind one small interface.

=============  ==============================================================================================
`Futures`      executors of `concurrent.futures`, and others with its interface, such as loky's and mpi4py's
`DaskWorkers`  a Dask client; it sends large inputs once, and runs the tasks of lost workers again
`PoolWorkers`  pools of `multiprocessing`, `torch.multiprocessing` and `ray.util.multiprocessing`
`RayWorkers`   Ray's module; large inputs are in its object store, and it runs the tasks of lost workers again
=============  ==============================================================================================

To add another way to run maps, add a class here, and a line to `workers_of`.
"""

import importlib
import os
from concurrent import futures
from concurrent.futures import Executor
from types import ModuleType

from seqcore._arguments.shown import got


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
    least : float
        The seconds of work in a chunk, at least, where there is so much left.
    patience : float or None
        The seconds after which to ask `loss`, or None if each task is sure to end.
    """

    pickler = "pickle"
    lends: int | None = None
    chunk_nbytes = 4 << 20
    least = 5e-3
    patience: float | None = None

    def __init__(self, executor, count):
        self.executor = executor
        self.count = count if isinstance(count, int) and count > 0 else os.cpu_count() or 1

    @property
    def name(self):
        """The name of the executor in messages."""
        return getattr(self.executor, "__name__", None) or type(self.executor).__name__

    def submit(self, done, function, *args):
        """Have a worker call a function, and return the task.

        At its end `done` is called in any thread, with a function that returns the result or raises.
        """
        raise NotImplementedError

    def cancel(self, task):
        """Cancel a task if it hasn't started."""

    def send(self, tensor):
        """Send a large tensor to all workers at once.

        Returns what replaces it among the arguments of a task, or None to share it by a file.
        """
        return

    def runs_again(self, error):
        """Return whether an error says no more than that the task must be submitted once more."""
        return False

    def loss(self):
        """Return how workers were lost, with a remedy, or None. Asked while results don't come."""
        return None


class Futures(Workers):
    """An executor of `concurrent.futures`."""

    def __init__(self, executor):
        super().__init__(executor, getattr(executor, "_max_workers", None))

    def submit(self, done, function, *args):
        future = self.executor.submit(function, *args)
        # Not concurrent.futures.wait, which never returns if others cancel a future.
        future.add_done_callback(lambda future: done(future.result))
        return future

    def cancel(self, task):
        task.cancel()


class DaskWorkers(Futures):
    """A client of `dask.distributed`."""

    pickler = "cloudpickle"

    def __init__(self, client):
        if getattr(client, "asynchronous", False):
            raise TypeError(
                "the Dask client is asynchronous, but a map waits for its results: make it by Client(...) "
                "without asynchronous=True"
            )
        # Not pure, because Dask would otherwise run equal chunks, of one map or two, as one task.
        super().__init__(client.get_executor(pure=False))
        self.client = client
        self.count = sum(client.nthreads().values()) or self.count

    def send(self, tensor):
        try:
            # Not by its hash, which takes longer to compute than the tensor to send.
            return self.client.scatter(tensor, broadcast=True, hash=False)
        except TimeoutError:  # there is no worker yet
            return None

    def runs_again(self, error):
        # If the worker of a result is lost before Dask's executor checks the state of the task, it unpacks
        # the result as if it were an exception. Dask would compute a lost result again; so does a map.
        return type(error) is TypeError and any(
            f"non-iterable {name} object" in str(error) for name in ("Reply", "Chunk")
        )


class PoolWorkers(Workers):
    """A pool with the interface of `multiprocessing.pool.Pool`."""

    def __init__(self, pool):
        super().__init__(pool, getattr(pool, "_processes", None))
        self.known = {}  # worker processes by their ids, also those that were replaced since
        if hasattr(pool, "_pool"):
            self.patience = 0.1  # such a pool replaces a dead worker, but its task never ends
        elif type(pool).__module__.partition(".")[0] == "ray":
            self.pickler = RayWorkers.pickler
            self.chunk_nbytes, self.least = RayWorkers.chunk_nbytes, RayWorkers.least
            self.lends = _lent_by(importlib.import_module("ray"))

    def submit(self, done, function, *args):
        self.loss()  # to know the workers before they have tasks
        return self.executor.apply_async(
            function,
            args,
            callback=lambda result: done(lambda: result),
            error_callback=lambda error: done(lambda: _raise(error)),
        )

    def loss(self):
        if self.patience is None:
            return None
        for worker in list(self.executor._pool):
            self.known[id(worker)] = worker
        for worker in self.known.values():
            code = getattr(worker, "exitcode", None)
            if code:
                return f"a worker has died (exit code {code})", "check whether the body ends the process"
        if self.executor._state == "TERMINATE":
            return "it was terminated", "keep it open until the map ends"
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
        self.lends = _lent_by(ray)

    def submit(self, done, function, *args):
        if self.remote is None:
            self.remote = self.executor.remote(function)
        task = self.remote.remote(*args)
        task.future().add_done_callback(lambda future: done(future.result))
        return task

    # No task is cancelled: Ray 2.60 ends the caller's process if a task ends while it is being cancelled
    # ("Tried to complete task that was not pending").

    def send(self, tensor):
        return self.executor.put(tensor)


def _lent_by(ray):
    """Return how many bytes of a map's results may stay in Ray's object store: a quarter of the smallest."""
    stores = [node["Resources"].get("object_store_memory", 0) for node in ray.nodes() if node["Alive"]]
    return int(min(stores, default=0)) // 4


def _raise(error):
    raise error


def workers_of(executor):
    """Return the workers of what a caller has given as executor."""
    if isinstance(executor, getattr(futures, "InterpreterPoolExecutor", ())):  # since Python 3.14
        raise TypeError(
            "an InterpreterPoolExecutor can't run maps, because NumPy works in one interpreter of a process: "
            "pass max_workers=, or a ProcessPoolExecutor"
        )
    if isinstance(executor, Executor):
        return Futures(executor)
    if isinstance(executor, ModuleType) and executor.__name__ == "ray":
        return RayWorkers(executor)
    if not isinstance(executor, type) and hasattr(executor, "apply_async"):
        return PoolWorkers(executor)
    if hasattr(executor, "get_executor"):  # a Dask client
        return DaskWorkers(executor)
    raise TypeError(
        "executor must be a concurrent.futures.Executor, a multiprocessing pool, a Dask Client or the module "
        f"ray, got {got(executor)}"
    )
