"""The suite of drift: its rows."""

from __future__ import annotations


def test_rows_tell_counts_and_costs() -> None:
    from watching import page

    row = {"network": "net", "images": 100}
    none = {**row, "change": "none", "counts": [0, 0, 0], "signals": [], "tests": 30}
    night = {**row, "change": "night", "counts": [20, 0, 30], "signals": ["input.mean", "input.mean"], "tests": 3}
    cost = {"network": "net", "without": [1.0, 2.0], "default": [1.0, 2.0], "everything": [2.0, 4.0]}
    document = {"command": "python x", "host": {"cpu": "y"}, "rows": [none, night], "costs": [cost]}
    written = page(document).splitlines()
    assert "| net | none | 100 | 0 of 3, 30 tests |  |  |  |" in written
    assert "| net | night | 100 | 2 of 3 | 25 | 30 | input.mean |" in written
    assert "| net | 2 | 1.500 | 1.000 [1.000, 1.000] | 0.500 [0.500, 0.500] |" in written
