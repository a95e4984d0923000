"""Finding out whether a network reads token ids, and how many tokens it knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from quantkit.data.joined_inputs import JoinedInput, JoinedInputs
from quantkit.data.vocabulary import Vocabulary
from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.joined_inputs import taken_from
from quantkit.ir.operators import integer

# These move ids and do not change them.
_MOVES = frozenset({"SwapAxis", "transpose", "Reshape", "Flatten", "expand_dims", "squeeze", "_copy", "Cast"})
_OF_SHAPE = frozenset({"zeros_like"})


def embeddings_of(graph: Graph, name: str) -> tuple[Node, ...]:
    """The embeddings that look up the ids in input ``name``; empty if anything else reads it, or nothing.

    Operators that only read how many ids there are do not count.
    """
    readers: list[Node] = []
    waiting = [Tensor(name)]
    while waiting:
        tensor = waiting.pop()
        if tensor in graph.outputs:
            return ()
        for node in graph.consumers.get(tensor, ()):
            if node.op in _MOVES:
                waiting.append(node.output)
            elif node.op == "Embedding" and node.inputs[0] == tensor and tensor not in node.inputs[1:]:
                readers.append(node)
            elif node.op not in _OF_SHAPE:
                return ()
    return tuple(readers)


def tokens_in(graph: Graph, name: str) -> list[tuple[slice, tuple[Node, ...]]]:
    """The embeddings that look up ids in input ``name``, with the places on its second axis that hold these ids."""
    whole = embeddings_of(graph, name)
    if whole:
        return [(slice(None), whole)]
    parts = [(places, embeddings_of(graph, tensor.node)) for tensor, places in taken_from(graph, name).items()]
    return [(places, embeddings) for places, embeddings in parts if embeddings]


def vocabulary_of(graph: Graph, name: str) -> Optional[Vocabulary]:
    """The vocabulary of an input that only embeddings read; None for others.

    Args:
        graph: the network.
        name: of its input, or of the operator that takes it out of a vector of several.

    Raises:
        ModelError: an embedding does not say how many tokens it knows.
    """
    embeddings = embeddings_of(graph, name)
    if not embeddings:
        return None
    sizes = {node.name: integer(node, "input_dim", 0) for node in embeddings}
    node, size = min(sizes.items(), key=lambda item: item[1])
    if size < 1:
        raise ModelError(f"node {node!r} (Embedding) does not say its vocabulary's size (input_dim); export it again")
    return Vocabulary(node, size)


def inputs_with_vocabularies(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> Optional[JoinedInputs]:
    """A network's several inputs with their vocabularies; None if it has one.

    Args:
        graph: the network, which takes the inputs out of one vector.
        shapes: of the inputs, without the batch; empty if it has one.

    Raises:
        ModelError: see ``vocabulary_of``.
    """
    inputs = tuple(JoinedInput(name, shape, vocabulary_of(graph, name)) for name, shape in shapes.items())
    return JoinedInputs(inputs) if inputs else None
