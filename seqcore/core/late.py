"""Functions and classes above the modules that need them: one table, each imported at its first use."""

from functools import cache
from importlib import import_module

MODULES = {
    "Container": "seqcore.core.container",
    "File": "seqcore._files.reading",
    "GraphBody": "seqcore.onnx",
    "as_html": "seqcore._format.notebook",
    "as_text": "seqcore._format.text",
    "file_of_memmap": "seqcore._files.paths",
    "give_array": "seqcore._arrow.protocol",
    "give_schema": "seqcore._arrow.protocol",
    "give_stream": "seqcore._arrow.protocol",
    "load_columns": "seqcore.files",
    "read_dataset": "seqcore._files.datasets",
    "reduced": "seqcore._files.pickles",
    "restored": "seqcore._files.pickles",
    "save": "seqcore.files",
    "take": "seqcore._arrow.protocol",
    "workers_of": "seqcore._maps.workers",
}


@cache
def late(name):
    """Return a function or class of the table."""
    return getattr(import_module(MODULES[name]), name)
