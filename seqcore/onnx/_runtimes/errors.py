"""Exceptions that are both Python's and onnxruntime's, so that code written for either catches them.

onnxruntime's classes have no base in common but Exception. The kernels raise different ones, so an error of
a run is each of the classes that a kernel may raise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
    RuntimeException,
)


class InvalidModel(ValueError, InvalidGraph, InvalidProtobuf, Fail, InvalidArgument):
    """A model is not valid."""


class ModelNotFound(FileNotFoundError, NoSuchFile):
    """There is no model at a path."""


class RunValueError(ValueError, InvalidArgument, Fail, RuntimeException):
    """A value doesn't fit."""


class RunTypeError(TypeError, InvalidArgument, Fail, RuntimeException):
    """A value has another type than is declared."""


class RunIndexError(IndexError, InvalidArgument, Fail, RuntimeException):
    """A position is out of range."""


class RunOverflowError(OverflowError, InvalidArgument, Fail, RuntimeException):
    """A number doesn't fit its type."""


class RunStopped(RuntimeError, Fail, RuntimeException):
    """A run was told to stop."""


class RunMemoryError(MemoryError, Fail, RuntimeException):
    """There is not enough memory."""


_OF_LOADING: dict[type[Exception], type[Exception]] = {
    ValueError: InvalidModel,
    FileNotFoundError: ModelNotFound,
}
_OF_RUNS: dict[type[Exception], type[Exception]] = {
    ValueError: RunValueError,
    TypeError: RunTypeError,
    IndexError: RunIndexError,
    OverflowError: RunOverflowError,
    MemoryError: RunMemoryError,
}


@contextmanager
def loading() -> Iterator[None]:
    """Have what is raised while a model is loaded be of onnxruntime's classes too."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidModel(f"the model is not valid: {error.object!r} in it is not UTF-8") from error
    except (ValueError, FileNotFoundError) as error:
        _raise_both(error, _OF_LOADING)


def raise_of_run(error: BaseException) -> None:
    """Raise an exception of a run again, as one that is of onnxruntime's classes too."""
    _raise_both(error, _OF_RUNS)


def _raise_both(error: BaseException, classes: dict[type[Exception], type[Exception]]) -> None:
    both = classes.get(type(error))  # type: ignore[arg-type]
    if both is None:
        raise error
    if isinstance(error, OSError):
        made: BaseException = both(error.errno, error.strerror, os.fsdecode(error.filename or ""))
    else:
        made = both(*error.args)
    made.__dict__.update(error.__dict__)  # notes, and the node at fault
    made.__suppress_context__ = error.__suppress_context__
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    raise made.with_traceback(error.__traceback__)
