"""Batches as large as memory allows, and contestants that do not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.benchmark.measuring import room, schedule, team
from quantkit.benchmark.results.results import Results
from quantkit.benchmark.suites.suite import Suite
from tests.benchmark.fakes import launch, suite
from tests.benchmark.measuring.toy_runs import bench, by_name, children

pytestmark = [pytest.mark.timing, pytest.mark.usefixtures("quick")]


class Hungry:
    """Contestants that take 100 bytes, and some for each image: FP32 10, INT8 2."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, available: int) -> None:
        self.probed: list[tuple[str, int]] = []
        bound: dict[int, tuple[int, int]] = {}
        bind = team.Team.bind

        def binding(each: team.Team, input_name: str, data: Path, patience: float) -> None:
            takes = int(each._launches[0].environment["TAKES"])
            bound[id(each)] = takes, len(np.load(data))
            self.probed.append(("fp32" if takes == 10 else "int8", len(np.load(data))))
            bind(each, input_name, data, patience)

        def resident(each: team.Team) -> int:
            takes, batch = bound[id(each)]
            return 100 + takes * batch

        monkeypatch.setattr(team.Team, "bind", binding)
        monkeypatch.setattr(team.Team, "resident", resident)
        monkeypatch.setattr(room, "available_memory", lambda: available)

    def bench(self, toy: Suite, folder: Path, **options: Any) -> Results:
        environments = {"fp32": {"TAKES": "10"}, "int8": {"TAKES": "2"}}
        launches = {
            name: (replace(launch(0), environment={**launch(0).environment, **more}),)
            for name, more in environments.items()
        }
        return bench(toy, folder, {"fp32": {}, "int8": {}}, launches, **options)


LARGEST = replace(suite(("fp32", "int8"), batches=(1, 16)), largest=(32, 64, 128))


def test_the_largest_batch_at_which_all_fit_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hungry = Hungry(monkeypatch, 1000)
    results = hungry.bench(LARGEST, tmp_path)
    # 7 tenths of what is free and of what they hold, 1000 and 392, are more than the 968 of a batch of 64.
    assert set(by_name(results)) == {(name, batch) for name in ("fp32", "int8") for batch in (1, 16, 64)}
    assert results.run.left_out == ()
    assert hungry.probed == [(name, batch) for batch in (1, 4, 16, 64) for name in ("fp32", "int8")]


def test_a_run_that_goes_on_keeps_its_largest_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Hungry(monkeypatch, 1000).bench(LARGEST, tmp_path)
    (tmp_path / "out" / "cells" / "net-b64-int8.json").unlink()
    told: list[str] = []
    monkeypatch.undo()
    monkeypatch.setattr(schedule, "ROUNDS", 3)
    monkeypatch.setattr(schedule, "_SLICE", 0.1)
    second = Hungry(monkeypatch, 100_000).bench(LARGEST, tmp_path, told=told)
    assert told == ["net, batch 64: fp32, int8"]
    assert set(by_name(second)) == set(by_name(first))


def test_what_does_not_fit_into_memory_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Hungry(monkeypatch, 30).bench(LARGEST, tmp_path)
    assert set(by_name(results)) == {("fp32", 1), ("int8", 1), ("int8", 16)}
    left = {(each.contestant, each.batch): each.reason for each in results.run.left_out}
    assert set(left) == {("fp32", 16), ("fp32", 32), ("int8", 32)}
    assert all("GB of memory" in reason for reason in left.values())
    assert children() == set()


def test_without_a_largest_batch_memory_is_not_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hungry = Hungry(monkeypatch, 0)
    results = hungry.bench(replace(LARGEST, largest=()), tmp_path)
    assert set(by_name(results)) == {(name, batch) for name in ("fp32", "int8") for batch in (1, 16)}
    assert all(batch != 4 for _, batch in hungry.probed)


def test_a_contestant_that_fails_when_it_is_tried_fails_as_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "available_memory", lambda: 1 << 40)
    toy = replace(LARGEST, largest=(32,))
    results = bench(toy, tmp_path, {"fp32": {}, "int8": {"fault": "bind:exit", "instance": 0}})
    failures = {key: cell.failure.kind for key, cell in by_name(results).items() if cell.failure}
    assert failures == {("int8", batch): "crashed" for batch in (1, 16, 32)}
