"""A network before it has weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Optional

import numpy as np

from quantkit.backends.mxnet.gluon import parameter_shapes
from quantkit.backends.mxnet.zoo import ZooNetwork
from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError
from quantkit.ir.graph import Graph
from quantkit.ir.joined_inputs import free_name, with_inputs_joined
from quantkit.models.batch_first import with_batch_first_input, with_batch_first_outputs
from quantkit.models.fit import Parameters
from quantkit.models.input_shapes import Shape, Shapes
from quantkit.models.layout import check_no_layout, checked_layout, is_time_major
from quantkit.models.model import Model
from quantkit.models.notes import notes_of
from quantkit.models.open_widths import with_recurrent_widths
from quantkit.models.random_weights import random_weights
from quantkit.models.states import state_inputs, with_zero_states
from quantkit.models.symbol import check_are_inputs, image_input, inference_graph, noted_shapes
from quantkit.models.vocabulary import embeddings_of, inputs_with_vocabularies
from quantkit.models.weights import Weights


@dataclass(frozen=True)
class Skeleton:
    """A network before it has weights.

    Attributes:
        graph: the network, batches first, with all variables among its inputs.
        data: the name of the input that reads samples.
        shape: of that input, without the batch.
        wanted: the network's parameters.
        notes: see ``Model``.
        joined: the shapes of its inputs where ``data`` is the vector of several.
    """

    graph: Graph
    data: str
    shape: Shape
    wanted: Parameters
    notes: tuple[str, ...] = ()
    joined: Mapping[str, Shape] = field(default_factory=dict)

    def random(self) -> dict[str, np.ndarray]:
        """Random weights."""
        return random_weights(self.graph, self.wanted.shapes, constants=self.wanted.constants)

    def model(self, name: str, weights: Weights, preprocess: Optional[Preprocess]) -> Model:
        """The network with weights."""
        graph = Graph(self.graph.nodes, (self.data,), self.graph.outputs, weights.params)
        joined = inputs_with_vocabularies(graph, self.joined)
        return Model(name, graph, self.shape, preprocess, weights.source, notes=self.notes, joined=joined)


def skeleton_of(
    text: str,
    shape: Shapes,
    layout: Optional[str],
    where: str,
    built: Optional[ZooNetwork] = None,
) -> Skeleton:
    """Find the input among a symbol's variables, and the shapes of the others.

    Args:
        text: the symbol.
        shape: of the input, without the batch, or of several by their names; None: as the symbol states it.
        layout: of the input of a network of sequences; None: batches first.
        where: what messages call the network.
        built: the network of GluonCV or quantkit that the symbol is of; None for others.

    Raises:
        ModelError: the text is no network that can be quantized, the input or its shape cannot be told, or shape and
            layout do not fit.
    """
    graph, noted = inference_graph(text, where), noted_shapes(text)
    states = state_inputs(graph)
    graph = with_zero_states(graph, noted)
    named: Mapping[str, Shape] = shape if isinstance(shape, Mapping) else {}
    check_are_inputs(named, graph, where)
    joined = named if len(named) > 1 else {}
    if joined:
        check_no_layout(layout, where)
        data, shape = free_name(graph.names, joined), (sum(map(prod, joined.values())),)
        graph = with_inputs_joined(graph, data, joined)
        noted = {name: known for name, known in noted.items() if name not in joined}
    elif isinstance(shape, Mapping):
        ((data, shape),) = shape.items()
    else:
        data = image_input(graph, where)
    hint = noted.pop(data, ())
    time_major = is_time_major(layout)
    if shape is None:
        shape = _hinted(hint, layout, time_major)
    if shape is None:
        raise ModelError(
            f"{where} does not tell the shape of its input {data!r}; give it, such as --input-shape 3,224,224"
        )
    if not joined:
        checked_layout(layout, shape)
    if time_major:
        graph = with_batch_first_input(graph, data)
    complete = {name: extents for name, extents in noted.items() if min(extents) > 0}
    complete = with_recurrent_widths(graph, noted, {**complete, data: (1, *shape)})
    shapes = parameter_shapes(graph, data, shape, complete)
    if layout is not None or embeddings_of(graph, data) or any(node.op == "RNN" for node in graph.nodes):
        graph = with_batch_first_outputs(graph, data, shape, shapes, where)
    notes = notes_of(layout if time_major else None, states, joined)
    wanted = Parameters(shapes, states=states)
    if built is not None:
        wanted = Parameters(shapes, built.structured, states, built.constants, built.unused)
    return Skeleton(graph, data, shape, wanted, notes, joined)


def _hinted(hint: Shape, layout: Optional[str], time_major: bool) -> Optional[Shape]:
    """The shape without the batch that a symbol states for its input; None if it does not."""
    if layout is None:
        return hint[1:] if len(hint) == 4 and min(hint[1:]) > 0 else None
    kept = (*hint[:1], *hint[2:]) if time_major else hint[1:]
    return kept if len(hint) == len(layout) and min(kept) > 0 else None
