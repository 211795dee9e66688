"""The compiled core: one structure or one loop to a file, each of which opens with its drawing.

What points to what, from the inside out::

    pieces ── buffer ── owner           plain C: pieces of memory, slots with a gap, what keeps them alive
    split · join · compare · …          one loop over the elements each
    container                           a buffer, a type and a lock: how an edit goes
    sequence · iterator                 `TensorSequence`
    operations · calls · embedding      what operators, maps and other extensions call
"""
