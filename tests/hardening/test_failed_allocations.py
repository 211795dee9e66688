"""Each allocation of each operation is made to fail in turn: a MemoryError, all as it was, and nothing lost.

In processes of their own: what may go wrong there ends the process. The operations, and what is left out and
why, stand in failed_allocations.py.
"""

import sysconfig

import failed_allocations
import pytest
from support.results import known

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thread_unsafe,
    pytest.mark.skipif(
        bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        reason="PyList_New of CPython 3.13 without a GIL ends the process where there is no memory for items",
    ),
]


# A map of batches keeps two references if one allocation fails.
UNMENDED = {
    "maps": "CPython 3.11 keeps what it gives a generator for which there is no memory, in map_batches",
}


def groups(names):
    return [pytest.param(name, marks=known(UNMENDED[name]) if name in UNMENDED else ()) for name in names]


def count(record_property, table):
    """Say how many were failed: in the output with -s, and in junit.xml."""
    failed, memory, other = (sum(column) for column in zip(*(row[1:] for row in table), strict=True))
    print(f"{failed:,} allocations failed: {memory:,} MemoryErrors, {other:,} other exceptions")
    record_property("allocations_failed", failed)
    return failed


@pytest.mark.parametrize("group", groups(failed_allocations.GROUPS))
@pytest.mark.mostly_at_night(7)
def test_failed_allocation_leaves_all_as_it_was(group, record_property):
    pytest.importorskip("_testcapi", reason="this Python has no hook that makes allocations fail")
    table = failed_allocations.start_group(group, timeout=300)
    if not table:
        pytest.skip("other Pythons end the process in operations like these: see failed_allocations.py")
    assert count(record_property, table) > 20


@pytest.mark.parametrize("group", groups(failed_allocations.MALLOC_GROUPS))
@pytest.mark.mostly_at_night(12)
def test_failed_malloc_leaves_all_as_it_was(group, tmp_path, record_property):
    """Those of NumPy's data too, which CPython's hook does not see."""
    library = failed_allocations.compile_malloc(tmp_path)
    if library is None:
        pytest.skip("this needs Linux, glibc and a C compiler")
    table = failed_allocations.start_group(group, library, timeout=300)
    if not table:
        pytest.skip("other Pythons end the process in operations like these: see failed_allocations.py")
    count(record_property, table)
