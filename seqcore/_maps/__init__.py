"""Running a map: the units of work, the engines that run them, and the outputs.

::

    work: elements · elementwise blocks · batches   the units that a map consists of
       │
    job ── serial · threads · executors             the engines, which run some units at a time
       │                    └─ payloads, sharing    the data that travels to other processes
    outputs                                         the results, in order
"""
