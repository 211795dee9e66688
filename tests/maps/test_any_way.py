"""Any body, run in any way, equals the serial loop: results, types, error, note and progress.

The loop is written out here and knows nothing of maps. It puts what a body returns into sequences, which
have tests of their own. A case is drawn: what runs (elements, rows of a graph, batches, a ufunc, a
reduction), over which inputs, what the body does with each element, and on which workers.
"""

import contextlib
import math
import re
import threading
import warnings
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from support import bodies
from support.bodies import FAILURES, RESULTS, Rows, Scripted, within
from support.random_cases import examples
from support.ways import IN_OTHERS, IN_THIS_PROCESS, each

import seqcore as sq

pytestmark = pytest.mark.thread_unsafe
SECONDS = 60  # for one map


# --- the loop ---


@dataclass
class Misfit(Exception):
    """A result that is not a tensor of the output's type: what the map raises in its place."""

    output: int | None
    reason: Exception


class Outputs:
    """The results of a loop."""

    def __init__(self, dtypes=None):
        self.single, self.sequences = None, None
        self.types, self.waiting = None, []
        if dtypes is not None:
            self.single = not isinstance(dtypes, tuple)
            self.sequences = [sq.TensorSequence(dtype=one) for one in ([dtypes] if self.single else dtypes)]

    def values_of(self, result):
        if self.single is None:
            self.single = not isinstance(result, tuple)
        is_empty = isinstance(result, tuple) and not result
        if result is None or is_empty or isinstance(result, tuple) == self.single:
            raise Misfit(None, TypeError())
        values = [result] if self.single else list(result)
        if self.sequences is not None and len(values) != len(self.sequences):
            raise Misfit(None, TypeError())
        return values

    def add(self, result, split=lambda array: [array]):
        values = self.values_of(result)
        if self.sequences is not None:
            self.put(values, split)
            return
        # The first result that has a type sets it. An empty list has none.
        self.types = self.types or [None] * len(values)
        if len(values) != len(self.types):
            raise Misfit(None, TypeError())
        for k, value in enumerate(values):
            if self.types[k] is None and not (isinstance(value, list) and not value):
                self.types[k] = self.sequence_of(k, value, None).dtype
        self.waiting.append((values, split))
        if all(one is not None for one in self.types):
            self.begin()

    def begin(self):
        """Put the results away that have waited for a type; without one, it is that of an empty list."""
        self.sequences = [sq.TensorSequence(dtype="float64" if one is None else one) for one in self.types]
        waiting, self.waiting = self.waiting, []
        for values, split in waiting:
            self.put(values, split)

    def sequence_of(self, k, value, dtype):
        try:
            return sq.TensorSequence([value], dtype=dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise Misfit(None if self.single else k, error) from None

    def put(self, values, split):
        parts = []
        for k, (value, sequence) in enumerate(zip(values, self.sequences, strict=True)):
            (array,) = self.sequence_of(k, value, sequence.dtype)
            try:
                parts.append(split(array))
            except ValueError as error:
                raise Misfit(None if self.single else k, error) from None
        for sequence, elements in zip(self.sequences, parts, strict=True):
            sequence.extend(elements)


def loop(call, units, dtypes=None):
    """Return the outputs of a loop over (name, arguments, split), or (exception, name of the unit)."""
    outputs = Outputs(dtypes)
    for name, arguments, split in units:
        try:
            outputs.add(call(*arguments), split)
        except BaseException as error:
            return error, name
    if outputs.sequences is None:
        outputs.begin()
    return outputs, None


def elements_of(inputs):
    for i in range(len(inputs[0])):
        yield f"element {i}", [one if isinstance(one, np.ndarray) else one[i] for one in inputs], as_it_is


def as_it_is(array):
    return [array]


def batches_of(inputs, size, stacked):
    """Yield the batches of a map over batches, in order, each with its elements."""
    n, places = len(inputs[0]), {}
    sequences = [one for one in inputs if not isinstance(one, np.ndarray)]
    for i in range(n):
        places.setdefault(tuple(one[i].shape for one in sequences) if stacked else 0, []).append(i)
    made = [own[k : k + size] for own in places.values() for k in range(0, len(own), size)]
    for batch in sorted(made):
        join = np.stack if stacked else np.concatenate
        arguments = [one if isinstance(one, np.ndarray) else join([one[i] for i in batch]) for one in inputs]
        lengths = [1 if stacked else len(inputs[0][i]) for i in batch]
        yield batch, arguments, splitter(lengths, stacked)


def splitter(lengths, stacked):
    def split(array):
        if array.ndim == 0 or len(array) != sum(lengths):
            raise ValueError
        return list(array) if stacked else np.split(array, np.cumsum(lengths)[:-1])

    return split


def loop_over_batches(call, inputs, size, stacked, dtypes):
    order = []

    def units():
        for batch, arguments, split in batches_of(inputs, size, stacked):
            yield batch, arguments, split
            order.extend(batch)

    outputs, batch = loop(call, units(), dtypes)
    if batch is not None:
        return outputs, batch
    outputs.sequences = [one[np.argsort(order)] for one in outputs.sequences]
    return outputs, None


# --- the comparison ---


def assert_equal(found, expected, exact):
    found._check()
    assert found.dtype == expected.dtype
    assert found.shapes == expected.shapes
    for one, other in zip(found, expected, strict=True):
        if exact or one.dtype.kind in "Ob":
            np.testing.assert_array_equal(one, other)
        else:
            # NumPy's own std rounds each step to 16 bits, where a map of many elements rounds once.
            np.testing.assert_allclose(one, other, rtol=5e-3 if one.dtype == np.float16 else 1e-6)


def named(unit):
    """Return how a message begins that names the unit."""
    if isinstance(unit, str):
        return unit
    if len(unit) == 1:
        return f"element {unit[0]}"
    if unit[-1] - unit[0] == len(unit) - 1:
        return f"elements {unit[0]} to {unit[-1]}"
    return f"elements {', '.join(map(str, unit[:8]))}{', …' if len(unit) > 8 else ''}"


class Progress:
    """Keeps the calls; `check` says whether they are those of a map of n elements."""

    def __init__(self):
        self.calls, self.threads = [], set()

    def __call__(self, done, total):
        self.calls.append((done, total))
        self.threads.add(threading.get_ident())

    def check(self, n, ended, caller):
        done = [done for done, _ in self.calls]
        assert done == sorted(set(done))
        assert {total for _, total in self.calls} <= {n}
        assert self.threads <= {caller}
        if ended:
            assert done[-1] == n
            assert done[0] > 0 or n == 0
        else:
            assert not done or done[-1] < n


def assert_as_loop(run, expected, unit, n, in_others=False, exact=True):
    """Run a map, and compare it with what the loop gave.

    `in_others` tells that a worker pickles its results, so that its errors come with its traceback.
    """
    progress = Progress()

    def call():
        try:
            return run(progress), None, threading.get_ident()
        except BaseException as error:
            return None, error, threading.get_ident()

    found, error, caller = within(SECONDS, call)
    if unit is None:
        if error is not None:
            raise error
        progress.check(n, True, caller)
        assert isinstance(found, sq.TensorSequence) is expected.single
        for one, other in zip([found] if expected.single else found, expected.sequences, strict=True):
            assert_equal(one, other, exact)
        return
    progress.check(n, False, caller)
    assert error is not None, "the loop fails, but the map does not"
    notes = getattr(error, "__notes__", [])
    if isinstance(expected, Misfit):
        which = "" if expected.output is None else f", output {expected.output}"
        assert type(error) is type(expected.reason), error
        assert re.match(f"{named(unit)} of the map{which}: ", str(error)), error
        assert not [note for note in notes if "SequenceMap" in note]
    else:
        assert type(error) is type(expected)
        if isinstance(expected, tuple(FAILURES.values())):
            assert error.args == expected.args
        assert [note for note in notes if "Traceback" not in note] == [
            f"raised for {named(unit)} of a SequenceMap"
        ]
        assert any("Traceback" in note for note in notes) is in_others


# --- the cases ---

KINDS = st.sampled_from(["rows", "ragged", "arrays", "list", "matrices", "scalars", "strided"])
COUNTS = st.sampled_from([1, 2, 3, 7, 20, 40])
LIKELY = [
    "same",
    "double",
    "view",
    "sum",
    "floats",
    "int",
    "float",
    "list",
    "words",
    "pair",
    "one",
    "mixed pair",
]
CHUNKSIZES = st.sampled_from([None, None, 1, 3, 50])


def numbered(kind, n):
    """Return n elements of which the first number is the element's position."""
    if kind == "rows":
        return sq.split_to_sequence(np.arange(n)[:, None] + np.arange(3), keepdims=0)
    if kind == "strided":
        return sq.split_to_sequence((np.arange(n)[:, None] + np.zeros(4, np.int64))[::-1], keepdims=0)[::-1]
    if kind == "matrices":
        return sq.TensorSequence([np.full((1 + i % 3, 2), i, np.int16) for i in range(n)])
    if kind == "scalars":
        return sq.TensorSequence([np.array([float(i)]) for i in range(n)])
    lengths = [1 + i % 4 for i in range(n)]
    if kind == "ragged":
        return sq.TensorSequence.from_lengths(np.repeat(np.arange(n), lengths), lengths)
    return (sq.TensorSequence if kind == "arrays" else list)(
        [np.full(length, i) for i, length in enumerate(lengths)]
    )


def scripts(n, usual, likely=0.5):
    """Draw what a body does with some elements; the others get what is usual."""
    others = st.sampled_from([*RESULTS, *FAILURES])
    some = st.dictionaries(st.integers(0, n - 1), others | st.just(usual), max_size=3)
    return st.just({}) | some


@pytest.fixture(params=each([*IN_THIS_PROCESS, "eager_threads", "pickled", *IN_OTHERS]))
def way(request, ways, monkeypatch):
    if request.param == "eager_threads":
        try_threads_always(monkeypatch)
        return {"max_workers": 3}
    return ways.get(request.param)


def try_threads_always(monkeypatch):
    """Have maps on threads try them, however little there is to do."""
    from seqcore._maps import job, threads

    monkeypatch.setattr(job, "SAMPLE", 2)
    monkeypatch.setattr(threads, "worth_a_trial", lambda job: job.left > 1)


@pytest.fixture
def in_others(request, way):
    name = request.node.callspec.params["way"]
    return name in (*IN_OTHERS, "pickled")


def with_options(way, chunksize, progress):
    return {**({} if chunksize is None else {"chunksize": chunksize}), **way, "progress": progress}


def any_case(count):
    return settings(
        max_examples=examples(count),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


@given(data=st.data(), kind=KINDS, n=COUNTS, chunksize=CHUNKSIZES)
@any_case(15)
def test_elements_and_rows_of_graphs(way, in_others, data, kind, n, chunksize):
    usual = data.draw(st.sampled_from(LIKELY))
    make = data.draw(st.sampled_from([Scripted, Scripted, Rows]))
    body = make(usual, data.draw(scripts(n, usual)))
    inputs = [numbered(kind, n)]
    if data.draw(st.booleans()):
        inputs += data.draw(st.permutations([np.array([3, 4]), numbered("ragged", n)]))
    dtypes = data.draw(st.none() | st.sampled_from(["int64", "float64", ("int64", "float64"), ("int64",)]))
    if make is Rows and usual in ("pair", "one", "mixed pair"):
        usual = body.usual = "double"
    units = elements_of(inputs)
    if make is Rows:  # the number of its outputs is known from the start, and it gives no tuples
        body.script = {i: what for i, what in body.script.items() if what not in TUPLES}
        dtypes = None
    expected, unit = loop(body, units, dtypes)
    assert_as_loop(
        lambda progress: sq.sequence_map(
            body, *inputs, output_dtypes=dtypes, **with_options(way, chunksize, progress)
        ),
        *(expected, unit, n, in_others),
    )


TUPLES = {name for name in RESULTS if isinstance(RESULTS[name](np.zeros(1, np.int64)), tuple)} | {
    *FAILURES.keys() - {"Refusal", "KeyError", "StopIteration", "TypeError"}
}


@given(
    data=st.data(),
    kind=KINDS.filter(lambda kind: kind != "matrices"),
    n=COUNTS,
    size=st.sampled_from([1, 2, 7, 50]),
    new_axis=st.sampled_from([0, 1]),
)
@any_case(30)
def test_batches(way, in_others, data, kind, n, size, new_axis):
    way = {name: option for name, option in way.items() if name != "chunksize"}
    usual = data.draw(st.sampled_from(["same", "double", "view", "floats", "pair", "one"]))
    body = Scripted(usual, data.draw(scripts(n, usual)))
    inputs = [numbered(kind, n)]
    if data.draw(st.booleans()):
        inputs += data.draw(st.permutations([np.array([3, 4]), numbered("ragged", n)]))
    dtypes = data.draw(st.none() | st.sampled_from(["int64", "float64", ("int64", "float64")]))
    expected, batch = loop_over_batches(body, inputs, size, new_axis == 1, dtypes)
    assert_as_loop(
        lambda progress: sq.map_batches(
            *(body, *inputs),
            batch_size=size,
            new_axis=new_axis,
            output_dtypes=dtypes,
            **way,
            progress=progress,
        ),
        *(expected, batch, n, in_others),
    )


UFUNCS = [np.negative, np.sqrt, np.modf, np.add, np.divmod, np.less, np.reciprocal, np.matmul, np.logical_not]


@given(
    data=st.data(),
    ufunc=st.sampled_from(UFUNCS),
    name=st.sampled_from(["float64", "float32", "int64", "bool", "uint8", "string"]),
    n=st.sampled_from([1, 10, 130]),
    chunksize=CHUNKSIZES,
    on_error=st.sampled_from(["ignore", "raise"]),
)
@any_case(40)
def test_ufuncs(way, in_others, data, ufunc, name, n, chunksize, on_error):
    if in_others:
        on_error = "ignore"  # the caller's error state doesn't cross processes
    lengths = data.draw(st.sampled_from([[2], [1, 3, 0], [2, 2, 2, 1]]))
    rows = [np.arange(i, i + lengths[i % len(lengths)]).astype(int) for i in range(n)]
    at = data.draw(st.none() | st.integers(0, n - 1))
    if at is not None:
        rows[at] = np.zeros(data.draw(st.sampled_from([(0,), (2,), (1, 3), ()])), int)
    rows = [row.astype(str).astype(object) if name == "string" else row.astype(name) for row in rows]
    inputs = [sq.TensorSequence(rows)]
    if data.draw(st.booleans()):
        inputs = [
            sq.TensorSequence.from_lengths(np.concatenate([r.ravel() for r in rows]), [r.size for r in rows])
        ]
    if ufunc.nin == 2:
        other = {
            "itself": inputs[0],
            "number": inputs[0][0].ravel()[:1].sum() if name != "string" else np.array("x", object),
            "array": np.array(["a", "b"], object) if name == "string" else np.array([1, 2]).astype(name),
        }
        inputs.append(other[data.draw(st.sampled_from(sorted(other)))])
        if not isinstance(inputs[1], sq.TensorSequence):
            inputs[1] = np.asarray(inputs[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with np.errstate(all=on_error):
            expected, unit = loop(ufunc, elements_of(inputs))

        def run(progress):
            with np.errstate(all=on_error):
                return sq.sequence_map(ufunc, *inputs, **with_options(way, chunksize, progress))

        assert_as_loop(run, expected, unit, n, in_others, exact=False)


REDUCTIONS = [np.sum, np.prod, np.mean, np.min, np.max, np.any, np.all, np.argmin, np.argmax, np.std, np.var]


@given(
    how=st.sampled_from(REDUCTIONS),
    name=st.sampled_from(["float64", "float16", "int64", "uint8", "bool", "string"]),
    n=st.sampled_from([1, 10, 130]),
    empty=st.booleans(),
    chunksize=CHUNKSIZES,
)
@any_case(30)
def test_reductions(way, in_others, how, name, n, empty, chunksize):
    rows = [np.arange(i % 7, i % 7 + 1 + i % 5) % 5 for i in range(n)]
    if empty:
        rows[n // 2] = rows[n // 2][:0]
    rows = [row.astype(str).astype(object) if name == "string" else row.astype(name) for row in rows]
    inputs = [sq.TensorSequence(rows)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, unit = loop(how, elements_of(inputs))
        assert_as_loop(
            lambda progress: sq.sequence_map(how, *inputs, **with_options(way, chunksize, progress)),
            *(expected, unit, n, in_others, name not in ("float64", "float16")),
        )


GRAPHS = {
    "elementwise": "g (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Exp(y) }",
    "by rows": "g (float[N] x) => (float[N] y) { y = Softmax(x) }",
}


@pytest.mark.parametrize("text", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("chunksize", [None, 30])
@pytest.mark.parametrize("n", [1, 10, 200])
def test_graphs(way, in_others, text, chunksize, n):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from seqcore.onnx import GraphBody

    body = GraphBody(onnx.parser.parse_graph(text))
    inputs = [sq.TensorSequence([np.arange(1 + i % 4, dtype=np.float32) for i in range(n)])]
    expected, unit = loop(body, elements_of(inputs))
    assert unit is None
    assert_as_loop(
        lambda progress: sq.sequence_map(body, *inputs, **with_options(way, chunksize, progress)),
        *(expected, None, n, in_others, False),
    )


@given(
    n=st.integers(2, 40), at=st.integers(0, 39), chunksize=CHUNKSIZES, seconds=st.sampled_from([0, 0, 2e-4])
)
@any_case(15)
@pytest.mark.parametrize("way", [*IN_THIS_PROCESS, "eager_threads"], indirect=True)
def test_each_element_before_a_failure_is_called_once(way, n, at, chunksize, seconds):
    called, lock, pause = [], threading.Lock(), threading.Event()

    def body(a):
        with lock:
            called.append(int(a[0]))
        if seconds:
            pause.wait(seconds)
        if a[0] == at:
            raise bodies.Refusal
        return a

    def run():
        with contextlib.suppress(bodies.Refusal):
            sq.sequence_map(body, numbered("rows", n), **with_options(way, chunksize, None))

    within(SECONDS, run)
    assert len(called) == len({*called})
    assert {*range(min(n, at + 1))} <= {*called}
    if at >= n:
        assert len(called) == n


def test_the_loop_itself():
    """The oracle is of use only if it can fail."""
    outputs, unit = loop(Scripted("double", {3: "floats"}), elements_of([numbered("rows", 5)]))
    assert (type(outputs), unit) == (Misfit, "element 3")
    assert math.prod(len(one[1][0]) for one in batches_of([numbered("ragged", 4)], 2, False)) == 3 * 7
