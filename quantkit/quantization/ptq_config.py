"""PTQConfig: the techniques against the loss of accuracy, each of which can be switched on alone, and presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import accumulate
from math import prod
from typing import Literal

from quantkit.errors import UserError
from quantkit.fusion.fuse import Fused
from quantkit.ir.graph import Graph, Tensor
from quantkit.kinds import whole_number

PresetName = Literal["none", "fast", "balanced", "best"]
"""A preset of algorithms, from none to the most accurate, which takes the longest."""

DEFAULT_PRESET: PresetName = "balanced"

_COLOURS = 3
_VALUES = _COLOURS * 224 * 224
_SEQUENCE_AXES = 3
"""The axes of a batch of sequences; vectors and token ids have fewer."""
_MEMORY = 4 * 1024**3
_LIVE = 10
"""Copies of the largest tensor, about, that exist at once, besides the tensors that are still to be read."""


@dataclass(frozen=True)
class PTQConfig:
    """The techniques, in the order in which they run.

    Attributes:
        analytic_bias: biases absorb the mean error that the statistics of batch normalization predict. It needs no
            images, and cannot be combined with the others, whose changes these statistics do not reflect.
        channel_shift: signed tensors are shifted channel by channel into the middle of the integers.
        equalize: the channels of a tensor are scaled to the same range, where the weights lose nothing by it.
        observers: each tensor gets the range of the calibration method that changes the outputs of its readers least.
        refit: weights, and biases with them, are fitted by ridge regression to the inputs that the quantized layers
            before them compute.
        rounding: weights are rounded so that the layer's output changes least; before that, to the same end, embeddings
            that LSTM layers read are rounded, and ranges of their states chosen.
        bias: biases absorb the mean error of each channel.
        mirror: if there are fewer samples than ``num_samples``, their mirror images are used too, as is usual in
            training (Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", 2012).
        num_samples: the most images of 224 x 224 pixels that they look at; of smaller images as many as hold the same
            number of pixels; of sequences and vectors as many as hold the same number of values, where a pixel has
            three. Fewer if the network's largest tensor would need more than about 4 GB.

    Raises:
        UserError: ``analytic_bias`` is combined with techniques that need images.
    """

    analytic_bias: bool = False
    channel_shift: bool = False
    equalize: bool = False
    observers: bool = False
    refit: bool = False
    rounding: bool = False
    bias: bool = False
    mirror: bool = False
    num_samples: int = 32

    def __post_init__(self) -> None:
        """Refuse what is not of its kind, or does not go together."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.type == "bool" and not isinstance(value, bool):
                raise UserError(f"{each.name} is {value!r}; give True or False")
        least = 1 if self.needs_images else 0
        object.__setattr__(self, "num_samples", whole_number("num_samples", self.num_samples, least))
        if self.analytic_bias and self.needs_images:
            raise UserError("analytic_bias works without images, so it cannot be joined to techniques that need them")

    def __repr__(self) -> str:
        """The techniques that are switched on, and the number of images."""
        on = (f"{each.name}=True" for each in fields(self) if getattr(self, each.name) is True)
        return f"PTQConfig({', '.join((*on, f'num_samples={self.num_samples}'))})"

    def samples(self, fused: Fused) -> int:
        """How many samples to look at for this network, at most."""
        (name,) = fused.graph.inputs
        read = fused.shapes[Tensor(name)]
        # Images cost by their pixels, in one colour or in three.
        values = _COLOURS * prod(read[2:]) if len(read) > _SEQUENCE_AXES else prod(read[1:])
        computed = (shape for tensor, shape in fused.shapes.items() if tensor.node in fused.graph.by_name)
        largest = max(map(prod, computed), default=0)
        # Once in FP32 and once in INT8.
        waiting = 2 * most_waiting(fused.graph, fused.shapes)
        return max(1, min(-(-self.num_samples * _VALUES // values), _MEMORY // (4 * max(_LIVE * largest, waiting))))

    @property
    def works(self) -> bool:
        """Whether any technique is switched on."""
        return self.analytic_bias or self.needs_images

    @property
    def needs_images(self) -> bool:
        """Whether any technique looks at samples."""
        return self.channel_shift or self.equalize or self.observers or self.simulates

    @property
    def simulates(self) -> bool:
        """Whether any technique needs the quantized network's own tensors."""
        return self.refit or self.rounding or self.bias


NO_ALGORITHMS = PTQConfig(num_samples=0)

PRESETS: Mapping[PresetName, PTQConfig] = {
    "none": NO_ALGORITHMS,
    "fast": PTQConfig(channel_shift=True, bias=True, num_samples=16),
    "balanced": PTQConfig(channel_shift=True, refit=True, rounding=True, bias=True, mirror=True, num_samples=32),
    "best": PTQConfig(channel_shift=True, refit=True, rounding=True, bias=True, mirror=True, num_samples=128),
}


def preset(name: PresetName) -> PTQConfig:
    """The preset of this name.

    Raises:
        UserError: there is none.
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise UserError(f"unknown preset {name!r}; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


def most_waiting(graph: Graph, shapes: Mapping[Tensor, tuple[int, ...]]) -> int:
    """The most values that wait at once to be read, where operators run in their order.

    Of tensors without a shape, which rewriting has made, there are few, and small ones.
    """
    last = {tensor: index for index, node in enumerate(graph.nodes) for tensor in node.inputs}
    last.update(dict.fromkeys(graph.outputs, len(graph.nodes)))
    place = {node.name: index for index, node in enumerate(graph.nodes)}
    change = [0] * (len(graph.nodes) + 2)
    for tensor, end in last.items():
        if tensor in shapes and tensor.node not in graph.params:
            change[place.get(tensor.node, 0)] += prod(shapes[tensor])
            change[end + 1] -= prod(shapes[tensor])
    return max(accumulate(change))
