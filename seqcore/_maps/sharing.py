"""Share large broadcast inputs with other processes: send each once, not with every chunk.

A tensor is wrapped while a map runs. When it is pickled for the first time, its data are written to a file::

    SharedTensor ──pickle──▶ a new file ──▶ FileTensor: its path, which a worker maps read-only
                 └─ with Dask and Ray: sent to all workers; the payload has its index among a task's arguments

A worker maps the file again for each chunk, which costs a few microseconds and holds no memory between
chunks. If a worker can't see the file, it replies so, and from then on the tensor is sent with the chunks.
The files are removed when the map ends.
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

LARGE = 1 << 20  # bytes: a larger tensor is worth a file
SHARED_MEMORY = "/dev/shm"


def read_only(tensor):
    """Return the array read-only as an element of a sequence is: no holder of it can make it writeable."""
    return TensorSequence([tensor])[0]


class FileNotVisible(Exception):
    """A worker can't see a file, for example because it runs on another machine."""


class SharedInputs:
    """The broadcast inputs that a map shares; leaving the context removes the files."""

    def __init__(self, workers):
        self.workers = workers
        self.lock = threading.Lock()  # the executor may pickle in a thread of its own
        self.tensors = []
        self.sent = []
        self.inline = False
        self.owner = os.getpid()

    def share(self, tensor):
        """Return the object that replaces a broadcast tensor in payloads; a small tensor itself."""
        if tensor.nbytes < LARGE or tensor.dtype.hasobject:
            return tensor
        sent = self.workers.send(tensor)
        if sent is None:
            self.tensors.append(SharedTensor(tensor, self))
            return self.tensors[-1]
        self.sent.append(sent)
        return SentTensor(tensor, len(self.sent) - 1)

    def send_inline(self):
        """Send the tensors with the chunks from now on."""
        self.inline = True

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        with self.lock:
            self.inline = True  # a cancelled chunk may still be pickled, and must not write a new file
            paths = [one.path for one in self.tensors if one.path is not None]
            for one in self.tensors:
                one.path = None
        if os.getpid() == self.owner:  # a forked child's copy doesn't own the files
            _remove(paths)


class SharedTensor:
    """A broadcast tensor that pickles as a reference to a file."""

    def __init__(self, tensor, shared):
        self.tensor, self.shared, self.path = tensor, shared, None

    def fetch(self, sent):
        return self.tensor

    def __reduce__(self):
        with self.shared.lock:
            if self.path is None and not self.shared.inline:
                self.path = _write(self.tensor)
            if self.path is None or self.shared.inline:
                return InlineTensor, (self.tensor,)
            transposed = not self.tensor.flags.c_contiguous and self.tensor.flags.f_contiguous
            shape = self.tensor.shape[::-1] if transposed else self.tensor.shape
            return FileTensor, (self.path, shape, self.tensor.dtype, transposed)


class FileTensor:
    """A tensor in a file."""

    def __init__(self, path, shape, dtype, transposed):
        self.path, self.shape, self.dtype, self.transposed = path, shape, dtype, transposed

    def fetch(self, sent):
        try:
            with open(self.path, "rb") as file:
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            tensor = np.ndarray(self.shape, self.dtype, memory)
        except (OSError, ValueError, TypeError) as error:  # no such file, or one of another size
            raise FileNotVisible(self.path) from error
        return tensor.T if self.transposed else tensor


class InlineTensor:
    """A tensor that is sent with the chunk."""

    def __init__(self, tensor):
        self.tensor = tensor

    def fetch(self, sent):
        return self.tensor


class SentTensor:
    """A tensor that Dask or Ray passes to a task as one of its further arguments."""

    def __init__(self, tensor, number):
        self.tensor, self.number = tensor, number

    def fetch(self, sent):
        return sent[self.number] if self.tensor is None else self.tensor

    def __reduce__(self):
        return SentTensor, (None, self.number)


def fetch(tensor, sent):
    """Return a broadcast input for the body, read-only, from wherever it was shared."""
    if not isinstance(tensor, np.ndarray):
        tensor = tensor.fetch(sent)
    return read_only(tensor)


# -- files -------------------------------------------------------------------------------------------


def _write(tensor):
    """Write the tensor's data to a new file; return its path, or None if no folder has space for it."""
    transposed = not tensor.flags.c_contiguous and tensor.flags.f_contiguous
    flat = np.ascontiguousarray(tensor.T if transposed else tensor).reshape(-1).view(np.uint8)
    for folder in _folders(tensor.nbytes):
        path = os.path.join(folder, f"seqcore-{uuid.uuid4().hex}.tensor")
        try:
            with open(path, "xb", opener=_private_opener) as file:
                file.write(flat)
        except OSError:  # full, or read-only
            _remove([path])
        except BaseException:
            _remove([path])
            raise
        else:
            return path
    return None


def _private_opener(path, flags):
    return os.open(path, flags, 0o600)


def _folders(nbytes):
    """Yield the folders to try: shared memory, if half of it stays free, then the temporary folder."""
    with contextlib.suppress(OSError):
        if sys.platform == "linux" and shutil.disk_usage(SHARED_MEMORY).free > 2 * nbytes:
            yield SHARED_MEMORY
    with contextlib.suppress(OSError):
        yield tempfile.gettempdir()


_leftovers: list[str] = []  # files that a worker still had mapped, which Windows doesn't remove


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
