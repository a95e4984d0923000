"""Learnable ranges: which tensors share one, the factors by which they grow, and the plan's ranges afterwards.

A range is learnt by the logarithm of the factor by which it has grown, 0 to begin with. So it stays positive whatever
an optimizer does, begins with exactly the calibrated scale, and one learning rate means the same relative change for
tensors of all magnitudes: Jain et al., "Trained quantization thresholds for accurate and efficient fixed-point
inference of deep neural networks" (MLSys 2020, arXiv:1903.08066), section 3 and appendix B. The gradient is that of
LSQ (Esser et al., arXiv:1902.08153) times the scale, with LSQ's factor 1 / sqrt(N * Qp) for N values of up to Qp
steps. Clipping at a learnt bound is PACT's idea (Choi et al., "PACT: parameterized clipping activation for quantized
neural networks", 2018, arXiv:1805.06085), whose bound has no gradient from values within it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite, prod, sqrt

import numpy as np

from quantkit.backends.mxnet.execute import run
from quantkit.calibration.ranges import Range
from quantkit.errors import UserError
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names
from quantkit.ir.operators import number
from quantkit.quantization.arithmetic import LIMITS, SMALLEST_PEAK
from quantkit.quantization.plan import QuantizationPlan, TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph

Shape = tuple[int, ...]

_SHARING = frozenset({"Pooling", "Flatten", "Concat"})
"""INT8 operators whose results have the range of their inputs."""


@dataclass(frozen=True, eq=False)
class RangeGroup:
    """Tensors whose ranges grow by one factor, since some follow from others.

    ``parameter`` is the logarithm's name. ``nodes`` compute the factor, the last of them as float64 (1,).
    """

    parameter: str
    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]

    @property
    def factor(self) -> Tensor:
        """That by which the ranges have grown."""
        return self.nodes[-1].output


def range_groups(network: QuantizedGraph, shapes: Mapping[Tensor, Shape], names: Names) -> tuple[RangeGroup, ...]:
    """The groups of all tensors that have integers.

    Args:
        network: the quantized network.
        shapes: of its tensors, for a batch of 1.
        names: the names that are taken; those of parameters and operators are added.
    """
    return tuple(_group(network, tensors, shapes, names) for tensors in _sharing(network))


def initial_logarithms(groups: tuple[RangeGroup, ...]) -> dict[str, np.ndarray]:
    """The parameters of ranges as calibrated, by name."""
    return {group.parameter: np.zeros(1, np.float32) for group in groups}


def with_ranges(
    plan: QuantizationPlan, groups: tuple[RangeGroup, ...], logarithms: Mapping[str, np.ndarray]
) -> QuantizationPlan:
    """The plan with the ranges that training has left.

    Args:
        plan: the plan that the groups are of.
        groups: all of them.
        logarithms: their parameters, float32 (1,), by name.

    Raises:
        UserError: a range is infinite, or so small that it counts as 0.
    """
    if not groups:
        return plan
    nodes = tuple(node for group in groups for node in group.nodes)
    given = {group.parameter: logarithms[group.parameter] for group in groups}
    found = run(Graph(nodes, (), tuple(group.factor for group in groups), given), {})
    forms = dict(plan.tensors)
    for group, factor in zip(groups, found):
        forms.update({tensor: _grown(tensor, forms[tensor], float(factor[0])) for tensor in group.tensors})
    return replace(plan, tensors=forms)


def _grown(tensor: Tensor, form: TensorQuantization, factor: float) -> TensorQuantization:
    low, high = form.range.low * factor, form.range.high * factor
    if not (isfinite(low) and isfinite(high) and max(-low, high) > SMALLEST_PEAK):
        raise UserError(
            f"training has scaled the range of tensor {str(tensor)!r} by {factor:g}, to what float32 does not hold; "
            "train with a smaller learning rate"
        )
    return replace(form, range=Range(low, high))


def _sharing(network: QuantizedGraph) -> Iterator[tuple[Tensor, ...]]:
    """The tensors that have integers, those together whose ranges follow from each other."""
    tied: dict[Tensor, tuple[Tensor, ...]] = {tensor: (tensor,) for tensor in network.plan.tensors}
    for node in network.graph.nodes:
        if network.is_int8(node) and node.op in _SHARING:
            joined = dict.fromkeys(each for tensor in (*node.inputs, node.output) for each in tied[tensor])
            tied.update(dict.fromkeys(joined, tuple(joined)))
    return iter(dict.fromkeys(tied.values()))


def _group(
    network: QuantizedGraph, tensors: tuple[Tensor, ...], shapes: Mapping[Tensor, Shape], names: Names
) -> RangeGroup:
    stem = tensors[0].stem
    parameter = names.take(f"{stem}_log_range")
    nodes: list[Node] = []

    def op(op: str, *inputs: Tensor, **attrs: object) -> Tensor:
        strings = {key: str(value) for key, value in attrs.items()}
        nodes.append(Node(names.take(f"{stem}_range_factor"), op, inputs, strings))
        return nodes[-1].output

    factor = op("exp", Tensor(parameter))
    most = _largest_factor(network, tensors)
    if most < inf:
        # With the gradient of what is too large, so that it can become smaller again.
        excess = op("elemwise_sub", op("_minimum_scalar", factor, scalar=most), factor)
        factor = op("elemwise_add", factor, op("BlockGrad", excess))
    values = sum(prod(shapes[tensor]) for tensor in tensors)
    highest = max(LIMITS[network.form(tensor).dtype][1] for tensor in tensors)
    factor = op("_contrib_gradientmultiplier", factor, scalar=1 / sqrt(values * highest))
    op("Cast", factor, dtype="float64")
    return RangeGroup(parameter, tensors, tuple(nodes))


def _largest_factor(network: QuantizedGraph, tensors: tuple[Tensor, ...]) -> float:
    """The factor up to which kernels that clip by saturation alone clip where the network does."""
    bounds = [inf]
    for tensor in tensors:
        layer = network.int8_layer(network.graph.producer(tensor))
        if layer is None or layer.activation is None or not network.computes_integers(layer.node):
            continue
        if layer.activation_kind == "relu6":
            bounds.append(number(layer.activation, "a_max", inf) / network.form(tensor).range.largest)
    return max(1.0, min(bounds))
