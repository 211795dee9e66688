"""Functions above the core that its methods call: one table, each imported at its first use."""

from importlib import import_module

MODULES = {
    "as_html": "seqcore._format.notebook",
    "as_text": "seqcore._format.text",
    "give_array": "seqcore._arrow.protocol",
    "give_schema": "seqcore._arrow.protocol",
    "give_stream": "seqcore._arrow.protocol",
    "opened": "seqcore._files.paths",
    "take": "seqcore._arrow.protocol",
}


def late(name):
    """Return a function of the table."""
    return getattr(import_module(MODULES[name]), name)
