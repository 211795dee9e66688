"""Offsets of a file that others change while they are read: a result or a ValueError, never a crash."""

import pytest

pytest.importorskip("pyarrow")

from support import changing_offsets
from support.processes import PLAIN_MALLOC, output_of
from support.saved import needs_proc


def in_a_process_of_its_own(folder, seconds):
    lines = output_of(changing_offsets.__file__, folder, seconds, **PLAIN_MALLOC).splitlines()
    return map(int, lines[-1].split())


@needs_proc
@pytest.mark.slow
def test_numbers_that_change_are_results_or_errors(tmp_path):
    results, refused = in_a_process_of_its_own(tmp_path, 0.5)
    assert results > 20
    assert refused > 20
