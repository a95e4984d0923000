"""The entries of a symbol's JSON, with every field's type and every reference checked before use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from quantkit.errors import ModelError
from quantkit.ir.aliases import canonical
from quantkit.ir.allowed_operators import FUSED, OPERATORS
from quantkit.ir.attribute_bounds import attribute_problem, is_true, output_count
from quantkit.ir.fused_bounds import fused_problem
from quantkit.ir.recurrent_layer import GATES

MOST_NODES = 50_000
"""Nodes of the largest network that quantkit reads; the largest of GluonCV's zoo has some 5,000."""

_LONGEST_NAME = 1024
# MXNet spells out the names of each node's inputs.
_LONGEST_NAMES_READ = 1 << 24
_MOST_INPUTS = 1 << 16
_REMEDY = "quantkit reads networks of operators that compute tensors from tensors alone; take it out and export again"


@dataclass(frozen=True)
class Entry:
    """One node: ``inputs`` are positions of earlier nodes, each with the number of one of its outputs.

    Variables have the operator ``null``, all others the canonical name of theirs, whatever alias the file has.
    ``hints`` are attributes of the form ``__x__``, which no operator reads.
    """

    name: str
    op: str
    attrs: Mapping[str, str]
    hints: dict[str, str]
    inputs: tuple[tuple[int, int], ...]
    body: Optional[Entries]


@dataclass(frozen=True)
class Entries:
    """The nodes in order, and the network's outputs in the form of a node's inputs."""

    nodes: tuple[Entry, ...]
    heads: tuple[tuple[int, int], ...]


def entries_of(document: Any, within: str = "") -> Entries:
    """The entries of a symbol's JSON value.

    Args:
        document: the value.
        within: the name of the fused operator whose body it is; empty for a whole network.

    Raises:
        ModelError: it is not a symbol, or has an operator or an attribute that is not allowed in untrusted networks.
    """
    where = f"in the body of {within!r}, " if within else ""
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise _damaged(f"{where}there is no list of nodes")
    values = document["nodes"]
    if len(values) > MOST_NODES:
        raise ModelError(f"the symbol has {len(values)} nodes; quantkit reads up to {MOST_NODES}")
    nodes: list[Entry] = []
    outputs: list[int] = []
    names_read = 0
    for position, value in enumerate(values):
        entry = _entry(value, f"{where}node {position}", within, outputs)
        names_read += sum(len(nodes[read].name) for read, _ in entry.inputs)
        if names_read > _LONGEST_NAMES_READ:
            raise ModelError(
                f"the names of the inputs of all the symbol's nodes have more than {_LONGEST_NAMES_READ} characters; "
                "give its nodes shorter names"
            )
        nodes.append(entry)
        outputs.append(1 if entry.op == "null" else output_count(entry.op, entry.attrs))
    heads = _edges(document.get("heads"), f"{where}the list of outputs", outputs)
    if not heads:
        raise _damaged(f"{where}the network has no output")
    return Entries(tuple(nodes), heads)


def _entry(value: Any, where: str, within: str, outputs: Sequence[int]) -> Entry:
    if not isinstance(value, dict):
        raise _damaged(f"{where} is not an object")
    name, op = _text(value.get("name"), f"{where}: the name"), _text(value.get("op"), f"{where}: the operator")
    where = f"{where} ({name!r})"
    all_attrs: dict[str, str] = {}
    # MXNet before 1.0 wrote operator parameters under "param" and "attr".
    for key in ("param", "attr", "attrs"):
        all_attrs.update(_attributes(value.get(key, {}), where))
    attrs = {key: text for key, text in all_attrs.items() if not key.startswith("__")}
    hints = {key: text for key, text in all_attrs.items() if key.startswith("__")}
    inputs = _edges(value.get("inputs", []), f"{where}: the list of inputs", outputs)
    bodies = value.get("subgraphs", [])
    if op == "null":
        if inputs or bodies:
            raise _damaged(f"{where} is a variable with inputs")
        return Entry(name, op, attrs, hints, (), None)
    _check_operator(op, attrs, len(inputs), where, within)
    body = _body(bodies, op, name, where)
    if body is not None:
        inside = [(each.op, len(each.inputs)) for each in body.nodes if each.op != "null"]
        if problem := fused_problem(op, attrs, len(inputs), inside, len(body.nodes) - len(inside)):
            raise _damaged(f"{where} ({op}) {problem}")
    return Entry(name, *canonical(op, attrs), hints, inputs, body)


