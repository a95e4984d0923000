"""Layer by layer through the network: each layer repaired for the inputs that the quantized layers before leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Optional

import numpy as np

from quantkit.fusion.unit import Unit, has_constant_weights, unit_of
from quantkit.graph.graph import Graph, Node, Tensor
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.weights import engine_weights, peak_scale
from quantkit.recovery.bias_correction import bias_correction
from quantkit.recovery.constants import with_constants_folded
from quantkit.recovery.least_squares import moments, refit, row_basis
from quantkit.recovery.patches import group_count, layer_rows
from quantkit.recovery.preset import Recovery
from quantkit.recovery.rounding import OfRows, round_jointly, with_ridge
from quantkit.recovery.simulation import activated, engine_rounded, linear, operator_results, rounded, rounded_sum

Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]
"""Wraps an iterable of so many steps under a title, as tqdm does."""

# What a layer's rows may hold together, and how many there are at most: more change nothing in the result.
_ELEMENTS = 40_000_000
_ROWS = 10_000
_FEWEST_ROWS = 1_000


def reconstruct(network: QuantizedGraph, images: np.ndarray, recovery: Recovery, progress: Progress) -> QuantizedGraph:
    """The network with other weights and biases in its INT8 layers.

    The network runs twice side by side, as it is and as INT8 will compute it. Where a layer comes, its
    input in INT8 is known, and so is what it should put out.

    Args:
        network: the quantized network, its INT8 layers with biases.
        images: the network's input, float32 (images, channels, height, width).
        recovery: which techniques to use.
        progress: wraps the operators.
    """
    (name,) = network.graph.inputs
    folded = with_constants_folded(network.graph)
    start = {Tensor(name): images}
    walk = Walk(replace(network, graph=folded), recovery, {**start}, {**start}, dict(folded.params))
    for node in progress(folded.nodes, len(folded.nodes), "recovering accuracy"):
        walk.take(node)
    params = {name: walk.params[name] for name in network.graph.params}
    return replace(network, graph=replace(network.graph, params=params))


@dataclass
class Walk:
    """A network run twice side by side, operator by operator, and repaired on the way.

    Attributes:
        network: the quantized network, no operator of which computes from parameters alone.
        recovery: the techniques; with none, the INT8 network is simulated and no more.
        exact: the tensors that are still to be read, as FP32 has them.
        quantized: the same tensors as INT8 has them, in real numbers.
        params: the parameters, changed as far as the walk has come.
        done: the operators behind.
    """

    network: QuantizedGraph
    recovery: Recovery
    exact: dict[Tensor, np.ndarray]
    quantized: dict[Tensor, np.ndarray]
    params: dict[str, np.ndarray]
    done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Note for each operator the last of its outputs that something reads."""
        self._last_read: dict[str, int] = {}
        for tensor in (*self.graph.consumers, *self.graph.outputs):
            self._last_read[tensor.node] = max(tensor.index, self._last_read.get(tensor.node, 0))

    @property
    def graph(self) -> Graph:
        """The fused network, as it was."""
        return self.network.graph

    def take(self, node: Node) -> None:
        """Run the next operator."""
        unit = unit_of(node)
        if unit is None or not has_constant_weights(self.graph.params, unit):
            self._follow(node)
        elif self.network.is_int8(node):
            self._recover(unit)
        else:
            self._keep(unit)
        self.done.add(node.name)
        for tensor in set(node.inputs):
            if all(reader.name in self.done for reader in self.graph.consumers[tensor]):
                self.exact.pop(tensor, None)
                self.quantized.pop(tensor, None)

    def _follow(self, node: Node) -> None:
        """An operator without weights of its own."""
        count = self._last_read.get(node.name, 0) + 1
        for values in (self.exact, self.quantized):
            inputs = [values.get(tensor, tensor.node) for tensor in node.inputs]
            for index, found in enumerate(operator_results(node, inputs, self.params, count)):
                values[Tensor(node.name, index)] = found
        if self.network.is_int8(node):
            self.quantized[node.output] = rounded(self.quantized[node.output], self.network.form(node.output))

    def _keep(self, unit: Unit) -> None:
        """A layer that stays in FP32."""
        for values in (self.exact, self.quantized):
            result = self._linear(unit, values[unit.data])
            if unit.addend is not None:
                result = result + values[unit.addend]
            values[unit.node.output] = activated(unit, result)

    def _recover(self, unit: Unit) -> None:
        """A layer that becomes INT8."""
        wanted = self._linear(unit, self.exact[unit.data])
        inputs = rounded(self.quantized[unit.data], self.network.form(unit.data))
        target = wanted
        addend = self.network.addend_form(unit)
        if unit.addend is not None and addend is not None:
            wanted = wanted + self.exact[unit.addend]
            added = rounded(self.quantized[unit.addend], addend)
            target = wanted - added
        # Of wider layers the fewest rows that tell anything would not fit into memory.
        narrow = _width(unit, self.graph.params[unit.weight.node]) * _FEWEST_ROWS <= _ELEMENTS
        if (self.recovery.refit or self.recovery.rounding) and narrow:
            self.params[unit.weight.node] = self._weight(unit, inputs, target)
        weight = engine_rounded(unit, self.params[unit.weight.node])
        found = linear(unit, inputs, weight, self._bias(unit))
        if addend is not None:
            found += added
        self.exact[unit.node.output] = activated(unit, wanted)
        if (self.recovery.bias or self.recovery.refit) and unit.bias is not None:
            change = bias_correction(wanted, found, partial(activated, unit), unit.is_non_negative)
            self.params[unit.bias.node] = self.params[unit.bias.node] + change
            found += change.reshape(-1, *(1,) * (found.ndim - 2))
        result = activated(unit, found)
        if unit.is_convolution:
            form = self.network.form(unit.node.output)
            result = rounded_sum(result, form, addend) if addend is not None else rounded(result, form)
        self.quantized[unit.node.output] = result

    def _linear(self, unit: Unit, inputs: np.ndarray) -> np.ndarray:
        return linear(unit, inputs, self.graph.params[unit.weight.node], self._bias(unit))

    def _bias(self, unit: Unit) -> Optional[np.ndarray]:
        return self.graph.params[unit.bias.node] if unit.bias is not None else None

    def _weight(self, unit: Unit, inputs: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Other weights for a layer, from rows of its quantized input and of what it should put out."""
        old = self.graph.params[unit.weight.node]
        groups = group_count(unit)
        weight = old.reshape(groups, len(old) // groups, -1).astype(np.float32)
        seen, wanted, odd = _rows(unit, inputs, target, _width(unit, old))
        few = seen.shape[1] < seen.shape[2]
        basis = row_basis(seen) if few else None
        reduced = seen if basis is None else seen @ basis
        first, second = (moments(reduced[:, half], wanted[:, half], weight.shape[2]) for half in (~odd, odd))
        whole = first + second
        strength = np.full(groups, np.inf)
        # One image leaves none to choose the strength by.
        if self.recovery.refit and first.rows and second.rows:
            weight, strength = refit(weight, (first, second), basis)
        if self.recovery.rounding:
            ridge = np.minimum(strength, 1.0)[:, None, None] * whole.power * whole.rows
            curved = OfRows(seen, ridge.astype(np.float32)) if few else with_ridge(whole.inputs, ridge)
            flat = weight.reshape(len(old), -1)
            scale = peak_scale(flat, unit.is_convolution)
            integers = round_jointly(weight, scale.reshape(groups, -1), curved).reshape(flat.shape)
            weight = engine_weights(integers, scale) if unit.is_convolution else integers * scale[:, None]
        return weight.reshape(old.shape).astype(np.float32)


def _width(unit: Unit, weight: np.ndarray) -> int:
    """How many values of a layer's input, all groups together, one position of its output follows from."""
    return group_count(unit) * int(weight[0].size)


def _rows(unit: Unit, inputs: np.ndarray, target: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of inputs and targets, and which of them are of every second image; ``width``: of a row, all groups."""
    positions = int(np.prod(target.shape[2:]))
    total = len(target) * positions
    limit = int(np.clip(_ELEMENTS // width, _FEWEST_ROWS, _ROWS))
    chosen = np.arange(total)
    if total > limit:
        chosen = np.sort(np.random.default_rng(0).choice(total, limit, replace=False))
    seen, wanted = layer_rows(unit, inputs, target, chosen)
    # Biases take care of the means.
    seen = seen - seen.mean(axis=1, keepdims=True)
    wanted = wanted - wanted.mean(axis=1, keepdims=True)
    return seen, wanted, (chosen // positions) % 2 == 1
