"""How fast the library is beside its peers: `python -m benchmarks`, or `pytest benchmarks`."""
