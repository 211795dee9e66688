"""SequenceMap: a body applied to each element, in a loop or on threads."""

import contextvars
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import count


from seqcore._sequence import TensorSequence
from seqcore._tensors import as_tensor
from seqcore.operators import as_sequence

__all__ = ["sequence_map"]


def sequence_map(body, input_sequence, *additional_inputs, max_workers=1, output_dtypes=None):
    """Apply a body to each element of a sequence. Implements ONNX SequenceMap-17 for callables.

    Parameters
    ----------
    body : callable
        Called with one element of each sequence, and each whole tensor. Returns a tensor, or a tuple of
        them for several outputs.
    input_sequence : TensorSequence or list or tuple of array_like
        The map works on its elements as they are at the call.
    *additional_inputs : TensorSequence, list, tuple or np.ndarray
        Further sequences, as long as the first, are indexed too; arrays go to every call whole.
    max_workers : int, optional
        1 runs in the calling thread, n on n threads at once, None on one thread for each CPU.
    output_dtypes : data-type or sequence of data-type, optional
        The outputs' element types. Needed where the input is empty; by default the first element tells.

    Returns
    -------
    TensorSequence or tuple of TensorSequence
        A tuple where the body returns a tuple.

    Raises
    ------
    ValueError
        If sequences differ in length, or the input is empty and `output_dtypes` is not given.
    TypeError
        If a later element's output has another type than the first's, or there are more or fewer of them.
    BaseException
        What the body raises, as it is, with a note that names the element: the error of the first
        element that fails, as in a serial loop.

    Examples
    --------
    >>> import numpy as np
    >>> sequence_map(np.flip, [[1, 2, 3], [4, 5]])[1]
    array([5, 4])
    """
    if not callable(body):
        raise TypeError(f"a body is a callable, not {type(body).__name__}")
    if max_workers is None:
        max_workers = os.cpu_count() or 1
    if max_workers < 1:
        raise ValueError(f"max_workers is {max_workers}: at least 1 has to do the work")
    first = as_sequence(input_sequence)[:]
    inputs = [first, *map(_as_input, additional_inputs)]
    n = len(first)
    for i, one in enumerate(inputs):
        if isinstance(one, TensorSequence) and len(one) != n:
            raise ValueError(f"input {i} has {len(one)} tensors, but input 0 has {n}")
    outputs = _Outputs(output_dtypes)
    if n:
        run = _run_serially if max_workers == 1 or n == 1 else _run_on_threads
        run(body, inputs, n, outputs, max_workers)
    return outputs.finished(n)


def _as_input(value):
    if isinstance(value, TensorSequence | list | tuple):
        return as_sequence(value)[:]
    return as_tensor(value)


class _Outputs:
    """The output sequences, whose number and types the first element settles."""

    def __init__(self, dtypes):
        self.sequences = None
        self.single = dtypes is None or not isinstance(dtypes, list | tuple)
        self.dtypes = None if dtypes is None else [dtypes] if self.single else list(dtypes)

    def append(self, i, result):
        values = result if isinstance(result, tuple) else (result,)
        if self.sequences is None:
            self._begin(result, values)
        if len(values) != len(self.sequences) or isinstance(result, tuple) == self.single:
            raise TypeError(
                f"the body returned {_described(result)} for element {i}, "
                f"but {len(self.sequences)} output{'s' if len(self.sequences) > 1 else ''} before"
            )
        for k, (sequence, value) in enumerate(zip(self.sequences, values, strict=True)):
            try:
                sequence.append(value)
            except (TypeError, ValueError, OverflowError) as error:
                error.add_note(f"output {k} of the body, for element {i}")
                raise

    def _begin(self, result, values):
        if self.dtypes is not None:
            self.sequences = [TensorSequence(dtype=dtype) for dtype in self.dtypes]
        else:
            self.single = not isinstance(result, tuple)
            self.sequences = [TensorSequence(dtype=as_tensor(value).dtype) for value in values]

    def finished(self, n):
        if n == 0:
            if self.dtypes is None:
                raise ValueError("the map of an empty sequence needs output_dtypes: no element tells its type")
            self.sequences = [TensorSequence(dtype=dtype) for dtype in self.dtypes]
        return self.sequences[0] if self.single else tuple(self.sequences)


def _described(result):
    return f"a tuple of {len(result)}" if isinstance(result, tuple) else "one tensor"


def _apply(body, inputs, i):
    try:
        return body(*(one[i] if isinstance(one, TensorSequence) else one for one in inputs))
    except BaseException as error:
        error.add_note(f"element {i} of a SequenceMap")
        raise


def _run_serially(body, inputs, n, outputs, max_workers):
    for i in range(n):
        outputs.append(i, _apply(body, inputs, i))


def _run_on_threads(body, inputs, n, outputs, max_workers):
    """Each worker takes the next chunk that nobody has, until none is left or an element has failed."""
    size = max(1, n // (8 * max_workers))
    starts = range(0, n, size)
    results = [None] * len(starts)
    failures = {}
    ticket = count()

    def work():
        while (chunk := next(ticket)) < len(starts) and not failures:
            i = starts[chunk]
            done = results[chunk] = []
            try:
                for i in range(starts[chunk], min(starts[chunk] + size, n)):
                    done.append(_apply(body, inputs, i))
            except BaseException as error:
                failures[i] = error

    workers = min(max_workers, len(starts))
    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(contextvars.copy_context().run, work) for _ in range(workers)]:
            future.result()
    for start, chunk in zip(starts, results, strict=True):
        for i, result in enumerate(chunk or (), start):
            outputs.append(i, result)
    if failures:
        raise failures[min(failures)]
