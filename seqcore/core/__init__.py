"""The compiled core: twelve modules. Each opens with its drawing and its sections.

From the inside out::

    store                               sources, tables, runs, slots, edits; and blocks, which loops read
    split_join · padding · lists        from arrays and lists to elements, and back
    numpy_loops · training              reductions and comparisons; samplers, and rows of each element
    container · pickling                a store, a type and a lock: the order of an edit; copies and pickles
    sequence                            `TensorSequence`
    arrow · maps                        functions for Arrow and files, and for maps
    embedding                           functions for other extensions
"""
