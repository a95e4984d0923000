"""Users' MXNet symbol files: locating, reading, and converting them to the form that inference needs."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Optional

from quantkit.errors import ModelError
from quantkit.files.text import read_text
from quantkit.formats.mxnet import nnvm
from quantkit.ir.graph import Graph, Node
from quantkit.ir.operators import flag, integer_tuple

_EXAMPLE = "--input-shape left=3,32,32 --input-shape right=5"

_INT8 = ("_contrib_quantize", "_contrib_dequantize", "_contrib_requantize", "_contrib_quantized")


def symbol_file(path: Path) -> Optional[Path]:
    """The symbol file that ``path`` names, directly or as the prefix of a checkpoint; None if there is none."""
    if path.suffix == ".json":
        return path
    candidate = path.parent / f"{path.name}-symbol.json"
    return candidate if path.name and os.path.isfile(candidate) else None


def newest_params(symbol: Path) -> Path:
    """The parameters of the highest epoch beside a ``PREFIX-symbol.json``: ``PREFIX-0000.params``.

    Raises:
        ModelError: there are no parameters.
    """
    prefix = symbol.name[: -len("-symbol.json")] if symbol.name.endswith("-symbol.json") else symbol.stem
    pattern = re.compile(re.escape(prefix) + r"-(\d+)\.params")
    epochs = {
        int(match[1]): beside for beside in sorted(symbol.parent.iterdir()) if (match := pattern.fullmatch(beside.name))
    }
    if not epochs:
        raise ModelError(f"no parameters beside {symbol}: expected {prefix}-0000.params; give them with --weights FILE")
    return epochs[max(epochs)]


def read_symbol(path: Path) -> str:
    """The text of a symbol file.

    Raises:
        ModelError: the file cannot be read, is empty, or is not text.
    """
    try:
        text = read_text(path, nnvm.LARGEST_SYMBOL)
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror or error}; check the path and its permissions"
        ) from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not an MXNet symbol file: it is not text; export the network again") from error
    if not text.strip():
        raise ModelError(f"{path} is empty; export the network again")
    return text


def inference_graph(text: str, where: str) -> Graph:
    """A symbol's graph with all its variables as inputs; a softmax loss becomes a softmax, without its label.

    Raises:
        ModelError: the text is not a symbol, or the network is an INT8 one or was fused by an engine.
    """
    try:
        graph = nnvm.parse(text, {})
    except ModelError as error:
        raise ModelError(f"{where}: {error}") from error
    for node in graph.nodes:
        if node.op.startswith(_INT8) or (node.op.startswith("_sg_mkldnn") and flag(node, "quantized")):
            raise ModelError(f"{where} is an INT8 network already ({node.name!r} is {node.op}); give its FP32 original")
        if node.op.startswith("_sg_"):
            raise ModelError(f"{where} was fused by an engine ({node.name!r} is {node.op}); give the unfused network")
    nodes = tuple(_without_label(node) for node in graph.nodes)
    read = {tensor.node for node in nodes for tensor in node.inputs}
    return replace(graph, nodes=nodes, inputs=tuple(name for name in graph.inputs if name in read))


def image_input(graph: Graph, where: str) -> str:
    """The name of the variable that takes samples: ``data``, or the only one that is an operator's first input.

    The parameters of recurrent layers, which Gluon puts into one vector, do not count.

    Raises:
        ModelError: there is no such variable, or more than one.
    """
    if "data" in graph.inputs:
        return "data"
    first = {node.inputs[0].node for node in graph.nodes if node.inputs}
    packed = _packed_parameters(graph)
    candidates = [name for name in graph.inputs if name in first and name not in packed]
    if len(candidates) != 1:
        raise ModelError(
            f"{where} has {len(candidates)} inputs ({', '.join(map(repr, candidates[:4])) or 'none'}); "
            f"name it 'data', or give the shapes of all by their names ({_EXAMPLE})"
        )
    return candidates[0]


def check_are_inputs(names: Collection[str], graph: Graph, where: str) -> None:
    """Make sure that a network has variables of these names.

    Raises:
        ModelError: it has not.
    """
    if missing := [name for name in names if name not in graph.inputs]:
        raise ModelError(f"{where} has no input {missing[0]!r}; give the shape of each of its inputs ({_EXAMPLE})")


def _packed_parameters(graph: Graph) -> frozenset[str]:
    """The variables that are reshaped into the one vector of a recurrent layer's parameters."""
    tensors = [tensor for node in graph.nodes if node.op == "_rnn_param_concat" for tensor in node.inputs]
    reshapes = [node for tensor in tensors if (node := graph.producer(tensor)) is not None and node.op == "Reshape"]
    return frozenset(tensor.node for tensor in (*tensors, *(node.inputs[0] for node in reshapes)))


def noted_shapes(text: str) -> dict[str, tuple[int, ...]]:
    """The shapes that a symbol states for its variables (``__shape__``), by name; 0 is an open extent.

    Raises:
        ModelError: the text is not a symbol.
    """
    variables = (entry for entry in nnvm.read_entries(text).nodes if entry.op == "null")
    shapes = {entry.name: integer_tuple(entry.hints.get("__shape__", "")) for entry in variables}
    return {name: shape for name, shape in shapes.items() if shape and min(shape) >= 0 and max(shape) < 1 << 31}


def _without_label(node: Node) -> Node:
    if node.op != "SoftmaxOutput":
        return node
    axis = "1" if flag(node, "multi_output") else "-1"
    return replace(node, op="softmax", inputs=node.inputs[:1], attrs={"axis": axis})
