"""seqcore in other compiled extensions: `cimport seqcore` and `seqcore.h`, in extensions built here."""

import gc
import importlib.util
import re
import shutil
import sys
import sysconfig
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from support.extensions import build
from support.pages import ROOT, blocks_of, file_of
from support.races import together

import seqcore as sq

PAGE = ROOT / "docs" / "c-api.md"
SOURCES = Path(__file__).with_name("embedding")
PACKAGE = Path(sq.__file__).parent

pytestmark = [pytest.mark.slow, pytest.mark.thread_unsafe]


@pytest.fixture(scope="module")
def built(tmp_path_factory, kept_builds):
    """The folder of the extensions of docs/c-api.md and of the tests' own, built outside the tree."""
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools")
    compiler = (sysconfig.get_config_var("CC") or "cl").split()[0]
    if shutil.which(compiler) is None and sys.platform != "win32":
        pytest.skip(f"there is no C compiler: {compiler}")
    folder = tmp_path_factory.mktemp("embedding")
    for block in filter(file_of, blocks_of(PAGE)):
        (folder / file_of(block)).write_text(block.text, encoding="utf-8")
    build(folder, kept=kept_builds)
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    build(folder, "setup_tests.py", kept_builds)
    return folder


def load(folder, name):
    (file,) = (
        path
        for path in folder.iterdir()
        if path.name.startswith(f"{name}.") and path.suffix in (".so", ".pyd")
    )
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def events(built):
    return load(built, "events")


@pytest.fixture(scope="module")
def probe(built):
    return load(built, "probe")


@pytest.fixture
def rows():
    return sq.split_to_sequence(np.arange(12, dtype=np.float32).reshape(4, 3), keepdims=0)


# -- the example of the documentation ----------------------------------------------------------------


def test_a_loop_without_the_gil(events):
    array = np.random.default_rng(0).random((1000, 8), dtype=np.float32)
    for sequence in (
        sq.split_to_sequence(array),
        sq.split_to_sequence(array, keepdims=0),
        sq.split_to_sequence(array, axis=1, split=3),
        sq.split_to_sequence(array[::-2, ::3], [100, 0, 400]),
        sq.TensorSequence(dtype="float32"),
    ):
        expected = [element.sum(dtype=np.float64) for element in sequence]
        np.testing.assert_allclose(events.row_sums(sequence), expected)


def test_the_loop_ends_with_an_error_and_lets_go(events):
    array = np.ones((2, 2, 2), np.float32)
    alive = weakref.ref(array)
    sequence = sq.TensorSequence([np.ones(3, np.float32), array])
    with pytest.raises(ValueError, match="event 1 has a rank"):
        events.row_sums(sequence)
    with pytest.raises(TypeError, match="float32, not int64"):
        events.row_sums(sq.TensorSequence([[1]]))
    del array, sequence
    assert alive() is None


def test_c_memory_as_elements(events):
    ramps = events.ramps(4)
    assert ramps == sq.TensorSequence([np.arange(n, dtype=np.float32) for n in (1, 2, 3, 4)])
    assert events.drop_short(ramps, 3) == 2
    kept = ramps[-1]
    del ramps
    assert kept.tolist() == [0, 1, 2, 3]


def test_c(built, rows):
    events_c = load(built, "events_c")
    assert events_c.total(rows) == 66
    with pytest.raises(TypeError, match="events are float32"):
        events_c.total(sq.TensorSequence([[1]]))
    with pytest.raises(TypeError, match="expected a TensorSequence, got 7 of type int"):
        events_c.total(7)


def test_cpp(built):
    events_cpp = load(built, "events_cpp")
    sequence = sq.TensorSequence(dtype="float64")
    events_cpp.append_squares(sequence, 4)
    events_cpp.append_squares(sequence, 0)
    assert [element.tolist() for element in sequence] == [[0, 1, 4, 9], []]
    with pytest.raises(TypeError, match=r"expected a TensorSequence, got \[\] of type list"):
        events_cpp.append_squares([], 4)
    for dtype in ("float32", "string"):
        with pytest.raises(TypeError, match="a sequence of float64"):
            events_cpp.append_squares(sq.TensorSequence(dtype=dtype), 4)
    table = np.arange(6.0).reshape(3, 2)
    is_sequence, edited, rows, parts, joined = load(built, "tour").tour(table)
    assert is_sequence == 1
    assert [element.tolist() for element in edited] == [[0, 1]]
    assert rows.shapes == [(2,)] * 3
    assert parts.shapes == [(1, 2), (2, 2)]
    np.testing.assert_array_equal(joined, table)


