"""nnvm JSON, the file format of MXNet symbols, to and from Graph."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from quantkit.errors import ModelError
from quantkit.graph.graph import Graph, Node, Tensor

# What quantkit notes for itself in a symbol; MXNet ignores names that begin with two underscores.
OWN_ATTRIBUTE = "__quantkit_"

# The oldest release that runs INT8 networks: newer ones read it without upgrading, older ones need not apply.
FORMAT_VERSION = 10500


def parse(text: str, params: Mapping[str, np.ndarray]) -> Graph:
    """Read a symbol's JSON text; variables found in ``params`` become parameters, the others inputs.

    Args:
        text: what ``Symbol.tojson()`` or a ``-symbol.json`` file holds, of any MXNet release.
        params: arrays by plain name, without the ``arg:`` and ``aux:`` of checkpoint files.

    Raises:
        ModelError: the text is not a symbol, or is one that contradicts itself.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ModelError(f"the symbol is not valid JSON ({error}); export it again") from error
    try:
        return _parse_document(document, params)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"the JSON is not an MXNet symbol ({type(error).__name__}: {error}); export it with Symbol.save()"
        ) from error


def _parse_document(document: Mapping[str, Any], params: Mapping[str, np.ndarray]) -> Graph:
    entries = document["nodes"]
    names = _distinct_names(entries)
    nodes: list[Node] = []
    inputs: list[str] = []
    for position, entry in enumerate(entries):
        if entry["op"] == "null":
            if entry["name"] not in params:
                inputs.append(entry["name"])
            continue
        if any(edge[0] >= position or edge[0] < 0 for edge in entry["inputs"]):
            raise ModelError(f"node {entry['name']!r} reads a later node; the symbol file is damaged")
        # MXNet before 1.0 wrote operator parameters under "param" and "attr".
        attrs = {**entry.get("param", {}), **entry.get("attr", {}), **entry.get("attrs", {})}
        bodies = entry.get("subgraphs", [])
        nodes.append(
            Node(
                name=names[position],
                op=entry["op"],
                inputs=tuple(Tensor(names[edge[0]], edge[1]) for edge in entry["inputs"]),
                # Names of the form __x__ are hints for training and profiling, not parameters; but for our own.
                attrs={
                    key: str(value)
                    for key, value in attrs.items()
                    if not key.startswith("__") or key.startswith(OWN_ATTRIBUTE)
                },
                origin=(entry["name"],),
                body=_parse_document(bodies[0], {}) if bodies else None,
            )
        )
    outputs = tuple(Tensor(names[head[0]], head[1]) for head in document["heads"])
    used = {name: params[name] for name in names if name in params}
    return Graph(tuple(nodes), tuple(inputs), outputs, used)


def _distinct_names(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """The nodes' names, where several share one all but the first with a number: MXNet tells them apart by position."""
    taken = {entry["name"] for entry in entries}
    seen: set[str] = set()
    names = []
    for entry in entries:
        name = entry["name"]
        if name in seen and entry["op"] != "null":
            name = next(other for other in (f"{name}_{i}" for i in count(1)) if other not in taken)
            taken.add(name)
        seen.add(name)
        names.append(name)
    return names


def serialize(graph: Graph, version: int = FORMAT_VERSION) -> str:
    """Write a Graph as symbol JSON; equal graphs give equal bytes.

    ``version`` is the MXNet release (10500 for 1.5.0) that the file says it is from.
    """
    document = {**_document(graph), "attrs": {"mxnet_version": ["int", version]}}
    return json.dumps(document, indent=1) + "\n"


def sha256_of(graph: Graph) -> str:
    """What identifies a network, structure and weights: the SHA-256 of its JSON text and its parameters."""
    digest = hashlib.sha256(serialize(graph).encode())
    for name, value in sorted(graph.params.items()):
        digest.update(name.encode() + np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


def _document(graph: Graph) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    position: dict[str, int] = {}

    def variable(name: str) -> None:
        position[name] = len(entries)
        entry: dict[str, Any] = {"op": "null", "name": name, "inputs": []}
        if name in graph.params:
            # Not every parameter's shape follows from the input's, and Module.bind knows of no other way.
            entry["attrs"] = {"__shape__": str(graph.params[name].shape)}
        entries.append(entry)

    for name in graph.inputs:
        variable(name)
    for node in graph.nodes:
        for tensor in node.inputs:
            if tensor.node not in position:
                variable(tensor.node)
        position[node.name] = len(entries)
        entry: dict[str, Any] = {
            "op": node.op,
            "name": node.name,
            "attrs": dict(sorted(node.attrs.items())),
            "inputs": [[position[tensor.node], tensor.index, 0] for tensor in node.inputs],
        }
        if node.body is not None:
            entry["subgraphs"] = [_document(node.body)]
        entries.append(entry)
    for tensor in graph.outputs:
        if tensor.node not in position:
            variable(tensor.node)
    return {
        "nodes": entries,
        "arg_nodes": [index for index, entry in enumerate(entries) if entry["op"] == "null"],
        "heads": [[position[tensor.node], tensor.index, 0] for tensor in graph.outputs],
    }
