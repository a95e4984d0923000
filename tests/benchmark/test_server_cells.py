"""What the server scenario leaves in its cells; the search itself is in test_server.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark.measuring import runner
from quantkit.benchmark.measuring.runner import run_suite
from quantkit.benchmark.measuring.server import Served, Watch
from quantkit.benchmark.results.cell_figures import served
from quantkit.benchmark.results.cell_warnings import warnings
from quantkit.benchmark.results.result_files import read_results
from quantkit.benchmark.results.results import Server, ServerTrial
from tests.benchmark.fakes import FakeWorkload, launch, run_of, suite

FOUND = Served(Server(15.0, 40.0, (ServerTrial(40.0, 9, 1.0, 2.0, 3.0, True, ()),)), ("LoadGen was late itself",))


def test_the_search_and_its_warnings_are_in_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def search(serve: Sequence[Any], watch: Watch, bound: float, *_: Any) -> Served:
        others = watch()
        for each in serve:
            each()
        asked.append((len(serve), bound, others().seconds))
        return FOUND

    monkeypatch.setattr(runner, "search_rate", search)
    toy = replace(suite(), scenario="server")
    launches = {each.name: (launch(0), launch(1)) for each in toy.contestants}
    workloads = {each.name: FakeWorkload(tmp_path, {"fp32": {}}, each.name) for each in toy.networks}
    run_suite(toy, run_of(toy, None), workloads, launches, tmp_path / "out", [].append, latency_bound=15.0)
    results = read_results(tmp_path / "out")
    (cell,) = results.cells
    assert (cell.failure, cell.server, warnings(cell)) == (None, FOUND.server, FOUND.warnings)
    ((instances, bound, seconds),) = asked
    assert (instances, bound) == (2, 15.0) and 0 < seconds < 5
    (row,) = served(results)
    assert (row["rate"], row["p99"], row["valid"], row["warnings"]) == (40.0, 3.0, True, list(FOUND.warnings))
