"""Initial states of recurrent layers that an ONNX network takes as inputs: they become zero."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from quantkit.formats.onnx.reading.read import Input, OnnxNetwork
from quantkit.formats.onnx.reading.recurrent import INITIAL_STATES, RECURRENT
from quantkit.formats.onnx.reading.values import BATCH, OnnxNode

# Exporters take a layer's part out of the states of all with these, or bring its batch to another place.
_PARTS = frozenset({"Identity", "Slice", "Squeeze", "Transpose", "Unsqueeze"})

# Of the axes of a state, in either layout: directions, batch and units.
_AXES = 3


def with_zero_states(network: OnnxNetwork) -> OnnxNetwork:
    """The network without the inputs that only begin recurrent layers, which are constant zeros instead."""
    readers: dict[str, list[OnnxNode]] = defaultdict(list)
    for node in network.nodes:
        for name in dict.fromkeys(node.inputs):
            readers[name].append(node)
    states = {each.name: _zeros(each) for each in network.inputs if _is_state(each, readers, network.outputs)}
    inputs = tuple(each for each in network.inputs if each.name not in states)
    return replace(network, inputs=inputs, constants={**network.constants, **states}, zero_states=tuple(states))


def _is_state(each: Input, readers: Mapping[str, Sequence[OnnxNode]], outputs: Sequence[str]) -> bool:
    extents = each.extents or ()
    open_axes = sum(extent is None for extent in extents)
    return each.floating and len(extents) == _AXES and open_axes <= 1 and _only_begins(each.name, readers, outputs)


def _only_begins(tensor: str, readers: Mapping[str, Sequence[OnnxNode]], outputs: Sequence[str]) -> bool:
    """Whether a tensor is used as an initial state, whole or in parts, and for nothing else."""
    tensors, left = {tensor}, [tensor]
    while left:
        name = left.pop()
        nodes = readers.get(name, ())
        if not nodes or name in outputs or not all(_begins(node, name) for node in nodes):
            return False
        parts = {output for node in nodes if node.op in _PARTS for output in node.outputs} - tensors
        tensors |= parts
        left += parts
    return True


def _begins(node: OnnxNode, tensor: str) -> bool:
    if node.op in _PARTS:
        return node.inputs[:1] == (tensor,) and tensor not in node.inputs[1:]
    return node.op in RECURRENT and _places(node.inputs, tensor) <= set(INITIAL_STATES)


def _places(inputs: Sequence[str], tensor: str) -> set[int]:
    return {place for place, name in enumerate(inputs) if name == tensor}


def _zeros(state: Input) -> np.ndarray:
    """Zeros of the input's shape, without memory of their own."""
    return np.broadcast_to(np.float32(0), [BATCH if extent is None else extent for extent in state.extents or ()])
