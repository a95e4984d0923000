"""A training graph while it is built: the integers that stand for the fused network's tensors in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from quantkit.ir.graph import Graph, Tensor
from quantkit.quantization.arithmetic import LEVELS, LIMITS, DType
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.training.simulated.graph_draft import GraphDraft
from quantkit.training.simulated.rounding import saturated
from quantkit.training.simulated.scaling import scaled_alike

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Scale:
    """How real numbers become integers: tensors of the real value of one step, and of the steps in 1, float32.

    Those of tensors are (1,), those of weights (channels,).
    """

    step: Tensor
    factor: Tensor


@dataclass(frozen=True)
class Integers:
    """A tensor of whole numbers, float32, and their scale."""

    values: Tensor
    scale: Scale


@dataclass
class TrainingDraft(GraphDraft):
    """The operators so far, and the forms that each tensor of the fused network has among them.

    ``network`` is the one that is simulated, ``shapes`` are those of its tensors. ``growth`` has, by tensor, the
    factor by which its range has grown in training, float64 (1,). ``native`` has the tensors of which there are
    integers alone until something reads them in FP32, ``integers`` the integers of tensors in each type.
    """

    network: QuantizedGraph = field(kw_only=True)
    shapes: Mapping[Tensor, Shape] = field(kw_only=True)
    growth: Mapping[Tensor, Tensor] = field(kw_only=True)
    native: dict[Tensor, Integers] = field(default_factory=dict)
    integers: dict[tuple[Tensor, DType], Integers] = field(default_factory=dict)
    scales: dict[tuple[Tensor, float, DType], Scale] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        """The fused network."""
        return self.network.graph

    def put_out(self, tensor: Tensor, integers: Integers) -> None:
        """Record that an operator computes a tensor's integers."""
        self.native[tensor] = integers
        self.integers[tensor, self.network.form(tensor).dtype] = integers

    def as_float(self, tensor: Tensor) -> Tensor:
        """The tensor in FP32, under its own name."""
        integers = self.native.pop(tensor, None)
        if integers is not None:
            self.scaled(f"{tensor.stem}_float", tensor, integers.values, integers.scale.step)
            self.name_last(tensor.node)
        return tensor

    def as_integers(self, tensor: Tensor, form: Optional[TensorQuantization] = None) -> Integers:
        """The tensor in integers of ``form``, None: as planned, rounded if it has no such yet."""
        form = form or self.network.form(tensor)
        if (tensor, form.dtype) not in self.integers:
            name, scale = f"{tensor.stem}_integers", self.scale(tensor, form)
            steps = self.scaled(f"{name}_steps", tensor, self.as_float(tensor), scale.factor)
            self.integers[tensor, form.dtype] = Integers(saturated(self, name, steps, *LIMITS[form.dtype]), scale)
        return self.integers[tensor, form.dtype]

    def scaled(self, name: str, tensor: Tensor, values: Tensor, factor: Tensor) -> Tensor:
        """Values of the shape of ``tensor`` times a factor, (1,)."""
        return scaled_alike(self, name, values, factor, self.shapes[tensor][1])

    def rescaled(self, name: str, tensor: Tensor, integers: Integers, scale: Scale) -> Tensor:
        """The integers of ``tensor`` in units of another scale's step."""
        ratio = self.op(f"{name}_ratio", "elemwise_div", scale.factor, integers.scale.factor)
        return self.scaled(f"{name}_rescaled", tensor, integers.values, ratio)

    def scale(self, tensor: Tensor, form: TensorQuantization) -> Scale:
        """The scale of a tensor's integers in a form, as training has changed it.

        The range is computed as ``ranges.with_ranges`` computes it, and becomes a scale as in the engine.
        """
        growth, largest = self.growth[tensor], form.range.largest
        key = growth, largest, form.dtype
        if key not in self.scales:
            name, levels = f"{tensor.stem}_{form.dtype}", LEVELS[form.dtype]
            peak = self.op(f"{name}_peak", "_mul_scalar", growth, scalar=largest)
            peak = self.op(f"{name}_range", "Cast", peak, dtype="float32")
            step = self.op(f"{name}_step", "_div_scalar", peak, scalar=levels)
            self.scales[key] = Scale(step, self.op(f"{name}_factor", "_rdiv_scalar", peak, scalar=levels))
        return self.scales[key]
