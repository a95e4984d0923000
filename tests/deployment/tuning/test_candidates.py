"""What tuning tries on machines of all kinds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quantkit.bundle import Bundle
from quantkit.deployment.instances import Instances
from quantkit.deployment.runtime import Runtime
from quantkit.deployment.streams import Streams
from quantkit.deployment.tuning import candidates
from quantkit.deployment.tuning.candidates import loads, placements, structures, variants
from quantkit.deployment.tuning.contestant import Contestant
from quantkit.deployment.tuning.goal import TuningGoal
from quantkit.deployment.tuning.point import Load
from quantkit.host.topology import Core, Node, Topology


def machine(cores: int, nodes: int = 1, smt: int = 1) -> Topology:
    each = cores // nodes
    made = [
        Core(core // each, core // each, tuple(core + cores * k for k in range(smt)),
             tuple(core + cores * k for k in range(smt)))
        for core in range(cores)
    ]  # fmt: skip
    return Topology(tuple(made), tuple(Node(node, (node,)) for node in range(nodes)))


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (machine(1), ["core"]),
        (machine(2), ["core", "node"]),
        (machine(8), ["core", "4x2", "2x4", "node"]),
        (machine(8, nodes=2), ["core", "4x2", "2x4", "machine"]),
        (machine(2, smt=2), ["core", "node", "core:smt", "machine:smt"]),
        (replace(machine(8), quota=2.0), ["core", "node"]),
    ],
)
def test_placements_differ(topology: Topology, expected: list[str]) -> None:
    assert placements(topology) == expected


def test_every_engine_in_every_form(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "read_topology", lambda: machine(4))
    monkeypatch.setattr(candidates, "session_threads", lambda: 4)
    monkeypatch.setattr(candidates, "usable_engines", lambda bundle: {"mxnet": "1", "openvino": "2"})
    found = {(each.engine, each.spread) for each in structures([bundle], TuningGoal("latency"))}
    instances = {Instances(policy, batch=1) for policy in ("core", "2x2", "node")}
    streams = {Streams(4, 1, 1), Streams(2, 2, 1)}
    assert found == {
        *(("mxnet", spread) for spread in {None, *instances}),
        *(("openvino", spread) for spread in {None, *instances, *streams}),
    }


def test_bundles_and_engines_alternate(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "usable_engines", lambda bundle: {"mxnet": "1", "openvino": "2"})
    other = replace(bundle, directory=bundle.directory / "other")
    first = [*structures([bundle, other], TuningGoal())][:4]
    assert [(each.engine, each.label, each.spread) for each in first] == [
        (engine, label, None) for label in ("fp32", "other") for engine in ("mxnet", "openvino")
    ]
    assert {each.label for each in structures([bundle], TuningGoal())} == {""}
    assert candidates.default([bundle, other]).name == "fp32: MXNet, in one process"
    alike = replace(bundle, directory=bundle.directory / "other" / "fp32")
    assert candidates.default([alike, bundle]).label == "fp32 (1)"
    long = replace(bundle, directory=bundle.directory / ("n" * 200))
    assert candidates.default([long, bundle]).label == "n" * 60


def test_loads(bundle: Bundle) -> None:
    streams = Contestant(bundle, "openvino", Streams(2, batch=4))
    assert [*loads(streams, TuningGoal(), 2)] == [(Load(1, 2), Load(1, 4), Load(8, 4), Load(32, 2))]
    assert [*loads(replace(streams, spread=None), TuningGoal(), 1)] == [(Load(1, 1), Load(8, 1), Load(32, 1))]
    assert [*loads(streams, TuningGoal(rate=9.0), 2)] == [(Load(1, 32, 9.0),)]
    bounded = [*loads(streams, TuningGoal(p99=5.0), 2)]
    assert bounded[:3] == [(Load(1, 1),), (Load(1, 2),), (Load(1, 4),)] and bounded[-1] == (Load(1, 32),)


def test_one_setting_is_changed_at_a_time(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_installed", lambda engine, runtime: runtime.allocator != "tcmalloc")
    monkeypatch.setattr(candidates, "_huge_pages", lambda: True)
    best = Contestant(bundle, "mxnet", Instances("core", batch=4))
    changed = {name: each.spread for name, each in variants(best, TuningGoal(p99=10.0))}
    runtimes = {
        "jemalloc": Runtime(allocator="jemalloc"),
        "huge pages": Runtime(huge_pages=True),
        "no spinning": Runtime(blocktime=0),
        **{f"Intel's OpenMP, blocktime {ms}": Runtime("intel", blocktime=ms) for ms in (0, 1, 200)},
    }
    assert changed == {
        "batch 2": Instances("core", batch=2),
        "batch 8": Instances("core", batch=8),
        "a window of 1 ms": Instances("core", batch=4, window=0.001),
        **{name: Instances("core", batch=4, runtime=runtime) for name, runtime in runtimes.items()},
    }
    assert not [*variants(replace(best, spread=None), TuningGoal())]
    of_streams = {name for name, _ in variants(Contestant(bundle, "openvino", Streams(2)), TuningGoal())}
    assert of_streams == {"batch 4", "batch 16"}


def test_contestants_have_names_of_their_own(bundle: Bundle) -> None:
    spread = Instances("2x1", batch=4, window=0.002, runtime=Runtime("intel", 1, "jemalloc", True))
    assert Contestant(bundle, "mxnet", spread).name == (
        "MXNet, instances 2x1, batch 4, window 2 ms, intel OpenMP, blocktime 1, jemalloc, huge pages"
    )
    assert Contestant(bundle, "openvino", Streams(2, 3)).name == "OpenVINO, 2 streams of 3 threads, batch 8"
    assert Contestant(bundle, "openvino", own="LATENCY").name == "OpenVINO by itself, its LATENCY hint"
