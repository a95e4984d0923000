"""Finding out whether a network reads token ids, and how many tokens it knows."""

from __future__ import annotations

from typing import Optional

from quantkit.data.vocabulary import Vocabulary
from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Node, Tensor
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


def vocabulary_of(graph: Graph) -> Optional[Vocabulary]:
    """The vocabulary of a network whose one input only embeddings read; None for other networks.

    Raises:
        ModelError: an embedding does not say how many tokens it knows.
    """
    (name,) = graph.inputs
    embeddings = embeddings_of(graph, name)
    if not embeddings:
        return None
    sizes = {node.name: integer(node, "input_dim", 0) for node in embeddings}
    node, size = min(sizes.items(), key=lambda item: item[1])
    if size < 1:
        raise ModelError(f"node {node!r} (Embedding) does not say its vocabulary's size (input_dim); export it again")
    return Vocabulary(node, size)
