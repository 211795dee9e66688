"""Rewriting models: nodes are emitted, pruned, and maps written out as loops."""