# -- each function -----------------------------------------------------------------------------------


def test_making_and_asking(probe, rows):
    assert probe.is_sequence(rows)
    assert not probe.is_sequence([1])
    assert probe.new_sequence("string").dtype == object
    assert probe.type_num(rows) == np.dtype(np.float32).num
    assert probe.size(rows) == 4
    with pytest.raises(TypeError, match="datetime64"):
        probe.new_sequence("M8[s]")


def test_elements(probe, rows):
    new = np.float32([7])
    probe.insert(rows, -1, new)
    probe.append(rows, new)
    probe.replace(rows, 0, [8, 9])
    probe.erase(rows, 1)
    assert [element.tolist() for element in rows] == [[8, 9], [6, 7, 8], [7], [9, 10, 11], [7]]
    assert probe.at(rows, -2).tolist() == [9, 10, 11]
    assert not probe.at(rows, 0).flags.writeable


@pytest.mark.parametrize("name", ["at", "erase", "insert", "replace"])
def test_positions_outside(probe, rows, name):
    before = rows.copy()
    tensor = () if name in ("at", "erase") else ([1.0],)
    for position in (-5, 5, 4 if name != "insert" else 6, sys.maxsize, -sys.maxsize - 1):
        with pytest.raises(IndexError, match=f"position {position} is out of range for a sequence of 4"):
            getattr(probe, name)(rows, position, *tensor)
    assert rows == before


@pytest.mark.parametrize(
    ("name", "rest"),
    [("type_num", ()), ("size", ()), ("at", (0,)), ("insert", (0, 1)), ("append", (1,)), ("replace", (0, 1)),
     ("erase", (0,)), ("join", (0,)), ("insert_memory", (0, b"1", (1,), None, object())), ("Held", ())],
)  # fmt: skip
@pytest.mark.parametrize("wrong", [None, [np.zeros(2)], np.zeros(2), sq.TensorSequence])
def test_what_is_no_sequence(probe, name, rest, wrong):
    with pytest.raises(TypeError, match="expected a TensorSequence, got "):
        getattr(probe, name)(wrong, *rest)


@pytest.mark.parametrize("name", ["type_num", "size", "Held"])
def test_a_sequence_that_was_not_initialized(probe, name):
    with pytest.raises(TypeError, match="not initialized"):
        getattr(probe, name)(sq.TensorSequence.__new__(sq.TensorSequence))


def test_wrong_types_leave_all_as_it_was(probe, rows):
    before = rows.copy()
    for edit in (probe.append, lambda *args: probe.insert(args[0], 0, args[1]),
                 lambda *args: probe.replace(args[0], 0, args[1])):  # fmt: skip
        with pytest.raises(TypeError, match="int64"):
            edit(rows, np.arange(3))
    assert rows == before


def test_splits_and_joins(probe):
    array = np.arange(10).reshape(5, 2)
    assert probe.split(array, 0, 2) == sq.split_to_sequence(array, 2)
    assert probe.split(array, -1, 1, True) == sq.split_to_sequence(array, axis=1, keepdims=0)
    lengths = np.array([1, 0, 4], np.intp)
    parts = probe.split_lengths(array, 0, lengths)
    assert parts == sq.split_to_sequence(array, lengths)
    np.testing.assert_array_equal(probe.join(parts, 0), array)
    np.testing.assert_array_equal(probe.join(probe.split(array, 0, 1, True), 1, True), array.T)
    none = np.array([], np.intp)
    assert len(probe.split_lengths(array[:0], 0, none)) == 0


def test_splits_that_can_not_be(probe):
    array = np.arange(10).reshape(5, 2)
    lengths = np.array([1, 3], np.intp)
    with pytest.raises(ValueError, match="is 4, but axis 0 has length 5"):
        probe.split_lengths(array, 0, lengths)
    with pytest.raises(ValueError, match="axis 2 is out of range"):
        probe.split(array, 2, 1)
    with pytest.raises(ValueError, match="must be positive, got 0"):
        probe.split(array, 0, 0)
    with pytest.raises(ValueError, match="number of lengths is -1"):
        probe.split_lengths(array, 0, lengths, -1)
    with pytest.raises(ValueError, match="2 lengths"):
        probe.split_lengths(array, 0, np.array([], np.intp), 2)
    with pytest.raises(ValueError, match="empty"):
        probe.join(sq.TensorSequence(dtype="int8"), 0)


