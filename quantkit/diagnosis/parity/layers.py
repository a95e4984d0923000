"""Comparing the integers of MXNet's INT8 network with those of an ONNX file in another engine, layer by layer.

An INT8 LSTM layer has other roundings in the file than in MXNet (see ``lowering.onnx_lstm``). Alone, it is compared
with the arithmetic of its form by definition, on the first steps of one sequence: engines share scales among sequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.backends.base import Backend, Inputs
from quantkit.backends.mxnet.execute import run
from quantkit.backends.registry import Engine
from quantkit.diagnosis.parity.onnx_file import OnnxFile
from quantkit.evaluation.agreement import cosines
from quantkit.formats.onnx.writing.conversion import name_of
from quantkit.ir.deployed_form import DeployedForm
from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.recurrent_layer import RecurrentLayer, known_matrices, part_names, recurrent_layer_of
from quantkit.lowering.mxnet_int8 import Int8Symbol, int8_symbol
from quantkit.lowering.onnx_lstm import written_integers
from quantkit.lowering.qdq import tensor_params
from quantkit.progress import Progress, silent
from quantkit.quantization.arithmetic import dequantize
from quantkit.quantization.plan import operator_name
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.recurrent import dynamic_int8_lstm, int8_lstm

MOST_BEYOND = 0.01
"""The share of a layer's integers that may differ by more than one step, given the same integers as input.

Weights and sums are integers in both engines, so results differ by one step where the last bit of a scale decides
between two neighbours. Only results that were rounded more than once, as where tensors are added, differ by more.
"""

# Of an LSTM layer alone: where the last bit decides the rounding of one state, all later steps differ, and ever more.
_STEPS = 10

_AS_MEASURED = DeployedForm()


@dataclass(frozen=True)
class LayerParity:
    """How an engine's values of a tensor compare with MXNet's.

    ``cosine`` and ``beyond`` (the share of values that differ by more than one step) are measured in the whole network,
    with the errors of the layers before; ``alone`` is the same share if the layer reads what it reads in MXNet. A step
    is that of the tensor's integers, or the coarser one if the engines' differ. FP32 results have no integers: their
    step is 1/127 of the largest value.
    """

    tensor: str
    operator: str
    cosine: float
    beyond: float
    alone: float

    @property
    def ok(self) -> bool:
        """Whether the layer itself computes what it computes in MXNet."""
        return self.alone <= MOST_BEYOND


@dataclass(frozen=True, eq=False)
class _Layer:
    """An operator that computes integers, a dense or an LSTM layer: what it reads and writes in the file, by name.

    ``expected`` is what MXNet computes. ``by_definition`` is what the layer has to compute alone of what it reads, if
    that is not the same.
    """

    tensor: Tensor
    operator: str
    reads: Mapping[str, np.ndarray]
    writes: str
    expected: np.ndarray
    step: float
    by_definition: Optional[np.ndarray] = None


def layer_parity(
    network: QuantizedGraph,
    file: OnnxFile,
    engine: Engine[bytes],
    images: np.ndarray,
    progress: Progress = silent,
    deployed: DeployedForm = _AS_MEASURED,
) -> list[LayerParity]:
    """Compare every tensor that has integers, and the results of dense layers, in the network's order.

    The tensors are read from the network cut off after each of them: making an inner tensor an output of the whole
    network would keep engines from fusing the operators that compute it. Each layer is also cut out of the file and run
    alone, on the integers that MXNet computes, which shows its own error.

    Args:
        network: the quantized network.
        file: its ONNX file.
        engine: the engine.
        images: a batch of the network's input, float32; all its tensors are held in memory at once.
        progress: wraps the walk over the layers.
        deployed: what the file reads.

    Raises:
        EngineError: an engine cannot run the network.
        ModelError: the file has other tensors than the network.
    """
    layers = _layers(network, file, images)
    if not engine.backend().rewrites:
        # It computes what the file says, and engines in INT8 round the states of LSTM layers besides.
        layers = [layer for layer in layers if layer.by_definition is None]
    (name,) = network.graph.inputs
    tensors = [layer.writes for layer in layers]
    backend = engine.backend()
    computed = _tensors(file, backend, deployed.values(name, images), tensors)
    walk = progress(zip(layers, computed), len(layers), f"comparing {engine.title} with MXNet layer by layer")
    return [_compared(layer, file, backend, values) for layer, values in walk]


def first_diverging(layers: Sequence[LayerParity]) -> str:
    """The first tensor whose layer does not compute what it computes in MXNet; empty if all do."""
    return next((layer.tensor for layer in layers if not layer.ok), "")


def _tensors(file: OnnxFile, backend: Backend[bytes], inputs: Inputs, tensors: Sequence[str]) -> Iterator[np.ndarray]:
    """The tensors' values in the whole network."""
    shapes = {name: value.shape for name, value in inputs.items()}
    if not backend.rewrites:
        yield from backend.open_session(file.part(shapes, tensors)).run(inputs)
    else:
        for tensor in tensors:
            session = backend.open_session(file.part(shapes, [tensor]))
            yield session.run({name: inputs[name] for name in session.inputs})[0]


