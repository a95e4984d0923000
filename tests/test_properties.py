"""What must hold of every network, tried on random ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from quantkit.emission.mxnet_float import float_graph
from quantkit.emission.mxnet_int8 import int8_graph
from quantkit.engine.execute import run
from quantkit.fusion.fuse import fuse
from quantkit.fusion.gate import relative_difference
from quantkit.graph import nnvm
from quantkit.graph.graph import Graph, Tensor
from tests.random_graphs import RandomNetwork, networks
from tests.recovery.networks import planned, simulated

pytestmark = [pytest.mark.usefixtures("engine"), pytest.mark.timeout(3600)]


def examples(count: int) -> settings:
    """So many, or the profile's where that is the long one."""
    profile = settings.get_current_profile_name()
    return settings(
        max_examples=settings.default.max_examples if profile == "long" else count,
        suppress_health_check=list(HealthCheck),
    )


def rounding(network: RandomNetwork, wanted: list[np.ndarray]) -> list[float]:
    """What rounding may change of each output, relative: 1e-5, or 8 times what a millionth of the input does."""
    signs = np.random.default_rng(0).choice(np.array([-1, 1], np.float32), network.data.shape)
    noisy = run(network.graph, {"data": network.data * (1 + np.float32(2**-20) * signs)})
    return [max(1e-5, 8 * relative_difference(a, b)) for a, b in zip(wanted, noisy)]


def close(network: RandomNetwork, graph: Graph, name: str = "data") -> None:
    """Check that another form of the network computes the same."""
    wanted = run(network.graph, {"data": network.data})
    found = run(graph, {name: network.data})
    assert len(found) == len(wanted)
    for tensor, a, b, allowed in zip(network.graph.outputs, wanted, found, rounding(network, wanted)):
        assert a.shape == b.shape, str(tensor)
        assert relative_difference(a, b) <= allowed, str(tensor)


@examples(100)
@given(network=networks())
def test_fused_networks_compute_what_the_original_does(network: RandomNetwork) -> None:
    fused = fuse(network.graph, network.image)
    close(network, float_graph(fused.graph))
    # No operator is lost on the way: each stands in some origin, or did nothing.
    kept = {name for node in fused.graph.nodes for name in node.origin}
    gone = {node.name for node in network.graph.nodes} - kept
    assert all(network.graph.by_name[name].op in ("Dropout", "identity") for name in gone)


@examples(60)
@given(network=networks())
def test_symbols_are_read_as_they_were_written(network: RandomNetwork) -> None:
    for graph in (network.graph, float_graph(fuse(network.graph, network.image).graph)):
        text = nnvm.serialize(graph)
        again = nnvm.parse(text, graph.params)
        assert nnvm.serialize(again) == text
        assert again.inputs == graph.inputs and again.outputs == graph.outputs
        assert [(n.name, n.op, n.inputs, dict(n.attrs)) for n in again.nodes] == [
            (n.name, n.op, n.inputs, dict(n.attrs)) for n in graph.nodes
        ]
        assert again.params.keys() == graph.params.keys()


def error(wanted: np.ndarray, found: np.ndarray) -> float:
    """The root mean square of what is wrong, as a share of the largest value."""
    scale = float(np.abs(wanted).max()) or 1.0
    return float(np.sqrt(np.square(wanted.astype(np.float64) - found).mean())) / scale


def as_near_as_simulated(network: RandomNetwork, outputs: tuple[np.ndarray, ...], allowance: float) -> None:
    """Check that INT8 outputs are as near to FP32's as integer arithmetic lets expect.

    The simulation rounds where the plan says so. A value on the edge between two integers may fall either way, and all
    that follows from it: that is what ``allowance`` times the simulation's own error is for, and the 1/127 of a step.
    """
    fused, plan = planned(network.graph, network.data)
    expected = run(network.graph, {"data": network.data})
    tensors = simulated(fused.graph, plan, network.data, {})
    for tensor, wanted, found in zip(fused.graph.outputs, expected, outputs):
        assert found.shape == wanted.shape, str(tensor)
        assert np.isfinite(found).all(), str(tensor)
        simulation = tensors.get(tensor, network.data if tensor == Tensor("data") else None)
        assert simulation is not None, str(tensor)
        assert error(wanted, found) <= allowance * error(wanted, simulation) + 1 / 127, str(tensor)


@pytest.mark.usefixtures("int8_engine")
@examples(100)
@given(network=networks())
def test_what_is_planned_as_int8_is_emitted_and_runs_near_fp32(network: RandomNetwork) -> None:
    fused, plan = planned(network.graph, network.data)
    int8 = int8_graph(fused.graph, plan)
    ran = {node.name for node in int8.nodes if node.attrs.get("quantized") == "true"}
    layers = [d for d in plan.decisions.values() if d.precision == "int8" and d.operator.startswith(("Conv", "Fully"))]
    assert len(ran) == len(layers)
    as_near_as_simulated(network, tuple(run(int8, {"data": network.data})), 2.0)


@examples(60)
@given(network=networks())
def test_onnx_files_are_read_back_as_the_same_network(network: RandomNetwork, tmp_path_factory: object) -> None:
    pytest.importorskip("onnx")
    from quantkit.emission.onnx_model import onnx_model
    from quantkit.engine.execute import infer_shapes
    from quantkit.onnx_import.network import import_network

    shapes = infer_shapes(network.graph, {"data": (1, *network.image)})
    path = tmp_path_factory.mktemp("onnx") / "net.onnx"  # type: ignore[attr-defined]
    path.write_bytes(onnx_model(network.graph, shapes, 19).SerializeToString())
    again = import_network(Path(path), network.image)
    (name,) = again.graph.inputs
    close(network, again.graph, name)


@pytest.mark.usefixtures("int8_engine")
@examples(60)
@given(network=networks())
def test_int8_files_compute_in_onnx_runtime_what_the_engine_does(network: RandomNetwork) -> None:
    pytest.importorskip("onnxruntime")
    from quantkit.emission.onnx_model import onnx_model
    from quantkit.emission.qdq import qdq_network
    from quantkit.emission.read_int8 import read_int8
    from quantkit.engine.execute import infer_shapes
    from quantkit.runtimes.onnx_runtime import open_session

    int8 = int8_graph(*(lambda fused, plan: (fused.graph, plan))(*planned(network.graph, network.data)))
    graph, plan = read_int8(int8)
    shapes = infer_shapes(float_graph(graph), {"data": (1, *network.image)})
    file = qdq_network(graph, plan, shapes)
    session = open_session(onnx_model(file.graph, file.shapes, 19).SerializeToString())
    as_near_as_simulated(network, tuple(session.run({"data": network.data})), 2.0)
