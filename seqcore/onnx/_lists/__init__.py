"""Sequences as tensors: their representations, and how loops and branches carry them."""