# -- memory of others --------------------------------------------------------------------------------


class Owner:
    """Who owns memory; it dies with the last one that may look at it."""

    def __init__(self, memory):
        self.memory = memory


def owned(*values, dtype=np.float32):
    memory = np.array(values, dtype)
    return memory.view(np.uint8), Owner(memory)


def test_memory_lives_as_long_as_elements_or_slots(probe, rows):
    memory, owner = owned(1, 2, 3, 4, 5, 6)
    alive = weakref.ref(owner)
    probe.insert_memory(rows, 0, memory, (2, 3), None, owner)
    del owner
    assert rows[0].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert rows[0].ctypes.data == memory.ctypes.data
    assert not rows[0].flags.writeable
    element, copied = rows[0], rows.copy()
    rows.erase(0)
    copied.clear()
    gc.collect()
    assert alive() is not None
    assert element.sum() == 21
    del element
    gc.collect()
    assert alive() is None


def test_memory_with_strides(probe, rows):
    memory, owner = owned(1, 2, 3, 4, 5, 6)
    probe.insert_memory(rows, -4, memory, (3, 2), (4, 12), owner)
    assert rows[0].tolist() == [[1, 4], [2, 5], [3, 6]]
    probe.insert_memory(rows, 0, memory, (), None, owner)
    assert rows[0].shape == ()
    assert rows[0] == 1
    probe.insert_memory(rows, 0, None, (2, 0), None, owner)
    assert rows[0].shape == (2, 0)
    assert rows.pinned_nbytes == 24 + 48


def test_memory_that_can_not_be_put_in(probe, rows):
    memory, owner = owned(1, 2)
    before = rows.copy()
    with pytest.raises(IndexError, match="position 5"):
        probe.insert_memory(rows, 5, memory, (2,), None, owner)
    with pytest.raises(ValueError, match="needs an owner"):
        probe.insert_memory(rows, 0, memory, (2,), None, None)
    with pytest.raises(ValueError, match="NULL"):
        probe.insert_memory(rows, 0, None, (2,), None, owner)
    with pytest.raises(ValueError, match="negative"):
        probe.insert_memory(rows, 0, memory, (-2,), None, owner)
    with pytest.raises(ValueError, match="64"):
        probe.insert_memory(rows, 0, memory, (), None, owner, 65)
    with pytest.raises(ValueError, match=r"too (big|large)"):
        probe.insert_memory(rows, 0, memory, (1 << 40, 1 << 40), None, owner)
    with pytest.raises(TypeError, match="strings"):
        probe.insert_memory(sq.TensorSequence(dtype=str), 0, memory, (1,), None, owner)
    assert rows == before
    alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is None


# -- snapshots ---------------------------------------------------------------------------------------


def test_views(probe):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2]
    rows = sq.split_to_sequence(array, [1, 3])
    rows.append(np.float32(5))
    held = probe.Held(rows)
    assert held.count() == 3
    assert held.view(1) == (2, array[1:].ctypes.data, (3, 3) + (-7,) * 6, (24, 8) + (-7,) * 6)
    assert held.view(1, room=1)[2:] == ((3,) + (-7,) * 7, (24,) + (-7,) * 7)
    assert held.view(1, room=0)[0] == held.view(1, room=-3)[0] == 2
    assert held.view(2)[0] == 0
    for outside in (-1, 3, sys.maxsize, -sys.maxsize - 1):
        assert held.view(outside) == (-1, 0, (-7,) * 8, (-7,) * 8)
    held.close()


def test_a_snapshot_does_not_change_and_holds_what_it_has(probe):
    array = np.arange(6, dtype=np.float32)
    alive = weakref.ref(array)
    sequence = sq.TensorSequence([array, array[:3]])
    held = probe.Held(sequence)
    before = [held.view(i) for i in range(2)]
    sequence.insert(0, np.float32([1]))
    sequence.erase(1)
    sequence.reverse()
    sequence.clear()
    del sequence, array
    assert held.count() == 2
    assert [held.view(i) for i in range(2)] == before
    assert alive() is not None
    held.close()
    assert alive() is None


