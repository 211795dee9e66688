"""Sequences as Arrow's columns, and back, without a package.

::

    sequence ──layouts──▶ Column ──core.arrow_export──▶ capsules        what others take
    capsules ──core.arrow_import──▶ Chunk ──chunks──▶ sequence          what others give

`fields` has the types. On the way out, `layouts` says how elements lie in an array, `items` what is within
them. On the way in, `buffers` says what the buffers hold, `regular` makes arrays of it, `chunks` elements.
`text` has strings both ways, `protocol` the methods of `TensorSequence`.
"""
