from typing import Any, overload

import numpy as np

from seqcore._typing import DTypeName, DTypeOf, T

__all__ = ["ELEMENT_TYPES", "element_type", "type_name"]

STRING: np.dtype[np.object_]
ELEMENT_TYPES: dict[str, np.dtype[Any]]

@overload
def element_type(dtype: DTypeOf[T]) -> np.dtype[T]: ...
@overload
def element_type(dtype: DTypeName) -> np.dtype[Any]: ...
def type_name(dtype: np.dtype[Any]) -> str: ...
