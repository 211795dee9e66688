"""The part of `hardening.others` that takes less than a second."""

import pytest

pytest.importorskip("test.list_tests", reason="this Python has no package `test`")

from hardening.others import lists


def test_what_cpython_tests_of_lists():
    report = lists.run()
    assert report.as_expected, report
    assert len(report.passed) >= 38
