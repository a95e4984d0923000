"""Saturation in 16 bits against a loop over all pairs, and against the engine's kernels for AVX2."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quantkit.diagnosis.layers.layer import without_vnni
from quantkit.diagnosis.layers.overflow import OverflowSums, can_saturate, saturating
from quantkit.ir.fused_layer import FusedLayer, fused_layer_of
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.simulator import int8_network
from tests.networks import DATA, Builder
from tests.quantization.algorithms.networks import planned


def dense(features: int) -> Graph:
    b = Builder()
    return b.graph(b.dense("layer", DATA, features, 5))


def convolution(channels: int, kernel: int = 3, groups: int = 1, stride: int = 1) -> Graph:
    b = Builder()
    graph = b.graph(b.conv("layer", DATA, channels, 8, kernel, groups=groups))
    node = graph.nodes[0]
    return replace(graph, nodes=(replace(node, attrs={**node.attrs, "stride": f"({stride}, {stride})"}),))


def layer_in(graph: Graph) -> FusedLayer:
    fused_layer = fused_layer_of(graph.nodes[0])
    assert fused_layer is not None
    return fused_layer


def brute_force(inputs: np.ndarray, weights: np.ndarray, stride: int) -> tuple[np.ndarray, int, np.ndarray]:
    """One pair after the other; dense layers are 1x1 convolutions."""
    pad = weights.shape[2] // 2
    padded = np.pad(inputs.astype(int), ((0, 0), (0, 1), (pad, pad), (pad, pad)))
    kernels = np.pad(weights.astype(int), ((0, 0), (0, 1), (0, 0), (0, 0)))
    size = [(extent - 1) // stride + 1 for extent in inputs.shape[2:]]
    lost = np.zeros((len(inputs), len(weights), *size), int)
    counts, pairs = np.zeros(len(weights), int), 0
    for image, channel, row, column in np.ndindex(lost.shape):
        for first in range(0, inputs.shape[1], 2):
            for down, across in np.ndindex(*weights.shape[2:]):
                seen = padded[image, first : first + 2, row * stride + down, column * stride + across]
                total = int(seen @ kernels[channel, first : first + 2, down, across])
                excess = total - min(max(total, -32768), 32767)
                counts[channel] += excess != 0
                lost[image, channel, row, column] += excess
                pairs += channel == 0
    return counts, pairs, lost


@pytest.mark.parametrize(("channels", "kernel", "stride"), [(4, 3, 1), (5, 3, 2), (6, 1, 1)])
def test_convolutions_against_a_loop(channels: int, kernel: int, stride: int) -> None:
    random = np.random.default_rng(0)
    inputs = random.integers(0, 256, (2, channels, 5, 6)).astype(np.uint8)
    weights = random.integers(-128, 128, (8, channels, kernel, kernel)).astype(np.int8)
    losses = saturating(layer_in(convolution(channels, kernel, stride=stride)), inputs, weights)
    counts, pairs, lost = brute_force(inputs, weights, stride)
    assert counts.sum() > 10
    np.testing.assert_array_equal(losses.counts, counts)
    np.testing.assert_array_equal(losses.lost, lost)
    assert losses.pairs == pairs


def test_groups_against_a_loop_over_each() -> None:
    random = np.random.default_rng(0)
    inputs = random.integers(0, 256, (2, 6, 5, 6)).astype(np.uint8)
    weights = random.integers(-128, 128, (8, 3, 3, 3)).astype(np.int8)
    losses = saturating(layer_in(convolution(6, groups=2)), inputs, weights)
    parts = [brute_force(inputs[:, 3 * group :][:, :3], weights[4 * group :][:4], 1) for group in range(2)]
    np.testing.assert_array_equal(losses.counts, np.concatenate([counts for counts, _, _ in parts]))
    np.testing.assert_array_equal(losses.lost, np.concatenate([lost for _, _, lost in parts], axis=1))
    assert losses.pairs == parts[0][1]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_dense_layers_against_a_loop(dtype: str) -> None:
    random = np.random.default_rng(0)
    inputs = random.integers(0, 256, (4, 7)).astype(np.uint8)
    weights = random.integers(-128, 128, (5, 7)).astype(np.int8)
    given = inputs if dtype == "uint8" else (inputs.astype(int) - 128).astype(np.int8)
    losses = saturating(layer_in(dense(7)), given, weights)
    counts, pairs, lost = brute_force(inputs[:, :, None, None], weights[:, :, None, None], 1)
    assert counts.sum() > 2
    np.testing.assert_array_equal(losses.counts, counts)
    np.testing.assert_array_equal(losses.lost, lost[:, :, 0, 0])
    assert losses.pairs == pairs


def test_shares() -> None:
    sums = OverflowSums()
    inputs = np.full((3, 2), 255, np.uint8)
    weights = np.array([[127, 127], [127, 1], [-128, -128], [0, 0], [64, 64]], np.int8)
    fused_layer = layer_in(dense(2))
    for batch in (inputs, 0 * inputs):
        sums.add(saturating(fused_layer, batch, weights))
    result = sums.result()
    assert (result.share, result.channels, result.worst) == (0.2, 0.4, 0.5)


def test_where_nothing_can_saturate() -> None:
    assert can_saturate(layer_in(convolution(4)), "uint8")
    assert not can_saturate(layer_in(convolution(4)), "int8")
    assert not can_saturate(layer_in(convolution(8, groups=8)), "uint8")
    assert can_saturate(layer_in(convolution(8, groups=2)), "uint8")
    assert can_saturate(layer_in(dense(4)), "int8")


CASES = {
    "3x3": (convolution(16), 0.3),
    "3 channels": (convolution(3), 0.3),
    "1x1": (convolution(16, kernel=1), 0.3),
    "stride": (convolution(6, stride=2), 0.3),
    "signed": (convolution(16), -1.0),
    "depthwise": (convolution(8, groups=8), 0.3),
    "groups": (convolution(16, groups=2), 0.3),
    "signed groups": (convolution(16, groups=2), -1.0),
    "groups of two": (convolution(16, groups=4), 0.3),
    "signed groups of two": (convolution(16, groups=4), -1.0),
    "dense": (dense(16 * 64), 0.3),
    "signed dense": (dense(16 * 64), -1.0),
}


@pytest.mark.requires("onednn")
@pytest.mark.parametrize("name", CASES)
def test_the_engine_without_vnni_loses_what_is_predicted(name: str, tmp_path: Path) -> None:
    graph, low = CASES[name]
    weights = np.abs(graph.params["layer_weight"]) ** 0.3
    graph = replace(graph, params={**graph.params, "layer_weight": weights})
    channels = weights.shape[1] * layer_in(graph).groups if weights.ndim == 4 else 16
    data = np.random.default_rng(1).uniform(low, 1, (2, channels, 8, 8)).astype(np.float32)
    fused, plan = planned(graph, data)
    network = int8_network(QuantizedGraph(fused.graph, plan))
    node = network.graph.nodes[0]
    losses, predicted = without_vnni(network, node, {DATA: data})
    exact = network.results(node, {DATA: data})[0]
    engine = run_without_vnni(int8_graph(QuantizedGraph(fused.graph, plan)), data, tmp_path)
    step = np.abs(exact).max() / 127
    # Depthwise convolutions and those of signed input do not saturate, but the latter have coarser weights.
    assert (np.abs(engine - exact).max() > 3.5 * step) == (losses is not None and bool(losses.counts.any()))
    assert ((np.abs(engine - exact) > 0.5 * step).mean() > 0.01) == (name != "depthwise" and "of two" not in name)
    # Sums on the edge between two integers may fall to either side.
    assert np.abs(engine - predicted).max() < 1.01 * step
    assert (np.abs(engine - predicted) > 0.5 * step).mean() < 0.01


def run_without_vnni(graph: Graph, data: np.ndarray, folder: Path) -> np.ndarray:
    """The network's output in a process whose engine is told that there is AVX2 only."""
    from quantkit.formats.mxnet import nnvm

    (folder / "net.json").write_text(nnvm.serialize(graph))
    np.savez(folder / "net.npz", **graph.params)  # type: ignore[arg-type]
    np.save(folder / "data.npy", data)
    program = (
        "import numpy as np; from pathlib import Path; from quantkit.formats.mxnet import nnvm; "
        "from quantkit.backends.mxnet.execute import run; "
        "graph = nnvm.parse(Path('net.json').read_text(), dict(np.load('net.npz'))); "
        "np.save('out.npy', run(graph, {'data': np.load('data.npy')})[0])"
    )
    environment = {**os.environ, "DNNL_MAX_CPU_ISA": "AVX2", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, check=True)
    return np.asarray(np.load(folder / "out.npy"))
