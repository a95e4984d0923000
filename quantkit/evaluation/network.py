"""What can be run over images: an FP32 network or a bundle's, with what it reads and puts out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Optional

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.data.preprocess import Preprocess
from quantkit.ir.graph import Graph
from quantkit.models.class_scores import ClassScores, class_scores


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
        labels: the names of its classes, as far as they are known.
        said: whether its outputs are class scores, as far as somebody says so.
    """

    name: str
    kind: Literal["fp32", "int8"]
    graph: Graph
    input_shape: tuple[int, ...]
    preprocess: Optional[Preprocess]
    weights: str
    labels: tuple[str, ...] = ()
    said: Optional[bool] = None

    @cached_property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Those of the outputs for one image, without the batch axis."""
        shapes = infer_shapes(self.graph, dict.fromkeys(self.graph.inputs, (1, *self.input_shape)))
        return tuple(shapes[output][1:] for output in self.graph.outputs)

    def class_scores(self, said: Optional[bool] = None, labelled: bool = False) -> ClassScores:
        """Whether its outputs are class scores; see ``class_scores.class_scores``.

        Args:
            said: what the user says now, instead of what was said before.
            labelled: whether the images at hand have labels.

        Raises:
            UserError: the user says that outputs are class scores which cannot be.
        """
        answer = self.said if said is None else said
        return class_scores(self.graph, self.output_shapes, self.labels, answer, labelled)
