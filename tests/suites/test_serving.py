"""The suite of servers under load: its rows, and that a server sheds what it cannot bear."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.requirements import requires


def test_rows_tell_rates_times_and_ratios() -> None:
    from serving import page

    levels = {
        "alone": {"answered": 100.0, "refused": 0.0, "p50": 10.0, "p99": 12.0},
        "at capacity": {"answered": 200.0, "refused": 0.0, "p50": 80.0, "p99": 100.0},
        "overload": {"answered": 180.0, "refused": 220.0, "p50": 85.0, "p99": 120.0},
        "in process": {"answered": 250.0, "refused": 0.0, "p50": 64.0, "p99": 70.0},
    }
    document = {"command": "python x", "host": {"cpu": "y"}, "rows": [{"network": "net", "rounds": [levels] * 3}]}
    written = page(document).splitlines()
    assert "| net | overload | 180 | 220 | 85.0 | 120.0 |" in written
    assert "| net | 3 | 0.80 [0.80, 0.80] | 0.90 [0.90, 0.90] | 1.20 [1.20, 1.20] |" in written


@pytest.mark.timing
def test_a_server_sheds_what_it_cannot_bear(int8_engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requires("hey")
    import serving

    monkeypatch.setattr(serving, "NETWORKS", ("digits_resnet20_v1",))
    options = ["--rounds", "2", "--seconds", "2", "--out", str(tmp_path / "r")]
    monkeypatch.setattr(sys, "argv", ["serving.py", *options])
    serving.main()
    (row,) = json.loads((tmp_path / "r.json").read_text())["rows"]
    for levels in row["rounds"]:
        alone, capacity, overload = levels["alone"], levels["at capacity"], levels["overload"]
        assert alone["refused"] == capacity["refused"] == 0
        assert overload["refused"] > 0
        # It does not collapse, though refusing and the generator itself take time on the same cores.
        assert overload["answered"] > capacity["answered"] / 5
        assert overload["p99"] < 10 * capacity["p99"]
