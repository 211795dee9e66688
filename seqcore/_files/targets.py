"""Write files to a temporary name, and rename them when they are complete."""

import contextlib
import errno
import os
import shutil
import stat


def target_of(path, what):
    """Return the file to write for a path, with symbolic links followed.

    Raises
    ------
    OSError
        If no file can be written there: it is a folder, a device, a pipe, or a read-only file (also for an
        administrator). `what` is the name of the content in messages.
    """
    path = os.fsdecode(path)
    target = os.path.realpath(path)
    if os.path.isdir(target) or path.endswith(os.sep):
        raise IsADirectoryError(errno.EISDIR, f"{what} must be written to a file, but this is a folder", path)
    try:
        mode = os.stat(path).st_mode  # links are followed, maybe to a pipe without a name
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"{what} must be written to a file, but this is a device or pipe", path)
    if not mode & 0o222:
        raise PermissionError(errno.EACCES, "the existing file is read-only", path)
    os.close(os.open(path, os.O_WRONLY))  # raises PermissionError; os.access is wrong in some sandboxes
    return target


def put_in_place(temporary, target):
    """Replace a file with a complete one, and keep its permissions."""
    with contextlib.suppress(FileNotFoundError):  # there is none, or another process has just removed it
        shutil.copymode(target, temporary)
    os.replace(temporary, target)


@contextlib.contextmanager
def naming(path, is_temporary):
    """Make errors name the file to write, not the temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not (error.filename is None or is_temporary(error.filename)):
            raise
        raise OSError(error.errno, error.strerror, path) from error
