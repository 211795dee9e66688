"""onnx's own backend tests of sequences and optionals, which onnx makes in seconds: so not at import."""

import re
import unittest
import warnings

import numpy as np
import pytest
from onnx.backend.test import BackendTest
from onnx.backend.test.loader import load_model_tests

from seqcore.onnx import backend

pytestmark = pytest.mark.at_night

PATTERNS = [
    "sequence_map",
    "sequence_insert",
    "split_to_sequence",
    "identity_sequence",
    "if_seq",
    "if_opt",
    "identity_opt",
    "loop11",
    "loop13_seq",
    "optional_",
    *(f"sequence_model{i}_" for i in range(1, 9)),
]


class Suite(BackendTest):
    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, *args, **kwargs):
        """What onnx compares, and the lengths of sequences, which it doesn't."""
        for expected, found in zip(ref_outputs, outputs, strict=False):
            if isinstance(expected, list):
                assert type(found) is list
                assert len(found) == len(expected)
        super().assert_similar_outputs(ref_outputs, outputs, *args, **kwargs)


@pytest.fixture(scope="module")
def cases():
    """The cases whose names have one of the patterns, by name, on the device that there is.

    Only onnx's node tests and small models, whose data is in the package: others are downloaded when run.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making its data, onnx overflows on purpose
        suite = Suite(backend.SeqcoreBackend, __name__)
    for pattern in PATTERNS:
        suite.include(pattern)
    cases = {}
    for kind in ("Node", "Simple"):
        case = suite.test_cases[f"OnnxBackend{kind}ModelTest"]
        for name in unittest.defaultTestLoader.getTestCaseNames(case):
            if not getattr(getattr(case, name), "__unittest_skip__", False):
                cases[name] = case(name)
    return cases


@pytest.mark.parametrize("pattern", PATTERNS)
def test_cases(pattern, cases):
    chosen = [name for name in cases if re.search(pattern, name)]
    assert chosen
    failed = []
    for name in chosen:
        try:
            getattr(cases[name], name)()
        except Exception as error:
            error.add_note(f"in onnx's {name}")
            failed.append(error)
    if failed:
        raise ExceptionGroup(f"of {len(chosen)} cases", failed)


@pytest.mark.parametrize("given", [[np.array(0, np.float32)], None])
def test_loop16_seq_none(given):
    """The first element of the result is 0-d: onnx's runner asks for its len()."""
    case = next(case for case in load_model_tests(kind="node") if case.name == "test_loop16_seq_none")
    if case.data_sets is None:
        pytest.skip("this version of onnx has the data of its cases in files, the next ones in memory")
    [([trips, condition, _], [expected])] = case.data_sets
    [found] = backend.run_model(case.model, [trips, condition, given])
    assert len(found) == len(expected) == 6
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tolist() == other.tolist()
