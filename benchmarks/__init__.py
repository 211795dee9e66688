"""Measure seqcore beside what people use today: `python -m benchmarks`, or `pytest benchmarks`."""
