"""What must hold of every network, tried on random ones."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.bundle.quantization import read_quantized, write_quantized
from quantkit.formats.mxnet import nnvm
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.progress import silent
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.ptq_config import preset
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.equivalence import as_near_as_simulated, close
from tests.quantization.algorithms.networks import planned
from tests.random_graphs import Network, networks
from tests.requirements import requires

pytestmark = [pytest.mark.usefixtures("engine"), pytest.mark.timeout(3600)]


def examples(count: int) -> settings:
    """So many, or the profile's where that is the long one."""
    profile = settings.get_current_profile_name()
    return settings(
        max_examples=settings.default.max_examples if profile == "long" else count,
        suppress_health_check=list(HealthCheck),
    )


@examples(100)
@given(network=networks())
def test_fused_networks_compute_what_the_original_does(network: Network) -> None:
    fused = fuse(network.graph, network.image)
    close(network, float_graph(fused.graph))
    # No operator is lost on the way: each stands in some origin, or did nothing.
    kept = {name for node in fused.graph.nodes for name in node.origin}
    gone = {node.name for node in network.graph.nodes} - kept
    assert all(network.graph.by_name[name].op in ("Dropout", "identity") for name in gone)


@examples(60)
@given(network=networks())
def test_symbols_are_read_as_they_were_written(network: Network) -> None:
    for graph in (network.graph, float_graph(fuse(network.graph, network.image).graph)):
        text = nnvm.serialize(graph)
        again = nnvm.parse(text, graph.params)
        assert nnvm.serialize(again) == text
        assert again.inputs == graph.inputs and again.outputs == graph.outputs
        assert [(n.name, n.op, n.inputs, dict(n.attrs)) for n in again.nodes] == [
            (n.name, n.op, n.inputs, dict(n.attrs)) for n in graph.nodes
        ]
        assert again.params.keys() == graph.params.keys()


@pytest.mark.requires("vnni")
@pytest.mark.usefixtures("int8_engine")
@examples(100)
@given(network=networks())
def test_what_is_planned_as_int8_is_lowered_and_runs_near_fp32(network: Network) -> None:
    fused, plan = planned(network.graph, network.data)
    int8 = int8_graph(QuantizedGraph(fused.graph, plan))
    ran = {node.name for node in int8.nodes if node.attrs.get("quantized") == "true"}
    layers = [d for d in plan.decisions.values() if d.is_int8 and d.operator.startswith(("Conv", "Fully"))]
    assert len(ran) == len(layers)
    as_near_as_simulated(network, run(int8, {"data": network.data}), 2.0)


@examples(60)
@given(network=networks(), algorithms=st.sampled_from(["none", "balanced"]))
def test_quantized_networks_are_read_as_they_were_written(
    network: Network, algorithms: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fused, plan = planned(network.graph, network.data)
    before = QuantizedGraph(fused.graph, plan)
    quantized = apply_algorithms(before, fused.original, [network.data], "minmax", preset(algorithms), silent).network
    folder = tmp_path_factory.mktemp("quantized")
    write_quantized(quantized, folder)
    # It is compared by its weights and operators with what it was lowered to.
    again = read_quantized(folder, int8_graph(quantized))
    assert vars(again.plan) == vars(quantized.plan)


@examples(60)
@given(network=networks())
def test_onnx_files_are_read_back_as_the_same_network(
    network: Network, tmp_path_factory: pytest.TempPathFactory
) -> None:
    requires("onnx")
    from quantkit.formats.onnx.reading.network import import_network
    from quantkit.formats.onnx.writing.model import onnx_model

    shapes = infer_shapes(network.graph, {"data": (1, *network.image)})
    path = tmp_path_factory.mktemp("onnx") / "net.onnx"
    path.write_bytes(onnx_model(network.graph, shapes, 19).SerializeToString())
    again = import_network(path, network.image)
    (name,) = again.graph.inputs
    close(network, again.graph, name)


@pytest.mark.requires("vnni")
@pytest.mark.usefixtures("int8_engine")
@examples(60)
@given(network=networks())
def test_int8_files_compute_in_onnx_runtime_what_the_engine_does(network: Network) -> None:
    requires("onnxruntime")

    from quantkit.backends.registry import ONNXRUNTIME
    from quantkit.formats.onnx.writing.model import onnx_model
    from quantkit.lowering.qdq import qdq_network

    fused, plan = planned(network.graph, network.data)
    shapes = infer_shapes(float_graph(fused.graph), {"data": (1, *network.image)})
    file = qdq_network(QuantizedGraph(fused.graph, plan), shapes)
    session = ONNXRUNTIME.backend().open_session(onnx_model(file.graph, file.shapes, 19).SerializeToString())
    as_near_as_simulated(network, session.run({"data": network.data}), 2.0)