def test_a_snapshot_is_read_while_others_edit(probe):
    array = np.random.default_rng(0).random((500, 3))
    sequence = sq.split_to_sequence(array, keepdims=0)
    held = probe.Held(sequence)
    expected = sum(element.ctypes.data for element in sequence) * 200 % (1 << 64)
    done, sums = threading.Event(), []

    def read():
        try:
            for _ in range(5):
                sums.append(held.addresses(200))
        finally:
            done.set()

    def edit():
        while not done.is_set():
            sequence.insert(len(sequence) // 2, array[0])
            sequence.erase(0)
            sequence.reverse()
            sequence.copy().clear()

    together(read, edit, edit)
    assert sums == [(expected, 200 * 500)] * 5
    held.close()
    assert len(sequence) == 500


# -- the interface -----------------------------------------------------------------------------------


def test_no_object_has_fields_in_the_interface():
    for name in ("__init__.pxd", "core/embedding.pxd"):
        text = (PACKAGE / name).read_text(encoding="utf-8")
        assert "cdef class" not in text
        assert "cimport numpy" not in text


def test_the_header_lists_the_same_functions():
    listed = (PACKAGE / "__init__.pxd").read_text(encoding="utf-8").partition("(\n")[2].partition(")")[0]
    names = [name.strip() for name in listed.split(",") if name.strip()]
    header = Path(sq.get_include(), "seqcore.h").read_text(encoding="utf-8")
    declared = {name for name in names if f"(*{name})(" in header}
    assert set(names) - declared == {"MAX_NDIM", "Snapshot"}
    assert header.count("(*") == len(declared)
    assert "int version;" in header.partition("struct seqcore_api {")[2].splitlines()[1]


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (99, "compiled for version 99 .* has version 1: install a newer seqcore"),
        (0, "compiled for version 0 .* runs extensions from version 1 on: compile the extension again"),
    ],
)
def test_a_c_extension_of_another_version_says_what_to_do(built, tmp_path, version, message):
    header = Path(sq.get_include(), "seqcore.h").read_text(encoding="utf-8")
    changed, n = re.subn(r"(?m)^(#define SEQCORE_API_VERSION) \d+", rf"\1 {version}", header)
    assert n == 1
    (tmp_path / "seqcore.h").write_text(changed, encoding="utf-8")
    shutil.copy(built / "events_c.c", tmp_path)
    extension = "Extension('events_c', ['events_c.c'], include_dirs=['.'])"
    setup = f"from setuptools import Extension, setup\nsetup(ext_modules=[{extension}])\n"
    (tmp_path / "setup.py").write_text(setup)
    build(tmp_path)
    with pytest.raises(ImportError, match=message):
        load(tmp_path, "events_c")


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("size(object sequence) except -1", "newer(object sequence) except -1", ImportError, "newer"),
        ("size(object sequence) except -1", "size(object sequence, int flags) except -1", TypeError, "size"),
    ],
    ids=["a function more", "a changed function"],
)
@pytest.mark.at_night
def test_a_cython_extension_of_another_version_names_the_function(built, tmp_path, old, new, error, message):
    for name in ("seqcore/__init__.pxd", "seqcore/core/embedding.pxd"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = (PACKAGE.parent / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace(old, new).replace(" size,", f" {new.partition('(')[0]},"))
    call = new.partition(")")[0].replace("object ", "").replace("int ", "").replace("flags", "0")
    (tmp_path / "other.pyx").write_text(f"cimport seqcore\ndef call(sequence):\n    return seqcore.{call})\n")
    for folder in ("seqcore", "seqcore/core"):
        (tmp_path / folder / "__init__.py").touch()
    setup = "from setuptools import setup\nfrom Cython.Build import cythonize\n"
    setup += "setup(py_modules=[], ext_modules=cythonize('other.pyx', include_path=['.']))\n"
    (tmp_path / "setup.py").write_text(setup)
    build(tmp_path)
    with pytest.raises(error, match=f"embedding.*{message}"):
        load(tmp_path, "other")


def test_the_gil_stays_off(built):
    if sys.version_info < (3, 13) or sysconfig.get_config_var("Py_GIL_DISABLED") != 1:
        pytest.skip("this Python has a GIL")
    for name in ("events", "probe", "events_c", "events_cpp", "tour"):
        load(built, name)
    assert not sys._is_gil_enabled()
