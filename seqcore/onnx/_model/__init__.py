"""Models: from files and messages to a checked graph in normal form, of which types and shapes are known."""
