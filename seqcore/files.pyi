import os
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from seqcore._typing import Tensors
from seqcore.core.sequence import TensorSequence

__all__ = ["load", "save"]

def save(
    path: str | os.PathLike[Any] | bytes,
    sequence: Tensors | Iterable[ArrayLike] | Iterable[TensorSequence[Any]],
) -> None: ...

# The element type depends on the file.
def load(
    path: str | os.PathLike[Any] | bytes | Sequence[str | os.PathLike[Any] | bytes],
    column: str | None = None,
) -> TensorSequence[Any]: ...
