"""Find the files that a path, a folder or a pattern stands for."""

import contextlib
import errno
import glob
import os
import re

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # not the letter of a drive


def files_of(path):
    """Return the files of a path, in the order of their names.

    Raises
    ------
    FileNotFoundError
        If a folder has no `*.arrow` file, or nothing matches a pattern.
    ValueError
        If it is an address of a network.
    """
    name = os.fsdecode(path)
    if _ADDRESS.match(name) and not os.path.exists(name):
        scheme = name.partition(":")[0]
        remedy = (
            "pass the path alone"
            if scheme == "file"
            else ("copy the file to a disk first, for example with fsspec.open or the program of the service")
        )
        raise ValueError(f"{name} is an address, but load maps files on a disk: {remedy}")
    if os.path.isdir(name):
        # Not by glob, which takes a folder for empty that may not be read.
        names = sorted(one for one in os.listdir(name) if one.endswith(".arrow") and not one.startswith("."))
        found = [os.path.join(name, one) for one in names]
        if not found:
            raise FileNotFoundError(errno.ENOENT, "there is no *.arrow file in this folder", name)
        return found
    if glob.has_magic(name) and not os.path.lexists(name):
        found = sorted(one for one in glob.glob(name, recursive=True) if not os.path.isdir(one))
        if not found:
            _check_readable(name)
            raise FileNotFoundError(errno.ENOENT, "no file matches this pattern", name)
        return found
    return [path]


def _check_readable(pattern):
    """Raise a PermissionError if the folder that a pattern begins with may not be read, as glob doesn't."""
    folder = pattern
    while glob.has_magic(folder):
        folder = os.path.dirname(folder)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.scandir(folder or os.curdir).close()
