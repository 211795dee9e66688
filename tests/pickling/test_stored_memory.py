"""Sequences over files of any kind pickle as places in them, whoever wrote and mapped them."""

import gc
import os
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqcore.core.pickling import Found
from support.random_cases import examples
from support.saved import pa, touched, write_column
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence, split_to_sequence
from seqcore._files import paths

LENGTHS = [3, 0, 5, 1, 0, 0, 7, 4, 2, 8]
VALUES = np.arange(30, dtype=np.int32) * 7
ROWS = np.split(VALUES, np.cumsum(LENGTHS)[:-1])
SMALL = 2_500


def raw(folder, **options):
    path = folder / "raw.bin"
    if not path.exists():
        path.write_bytes(b"header.." + VALUES.tobytes())
    return np.memmap(path, np.int32, offset=8, **{"mode": "r"} | options)


def npy(folder, order="C"):
    path = folder / f"array-{order}.npy"
    if not path.exists():
        np.save(path, np.asarray(VALUES.reshape(5, 6), order=order))
    return np.load(path, mmap_mode="r")


def arrow(folder, parts=1, compression=None, column=None):
    path = folder / f"{parts}-{compression}.arrow"
    seq = TensorSequence(ROWS) if column is None else column
    if compression is None:
        sq.save(path, iter(seq[i::parts] for i in range(parts)) if parts > 1 else seq)
    else:
        write_column(path, pa.array(seq), compression=compression)
    return sq.load(path)


def megatron(folder):
    sq.save(folder / "corpus.idx", TensorSequence(ROWS))
    return sq.load(folder / "corpus.idx")


def list_views(folder):
    array = pa.ListViewArray.from_arrays([8, 0, 3, 3], [4, 3, 0, 5], pa.array(VALUES))
    return sq.load(write_column(folder / "views.arrow", array))


# Each makes a sequence of a file in a folder.
KINDS = {
    "offsets over memmap": lambda f: TensorSequence.from_lengths(raw(f), LENGTHS),
    "split of memmap": lambda f: split_to_sequence(raw(f)[3:-2], 4),
    "backwards": lambda f: split_to_sequence(raw(f)[::-2], 4),
    "put in": lambda f: TensorSequence([raw(f)[i : i + i % 4] for i in range(15)] + [npy(f)[2:4].T]),
    "put in, of one shape": lambda f: TensorSequence([row[1:5] for row in npy(f)]),
    "mapped array": lambda f: split_to_sequence(npy(f), [2, 0, 3]),
    "columns": lambda f: split_to_sequence(npy(f), axis=1, keepdims=0),
    "in Fortran's order": lambda f: split_to_sequence(npy(f, "F"), [2, 3]),
    "plain view": lambda f: split_to_sequence(np.asarray(npy(f)).view(np.ndarray)[1:], 2),
    "padded": lambda f: TensorSequence.from_padded(npy(f), [6, 0, 3, 2, 6]),
    "padded on the left": lambda f: TensorSequence.from_padded(npy(f), [6, 0, 3, 2, 6], side="left"),
    "numbers": lambda f: split_to_sequence(raw(f), keepdims=0),
    "arrow": arrow,
    "arrow of parts": lambda f: arrow(f, 3),
    "of shapes": lambda f: arrow(
        f, column=TensorSequence([VALUES[:6].reshape(2, 3), VALUES[6:10].reshape(4, 1)])
    ),
    "list views": list_views,
    "compressed": lambda f: arrow(f, compression="zstd"),
    "megatron": megatron,
}


def some(seq, draw):
    """A sequence of some of the elements, as users make them."""
    way = draw(
        st.sampled_from(["all", "slice", "backwards", "select", "windows", "truncate", "edit", "again"])
    )
    if way == "slice":
        return seq[draw(st.integers(0, len(seq))) :: draw(st.integers(1, 3))]
    if way == "backwards":
        return seq[::-1]
    if way == "select":
        return seq[draw(st.lists(st.integers(0, len(seq) - 1), max_size=9))] if len(seq) else seq
    if way in ("windows", "truncate") and all(len(shape) for shape in seq.shapes):
        size = draw(st.integers(1, 4))
        return (
            seq.windows(size, draw(st.integers(1, 4)))
            if way == "windows"
            else seq.truncate(size, side="left")
        )
    if way == "edit" and len(seq):
        own = seq[:]
        del own[draw(st.integers(0, len(own) - 1))]
        own.insert(0, seq[draw(st.integers(0, len(seq) - 1))])
        return own
    return pickle.loads(pickle.dumps(seq)) if way == "again" else seq


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return {name: kind(tmp_path_factory.mktemp("files")) for name, kind in KINDS.items()}


@settings(max_examples=examples(200))
@given(data=st.data())
def test_mixtures_of_files_are_places(made, data):
    names = data.draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3))
    seq, model = TensorSequence(dtype="int32"), []
    decoded = False
    for name in names:
        part = made[name]
        decoded |= name in ("list views", "compressed")
        for _ in range(data.draw(st.integers(0, 2))):
            part = some(part, data.draw)
        seq += part
        model += [np.array(element) for element in part]
    sent = pickle.dumps(seq, protocol=data.draw(st.integers(2, 5)))
    back = pickle.loads(sent)
    back._check()
    assert back.dtype == np.int32
    assert_holds(back, model)
    if not decoded:  # elements of a decoded column, or views of them, may be put in
        assert_no_data(seq)
    again = pickle.loads(pickle.dumps(back[::-1]))
    assert_holds(again, model[::-1])


