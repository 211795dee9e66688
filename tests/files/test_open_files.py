"""Files that are loaded and unpickled by the thousand: descriptors, memory and disk stay bounded.

Each test is a process of its own, whose limits are low.
"""

import numpy as np
import pytest
from support.processes import output_of
from support.saved import lies_in, mappings, needs_proc, ragged, saved, touched

import seqcore as sq
from seqcore import TensorSequence

pytestmark = needs_proc

BEGINNING = """
import gc, os, pickle, resource, sys
import numpy as np
import seqcore as sq
from seqcore import TensorSequence
folder = sys.argv[1]
path = os.path.join(folder, "tensors.arrow")

def limit(descriptors):
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def mapped(name=".arrow"):
    with open("/proc/self/maps") as lines:
        return sum(name in line for line in lines)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
"""


def run(tmp_path, script, timeout=200):
    output_of("-c", BEGINNING + script, tmp_path, timeout=timeout)


KEPT_AND_UNPICKLED = """
paths = [os.path.join(folder, f"{i}.arrow") for i in range(400)]
for i, one in enumerate(paths):
    sq.save(one, [np.full(3, i), np.full(2, -i)])
limit(256)
before = descriptors()
kept = [sq.load(one) for one in paths]
assert descriptors() == before
assert [int(seq[0][0]) for seq in kept] == [*range(400)]
whole = sq.load(paths)
assert len(whole) == 800 and int(whole[-1][0]) == -399
sent = [pickle.dumps(seq[1:]) for seq in kept]
data = pickle.dumps(whole[::-1])
del kept, whole
gc.collect()
assert mapped() == 0, mapped()
for i, one in enumerate(sent):
    assert int(pickle.loads(one)[0][0]) == -i
gc.collect()
assert mapped() <= 16, mapped()
back = [pickle.loads(one) for one in sent]
assert [int(seq[0][0]) for seq in back] == [-i for i in range(400)]
assert int(pickle.loads(data)[0][0]) == -399
assert descriptors() == before
print(sum(int(one[0]) for one in sq.sequence_map(np.negative, pickle.loads(data))))
"""


@pytest.mark.slow
def test_more_files_than_descriptors(tmp_path):
    """Loaded and kept, all of them at once; and unpickled one after the other."""
    run(tmp_path, KEPT_AND_UNPICKLED)


SAVED_AGAIN = """
limit(128)
kept = []
for i in range(300):
    sq.save(path, [np.full(3 + i % 7, i)])
    seq = sq.load(path)
    back = pickle.loads(pickle.dumps(seq))
    assert int(back[0][0]) == i and int(sq.sequence_map(np.negative, seq)[0][0]) == -i
    if i % 3 == 0:
        kept.append(back)
    assert descriptors() < 30
assert [int(seq[0][0]) for seq in kept] == [*range(0, 300, 3)]
del kept, seq, back
gc.collect()
assert mapped("tensors.arrow") <= 1, mapped("tensors.arrow")
"""


@pytest.mark.slow
def test_one_path_that_is_saved_again_and_again(tmp_path):
    """Each version is another file: those that nobody uses are closed."""
    run(tmp_path, SAVED_AGAIN)


REMOVED = """
import pyarrow as pa

def write(one, i):
    if kind == "strings":
        sq.save(one, [np.array(["x" * (10 << 20), str(i)], object)])
    else:
        column = pa.array([np.full(10 << 17, i)])
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        table = pa.table({"t": column})
        with pa.OSFile(one, "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as to:
            to.write_table(table)

def use(i):
    one = os.path.join(folder, f"{i}.arrow")
    write(one, i)
    seq = sq.load(one)
    back = pickle.loads(pickle.dumps(seq))
    assert str(back[0][-1]) == str(i)
    os.remove(one)

for i in range(8):
    use(i)
gc.collect()
before = resident()
for i in range(8, 60):
    use(i)
gc.collect()
grown = resident() - before
assert grown < 100 << 20, grown
assert not os.listdir(folder)
assert mapped() <= 16, mapped()
"""


