"""Functions above the core that its methods call: one table, each imported at its first use."""

from functools import cache
from importlib import import_module

MODULES = {
    "as_html": "seqcore._format.notebook",
    "as_text": "seqcore._format.text",
    "file_of_memmap": "seqcore._files.paths",
    "give_array": "seqcore._arrow.protocol",
    "give_schema": "seqcore._arrow.protocol",
    "give_stream": "seqcore._arrow.protocol",
    "reduced": "seqcore._files.pickles",
    "restored": "seqcore._files.pickles",
    "take": "seqcore._arrow.protocol",
}


@cache
def late(name):
    """Return a function of the table."""
    return getattr(import_module(MODULES[name]), name)
