from typing import Any, Literal, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from seqcore._typing import Integers
from seqcore.core.sequence import TensorSequence

__all__ = ["pack"]

def pack(
    lengths: TensorSequence[Any] | Integers,
    capacity: SupportsIndex,
    *,
    strategy: Literal["best_fit_decreasing", "first_fit_decreasing", "next_fit"] = "best_fit_decreasing",
    max_count: SupportsIndex | None = None,
) -> TensorSequence[np.int64]: ...
def as_lengths(lengths: TensorSequence[Any] | Integers) -> NDArray[np.int64]: ...
def as_capacity(name: str, capacity: SupportsIndex, lengths: NDArray[np.int64]) -> int: ...
