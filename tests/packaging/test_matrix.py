"""The matrix of benchmarks has each public call, and its ways work."""

import sys
from pathlib import Path

import pytest
from support.surface import public_names

sys.path.append(str(Path(__file__).parents[2]))  # where the benchmarks are
matrix = pytest.importorskip("benchmarks.matrix", reason="outside of the repository")


def test_each_public_name_has_a_row_or_a_reason():
    assert {one.name for one in matrix.ROWS} | matrix.WITHOUT_A_ROW.keys() == public_names()


def test_limits_of_their_own_have_reasons():
    assert [one.label for one in matrix.ROWS if (one.most or 0) > 5 and not one.reason] == []


@pytest.mark.slow
def test_each_way_runs_over_ten_elements():
    pytest.importorskip("pyarrow", reason="files and Arrow's types are among the calls")
    for cell in matrix.cells(r"\| 10 \|.*\| (5|10)$"):
        for name, side in matrix.sides_of(cell).items():
            try:
                side.run(*([side.fresh()] if side.fresh else []))
            except Exception as error:
                error.add_note(f"{cell.title}, {name}")
                raise


def test_what_has_moved():
    before = [{"cell": "a", "ratio": 1.0}, {"cell": "b", "ratio": 1.0}, {"cell": "gone", "ratio": 1.0}]
    now = [{"cell": "a", "ratio": 1.2}, {"cell": "b", "ratio": 2.0}, {"cell": "new", "ratio": 9.0}]
    assert matrix.moved(now, before) == ["b: 1.00 → 2.00"]
    again = [{"cell": "a", "ratio": 2.0}, {"cell": "b", "ratio": 1.9}]
    assert "| b | 2.00, 1.90 |" in (table := matrix.moved_in_each([before, now, before, again]))
    assert "| a |" not in table
