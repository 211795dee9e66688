"""Files in Arrow's IPC format.

::

    sequences ──parts──▶ record batches ──writing──▶ a temporary file, renamed when it is complete
    a file ──reading──▶ mapped batches ──▶ a sequence, whose elements know their position in the file
    loaded elements ──paths──▶ a pickle of the path and the positions ──▶ the file opened again
"""
