"""Networks put together by hand, each fused as it is built, and their plans with ranges as given."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.fusion.fuse import Fused
from quantkit.ir.fused_layer import extended, fused_layer_of
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.planning import calibration_targets, make_plan
from tests.networks import DATA, Builder

SIGNED, POSITIVE, ZERO = Range(-4.0, 3.0), Range(0.0, 5.0), Range(0.0, 0.0)
TINY = Range(-1e-30, 1e-31)
MAPS = (1, 8, 16, 16)


class Fuser(Builder):
    """Fuses as it builds."""

    def fused(self, op: str, name: str, *addend: Tensor, **attrs: Any) -> Tensor:
        """Fuse one more operator into the last layer."""
        last = self.nodes.pop()
        fused_layer = fused_layer_of(last)
        assert fused_layer is not None
        strings = {key: str(value) for key, value in attrs.items()}
        self.nodes.append(extended(fused_layer, Node(name, op, (last.output, *addend), strings, (name,)), *addend))
        return Tensor(name)

    def layer(self, name: str, data: Tensor = DATA, channels: int = 8, **attrs: Any) -> Tensor:
        """A convolution of 8 filters, whose attributes can be replaced."""
        self.conv(name, data, channels, 8)
        self.nodes[-1].attrs.update({key: str(value) for key, value in attrs.items()})  # type: ignore[attr-defined]
        return Tensor(name)

    def rectified(self, name: str, data: Tensor = DATA) -> Tensor:
        """A convolution of 8 channels with a ReLU."""
        self.layer(f"{name}_conv", data)
        return self.fused("Activation", name, act_type="relu")


def whole(graph: Graph, **shapes: tuple[int, ...]) -> Fused:
    """The network as if it had been fused; every tensor has the shape ``MAPS`` or that given."""
    tensors = {DATA: MAPS, **{node.output: MAPS for node in graph.nodes}}
    return Fused(graph, graph, {**tensors, **{Tensor(name): shape for name, shape in shapes.items()}}, (), ())


def planned(fused: Fused, *exclude: str, dtype: Any = "auto", **ranges: Range) -> QuantizationPlan:
    """The plan where what is called relu has the range ``POSITIVE`` and all else ``SIGNED``, but as given."""
    names = [tensor.node for tensor in calibration_targets(fused.graph)]
    every = {str(Tensor(name)): POSITIVE if "relu" in name else SIGNED for name in names}
    every.update({str(Tensor(name)): values for name, values in ranges.items()})
    return make_plan(fused, CalibrationTable("minmax", 1, "made up", every, "0" * 64, "0" * 64), exclude, dtype)


def reason(plan: QuantizationPlan, name: str) -> Optional[str]:
    """Why a node stays FP32; None where it runs in INT8."""
    decision = plan.decisions[name]
    assert bool(decision.reason) == (decision.precision == "fp32")
    return decision.reason or None


def concatenated(*inputs: str, op: str = "Concat", **attrs: Any) -> tuple[Fuser, Tensor]:
    """A concatenation named ``both`` of convolutions (named ``relu…`` with a ReLU, ``clip…`` with a clip),
    parameters (``param…``) or other tensors."""
    b = Fuser()
    tensors = []
    for name in inputs:
        if name.startswith("param"):
            tensors.append(b.param(name, np.ones(MAPS)))
        elif name.startswith("sin"):
            tensors.append(b.op("sin", name, DATA))
        elif name.startswith("dense"):
            tensors.append(b.dense(name, DATA, 8, 8))
        elif name.startswith("relu"):
            tensors.append(b.rectified(name))
        elif name.startswith("clip"):
            b.layer(f"{name}_conv")
            tensors.append(b.fused("clip", name, a_min=0.0, a_max=6.0))
        else:
            tensors.append(b.layer(name))
    return b, b.op(op, "both", *tensors, num_args=len(tensors), **attrs)
