"""pyarrow, which reads and writes the format; it is imported where it is used."""


def pyarrow():
    """The package.

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
