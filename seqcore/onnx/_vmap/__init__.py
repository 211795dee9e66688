"""Loops as one operator: all iterations at once."""
