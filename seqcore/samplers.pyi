from collections.abc import Iterator
from typing import Any, SupportsIndex

from seqcore._typing import Integers
from seqcore.core.sequence import TensorSequence

__all__ = ["BatchSampler"]

class BatchSampler:
    def __init__(
        self,
        lengths: TensorSequence[Any] | Integers,
        *,
        batch_size: SupportsIndex | None = None,
        max_tokens: SupportsIndex | None = None,
        capacity: SupportsIndex | None = None,
        shuffle: bool = True,
        seed: SupportsIndex = 0,
        rank: SupportsIndex = 0,
        world_size: SupportsIndex = 1,
        drop_last: bool = False,
    ) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[list[int]]: ...
    def set_epoch(self, epoch: SupportsIndex) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
