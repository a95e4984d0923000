"""Convolutions in groups of several channels in INT8: quantkit's weights, convolutions side by side, and one scale.

    python benchmarks/grouped.py --out benchmarks/results/grouped

MXNet's kernel for such convolutions takes the wrong weight scales. quantkit gives it float weights that come out right
(``quantization.grouped_weights``). The alternatives are a convolution for each group, on slices of the integers, and
one scale for all channels. Each row is a convolution with the shape of one in ResNeXt or ShuffleNet, between two 1x1
convolutions of as many channels, with random weights. The gains of the grouped one's channels are log-normal with a
standard deviation of 0.5, so that their ranges differ. Signal to noise is that of the three layers' result against
FP32's, on the inputs of the calibration: in INT8, and with nothing but the grouped weights rounded. How latencies are
compared is said in turns.py; OUT.json has every reading, in ms. Nothing else may run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from command_line import Document, host_facts, rows_page, run, table, write_results
from turns import Ticks, command_of, measured, milliseconds, ratio, timing_arguments

import quantkit as qk
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.backends.mxnet.execute import run as run_once
from quantkit.fusion.engine_operators import CONVOLUTION
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.fused_layer import FusedLayer
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.quantization.layer_weights import layer_integers
from quantkit.quantization.quantized_graph import QuantizedGraph

_SAMPLES, _BATCHES = 8, (1, 16)
_OWN, _SPLIT, _FP32 = "quantkit", "side by side", "FP32"
_OWN_WEIGHTS, _ONE_SCALE = "weights of quantkit", "weights of one scale"

_COLUMNS = (
    "network", "channels", "groups", "kernel", "map", "batch", "quantkit, ms", "side by side, times that",
    "FP32, times that", "quantkit, dB", "side by side, dB", "weights alone: quantkit, dB", "one scale, dB",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A grouped convolution: its channels, groups and kernel, and the side of its feature maps."""

    network: str
    channels: int
    groups: int
    kernel: int
    side: int


SHAPES = (
    *(Shape("resnext50_32x4d", 128 << stage, 32, 3, 56 >> stage) for stage in range(4)),
    Shape("resnext101_64x4d", 256, 64, 3, 56),
    Shape("shufflenet_v1", 240, 3, 1, 28),
    Shape("shufflenet_v1", 480, 3, 1, 14),
)


@dataclass(frozen=True)
class Row:
    """What one shape gives: signal to noise in dB by form, and readings at one batch size."""

    shape: Shape
    batch: int
    decibels: dict[str, float]
    ticks: Ticks


def main() -> None:
    """Measure every shape of the networks named on the command line."""
    options = timing_arguments(__doc__, rounds=6, runs=20).parse_args()
    print("\n".join(table(_COLUMNS)), flush=True)
    rows: list[Row] = []
    for shape in SHAPES:
        if options.network and not any(part in shape.network for part in options.network):
            continue
        for row in _rows(shape, options.rounds, options.runs):
            rows.append(row)
            print(_line(asdict(row)), flush=True)
        if options.out is not None:
            command = command_of("grouped", options)
            write_results(options.out, command, host_facts(), {"rows": [asdict(each) for each in rows]}, page)


def _rows(shape: Shape, rounds: int, runs: int) -> Iterator[Row]:
    generator = np.random.default_rng(0)
    data = generator.normal(size=(max(_BATCHES), shape.channels, shape.side, shape.side)).astype(np.float32)
    model = qk.load_model(_three_layers(shape), input_shape=data.shape[1:])
    config = qk.QuantizationConfig(method="minmax", num_samples=_SAMPLES, preset="none")
    quantized = qk.quantize(model, data[:_SAMPLES], config)
    network = quantized.network
    (layer,) = (each for each in network.int8_layers if each.groups > 1)
    graphs = {
        _OWN: quantized.graph,
        _SPLIT: _side_by_side(quantized.graph, network, layer),
        _FP32: float_graph(network.graph),
    }
    rounded = {
        name: float_graph(replace(network.graph, params={**network.graph.params, layer.weight.node: weight}))
        for name, weight in _rounded_weights(network, layer).items()
    }
    found = {name: run_once(graph, {"data": data[:_SAMPLES]})[0] for name, graph in (graphs | rounded).items()}
    decibels = {name: _decibels(found[_FP32], each) for name, each in found.items() if name != _FP32}
    for batch in _BATCHES:
        forms = {name: partial(_ready, graph, data[:batch]) for name, graph in graphs.items()}
        yield Row(shape, batch, decibels, measured(forms, rounds, runs))


