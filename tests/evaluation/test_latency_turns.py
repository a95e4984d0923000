"""Measuring in turns, with networks that take time of a made-up clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

import numpy as np
import pytest

from quantkit.evaluation import latency
from quantkit.evaluation.latency import latencies_in_turns, median_latencies
from quantkit.host import timing
from quantkit.ir.graph import Graph, Node, Tensor

IMAGE = np.zeros((1, 3, 4, 4), np.float32)
# Read before any test: the tests' own fixtures shorten it.
SECONDS = latency._SECONDS


class Machine:
    """A clock and the networks' runs, which take the seconds that the name of the output says."""

    now = 0.0
    log: list[str]

    def __init__(self) -> None:
        self.log = []

    def __call__(self, graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> Run:
        assert shapes == {graph.inputs[0]: IMAGE.shape}
        return Run(self, graph)


class Run:
    """An executor."""

    def __init__(self, machine: Machine, graph: Graph) -> None:
        self.machine, self.graph, self.runs = machine, graph, 0

    def run(self, inputs: Mapping[str, np.ndarray]) -> None:
        assert inputs[self.graph.inputs[0]] is IMAGE and len(inputs) == 1
        name = self.graph.outputs[0].node
        self.machine.log.append(name)
        self.runs += 1
        # The first two are slow, the others take a little more each time.
        self.machine.now += 1000.0 if self.runs <= 2 else float(name) * self.runs


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(timing, "perf_counter", lambda: machine.now)
    monkeypatch.setattr(latency, "MxnetSession", machine)
    # The clock is made up, so that nobody waits for as long as users do.
    monkeypatch.setattr(latency, "_SECONDS", SECONDS)
    return machine


def network(seconds: float, data: str) -> Graph:
    node = Node(str(seconds), "relu", (Tensor(data),), {}, (str(seconds),))
    return Graph((node,), (data,), (node.output,))


# Exact in binary.
TICK = 1 / 1024
NETWORKS = {"fast": network(TICK, "data"), "slow": network(4 * TICK, "input")}


@pytest.mark.parametrize(
    ("seconds", "runs"), [(None, 33), (1.0, 18), (0.0, 6), (209 * TICK, 7), (210 * TICK, 7), (211 * TICK, 8)]
)
def test_networks_take_turns_until_the_time_is_up(machine: Machine, seconds: Optional[float], runs: int) -> None:
    times = latencies_in_turns(NETWORKS, IMAGE) if seconds is None else latencies_in_turns(NETWORKS, IMAGE, seconds)
    # Together 15, 20, 25 ... ticks: 210 in seven rounds.
    numbers = np.arange(3, 3 + runs) * TICK * 1000
    assert list(times) == ["fast", "slow"]
    np.testing.assert_allclose(times["fast"], numbers)
    np.testing.assert_allclose(times["slow"], 4 * numbers)
    # Each is warmed up by two runs first.
    assert machine.log[:4] == [str(TICK)] * 2 + [str(4 * TICK)] * 2
    assert [sorted(turns) for turns in rounds_of(machine)] == [sorted([str(TICK), str(4 * TICK)])] * runs


def rounds_of(machine: Machine, runs: int = 1) -> list[list[str]]:
    """What ran in each round after the warm-up; each turn has ``runs``."""
    turns = np.reshape(machine.log[4:], (-1, 2, runs))
    assert (turns == turns[:, :, :1]).all()
    return [list(map(str, names)) for names in turns[:, :, 0]]


def test_the_order_of_turns_differs_and_is_the_same_each_time(machine: Machine) -> None:
    latencies_in_turns(NETWORKS, IMAGE)
    first = rounds_of(machine)
    assert len({tuple(turns) for turns in first}) == 2
    machine.log.clear()
    latencies_in_turns(NETWORKS, IMAGE)
    assert rounds_of(machine) == first


def test_untimed_runs_come_before_each_timed_one(machine: Machine) -> None:
    times = latencies_in_turns(NETWORKS, IMAGE, 0.0, lead=2)
    # Every third of the runs after the first two.
    np.testing.assert_allclose(times["fast"], np.arange(5, 23, 3) * TICK * 1000)
    assert [sorted(turns) for turns in rounds_of(machine, 3)] == [sorted([str(TICK), str(4 * TICK)])] * 6


@pytest.mark.usefixtures("machine")
def test_medians() -> None:
    medians = median_latencies(NETWORKS, IMAGE)
    middle = float(np.median(np.arange(3, 3 + 33))) * TICK * 1000
    assert medians == {"fast": pytest.approx(middle), "slow": pytest.approx(4 * middle)}
    assert all(type(value) is float for value in medians.values())
