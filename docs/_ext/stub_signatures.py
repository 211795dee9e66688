"""Give the reference signatures with types, from the sources, with the names that NumPy's documentation uses.

A compiled method has no annotations, and a stub has several overloads with type variables. Here the overloads
of a function become one signature, and the aliases of the stubs become NumPy's and Python's names.
"""

import ast
from pathlib import Path

from sphinx.pycode import ModuleAnalyzer

import seqcore

READABLE = {  # aliases of seqcore/_typing.pyi and of single stubs
    "DTypeName": "DTypeLike",
    "DTypeOf": "DTypeLike",
    "Extents": "int | Sequence[int | None] | None",
    "Integers": "Sequence[int] | ndarray",
    "NDArray": "ndarray",
    "Output": "ArrayLike",
    "Path": "str | PathLike",
    "PlainTensors": "Sequence[ArrayLike]",
    "Position": "int",
    "Progress": "bool | Callable[[int, int], object] | None",
    "Selection": "list | range | ndarray",
    "Self": "TensorSequence",
    "Side": "Literal['left', 'right']",
    "Source": "bytes | str | PathLike",
    "SupportsArray": "ArrayLike",
    "SupportsIndex": "int",
    "Split": "int | Sequence[int] | ndarray",
    "T": "Any",
    "TensorOf": "ArrayLike",
    "Tensors": "Sequence[ArrayLike]",
    "Typed": "Sequence[ArrayLike]",
    "Workers": "Executor | Client",
    "integer": "int",
    "_DTypes": "Sequence[DTypeLike]",
    "_Graph": "GraphProto | ModelProto | GraphBody | str | PathLike",
    "_Path": "str | PathLike",
    "_OneOrSeveral": "TensorSequence | tuple[TensorSequence, ...]",
}


# The constructor's overloads have `dtype` in several places.
CONSTRUCTOR = "(tensors: Iterable[ArrayLike] = (), dtype: DTypeLike | None = None, *, copy: bool = False)"


def alternatives(annotation):
    """Return the alternatives of an annotation as texts, each once, in their order."""
    if isinstance(annotation, ast.BinOp):
        found = alternatives(annotation.left) + alternatives(annotation.right)
    elif isinstance(annotation, ast.Constant) and annotation.value is None:
        return ["None"]
    else:
        found = one_alternative(annotation)
    return [*dict.fromkeys(found)]


def one_alternative(annotation):
    name, arguments = annotation, []
    if isinstance(annotation, ast.Subscript):
        name = annotation.value
        inner = annotation.slice
        arguments = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    text = ast.unparse(name).rpartition(".")[2]
    if text == "TensorSequence":
        return [text]
    if text in READABLE:
        return [part.strip() for part in split_union(READABLE[text])]
    if text == "Literal":
        if all(isinstance(one.value, bool) for one in arguments):
            return ["bool"]
        if [one.value for one in arguments] in (["int64"], ["float32"]):
            return ["DTypeLike"]
    if text == "Callable":
        return ["Callable"]
    if text == "tuple" and arguments:
        inner = dict.fromkeys(
            one for argument in arguments if not is_ellipsis(argument) for one in alternatives(argument)
        )
        if [*inner] == ["Any"]:
            return ["tuple"]
        if [*inner] in (["TensorSequence"], ["DTypeLike"]):  # of as many outputs as a body has
            return [f"tuple[{next(iter(inner))}, ...]"]
        if is_ellipsis(arguments[-1]):
            return [f"tuple[{' | '.join(inner)}, ...]"]
        return [f"tuple[{', '.join(' | '.join(alternatives(argument)) for argument in arguments)}]"]
    if not arguments or all(ast.unparse(one) in ("Any", "T") for one in arguments):
        return [text]
    inner = [
        "..." if is_ellipsis(one) else " | ".join(alternatives(one))
        for one in arguments
        if not isinstance(one, ast.List)
    ]
    return [f"{text}[{', '.join(inner)}]"]


def is_ellipsis(node):
    return isinstance(node, ast.Constant) and node.value is ...


def split_union(text):
    return [ast.unparse(one) for one in flattened(ast.parse(text, mode="eval").body)]


