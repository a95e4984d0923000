"""Profiles of whole networks; what is recorded is made up, as the tests of the command record real ones."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from quantkit.backends.mxnet.peak import Peak
from quantkit.backends.mxnet.profiler import Recording
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.bundle.read import read_bundle
from quantkit.diagnosis.profile import measure
from quantkit.diagnosis.profile.measure import profile_network
from quantkit.ir.graph import Graph
from quantkit.models.load import load_model
from quantkit.progress import Tell
from tests.diagnosis.profile.recordings import recording, run


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is asked of the profiler, in whose place every operator takes a millisecond."""
    calls: list[tuple[Any, ...]] = []

    def record(graph: Graph, shape: tuple[int, ...], runs: Optional[int], tell: Tell) -> Recording:
        calls.append((shape, runs))
        tell("recording")
        seen = run(len(graph.nodes) + 1.0, [1.0] * len(graph.nodes), [node.op for node in graph.nodes])
        return recording(seen, executed=[node.name for node in graph.nodes])

    monkeypatch.setattr(measure, "record", record)
    monkeypatch.setattr(measure, "measured_peak", lambda: Peak(400.0, 100.0))
    return calls


def test_a_model_has_its_own_names(engine: None, asked: list[tuple[Any, ...]]) -> None:
    model = load_model("digits_resnet20_v1")
    told: list[str] = []
    profiled = profile_network(model, batch=2, runs=7, tell=told.append)
    assert (profiled.kind, profiled.graph, profiled.profile.batch) == ("fp32", model.graph, 2)
    assert asked == [((2, *model.input_shape), 7)]
    assert told == ["recording", "measuring the peak of this machine"]
    assert all(row.layer.originals == (row.layer.name,) for row in profiled.profile.rows)
    # Twice the work of one image.
    assert profiled.profile.macs == 2 * profile_network(model).profile.macs


def test_layers_of_a_bundle_stand_for_the_operators_it_was_made_from(
    digits_int8: QuantizedModel, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bundle = read_bundle(digits_int8.save(tmp_path_factory.mktemp("profile") / "digits"))
    profiled = profile_network(bundle)
    assert profiled.kind == "int8"
    fused = {row.layer.originals for row in profiled.profile.rows if len(row.layer.originals) > 1}
    together: dict[str, list[str]] = {}
    for row in bundle.operators:
        if row.into:
            together.setdefault(row.into, []).append(row.node)
    assert fused == {tuple(names) for names in together.values() if len(names) > 1}
