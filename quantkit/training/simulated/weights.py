"""Integer weights in a training graph: rounded anew in every run, with the scale that the run's largest weight sets.

The arithmetic is that of ``layer_weights.layer_integers``, to the last bit. Gradients reach the weights straight
through the rounding (see ``rounding``), the largest of a channel like the others, and none by way of the scale.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

import numpy as np

from quantkit.ir.fused_layer import FusedLayer
from quantkit.ir.graph import Tensor
from quantkit.quantization.arithmetic import LIMITS, SMALLEST_PEAK
from quantkit.quantization.grouped_weights import has_groups_of_channels
from quantkit.quantization.layer_weights import RoundingKind, layer_integers
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.weights import CONVOLUTION_LEVELS, LEVELS
from quantkit.training.simulated.draft import Integers, Scale, TrainingDraft
from quantkit.training.simulated.rounding import half_even, saturated, with_gradient_of
from quantkit.training.simulated.scaling import scaled


def weight_obstacle(network: QuantizedGraph, layer: FusedLayer) -> Optional[str]:
    """Why the weights of an INT8 layer are not trained; None if they are."""
    rounding = network.weight_rounding(layer.node)
    if has_groups_of_channels(len(network.graph.params[layer.weight.node]), rounding.groups):
        return (
            f"the engine rounds the weights of groups of channels with each other's scales (layer {layer.node.name!r})"
        )
    if rounding.kind == "pairs":
        return f"no two neighbours among the weights may overflow 16 bits (layer {layer.node.name!r})"
    if rounding.scale is not None:
        return f"the scale of the weights is not that of the largest (layer {layer.node.name!r})"
    return None


def without_derived_scales(network: QuantizedGraph) -> QuantizedGraph:
    """The network without those scales of dense layers, as bundles hold them, that the largest weights give as well."""
    scales = {name: scale for name, scale in network.weight_scales.items() if not _is_derived(network, name)}
    return replace(network, weight_scales=scales)


def _is_derived(network: QuantizedGraph, name: str) -> bool:
    layer = network.int8_layer(network.graph.by_name[name])
    if layer is None:
        return False
    rounding, weight = network.weight_rounding(layer.node), network.graph.params[layer.weight.node]
    found, own = (layer_integers(weight, each) for each in (rounding, replace(rounding, scale=None)))
    return all(map(np.array_equal, found, own))


def integer_weights(draft: TrainingDraft, layer: FusedLayer) -> Integers:
    """The integers of an INT8 layer's weights, with a scale for each channel."""
    name, channels = f"{layer.node.name}_weight", len(draft.graph.params[layer.weight.node])
    if (obstacle := weight_obstacle(draft.network, layer)) is not None:
        return _constant(draft, layer, name, obstacle)
    kind = draft.network.weight_rounding(layer.node).kind
    rows = draft.op(f"{name}_rows", "Reshape", layer.weight, shape=(1, channels, -1, 1))
    peak = draft.op(f"{name}_peak", "max", draft.op(f"{name}_abs", "abs", rows), axis=(0, 2, 3))
    scale = (_engine_scale if kind == "engine" else _row_scale)(draft, name, peak)
    steps = scaled(draft, f"{name}_steps", rows, scale.factor, channels)
    nearest = _nearest(draft, name, rows, steps, scale, kind)
    # With the clip's gradient, 0, the largest weights, of 127.5 steps, would stay as they are.
    integers = with_gradient_of(draft, f"{name}_integers", nearest, steps)
    return Integers(draft.op(f"{name}_int8", "reshape_like", integers, layer.weight), scale)


def _constant(draft: TrainingDraft, layer: FusedLayer, name: str, reason: str) -> Integers:
    weight, rounding = draft.graph.params[layer.weight.node], draft.network.weight_rounding(layer.node)
    integers, steps = layer_integers(weight, rounding)
    values = draft.add_constant(f"{name}_int8", integers.astype(np.float32), reason)
    step = draft.add_constant(f"{name}_step", steps, reason)
    return Integers(values, Scale(step, draft.op(f"{name}_factor", "_rdiv_scalar", step, scalar=1.0)))


def _engine_scale(draft: TrainingDraft, name: str, peak: Tensor) -> Scale:
    """See ``weights.engine_integers``."""
    peak = _where_it_counts(draft, name, peak, peak)
    factor = draft.op(f"{name}_quotient", "_rdiv_scalar", peak, scalar=float(CONVOLUTION_LEVELS))
    factor = draft.op(f"{name}_factor", "BlockGrad", factor)
    return Scale(draft.op(f"{name}_step", "_rdiv_scalar", factor, scalar=1.0), factor)


def _row_scale(draft: TrainingDraft, name: str, peak: Tensor) -> Scale:
    """See ``weights.per_channel_int8``."""
    step = draft.op(f"{name}_quotient", "_div_scalar", peak, scalar=float(LEVELS))
    step = draft.op(f"{name}_step", "BlockGrad", _where_it_counts(draft, name, peak, step))
    return Scale(step, draft.op(f"{name}_factor", "_rdiv_scalar", step, scalar=1.0))


def _nearest(draft: TrainingDraft, name: str, rows: Tensor, steps: Tensor, scale: Scale, kind: RoundingKind) -> Tensor:
    """Weights, (1, channels, inputs, 1), as integers; ``steps`` are they in units of their scale."""
    if kind == "engine":
        return saturated(draft, f"{name}_nearest", steps, *LIMITS["int8"])
    # Divided in float64.
    step = draft.op(f"{name}_step_column", "Reshape", scale.step, shape=(1, -1, 1, 1))
    wide = [draft.op(f"{name}_wide", "Cast", each, dtype="float64") for each in (rows, step)]
    nearest = half_even(draft, f"{name}_nearest", draft.op(f"{name}_exact", "broadcast_div", *wide), "float64")
    return draft.op(f"{name}_narrow", "Cast", nearest, dtype="float32")


def _where_it_counts(draft: TrainingDraft, name: str, peak: Tensor, value: Tensor) -> Tensor:
    """``value`` where a channel's largest weight does not count as 0, elsewhere 1."""
    counts = draft.op(f"{name}_counts", "_greater_scalar", peak, scalar=SMALLEST_PEAK)
    return draft.op(f"{name}_where", "where", counts, value, draft.op(f"{name}_one", "ones_like", peak))