def flattened(node):
    if isinstance(node, ast.BinOp):
        return flattened(node.left) + flattened(node.right)
    return [node]


def merged(annotations):
    """Return one annotation for those of several overloads, None last."""
    found = [*dict.fromkeys(one for annotation in annotations for one in alternatives(annotation))]
    if {*found} - {"Any", "None"} and "Any" in found:
        found.remove("Any")
    for single, several in (("TensorSequence", "tuple[TensorSequence, ...]"),):
        if several in found and single in found:
            found = [single, several]
    if "None" in found:
        found.remove("None")
        found.append("None")
    return " | ".join(found)


def merged_signature(overloads, is_method):
    """Return the signature of a function, `(…)` and what it returns, from all of its overloads."""

    def defaults(function):
        return sum(one is not None for one in (*function.args.defaults, *function.args.kw_defaults))

    # The overload with most defaults has the parameters as they are at run time, except that one with
    # `*args` is more general than one without.
    shown = max(overloads, key=lambda one: (one.args.vararg is not None, defaults(one)))
    types = {}
    for function in overloads:
        for one in every_argument(function.args):
            if one.annotation is not None:
                types.setdefault(one.arg, []).append(one.annotation)
    arguments = shown.args
    if is_method:
        (arguments.posonlyargs or arguments.args).pop(0)
    for one in every_argument(arguments):
        if one.arg in types:
            one.annotation = ast.parse(merged(types[one.arg]), mode="eval").body
    returns = merged([one.returns for one in overloads if one.returns is not None])
    return f"({ast.unparse(arguments)})", returns if returns != "None" else None


def every_argument(arguments):
    positional = [*arguments.posonlyargs, *arguments.args, arguments.vararg]
    return [one for one in (*positional, *arguments.kwonlyargs, arguments.kwarg) if one is not None]


def functions(body):
    """Return {name: its overloads, or the one function}."""
    found = {}
    for one in body:
        if isinstance(one, ast.FunctionDef):
            found.setdefault(one.name, []).append(one)
    for name, several in found.items():
        overloads = [one for one in several if any("overload" in ast.unparse(d) for d in one.decorator_list)]
        found[name] = overloads or several
    return found


def signatures():
    """Return {name: (signature, return type)} of public functions and of the methods of TensorSequence."""
    found = {}
    folder = Path(seqcore.__file__).parent
    for path in sorted([*folder.glob("*.py"), *folder.rglob("*.pyi")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, overloads in functions(tree.body).items():
            if name in seqcore.__all__ and path.name != "__init__.py":
                found[name] = merged_signature(overloads, False)
        for one in tree.body:
            if isinstance(one, ast.ClassDef) and one.name in seqcore.__all__:
                for name, overloads in functions(one.body).items():
                    is_static = any("staticmethod" in ast.unparse(d) for d in overloads[0].decorator_list)
                    found[f"{one.name}.{name}"] = merged_signature(overloads, not is_static)
    return found | {"TensorSequence.__init__": (CONSTRUCTOR, None)}


def readable(given, returns):
    """Return a signature that autodoc has made, with the readable names."""
    # A "~" tells Sphinx to show a short name.
    (function,) = ast.parse(f"def f{given} -> {returns or 'None'}: ...".replace("~", "")).body
    return merged_signature([function], False)


def setup(app):
    found = signatures()
    # Where a Python module has overloads, autodoc shows all of them. The page has one signature instead.
    for module in ("seqcore.dtypes", "seqcore.operators", "seqcore.onnx.protos"):
        analyzer = ModuleAnalyzer.for_module(module)
        analyzer.analyze()
        analyzer.overloads.clear()

    def of_object(app, what, name, obj, options, given, returns):
        if what in ("property", "attribute"):
            return None
        short = name.removeprefix("seqcore.").removeprefix("core.sequence.")
        if what == "class":
            if f"{short}.__init__" in found:
                return found[f"{short}.__init__"][0], None
        elif short in found:
            return found[short]
        if given:
            try:
                text, shown = readable(given, returns)
            except SyntaxError:  # a default that isn't an expression, such as <object object>
                return None
            return text, None if what == "class" else shown
        return None

    app.connect("autodoc-process-signature", of_object)
    return {"parallel_read_safe": True}
