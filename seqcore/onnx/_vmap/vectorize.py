"""The pass that makes one operator of each loop whose iterations don't depend on each other.

Of a loop that stays, lists of elements of several lengths become padded scan outputs where that goes: see
`padded`.
"""

from __future__ import annotations

from typing import NamedTuple

from seqcore.onnx._model.graph import Model, Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._rewrite.emit import Builder
from seqcore.onnx._vmap.loop import VectorizedLoop
from seqcore.onnx._vmap.padded import PaddedLoop

# The alternative to the vectorized loop, and the words for it.
_OTHERWISE = {
    "": "",
    "nothing": "",
    "loop": ", or one by one where that is too much",
}


class LoopNote(NamedTuple):
    """A loop, whether it is vectorized or written out, and why not, or else when it isn't."""

    loop: str
    is_vectorized: bool
    why_not: str
    otherwise: str = ""  # a word of `_OTHERWISE` where a run decides
    is_padded: bool = False  # whether it stays, with its lists as padded scan outputs
    written: str = ""  # what is said of it if it is written out

    def __str__(self) -> str:
        if self.written:
            return f"'{self.loop}' {self.written}"
        if self.is_vectorized:
            return f"'{self.loop}' runs all iterations at once{_OTHERWISE[self.otherwise]}"
        return f"'{self.loop}' runs iteration by iteration: it {self.why_not}"


def vectorize_loops(
    model: Model, prepared: Prepared, builder: Builder, settled: set[str], is_portable: bool = False
) -> list[LoopNote]:
    """Replace the loops that can be by nodes for all iterations at once.

    Parameters
    ----------
    model : Model
        Changed in place.
    prepared : Prepared
        The types of this model.
    builder : Builder
        Of this model.
    settled : set of str
        The names of loops that stay, for large iterations. More of them are added.
    is_portable : bool, optional
        If True, other runtimes than onnxruntime run it too, and no list may be left.
    """
    notes = []
    for node in model.graph.all_nodes():
        if node.is_op("Loop") and node.name not in settled:
            try:
                one = VectorizedLoop(node, prepared, builder, is_portable)
                settled |= one.write()
            except Declined as why:
                is_padded = is_portable and _pad_lists(node, prepared, builder, settled)
                notes.append(LoopNote(node.name, False, str(why), is_padded=is_padded))
            else:
                notes.append(LoopNote(node.name, True, "", one.otherwise))
    builder.apply()
    return notes


def _pad_lists(node: Node, prepared: Prepared, builder: Builder, settled: set[str]) -> bool:
    """Pad the lists of a loop that stays; return whether that goes."""
    try:
        settled |= PaddedLoop(node, prepared, builder, is_portable=True).write()
    except Declined:
        return False
    return True
