"""The results of an analysis, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from quantkit.data.sample_noun import SampleNoun
from quantkit.diagnosis.layers.calibration import Audit
from quantkit.diagnosis.layers.overflow import Overflow
from quantkit.diagnosis.layers.tensor import TensorUse
from quantkit.evaluation.agreement import Agreement
from quantkit.evaluation.deviation import Deviation

# What a layer may lose without VNNI, in dB.
_OVERFLOWS = 3.0


@dataclass(frozen=True)
class LayerError:
    """How the output of one INT8 layer differs from that of FP32.

    Algorithms adapt weights and biases to the inputs that quantized layers compute, not to those of FP32. In an
    adjusted network, a layer's own error, for exact inputs, may therefore be larger than without algorithms, and the
    accumulated error smaller.

    Attributes:
        name: the layer's name in the fused network.
        operator: its operator, with those fused into it.
        accumulated: the error in the INT8 network, including the errors of all layers before.
        own: the error for FP32's inputs, which the layer itself adds.
        weights: ``own`` with INT8 weights and biases, but tensors in FP32; None if the layer has no weights.
        tensors: ``own`` with FP32 weights and biases, but tensors in 8 bits.
        without_vnni: ``own`` on processors without VNNI, where sums of unsigned input may saturate in 16 bits and
            weights for signed input have half as many levels.
        overflow: how many of these sums saturate.
        shifted: whether channel shift had moved the output by a constant per channel, which was subtracted first.
        output: how FP32's values fit into the integers of the output; None for dense layers, whose output is float.
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

    @property
    def needs_vnni(self) -> bool:
        """Whether saturating sums cost it so much on processors without VNNI that it is better kept in FP32 there."""
        return self.overflow.share > 0 and self.without_vnni.sqnr < self.own.sqnr - _OVERFLOWS


@dataclass(frozen=True)
class Analysis:
    """Why an INT8 network differs from FP32.

    Attributes:
        network: the network's name in the bundle.
        data: the name of the images.
        images: the number of images.
        noun: what a sample is called: ``image`` or ``sample``.
        agreement: the agreement of the network's outputs with FP32's.
        layers: the errors of the layers, in the order of the network.
        tensors: all tensors that become integers, in the order of the network, including its input.
        calibration: the bundle's calibration compared with the images.
        findings: what stands out; each is a sentence with the remedy.
    """

    network: str
    data: str
    images: int
    noun: SampleNoun
    agreement: Agreement
    layers: tuple[LayerError, ...]
    tensors: tuple[TensorUse, ...]
    calibration: Audit
    findings: tuple[str, ...]

    @property
    def worst(self) -> tuple[LayerError, ...]:
        """The layers, ordered by their own error, the largest first."""
        return tuple(sorted(self.layers, key=lambda layer: layer.own.sqnr))
