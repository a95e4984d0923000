"""Searches in which something fails, is lost, or is interrupted."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.bundle import Bundle
from quantkit.deployment.tuning import halving
from quantkit.deployment.tuning.contestant import Contestant
from quantkit.deployment.tuning.point import Load
from quantkit.deployment.tuning.search import tune
from quantkit.deployment.tuning.write import write_tuning
from quantkit.errors import InstanceError, QuantkitError
from tests.deployment.tuning.machine import STREAMS, THROUGHPUT, Machine, Speed, by_engine, tuned


def test_what_fails_is_left_out_with_its_reason(on: Any, bundle: Bundle) -> None:
    def speed(contestant: Contestant, load: Load) -> float:
        if contestant.engine == "openvino" and contestant.own is None:
            raise InstanceError("crashed", "it ended with exit code 3")
        return 100.0

    on(speed)
    found = tuned(bundle)
    assert found.winner.contestant.engine == "mxnet"
    assert [trial.problem for trial in found.trials if trial.problem] == ["it ended with exit code 3"]


def failing(machine: Machine, engine: str, after: int) -> Speed:
    """An engine whose processes end once so many were started."""

    def speed(contestant: Contestant, load: Load) -> float:
        if contestant.engine == engine and len(machine.started) > after:
            raise InstanceError("crashed", "it ended")
        return by_engine(100, 150)(contestant, load)

    return speed


def test_what_fails_later_is_left_out_too(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    machine.speed = failing(machine, "openvino", after=2)
    assert tuned(bundle).winner.contestant.engine == "mxnet"


def test_a_default_that_fails_is_told(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    machine.speed = failing(machine, "mxnet", after=4)
    with pytest.raises(QuantkitError, match="MXNet, in one process does not run: it ended"):
        tuned(bundle)


def test_a_default_that_is_lost_is_started_again(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    lost: list[int] = []

    def speed(contestant: Contestant, load: Load) -> float:
        # Right after the other one was measured for the first time.
        if contestant.engine == "mxnet" and len(machine.started) == 2 and not lost:
            lost.append(1)
            raise InstanceError("killed", "it was killed")
        return by_engine(100, 150)(contestant, load)

    machine.speed = speed
    found = tuned(bundle)
    assert lost and found.winner.contestant.engine == "openvino"
    assert not any(trial.problem for trial in found.trials)
    assert [each.engine for each in machine.started[:3]] == ["mxnet", "openvino", "mxnet"]


def test_a_process_that_was_lost_is_tried_again(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))

    def speed(contestant: Contestant, load: Load) -> float:
        if contestant.engine == "openvino":
            if len(machine.started) == 2:
                raise InstanceError("killed", "it was killed")
            machine.interrupt_at = len(machine.started) + 1
        return 100.0

    machine.speed = speed
    with pytest.raises(KeyboardInterrupt):
        tuned(bundle)
    machine.interrupt_at, machine.speed = None, by_engine(100, 150)
    assert tuned(bundle).winner.contestant.engine == "openvino"


def test_a_setting_that_was_lost_at_first_is_tried_again(
    on: Any, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = replace(STREAMS, batch=8)

    def speed(contestant: Contestant, load: Load) -> float:
        if contestant.spread == wide and len(machine.started) == 3:
            raise InstanceError("killed", "it was killed")
        return {None: 100.0, STREAMS: 150.0, wide: 200.0}.get(contestant.spread, 50.0)

    machine = on(speed)
    tried = [Contestant(bundle, "openvino", each) for each in (STREAMS, wide)]
    monkeypatch.setattr(halving, "structures", lambda bundles, goal: tried)
    found = tune([bundle], THROUGHPUT, 1.0)
    assert found.winner.contestant.spread == wide
    assert not any(trial.problem for trial in found.trials)
    assert len({trial.contestant.key for trial in found.trials}) == len(found.trials)


def interrupt(machine: Machine, bundle: Bundle) -> None:
    """Leave a search that has tried one thing beside the default."""
    machine.interrupt_at = 3
    with pytest.raises(KeyboardInterrupt):
        tuned(bundle)
    machine.interrupt_at = None
    machine.started.clear()


def test_an_interrupted_search_goes_on(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    interrupt(machine, bundle)
    told: list[str] = []
    tuned(bundle, tell=told.append)
    assert told[0] == "going on with 1 trial of an earlier search"
    # The default is measured anew, the other was tried; then the two take turns.
    assert [each.engine for each in machine.started[:3]] == ["mxnet", "openvino", "mxnet"]


def test_a_search_whose_result_cannot_be_written_goes_on(
    on: Any, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    on(by_engine(100, 150))
    found = tuned(bundle)
    with monkeypatch.context() as patch, pytest.raises(QuantkitError, match="No space left on device"):
        patch.setattr(Path, "write_text", full)
        write_tuning(found, tmp_path / "out")
    told: list[str] = []
    write_tuning(tuned(bundle, tell=told.append), tmp_path / "out")
    assert told[0].startswith("going on with ")
    assert not [*(tmp_path / "home/searches").glob("*.jsonl")]


def test_retuning_forgets_an_interrupted_search(on: Any, bundle: Bundle) -> None:
    interrupt(on(by_engine(100, 150)), bundle)
    told: list[str] = []
    tuned(bundle, tell=told.append, again=True)
    assert not [line for line in told if "earlier" in line]
