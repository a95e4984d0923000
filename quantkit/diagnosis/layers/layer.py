"""One layer alone: what it computes in FP32 and in INT8, and what its error is due to."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Optional

import numpy as np

from quantkit.diagnosis.layers.overflow import Saturating, can_saturate, saturating, takes_blocks
from quantkit.ir.fused_layer import FusedLayer, fused_layer_of
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.recurrent_layer import RecurrentLayer, known_matrices
from quantkit.quantization.arithmetic import quantize
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.recurrent_weights import real_matrices, unrounded
from quantkit.quantization.simulation.integer_sums import IntegerWeights
from quantkit.quantization.simulation.operators import activated
from quantkit.quantization.simulation.recurrent import int8_lstm
from quantkit.quantization.simulation.simulator import Int8Network, Values, float_results, summed
from quantkit.quantization.weights import engine_integers


def without_vnni(network: Int8Network, node: Node, values: Values) -> tuple[Optional[Saturating], np.ndarray]:
    """What saturates in an INT8 layer on processors without VNNI, and its output there; see ``overflow``.

    The first is None if nothing can saturate.
    """
    fused_layer = fused_layer_of(node)
    if fused_layer is None:
        return None, network.results(node, values)[0]
    weight = network.graph.params[fused_layer.weight.node]
    form = network.network.form(fused_layer.data)
    if not takes_blocks(fused_layer, weight):
        return None, network.results(node, values)[0]
    if fused_layer.is_convolution and form.dtype == "int8":
        halved = IntegerWeights(*engine_integers(weight, halved=True, groups=fused_layer.groups))
        return None, network.layer(fused_layer, values, halved)
    if not can_saturate(fused_layer, form.dtype):
        return None, network.results(node, values)[0]
    weights = network.weights[node.name]
    losses = saturating(fused_layer, quantize(values[fused_layer.data], form.params), weights.integers)
    step = (weights.scale * np.float32(form.params.scale)).reshape(-1, *(1,) * (losses.lost.ndim - 2))
    return losses, network.layer(fused_layer, values, weights, losses.lost * step)


class Parts(NamedTuple):
    """A layer's outputs for FP32's inputs.

    In ``own`` everything is in INT8. In ``weights`` only weights and biases are those of INT8; it is None if the layer
    has no weights. In ``tensors`` only the tensors that it reads and writes are rounded to integers, and an LSTM
    layer's state. ``without_vnni`` is ``own`` on processors without VNNI, where the sums in ``saturating`` lose
    something.
    """

    own: np.ndarray
    weights: Optional[np.ndarray]
    tensors: np.ndarray
    without_vnni: np.ndarray
    saturating: Optional[Saturating]


def parts(network: Int8Network, reference: Graph, node: Node, exact: Values, shifts: Values) -> Parts:
    """Run an INT8 layer alone.

    Args:
        network: the INT8 network.
        reference: the FP32 network, with nodes and tensors of the same names.
        node: a node of ``network``.
        exact: the tensors of the FP32 network.
        shifts: by how much some of the INT8 network's tensors are shifted, in a shape that can be added to them. The
            results are without these shifts.
    """
    moved = {
        tensor: exact[tensor] + shifts[tensor] if tensor in shifts else exact[tensor] for tensor in _data(node, exact)
    }
    back = shifts.get(node.output, np.float32(0.0))
    lstm = network.network.int8_recurrent(node)
    if lstm is not None:
        return _lstm_parts(network, reference, lstm, moved)
    own = network.results(node, moved)[0] - back
    lossy, narrow = without_vnni(network, node, moved)
    fused_layer, original = fused_layer_of(node), fused_layer_of(reference.by_name[node.name])
    if fused_layer is None or original is None:
        return Parts(own, None, own, own, None)
    weights = (
        summed(
            network.graph,
            fused_layer,
            network.weights[node.name].real,
            moved[fused_layer.data],
            _addend(fused_layer, moved),
        )
        - back
    )

    def through(tensor: Tensor, form: Optional[TensorQuantization] = None) -> np.ndarray:
        return network.rounded_input(tensor, moved[tensor], form) - shifts.get(tensor, np.float32(0.0))

    addend = (
        None if fused_layer.addend is None else through(fused_layer.addend, network.network.addend_form(fused_layer))
    )
    weight = reference.params[original.weight.node]
    result = activated(original, summed(reference, original, weight, through(fused_layer.data), addend))
    tensors = network.rounded_result(fused_layer, result + back) - back
    return Parts(own, activated(original, weights), tensors, narrow - back, lossy)


def _lstm_parts(network: Int8Network, reference: Graph, lstm: RecurrentLayer, values: Values) -> Parts:
    """The parts of an LSTM layer; its sums are those of processors without VNNI anyway, and none saturates."""
    node, graph = lstm.node, network.graph
    form, state = network.network.form(lstm.data), network.network.form(node.output).params
    integers, adapted = network.lstm_weights[node.name], known_matrices(graph, lstm)
    data, initial = values[lstm.data], [values[each] for each in lstm.states]
    own = int8_lstm(data, adapted, integers, form, state, initial)[0]
    real = real_matrices(integers, adapted, form.params, state)
    with_rounded = replace(graph, params={**graph.params, lstm.parameters.node: real.flat})
    weights = float_results(with_rounded, node, values)[0]
    exact = known_matrices(reference, RecurrentLayer(reference.by_name[node.name]))
    unrounded_weights = unrounded(exact, form.params, state, integers.scale)
    tensors = int8_lstm(data, exact, unrounded_weights, form, state, initial)[0]
    return Parts(own, weights, tensors, own, None)


def _data(node: Node, exact: Values) -> set[Tensor]:
    """The tensors that a node reads, without parameters."""
    return {tensor for tensor in node.inputs if tensor in exact}


def _addend(fused_layer: FusedLayer, values: Values) -> Optional[np.ndarray]:
    return None if fused_layer.addend is None else values[fused_layer.addend]
