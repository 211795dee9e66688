"""Collate functions for PyTorch's DataLoader: padded batches, and packed ones. PyTorch is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, SupportsIndex

import numpy as np
import torch

from seqcore._arguments.integers import as_count, boolean
from seqcore._arguments.protocols import is_of
from seqcore._arguments.shown import got, prefixed, shown, shown_error
from seqcore._arguments.tensors import as_tensor
from seqcore.columns import Columns
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import element_type

__all__ = ["PackCollate", "PadCollate"]

_PACK_NAMES = ("cu_seqlens", "max_seqlen", "position_ids")


class PadCollate:
    """Collate a batch to a dict of tensors, and pad its sequences.

    Parameters
    ----------
    padding_value : number or dict, optional
        The padding, or a dict of the padding of columns by name; other columns are padded with 0.
    side : {"right", "left"}, optional
        The side of the padding.
    multiple_of : int, optional
        If given, pad the length up to a multiple of it.
    dtype : data-type, torch.dtype or dict, optional
        The dtype of sequences, or a dict of those of columns by name. By default a sequence keeps its own.
    mask : bool, optional
        If True, add `<name>_mask` for each sequence: a bool tensor that is True where an element is.

    Raises
    ------
    ValueError
        If a side is unknown, or `multiple_of` is less than 1.
    TypeError
        If a dtype is not supported, or a flag is not a bool.

    See Also
    --------
    PackCollate : The same without padding.

    Notes
    -----
    A batch is Columns, a sequence, or a list of rows: dicts, or elements. In a list, values of rank 0 make an
    array, and others a sequence. Columns that are arrays become tensors as they are, strings become lists,
    and a sequence without a name is called `values`. The memory of tensors is their own.

    Examples
    --------
    >>> import seqcore as sq
    >>> from seqcore.torch import PadCollate
    >>> batch = PadCollate()(sq.Columns({"ids": [[1, 2, 3], [4]], "label": [0, 1]}))
    >>> batch["ids"].tolist(), batch["ids_mask"].sum().item(), batch["label"].tolist()
    ([[1, 2, 3], [4, 0, 0]], 4, [0, 1])
    """

    def __init__(
        self,
        padding_value: Any = 0,
        *,
        side: Literal["right", "left"] = "right",
        multiple_of: SupportsIndex | None = None,
        dtype: Any = None,
        mask: bool = True,
    ) -> None:
        if side not in ("right", "left"):
            raise ValueError(f"side must be 'right' or 'left', got {shown(side)}")
        self.padding_value = padding_value
        self.side: Literal["right", "left"] = side
        self.multiple_of = as_count("multiple_of", multiple_of)
        self.dtype = _checked(dtype)
        self.mask = boolean("mask", mask)

    def __call__(self, batch: Any) -> dict[str, Any]:
        """Return the tensors of a batch, by name.

        Parameters
        ----------
        batch : Columns, TensorSequence or list
            The batch, as a DataLoader gives it.

        Returns
        -------
        dict
            The tensors, and lists of strings.

        Raises
        ------
        ValueError
            If rows differ in their names, a mask has the name of a column, or an option names no sequence.
        TypeError
            If rows are tuples, whose values have no names, or values are neither tensors, numbers nor
            strings, or differ in dtype.
        """
        columns = _columns_of(batch)
        sequences = [name for name, column in columns.items() if isinstance(column, TensorSequence)]
        _check_names("padding_value", self.padding_value, sequences)
        _check_names("dtype", self.dtype, sequences)
        out: dict[str, Any] = {}
        for name, column in columns.items():
            if not isinstance(column, TensorSequence):
                out[name] = _tensor(column)
                continue
            if column.dtype == object:
                out[name] = column.tolist()
                continue
            dtype, asked = _dtypes(_option(self.dtype, name, None), column)
            with _naming(name):
                padded, mask = column.to_padded(
                    _option(self.padding_value, name, 0),
                    side=self.side,
                    multiple_of=self.multiple_of,
                    dtype=dtype,
                    return_mask=True,
                )
            out[name] = _tensor(padded, asked)
            if self.mask:
                _check_collision(f"{name}_mask", columns)
                out[f"{name}_mask"] = torch.from_numpy(mask)
        return out


class PackCollate:
    """Collate a batch to a dict of tensors, with the rows of its sequences one after the other.

    Parameters
    ----------
    dtype : data-type, torch.dtype or dict, optional
        The dtype of sequences, or a dict of those of columns by name. By default a sequence keeps its own.

    Raises
    ------
    TypeError
        If a dtype is not supported.

    See Also
    --------
    PadCollate : The same with padding, and the kinds of batches.

    Notes
    -----
    Beside the columns, the result has what kernels of variable lengths take: `cu_seqlens`, the offsets of
    elements as int32, `max_seqlen`, the longest length as an int, and `position_ids`, the position of each
    row in its element. All sequences of the batch have the same lengths.

    Examples
    --------
    >>> import seqcore as sq
    >>> from seqcore.torch import PackCollate
    >>> batch = PackCollate(dtype="int64")(sq.TensorSequence([[1, 2, 3], [4]]))
    >>> batch["values"].tolist(), batch["cu_seqlens"].tolist(), batch["max_seqlen"]
    ([1, 2, 3, 4], [0, 3, 4], 3)
    """

    def __init__(self, *, dtype: Any = None) -> None:
        self.dtype = _checked(dtype)

    def __call__(self, batch: Any) -> dict[str, Any]:
        """Return the tensors of a batch, by name.

        Parameters
        ----------
        batch : Columns, TensorSequence or list
            The batch, as a DataLoader gives it.

        Returns
        -------
        dict
            The tensors, and lists of strings.

        Raises
        ------
        ValueError
            If rows differ in their names, sequences in their lengths, or there are none, or a column has a
            name that is needed.
        TypeError
            If rows are tuples, whose values have no names, or values are neither tensors, numbers nor
            strings, or differ in dtype.
        """
        columns = _columns_of(batch)
        sequences = {name: column for name, column in columns.items() if isinstance(column, TensorSequence)}
        if not sequences:
            raise ValueError(f"the batch has no sequence to pack, only {', '.join(map(repr, columns))}")
        _check_names("dtype", self.dtype, [*sequences])
        for name in _PACK_NAMES:
            _check_collision(name, columns)
        out: dict[str, Any] = {}
        first_name, first = next(iter(sequences.items()))
        lengths = first.lengths()
        for name, column in columns.items():
            if not isinstance(column, TensorSequence):
                out[name] = _tensor(column)
                continue
            if not np.array_equal(column.lengths(), lengths):
                raise ValueError(
                    f"{name!r} has other lengths than {first_name!r}: pack sequences of one length in "
                    "each row, or use PadCollate"
                )
            dtype, asked = _dtypes(_option(self.dtype, name, None), column)
            with _naming(name):
                values = column.values()
                out[name] = _tensor(values if dtype is None else values.astype(dtype), asked)
        out["cu_seqlens"] = _tensor(first.offsets("int32"))
        out["max_seqlen"] = int(lengths.max(initial=0))
        out["position_ids"] = _tensor(first.position_ids())
        return out


def _columns_of(batch: Any) -> dict[str, Any]:
    """Return the columns of a batch by name: sequences and arrays."""
    if is_of(batch, Columns):
        return {name: batch[name] for name in batch.names}
    if is_of(batch, TensorSequence):
        return {"values": _flat(batch)}
    if not isinstance(batch, list | tuple):
        raise TypeError(f"a batch must be Columns, a sequence, or a list of rows, got {got(batch)}")
    if not batch:
        raise ValueError("the batch has no rows")
    if not isinstance(batch[0], Mapping):
        for i, row in enumerate(batch):
            _refuse_fields(i, row)
        return {"values": _column("values", batch)}
    names = [*batch[0]]
    for i, row in enumerate(batch):
        if not isinstance(row, Mapping) or row.keys() != batch[0].keys():
            raise ValueError(f"row {i} is {shown(row)}, but row 0 has {', '.join(map(repr, names))}")
    return {name: _column(name, [row[name] for row in batch]) for name in names}


def _refuse_fields(i: int, row: Any) -> None:
    """Raise the error for a row of several values without names, which is not one element."""
    arrays = (np.ndarray, np.generic, torch.Tensor, TensorSequence)
    if isinstance(row, tuple) or (isinstance(row, list) and any(isinstance(item, arrays) for item in row)):
        raise TypeError(
            f"row {i} is a {type(row).__name__} of {len(row)} values: give them names, for example return "
            '{"x": x, "y": y} from the data set, or make it Columns({"x": ..., "y": ...})'
        )


def _column(name: str, values: Any) -> Any:
    """Return the values of a column as an array if all have rank 0, otherwise as a sequence."""
    for i, value in enumerate(values):
        if isinstance(value, TensorSequence):
            raise TypeError(
                f"column {name!r}: row {i} is a TensorSequence, expected one element: give an array, such as "
                "its values()"
            )
    # Not np.ndim of a list, which makes an array of it, and fails for ragged ones.
    is_array = not any(isinstance(value, list | tuple) or np.ndim(value) for value in values)
    dtypes = [value.dtype for value in values if isinstance(value, np.ndarray | np.generic | torch.Tensor)]
    if is_array and (other := next((one for one in dtypes if one != dtypes[0]), None)) is not None:
        raise TypeError(
            f"column {name!r} has values of {dtypes[0]} and of {other}: give all of them the same dtype"
        )
    if is_array and all(isinstance(value, torch.Tensor) for value in values):
        return torch.stack(list(values))
    with _naming(name):
        return as_tensor(list(values), at="the column") if is_array else TensorSequence(values)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Name the column in errors."""
    try:
        yield
    except OverflowError as error:
        raise OverflowError(f"column {name!r}: {shown_error(error)}") from error
    except (TypeError, ValueError) as error:
        raise prefixed(f"column {name!r}", error) from error


