"""Read the arguments of `reduce`: which kernel does the work, in which dtypes, and what NumPy's result is.

::

    sequence    reduce(…)                   work on    accumulate in    result
    int8        np.add                      int8       uint64           int64
    float16     np.sum                      float32    float32          float16
    int32       np.mean                     float64    float64          float64
    float32     np.add, dtype=np.float64    float64    float64          float64
    float16     np.std                      float32    float32          float16
    float32     np.hypot                    NumPy's reduceat, or its call for each element

NumPy itself is asked which dtype the result has.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from seqcore._arguments.integers import integer
from seqcore._arguments.other_names import not_a_reduction
from seqcore._arguments.shown import got, shown
from seqcore._arguments.tensors import as_tensor
from seqcore.dtypes import STRING, element_type, type_name

# NumPy's functions, and the ufunc that has the same reduction.
_FUNCTIONS = (
    (np.sum, np.add),
    (np.prod, np.multiply),
    (np.min, np.minimum),
    (np.amin, np.minimum),
    (np.max, np.maximum),
    (np.amax, np.maximum),
    (np.any, np.logical_or),
    (np.all, np.logical_and),
)
_OTHERS = (np.mean, np.std, np.var, np.argmin, np.argmax)
_MOMENTS = ("mean", "std", "var")
_KERNELS = {
    np.add: "sum",
    np.multiply: "prod",
    np.minimum: "min",
    np.maximum: "max",
    np.logical_or: "any",
    np.logical_and: "all",
}
_KNOWN = frozenset([*_KERNELS, *_OTHERS, *(function for function, _ in _FUNCTIONS)])
_KNOWN_TYPES = (np.ufunc, type(np.sum))
_OF_KERNELS = frozenset(
    np.dtype(name)
    for name in (
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64", "complex64", "complex128"),
    )
)
_FLOAT32 = np.dtype(np.float32)
_REAL = (_FLOAT32, np.dtype(np.float64))


class Plan(NamedTuple):
    """The way in which elements of a dtype are reduced."""

    name: str  # in messages
    operation: str | None  # the kernel's; None if NumPy's own calls do it
    axis: int | None
    work: np.dtype  # that the elements are cast to
    accumulator: np.dtype  # of the kernel's results
    dtype: np.dtype  # of the result
    asked: np.dtype | None  # the dtype argument
    fill: Any  # the result of an empty element without `empty`; None if there is none
    start: np.ndarray  # the same in the accumulator's dtype, or 0: sums and products begin with it
    ufunc: Any  # a np.ufunc, or None
    initial: np.ndarray | None
    empty: np.ndarray | None

    @property
    def needs_counts(self):
        """Whether `finish` needs to know of how many numbers each result is."""
        return self.name in _MOMENTS or self.empty is not None

    def finish(self, result, counts):
        """Return the result of the kernels in NumPy's dtype, with `initial` and `empty` in it."""
        if self.name in _MOMENTS:
            with np.errstate(invalid="ignore"):
                result = result / counts.reshape(-1, *[1] * (result.ndim - 1))
            if self.name == "std":
                result = np.sqrt(result)
        if self.initial is not None and self.operation not in ("sum", "prod"):  # which begin with it
            result = self.ufunc(self.initial.astype(result.dtype), result)
        result = result.astype(self.dtype, copy=False)  # sums of integers wrap around
        if self.empty is not None:
            result[counts == 0] = self.empty
        return result

    def of_element(self, element):
        """Return NumPy's result for an element, which no kernel has."""
        if self.ufunc is None:
            more: dict[str, Any] = {"dtype": self.asked} if self.name in _MOMENTS else {}
            return getattr(np, self.name)(element, axis=self.axis, **more)
        start: dict[str, Any] = {} if self.initial is None else {"initial": self.initial[()]}
        return self.ufunc.reduce(element, axis=self.axis, dtype=self.dtype, **start)

    def of_rows(self, values, lengths, first):
        """Return a ufunc's results for rows one behind the other, as its `reduce` has them for each.

        Those without numbers take no place between the others. `first` is the number of the first row.
        """
        filled = lengths > 0
        if not filled.all() and self.empty is None and self.fill is None:
            raise_empty(self.name, first + int(np.argmin(filled)))
        results = np.full(len(lengths), self.start if self.empty is None else self.empty, self.dtype)
        if filled.any():
            starts = (np.cumsum(lengths) - lengths)[filled]
            made = self.ufunc.reduceat(values, starts, dtype=self.dtype)
            # From the identity reduce starts, unlike reduceat.
            results[filled] = made if self.fill is None else self.ufunc(self.start, made)
        return results


