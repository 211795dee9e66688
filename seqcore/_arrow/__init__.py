"""Export and import of Arrow arrays, without a package.

::

    sequence ──layouts──▶ Column ──core.arrow_export──▶ capsules        export
    capsules ──core.arrow_import──▶ Chunk ──chunks──▶ sequence          import

`fields` has the types. For the export, `layouts` has the layouts of elements in an array, `items` the levels
within them. For the import, `buffers` reads the buffers, `regular` makes arrays of them, and `chunks`
elements. `protocol` has the functions that `TensorSequence` calls. `core.arrow` converts strings in both
directions.
"""
