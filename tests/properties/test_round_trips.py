"""What any carrier brings back is what was given to it: mixtures of ranks, widths and empty elements."""

import copy
import itertools
import pickle
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mixtures import mixtures, tables
from support.random_cases import examples
from support.results import same
from support.strategies import NUMBER_NAMES

import seqcore as sq
from seqcore import Columns, TensorSequence

FILE_NAMES = st.sampled_from(["bool", "int8", "int64", "float32", "float64", "uint16", "string"])


def pickled(protocol):
    return lambda seq: pickle.loads(pickle.dumps(seq, protocol))


def out_of_band(seq):
    buffers = []
    data = pickle.dumps(seq, 5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=buffers)


def compacted(seq):
    seq = seq.copy()
    seq.compact()
    return seq


def put_in_one_by_one(seq):
    made = TensorSequence(dtype=seq.dtype)
    for element in seq:
        made.append(element)
    return made


def in_parts(seq):
    return seq[: len(seq) // 3] + seq[len(seq) // 3 :]


CARRIERS = {
    "deepcopy": copy.deepcopy,
    "copy": TensorSequence.copy,
    "list": lambda seq: TensorSequence([*seq], dtype=seq.dtype),
    "constructor": lambda seq: TensorSequence(seq, copy=True),
    "compact": compacted,
    "append": put_in_one_by_one,
    "parts": in_parts,
    "selection": lambda seq: seq[np.arange(len(seq))[::-1]][::-1],
    "map": lambda seq: sq.sequence_map(lambda t: t, seq, output_dtypes=seq.dtype),
}


@pytest.mark.parametrize("carrier", CARRIERS)
@given(mixtures())
def test_a_mixture_comes_back(carrier, mixture):
    seq, model = mixture
    assert same(CARRIERS[carrier](seq), model)
    assert same(seq, model)


@settings(max_examples=examples(300))
@given(mixtures())
def test_a_mixture_comes_back_from_a_pickle(mixture):
    seq, model = mixture
    for carrier in (pickled(2), pickled(5), out_of_band):
        assert same(carrier(seq), model)


def by_array(seq):
    return TensorSequence.from_arrow(seq)


def by_stream(seq):
    return TensorSequence.from_arrow(types.SimpleNamespace(__arrow_c_stream__=seq.__arrow_c_stream__))


@pytest.mark.parametrize("carrier", [by_array, by_stream])
@given(mixtures(st.sampled_from([name for name in NUMBER_NAMES if name[:4] != "comp"]), one_rank=True))
def test_a_mixture_comes_back_by_arrow(carrier, mixture):
    seq, model = mixture
    if not model or seq.dtype == "bfloat16":
        return  # no elements have no rank, and Arrow has no such type
    assert same(carrier(seq), model)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("pyarrow")
    return tmp_path_factory.mktemp("files")


@given(mixtures(FILE_NAMES, one_rank=True), st.integers(1, 4))
def test_a_mixture_comes_back_from_a_file(folder, mixture, step):
    seq, model = mixture
    if not model:
        return
    path = folder / "one.arrow"
    sq.save(path, seq)
    loaded = sq.load(path)
    assert same(loaded, model)
    for kept in (loaded, loaded[::-step], loaded[[*range(0, len(model), step)]]):
        assert same(pickle.loads(pickle.dumps(kept)), [*kept])


@given(mixtures(FILE_NAMES, one_rank=True), st.integers(1, 4))
def test_parts_come_back_as_one(folder, mixture, nparts):
    seq, model = mixture
    bounds = [len(model) * i // nparts for i in range(nparts + 1)]
    parts = [seq[start:stop] for start, stop in itertools.pairwise(bounds) if stop > start]
    if not parts:
        return
    sq.save(folder / "parts.arrow", iter(parts))
    assert same(sq.load(folder / "parts.arrow"), model)


# --- columns ---


def columns_pickled(columns, path):
    return pickle.loads(pickle.dumps(columns))


def columns_streamed(columns, path):
    return Columns.from_arrow(types.SimpleNamespace(__arrow_c_stream__=columns.__arrow_c_stream__))


def columns_saved(columns, path):
    columns.save(path)
    return pickle.loads(pickle.dumps(sq.load(path)))


@pytest.mark.parametrize("carrier", [columns_pickled, columns_streamed, columns_saved])
@given(tables(FILE_NAMES))
def test_columns_come_back(carrier, folder, table):
    assert same(carrier(Columns(table), folder / "columns.arrow"), Columns(table))