def raise_empty(name, at):
    """Raise the error for an element without numbers."""
    raise ValueError(
        f"element {at} is empty, and {name} has no result for that: pass the result for empty elements as "
        "empty=, or drop them first, for example by seq[seq.lengths() > 0]"
    )


def is_reduction(body):
    """Return whether a function is one of NumPy's reductions that `reduce` knows."""
    return any(body is function for function, _ in _FUNCTIONS) or any(body is one for one in _OTHERS)


def plan_of(how, dtype, axis, initial, empty, asked):
    """Return the `Plan` of a reduction.

    Raises
    ------
    TypeError
        If `how` is not a reduction, or the dtypes, `initial` or `empty` don't fit it.
    OverflowError
        If `initial` or `empty` is too large for the dtype of the result.
    """
    axis = None if axis is None else integer("axis", axis, "an integer or None")
    asked = _asked_type(asked)
    is_known = isinstance(how, _KNOWN_TYPES) and how in _KNOWN
    plan = (_known_plan if is_known else _plain_plan)(how, dtype, axis, asked)
    if initial is None and empty is None:
        return plan
    if plan.ufunc is None and initial is not None:
        raise TypeError(f"{plan.name} takes no initial: the result for empty elements is empty=")
    if initial is not None:
        if plan.ufunc in (np.logical_or, np.logical_and) and isinstance(
            initial, int | float | complex | np.number
        ):
            initial = bool(initial)
        initial = _as_result("initial", initial, plan.dtype)
        plan = plan._replace(fill=initial, start=initial.astype(plan.accumulator), initial=initial)
    if empty is not None:
        plan = plan._replace(empty=_as_result("empty", empty, plan.dtype))
    return plan


def _plain_plan(how, dtype, axis, asked):
    """Return the plan of a reduction without `initial` and `empty`."""
    ufunc, name = _ufunc_of(how)
    if dtype == STRING:
        raise TypeError(f"strings can't be reduced by {name}: use sequence_map with a function of an element")
    if asked is not None and name in ("argmin", "argmax"):
        raise TypeError(f"{name} takes no dtype, because its results are positions")
    result = _result_type(how, ufunc, name, dtype, asked)
    operation, work, accumulator = _kernel(ufunc, name, dtype, result, asked)
    fill = None if ufunc is None else ufunc.identity
    start = np.array(0 if fill is None else fill).astype(accumulator)
    return Plan(name, operation, axis, work, accumulator, result, asked, fill, start, ufunc, None, None)


_known_plan = functools.lru_cache(_plain_plan)  # of few reductions and dtypes: it takes most of a short call


# The ufuncs that give the running results of other functions.
_RUNNING = {
    **dict.fromkeys(("add", "cumulative_sum", "sum"), ": use np.add"),
    **dict.fromkeys(("cumulative_prod", "multiply", "prod"), ": use np.multiply"),
    **dict.fromkeys(("amax", "cummax", "max", "maximum"), ": use np.maximum"),
    **dict.fromkeys(("amin", "cummin", "min", "minimum"), ": use np.minimum"),
}


def accumulation_of(how, dtype, asked):
    """Return the ufunc of running results, and the dtype that its `accumulate` gives for elements of a dtype.

    Raises
    ------
    TypeError
        If it is not a ufunc of two numbers, or doesn't fit the dtypes.
    """
    ufunc = np.add if how is np.cumsum else np.multiply if how is np.cumprod else how
    if not isinstance(ufunc, np.ufunc) or not _is_binary(ufunc):
        named = how if isinstance(how, str) else getattr(how, "__name__", None)
        remedy = _RUNNING.get(named, "") if type(named) is str else ""
        raise TypeError(
            "ufunc must be a ufunc of two arguments, such as np.add, or np.cumsum or np.cumprod, got "
            f"{got(how)}{remedy}"
        )
    ufunc, name = _ufunc_of(ufunc)
    if dtype == STRING:
        raise TypeError(f"strings can't be accumulated by {name}: use sequence_map with a function")
    asked = _asked_type(asked)
    try:
        return ufunc, element_type(ufunc.accumulate(np.ones(2, dtype), dtype=asked).dtype)
    except TypeError as error:
        given = type_name(dtype) if asked is None else f"{type_name(dtype)} as {type_name(asked)}"
        raise TypeError(f"{name} can't accumulate elements of dtype {given}: {error}") from None


def _asked_type(dtype):
    """Return the dtype that is asked for, None if none is; of numbers there are no strings."""
    own = None if dtype is None else element_type(dtype)
    if own is not None and own == STRING:
        raise TypeError(f"dtype must be of numbers, got {shown(dtype)}, which is of strings")
    return own


