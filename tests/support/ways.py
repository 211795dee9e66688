"""All ways to run a map, by name: what to pass to `sequence_map`, made when a test asks for it first."""

import contextlib
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
from support.bodies import Inline, Recording

TESTS = str(Path(__file__).parents[1])


class Ways(contextlib.ExitStack):
    """Makes each way once."""

    def __init__(self):
        super().__init__()
        self.made = {}

    def get(self, name):
        if name not in self.made:
            self.made[name] = getattr(self, f"make_{name}")()
        return dict(self.made[name])

    def make_serial(self):
        return {}

    def make_threads(self):
        return {"max_workers": 2}

    def make_threads_in_chunks(self):
        return {"max_workers": 3, "chunksize": 2}

    def make_inline(self):
        return {"executor": Inline()}

    def make_pickled(self):
        return {"executor": Recording()}

    def make_thread_executor(self):
        return {"executor": self.enter_context(ThreadPoolExecutor(2))}

    def make_process_executor(self):
        spawn = multiprocessing.get_context("spawn")
        return {"executor": self.enter_context(ProcessPoolExecutor(2, mp_context=spawn))}

    def make_loky(self):
        loky = pytest.importorskip("loky")
        pool = loky.ProcessPoolExecutor(2, env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
        self.callback(pool.shutdown, kill_workers=True)
        return {"executor": pool}

    def make_dask(self):
        distributed = pytest.importorskip("distributed")
        cluster = distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # a free port
        )
        self.enter_context(cluster)
        return {"executor": self.enter_context(distributed.Client(cluster))}

    def make_ray(self):
        ray = pytest.importorskip("ray")
        if not ray.is_initialized():
            paths = {"PYTHONPATH": os.pathsep.join([TESTS, *filter(None, sys.path)])}
            ray.init(
                num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": paths}
            )
            self.callback(ray.shutdown)
        return {"executor": ray}


IN_THIS_PROCESS = ["serial", "threads", "threads_in_chunks", "inline", "thread_executor"]
IN_OTHERS = ["process_executor", "loky", "dask", "ray"]
SLOW_TO_START = {"loky", "dask", "ray"}


def each(names):
    """Parameters for some ways; those that take seconds to start are marked as slow."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW_TO_START)) for name in names]
