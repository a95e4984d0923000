"""nnvm JSON, the file format of MXNet symbols, to and from Graph."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quantkit.errors import ModelError
from quantkit.files.text import MEBIBYTE, parse_json
from quantkit.formats.mxnet.symbol_entries import Entries, Entry, entries_of
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names

# The oldest release that runs INT8 networks; newer ones read its files without upgrading them.
FORMAT_VERSION = 10500

LARGEST_SYMBOL = 32 * MEBIBYTE
"""Characters of the largest symbol that quantkit reads; the largest of GluonCV's zoo has some two million."""


def parse(text: str, params: Mapping[str, np.ndarray]) -> Graph:
    """Read a symbol's JSON text; variables that are in ``params`` become parameters, the others inputs.

    Args:
        text: what ``Symbol.tojson()`` or a ``-symbol.json`` file holds, of any MXNet release.
        params: arrays by plain name, without the ``arg:`` and ``aux:`` of checkpoint files.

    Raises:
        ModelError: the text is not a symbol, contradicts itself, or holds an operator or an attribute that a network
            from a file may not have (see ``allowed_operators``).
    """
    return _graph(read_entries(text), params)


def read_entries(text: str) -> Entries:
    """The nodes of a symbol's JSON text, in the text's order, checked.

    Raises:
        ModelError: see ``parse``.
    """
    if len(text) > LARGEST_SYMBOL:
        raise ModelError(f"the symbol has {len(text)} characters; quantkit reads up to {LARGEST_SYMBOL}")
    try:
        document = parse_json(text)
    except ValueError as error:
        raise ModelError(f"the symbol is not valid JSON ({error}); export it again") from error
    return entries_of(document)


def _graph(entries: Entries, params: Mapping[str, np.ndarray]) -> Graph:
    names = _distinct_names(entries.nodes)
    nodes = [
        Node(
            name=names[position],
            op=entry.op,
            inputs=tuple(Tensor(names[node], output) for node, output in entry.inputs),
            attrs=entry.attrs,
            origin=(entry.name,),
            body=_graph(entry.body, {}) if entry.body else None,
        )
        for position, entry in enumerate(entries.nodes)
        if entry.op != "null"
    ]
    variables = [entry.name for entry in entries.nodes if entry.op == "null"]
    inputs = tuple(name for name in variables if name not in params)
    outputs = tuple(Tensor(names[node], output) for node, output in entries.heads)
    used = {name: params[name] for name in names if name in params}
    return Graph(tuple(nodes), inputs, outputs, used)


def _distinct_names(entries: Sequence[Entry]) -> list[str]:
    """The nodes' names, made unique with numbers: MXNet tells nodes apart by position, not by name."""
    free = Names(entry.name for entry in entries)
    seen: set[str] = set()
    names = []
    for entry in entries:
        names.append(free.take(entry.name) if entry.name in seen and entry.op != "null" else entry.name)
        seen.add(names[-1])
    return names


def serialize(graph: Graph, version: int = FORMAT_VERSION) -> str:
    """Write a Graph as symbol JSON; equal graphs give equal bytes.

    ``version`` is the MXNet release (10500 for 1.5.0) that the file names.
    """
    return json.dumps(_versioned(graph, version), indent=1, ensure_ascii=False) + "\n"


def serialize_on_one_line(graph: Graph, version: int) -> str:
    """The same symbol as that of ``serialize`` in a tenth of the time, for readers that are no people."""
    return json.dumps(_versioned(graph, version), ensure_ascii=False)


def sha256_of(graph: Graph) -> str:
    """The hash of a network's structure and weights: the SHA-256 of its JSON text and its parameters."""
    digest = hashlib.sha256(serialize(graph).encode())
    for name, value in sorted(graph.params.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()


def _versioned(graph: Graph, version: int) -> dict[str, Any]:
    # MXNet reads UTF-8, but not JSON's escapes: whoever dumps this says ``ensure_ascii=False``.
    return {**_document(graph), "attrs": {"mxnet_version": ["int", version]}}


def _document(graph: Graph) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    position: dict[str, int] = {}

    def variable(name: str) -> None:
        position[name] = len(entries)
        entry: dict[str, Any] = {"op": "null", "name": name, "inputs": []}
        if name in graph.params:
            # Not every parameter's shape follows from the input's, and Module.bind takes it from here only.
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
