"""Engines: what runs a model. `engines` has them in the order in which they are tried."""
