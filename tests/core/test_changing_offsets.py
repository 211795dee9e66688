"""Offsets of a file that others change while they are read: a result or a ValueError, never a crash."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow")

from support import changing_offsets
from support.processes import PLAIN_MALLOC
from support.saved import needs_proc


def in_a_process_of_its_own(folder, seconds):
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", changing_offsets.__file__, folder, str(seconds)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **PLAIN_MALLOC},
    )
    assert ended.returncode == 0, f"it ended at {ended.stdout[-80:]}: {ended.stderr[-3000:]}"
    return map(int, ended.stdout.splitlines()[-1].split())


@needs_proc
@pytest.mark.slow
def test_numbers_that_change_are_results_or_errors(tmp_path):
    results, refused = in_a_process_of_its_own(tmp_path, 0.5)
    assert results > 20
    assert refused > 20
