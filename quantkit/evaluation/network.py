"""Network: an FP32 network or a bundle's, with its input and outputs, ready to run over images."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Optional

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.data.boxes import BoxCorners
from quantkit.data.joined_inputs import JoinedInputs
from quantkit.data.preparation import Preparation
from quantkit.data.preprocess import Preprocess
from quantkit.data.vocabulary import Vocabulary
from quantkit.ir.graph import Graph
from quantkit.models.class_scores import ClassScores, class_scores
from quantkit.models.families import Task
from quantkit.models.step_scores import step_scores


@dataclass(frozen=True, eq=False)
class Network:
    """A network to run over images.

    Attributes:
        name: the name to show.
        kind: the precision.
        graph: the network as MXNet runs it.
        input_shape: of one input, without the batch axis.
        preprocess: how photographs become its input; None if that is not known.
        weights: the kind of its weights, as in ``models.model.Source``.
        labels: the names of its classes; empty if they are not known.
        said: whether its outputs, or those of each step, are class scores; None if nobody has said so.
        vocabulary: of the token ids that it reads; None if it reads none.
        task: what it is for; None if nobody has said so.
        box_corners: of a detector: what the corners of its boxes are.
        joined: its inputs where it has several; None where it has one.
    """

    name: str
    kind: Literal["fp32", "int8"]
    graph: Graph
    input_shape: tuple[int, ...]
    preprocess: Optional[Preprocess]
    weights: str
    labels: tuple[str, ...] = ()
    said: Optional[bool] = None
    vocabulary: Optional[Vocabulary] = None
    task: Optional[Task] = None
    box_corners: BoxCorners = "edges"
    joined: Optional[JoinedInputs] = None

    @property
    def preparation(self) -> Preparation:
        """How samples become its input."""
        return self.joined or self.vocabulary or self.preprocess

    @cached_property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the outputs for one image, without the batch axis."""
        shapes = infer_shapes(self.graph, dict.fromkeys(self.graph.inputs, (1, *self.input_shape)))
        return tuple(shapes[output][1:] for output in self.graph.outputs)

    def class_scores(self, said: Optional[bool] = None, labelled: bool = False) -> ClassScores:
        """Whether the outputs are class scores; see ``class_scores.class_scores``.

        Args:
            said: what the user says; None to use the attribute ``said``.
            labelled: whether the images have labels.

        Raises:
            UserError: ``said`` is true of outputs that cannot be class scores.
        """
        answer = self.said if said is None else said
        return class_scores(self.graph, self.output_shapes, self.labels, answer, labelled)

    def step_scores(self, said: Optional[bool] = None, labelled: bool = False) -> Optional[ClassScores]:
        """Whether every step of a sequence has class scores; see ``step_scores.step_scores``.

        Args:
            said: what the user says; None to use the attribute ``said`` if it is true. A bundle that says no means the
                outputs as a whole.
            labelled: whether every step has a label.
        """
        tokens, answer = self.vocabulary is not None, (self.said or None) if said is None else said
        return step_scores(self.graph, self.output_shapes, self.input_shape, tokens, self.labels, answer, labelled)
