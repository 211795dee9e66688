"""The compiled core: one structure or one loop to a file. Each file opens with its drawing.

From the inside out::

    source ── table ── owner            plain C: the memory of elements, and the objects that keep it alive
    store · slots · runs · buffer       the elements of a sequence, and how edits change them
    reader                              reads elements, for all loops
    split · join · compare · …          one loop over the elements each
    lists · gather                      Python lists, and many tensors at once, on their way in
    container                           a store, a type and a lock: the order of an edit
    sequence · iterator                 `TensorSequence`
    operations · calls · embedding      functions for operators, maps and other extensions
"""
