"""How a map is run: what it is made of, who runs it, and how the results come together.

::

    work: elements · flat blocks · batches          what a map is made of
       │
    job ── here · threads · executors               who runs it, some units at a time
       │                    └─ parcels, lending     what travels to other processes
    outputs                                         the results, in order
"""
