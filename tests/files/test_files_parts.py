"""How what is saved is cut into parts and batches."""

import errno
import os
import pickle

import numpy as np
import pytest
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence

pa = pytest.importorskip("pyarrow")

from seqcore._files import parts  # noqa: E402

RAGGED = TensorSequence.from_lengths(np.arange(1_000, dtype=np.int32), [*range(40), 220])


def many_batches(path):
    with pa.OSFile(os.fspath(path)) as file:
        return pa.ipc.open_file(file).num_record_batches


@pytest.mark.parametrize(
    "seq",
    [
        RAGGED,
        RAGGED[::-1],
        RAGGED[5:30],
        sq.split_to_sequence(np.arange(600.0).reshape(300, 2), keepdims=0),
        TensorSequence(list(range(300))),
        TensorSequence([np.ones((k % 3 + 1, k % 4 + 1)) * k for k in range(60)]),
        TensorSequence([[True, False], [True]] * 180),
        TensorSequence([["to", "be"], ["or"]] * 180),
    ],
    ids=["lists", "backwards", "slice", "rows", "scalars", "tensors", "bools", "strings"],
)
def test_what_is_large_goes_in_batches(path, seq, monkeypatch):
    monkeypatch.setattr(parts, "_BATCH", 300)
    monkeypatch.setattr(parts, "_COPIED", 200)
    sq.save(path, seq)
    assert many_batches(path) > 1
    loaded = sq.load(path)
    assert_holds(loaded, [np.array(one) for one in seq])
    some = np.random.default_rng(0).permutation(len(seq))
    assert pickle.loads(pickle.dumps(loaded[some])) == seq[some]


def test_a_generator_may_fill_one_array_again_and_again(path):
    def frames():
        frame = np.empty(3)
        for i in range(4):
            frame[:] = i
            yield frame

    sq.save(path, frames())
    assert sq.load(path).tolist() == [[i] * 3 for i in range(4)]


def test_the_element_with_a_null_is_counted_over_batches(path):
    batch = pa.record_batch([pa.array([[1], [2]])], ["a"])
    with pa.OSFile(os.fspath(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(pa.record_batch([pa.array([[3], [None]])], ["a"]))
    with pytest.raises(TypeError, match=r"element 3 has nulls.*values\.fill_null\(0\)\)"):
        sq.load(path)


@pytest.mark.parametrize("made", [pa.array([[1]]), pa.chunked_array([[1]]), pa.table({"a": [[1]], "b": [1]})])
def test_arrays_of_arrow_are_to_be_taken_first(path, made):
    call = "Columns" if isinstance(made, pa.Table) else "TensorSequence"
    with pytest.raises(TypeError, match=rf"{call}\.from_arrow"):
        sq.save(path, made)
    assert not path.exists()


class Unreadable:
    def __array__(self, *args, **kwargs):
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


def test_errors_of_tensors_name_the_part(path):
    with pytest.raises(ValueError, match=r"part 1: .*invalid start byte"):
        sq.save(path, iter([np.zeros(3), Unreadable()]))


def test_errors_name_the_part_however_it_is_given(path):
    mixed = TensorSequence([[1], [[2]]])
    for given in (mixed, list(mixed), [mixed], sq.Columns({"a": mixed})):
        with pytest.raises(ValueError, match=r"^part 0: (column 'a': )?.*element 1 .*shape \(1, 1\)"):
            sq.save(path, given)


def test_errors_of_writing_name_the_path_alone(tmp_path):
    missing = tmp_path / "none" / "some.arrow"
    with pytest.raises(FileNotFoundError) as caught:
        sq.save(missing, [[1]])
    assert caught.value.filename == os.fspath(missing)
    assert "->" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_device_is_no_folder():
    with pytest.raises(OSError, match="device") as caught:
        sq.load(os.devnull)
    assert caught.value.filename == os.devnull
    assert caught.value.errno == errno.EINVAL


# --- how much is in a part, and in a batch ---


def sizes(made):
    return [(first, len(part)) for first, part in made]


def test_tensors_are_gathered_up_to_a_size(monkeypatch):
    tensors = [np.zeros(5) for _ in range(7)]  # 40 bytes each
    assert sizes(parts.parts_of(iter(tensors))) == [(0, 7)]
    mixed = [*tensors[:2], TensorSequence(tensors[:3]), *tensors[:1]]
    assert sizes(parts.parts_of(mixed)) == [(0, 2), (2, 3), (3, 1)]
    for limit, expected in ((80, [2, 2, 2, 1]), (81, [3, 3, 1]), (40, [1] * 7)):
        monkeypatch.setattr(parts, "_GATHERED", limit)
        assert [len(part) for _, part in parts.parts_of(iter(tensors))] == expected


def test_tensors_of_an_iterable_become_a_sequence_at_once(monkeypatch):
    made = []

    class Counted(TensorSequence):
        def __init__(self, *args, **options):
            made.append(None)
            super().__init__(*args, **options)

    monkeypatch.setattr(parts, "TensorSequence", Counted)
    for given in ([[1, 2]] * 50, [np.zeros(3)] * 50, [[], np.zeros(3), [1]]):
        assert [len(part) for _, part in parts.parts_of(iter(given))] == [len(given)]
    assert len(made) == 3


def test_an_iterable_may_change_what_it_has_given(path):
    def lines():
        line = []
        for i in range(4):
            yield line
            line.append(i)

    sq.save(path, lines())
    assert sq.load(path).tolist() == [[], [0], [0, 1], [0, 1, 2]]


def test_errors_of_an_iterable_are_its_own(path):
    def rows():
        yield [1]
        raise ValueError("no row")

    with pytest.raises(ValueError, match=r"^no row$"):
        sq.save(path, rows())
    with pytest.raises(TypeError, match=r"^part 3: the tensor has dtype float64, expected int64"):
        sq.save(path, [TensorSequence([[1]]), [2], [3], np.ones(1)])


def test_a_batch_has_so_many_bytes(monkeypatch):
    seq = sq.split_to_sequence(np.zeros(35), 5)  # 7 elements of 40 bytes each
    columns = sq.Columns({"a": seq})
    for one in (seq, columns):
        assert [len(part) for part in parts.slices_of(one, True)] == [7]
        assert [len(part) for part in parts.slices_of(one, False)] == [7]
    monkeypatch.setattr(parts, "_BATCH", 100)
    monkeypatch.setattr(parts, "_COPIED", 50)
    for one in (seq, columns):
        assert [len(part) for part in parts.slices_of(one, True)] == [3, 3, 1]
        assert [len(part) for part in parts.slices_of(one, False)] == [2, 2, 2, 1]
    assert [len(part) for part in parts.slices_of(seq[:2], True)] == [2]


class OnlyArray:
    def __array__(self, dtype=None, copy=None):
        return np.zeros((2, 3))

    def __iter__(self):
        return iter(np.zeros((2, 3)))


@pytest.mark.parametrize(
    "given",
    ["ab", b"ab", np.zeros((2, 3)), OnlyArray()],
)
def test_what_is_one_thing_is_not_taken_apart(given):
    with pytest.raises(
        TypeError, match=r"a list of tensors, or an iterable of either to save, got .*into a list"
    ):
        parts.parts_of(given)


def test_tensors_of_two_ranks_are_no_file():
    with pytest.raises(
        ValueError, match=r"part 2 is a tensor of shape \(2, 2\), expected rank 1 as the parts"
    ):
        list(parts.parts_of(iter([[1], [2], [[1, 2], [3, 4]]])))
