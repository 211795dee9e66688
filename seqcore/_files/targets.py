"""Files that are written whole beside their place, and then take it."""

import contextlib
import errno
import os
import shutil
import stat


def target_of(path, what):
    """The file that a path leads to, by links too.

    Raises
    ------
    OSError
        If no file can be written there: it is a folder, a device, a pipe, or a file that is read-only, even
        to an administrator. `what` says in messages what was to be written.
    """
    path = os.fsdecode(path)
    target = os.path.realpath(path)
    if os.path.isdir(target) or path.endswith(os.sep):
        raise IsADirectoryError(errno.EISDIR, f"{what} is written to a file, and this is a folder", path)
    try:
        mode = os.stat(path).st_mode  # of where links lead to, which may be a pipe without a name
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"{what} is written to a file, and this is a device or the like", path)
    if not mode & 0o222:
        raise PermissionError(errno.EACCES, "the file there is read-only", path)
    os.close(os.open(path, os.O_WRONLY))  # or a PermissionError: os.access is wrong in some sandboxes
    return target


def put_in_place(temporary, target):
    """Let a file that is whole take the place of another, with its permissions."""
    if os.path.exists(target):
        shutil.copymode(target, temporary)
    os.replace(temporary, target)


@contextlib.contextmanager
def naming(path, is_temporary):
    """Let errors of writing name the file that was to be written, not the one beside it."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not (error.filename is None or is_temporary(error.filename)):
            raise
        raise OSError(error.errno, error.strerror, path) from error
