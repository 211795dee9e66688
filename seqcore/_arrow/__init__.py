"""Sequences as Arrow's columns, and back, without a package.

::

    sequence ──layouts──▶ Column ──core.arrow_export──▶ capsules        what others take
    capsules ──core.arrow_import──▶ Chunk ──chunks──▶ sequence          what others give

`fields` has the types, `layouts` how elements lie in an array, `chunks` how arrays become elements.
"""
