"""Weights of INT8 LSTM layers in files: the symbol's file has them as its kernel reads them, in FP32.

So the fused network's own file holds only the biases and the scale of each row, which the kernel's form does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from pydantic import Field

from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.recurrent_layer import (
    GATES,
    Matrices,
    RecurrentLayer,
    feature_count,
    known_matrices,
    matrices,
    recurrent_layer_of,
)
from quantkit.lowering.mxnet_int8 import Int8Symbol
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.recurrent_weights import engine_integers, real_matrices

_REMEDY = "write the bundle again"


@dataclass(frozen=True)
class StoredLstm:
    """The fused network's flat vector ``name``, whose weights are in ``parameters`` of the lowered network.

    ``features`` is how many the layer reads; the kernel's form may have more columns.
    """

    name: str
    parameters: str
    features: Annotated[int, Field(gt=0)]


def stored_lstms(symbol: Int8Symbol) -> tuple[StoredLstm, ...]:
    """The flat vectors that are not stored whole."""
    return tuple(StoredLstm(name, each.parameters, each.features) for name, each in symbol.lstms.items())


def biases_and_scales(network: QuantizedGraph, symbol: Int8Symbol) -> dict[str, np.ndarray]:
    """What is stored of these vectors besides, by their names: both biases, then the scales, float32 (3 x rows,)."""
    layers = {layer.parameters.node: layer for layer in network.int8_lstms}
    weights = {name: known_matrices(network.graph, layers[name]) for name in symbol.lstms}
    return {
        name: np.concatenate([weights[name].input_bias, weights[name].state_bias, each.scale])
        for name, each in symbol.lstms.items()
    }


def with_lstm_weights(
    graph: Graph, plan: QuantizationPlan, stored: Sequence[StoredLstm], lowered: Mapping[str, np.ndarray]
) -> QuantizedGraph:
    """The quantized network whose INT8 LSTM layers have the weights that their integers stand for.

    Args:
        graph: the fused network, with ``biases_and_scales`` in place of these layers' flat vectors.
        plan: its plan.
        stored: where the weights are.
        lowered: the lowered network's parameters.

    Raises:
        ModelError: a parameter is missing, or does not fit its layer.
    """
    params, scales = dict(graph.params), {}
    layers = {layer.parameters: layer for layer in map(recurrent_layer_of, graph.nodes) if layer is not None}
    for each in stored:
        layer, own, flat = layers.get(Tensor(each.name)), params.get(each.name), lowered.get(each.parameters)
        if layer is None or own is None:
            raise ModelError(f"there are no biases and scales {each.name!r} of an LSTM layer; {_REMEDY}")
        if flat is None:
            raise _unusable(layer, f"its weights, {each.parameters!r}, are missing")
        if not {layer.data, layer.node.output} <= plan.tensors.keys():
            raise _unusable(layer, "its data or its state have no INT8 form in the plan")
        engine_form, scale = _engine_form(layer, each, flat, own)
        integers = engine_integers(engine_form, each.features, scale)
        data, state = (plan.tensors[tensor].params for tensor in (layer.data, layer.node.output))
        params[each.name] = real_matrices(integers, engine_form, data, state).flat
        scales[layer.node.name] = scale
    return QuantizedGraph(replace(graph, params=params), plan, scales)


def _engine_form(
    layer: RecurrentLayer, stored: StoredLstm, flat: np.ndarray, own: np.ndarray
) -> tuple[Matrices, np.ndarray]:
    """The kernel's weights with the layer's own biases, and the scales of their rows."""
    rows = GATES[layer.mode] * layer.hidden
    if layer.mode != "lstm" or layer.layers * layer.directions != 1 or rows < 1 or own.shape != (3 * rows,):
        raise _unusable(layer, f"{stored.name!r} does not hold biases and scales of an LSTM layer in one direction")
    features = feature_count(layer, flat.size)
    if features is None or not 0 <= features - stored.features <= 2:
        raise _unusable(layer, f"{stored.parameters!r} does not hold weights for {stored.features} features")
    input_bias, state_bias, scale = np.split(own, 3)
    if not np.isfinite(flat).all():
        raise _unusable(layer, f"{stored.parameters!r} holds values that are not finite")
    if not np.isfinite(own).all() or not (scale > 0).all():
        raise _unusable(layer, f"{stored.name!r} does not hold finite biases and positive scales")
    return replace(matrices(layer, flat, features)[0][0], input_bias=input_bias, state_bias=state_bias), scale


def _unusable(layer: RecurrentLayer, problem: str) -> ModelError:
    return ModelError(f"LSTM layer {layer.node.name!r}: {problem}; {_REMEDY}")
