"""A network while it is rewritten: a change costs as much as what it touches, not as the whole network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Optional

import numpy as np

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names


class Draft:
    """The operators of a network that its outputs need, to be replaced or left out one by one.

    Every method describes the network after the changes so far. A replacement has to compute the same as the operator
    that it replaces. ``inputs`` are the names of the network's inputs, ``params`` its current parameters, and
    ``batch_axes`` the axes that grow with the batch, of the original network's tensors of which they are known.
    """

    def __init__(self, graph: Graph, batch_axes: Optional[Mapping[Tensor, tuple[int, ...]]] = None) -> None:
        self.batch_axes = batch_axes or {}
        self._origin = graph.pruned()
        self.inputs = frozenset(graph.inputs)
        self.params = dict(self._origin.params)
        self._nodes = dict(self._origin.by_name)
        self._place = {name: index for index, name in enumerate(self._nodes)}
        self._free = Names(self._origin.names)
        # By operator, the new operators directly before it.
        self._before: dict[str, tuple[str, ...]] = {}
        self._dependent = set(self._origin.input_dependent)
        self._outputs = Counter(self._origin.outputs)
        # By tensor of a bypassed operator, the tensor that replaces it.
        self._moved: dict[Tensor, Tensor] = {}
        self._readers: dict[Tensor, Counter[str]] = {}
        # How often operators and network outputs read each operator or parameter.
        self._uses: Counter[str] = Counter(tensor.node for tensor in self._origin.outputs)
        for node in self._origin.nodes:
            self._count(node, 1)

    @property
    def names(self) -> tuple[str, ...]:
        """The operators of the original network, in order."""
        return tuple(node.name for node in self._origin.nodes)

    def node(self, name: str) -> Optional[Node]:
        """The operator of this name; None if there is none any more, or never was."""
        return self._nodes.get(name)

    def producer(self, tensor: Tensor) -> Optional[Node]:
        """The operator that computes ``tensor``; None for network inputs and parameters."""
        return self._nodes.get(tensor.node)

    def readers(self, tensor: Tensor) -> Mapping[str, int]:
        """The operators that read ``tensor``, and how often each does; outputs of the network do not count."""
        return self._readers.get(tensor, {})

    def is_output(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` is an output of the network."""
        return self._outputs[tensor] > 0

    def depends_on_input(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` depends on the network's inputs."""
        return tensor.node in self._dependent

    def place(self, node: Node) -> int:
        """The position of an operator of the original network."""
        return self._place[node.name]

    def free_name(self, wanted: str) -> str:
        """See ``Names.free``; names of removed operators stay taken."""
        return self._free.free(wanted)

    def replace(
        self, nodes: Sequence[Node], params: Mapping[str, np.ndarray], moved: Optional[Mapping[Tensor, Tensor]] = None
    ) -> None:
        """Put new operators, with their parameters, in place of the operator that has the last one's name.

        What read a tensor in ``moved`` reads what stands there for it; what is then unread is left out.
        """
        name = nodes[-1].name
        old = self._nodes[name]
        self.params.update(params)
        self._free.add((*params, *(node.name for node in nodes)))
        self._before[name] = (*self._before.get(name, ()), *(node.name for node in nodes[:-1]))
        for node in nodes:
            self._nodes[node.name] = node
            self._count(node, 1)
            if any(map(self.depends_on_input, node.inputs)):
                self._dependent.add(node.name)
        self._move(moved or {})
        unread = (each.node for each in moved or {} if each.node != name and not self._uses[each.node])
        gone = (self._nodes.pop(each, None) for each in dict.fromkeys(unread))
        self._forget(old, *filter(None, gone))

    def bypass(self, name: str, tensor: Tensor) -> None:
        """Leave an operator out; all that read its output read ``tensor`` instead."""
        node = self._nodes.pop(name)
        self._move({node.output: tensor})
        self._forget(node)

    def _move(self, moved: Mapping[Tensor, Tensor]) -> None:
        # Each reader changes once, however many tensors it reads.
        for reader in dict.fromkeys(name for own in moved for name in self.readers(own)):
            old = self._nodes[reader]
            self._nodes[reader] = replace(old, inputs=tuple(moved.get(each, each) for each in old.inputs))
            for own in old.inputs:
                if own in moved:
                    self._read(own, reader, -1)
                    self._read(moved[own], reader, 1)
        for own, tensor in moved.items():
            if outputs := self._outputs.pop(own, 0):
                self._outputs[tensor] += outputs
                self._uses[tensor.node] += outputs
                self._uses[own.node] -= outputs
                self._moved[own] = tensor

    def graph(self) -> Graph:
        """The network after the changes so far."""
        nodes = tuple(self._nodes[name] for start in self._place for name in self._from(start))
        return Graph(nodes, self._origin.inputs, tuple(map(self._now, self._origin.outputs)), dict(self.params))

    def _from(self, name: str) -> Iterator[str]:
        for before in self._before.get(name, ()):
            yield from self._from(before)
        if name in self._nodes:
            yield name

    def _now(self, tensor: Tensor) -> Tensor:
        while tensor in self._moved:
            tensor = self._moved[tensor]
        return tensor

    def _count(self, node: Node, times: int) -> None:
        for tensor in node.inputs:
            self._read(tensor, node.name, times)

    def _read(self, tensor: Tensor, reader: str, times: int) -> None:
        self._uses[tensor.node] += times
        readers = self._readers.setdefault(tensor, Counter())
        readers[reader] += times
        if not readers[reader]:
            del readers[reader]

    def _forget(self, *gone: Node) -> None:
        """Remove the reads of removed operators, and every operator and parameter that is then unread."""
        waiting = list(gone)
        while waiting:
            node = waiting.pop()
            self._count(node, -1)
            for name in dict.fromkeys(tensor.node for tensor in node.inputs):
                if self._uses[name]:
                    continue
                self.params.pop(name, None)
                if unread := self._nodes.pop(name, None):
                    waiting.append(unread)
