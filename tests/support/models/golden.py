"""What becomes of the exported models (tests/models/exported): the nodes left, the notes, and what runs.

`PYTHONPATH=.:tests python -m support.models.golden` writes it into `tests/models/golden.json`, and prints
what has changed. It changes only for the better: with fewer operators on sequences left, fewer nodes in a
run, a quicker engine, clearer words.
"""

import json
from collections import Counter
from pathlib import Path

from support.models.exported import MODELS
from support.models.lowering import ops

from seqcore.onnx._engines.engines import engines_of
from seqcore.onnx._model.load import parse, place_of
from seqcore.onnx._model.prepare import message_has_lists
from seqcore.onnx._model.weights import without_weights
from seqcore.onnx._runtimes.sessions import Sessions
from seqcore.onnx.lowering import lower, lower_with_report

PATH = Path(__file__).parents[2] / "models" / "golden.json"


def left_of(model):
    """How many nodes there are in all depths, and which of them have to do with sequences."""
    counts = Counter(ops(model))
    lists = {name: n for name, n in sorted(counts.items()) if "Sequence" in name or "Optional" in name}
    return {"nodes": counts.total(), "loops": counts["Loop"], "lists": lists}


def operators_of(model):
    return ", ".join(f"{n} {name}" for name, n in sorted(Counter(ops(model)).items()))


def lowered(path):
    """What `lower` makes of a model."""
    message, notes = lower_with_report(path)
    targets = {target: operators_of(lower(path, target=target)) for target in ("openvino", "portable")}
    return left_of(message) | {"notes": sorted(map(str, notes))} | targets


def run(path):
    """What runs a model, and what becomes of it for that."""
    message = parse(path)
    if not message_has_lists(message):
        return {"runs": ["onnxruntime runs it whole"]}
    engines = engines_of(*without_weights(message, place_of(path)), Sessions(), 1)
    found = {
        "notes": sorted(map(str, engines.compiled.notes)),
        "loops": sorted(map(str, engines.compiled.loops)),
    }
    if engines.compiled.whole is not None:
        found |= {"nodes": sum(1 for _ in engines.compiled.whole.prepared.model.graph.all_nodes())}
        is_long = engines.compiled.whole.may_be_long
        found |= {"limit": getattr(engines.compiled.whole, "limit", None) if is_long else None}
    return found | {"runs": list(engines.compiled.explain())}


def made(name):
    path = MODELS[name].path
    return {"lower": lowered(path), "session": run(path)}


def stored():
    return json.loads(PATH.read_text(encoding="utf-8"))


def differences(before, after, where=""):
    """Yield a line for each difference of two values: what was there, and what is there now."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from differences(before.get(key), after.get(key), f"{where}/{key}" if where else key)
    elif isinstance(before, list) and isinstance(after, list):
        gone, come = Counter(before) - Counter(after), Counter(after) - Counter(before)
        yield from (f"{where}: - {line}" for line in gone.elements())
        yield from (f"{where}: + {line}" for line in come.elements())
        if before != after and not gone and not come:
            yield f"{where}: the order has changed"
    elif before != after:
        yield f"{where}: {before} -> {after}"


def main():
    before = stored() if PATH.exists() else {}
    after = {name: made(name) for name in MODELS}
    for line in differences(before, after):
        print(line)
    PATH.write_text(json.dumps(after, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
