"""A fast, list-like container for variable-length (ragged) NumPy arrays, and ONNX's sequence operators.

`TensorSequence` is the container. `split_to_sequence` and `concat_from_sequence` split and join arrays,
`sequence_map` and `map_batches` apply functions, `save` and `load` write and memory-map files. `Columns` are
sequences and arrays under names. `pack` and `BatchSampler` make batches for training. The other functions are
ONNX's sequence operators. `seqcore.onnx` runs ONNX models with sequences.
"""

import os as _os
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

try:
    from seqcore.core.sequence import TensorSequence
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("seqcore.core"):
        raise
    raise ImportError(
        f"seqcore was imported from {__path__[0]}, a source tree without compiled modules for this Python. "
        "Build them there with `pip install -e .`, or start Python in another folder to use an installed "
        "seqcore."
    ) from error

from seqcore.dtypes import ELEMENT_TYPES, element_type
from seqcore.operators import (
    concat_from_sequence,
    sequence_at,
    sequence_construct,
    sequence_empty,
    sequence_erase,
    sequence_insert,
    sequence_length,
    split_to_sequence,
)

if _TYPE_CHECKING:
    from seqcore.columns import Columns
    from seqcore.files import load, save
    from seqcore.mapping import map_batches, sequence_map
    from seqcore.packing import pack
    from seqcore.samplers import BatchSampler

# These are imported at their first use, so that programs that need the container alone start sooner.
_LATE = {
    "BatchSampler": "seqcore.samplers",
    "Columns": "seqcore.columns",
    "load": "seqcore.files",
    "map_batches": "seqcore.mapping",
    "pack": "seqcore.packing",
    "save": "seqcore.files",
    "sequence_map": "seqcore.mapping",
}

__all__ = [
    "ELEMENT_TYPES",
    "BatchSampler",
    "Columns",
    "TensorSequence",
    "concat_from_sequence",
    "element_type",
    "get_include",
    "load",
    "map_batches",
    "pack",
    "save",
    "sequence_at",
    "sequence_construct",
    "sequence_empty",
    "sequence_erase",
    "sequence_insert",
    "sequence_length",
    "sequence_map",
    "split_to_sequence",
]

__version__ = "0.2.0"

if not _TYPE_CHECKING:

    def __getattr__(name):
        """Import a name at its first use, or raise the error for a name of another library.

        Its message has the call that does the same here.
        """
        if name in _LATE:
            globals()[name] = value = getattr(_import_module(_LATE[name]), name)
            return value
        from seqcore._arguments.other_names import no_attribute_of_module

        raise no_attribute_of_module(name)

    def __dir__():
        return sorted({*globals(), *_LATE})


def get_include() -> str:
    """Return the folder of `seqcore.h`, for `include_dirs` of C and C++ extensions.

    Cython extensions don't need it: `cimport seqcore` finds the declarations in the package.

    Returns
    -------
    str
        The path of the folder.

    Examples
    --------
    >>> import os
    >>> os.listdir(get_include())
    ['seqcore.h']
    """
    return _os.path.join(__path__[0], "include")
