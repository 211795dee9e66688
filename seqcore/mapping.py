"""Apply a function to the elements of a sequence: SequenceMap, on one thread, several, or an executor."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

from seqcore._arguments.integers import as_count, flag
from seqcore._arguments.other_names import explains_arguments
from seqcore._arguments.shown import got
from seqcore._arguments.tensors import as_tensor
from seqcore._maps.batches import in_order, joined_work, stacked_work
from seqcore._maps.elementwise import elementwise_work
from seqcore._maps.job import Job, run_serially
from seqcore._maps.outputs import Outputs, complete
from seqcore._maps.reductions import reduction_work
from seqcore._maps.work import ElementWork, read_only, runs_many
from seqcore.core.late import late
from seqcore.core.maps import Bound
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import element_type
from seqcore.operators import as_sequence

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Concatenate, SupportsIndex, TypeAlias, TypedDict, Unpack

    from numpy.typing import ArrayLike, NDArray

    from seqcore._typing import (
        T1,
        T2,
        DTypeName,
        DTypeOf,
        Graph,
        GraphBody,
        Model,
        Output,
        Path,
        PlainTensors,
        Progress,
        T,
        Tensors,
        Typed,
        Workers,
    )

    _Graph: TypeAlias = Graph | Model | GraphBody | Path
    _Body: TypeAlias = Callable[..., Any] | _Graph
    _DTypes: TypeAlias = list[Any] | tuple[Any, ...]
    # One sequence or a tuple of them, which depends on the graph; Any, so that users need no check. With
    # `output_dtypes` the type is known.
    _OneOrSeveral: TypeAlias = Any

    class _Options(TypedDict, total=False):
        max_workers: SupportsIndex | None
        executor: Workers | None
        chunksize: SupportsIndex | None
        progress: Progress

    class _BatchOptions(TypedDict, total=False):
        batch_size: SupportsIndex | None
        new_axis: SupportsIndex
        max_workers: SupportsIndex | None
        executor: Workers | None
        progress: Progress


__all__ = ["map_batches", "sequence_map"]


_explained: Any = explains_arguments  # untyped here, because the overloads have the types

# Type checkers infer a body's parameters and result from these overloads. They are for an ONNX graph, and for
# callables of one input (a lambda's parameter has the type of the elements), of two and of more, each with
# the possible outputs. If mypy doesn't know the type of a result, as for `a.mean(0)`, several match, and it
# infers Any.


@overload
def sequence_map(
    body: _Graph,
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    output_dtypes: DTypeOf[T],
    **options: Unpack[_Options],
) -> TensorSequence[T]: ...
@overload
def sequence_map(
    body: _Graph,
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    output_dtypes: _DTypes,
    **options: Unpack[_Options],
) -> tuple[TensorSequence[Any], ...]: ...
@overload
def sequence_map(
    body: _Graph,
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    output_dtypes: DTypeName | None = None,
    **options: Unpack[_Options],
) -> _OneOrSeveral: ...
@overload
def sequence_map(
    body: Callable[[NDArray[T]], Output[T1]],
    input_sequence: Typed[T],
    *,
    output_dtypes: DTypeName | None = None,
    **options: Unpack[_Options],
) -> TensorSequence[T1]: ...
@overload
def sequence_map(
    body: Callable[[NDArray[T]], tuple[Output[T1], Output[T2]]],
    input_sequence: Typed[T],
    *,
    output_dtypes: tuple[DTypeName, DTypeName] | None = None,
    **options: Unpack[_Options],
) -> tuple[TensorSequence[T1], TensorSequence[T2]]: ...
@overload
def sequence_map(
    body: Callable[[NDArray[T]], tuple[Output[Any], ...]],
    input_sequence: Typed[T],
    *,
    output_dtypes: _DTypes | None = None,
    **options: Unpack[_Options],
) -> tuple[TensorSequence[Any], ...]: ...
@overload
def sequence_map(
    body: Callable[[NDArray[T], NDArray[Any]], Output[T1]],
    input_sequence: Typed[T],
    additional_input: ArrayLike,
    /,
    *,
    output_dtypes: DTypeName | None = None,
    **options: Unpack[_Options],
) -> TensorSequence[T1]: ...
@overload
def sequence_map(
    body: Callable[[NDArray[T], NDArray[Any]], tuple[Output[T1], Output[T2]]],
    input_sequence: Typed[T],
    additional_input: ArrayLike,
    /,
    *,
    output_dtypes: tuple[DTypeName, DTypeName] | None = None,
    **options: Unpack[_Options],
) -> tuple[TensorSequence[T1], TensorSequence[T2]]: ...
@overload
def sequence_map(
    body: Callable[[NDArray[T], NDArray[Any]], tuple[Output[Any], ...]],
    input_sequence: Typed[T],
    additional_input: ArrayLike,
    /,
    *,
    output_dtypes: _DTypes | None = None,
    **options: Unpack[_Options],
) -> tuple[TensorSequence[Any], ...]: ...
@overload
def sequence_map(
    body: Callable[..., Output[T1]],
    input_sequence: Typed[Any],
    additional_input: ArrayLike,
    *additional_inputs: ArrayLike,
    output_dtypes: DTypeName | None = None,
    **options: Unpack[_Options],
) -> TensorSequence[T1]: ...
@overload
def sequence_map(
    body: Callable[..., tuple[Output[T1], Output[T2]]],
    input_sequence: Typed[Any],
    additional_input: ArrayLike,
    *additional_inputs: ArrayLike,
    output_dtypes: tuple[DTypeName, DTypeName] | None = None,
    **options: Unpack[_Options],
) -> tuple[TensorSequence[T1], TensorSequence[T2]]: ...
@overload
def sequence_map(
    body: Callable[..., tuple[Output[Any], ...]],
    input_sequence: Typed[Any],
    additional_input: ArrayLike,
    *additional_inputs: ArrayLike,
    output_dtypes: _DTypes | None = None,
    **options: Unpack[_Options],
) -> tuple[TensorSequence[Any], ...]: ...
# Lists of Python values.
@overload
def sequence_map(
    body: Callable[..., Any],
    input_sequence: PlainTensors,
    *additional_inputs: ArrayLike,
    output_dtypes: DTypeName | _DTypes | None = None,
    **options: Unpack[_Options],
) -> Any: ...
# A body that is declared to return `ArrayLike`. mypy doesn't match lambdas with it, so the overloads above
# remain unambiguous for them.
@overload
def sequence_map(
    body: Callable[Concatenate[NDArray[T], ...], ArrayLike],
    input_sequence: Typed[T],
    *additional_inputs: ArrayLike,
    output_dtypes: DTypeName | None = None,
    **options: Unpack[_Options],
) -> TensorSequence[Any]: ...
@_explained
def sequence_map(
    body: _Body,
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: DTypeName | _DTypes | None = None,
    progress: Progress = None,
) -> _OneOrSeveral:
    """Apply a function to each element of a sequence. Implements ONNX SequenceMap-17.

    Parameters
    ----------
    body : callable or onnx.GraphProto or onnx.ModelProto or path
        The function. It gets one element of each sequence, and each other input, as read-only arrays. It
        returns a tensor, or a tuple of tensors for several outputs. An ONNX graph, or the path to a model,
        needs `seqcore-tensors[onnx]`. Pass further arguments of a function by `functools.partial` or a
        lambda.
    input_sequence : TensorSequence or list or tuple of array_like
        The sequence. Edits during the map don't change its input.
    *additional_inputs : TensorSequence, list, tuple or array_like
        The further inputs. A sequence is indexed too and must be as long as the first. A list counts as a
        sequence: `[1, 2, 3]` gives one number to each call, `np.array([1, 2, 3])` the array to every call.
    max_workers : int, optional
        The number of threads: 1 runs in the calling thread, None uses one thread for each CPU. The map tries
        whether they are faster than the calling thread alone, and goes on with whichever is.
    executor : concurrent.futures.Executor, dask.distributed.Client or ray, optional
        The workers that run the body in place of threads: an executor, a client, or the module `ray` once it
        is connected. They are left running. For other processes the body, the inputs and the results must
        pickle.
    chunksize : int, optional
        The number of elements that a worker takes at a time. By default it is chosen from the time that
        elements take. With threads, a chunksize makes all `max_workers` of them run, without measuring, and
        the calling thread run nothing. With an executor the calling thread never runs the body.
    output_dtypes : data-type or list or tuple of data-type, optional
        The element type of the output; a list or tuple of them if the body returns a tuple. The default is
        the type of the first result. Required if the input is empty and the body is a callable.
    progress : bool or callable, optional
        If True, show a progress bar, which needs the package tqdm. A callable gets `(done, total)` in the
        calling thread, with `done` increasing up to `total`.

    Returns
    -------
    TensorSequence or tuple of TensorSequence
        The results, in order; a tuple if the body returns a tuple, or the graph has several outputs.

    Raises
    ------
    ValueError
        If the sequences differ in length, the input is empty without `output_dtypes`, or a number is out of
        range.
    TypeError
        If a result is not a tensor, or has another dtype or another number of outputs than the first one;
        the message names the element. If the number or dtypes of the inputs don't fit the graph.
    BaseException
        The exception of the body, unchanged, with a note that names the element. If several elements fail,
        it is the one that a serial loop would raise. Elements after it that have not started don't run.

    See Also
    --------
    map_batches : Many elements in one call, for vectorized functions.

    Notes
    -----
    Threads help if the body releases the GIL, as NumPy and onnxruntime do for larger tensors, and on
    free-threaded Python for every body. Worker threads see the caller's context variables, such as
    `np.errstate`. NumPy ufuncs, elementwise graphs, and NumPy's reductions such as `np.sum` and `np.max` run
    on whole blocks of elements at once; `TensorSequence.reduce` gives their results as one array.

    Examples
    --------
    >>> import numpy as np
    >>> sequence_map(np.flip, [[1, 2, 3], [4, 5]])[1]
    array([5, 4])
    >>> sequence_map(lambda a, k: (a * k, a.sum()), [[1, 2], [3]], np.int64(10), max_workers=2)[0].shapes
    [(2,), (1,)]
    """
    body = _as_body(body)
    # Asking for the number of CPUs takes 10 µs.
    workers = as_count("max_workers", max_workers, "uses one thread for each CPU") or os.cpu_count() or 1
    chunksize = as_count("chunksize", chunksize, "chooses one")
    inputs, n = _as_inputs(input_sequence, additional_inputs)
    single, dtypes = _output_types(body, inputs, n, output_dtypes)
    run_by = _workers_of(executor)
    return _run(_work_of(body, inputs, n), single, dtypes, workers, run_by, chunksize, progress)


@overload
def map_batches(
    body: _Graph,
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    output_dtypes: DTypeName | _DTypes | None = None,
    **options: Unpack[_BatchOptions],
) -> _OneOrSeveral: ...
@overload
def map_batches(
    body: Callable[..., Output[T1]],
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    output_dtypes: DTypeName | None = None,
    **options: Unpack[_BatchOptions],
) -> TensorSequence[T1]: ...
@overload
def map_batches(
    body: Callable[..., tuple[Output[T1], Output[T2]]],
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    output_dtypes: _DTypes | None = None,
    **options: Unpack[_BatchOptions],
) -> tuple[TensorSequence[T1], TensorSequence[T2]]: ...
@overload
def map_batches(
    body: Callable[..., tuple[Output[Any], ...]],
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    output_dtypes: _DTypes | None = None,
    **options: Unpack[_BatchOptions],
) -> tuple[TensorSequence[Any], ...]: ...
@_explained
def map_batches(
    body: _Body,
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    batch_size: SupportsIndex | None = None,
    new_axis: SupportsIndex = 0,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    output_dtypes: DTypeName | _DTypes | None = None,
    progress: Progress = None,
) -> _OneOrSeveral:
    """Apply a vectorized function to the elements of a sequence, many in one call.

    Parameters
    ----------
    body : callable or onnx.GraphProto or onnx.ModelProto or path
        The function. It gets a batch of each sequence, and each other input, as read-only arrays. It returns
        a tensor, or a tuple of tensors for several outputs. The result for an element must not depend on the
        other elements of the batch.
    input_sequence : TensorSequence or list or tuple of array_like
        The sequence. Edits during the map don't change its input.
    *additional_inputs : TensorSequence, list, tuple or array_like
        The further inputs. A sequence comes in batches too and must be as long as the first. A list counts as
        a sequence; any other array is passed to every call as it is.
    batch_size : int, optional
        The largest number of elements in a batch. By default it is chosen so that a batch fits the cache.
    new_axis : {0, 1}, optional
        If 0, concatenate the elements of a batch along axis 0. They may differ in length; each output must be
        as long as the first sequence's batch and is split by its lengths. If 1, stack the elements along a
        new first axis. A batch then has elements of one shape, from anywhere in the sequence, and the output
        for each is one row of the result.
    max_workers, executor, progress
        The same as in `sequence_map`; progress counts elements.
    output_dtypes : data-type or list or tuple of data-type, optional
        The same as in `sequence_map`. The default is the type of the first batch's result.

    Returns
    -------
    TensorSequence or tuple of TensorSequence
        The results, in the order of the input. The outputs of one batch share memory.

    Raises
    ------
    ValueError
        If an output is not as long as its batch (the message names its elements), or the elements of a batch
        can't be concatenated, because they have rank 0 or differ in more than axis 0; otherwise as
        `sequence_map`.
    TypeError
        The same as from `sequence_map`; the message names the elements of the batch.
    BaseException
        The exception of the body, unchanged, with a note that names the elements of the batch.

    See Also
    --------
    sequence_map : One element in each call, for functions of a whole element.

    Notes
    -----
    One call for each batch. The batch is a view, without a copy, if its elements are contiguous, as after a
    split; otherwise it is one copy.

    Examples
    --------
    >>> import numpy as np
    >>> map_batches(lambda a: 10 * a, [[1, 2], [3], [4, 5]], batch_size=2)[2]
    array([40, 50])
    >>> map_batches(lambda a: a.mean(1), [[1.0, 2.0], [3.0], [5.0, 8.0]], new_axis=1)[2]
    array(6.5)
    """
    body = _as_body(body)
    workers = as_count("max_workers", max_workers, "uses one thread for each CPU") or os.cpu_count() or 1
    batch_size = as_count("batch_size", batch_size, "chooses one")
    stacked = flag("new_axis", new_axis)
    inputs, n = _as_inputs(input_sequence, additional_inputs)
    single, dtypes = _output_types(body, inputs, n, output_dtypes)
    run_by = _workers_of(executor)
    at_once = workers if run_by is None else run_by.count
    work = (stacked_work if stacked else joined_work)(body, inputs, n, batch_size, at_once)
    outputs = _run(work, single, dtypes, workers, run_by, None, progress)
    if work.positions is None:
        return outputs
    if isinstance(outputs, tuple):
        return tuple(in_order(one, work.positions) for one in outputs)
    return in_order(outputs, work.positions)


def _as_inputs(input_sequence, additional_inputs):
    """Return the inputs of a map, and the number of elements."""
    first = as_sequence(input_sequence)[:]
    n = len(first)
    if not additional_inputs:
        return (first,), n
    inputs = (first, *map(_as_input, additional_inputs))
    for i, one in enumerate(inputs):
        if isinstance(one, TensorSequence) and len(one) != n:
            hint = ""
            if i and isinstance(additional_inputs[i - 1], list | tuple):
                hint = (
                    ": a list counts as a sequence, pass np.array(...) for one array that goes to every call"
                )
            raise ValueError(f"input {i} of the map has {len(one)} elements, but input 0 has {n}{hint}")
    return inputs, n


def _work_of(body, inputs, n):
    """Return how a map runs: the first that suits, from the fastest to the one that suits every body."""
    return (
        elementwise_work(body, inputs, n)  # a ufunc, or a graph of such operators: blocks of elements
        or reduction_work(body, inputs, n)  # `np.sum`, `np.max`, …: blocks, as `TensorSequence.reduce`
        or ElementWork(body, inputs, n)  # a graph: many rows in a call; a callable: one element in a call
    )


def _workers_of(executor):
    return None if executor is None else late("workers_of")(executor)


def _run(work, single, dtypes, workers, executor, chunksize, progress):
    """Run a map serially, on threads or on an executor, and return its outputs."""
    if progress is None and executor is None and workers == 1 and work.n:
        chunk = work.run(0, work.n, Bound(), dtypes, single, True)
        if chunk.error is None and chunk.sequences is not None:
            return _of(chunk, work)
        outputs = Outputs(single, dtypes, work.name)
        outputs.add(chunk)
        outputs.finish()
        return _of(outputs, work)
    outputs = Outputs(single, dtypes, work.name)
    with _reporting(progress, work.elements(0, work.n)) as report:
        job = Job(work, outputs, chunksize, report)
        if work.n == 0:
            if report is not None:
                report(0)
        elif executor is not None:
            from seqcore._maps.executors import run_on_workers

            run_on_workers(job, executor)
        elif workers == 1:
            run_serially(job)
        else:
            try:
                from seqcore._maps.threads import run_on_threads
            except RuntimeError:  # the process is ending, so that Python has no pools any more
                run_serially(job)
            else:
                run_on_threads(job, workers)
    outputs.finish()
    return _of(outputs, work)


def _of(outputs, work):
    """Return the result of a map that has ended; the outputs may be those of its only chunk."""
    sequences: Any = outputs.sequences
    if work.n and complete(sequences) < work.elements(0, work.n):
        raise RuntimeError(f"{complete(sequences)} elements of the map have results, the others are lost")
    return sequences[0] if outputs.single else sequences


def _as_body(body):
    """Return the body as a callable; graphs are compiled."""
    if callable(body):
        return body
    if isinstance(body, str | os.PathLike) or type(body).__module__.partition(".")[0] == "onnx":
        return late("GraphBody")(body)
    raise TypeError(f"body must be a callable, an ONNX graph or a path to one, got {got(body)}")


def _as_input(value):
    if isinstance(value, TensorSequence | list | tuple):
        return as_sequence(value)[:]
    return read_only(as_tensor(value))


def _output_types(body, inputs, n, output_dtypes):
    """Return whether there is a single output, and the outputs' types; None where they aren't known yet."""
    single, dtypes = _known_types(body, inputs, output_dtypes)
    if n == 0 and dtypes is None:
        raise ValueError(
            "the map of an empty sequence needs output_dtypes, because there is no result to take the dtype "
            "from, for example output_dtypes='float32'"
        )
    return single, dtypes


def _known_types(body, inputs, output_dtypes):
    if output_dtypes is None:
        if not runs_many(body):
            return None, None
        dtypes = body.check(tuple(one.dtype for one in inputs))
        # Not `None in dtypes`: to NumPy, None is float64.
        return len(dtypes) == 1, None if any(dtype is None for dtype in dtypes) else dtypes
    single = not isinstance(output_dtypes, list | tuple)
    dtypes = tuple(map(element_type, [output_dtypes] if single else output_dtypes))
    if not dtypes:
        raise ValueError("output_dtypes is empty, expected a dtype, or one for each output of the body")
    return single, dtypes


@contextmanager
def _reporting(progress, total):
    """Show progress meanwhile; gives the function to call with the elements done, or None."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise ImportError("progress=True needs the package tqdm: pip install tqdm") from None
        with tqdm(total=total, unit="tensor") as bar:
            yield lambda done: bar.update(done - bar.n)
    elif callable(progress):
        yield lambda done: progress(done, total)
    else:
        raise TypeError(f"progress must be a bool or a callable, got {got(progress)}")
