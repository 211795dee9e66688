"""The site: `python -m sphinx -W --keep-going -n -b html docs site`."""

import ast
from pathlib import Path

from docutils import nodes
from sphinx.domains.python import PyXRefRole

import seqcore

project = "seqcore"
author = "the authors of seqcore"
project_copyright = "the authors of seqcore, Apache-2.0"
version = release = seqcore.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
default_role = "name_or_code"

html_theme = "furo"
pygments_dark_style = "monokai"
html_title = f"seqcore {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f6f54", "color-brand-content": "#1f6f54"},
    "dark_css_variables": {"color-brand-primary": "#7fcfae", "color-brand-content": "#7fcfae"},
}

autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
python_maximum_signature_line_length = 72  # longer ones have a line for each parameter

# The types in the docstrings are prose: "int, optional", "one of these, or a path". What of it is no class
# of this project has no page here, and the pages of others are not asked for, since that needs the network.
nitpick_ignore_regex = [
    ("py:class", r"(?!seqcore|TensorSequence|GraphBody|InferenceSession).*"),
    ("py:exc", r"onnx\..*"),
    # Types of what a session says of itself, as onnxruntime's: they have names, and no page.
    ("py:class", r"seqcore\.onnx\._.*|seqcore\.onnx\.session\.ModelMetadata"),
]


# -- `name` in a docstring: a link where the name is documented, else code -----------------------------


class NameOrCode(PyXRefRole):
    def result_nodes(self, document, env, node, is_ref):
        node.update_all_atts({"refdomain": "py", "reftype": "obj", "may_be_code": True}, replace=True)
        if node["reftarget"][:1].isupper():  # a class, of whatever module
            node["refspecific"] = True
        return [node], []


def leave_as_code(app, env, node, contnode):
    return contnode if node.get("may_be_code") else None


# -- signatures of compiled methods, which have none: those of the stub ----------------------------------


def stub_signatures():
    tree = ast.parse((Path(seqcore.__file__).parent / "core" / "sequence.pyi").read_text(encoding="utf-8"))
    (methods,) = (one.body for one in tree.body if getattr(one, "name", "") == "TensorSequence")
    found = {}
    for method in methods:
        if isinstance(method, ast.FunctionDef):
            given = method.args
            given.args = given.args[1:]
            for one in (*given.args, *given.kwonlyargs):
                one.annotation = None
            # Of several overloads the one that tells most defaults: users read them as one.
            ndefaults = sum(one is not None for one in (*given.defaults, *given.kw_defaults))
            if ndefaults >= found.get(method.name, (0, ""))[0]:
                found[method.name] = ndefaults, f"({ast.unparse(given)})"
    return {name: text for name, (_, text) in found.items()}


SIGNATURES = stub_signatures() | {"__init__": "(tensors=(), dtype=None, *, copy=False)"}


def signature_of(app, what, name, obj, options, signature, returns):
    owner, _, method = name.removeprefix("seqcore.").partition(".")
    if owner == "TensorSequence" and what in ("class", "method"):
        return SIGNATURES[method or "__init__"], None
    return None


def setup(app):
    app.add_role("name_or_code", NameOrCode(innernodeclass=nodes.literal))
    app.connect("missing-reference", leave_as_code)
    app.connect("autodoc-process-signature", signature_of)
    return {"parallel_read_safe": True}
