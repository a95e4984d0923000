"""Layer by layer through the network: each layer repaired for the inputs that the quantized layers before leave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from quantkit.host.blas import single_threaded_blas
from quantkit.ir.fused_layer import FusedLayer
from quantkit.ir.recurrent_layer import RecurrentLayer, known_matrices
from quantkit.progress import Progress
from quantkit.quantization.algorithms.bias_correction import bias_correction
from quantkit.quantization.algorithms.least_squares import mean_square, moments, refit, refit_to_few
from quantkit.quantization.algorithms.lstm import Int8Lstm, adapted_lstm, gates, read_states
from quantkit.quantization.algorithms.patches import layer_rows
from quantkit.quantization.algorithms.rounding import Curvature, OfRows, round_jointly, with_ridge
from quantkit.quantization.grouped_weights import float_weights, grouped_scale, has_groups_of_channels
from quantkit.quantization.layer_weights import WeightRounding
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.recurrent_weights import lstm_integers
from quantkit.quantization.reduced_range import rounded_in_pairs
from quantkit.quantization.simulation.constants import with_constants_folded
from quantkit.quantization.simulation.integer_sums import integer_weights
from quantkit.quantization.simulation.operators import activated
from quantkit.quantization.simulation.simulator import Int8Network, SideBySide, Values, float_results, summed
from quantkit.quantization.threads import in_threads
from quantkit.quantization.weights import CONVOLUTION_LEVELS, LEVELS, engine_weights, peak_scale

# What a layer's rows may hold together, and how many there are at most: more change nothing in the result.
_ELEMENTS = 40_000_000
_ROWS = 10_000
_FEWEST_ROWS = 1_000


def reconstruct(
    network: QuantizedGraph, images: np.ndarray, algorithms: PTQConfig, progress: Progress
) -> QuantizedGraph:
    """The network with other weights and biases in its INT8 layers.

    The network runs twice side by side, as it is and as INT8 will compute it. Where a layer comes, its
    input in INT8 is known, and so is what it should put out.

    Args:
        network: the quantized network, its INT8 layers with biases.
        images: the network's input, float32 (images, channels, height, width).
        algorithms: which techniques to use.
        progress: wraps the operators.
    """
    folded = with_constants_folded(network.graph)
    int8 = Int8Network(replace(network, graph=folded), {})
    adapting = _Adapting(int8, algorithms, dict(folded.params), dict(network.weight_scales))
    both = SideBySide(folded, adapting.network, images, adapting)
    for _ in progress(both.run(), len(folded.nodes), "adapting weights and biases"):
        pass
    params = {name: adapting.params[name] for name in network.graph.params}
    return replace(network, graph=replace(network.graph, params=params), weight_scales=adapting.weight_scales)


@dataclass(frozen=True, eq=False)
class _Adapting:
    """The ``Hooks`` that change each INT8 layer for the inputs that it is given, and compute it.

    ``params`` and ``weight_scales`` change on the way.
    """

    network: Int8Network
    algorithms: PTQConfig
    params: dict[str, np.ndarray]
    weight_scales: dict[str, np.ndarray]

    def layer(self, fused_layer: FusedLayer, exact: Values, quantized: Values) -> tuple[np.ndarray, np.ndarray]:
        """See ``Hooks``."""
        graph = self.network.graph
        bias = None if fused_layer.bias is None else graph.params[fused_layer.bias.node]
        inputs, added = self._inputs(fused_layer, quantized), self.network.addend(fused_layer, quantized)
        addend = None if fused_layer.addend is None else exact[fused_layer.addend]
        wanted = summed(graph, fused_layer, graph.params[fused_layer.weight.node], exact[fused_layer.data], addend)
        # Of wider layers the fewest rows that tell anything would not fit into memory.
        narrow = _width(fused_layer, graph.params[fused_layer.weight.node]) * _FEWEST_ROWS <= _ELEMENTS
        if (self.algorithms.refit or self.algorithms.rounding) and narrow:
            # Tensors are large: this one is gone before the next is made.
            with single_threaded_blas():
                self._adapt_weight(fused_layer, inputs, wanted if added is None else wanted - added)
        weights = integer_weights(self.params[fused_layer.weight.node], self._rounding_of(fused_layer))
        found = self.network.sums(fused_layer, inputs, weights, added)
        if (self.algorithms.bias or self.algorithms.refit) and fused_layer.bias is not None and bias is not None:
            change = bias_correction(wanted, found, partial(activated, fused_layer), fused_layer.is_non_negative)
            self.params[fused_layer.bias.node] = bias + change
            found += change.reshape(-1, *(1,) * (found.ndim - 2))
        return activated(fused_layer, wanted, out=wanted), self.network.finished(fused_layer, found)

    def lstm(
        self, lstm: RecurrentLayer, exact: Values, quantized: Values
    ) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray]]:
        """See ``Hooks``."""
        network, weights = self.network.network, known_matrices(self.network.graph, lstm)
        wanted = float_results(network.graph, lstm.node, exact)
        form, state = network.form(lstm.data), network.form(lstm.node.output).params
        initial, begun = ([values[each] for each in lstm.states] for values in (exact, quantized))
        layer = Int8Lstm(weights, lstm_integers(network, lstm), form, state, begun)
        with single_threaded_blas():
            wanted_gates = gates(weights, exact[lstm.data], read_states(wanted[0], initial))
            layer = adapted_lstm(layer, wanted_gates, quantized[lstm.data], self.algorithms)
            found = layer.run(quantized[lstm.data])
        self.params[lstm.parameters.node] = layer.weights.flat
        if self.algorithms.rounding:
            self.weight_scales[lstm.node.name] = layer.integers.scale
        return wanted, found

    def _rounding_of(self, fused_layer: FusedLayer) -> WeightRounding:
        """How a layer's weights become integers, with the scales that they were adapted to."""
        rounding = self.network.network.weight_rounding(fused_layer.node)
        return replace(rounding, scale=self.weight_scales.get(fused_layer.node.name))

    def _inputs(self, fused_layer: FusedLayer, quantized: Values) -> np.ndarray:
        """What a layer reads, in integers: INT8 operators put out such already."""
        network, values = self.network.network, quantized[fused_layer.data]
        producer = network.graph.producer(fused_layer.data)
        if producer is not None and network.computes_integers(producer):
            return values
        return self.network.rounded_input(fused_layer.data, values)

    def _adapt_weight(self, fused_layer: FusedLayer, inputs: np.ndarray, target: np.ndarray) -> None:
        """Give a layer other weights, from rows of its quantized input and of what it should put out."""
        old = self.network.graph.params[fused_layer.weight.node]
        groups = fused_layer.groups
        weight = old.reshape(groups, len(old) // groups, -1).astype(np.float32)
        seen, wanted, odd = _rows(fused_layer, inputs, target, _width(fused_layer, old))
        few = seen.shape[1] < seen.shape[2]
        strength = np.full(groups, np.inf)
        both = (~odd, odd)
        halves = [] if few else in_threads(lambda half: moments(seen[:, both[half]], wanted[:, both[half]]), 2)
        # One image leaves none to choose the strength by.
        if self.algorithms.refit and odd.any() and not odd.all():
            fitted = refit_to_few(weight, seen, wanted, odd) if few else refit(weight, (halves[0], halves[1]))
            weight, strength = fitted
        # The old weights were multiples of these, new ones need not be.
        self.weight_scales.pop(fused_layer.node.name, None)
        if self.algorithms.rounding:
            ridge = np.minimum(strength, 1.0)[:, None, None] * mean_square(seen) * seen.shape[1]
            if few:
                curved: Curvature = OfRows(seen, ridge.astype(np.float32))
            else:
                curved = with_ridge(halves[0].inputs + halves[1].inputs, ridge)
            weight = self._rounded_jointly(fused_layer, weight, curved)
        self.params[fused_layer.weight.node] = weight.reshape(old.shape).astype(np.float32)

    def _rounded_jointly(self, fused_layer: FusedLayer, weight: np.ndarray, curvature: Curvature) -> np.ndarray:
        """A layer's weights, (groups, channels, weights), rounded jointly: (all channels, weights)."""
        groups = len(weight)
        flat = weight.reshape(-1, weight.shape[2])
        kind = self.network.network.weight_rounding(fused_layer.node).kind
        if kind == "pairs":
            scale = rounded_in_pairs(flat)[1]
            self.weight_scales[fused_layer.node.name] = scale
            return np.asarray(round_jointly(weight, scale[None], curvature, keeps="pairs")[0] * scale[:, None])
        if has_groups_of_channels(len(flat), groups):
            scale = grouped_scale(flat, groups)
            integers = round_jointly(weight, scale.reshape(groups, -1), curvature, keeps=None).reshape(flat.shape)
            return float_weights(integers, scale, flat, groups)
        scale = peak_scale(flat, float(CONVOLUTION_LEVELS) if kind == "engine" else LEVELS)
        integers = round_jointly(weight, scale.reshape(groups, -1), curvature).reshape(flat.shape)
        return engine_weights(integers, scale) if kind == "engine" else integers * scale[:, None]


def _width(fused_layer: FusedLayer, weight: np.ndarray) -> int:
    """How many values of a layer's input, all groups together, one position of its output follows from."""
    return fused_layer.groups * int(weight[0].size)


def _rows(
    fused_layer: FusedLayer, inputs: np.ndarray, target: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of inputs and targets, and which of them are of every second image; ``width``: of a row, all groups."""
    positions = int(np.prod(target.shape[2:]))
    total = len(target) * positions
    limit = int(np.clip(_ELEMENTS // width, _FEWEST_ROWS, _ROWS))
    chosen = np.arange(total)
    if total > limit:
        chosen = np.sort(np.random.default_rng(0).choice(total, limit, replace=False))
    seen, wanted = layer_rows(fused_layer, inputs, target, chosen)
    # Biases take care of the means.
    seen -= seen.mean(axis=1, keepdims=True)
    wanted -= wanted.mean(axis=1, keepdims=True)
    return seen, wanted, (chosen // positions) % 2 == 1
