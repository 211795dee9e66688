"""The site: `python -m sphinx -W --keep-going -n -b html docs site`."""

import os
import sys
import tempfile
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from docutils import nodes
from sphinx.domains.python import PyXRefRole

import seqcore

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "seqcore"
author = "the authors of seqcore"
project_copyright = "the authors of seqcore, Apache-2.0"
version = release = seqcore.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "code_links",
    "drawn",
    "members",
    "stub_signatures",
]
exclude_patterns = ["_ext"]
autosummary_generate = False
myst_enable_extensions = ["attrs_block", "colon_fence"]
myst_heading_anchors = 3
default_role = "name_or_code"

html_theme = "furo"
pygments_dark_style = "monokai"
html_title = f"seqcore {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = html_copy_source = False
html_theme_options = {
    "source_repository": "https://github.com/seqcore/seqcore-tensors/",
    "source_branch": "main",
    "source_directory": "docs/",
    "light_css_variables": {"color-brand-primary": "#1f6f54", "color-brand-content": "#1f6f54"},
    "dark_css_variables": {"color-brand-primary": "#7fcfae", "color-brand-content": "#7fcfae"},
}

autodoc_member_order = "bysource"
autodoc_mock_imports = ["torch"]  # which the page of the collate functions would need
napoleon_google_docstring = False
napoleon_use_rtype = False
python_maximum_signature_line_length = 72  # longer ones have a line for each parameter

# -- links to other projects ---------------------------------------------------------------------------

# Inventories are loaded only with SEQCORE_DOCS_ONLINE=1, as on CI, and only from sites that answer, because
# the site has to build without a network. Links from inline code don't need them, see _ext/code_links.py.
INVENTORIES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "torch": "https://docs.pytorch.org/docs/stable/",
    "onnx": "https://onnx.ai/onnx/",
    "onnxruntime": "https://onnxruntime.ai/docs/api/python/",
    "pyarrow": "https://arrow.apache.org/docs/",
}


def load_inventories(folder):
    """Return intersphinx's mapping for the inventories that could be downloaded to a folder."""
    mapping = {}
    for name, address in INVENTORIES.items():
        file = Path(folder) / f"{name}.inv"
        try:
            with urlopen(f"{address}objects.inv", timeout=20) as answer:
                file.write_bytes(answer.read())
        except (URLError, TimeoutError) as error:
            print(f"no inventory of {name}: {error}")
        else:
            mapping[name] = (address, str(file))
    return mapping


intersphinx_mapping = {}
if os.environ.get("SEQCORE_DOCS_ONLINE", "0") not in ("", "0"):
    intersphinx_mapping = load_inventories(tempfile.mkdtemp())

# Types in docstrings are prose: "int, optional", "one of these, or a path". Classes of other projects have a
# page only in their inventories.
nitpick_ignore_regex = [
    ("py:class", r"(?!seqcore|TensorSequence|GraphBody|InferenceSession).*"),
    ("py:exc", r"onnx\..*"),
    # Types of a session's information, as onnxruntime's: they have names, and no page.
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


def setup(app):
    app.add_role("name_or_code", NameOrCode(innernodeclass=nodes.literal))
    app.connect("missing-reference", leave_as_code)
    return {"parallel_read_safe": True}
