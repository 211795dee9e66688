"""Files in Arrow's IPC format and Megatron's pairs, and pickles, which name files.

::

    sequences ──parts──▶ record batches ──writing──▶ a temporary file, renamed when it is complete
    a file ──reading──▶ mapped batches ──▶ a sequence, whose elements know their position in the file
    a sequence ──pickles──▶ data, or places in files ──paths──▶ the files mapped again
"""
