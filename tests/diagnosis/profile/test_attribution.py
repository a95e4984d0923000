from __future__ import annotations

import re

import pytest

from quantkit.backends.mxnet.profiler import Run
from quantkit.diagnosis.profile.attribution import attribute, settled
from tests.diagnosis.profile.recordings import GRAPH, OPERATORS, recording, run


def test_the_middle_half_of_the_runs_is_settled() -> None:
    runs = [run(total, ()) for total in (5.0, 1.0, 9.0, 2.0, 3.0, 99.0, 4.0, 8.0)]
    assert [each.milliseconds for each in settled(runs)] == [3.0, 4.0, 5.0, 8.0]
    assert settled(runs[:1]) == tuple(runs[:1])


def test_times_are_means_and_add_up_to_the_run() -> None:
    times = attribute(recording(run(20.0, (4, 1, 10)), run(22.0, (6, 1, 11))), GRAPH)
    assert times.nodes == {"conv": 5.0, "relu": 1.0, "more": 10.5}
    assert times.total == 21.0
    assert sum(times.nodes.values()) + times.between == pytest.approx(times.total)
    assert times.spread == pytest.approx(0.1)
    assert times.doubt == ""


def test_operators_of_the_engine_itself_stand_apart() -> None:
    times = attribute(recording(run(20.0, (2, 4, 1, 10), ["CopyCPU2CPU", *OPERATORS])), GRAPH)
    assert times.others == {"CopyCPU2CPU": 2.0}
    assert times.nodes == {"conv": 4.0, "relu": 1.0, "more": 10.0}
    assert times.between == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (run(20.0, (4, 1), OPERATORS[:2]), "ran 2 operators where the network has 3"),
        (
            run(20.0, (4, 1, 10), ["Convolution", "Convolution", "Activation"]),
            "operator 2 is Convolution .* Activation",
        ),
    ],
)
def test_events_that_do_not_follow_the_nodes_are_no_nodes(wrong: Run, reason: str) -> None:
    times = attribute(recording(run(20.0, (4, 1, 10)), wrong), GRAPH)
    assert times.nodes == {}
    assert set(times.others) <= {"Convolution", "Activation"}
    assert sum(times.others.values()) + times.between == pytest.approx(times.total)
    assert re.search(reason, times.doubt)


def test_an_unknown_node_is_a_doubt() -> None:
    times = attribute(recording(run(20.0, (4, 1, 10)), executed=("conv", "relu", "unknown")), GRAPH)
    assert times.nodes == {}
    assert "'unknown'" in times.doubt
