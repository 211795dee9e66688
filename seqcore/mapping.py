"""SequenceMap: a body applied to each element, here, on threads, or on an executor."""

import os
from concurrent.futures import Executor

from seqcore._integers import as_count
from seqcore._maps.batches import in_order, joined_work, stacked_work
from seqcore._maps.executors import count_workers, run_on_executor
from seqcore._maps.flat import flat_work
from seqcore._maps.job import Job, run_here
from seqcore._maps.lending import read_only
from seqcore._maps.outputs import Outputs
from seqcore._maps.threads import run_on_threads
from seqcore._maps.work import ElementWork, runs_many
from seqcore._tensors import as_tensor
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import element_type
from seqcore.operators import as_sequence, flag

__all__ = ["map_batches", "sequence_map"]


def sequence_map(
    body,
    input_sequence,
    *additional_inputs,
    max_workers=1,
    executor=None,
    chunksize=None,
    output_dtypes=None,
    progress=None,
):
    """Apply a body to each element of a sequence. Implements ONNX SequenceMap-17.

    Parameters
    ----------
    body : callable or onnx.GraphProto or onnx.ModelProto or path
        Called with one element of each sequence, and each whole tensor. Returns a tensor, or a tuple of
        them for several outputs. An ONNX graph, or a path to a model, needs `seqcore-tensors[onnx]`.
    input_sequence : TensorSequence or list or tuple of array_like
        The map works on its elements as they are at the call.
    *additional_inputs : TensorSequence, list, tuple or array_like
        Further sequences, and lists and tuples of tensors, as long as the first, are indexed too; other
        tensors go to every call whole. What a body gets is read-only.
    max_workers : int, optional
        1 runs in the calling thread, n on n threads at once, None on one thread for each CPU.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        What runs the body instead. It is left open. What goes to other processes must pickle, a body too.
    chunksize : int, optional
        How many elements a worker takes at a time. By default that is found from what the first elements
        take. On threads these then run in the calling thread; with an executor nothing ever does.
    output_dtypes : data-type or list or tuple of data-type, optional
        The outputs' element types; a list or tuple where the body returns a tuple. Needed for an empty input
        and a callable. By default the first element tells.
    progress : bool or callable, optional
        True shows a bar, which needs the package tqdm. A callable gets `(done, total)` in the calling
        thread, rising, at the end `(total, total)`.

    Returns
    -------
    TensorSequence or tuple of TensorSequence
        A tuple where the body returns a tuple, or the graph has several outputs.

    Raises
    ------
    ValueError
        If sequences differ in length, the input is empty and nothing tells the output's type, or a number
        is out of range.
    TypeError
        If an output's type, or the number of outputs, differs from the first element's; the element is
        named. If the inputs' number or types are not those of a graph.
    BaseException
        What the body raises, as it is, with a note that names the element: of several failures the one
        that a serial loop would have met. Elements before it still run; those behind it that have not
        started don't.

    Notes
    -----
    Threads pay where the body gives the GIL away, as NumPy and onnxruntime do for larger tensors, and on
    free-threaded Python for every body. The caller's context variables hold in worker threads.

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
    work = flat_work(body, inputs, n) or ElementWork(body, inputs, n)
    executor = None if executor is None else _as_executor(executor)
    return _run(work, single, dtypes, workers, executor, chunksize, progress)


def map_batches(
    body,
    input_sequence,
    *additional_inputs,
    batch_size=None,
    new_axis=0,
    max_workers=1,
    executor=None,
    output_dtypes=None,
    progress=None,
):
    """Apply a body to the elements of a sequence, many at a time.

    Parameters
    ----------
    body : callable or onnx.GraphProto or onnx.ModelProto or path
        Called with a batch of each sequence, and each whole tensor. Returns a tensor, or a tuple of them for
        several outputs. It must do to each element what it would do without the others.
    input_sequence : TensorSequence or list or tuple of array_like
        The map works on its elements as they are at the call.
    *additional_inputs : TensorSequence, list, tuple or array_like
        Further sequences, as long as the first, come in batches too; other tensors go to every call whole.
        What a body gets is read-only.
    batch_size : int, optional
        The most elements in a batch. By default so many that a batch stays in the cache.
    new_axis : {0, 1}, optional
        With 0 the elements of a batch are joined along axis 0: they may differ in length, and each output,
        as long as the first sequence's batch, is cut back by its lengths. With 1 they are stacked along a
        new first axis: a batch has elements of one shape, gathered from anywhere in the sequence, and each
        output's first axis goes back to them.
    max_workers, executor, progress
        As in `sequence_map`; progress counts elements.
    output_dtypes : data-type or list or tuple of data-type, optional
        As in `sequence_map`; by default the first batch tells.

    Returns
    -------
    TensorSequence or tuple of TensorSequence
        As long as the input, and in its order. The outputs for a batch share memory.

    Raises
    ------
    ValueError
        If an output is not as long as its batch, which is named; if elements that are to be joined differ
        in more than their length, or have rank 0; otherwise as `sequence_map`.
    TypeError, BaseException
        As `sequence_map`, with a note that names the elements of the batch.

    See Also
    --------
    sequence_map : One element at a time, for bodies that look at a whole element.

    Notes
    -----
    One call and one copy for each batch; no copy where its elements lie together, as after a split.

    Examples
    --------
    >>> import numpy as np
    >>> map_batches(np.cumsum, [[1, 2], [3], [4, 5]], batch_size=2)[2]
    array([4, 9])
    >>> map_batches(lambda a: a.mean(1), [[1.0, 2.0], [3.0], [5.0, 8.0]], new_axis=1)[2]
    array(6.5)
    """
    body = _as_body(body)
    workers = as_count("max_workers", max_workers, "uses one thread for each CPU") or os.cpu_count() or 1
    batch_size = as_count("batch_size", batch_size, "chooses one")
    stacked = flag("new_axis", new_axis)
    inputs, n = _as_inputs(input_sequence, additional_inputs)
    single, dtypes = _output_types(body, inputs, n, output_dtypes)
    executor = None if executor is None else _as_executor(executor)
    at_once = workers if executor is None else count_workers(*executor)
    work = (stacked_work if stacked else joined_work)(body, inputs, n, batch_size, at_once)
    outputs = _run(work, single, dtypes, workers, executor, None, progress)
    if work.positions is None:
        return outputs
    if isinstance(outputs, tuple):
        return tuple(in_order(one, work.positions) for one in outputs)
    return in_order(outputs, work.positions)


def _as_inputs(input_sequence, additional_inputs):
    """What a map works on, and the number of its elements."""
    inputs = (as_sequence(input_sequence)[:], *map(_as_input, additional_inputs))
    n = len(inputs[0])
    for i, one in enumerate(inputs):
        if isinstance(one, TensorSequence) and len(one) != n:
            raise ValueError(f"input {i} of the map has {len(one)} tensors, but input 0 has {n}")
    return inputs, n


def _run(work, single, dtypes, workers, executor, chunksize, progress):
    """Run a work where the caller wants it; return the outputs."""
    outputs = Outputs(single, dtypes, work.name)
    with _reporting(progress, work.elements(0, work.n)) as report:
        job = Job(work, outputs, chunksize, report)
        if work.n == 0:
            if report is not None:
                report(0)
        elif executor is not None:
            run_on_executor(job, *executor)
        elif workers == 1:
            run_here(job)
        else:
            run_on_threads(job, workers)
    return outputs.sequences[0] if outputs.single else outputs.sequences


def _as_body(body):
    """A callable; graphs become one."""
    if isinstance(body, str | os.PathLike) or type(body).__module__.partition(".")[0] == "onnx":
        from seqcore.onnx import GraphBody

        return GraphBody(body)
    if not callable(body):
        raise TypeError(f"a body is a callable, an ONNX graph or a path to one, not {type(body).__name__}")
    return body


def _as_input(value):
    if isinstance(value, TensorSequence | list | tuple):
        return as_sequence(value)[:]
    return read_only(as_tensor(value))


def _output_types(body, inputs, n, output_dtypes):
    """Whether there is a single output, and the outputs' types; None for what the first element will tell."""
    single, dtypes = _known_types(body, inputs, output_dtypes)
    if n == 0 and dtypes is None:
        raise ValueError("the map of an empty sequence needs output_dtypes, since no element tells its type")
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
        raise ValueError("output_dtypes is empty, but a body has at least one output")
    return single, dtypes


