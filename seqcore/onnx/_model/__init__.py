"""Models: from files and messages to a checked graph in normal form, with types and shapes."""
