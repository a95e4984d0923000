"""What can be run over images: an FP32 network or a bundle's, with what it reads and puts out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal, Optional

from quantkit.data.preprocess import Preprocess
from quantkit.engine.execute import infer_shapes
from quantkit.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Network:
    """A network to run over images.

    Attributes:
        name: what it is called.
        kind: its precision.
        graph: the network as MXNet runs it.
        input_shape: (channels, height, width).
        preprocess: how photographs become its input; None where that is not known.
        weights: where they are from, as in ``models.model.Source``.
    """

    name: str
    kind: Literal["fp32", "int8"]
    graph: Graph
    input_shape: tuple[int, ...]
    preprocess: Optional[Preprocess]
    weights: str

    @property
    def classes(self) -> int:
        """The number of values that the network puts out for one image."""
        return prod(self.output_shapes[0])

    @cached_property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Those of the outputs for one image, without the batch axis."""
        shapes = infer_shapes(self.graph, dict.fromkeys(self.graph.inputs, (1, *self.input_shape)))
        return tuple(shapes[output][1:] for output in self.graph.outputs)
