"""The lazy import of pyarrow, which reads and writes the format."""


def pyarrow():
    """Return the package pyarrow.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        import pyarrow.ipc
    except ImportError as error:
        raise ImportError('files need the package pyarrow: pip install "seqcore-tensors[arrow]"') from error
    return pyarrow
