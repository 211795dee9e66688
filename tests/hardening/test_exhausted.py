"""Calls in processes without memory: a result or a MemoryError, and all is as it was. See exhausted.py."""

import sys
import sysconfig
from pathlib import Path

import pytest
from support.processes import output_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thread_unsafe,
    pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space, and /proc"),
    pytest.mark.skipif(
        bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        reason="CPython 3.13 without a GIL ends the process where it has no memory",
    ),
]

# Of the calls those of each file of the core; the script has all, and takes minutes.
CALLS = [
    ["insert", "concat", "load"],
    ["__setitem__, i", "to_padded, c", "reduce", "pack", "sample tokens"],
]


@pytest.mark.at_night
@pytest.mark.parametrize("calls", CALLS, ids=" ".join)
def test_each_call_ends_soundly(calls):
    pytest.importorskip("pyarrow")
    assert "a MemoryError" in output_of(Path(__file__).with_name("exhausted.py"), *calls)