def _compared(layer: _Layer, file: OnnxFile, backend: Backend[bytes], actual: np.ndarray) -> LayerParity:
    part = file.part({name: value.shape for name, value in layer.reads.items()}, [layer.writes])
    alone = backend.open_session(part).run(layer.reads)[0]
    cosine = float(cosines(layer.expected[None], actual[None])[0])
    return LayerParity(
        str(layer.tensor),
        layer.operator,
        cosine if np.isfinite(cosine) else 0.0,
        _share_beyond(layer.expected, actual, layer.step),
        _share_beyond(layer.expected if layer.by_definition is None else layer.by_definition, alone, layer.step),
    )


def _share_beyond(expected: np.ndarray, actual: np.ndarray, step: float) -> float:
    # Real values stand for the integers; a thousandth of a step allows for their rounding.
    close = np.abs(expected - actual) <= 1.001 * step
    return 1.0 - float(close.mean())


def _layers(network: QuantizedGraph, file: OnnxFile, images: np.ndarray) -> list[_Layer]:
    symbol = int8_symbol(network)
    values = _mxnet_values(network, symbol, images)

    def rounded(tensor: Tensor, operator: str, reads: Mapping[str, np.ndarray]) -> _Layer:
        step = max(symbol.integers[tensor].form.params.scale, tensor_params(network.form(tensor)).scale)
        return _Layer(tensor, operator, reads, file.rounding(name_of(tensor)).after, values.integers[tensor], step)

    def quantized_later(tensors: Sequence[Tensor]) -> Iterator[_Layer]:
        for tensor in tensors:
            if tensor in values.floats and tensor in network.plan.tensors and tensor not in seen:
                seen.add(tensor)
                yield rounded(tensor, "quantize", {file.rounding(name_of(tensor)).before: values.floats[tensor]})

    seen: set[Tensor] = set()
    layers: list[_Layer] = []
    for node in network.graph.nodes:
        if not network.is_int8(node):
            continue
        recurrent = network.int8_recurrent(node)
        if recurrent is not None:
            layers.append(_lstm(network, file, recurrent, values))
            continue
        data = _data(node, network.graph)
        layers += quantized_later(data)
        reads = {file.rounding(name_of(tensor)).before: values.integers[tensor] for tensor in data}
        if network.computes_integers(node):
            layers.append(rounded(node.output, operator_name(node), reads))
        else:
            expected = values.floats[node.output]
            step = float(np.abs(expected).max()) / 127 or 1.0
            layers.append(_Layer(node.output, operator_name(node), reads, name_of(node.output), expected, step))
    return layers


def _lstm(network: QuantizedGraph, file: OnnxFile, layer: RecurrentLayer, values: _Values) -> _Layer:
    form, state = network.form(layer.data), network.form(layer.node.output).params
    arithmetic = dynamic_int8_lstm if file.lstm == "dynamic" else int8_lstm
    weights, integers = known_matrices(network.graph, layer), written_integers(network, layer, file.lstm)
    read = {tensor: values.of(tensor)[:1] for tensor in (layer.data, *layer.states)}
    read[layer.data] = read[layer.data][:, :_STEPS]
    initial = [read[each] for each in layer.states]
    result, _ = arithmetic(read[layer.data], weights, integers, form, state, initial)
    reads, output = {name_of(tensor): value for tensor, value in read.items()}, layer.node.output
    return _Layer(output, operator_name(layer.node), reads, name_of(output), values.floats[output], state.scale, result)


def _data(node: Node, graph: Graph) -> list[Tensor]:
    """The tensors that a node reads, without parameters."""
    fused_layer = fused_layer_of(node)
    read = (
        node.inputs
        if fused_layer is None
        else (fused_layer.data, *((fused_layer.addend,) if fused_layer.addend is not None else ()))
    )
    return [tensor for tensor in dict.fromkeys(read) if tensor.node not in graph.params]


@dataclass(frozen=True, eq=False)
class _Values:
    """What MXNet computes: FP32 tensors that become integers or follow from them, and the real values of integers."""

    floats: Mapping[Tensor, np.ndarray]
    integers: Mapping[Tensor, np.ndarray]

    def of(self, tensor: Tensor) -> np.ndarray:
        """A tensor in FP32, or the real values of its integers where it has no other form."""
        return self.floats[tensor] if tensor in self.floats else self.integers[tensor]


def _mxnet_values(network: QuantizedGraph, symbol: Int8Symbol, images: np.ndarray) -> _Values:
    (name,) = network.graph.inputs
    computed = dict.fromkeys([*network.plan.tensors, *(node.output for node in network.graph.nodes)])
    # Between recurrent layers, MXNet computes steps first only.
    steps_first = {
        tensor: Tensor(part_names(tensor.node)[-1])
        for tensor in computed
        if recurrent_layer_of(network.graph.producer(tensor)) is not None
    }
    in_floats = {
        tensor: place
        for tensor in computed
        if (place := steps_first.get(tensor, tensor)).node in symbol.graph.by_name
        and not network.computes_integers(network.graph.by_name[tensor.node])
    }
    stored = symbol.integers
    wanted = [*in_floats.values(), *(each.tensor for each in stored.values())]
    results = dict(zip(wanted, run(symbol.graph.with_outputs(wanted), {name: images})))
    floats = {tensor: results[place] for tensor, place in in_floats.items()}
    return _Values(
        {
            Tensor(name): images,
            **{tensor: value.swapaxes(0, 1) if tensor in steps_first else value for tensor, value in floats.items()},
        },
        {tensor: dequantize(results[each.tensor], each.form.params) for tensor, each in stored.items()},
    )
