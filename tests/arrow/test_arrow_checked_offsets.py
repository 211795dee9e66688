"""Offsets of files and Arrow are checked before others get them: once for each element, and in one pass."""

import contextlib
import itertools

import numpy as np
import pytest
from support.random_cases import run_seed
from support.saved import pa

import seqcore as sq
from seqcore import TensorSequence

N = 50
GOOD = np.arange(0, 3 * N + 1, 3)


def arrow_of(offsets, dtype=np.int64, values=3 * N):
    """A pyarrow array of lists with any offsets, whose ends are within its values."""
    kind = pa.large_list(pa.int16()) if dtype == np.int64 else pa.list_(pa.int16())
    buffers = [None, pa.py_buffer(np.array(offsets, dtype).tobytes())]
    return pa.Array.from_buffers(
        kind, len(offsets) - 1, buffers, children=[pa.array(np.arange(values), pa.int16())]
    )


def file_of(path, offsets):
    """A file that we wrote, with other offsets."""
    sq.save(path, TensorSequence.from_offsets(np.arange(3 * N, dtype=np.int16), GOOD))
    data = path.read_bytes()
    assert data.count(GOOD.tobytes()) == 1
    path.unlink()
    path.write_bytes(data.replace(GOOD.tobytes(), np.array(offsets).tobytes()))
    return sq.load(path)


def spoilt(at, value):
    offsets = GOOD.copy()
    offsets[at] = value
    return offsets


# How others get a sequence whole, and what they read of it.
EXITS = {
    "array": lambda seq: pa.array(seq).to_pylist(),
    "stream": lambda seq: pa.chunked_array(seq).to_pylist(),
    "small lists": lambda seq: pa.array(seq, pa.list_(pa.int16())).to_pylist(),
    "list views": lambda seq: pa.array(seq, pa.large_list_view(pa.int16())).to_pylist(),
    "table": lambda seq: pa.table(sq.Columns({"a": seq, "b": np.arange(len(seq))}))["a"].to_pylist(),
    "offsets": lambda seq: np.split(seq.values(), seq.offsets()[1:-1]),
    "offsets of 32 bits": lambda seq: seq.offsets(np.int32),
    "list": TensorSequence.tolist,
}


@pytest.mark.parametrize("exit_", EXITS)
@pytest.mark.parametrize("at", [1, 7, N // 2, N - 1])
@pytest.mark.parametrize("value", [1 << 40, -1, 3 * N + 1, -(1 << 62)])
def test_a_damaged_offset_is_an_error_that_names_the_element(tmp_path, exit_, at, value):
    path = tmp_path / "a.arrow"
    seq = file_of(path, spoilt(at, value))
    bad = at - 1 if value > GOOD[-1] or value < 0 else at
    for _ in range(2):  # what was found out is not forgotten
        with pytest.raises((ValueError, OSError), match=rf"element {bad}\b.*can't be read.*a\.arrow"):
            EXITS[exit_](seq)
    good = [*range(bad), *range(bad + 2, N)]
    expected = np.arange(3 * N).reshape(N, 3)
    # Parts of it that are sound are as before.
    for part, numbers in ((seq[:bad], range(bad)), (seq[bad + 2 :], range(bad + 2, N)), (seq[good], good)):
        got = EXITS[exit_](part)
        if exit_ not in ("offsets", "offsets of 32 bits"):
            assert [list(one) for one in got] == expected[[*numbers]].tolist()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_arrow_s_offsets_too(dtype):
    value = (1 << 40) if dtype == np.int64 else (1 << 30)
    seq = TensorSequence.from_arrow(arrow_of(spoilt(9, value), dtype))
    for exit_ in (EXITS["array"], EXITS["stream"], EXITS["small lists"], EXITS["offsets"]):
        with pytest.raises((ValueError, OSError), match=r"element 8\b.*its Arrow array is damaged"):
            exit_(seq)
    with pytest.raises(ValueError, match=r"element 3\b"):
        seq[5:].offsets(dtype)
    assert pa.array(seq[:8]).to_pylist() == np.arange(24).reshape(8, 3).tolist()


def test_any_slices_in_any_order(tmp_path):
    """What was checked of a table is remembered as a range, whatever parts are exported."""
    random = np.random.default_rng(run_seed() or 0)
    for _ in range(60):
        offsets = GOOD.copy()
        damaged = random.integers(1, N, random.integers(0, 3))
        offsets[damaged] = random.choice([-5, 1 << 40, 1 << 33], len(damaged))
        seq = TensorSequence.from_arrow(arrow_of(offsets))
        is_bad = np.array([not 0 <= a <= b <= 3 * N for a, b in itertools.pairwise(offsets)])
        for _ in range(12):
            start, stop = sorted(random.integers(0, N + 1, 2))
            part = seq[start:stop]
            use = random.choice([EXITS["array"], EXITS["offsets"]])
            if is_bad[start:stop].any():
                first = int(np.flatnonzero(is_bad[start:stop])[0])
                with pytest.raises(ValueError, match=rf"element {first}\b"):
                    use(part)
            elif len(part):
                assert [list(one) for one in use(part)] == np.arange(3 * N).reshape(N, 3)[start:stop].tolist()


def test_a_check_is_made_once():
    """After it the export is a look at the table: offsets that go bad then are the producer's own fault."""
    offsets = GOOD.copy()
    array = pa.Array.from_buffers(
        pa.large_list(pa.int16()),
        N,
        [None, pa.py_buffer(offsets)],
        children=[pa.array(np.arange(3 * N), pa.int16())],
    )
    seq = TensorSequence.from_arrow(array)
    seq[10:20].__arrow_c_array__()
    seq[20:30].__arrow_c_array__()
    before, offsets[15] = offsets[15], -1  # within what was checked
    seq[12:28].__arrow_c_array__()
    seq.copy()[10:30].__arrow_c_array__()
    with pytest.raises(ValueError, match=r"element 14\b"):
        list(seq)
    offsets[15] = before
    offsets[5] = -1  # in front of it
    with pytest.raises(ValueError, match=r"element 4\b"):
        seq.__arrow_c_array__()
    offsets[5] = 15
    seq.__arrow_c_array__()
    offsets[5] = -1
    seq.__arrow_c_array__()


def test_elements_that_arrow_has_no_type_for():
    for seq, message in (
        (TensorSequence([np.zeros((0, 1 << 40))]), r"extent of 1,099,511,627,776 behind axis 0"),
        (TensorSequence([np.zeros((0, 3, 1 << 31))]), r"extent of 2,147,483,648 behind axis 0"),
        (TensorSequence([np.zeros((1,) * 64)]), "need 65 levels"),
        (TensorSequence([np.zeros((1,) * 64), np.zeros((1,) * 63 + (2,))]), None),
    ):
        for use in (
            lambda seq: seq.__arrow_c_array__(),
            lambda seq: seq.__arrow_c_stream__(),
            lambda seq: sq.Columns({"a": seq}).__arrow_c_stream__(),
        ):
            with contextlib.nullcontext() if message is None else pytest.raises(ValueError, match=message):
                use(seq)
    rank = TensorSequence([np.zeros((1,) * 63)])
    assert pa.array(rank).type.num_fields == 1
    with pytest.raises(ValueError, match=r"column 'a': .*need 65 levels"):
        sq.Columns({"a": rank}).__arrow_c_stream__()
    with pytest.raises(ValueError, match="column 'a': elements have an extent of"):
        sq.Columns({"a": np.zeros((0, 1 << 40))}).__arrow_c_schema__()
