"""onnx's whole backend suite on the session. A failure that onnxruntime has too is onnxruntime's."""

import re
import unittest
import warnings

import onnxruntime
from hardening.others.outcomes import Outcome, Report
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest

from seqcore.onnx import backend

EXCEPTIONS = {
    "test_loop16_seq_none_cpu": "onnx's runner takes len() of a 0-d result; see test_conformance",
}
OURS = re.compile(
    "(?<!reverse)sequence|optional|loop|(^|_)if_|_map_"
)  # seqcore's own operators: no excuse for them
KINDS = ("Node", "Simple", "PyTorchConverted", "PyTorchOperator")  # Real ones are downloaded


class Plain(Backend):
    """onnxruntime's sessions, for comparison."""

    @classmethod
    def prepare(cls, model, device="CPU", **options):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        return PlainRep(onnxruntime.InferenceSession(model.SerializeToString(), options))

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"


class PlainRep(BackendRep):
    def __init__(self, session):
        self.session = session

    def run(self, inputs, **options):
        names = [one.name for one in self.session.get_inputs()]
        return self.session.run(None, dict(zip(names, inputs, strict=False)))


class Suite(BackendTest):
    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, *args, **kwargs):
        """Compare as onnx does, and the lengths of sequences too."""
        for expected, found in zip(ref_outputs, outputs, strict=False):
            if isinstance(expected, list):
                assert len(found) == len(expected)
        super().assert_similar_outputs(ref_outputs, outputs, *args, **kwargs)


def outcomes_of(implementation, only=None):
    """Run the suite on the CPU; `only` is a set of names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making its data, onnx overflows on purpose
        cases = Suite(implementation, __name__).test_cases
        for kind in KINDS:
            case = cases[f"OnnxBackend{kind}ModelTest"]
            for name in unittest.defaultTestLoader.getTestCaseNames(case):
                if name.endswith("_cpu") and (only is None or name in only):
                    yield outcome_of(case, name)


def outcome_of(case, name):
    result = unittest.TestResult()
    case(name).run(result)
    wrong = result.failures + result.errors
    why = wrong[0][1].strip().rpartition("\n")[2] if wrong else ""
    return Outcome(name, "failed" if wrong else "skipped" if result.skipped else "passed", why)


def run():
    onnxruntime.set_default_logger_severity(4)
    outcomes = list(outcomes_of(backend.SeqcoreBackend))
    failed = {one.name for one in outcomes if one.result == "failed"}
    theirs = {one.name for one in outcomes_of(Plain, failed) if one.result == "failed"}
    exceptions = (
        dict.fromkeys(theirs - set(filter(OURS.search, theirs)), "onnxruntime fails too") | EXCEPTIONS
    )
    return Report("onnx, backend suite", outcomes, exceptions)
