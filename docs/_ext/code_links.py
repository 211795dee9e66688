"""Turn inline code that has a page into a link: `seq.to_padded()`, `np.concatenate`, `SequenceMap`.

In tables, let it break.

Names of seqcore lead to the reference. Names of other projects lead to their own pages. Their addresses come
from the inventories that Sphinx has loaded (`intersphinx_mapping` in conf.py), otherwise from the rules here.
"""

import inspect
import re

import numpy as np
from docutils import nodes
from sphinx import addnodes
from sphinx.util.nodes import make_refnode

# A module of seqcore, and the ways in which pages write it.
MODULES = {"sq": "seqcore"} | {name: name for name in ("seqcore", "seqcore.onnx", "seqcore.torch")}
OBJECTS = {  # names that pages give to an object of a class
    "seq": "seqcore.TensorSequence",
    "TensorSequence": "seqcore.TensorSequence",
    "sq.TensorSequence": "seqcore.TensorSequence",
    "session": "seqcore.onnx.InferenceSession",
    "InferenceSession": "seqcore.onnx.InferenceSession",
    "GraphBody": "seqcore.onnx.GraphBody",
    "Columns": "seqcore.Columns",
    "sq.Columns": "seqcore.Columns",
    "BatchSampler": "seqcore.BatchSampler",
    "sampler": "seqcore.BatchSampler",
}
OPERATIONS = {  # on a sequence
    r"seq\[[^\]]+\]": "__getitem__",
    r"seq\[[^\]]+\] = .+": "__setitem__",
    r"del seq\[[^\]]+\]": "__delitem__",
    r"seq == \w+": "__eq__",
    r"seq \+ \w+": "__add__",
}
# Where code in a table may break: not before an end of a file's name.
BREAKS = re.compile(r"(?<=[(\[,=])(?![)\]=])|(?<=\w{4}\.)(?!\w{2,3}\b)|(?<=/)")
# Bare names that are too common to be taken for ours.
COMMON = {"append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "run"}
COMMON |= {"check", "dtype", "dtypes", "get", "items", "keys", "lengths", "names", "nbytes", "offsets"}
COMMON |= {"sampler", "shapes", "values"}

PYTORCH = "https://docs.pytorch.org/docs/stable/"
PYTORCH_PAGES = {  # of a module, all on one page
    "torch.utils.data": "data.html",
    "torch.nested": "nested.html",
    "torch.multiprocessing": "multiprocessing.html",
}
# Modules whose functions have a page each.
PYTORCH_MODULES = {"torch", "torch.Tensor", "torch.jit", "torch.nn.utils.rnn", "torch.nn.functional"}
PYTHON_MODULES = {"collections.abc", "concurrent.futures", "contextvars", "copy", "multiprocessing", "pickle"}
PYTHON = "https://docs.python.org/3/library/"
SHORT = {  # names that pages use without their module
    "DataLoader": "torch.utils.data.DataLoader",
    "StackDataset": "torch.utils.data.StackDataset",
    "TensorDataset": "torch.utils.data.TensorDataset",
    "pad_sequence": "torch.nn.utils.rnn.pad_sequence",
    "ThreadPoolExecutor": "concurrent.futures.ThreadPoolExecutor",
    "ProcessPoolExecutor": "concurrent.futures.ProcessPoolExecutor",
}


def setup(app):
    app.connect("doctree-resolved", link_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def link_code(app, doctree, docname):
    inventory = getattr(app.env, "intersphinx_inventory", {})
    for node in [*doctree.findall(nodes.literal)]:
        if has_link(node):
            continue
        text = node.astext()
        if target := of_seqcore(app.env, text):
            name, entry = target
            link = make_refnode(app.builder, docname, entry.docname, entry.node_id, node.deepcopy(), name)
        elif address := of_others(text, inventory):
            link = nodes.reference("", "", node.deepcopy(), internal=False, refuri=address)
        else:
            continue
        node.replace_self(link)
    for entry in doctree.findall(nodes.entry):
        for node in [*entry.findall(nodes.literal)]:
            let_break(node)


def let_break(node):
    """Let code in a table break behind brackets, commas, equals signs, slashes, and names."""
    parts = BREAKS.split(node.astext())
    node.clear()
    for part in filter(None, parts):
        node += nodes.Text(part)
        node += nodes.raw("", "<wbr>", format="html")


def has_link(node):
    """Return True inside links, headings and signatures."""
    while node := node.parent:
        if isinstance(node, nodes.reference | nodes.title | addnodes.desc_signature | addnodes.pending_xref):
            return True
    return False


def of_seqcore(env, text):
    objects = env.get_domain("py").objects
    for name in names_in(text):
        if name in objects:
            return name, objects[name]
    return None


def names_in(text):
    """Return the full names of seqcore that a piece of code may stand for."""
    for pattern, method in OPERATIONS.items():
        if re.fullmatch(pattern, text):
            return [f"seqcore.TensorSequence.{method}"]
    found = re.fullmatch(r"([A-Za-z_][\w.]*)(\(.*\))?", text, re.S)
    if not found:
        return []
    owner, _, name = found[1].rpartition(".")
    if owner in OBJECTS:
        return [f"{OBJECTS[owner]}.{name}"]
    if owner in MODULES:
        return [f"{MODULES[owner]}.{name}"]
    if owner or (name in COMMON and not found[2]):
        return []
    owners = [*dict.fromkeys(MODULES.values()), *dict.fromkeys(OBJECTS.values())]
    return [f"{owner}.{name}" for owner in owners]


# -- other projects -------------------------------------------------------------------------------------


def of_others(text, inventory):
    found = re.fullmatch(r"(?!seq\b)([A-Za-z_][\w.]*)(\(.*\))?", text, re.S)
    if not found:
        return None
    name = SHORT.get(found[1], found[1])
    name = re.sub(r"^np\.", "numpy.", name)
    name = re.sub(r"^pa\.", "pyarrow.", name)
    if "." in name:
        for kind, entries in inventory.items():
            if kind.startswith("py:") and name in entries:
                return entries[name].uri
    module, _, last = name.rpartition(".")
    for rule in (numpy_address, pytorch_address, python_address, arrow_address, awkward_address):
        if address := rule(name, module, last):
            return address
    return onnx_address(name)


def numpy_address(name, module, last):
    base = "https://numpy.org/doc/stable/reference/"
    if module == "numpy":
        found = getattr(np, last, None)
        if isinstance(found, type) and issubclass(found, np.generic):
            return f"{base}arrays.scalars.html#{name}"
        is_public = callable(found) and not inspect.ismodule(found)
        return f"{base}generated/{name}.html" if is_public else None
    if module == "numpy.ndarray" and hasattr(np.ndarray, last):
        return f"{base}generated/{name}.html"
    owner = getattr(np, module.removeprefix("numpy."), None) if module.startswith("numpy.") else None
    if isinstance(owner, np.ufunc) and hasattr(owner, last):
        return f"{base}generated/numpy.ufunc.{last}.html"
    return None


def pytorch_address(name, module, last):
    if module in PYTORCH_PAGES:
        return f"{PYTORCH}{PYTORCH_PAGES[module]}#{name}"
    if module == "torch.Tensor" or (module.partition(".")[0] == "torch" and last[:1].islower()):
        others = r"(b?float|complex|u?int)\d+|bool|long|nn|onnx|jit|nested|utils|distributed|multiprocessing"
        is_page = module in PYTORCH_MODULES and not re.fullmatch(others, last)
        return f"{PYTORCH}generated/{name}.html" if is_page else None
    return None


def python_address(name, module, last):
    if module in PYTHON_MODULES:
        return f"{PYTHON}{module}.html#{name}"
    return None


def arrow_address(name, module, last):
    is_page = module == "pyarrow" and last not in ("compute", "csv", "dataset", "feather", "ipc", "parquet")
    return f"https://arrow.apache.org/docs/python/generated/{name}.html" if is_page else None


def awkward_address(name, module, last):
    is_public = module == "ak" and last[:1].isalpha()
    return f"https://awkward-array.org/doc/main/reference/generated/{name}.html" if is_public else None


def onnx_address(name):
    if not re.fullmatch(r"[A-Z][A-Za-z]+", name):
        return None
    from onnx import defs

    return f"https://onnx.ai/onnx/operators/onnx__{name}.html" if defs.has(name) else None
