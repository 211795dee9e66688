"""Measure seqcore beside what people use today: `python -m benchmarks`, and `python -m benchmarks matrix`."""