def assert_no_data(seq):
    """Nothing in a pickle has the values: only places, columns, and numbers of elements."""
    _, (_, _, parts, _), *_ = seq.__reduce__()
    for kind, place, *_ in parts:
        assert kind == "file" or type(place) is tuple or place.size == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_file_is_named(tmp_path, kind):
    seq = KINDS[kind](tmp_path)
    expected = [np.array(element) for element in seq]
    sent = pickle.dumps(seq)
    files = sorted(tmp_path.iterdir())
    found = Found(seq)
    mapped_by_caller = any(isinstance(found.file(i), paths.FileOfCaller) for i in range(len(found)))
    assert_no_data(seq)
    for path in files:
        given, time = path.read_bytes(), path.stat().st_mtime_ns

        def put_back(path=path, given=given, time=time):
            if path.is_dir():
                path.rmdir()
            path.unlink(missing_ok=True)
            path.write_bytes(given)
            touched(path, time)

        for change in ("removed", "replaced", "a folder", "shorter", "longer", "later"):
            if change != "later":
                path.unlink()  # because a mapped file that gets shorter ends the process
            if change == "replaced":
                path.write_bytes(given[::-1])
            elif change == "a folder":
                path.mkdir()
            elif change in ("shorter", "longer"):
                path.write_bytes(given[:-4] if change == "shorter" else given + b"\0")
                touched(path, time)
            elif change == "later":
                touched(path, time + 1)
            error, match = (FileNotFoundError, "") if change == "removed" else (ValueError, "has changed")
            is_data = change == "removed" and mapped_by_caller  # from then on
            for data in [sent] if is_data else [sent, pickle.dumps(seq)]:
                with pytest.raises(error, match=f"{path.name}.*{match}") as caught:
                    pickle.loads(data)
                assert any("copy.deepcopy" in note for note in caught.value.__notes__)
            put_back()
    assert_holds(pickle.loads(sent), expected)


def test_a_file_that_is_replaced_before_the_pickle_is_an_error(tmp_path):
    """Its size and time are taken when the array is put in."""
    seq = TensorSequence.from_lengths(raw(tmp_path), LENGTHS)
    os.replace(tmp_path / "raw.bin", tmp_path / "other")
    (tmp_path / "raw.bin").write_bytes(bytes(128))
    with pytest.raises(ValueError, match=r"raw\.bin has changed"):
        pickle.loads(pickle.dumps(seq))


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells which file is mapped")
def test_a_file_that_is_replaced_before_the_sequence_is_data(tmp_path):
    array = npy(tmp_path)
    expected = split_to_sequence(np.array(array), 2)
    np.save(tmp_path / "other.npy", np.array(array) + 1)
    os.replace(tmp_path / "other.npy", tmp_path / "array-C.npy")
    assert pickle.loads(pickle.dumps(split_to_sequence(array, 2))) == expected


def written(array):
    array[0] = 5
    return array


AS_DATA = {
    "a private mapping": lambda f: split_to_sequence(written(raw(f, mode="c")), 3),
    "a shared mapping": lambda f: split_to_sequence(written(raw(f, mode="r+")), 3),
    "memory and files": lambda f: TensorSequence.from_lengths(raw(f), LENGTHS) + TensorSequence(ROWS[:2]),
}


@pytest.mark.parametrize("make", AS_DATA.values(), ids=AS_DATA)
def test_what_may_be_written_or_is_in_no_file_is_data(tmp_path, make):
    seq = make(tmp_path)
    sent = pickle.dumps(seq)
    os.remove(tmp_path / "raw.bin")
    assert pickle.loads(sent) == seq


def test_a_file_that_is_gone_is_data(tmp_path):
    array = raw(tmp_path)
    os.remove(tmp_path / "raw.bin")
    seq = TensorSequence.from_lengths(array, LENGTHS)
    assert pickle.loads(pickle.dumps(seq)) == seq


@pytest.mark.parametrize("is_removed", [True, False])
def test_temporary_files_are_data(tmp_path, is_removed):
    """joblib removes its files after the call; others may do so before the sequence is pickled."""
    folder = tmp_path / ("own" if is_removed else "joblib_memmapping_folder_1_a_b")
    folder.mkdir()
    seq = TensorSequence.from_lengths(raw(folder), LENGTHS)
    sent = None if is_removed else pickle.dumps(seq)
    os.remove(folder / "raw.bin")
    assert_holds(pickle.loads(sent or pickle.dumps(seq[::2])), ROWS[::2] if is_removed else ROWS)


def test_numbers_take_few_bytes(tmp_path):
    n = 100_000
    path = tmp_path / "tokens.npy"
    np.save(path, np.arange(n * 9, dtype=np.uint16))
    tokens = np.load(path, mmap_mode="r")
    assert len(pickle.dumps(split_to_sequence(tokens, 9))) < 1000
    assert len(pickle.dumps(TensorSequence.from_lengths(tokens, [9] * n))) < n + SMALL
    assert (
        len(pickle.dumps(TensorSequence([tokens[i : i + 5] for i in range(0, 9 * n, 90)]))) < n // 2 + SMALL
    )
    for seq in (sq.split_to_sequence(tokens, 9).windows(4), split_to_sequence(tokens, 9).truncate(4)):
        assert len(pickle.dumps(seq)) < 5 * len(seq) + SMALL


def test_a_mapping_of_a_caller_is_not_kept(tmp_path):
    array = raw(tmp_path)
    seq = split_to_sequence(array, 3)
    number = id(array.base)
    assert number in paths._OF_CALLERS
    del array, seq
    gc.collect()
    assert number not in paths._OF_CALLERS
