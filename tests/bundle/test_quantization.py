"""Quantized networks in files: what is read is lowered to the same network to the last bit, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.bundle import quantization
from quantkit.bundle.file_names import FUSED_PARAMS, FUSED_SYMBOL, QUANTIZATION
from quantkit.bundle.quantization import network_difference, read_quantized, write_quantized
from quantkit.calibration.ranges import Range
from quantkit.errors import ModelError
from quantkit.formats.mxnet import nnvm
from quantkit.formats.mxnet.params import read_params, write_params
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Node, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.arithmetic import activation_params
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.lowering.networks import NETWORKS, quantized

pytestmark = pytest.mark.usefixtures("engine")


def again(network: QuantizedGraph, folder: Path) -> QuantizedGraph:
    write_quantized(network, folder)
    return read_quantized(folder, int8_graph(network))


@pytest.mark.parametrize("preset", ["none", "balanced"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_what_it_was(name: str, preset: str, tmp_path: Path) -> None:
    network = quantized(name, preset)
    reread = again(network, tmp_path)
    assert vars(reread.plan) == vars(network.plan)
    assert nnvm.serialize(reread.graph) == nnvm.serialize(network.graph)
    assert [node.origin for node in reread.graph.nodes] == [node.origin for node in network.graph.nodes]
    assert reread.graph.params.keys() == network.graph.params.keys()
    dense = {layer.weight.node for layer in network.int8_layers if not layer.is_convolution}
    for name, value in reread.graph.params.items():
        before = network.graph.params[name]
        # Stored as integers of 127 levels, of which the same integers are made again.
        tolerance = np.abs(before).max() / 250 if name in dense else 0.0
        np.testing.assert_allclose(value, before, rtol=0, atol=tolerance)


def test_pre_add_ranges_and_what_was_asked_for_come_along(tmp_path: Path) -> None:
    network = quantized("v1", "none", "conv1")
    plan = replace(network.plan, pre_add_ranges={Tensor("relu2"): Range(-1.25, 3.5)}, dtype="int8")
    plan_again = again(replace(network, plan=plan), tmp_path).plan
    assert vars(plan_again) == vars(plan)
    assert plan_again.exclude == ("conv1",)


def test_the_file_is_for_people_too(tmp_path: Path) -> None:
    network = quantized("v1")
    write_quantized(replace(network, plan=replace(network.plan, exclude=("Größe*",))), tmp_path)
    lines = (tmp_path / QUANTIZATION).read_text(encoding="utf-8").splitlines()
    assert lines[:3] == ["{", ' "exclude": [', '  "Größe*"']


def test_nothing_is_stored_twice(tmp_path: Path) -> None:
    network = quantized("v1")
    write_quantized(network, tmp_path)
    # The bias of the dense layer, which stands in the lowered network as a row.
    assert list(read_params(tmp_path / FUSED_PARAMS)) == ["dense_bias"]


def test_weights_that_an_fp32_layer_reads_too_are_stored_as_they_are(tmp_path: Path) -> None:
    network = quantized("shared weights", "none", "first")
    assert [layer.node.name for layer in network.int8_layers] == ["conv", "second"]
    write_quantized(network, tmp_path)
    assert json.loads((tmp_path / QUANTIZATION).read_text())["weights"] == []
    reread = read_quantized(tmp_path, int8_graph(network))
    np.testing.assert_array_equal(reread.graph.params["first_weight"], network.graph.params["first_weight"])


def changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads((folder / QUANTIZATION).read_text())
    change(document)
    (folder / QUANTIZATION).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def tensor(document: dict[str, Any], name: str) -> dict[str, Any]:
    entry: dict[str, Any] = next(each for each in document["tensors"] if each["node"] == name)
    return entry


def operator(document: dict[str, Any], name: str) -> dict[str, Any]:
    entry: dict[str, Any] = next(each for each in document["operators"] if each["node"] == name)
    return entry


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another version": (lambda d: d.update(version=3), "at version: "),
    "a field too many": (lambda d: d.update(further=1), "at further: "),
    "no tensors": (lambda d: d.update(tensors=[]), "has no integer form, and node '.*' runs in INT8"),
    "another scale": (lambda d: tensor(d, "relu1").update(scale=1.0), "scale of 'relu1' does not follow from"),
    "an empty range": (lambda d: tensor(d, "relu1").update(low=3.0, high=1.0), "low end lies above its high end"),
    "a zero point": (lambda d: tensor(d, "relu1").update(zero_point=3), "zero_point"),
    "another range": (
        lambda d: tensor(d, "relu1").update(high=255.5, scale=1.0), "does not lower to the stored symbol: its operators"
    ),
    "a layer in FP32": (lambda d: operator(d, "relu1").update(precision="fp32"), "its operators differ"),
    "an operator that has no INT8 form": (
        lambda d: d["operators"].append({**operator(d, "flatten"), "node": "more"}), "whether there is a node 'more'"
    ),
    "an operator too few": (lambda d: d["operators"].pop(), "do not agree on whether there is a node 'dense'"),
    "weights that are not there": (
        lambda d: d["weights"][0].update(integers="nothing"), "no integers and scales that fit 'dense_weight'"
    ),
    "an operator without a name": (lambda d: d["operators"][0].pop("node"), r"at operators\.0\.node: "),
    "scales of another parameter": (
        lambda d: d["weights"][0].update(scales="relu0_weight"), "no integers and scales that fit 'dense_weight'"
    ),
    "weights of another parameter": (
        lambda d: d["weights"][0].update(name="relu0_weight"), "weights that are not parameters of the fused network"
    ),
    "one array for many parameters": (
        lambda d: d["weights"].extend({**d["weights"][0], "name": f"more{index}"} for index in range(9)),
        "weights that are not parameters of the fused network"
    ),
    "weights twice": (lambda d: d["weights"].append(d["weights"][0]), "is not as quantkit writes it"),
    "an operator twice": (lambda d: d["operators"].append(operator(d, "dense")), "is not as quantkit writes it"),
    "a sum twice": (
        lambda d: d["pre_add_ranges"].extend(2 * [{"node": "relu2", "index": 0, "low": 0.0, "high": 1.0}]),
        "is not as quantkit writes it"
    ),
    "a zero point that is no number": (
        lambda d: tensor(d, "relu1").update(zero_point=False), "zero_point|is not as quantkit writes it"
    ),
    "a scale that is 0 to engines": (
        lambda d: tensor(d, "relu1").update(
            low=0.0, high=1e-38, scale=activation_params(Range(0.0, 1e-38), tensor(d, "relu1")["dtype"]).scale
        ),
        "the scale of 'relu1' is not a normal float32 number"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_what_contradicts_itself_is_refused(case: str, tmp_path: Path) -> None:
    change, message = DAMAGE[case]
    network = quantized("v1")
    write_quantized(network, tmp_path)
    changed(tmp_path, change)
    with pytest.raises(ModelError, match=message):
        read_quantized(tmp_path, int8_graph(network))


def test_an_operator_without_an_int8_form_cannot_have_one(tmp_path: Path) -> None:
    network = quantized("two readers")
    write_quantized(network, tmp_path)
    changed(tmp_path, lambda d: operator(d, "relu").update(precision="int8"))
    with pytest.raises(ModelError, match=r"node 'relu' \(relu|Activation\) has no INT8 form"):
        read_quantized(tmp_path, int8_graph(network))


def test_other_weights_are_another_network(tmp_path: Path) -> None:
    network, other = quantized("v1"), quantized("signed shortcut")
    write_quantized(network, tmp_path)
    lowered = int8_graph(network)
    params = {**lowered.params, "dense_bias_row": lowered.params["dense_bias_row"] + 1}
    with pytest.raises(ModelError, match="the values of 'dense_bias_row' differ"):
        read_quantized(tmp_path, replace(lowered, params=params))
    with pytest.raises(ModelError):
        read_quantized(tmp_path, int8_graph(other))


def test_parameters_in_the_place_of_the_input_are_another_network(tmp_path: Path) -> None:
    network = quantized("v1")
    write_quantized(network, tmp_path)
    own = read_params(tmp_path / FUSED_PARAMS)
    with (tmp_path / FUSED_PARAMS).open("wb") as file:
        write_params(file, {**own, "data": np.ones((1, 3, 16, 16), np.float32)})
    with pytest.raises(ModelError, match=f"{FUSED_SYMBOL} is not as quantkit writes it"):
        read_quantized(tmp_path, int8_graph(network))


def test_networks_differ_by_inputs_operators_and_parameters() -> None:
    graph = int8_graph(quantized("v1"))
    assert network_difference(graph, graph) == ""
    given = replace(graph, inputs=(), params={**graph.params, "data": np.ones((1, 3, 16, 16), np.float32)})
    assert network_difference(graph, given) == "its inputs differ"
    assert network_difference(graph, replace(graph, outputs=graph.outputs * 2)) == "its operators differ"
    row = graph.params["dense_bias_row"]
    for other in (row + 1, row.astype(np.float64)):
        changed = replace(graph, params={**graph.params, "dense_bias_row": other})
        assert network_difference(graph, changed) == "the values of 'dense_bias_row' differ"


def test_a_scalar_holds_no_weights(tmp_path: Path) -> None:
    network = quantized("v1")
    write_quantized(network, tmp_path)
    lowered = int8_graph(network)
    name = json.loads((tmp_path / QUANTIZATION).read_text())["weights"][0]["integers"]
    scalar = replace(lowered, params={**lowered.params, name: np.array(3, np.int8)})
    with pytest.raises(ModelError, match="no integers and scales that fit 'dense_weight'"):
        read_quantized(tmp_path, scalar)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_scales_that_no_weights_have_are_refused(value: float, tmp_path: Path) -> None:
    network = quantized("v1")
    write_quantized(network, tmp_path)
    lowered = int8_graph(network)
    name = json.loads((tmp_path / QUANTIZATION).read_text())["weights"][0]["scales"]
    damaged = lowered.params[name].copy()
    damaged[0, 0] = value
    with pytest.raises(ModelError, match=f"the scales of 'dense_weight', '{name}', are not finite and positive"):
        read_quantized(tmp_path, replace(lowered, params={**lowered.params, name: damaged}))


def test_other_types_are_other_values(tmp_path: Path) -> None:
    network = quantized("v1")
    write_quantized(network, tmp_path)
    lowered = int8_graph(network)
    name = json.loads((tmp_path / QUANTIZATION).read_text())["weights"][0]["integers"]
    as_floats = {**lowered.params, name: lowered.params[name].astype(np.float32)}
    with pytest.raises(ModelError, match=f"the values of '{name}' differ"):
        read_quantized(tmp_path, replace(lowered, params=as_floats))


def test_a_name_twice_and_operators_of_no_use_are_refused(tmp_path: Path) -> None:
    network = quantized("v1")
    write_quantized(network, tmp_path)
    lowered = int8_graph(network)
    text = (tmp_path / QUANTIZATION).read_text()
    (tmp_path / QUANTIZATION).write_text(text.replace(' "weights"', ' "weights": [],\n "weights"'))
    with pytest.raises(ModelError, match=f"{QUANTIZATION} is not as quantkit writes it"):
        read_quantized(tmp_path, lowered)
    (tmp_path / QUANTIZATION).write_text(text)
    fused = network.graph
    unread = replace(fused, nodes=(*fused.nodes, Node("unread", "relu", (Tensor("data"),))))
    (tmp_path / FUSED_SYMBOL).write_text(nnvm.serialize(float_graph(unread)))
    with pytest.raises(ModelError):
        read_quantized(tmp_path, lowered)


def test_an_empty_file_and_long_ones_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = quantized("v1")
    write_quantized(network, tmp_path)
    lowered = int8_graph(network)
    with monkeypatch.context() as patch:
        patch.setattr(quantization, "_LARGEST_FILE", 100)
        with pytest.raises(ModelError, match=f"more than 100 bytes.*{QUANTIZATION}"):
            read_quantized(tmp_path, lowered)
    with monkeypatch.context() as patch:
        patch.setattr(nnvm, "LARGEST_SYMBOL", 100)
        with pytest.raises(ModelError, match=f"more than 100 bytes.*{FUSED_SYMBOL}"):
            read_quantized(tmp_path, lowered)
    (tmp_path / QUANTIZATION).write_bytes(b"")
    with pytest.raises(ModelError, match=f"{QUANTIZATION} at its beginning: "):
        read_quantized(tmp_path, lowered)


@pytest.mark.parametrize("name", [FUSED_SYMBOL, FUSED_PARAMS, QUANTIZATION])
def test_a_file_that_breaks_off(name: str, tmp_path: Path) -> None:
    network = quantized("v1")
    write_quantized(network, tmp_path)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError):
        read_quantized(tmp_path, int8_graph(network))
