"""Model: a network with its preprocessing and its provenance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Optional

from quantkit.data.boxes import BoxCorners
from quantkit.data.joined_inputs import JoinedInputs
from quantkit.data.preparation import Preparation
from quantkit.data.preprocess import Preprocess
from quantkit.data.vocabulary import Vocabulary
from quantkit.ir.deployed_form import DeployedForm
from quantkit.ir.graph import Graph
from quantkit.ir.handed_states import HandedState
from quantkit.ir.joined_inputs import names_taken_out
from quantkit.models.families import Task
from quantkit.models.layout import InputLayout, layout_of

WeightsKind = Literal["pretrained", "random", "file", "given"]


@dataclass(frozen=True)
class Source:
    """Where a network and its weights came from.

    ``weights`` is ``pretrained`` (a published source), ``random`` (seeded, untrained), ``file`` (the
    user's local file) or ``given`` (Python objects). ``location`` is the address, or the file name
    without local folders; ``sha256`` is that of the weights file.
    """

    network: str
    weights: WeightsKind
    location: str = ""
    sha256: str = ""


@dataclass(frozen=True, eq=False)
class Model:
    """A network, its input, its preprocessing and its provenance.

    ``input_shape`` is that of one input, without the batch axis: (channels, height, width) of images, layout NCHW;
    (channels, frames, height, width) of clips, NCDHW; (features,) of vectors; (steps, features) of sequences, or
    (steps,) where these are token ids.
    ``preprocess`` is None if it is unknown, or the inputs are not images: sample data must then be preprocessed arrays.
    ``vocabulary`` is that of the token ids, None if the network reads none. ``notes`` say how the network differs from
    the one that was given: batch first, zero states, FP32 in place of GluonCV's own INT8. ``states`` are those that it
    passes on from one piece of a sequence to the next; operators of ``graph`` with the names of their inputs compute
    zeros. ``joined`` are its inputs where it has several, None where it has one: ``graph`` reads them as one vector, of
    which ``input_shape`` is the length.
    ``exclude`` names the nodes that the model's card keeps in FP32. ``class_scores`` is whether the outputs are class
    scores according to the user; None if the user does not say: then the network's last operators, its labels and
    those of the images decide.
    ``task`` is what the network is for, as its card or the user says; None if nobody does. ``box_corners`` is what the
    corners of a detector's boxes are.
    """

    name: str
    graph: Graph
    input_shape: tuple[int, ...]
    preprocess: Optional[Preprocess]
    source: Source
    labels: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    class_scores: Optional[bool] = None
    vocabulary: Optional[Vocabulary] = None
    notes: tuple[str, ...] = ()
    states: tuple[HandedState, ...] = ()
    task: Optional[Task] = None
    box_corners: BoxCorners = "edges"
    joined: Optional[JoinedInputs] = None

    @property
    def preparation(self) -> Preparation:
        """How samples become the network's input."""
        return self.joined or self.vocabulary or self.preprocess

    @property
    def deployed(self) -> DeployedForm:
        """What it reads where it is deployed."""
        return DeployedForm(self.states, self.joined.shapes if self.joined else {})

    @property
    def standing_for_inputs(self) -> frozenset[str]:
        """The names of the operators in ``graph`` that are inputs where it is deployed, and of those before them."""
        return names_taken_out(self.graph, self.deployed.joined)

    @property
    def layout(self) -> InputLayout:
        """The axes of a batch of inputs, such as ``NCHW``, ``NTC`` (steps, features) or ``NT`` (tokens)."""
        return layout_of(self.input_shape, self.vocabulary is not None)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.input_shape))
        return f"Model({self.name!r}, {len(self.graph.nodes)} nodes, input {shape}, {self.source.weights} weights)"
