"""The name that seqcore is installed by, and a stranger of its own name beside it.

The distribution is called seqcore-tensors, for `seqcore` is another project's. Where both are installed into
one folder, each has overwritten files of the other, and either may be what an import finds.
"""

import os
import warnings

NAME = "seqcore-tensors"
REMEDY = f"pip uninstall seqcore {NAME}, then pip install {NAME}"


def look_for_strangers(package):
    """Warn where another distribution called seqcore has been installed beside the folder of the package.

    One look into that folder: what installs a package leaves a folder with its name and version there.
    """
    folder = os.path.dirname(package)
    try:
        names = os.listdir(folder)
    except OSError:  # imported from an archive
        return
    for name in names:
        if name.startswith("seqcore-") and name.endswith((".dist-info", ".egg-info")):
            warnings.warn(
                f"another project called seqcore is installed in {folder} too ({name}), and has overwritten "
                f"files of this one, or the other way round: {REMEDY}",
                RuntimeWarning,
                stacklevel=3,
            )


def check_parent(module):
    """Refuse to go on below a package `seqcore` that isn't this one."""
    if not hasattr(module, "_look_for_strangers"):  # which ours imports before all else
        raise ImportError(
            f"the module seqcore that was imported from {getattr(module, '__file__', None)} is another "
            f"project's, which has overwritten this one: {REMEDY}"
        )
