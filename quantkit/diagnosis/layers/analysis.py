"""What an analysis finds, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from quantkit.diagnosis.layers.calibration import Audit
from quantkit.diagnosis.layers.overflow import Overflow
from quantkit.diagnosis.layers.tensor import TensorUse
from quantkit.evaluation.agreement import Agreement
from quantkit.evaluation.deviation import Deviation


@dataclass(frozen=True)
class LayerError:
    """How one INT8 layer's output differs from FP32's own.

    In networks whose weights or biases recovery changed, they are meant for the inputs that the quantized layers
    before leave, not for FP32's: what a layer adds to exact inputs may then be more than without recovery, and what is
    accumulated less.

    Attributes:
        name: the layer, by its name in the fused network.
        operator: what it does, with what is fused into it.
        accumulated: in the INT8 network, with the errors of all layers before.
        own: for FP32's inputs: what the layer adds itself.
        weights: the same with INT8 weights and biases, but tensors in FP32; None for what has no weights.
        tensors: the same with FP32 weights and biases, but tensors in 8 bits.
        without_vnni: ``own`` on processors without VNNI, where sums of unsigned input may saturate in 16 bits and
            weights for signed input have half as many levels.
        overflow: how many of these sums saturate.
        shifted: whether each channel's shift was taken out first; see ``walk.Comparison``.
        output: how FP32's values fit into the integers of the output; None for dense layers, which put out floats.
    """

    name: str
    operator: str
    accumulated: Deviation
    own: Deviation
    weights: Optional[Deviation]
    tensors: Deviation
    without_vnni: Deviation
    overflow: Overflow
    shifted: bool
    output: Optional[TensorUse]


@dataclass(frozen=True)
class Analysis:
    """Why an INT8 network differs from FP32.

    Attributes:
        network: the bundle's name of it.
        data: the images' name.
        images: how many of them there were.
        agreement: of the network's outputs with FP32's.
        layers: in the order of the network.
        tensors: all that become integers, in the order of the network, its input included.
        calibration: the bundle's calibration held against the images.
        findings: what stands out, each a sentence with the remedy.
    """

    network: str
    data: str
    images: int
    agreement: Agreement
    layers: tuple[LayerError, ...]
    tensors: tuple[TensorUse, ...]
    calibration: Audit
    findings: tuple[str, ...]

    @property
    def worst(self) -> tuple[LayerError, ...]:
        """The layers, those first that add most error themselves."""
        return tuple(sorted(self.layers, key=lambda layer: layer.own.sqnr))
