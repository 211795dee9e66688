"""Detect another project's distribution called seqcore.

This distribution is called seqcore-tensors, because `seqcore` on the package index is another project's.
If both are installed into one folder, they have overwritten each other's files, and an import may find
either.
"""

import os
import warnings

NAME = "seqcore-tensors"
REMEDY = f"pip uninstall seqcore {NAME}, then pip install {NAME}"


def warn_of_namesake(package):
    """Warn if another distribution called seqcore is installed beside the folder of the package.

    Installers leave a folder with the name and version of a distribution there.
    """
    folder = os.path.dirname(package)
    try:
        names = os.listdir(folder)
    except OSError:  # imported from an archive
        return
    for name in names:
        if name.startswith("seqcore-") and name.endswith((".dist-info", ".egg-info")):
            warnings.warn(
                f"another project called seqcore is installed in {folder} too ({name}); it and {NAME} "
                f"have overwritten each other's files: {REMEDY}",
                RuntimeWarning,
                stacklevel=3,
            )


def check_parent(module):
    """Raise if the package `seqcore` that was imported isn't this one."""
    if not hasattr(module, "_warn_of_namesake"):  # which ours imports first
        raise ImportError(
            f"seqcore in {getattr(module, '__file__', None)} is another project's, which has overwritten "
            f"this one: {REMEDY}"
        )