@pytest.mark.at_night
@pytest.mark.parametrize("kind", ["strings", "compressed"])
def test_files_that_were_removed_keep_no_memory(tmp_path, kind):
    """What can't be mapped is read, 10 MB of each of 60 files: some are kept, and none that is gone."""
    run(tmp_path, f"kind = {kind!r}" + REMOVED)


THAT_STAY = """
for i in range(30):
    one = os.path.join(folder, f"{i}.arrow")
    sq.save(one, [np.array(["x" * (10 << 20), str(i)], object)])
sent = [pickle.dumps(sq.load(os.path.join(folder, f"{i}.arrow"))) for i in range(30)]
for one in sent[:10]:
    pickle.loads(one)
gc.collect()
before = resident()
for one in sent[10:]:
    pickle.loads(one)
gc.collect()
assert resident() - before < 60 << 20, resident() - before
"""


@pytest.mark.at_night
def test_what_is_kept_open_is_bounded_in_bytes(tmp_path):
    """Files that stay, too."""
    run(tmp_path, THAT_STAY)


# -- files that go while they are used -----------------------------------------------------------------


@pytest.mark.parametrize("how", ["removed", "replaced", "moved"])
def test_a_sequence_outlives_its_files_name(tmp_path, how):
    path = tmp_path / "tensors.arrow"
    model = list(ragged([3, 0, 4, 1] * 100))
    seq = saved(path, ragged([3, 0, 4, 1] * 100))
    half, some, element = seq[100:][::-1], seq[[5, 0, 99]], seq[2]
    if how == "removed":
        path.unlink()
    elif how == "moved":
        path.rename(tmp_path / "elsewhere")
    else:
        sq.save(path, ragged([9] * 7, start=50))
        touched(path, 1)
    for one, expected in (
        (seq, model),
        (half, model[100:][::-1]),
        (some, [model[i] for i in (5, 0, 99)]),
        (seq + half, model + model[100:][::-1]),
    ):
        one._check()
        assert one.tolist() == [array.tolist() for array in expected]
        assert one.lengths().tolist() == [len(array) for array in expected]
        assert np.array_equal(one.values(), np.concatenate(expected))
    assert element.tolist() == model[2].tolist()
    edited = seq.copy()
    del edited[np.arange(400) % 3 == 0]
    edited.compact()
    assert edited.tolist() == [array.tolist() for i, array in enumerate(model) if i % 3]
    del seq, half, one
    assert some.tolist() == [model[i].tolist() for i in (5, 0, 99)]


@pytest.mark.slow
def test_tables_outlive_their_sequences(tmp_path):
    """An element, a slice, values and offsets each keep what they need, until the last is gone."""
    path = tmp_path / "tensors.arrow"
    for take in (
        lambda seq: seq[1],
        lambda seq: seq[1:3],
        lambda seq: seq[[1]],
        lambda seq: seq.values(),
        lambda seq: seq.offsets("int64"),
        lambda seq: seq.__arrow_c_array__(),
        lambda seq: TensorSequence.from_arrow(seq)[1:],
        lambda seq: memoryview(seq.values()),
    ):
        seq = saved(path, ragged([3, 2, 4, 1]))
        kept = take(seq)
        seq.clear()
        del seq
        path.unlink()
        assert [*mappings(path)], take
        if isinstance(kept, TensorSequence):
            assert kept[0].tolist() == [3, 4]
            assert lies_in(kept[0], path)
        elif isinstance(kept, np.ndarray):
            assert kept.tolist() in ([3, 4], [*range(10)], [0, 3, 5, 9, 10])
        del kept
        assert not [*mappings(path)], take
    numbers = saved(path, ragged([3, 2, 4, 1]))
    mapped = sq.map_batches(np.negative, numbers)
    del numbers
    assert not [*mappings(path)], "results of maps keep no file, not for their offsets either"
    assert mapped.lengths().tolist() == [3, 2, 4, 1]
