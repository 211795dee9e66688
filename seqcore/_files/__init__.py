"""Sequences in files of Arrow's IPC format.

::

    sequences ──parts──▶ record batches ──writing──▶ a new file, put in its place when it is whole
    a file ──reading──▶ mapped batches ──▶ a sequence, whose elements know where they stand
    such elements ──paths──▶ a pickle of the path and of positions ──▶ the file opened again
"""
