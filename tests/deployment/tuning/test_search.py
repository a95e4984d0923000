"""The search for a deployment, over contestants whose speeds are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quantkit.bundle import Bundle
from quantkit.deployment.deployment_file import this_host
from quantkit.deployment.streams import Streams
from quantkit.deployment.tuning import search
from quantkit.deployment.tuning.contestant import Contestant
from quantkit.deployment.tuning.goal import TuningGoal
from quantkit.deployment.tuning.outcome import deployment_of, tuning_document
from quantkit.deployment.tuning.page import verdict
from quantkit.deployment.tuning.point import Load
from quantkit.deployment.tuning.search import tune
from quantkit.errors import UserError
from tests.deployment.tuning.machine import STREAMS, THROUGHPUT, Speed, by_engine, tuned


def test_the_best_is_chosen_with_what_it_brings(on: Any, bundle: Bundle) -> None:
    on(by_engine(100, 150))
    found = tuned(bundle)
    assert found.winner.contestant.engine == "openvino" and found.winner.contestant.spread == STREAMS
    assert [each.contestant.own for each in found.finalists] == [None, None, "THROUGHPUT"]
    over = found.over(found.finalists[0])
    assert over.value == pytest.approx(1.5, rel=0.01) and over.low > 1
    deployment = deployment_of(found, this_host())
    assert deployment.spread == STREAMS and deployment.bundle.sha256 == bundle.sha256
    assert deployment.evidence["MXNet, in one process"][0] == pytest.approx(1.5, rel=0.01)
    document = tuning_document(found, this_host(), "quantkit tune")
    assert document["winner"] == "OpenVINO, 2 streams, batch 4" and len(document["finalists"]) == 3


@pytest.mark.parametrize("speed", [by_engine(100, 100), by_engine(100, 80)])
def test_the_default_stays_where_nothing_is_better_beyond_doubt(on: Any, bundle: Bundle, speed: Speed) -> None:
    on(speed)
    assert tuned(bundle).winner.contestant.engine == "mxnet"


def test_what_is_better_only_at_first_does_not_win(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    machine.speed = lambda contestant, load: (
        100.0 if contestant.engine == "mxnet" or len(machine.started) > 3 else 150.0
    )
    assert tuned(bundle).winner.contestant.engine == "mxnet"


def test_latency_under_load_is_bounded(on: Any, bundle: Bundle) -> None:
    on(lambda contestant, load: 100.0 * load.callers)
    found = tuned(bundle, TuningGoal(p99=10.0))
    assert {each.points[0].load for each in found.finalists} == {Load(1, 8)}
    with pytest.raises(UserError, match="nothing that was tried keeps the bounds"):
        tuned(bundle, TuningGoal(p99=0.5))


def test_of_requests_at_random_times_the_latency_counts(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 100))
    machine.p99 = lambda contestant, load: 20.0 if contestant.engine == "mxnet" else 10.0
    found = tuned(bundle, TuningGoal(rate=500.0))
    assert found.winner.contestant.engine == "openvino"
    assert found.over(found.finalists[0]).value == pytest.approx(2)
    assert {each.points[0].load.rate for each in found.finalists} == {500.0}
    assert "times as short a p99 as the default, MXNet, in one process." in verdict(found)
    with pytest.raises(UserError, match="nothing that was tried keeps the bounds"):
        tuned(bundle, TuningGoal(rate=500.0, p99=5.0))
    with pytest.raises(UserError, match=r"too few come in 0\.001 minutes to tell their p99; allow at least 25 minutes"):
        tuned(bundle, TuningGoal(rate=1.0))


def test_memory_is_bounded(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    machine.memory = lambda contestant: 2000
    with pytest.raises(UserError, match="nothing that was tried keeps the bounds"):
        tuned(bundle, TuningGoal(memory=1999))
    assert tuned(bundle, TuningGoal(memory=2000)).winner.contestant.engine == "openvino"


def test_a_default_that_breaks_a_bound_gives_way_to_what_keeps_it(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 90))
    machine.memory = lambda contestant: 2000 if contestant.engine == "mxnet" else 1000
    found = tuned(bundle, TuningGoal(memory=1500))
    assert found.winner.contestant.engine == "openvino"
    assert verdict(found).endswith("The default, MXNet, in one process, breaks the bounds of the goal.")
    machine.p99 = lambda contestant, load: 50.0 if contestant.engine == "mxnet" else 1.0
    assert tuned(bundle, TuningGoal(p99=10.0)).winner.contestant.engine == "openvino"


def test_what_takes_too_much_memory_is_left_out(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    machine.memory = lambda contestant: 1000 if contestant.engine == "mxnet" else 2000
    found = tuned(bundle, TuningGoal(memory=1500))
    assert found.winner.contestant.engine == "mxnet"
    assert "it takes more memory than the goal allows" in [trial.problem for trial in found.trials]


def test_what_breaks_the_bound_at_last_does_not_win(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))

    def p99(contestant: Contestant, load: Load) -> float:
        return 20.0 if contestant.engine == "openvino" and len(machine.started) > 5 else 1.0

    machine.p99 = p99
    assert tuned(bundle, TuningGoal(p99=10.0)).winner.contestant.engine == "mxnet"


def test_settings_are_changed_one_at_a_time_and_kept_if_they_help(on: Any, bundle: Bundle) -> None:
    def speed(contestant: Contestant, load: Load) -> float:
        spread = contestant.spread
        return 100.0 if spread is None else 100.0 + 10 * min(spread.batch, 64)

    on(speed)
    found = tune([bundle], TuningGoal(), 1.0)
    assert [(each.name, each.kept) for each in found.settings][:2] == [("batch 2", False), ("batch 8", True)]
    assert found.winner.contestant.spread == Streams(2, batch=64)


def test_bundles_are_of_one_network(on: Any, bundle: Bundle) -> None:
    machine = on(by_engine(100, 150))
    source = replace(bundle.manifest.source, sha256="0" * 64)
    other = replace(bundle, manifest=replace(bundle.manifest, source=source))
    with pytest.raises(UserError, match="is of another network than"):
        tune([bundle, other], THROUGHPUT, 0.001)
    assert not machine.started


def test_the_time_for_structures_ends(on: Any, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    on(by_engine(100, 150))
    now = iter(range(10**6))
    told: list[str] = []
    monkeypatch.setattr(search, "monotonic", lambda: float(next(now)))
    tune([bundle], TuningGoal(), 0.01, tell=told.append)
    assert any("the others are not tried" in line for line in told)