def _flat(seq: TensorSequence[Any]) -> Any:
    """Return a sequence of numbers as their array, any other one as it is."""
    return seq.values() if len(seq) and not len(seq.shapes[0]) else seq


def _option(option: Any, name: str, default: Any) -> Any:
    return option.get(name, default) if isinstance(option, Mapping) else option


def _check_names(what: str, option: Any, sequences: list[str]) -> None:
    if isinstance(option, Mapping):
        for name in option:
            if name not in sequences:
                have = ", ".join(map(repr, sequences)) or "none"
                raise ValueError(f"{what} has {name!r}, but the sequences of the batch are {have}")


def _check_collision(name: str, columns: dict[str, Any]) -> None:
    if name in columns:
        raise ValueError(
            f"the batch has a column {name!r}, a name that is added: give the column another one"
        )


def _checked(dtype: Any) -> Any:
    """Return a dtype, or a dict of them, after a check of each."""
    if isinstance(dtype, Mapping):
        return {name: _checked(one) for name, one in dtype.items()}
    if isinstance(dtype, torch.dtype):
        try:
            torch.zeros(1).to(dtype)
        except RuntimeError as error:  # of quantized ones
            raise TypeError(f"{dtype} is not supported: {shown_error(error)}") from error
    elif dtype is not None:
        element_type(dtype)
    return dtype


