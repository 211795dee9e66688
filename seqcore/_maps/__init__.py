"""Running a map: what it runs, what runs it, and the outputs.

::

    Work     elements, rows of graphs, blocks (elementwise, reductions), batches: units that run anywhere
      │
    Job      hands out units in chunks, and collects the chunks; alone, it runs them all
      │
    Dispatch (executors) has chunks run by threads of the map, or by workers of an executor or a cluster
      │                  └─ payloads, sharing: what goes to other processes
    Outputs  the results, in order
"""
