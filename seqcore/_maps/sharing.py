"""Share large broadcast inputs with other processes: send each once, not with every chunk.

::

    SharedTensor ──pickle──▶ one block of memory for all of them ──▶ BlockTensor: its path, mapped by a worker
    SentTensor   ──pickle──▶ its index among a task's arguments, where Dask or Ray have sent it to all workers

The block is made when the first of them is pickled, so never for threads. A worker maps it for each chunk,
which costs a few microseconds and holds no memory between chunks. If a worker can't see the block, it replies
so, and from then on the tensors are sent with the chunks.

On Linux the block has no name: workers open it through /proc, and the system deletes it when this process has
ended, however it ends. Elsewhere it is a file in the folder for temporary files, removed at the end of the
map. It is not of `multiprocessing.shared_memory`, which ends the process if /dev/shm is full, and before
Python 3.13 removes a block when the first process that uses it ends.
"""

import mmap
import os
import tempfile
import threading
from contextlib import suppress
from typing import Any

import numpy as np

from seqcore._maps.work import read_only

LARGE = 1 << 20  # bytes: a larger tensor is worth a place in the block
NAMELESS = hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


class FileNotVisible(Exception):
    """A worker can't see the block, for example because it runs on another machine."""


class SharedInputs:
    """The broadcast inputs that a map shares; leaving the context frees the block."""

    def __init__(self, workers):
        self.workers = workers
        self.lock = threading.Lock()  # the executor may pickle in a thread of its own
        self.tensors, self.sent = [], []
        self.block: Block | None = None
        self.inline = False  # whether the tensors are sent with the chunks

    def share(self, tensor):
        """Return the object that replaces a broadcast tensor in payloads; a small tensor itself."""
        if tensor.nbytes < LARGE or tensor.dtype.hasobject:
            return tensor
        sent = self.workers.send(tensor)
        if sent is None:
            offset = sum(one.tensor.nbytes + one.padding for one in self.tensors)
            self.tensors.append(SharedTensor(tensor, self, offset))
            return self.tensors[-1]
        self.sent.append(sent)
        return SentTensor(tensor, len(self.sent) - 1)

    def reduced(self, shared):
        """Return what a shared tensor pickles to."""
        tensor = shared.tensor
        with self.lock:
            if self.block is None and not self.inline:
                try:
                    self.block = Block(self.tensors)
                except OSError:  # the disk is full, or there is no folder
                    self.inline = True
            if self.inline or (block := self.block) is None:
                return np.asarray, (tensor,)
            shape = tensor.T.shape if shared.is_transposed else tensor.shape
            return BlockTensor, (
                *(block.path, block.token, shared.offset, shape, tensor.dtype, shared.is_transposed),
            )

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        with self.lock:
            self.inline = True  # a cancelled chunk may still be pickled, and must not make a new block
            if self.block is not None:
                self.block.close()


class Block:
    """The data of several tensors, one behind the other, and a token behind them."""

    def __init__(self, tensors):
        self.token, self.process = os.urandom(16), os.getpid()
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if NAMELESS else 0
        self.file: Any
        # In memory, if half of it stays free.
        if free > 2 * sum(one.tensor.nbytes for one in tensors):
            self.file = open(os.memfd_create("seqcore"), "wb", buffering=0)  # noqa: SIM115
        elif NAMELESS:
            self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        else:
            self.file = tempfile.NamedTemporaryFile(delete=False, buffering=0)  # noqa: SIM115
        self.path = f"/proc/{self.process}/fd/{self.file.fileno()}" if NAMELESS else self.file.name
        try:
            for one in tensors:
                self.write(one.data())
                self.write(memoryview(bytes(one.padding)))
            self.write(memoryview(self.token))
        except BaseException:
            self.close()
            raise

    def write(self, data):
        while data:  # the system may write less at once
            data = data[self.file.write(data) :]

    def close(self):
        self.file.close()
        if not NAMELESS and os.getpid() == self.process:  # a forked child doesn't own the file
            with suppress(OSError):  # Windows removes no file that a worker maps
                os.remove(self.path)


class SharedTensor:
    """A broadcast tensor that pickles as a part of the block."""

    def __init__(self, tensor, shared, offset):
        self.tensor, self.shared, self.offset = tensor, shared, offset
        self.is_transposed = not tensor.flags.c_contiguous and tensor.flags.f_contiguous
        self.padding = -tensor.nbytes % 64  # so that the next one is aligned

    def data(self):
        """Return the bytes of the tensor."""
        tensor = self.tensor.T if self.is_transposed else self.tensor
        return np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data

    def fetch(self, sent):
        return self.tensor

    def __reduce__(self):
        return self.shared.reduced(self)


class BlockTensor:
    """A tensor in a block, which ends with a token."""

    def __init__(self, path, token, offset, shape, dtype, is_transposed):
        self.path, self.token, self.offset = path, token, offset
        self.shape, self.dtype, self.is_transposed = shape, dtype, is_transposed

    def fetch(self, sent):
        try:
            with open(self.path, "rb", opener=_without_waiting) as file:
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            # On another machine, or after the map, the path may be that of another file, or of a pipe.
            if memory[-len(self.token) :] != self.token:
                raise FileNotVisible(self.path)
            tensor = np.ndarray(self.shape, self.dtype, memory, self.offset)
        except (OSError, ValueError, TypeError) as error:  # no such file, or one of another size
            raise FileNotVisible(self.path) from error
        return tensor.T if self.is_transposed else tensor


def _without_waiting(path, flags):
    """Open a file; a pipe or terminal too, without waiting for its other end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


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
