"""Large whole tensors on their way to other processes: once to each, not with every few elements.

A tensor is wrapped while a map runs, and nothing happens to it before it is pickled. Then, once::

    LentTensor ──pickle──▶ a file, written now ──▶ FileTensor: its path, which a worker maps read-only
               └─ with Dask: scattered to all workers; what travels is a number among a task's arguments

A worker maps the file for each chunk anew, which costs a few microseconds and holds no memory between chunks.
Where it sees no such file it says so, and from there on the tensor goes with the chunks. The files are gone
when the map ends.
"""

import atexit
import contextlib
import mmap
import os
import shutil
import sys
import tempfile
import threading
import uuid

import numpy as np

from seqcore.core.sequence import TensorSequence

LARGE = 1 << 20  # bytes from which on a tensor is worth a file
SHARED_MEMORY = "/dev/shm"


def read_only(tensor):
    """The array as an element of a sequence is one: nobody who gets it can make it writeable."""
    return TensorSequence([tensor])[0]


class OutOfReach(Exception):
    """A worker does not see a file, for instance because it runs on another machine."""


class Lender:
    """What a map lends; leaving it removes the files."""

    def __init__(self, client=None):
        self.client = client  # Dask's, or None
        self.lock = threading.Lock()  # an executor's own thread may be what pickles
        self.tensors = []
        self.scattered = []
        self.inline = False
        self.home = os.getpid()

    def lend(self, tensor):
        """What stands for a whole tensor in the map; small ones and strings for themselves."""
        if tensor.nbytes < LARGE or tensor.dtype.hasobject:
            return tensor
        if self.client is None:
            self.tensors.append(LentTensor(tensor, self))
            return self.tensors[-1]
        try:
            # Not by its hash: to compute that takes longer than to send it.
            future = self.client.scatter(tensor, broadcast=True, hash=False)
        except TimeoutError:  # there is no worker yet
            return tensor
        self.scattered.append(future)
        return ScatteredTensor(tensor, len(self.scattered) - 1)

    def send_inline(self):
        """From now on the tensors go along."""
        self.inline = True

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        with self.lock:
            self.inline = True  # a chunk that was cancelled may still be pickled: it writes no new file
            paths = [one.path for one in self.tensors if one.path is not None]
            for one in self.tensors:
                one.path = None
        if os.getpid() == self.home:  # a forked child's copy is not the file's owner
            _remove(paths)


class LentTensor:
    """A whole tensor; pickled, what finds it in a file."""

    def __init__(self, tensor, lender):
        self.tensor, self.lender, self.path = tensor, lender, None

    def fetch(self, scattered):
        return self.tensor

    def __reduce__(self):
        with self.lender.lock:
            if self.path is None and not self.lender.inline:
                self.path = _write(self.tensor)
            if self.path is None or self.lender.inline:
                return InlineTensor, (self.tensor,)
            turned = not self.tensor.flags.c_contiguous and self.tensor.flags.f_contiguous
            shape = self.tensor.shape[::-1] if turned else self.tensor.shape
            return FileTensor, (self.path, shape, self.tensor.dtype, turned)


class FileTensor:
    """A tensor in a file."""

    def __init__(self, path, shape, dtype, turned):
        self.path, self.shape, self.dtype, self.turned = path, shape, dtype, turned

    def fetch(self, scattered):
        try:
            with open(self.path, "rb") as file:
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            tensor = np.ndarray(self.shape, self.dtype, memory)
        except (OSError, ValueError, TypeError) as error:  # none, or none of this size
            raise OutOfReach(self.path) from error
        return tensor.T if self.turned else tensor


class InlineTensor:
    """A tensor that goes along."""

    def __init__(self, tensor):
        self.tensor = tensor

    def fetch(self, scattered):
        return self.tensor


class ScatteredTensor:
    """A tensor that Dask brings to a task, as one of its further arguments."""

    def __init__(self, tensor, number):
        self.tensor, self.number = tensor, number

    def fetch(self, scattered):
        return scattered[self.number] if self.tensor is None else self.tensor

    def __reduce__(self):
        return ScatteredTensor, (None, self.number)


def fetch(whole, scattered):
    """What a body gets for a whole input, however it came."""
    if not isinstance(whole, np.ndarray):
        whole = whole.fetch(scattered)
    return read_only(whole)


# -- files -------------------------------------------------------------------------------------------


def _write(tensor):
    """Write the tensor's data to a new file; return its path, or None where there is no place for it."""
    turned = not tensor.flags.c_contiguous and tensor.flags.f_contiguous
    flat = np.ascontiguousarray(tensor.T if turned else tensor).reshape(-1).view(np.uint8)
    for folder in _folders(tensor.nbytes):
        path = os.path.join(folder, f"seqcore-{uuid.uuid4().hex}.tensor")
        try:
            with open(path, "xb", opener=_for_us_alone) as file:
                file.write(flat)
        except OSError:  # full, or read-only
            _remove([path])
        except BaseException:
            _remove([path])
            raise
        else:
            return path
    return None


def _for_us_alone(path, flags):
    return os.open(path, flags, 0o600)


def _folders(nbytes):
    """Where a file may go: memory that processes share, if that leaves half of it free, else a disk."""
    with contextlib.suppress(OSError):
        if sys.platform == "linux" and shutil.disk_usage(SHARED_MEMORY).free > 2 * nbytes:
            yield SHARED_MEMORY
    with contextlib.suppress(OSError):
        yield tempfile.gettempdir()


_leftovers: list[str] = []  # files that a worker still had mapped: Windows removes none of those


def _remove(paths):
    paths = [*paths, *_leftovers]
    _leftovers.clear()
    for path in paths:
        try:
            os.remove(path)
        except FileNotFoundError:
            pass
        except OSError:
            _leftovers.append(path)


atexit.register(_remove, ())
