"""Read what callers give, once for each kind: what is wrong with it is said in the same way everywhere.

::

    integers     integers, counts, flags, lengths and offsets
    tensors      one tensor, or an iterable of them
    protocols    arrays of other libraries, by NumPy's protocols, DLPack and buffers
    padding      the arguments of padded batches
    shown        given values and exceptions in messages
"""
