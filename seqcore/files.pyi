import os
from collections.abc import Iterable, Sequence
from typing import Any, overload

from numpy.typing import ArrayLike

from seqcore._typing import Tensors
from seqcore.columns import Columns
from seqcore.core.sequence import TensorSequence

__all__ = ["load", "save"]

def save(
    path: str | os.PathLike[Any] | bytes,
    sequence: Tensors | Columns | Iterable[ArrayLike] | Iterable[TensorSequence[Any]] | Iterable[Columns],
) -> None: ...

# Whether a file has several columns, and their types, is known when it is loaded.
@overload
def load(
    path: str | os.PathLike[Any] | bytes | Sequence[str | os.PathLike[Any] | bytes], column: str
) -> TensorSequence[Any]: ...
@overload
def load(
    path: str | os.PathLike[Any] | bytes | Sequence[str | os.PathLike[Any] | bytes], column: None = None
) -> Any: ...