def _three_layers(shape: Shape) -> Any:
    mxnet = load_mxnet()
    mxnet.random.seed(0)
    layers = mxnet.gluon.nn
    network = layers.HybridSequential()
    grouped = layers.Conv2D(
        shape.channels, shape.kernel, padding=shape.kernel // 2, groups=shape.groups, activation="relu"
    )
    network.add(layers.Conv2D(shape.channels, 1, activation="relu"), grouped, layers.Conv2D(shape.channels, 1))
    network.initialize(mxnet.init.MSRAPrelu())
    network(mxnet.nd.zeros((1, shape.channels, shape.side, shape.side)))
    gains = np.random.default_rng(1).lognormal(0.0, 0.5, (shape.channels, 1, 1, 1))
    grouped.weight.set_data(grouped.weight.data() * mxnet.nd.array(gains))
    return network


def _side_by_side(graph: Graph, network: QuantizedGraph, layer: FusedLayer) -> Graph:
    """The INT8 network with a convolution for each group, on a slice of the integers."""
    whole = next(node for node in graph.nodes if node.op == CONVOLUTION and node.name.endswith(layer.node.name))
    data, _, bias, *span = whole.inputs
    params = dict(graph.params)
    weights = np.split(network.graph.params[layer.weight.node], layer.groups)
    biases = np.split(graph.params[bias.node], layer.groups)
    sliced = Node("sliced", "SliceChannel", (data,), {"num_outputs": str(layer.groups), "axis": "1"})
    nodes = [sliced]
    for index, values in enumerate(zip(weights, biases)):
        own = [Tensor(f"group{index}_{name}") for name in ("weight", "bias")]
        params.update({tensor.node: value for tensor, value in zip(own, values)})
        nodes.append(
            replace(
                whole,
                name=f"group{index}",
                inputs=(Tensor("sliced", index), *own, *span),
                body=_alone(whole, len(values[0])),
            )
        )
    parts = [[Tensor(f"group{index}", place) for place in range(3)] for index in range(layer.groups)]
    inputs = (*(part[0] for part in parts), *(bound for part in parts for bound in part[1:]))
    nodes.append(Node(whole.name, "_contrib_quantized_concat", inputs, {"dim": "1", "num_args": str(layer.groups)}))
    made = [new for node in graph.nodes for new in (nodes if node is whole else [node])]
    return replace(graph, nodes=tuple(made), params=params).pruned()


def _alone(whole: Node, filters: int) -> Graph:
    """The fused convolution of one group."""
    if whole.body is None:
        raise TypeError(f"{whole.name} is no fused convolution")
    core, *rest = whole.body.nodes
    core = replace(core, attrs={**core.attrs, "num_group": "1", "num_filter": str(filters)})
    return replace(whole.body, nodes=(core, *rest))


def _rounded_weights(network: QuantizedGraph, layer: FusedLayer) -> dict[str, np.ndarray]:
    """The grouped weights, rounded to the engine's scales and to one for all channels."""
    weight = network.graph.params[layer.weight.node]
    integers, scale = layer_integers(weight, network.weight_rounding(layer.node))
    step = np.abs(weight).max() / 127
    return {
        _OWN_WEIGHTS: (integers * scale.reshape(-1, 1, 1, 1)).astype(np.float32),
        _ONE_SCALE: (np.rint(weight / step) * step).astype(np.float32),
    }


def _ready(graph: Graph, data: np.ndarray) -> Callable[[], object]:
    session = MxnetSession(graph)
    return partial(session.run, {"data": data})


def _decibels(exact: np.ndarray, found: np.ndarray) -> float:
    noise = np.square(found.astype(np.float64) - exact).sum()
    return float(10 * np.log10(np.square(exact.astype(np.float64)).sum() / noise))


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, map(_line, document["rows"]))


def _line(row: Document) -> str:
    shape, ticks, decibels = row["shape"], row["ticks"], row["decibels"]
    cells = [shape["network"], shape["channels"], shape["groups"], shape["kernel"], shape["side"], row["batch"]]
    times = [milliseconds(ticks, _OWN), *(ratio(ticks, other, _OWN) for other in (_SPLIT, _FP32))]
    noise = [f"{decibels[form]:.1f}" for form in (_OWN, _SPLIT, _OWN_WEIGHTS, _ONE_SCALE)]
    return f"| {' | '.join(map(str, (*cells, *times, *noise)))} |"


if __name__ == "__main__":
    run(main)