def _is_binary(ufunc):
    """Return True if a ufunc makes one number of two."""
    return ufunc.nin == 2 and ufunc.nout == 1 and ufunc.signature is None


def _ufunc_of(how):
    """Return the ufunc of a reduction, None for those without one, and its name."""
    if isinstance(how, np.ufunc):
        if not _is_binary(how):
            raise TypeError(
                f"how must be a ufunc of two arguments that has reduce, such as np.add, or one of NumPy's "
                f"reductions, such as np.sum, got {how.__name__}"
            )
        if how.ntypes == 1 and how.types == ["OO->O"]:
            raise TypeError(f"{how.__name__} gives Python objects, which can't be in an array of numbers")
        return how, how.__name__
    for function, ufunc in _FUNCTIONS:
        if how is function:
            return ufunc, function.__name__
    for other in _OTHERS:
        if how is other:
            return None, other.__name__
    raise TypeError(not_a_reduction(how))


def _result_type(how, ufunc, name, dtype, asked):
    """Return the dtype that NumPy gives the result."""
    one = np.ones(1, dtype)
    try:
        if ufunc is not None:
            result = ufunc.reduce(one, dtype=asked)
        else:
            result = how(one, dtype=asked) if name in _MOMENTS else how(one)
    except TypeError as error:
        given = type_name(dtype) if asked is None else f"{type_name(dtype)} as {type_name(asked)}"
        raise TypeError(f"{name} can't reduce elements of dtype {given}: {error}") from None
    result = np.asarray(result).dtype
    return element_type(result)


def _as_result(name, value, dtype):
    """Return `initial` or `empty` as an array of rank 0, whose kind of number the results' dtype can have."""
    if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0:
        value = np.ndarray.item(np.asarray(value))
    own = _FLOAT32 if dtype.name == "bfloat16" else dtype  # NumPy can't promote it with Python's floats
    try:
        item = as_tensor(value, own, at=name).astype(dtype)
    except TypeError:
        if not isinstance(value, int | float | complex):
            raise
        needed = np.result_type(own, type(value)())
        remedy = f"pass dtype={str(needed)!r}, or another {name}" if dtype.kind != "b" else "pass a bool"
        raise TypeError(
            f"{name} is {shown(value)}, which needs dtype {needed}, but the results have dtype "
            f"{type_name(dtype)}: {remedy}"
        ) from None
    if item.ndim:
        raise TypeError(f"{name} must be a scalar, got shape {item.shape}")
    return item


def _kernel(ufunc, name, dtype, result, asked):
    """Return the kernel of a reduction, the dtype to work on and that of its results; None without one."""
    operation = name if ufunc is None else _KERNELS.get(ufunc)  # a mean is a sum, divided by `finish`
    work = None
    if operation in ("any", "all") and result.kind == "b":
        work = dtype if dtype.kind == "b" else _wider(dtype)
        return (operation if dtype.kind == "b" or work in _OF_KERNELS else None), work, result
    if operation in ("argmin", "argmax"):
        work = np.dtype(np.uint8) if dtype.kind == "b" else _wider(dtype)
        return (None if work not in _OF_KERNELS or work.kind == "c" else operation), work, np.dtype(np.int64)
    if operation in ("min", "max"):
        if result.kind == "b" and dtype.kind == "b":
            return {"min": "all", "max": "any"}[operation], dtype, result
        work = _wider(result)
        return (None if work not in _OF_KERNELS or work.kind == "c" else operation), work, work
    if operation in ("sum", "prod") and result.kind in "iu":
        work = dtype if dtype.kind in "iu" else np.dtype(np.uint8) if dtype.kind == "b" else result
        return operation, work, np.dtype(np.uint64)
    if operation == "mean" and asked is None and dtype.kind in "biu":
        return "sum", np.dtype(np.float64), np.dtype(np.float64)
    if operation in ("std", "var"):
        # NumPy takes the mean from each element in the wider of its dtype and the one asked for.
        work = _wider(asked or (result if dtype.kind in "biuf" else dtype))
        fits = asked is None or np.can_cast(dtype, asked)
        return ("var" if work in _REAL and fits else None), work, work
    work = _wider(result)
    if operation in ("sum", "prod") and work in _OF_KERNELS:
        return operation, work, work
    # The kernels' sums of integers have 64 bits, so a mean of small integers is NumPy's own call.
    if operation == "mean" and work in _OF_KERNELS and work.kind in "fc" and asked in (None, result):
        return "sum", work, work
    return None, dtype, result


def _wider(dtype):
    """Return the dtype that a kernel has in place of one that it doesn't."""
    return _FLOAT32 if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype
