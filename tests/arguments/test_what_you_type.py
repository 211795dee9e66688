"""Array-style calls and what stands for them, as the table in docs/errors.md shows; NumPy's functions."""

import re

import numpy as np
import pytest
from support.pages import ROOT

import seqcore as sq

TABLE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8").partition("\n## What you'd type\n")[2]
ROWS = [
    (typed, re.findall(r"`([^`]+)`", way))
    for typed, way in re.findall(r"^\| `([^`]+)` \| (`.+?`) \|", TABLE.partition("\n## ")[0], re.M)
]

# What the way gives, written with lists of arrays. What it changes is the sequence itself.
PLAIN = {
    "sq.TensorSequence([[1, 2], [3]])": "[np.array([1, 2]), np.array([3])]",
    "seq.shapes": "[a.shape for a in arrays]",
    "seq.lengths()": "[len(a) for a in arrays]",
    "sq.sequence_map(f, seq)": "[f(a) for a in arrays]",
    "seq[[f(a) for a in seq]]": "[a for a in arrays if f(a)]",
    "seq[np.argsort(seq.lengths())]": "sorted(arrays, key=len)",
    "seq[rng.permutation(len(seq))]": "[arrays[i] for i in np.random.default_rng(0).permutation(3)]",
    "np.sum(seq.values())": "np.sum(np.concatenate(arrays))",
    "seq.reduce(np.sum, axis=None)": "np.array([np.sum(a) for a in arrays])",
    "sq.sequence_map(np.multiply, seq, np.float32(2))": "[a * 2 for a in arrays]",
    "sq.sequence_map(np.add, seq, array)": "[a + array for a in arrays]",
    "seq.append(array)": "[*arrays, array]",
    "sq.sequence_map(np.greater, seq, np.float32(0.5))": "[a > 0.5 for a in arrays]",
    "for i, a in enumerate(seq): seq[i] = a * 2": "[a * 2 for a in arrays]",
    "sq.concat_from_sequence(seq, 0)": "np.concatenate(arrays)",
    "seq.to_padded()": "padded(arrays)",
    "torch.from_numpy(seq.to_padded())": "padded(arrays)",
}

# Errors of Python, NumPy or PyTorch.
PYTHON_SAYS = r"has no attribute|unsupported operand|not supported between"
OTHERS_SAY = {
    "for a in seq: a *= 2": "read-only",
    "torch.stack(list(seq))": "expected Tensor",
}


def names_for(code):
    rng = np.random.default_rng(7)
    arrays = [rng.random((n, 2), dtype=np.float32) for n in (3, 1, 2)]
    names = {
        "np": np,
        "sq": sq,
        "arrays": arrays,
        "seq": sq.TensorSequence(arrays),
        "array": np.array([1, 2], np.float32),
        "f": lambda a: a[0, 0] > 0.5,
        "rng": np.random.default_rng(0),
        "padded": padded,
    }
    if "torch" in code:
        names["torch"] = pytest.importorskip("torch")
    return names


def padded(arrays):
    longest = max(map(len, arrays))
    return np.stack([np.pad(a, [(0, longest - len(a)), (0, 0)]) for a in arrays])


def run(code, names):
    """Return what an expression gives; a statement, and what returns nothing, gives the sequence."""
    try:
        compiled = compile(code, "table", "eval")
    except SyntaxError:
        exec(code, names)
        return names["seq"]
    result = eval(compiled, names)
    return names["seq"] if result is None else result


def signs_of(way):
    """What a message says that leads this way: the code, a function or method, or that masks select."""
    signs = {way, *re.findall(r"\bsq\.(\w+)", way), *re.findall(r"\bseq\.\w+", way)}
    return signs | {"seq[mask]"} if way.startswith("seq[[") else signs


def assert_same(result, plain):
    if isinstance(plain, list) and isinstance(result, sq.TensorSequence):
        assert result == sq.TensorSequence(plain)
    elif isinstance(plain, list):
        assert (result.tolist() if isinstance(result, np.ndarray) else result) == plain
    else:
        np.testing.assert_array_equal(result, plain, strict=True)


def test_the_table_is_found():
    assert len(ROWS) > 15
    assert {way for _, ways in ROWS for way in ways} == PLAIN.keys()
    assert OTHERS_SAY.keys() <= {typed for typed, _ in ROWS}


@pytest.mark.parametrize(("typed", "ways"), ROWS, ids=[f"{typed} -> {ways[0]}" for typed, ways in ROWS])
def test_row(typed, ways):
    for way in ways:
        names = names_for(way)
        assert_same(run(way, names), eval(PLAIN[way], names))
    names = names_for(typed)
    before = names["seq"].copy()
    if typed == ways[0]:
        return
    with pytest.raises((AttributeError, TypeError, ValueError)) as raised:
        run(typed, names)
    message = str(raised.value)
    leads = any(sign in message for way in ways for sign in signs_of(way))
    assert leads or OTHERS_SAY.get(typed, "no words of others") in message or re.search(PYTHON_SAYS, message)
    assert names["seq"] == before


class TestFunctionsOfNumPy:
    """Whether the elements could be stacked or not, which a function would do without a word."""

    FUNCTIONS = (
        *(
            "sum",
            "prod",
            "mean",
            "std",
            "var",
            "max",
            "min",
            "all",
            "any",
            "argmax",
            "argmin",
            "ptp",
            "median",
        ),
        *("cumsum", "cumprod", "sort", "argsort", "round", "diff", "flip", "ravel", "transpose"),
        *("count_nonzero", "unique", "median", "linalg.norm", "fft.fft", "nan_to_num"),
    )

    @pytest.mark.parametrize("name", FUNCTIONS)
    @pytest.mark.parametrize("second", [[3, 4], [3]])
    def test_refuse_a_sequence(self, name, second):
        function = eval(f"np.{name}")
        seq = sq.TensorSequence([[1, 2], second])
        with pytest.raises(TypeError, match=rf"np\.{name} takes arrays, got a TensorSequence") as caught:
            function(seq)
        for way in (f"sequence_map(np.{name}, seq)", f"np.{name}(seq.values())", "np.asarray(seq)"):
            assert way in str(caught.value)

    @pytest.mark.parametrize(
        ("call", "way"),
        [
            (lambda seq: np.array_equal(seq, seq), "seq == other"),
            (lambda seq: np.array_equiv(seq, seq), "seq == other"),
            (lambda seq: np.append(seq, [5]), r"seq \+ \[tensor\]"),
            (lambda seq: np.copy(seq), r"seq\.copy\(\)"),
            (lambda seq: np.delete(seq, 0), r"del seq\[position\]"),
            (lambda seq: np.insert(seq, 0, [5]), r"seq\.insert\(position, tensor\)"),
            (lambda seq: np.pad(seq, 1), r"seq\.to_padded\(\)"),
            (lambda seq: np.take(seq, [0]), r"seq\[indices\]"),
        ],
    )
    def test_name_what_does_the_same(self, call, way):
        with pytest.raises(TypeError, match=f"takes arrays, got a TensorSequence: use {way}"):
            call(sq.TensorSequence([[1, 2], [3]]))

    def test_refuse_one_among_arrays(self):
        seq = sq.TensorSequence([[1, 2], [3, 4]])
        for call in (lambda: np.dot(np.eye(2), seq), lambda: np.where([True, False], seq, 0)):
            with pytest.raises(TypeError, match="got a TensorSequence"):
                call()

    @pytest.mark.parametrize("function", [np.shape, np.ndim, np.size])
    def test_shapes(self, function):
        with pytest.raises(TypeError, match=r"seq\.shapes"):
            function(sq.TensorSequence([[1, 2], [3, 4]]))

    def test_take_elements_one_by_one_as_of_a_list(self):
        arrays = [np.array([1, 2]), np.array([3])]
        np.testing.assert_array_equal(np.concatenate(sq.TensorSequence(arrays)), [1, 2, 3], strict=True)
        assert np.stack(sq.TensorSequence([arrays[0]] * 2)).tolist() == [[1, 2], [1, 2]]
        with pytest.raises(ValueError, match="same shape"):
            np.stack(sq.TensorSequence(arrays))

    def test_save_writes_elements_of_one_shape(self, tmp_path):
        seq = sq.TensorSequence([[1, 2], [3, 4]])
        for i, save in enumerate((lambda p: np.save(p, seq), lambda p: np.save(arr=seq, file=p))):
            save(tmp_path / f"{i}.npy")
            assert np.load(tmp_path / f"{i}.npy").tolist() == [[1, 2], [3, 4]]

    def test_of_a_subclass(self):
        class Clips(sq.TensorSequence):
            pass

        with pytest.raises(TypeError, match=r"np\.mean takes arrays"):
            np.mean(Clips([[1, 2], [3, 4]]))
