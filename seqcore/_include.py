"""The folder of the C header."""

from pathlib import Path


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
    return str(Path(__file__).with_name("include"))
