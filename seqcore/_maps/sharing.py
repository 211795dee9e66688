"""Share large broadcast inputs with other processes: send each once, not with every chunk.

A tensor is wrapped while a map runs. When it is pickled for the first time, its data are written to a file::

    SharedTensor ──pickle──▶ a new file ──▶ FileTensor: its path, which a worker maps read-only
                 └─ with Dask and Ray: sent to all workers; the payload has its index among a task's arguments

A worker maps the file again for each chunk, which costs a few microseconds and holds no memory between
chunks. If a worker can't see the file, it replies so, and from then on the tensor is sent with the chunks.

On Linux the file has no name: workers open it through /proc, and the system deletes it when this process has
ended, however it ends. Elsewhere it is a file in the folder for temporary files, removed at the end of the
map.
"""

import atexit
import mmap
import os
import tempfile
import threading
import uuid
import weakref

import numpy as np

from seqcore.core.sequence import TensorSequence

LARGE = 1 << 20  # bytes: a larger tensor is worth a file


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
            files = [one.file for one in self.tensors if one.file is not None]
            for one in self.tensors:
                one.file = None
        for file in files:
            file.close()


class SharedTensor:
    """A broadcast tensor that pickles as a reference to a file."""

    def __init__(self, tensor, shared):
        self.tensor, self.shared, self.file = tensor, shared, None

    def fetch(self, sent):
        return self.tensor

    def __reduce__(self):
        with self.shared.lock:
            if self.file is None and not self.shared.inline:
                self.file = _written(self.tensor)
            if self.file is None or self.shared.inline:
                return InlineTensor, (self.tensor,)
            transposed = not self.tensor.flags.c_contiguous and self.tensor.flags.f_contiguous
            shape = self.tensor.shape[::-1] if transposed else self.tensor.shape
            return FileTensor, (self.file.path, self.file.token, shape, self.tensor.dtype, transposed)


class FileTensor:
    """A tensor in a file, which ends with a token."""

    def __init__(self, path, token, shape, dtype, transposed):
        self.path, self.token = path, token
        self.shape, self.dtype, self.transposed = shape, dtype, transposed

    def fetch(self, sent):
        try:
            with open(self.path, "rb", opener=_without_waiting) as file:
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            # On another machine, or after the map, the path may be that of another file, or of a pipe.
            if memory[-len(self.token) :] != self.token:
                raise FileNotVisible(self.path)
            tensor = np.ndarray(self.shape, self.dtype, memory)
        except (OSError, ValueError, TypeError) as error:  # no such file, or one of another size
            raise FileNotVisible(self.path) from error
        return tensor.T if self.transposed else tensor


def _without_waiting(path, flags):
    """Open a file; a pipe or terminal too, without waiting for its other end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


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


class _NamelessFile:
    """A file that other processes open through this one's descriptor."""

    token = b""

    def __init__(self, nbytes: int) -> None:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        # In memory, if half of it stays free.
        if free > 2 * nbytes:
            self.file = open(os.memfd_create("seqcore"), "wb", buffering=0)  # noqa: SIM115
        else:
            self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self.path = f"/proc/{os.getpid()}/fd/{self.file.fileno()}"
        _nameless.add(self)

    def close(self):
        self.file.close()


class _NamedFile:
    """A file in the folder for temporary files, where descriptors can't be opened by a path."""

    token = b""

    def __init__(self, nbytes: int) -> None:
        self.file = tempfile.NamedTemporaryFile(delete=False, buffering=0)  # noqa: SIM115
        self.path, self.owner = self.file.name, os.getpid()

    def close(self):
        self.file.close()
        if os.getpid() == self.owner:  # a forked child's copy doesn't own the file
            _remove([self.path])


_nameless: weakref.WeakSet = weakref.WeakSet()
NewFile = _NamelessFile if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd") else _NamedFile


def _written(tensor):
    """Write a tensor's data and a token to a new file; return it, or None if there is no space for it."""
    transposed = not tensor.flags.c_contiguous and tensor.flags.f_contiguous
    flat = np.ascontiguousarray(tensor.T if transposed else tensor).reshape(-1).view(np.uint8)
    file = None
    try:
        file = NewFile(tensor.nbytes)
        file.token = uuid.uuid4().bytes
        for part in (flat.data, memoryview(file.token)):
            while part:  # the system may write less at once
                part = part[file.file.write(part) :]
    except BaseException as error:
        if file is not None:
            file.close()
        if isinstance(error, OSError):  # full, or read-only
            return None
        raise
    return file


def _close_in_child():
    """Close a forked child's copies, which would keep the files' memory as long as the child lives."""
    for file in list(_nameless):
        file.close()
    _nameless.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)

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
