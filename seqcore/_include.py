"""Where `seqcore.h` is."""

from pathlib import Path


def get_include() -> str:
    """Return the folder of `seqcore.h`, for `include_dirs` of C and C++ extensions that embed seqcore.

    Extensions in Cython need no header: `cimport seqcore` finds the declarations beside the package.

    Returns
    -------
    str

    Examples
    --------
    >>> import os
    >>> os.listdir(get_include())
    ['seqcore.h']
    """
    return str(Path(__file__).with_name("include"))