def _dtypes(dtype: Any, seq: TensorSequence[Any]) -> tuple[Any, torch.dtype | None]:
    """Return the dtype that NumPy converts to, and the one that PyTorch does afterwards, of numbers."""
    if seq.dtype == object:
        return None, None
    if not isinstance(dtype, torch.dtype):
        return dtype, None
    try:
        return torch.empty(0, dtype=dtype).numpy().dtype, dtype
    except TypeError:  # bfloat16 and others that NumPy doesn't have
        is_own = seq.dtype.name == str(dtype).removeprefix("torch.")
        wide = np.complex64 if dtype.is_complex else np.float32
        return None if is_own else wide, dtype


def _tensor(array: Any, dtype: torch.dtype | None = None) -> Any:
    """Return a column as a tensor with memory of its own, or as a list of strings."""
    if isinstance(array, torch.Tensor):
        return array
    if array.dtype == object:
        return array.tolist()
    if array.dtype.name == "bfloat16":  # which torch.from_numpy doesn't know
        made = torch.from_numpy(np.array(array.view(np.int16), order="C")).view(torch.bfloat16)
    elif array.flags.writeable and array.flags.owndata and array.flags.c_contiguous:
        made = torch.from_numpy(array)
    else:
        made = torch.from_numpy(np.array(array, order="C"))
    return made if dtype is None else made.to(dtype)