def _check_operator(op: str, attrs: dict[str, str], inputs: int, where: str, within: str) -> None:
    signature = OPERATORS.get(op)
    if signature is None or (within and op in FUSED):
        raise ModelError(f"{where} is the operator {op!r}, which is not allowed in a network from a file; {_REMEDY}")
    if not signature.fewest <= inputs <= signature.most:
        raise _damaged(
            f"{where} ({op}) has {inputs} inputs instead of {signature.fewest}"
            + (f" to {signature.most}" if signature.most > signature.fewest else "")
        )
    if op == "RNN" and (problem := _recurrent_problem(attrs, inputs)):
        raise ModelError(f"{where} (RNN) {problem}, and export it again")
    if problem := attribute_problem(op, attrs, inputs):
        raise ModelError(f"{where} ({op}): {problem}; the symbol file is damaged or is not made for inference")


def _recurrent_problem(attrs: Mapping[str, str], inputs: int) -> Optional[str]:
    """Why recurrent layers may not have these attributes and so many inputs, with the remedy; None if they may."""
    projection, mode = attrs.get("projection_size", "None"), attrs.get("mode", "")
    if projection != "None":
        return (
            f"has a projection (projection_size={projection[:20]!r}), which MXNet computes on GPUs only; train the "
            "network with layers without one (projection_size=None)"
        )
    if mode not in GATES:
        return f"has the mode {mode[:20]!r}; give it one that MXNet has, {', '.join(GATES)}"
    lengths = is_true(attrs, "use_sequence_length")
    wanted = ["data", "parameters", "state", *["cell"] * (mode == "lstm"), *["lengths of sequences"] * lengths]
    if inputs != len(wanted):
        return f"has {inputs} inputs, and in the mode {mode} it reads {len(wanted)}: {', '.join(wanted)}; correct them"
    return None


def _body(bodies: Any, op: str, name: str, where: str) -> Optional[Entries]:
    wanted = 1 if op in FUSED else 0
    if not isinstance(bodies, list) or len(bodies) != wanted:
        raise _damaged(f"{where} ({op}) does not contain {wanted} networks")
    return entries_of(bodies[0], name) if bodies else None


def _edges(value: Any, where: str, outputs: Sequence[int]) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list) or len(value) > _MOST_INPUTS:
        raise _damaged(f"{where} is not a list of at most {_MOST_INPUTS} references")
    edges = []
    for edge in value:
        if not isinstance(edge, list) or not 2 <= len(edge) <= 3 or any(type(part) is not int for part in edge):
            raise _damaged(f"{where} holds {str(edge)[:40]!r}, which is no reference to a node's output")
        node, output = edge[:2]
        if not 0 <= node < len(outputs):
            raise _damaged(f"{where} refers to node {str(node)[:20]}, which is not an earlier node")
        if not 0 <= output < outputs[node]:
            raise _damaged(f"{where} refers to output {str(output)[:20]} of node {node}, which has {outputs[node]}")
        edges.append((node, output))
    return tuple(edges)


def _attributes(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _damaged(f"{where}: its attributes are not an object")
    for key, text in value.items():
        if not isinstance(text, str):
            raise _damaged(f"{where}: its attribute {key[:40]!r} is not a string")
        _text(key, f"{where}: an attribute's name")
        if not _is_plain(text):
            raise _damaged(f"{where}: its attribute {key!r} holds characters that no attribute has")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME or not _is_plain(value):
        raise _damaged(f"{what} is not a text of 1 to {_LONGEST_NAME} printable characters")
    return value


def _is_plain(text: str) -> bool:
    """Whether C reads the text unchanged: no zero byte or other control character, nothing that is not Unicode."""
    return (text.isascii() and text.isprintable()) or not any(ord(c) < 32 or 0xD800 <= ord(c) < 0xE000 for c in text)


def _damaged(problem: str) -> ModelError:
    return ModelError(f"the JSON is not an MXNet symbol: {problem}; it is damaged: export it with Symbol.save()")
