"""Layer by layer through the network: each layer repaired for the inputs that the quantized layers before leave it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from quantkit.host.blas import single_threaded_blas
from quantkit.ir.fused_layer import FusedLayer
from quantkit.ir.recurrent_layer import RecurrentLayer, known_matrices
from quantkit.progress import Progress
from quantkit.quantization.algorithms.bias_correction import bias_correction
from quantkit.quantization.algorithms.least_squares import mean_square, moments, refit, refit_to_few
from quantkit.quantization.algorithms.lstm import Int8Lstm, adapted_lstm, gates
from quantkit.quantization.algorithms.patches import layer_rows
from quantkit.quantization.algorithms.rounding import Curvature, OfRows, round_jointly, with_ridge
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.recurrent_weights import lstm_integers
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
    adapting = _Adapting(int8, algorithms, dict(folded.params), dict(network.lstm_scales))
    both = SideBySide(folded, adapting.network, images, adapting)
    for _ in progress(both.run(), len(folded.nodes), "adapting weights and biases"):
        pass
    params = {name: adapting.params[name] for name in network.graph.params}
    return replace(network, graph=replace(network.graph, params=params), lstm_scales=adapting.lstm_scales)


@dataclass(frozen=True, eq=False)
class _Adapting:
    """The ``Hooks`` that change each INT8 layer for the inputs that it is given, and compute it.

    ``params`` and ``lstm_scales`` change on the way.
    """

    network: Int8Network
    algorithms: PTQConfig
    params: dict[str, np.ndarray]
    lstm_scales: dict[str, np.ndarray]

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
                self.params[fused_layer.weight.node] = self._weight(
                    fused_layer, inputs, wanted if added is None else wanted - added
                )
        levels = self.network.network.weight_levels(fused_layer.node)
        weights = integer_weights(self.params[fused_layer.weight.node], levels)
        found = self.network.sums(fused_layer, inputs, weights, added)
        if (self.algorithms.bias or self.algorithms.refit) and fused_layer.bias is not None and bias is not None:
            change = bias_correction(wanted, found, partial(activated, fused_layer), fused_layer.is_non_negative)
            self.params[fused_layer.bias.node] = bias + change
            found += change.reshape(-1, *(1,) * (found.ndim - 2))
        return activated(fused_layer, wanted, out=wanted), self.network.finished(fused_layer, found)

    def lstm(self, lstm: RecurrentLayer, exact: Values, quantized: Values) -> tuple[np.ndarray, np.ndarray]:
        """See ``Hooks``."""
        network, weights = self.network.network, known_matrices(self.network.graph, lstm)
        (wanted,) = float_results(network.graph, lstm.node, exact)
        form, state = network.form(lstm.data), network.form(lstm.node.output).params
        layer = Int8Lstm(weights, lstm_integers(network, lstm), form, state)
        with single_threaded_blas():
            wanted_gates = gates(weights, exact[lstm.data], wanted)
            layer = adapted_lstm(layer, wanted_gates, quantized[lstm.data], self.algorithms)
            found = layer.run(quantized[lstm.data])
        self.params[lstm.parameters.node] = layer.weights.flat
        if self.algorithms.rounding:
            self.lstm_scales[lstm.node.name] = layer.integers.scale
        return wanted, found

    def _inputs(self, fused_layer: FusedLayer, quantized: Values) -> np.ndarray:
        """What a layer reads, in integers: INT8 operators put out such already."""
        network, values = self.network.network, quantized[fused_layer.data]
        producer = network.graph.producer(fused_layer.data)
        if producer is not None and network.computes_integers(producer):
            return values
        return self.network.rounded_input(fused_layer.data, values)

    def _weight(self, fused_layer: FusedLayer, inputs: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Other weights for a layer, from rows of its quantized input and of what it should put out."""
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
        if self.algorithms.rounding:
            ridge = np.minimum(strength, 1.0)[:, None, None] * mean_square(seen) * seen.shape[1]
            if few:
                curved: Curvature = OfRows(seen, ridge.astype(np.float32))
            else:
                curved = with_ridge(halves[0].inputs + halves[1].inputs, ridge)
            flat = weight.reshape(len(old), -1)
            levels = self.network.network.weight_levels(fused_layer.node)
            scale = peak_scale(flat, float(CONVOLUTION_LEVELS) if levels is None else levels)
            limit = LEVELS if levels is None else levels
            integers = round_jointly(weight, scale.reshape(groups, -1), curved, limit).reshape(flat.shape)
            weight = engine_weights(integers, scale) if levels is None else integers * scale[:, None]
        return weight.reshape(old.shape).astype(np.float32)


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