def _as_executor(executor):
    """An executor, and the Dask client behind it or None."""
    if isinstance(executor, Executor):
        return executor, None
    if hasattr(executor, "get_executor"):  # a Dask client
        if getattr(executor, "asynchronous", False):
            raise TypeError(
                "an asynchronous Dask client can't run a map, which waits for its results: use Client(...) "
                "without asynchronous=True"
            )
        # Not pure: else Dask would take equal chunks of two maps, or of one, for the same task.
        return executor.get_executor(pure=False), executor
    raise TypeError(
        f"an executor is a concurrent.futures.Executor or a Dask Client, not {type(executor).__name__}"
    )


class _reporting:
    """What is called with the number of elements done; entering it shows the bar, leaving it ends it."""

    def __init__(self, progress, total):
        self.progress, self.total, self.bar = progress, total, None

    def __enter__(self):
        if self.progress is None or self.progress is False:
            return None
        if self.progress is True:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                raise ImportError("progress=True needs the package tqdm: pip install tqdm") from None
            self.bar = tqdm(total=self.total, unit="tensor")
            return lambda done: self.bar.update(done - self.bar.n)
        if not callable(self.progress):
            raise TypeError(f"progress is a bool or a callable, not {type(self.progress).__name__}")
        return lambda done: self.progress(done, self.total)

    def __exit__(self, *exc_info):
        if self.bar is not None:
            self.bar.close()
