"""Reading ONNX files: from untrusted bytes to operators and arrays."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import numpy as np

from quantkit.errors import ModelError
from quantkit.extras import using
from quantkit.files.text import open_ordinary
from quantkit.formats.mxnet.symbol_entries import MOST_NODES
from quantkit.formats.onnx.parts import parts_problem
from quantkit.formats.onnx.reading.tensors import Files, array_of, shape_of
from quantkit.formats.onnx.reading.values import Attribute, OnnxNode
from quantkit.ir.names import Names

OPSETS = range(6, 25)
"""The versions of ONNX's operators that are read. Those before 6 have other attributes throughout."""

OWN_DOMAINS = ("", "ai.onnx")

_REMEDY = "the file is damaged, or no ONNX network: export it again"
_FLOATS = (1, 10, 11, 16)
_TOKENS = (6, 7)
_MOST_BYTES = 2**31 - 1


@dataclass(frozen=True)
class Input:
    """A network input. ``extents`` has None for open ones, and is None if the file has no shape.

    ``tokens``: it holds int32 or int64.
    """

    name: str
    extents: Optional[tuple[Optional[int], ...]]
    floating: bool
    tokens: bool = False


@dataclass(frozen=True, eq=False)
class OnnxNetwork:
    """A network as in its file, without what no output needs.

    ``sha256`` and ``size``, in bytes, cover weights in other files. ``zero_states`` are inputs of the file that became
    constants, see ``states.with_zero_states``.
    """

    nodes: tuple[OnnxNode, ...] = field(repr=False)
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray] = field(repr=False)
    opset: int
    metadata: Mapping[str, str]
    sha256: str
    size: int
    zero_states: tuple[str, ...] = ()


def read_network(path: Path) -> OnnxNetwork:
    """Read an ONNX file, and the weights beside it.

    Raises:
        ModelError: the file cannot be read, is damaged, contradicts the specification, or holds what quantkit does not
            read: subgraphs, functions, sparse or text tensors, other opsets than those of ``OPSETS``, an INT8 network.
        UserError: the package ``onnx`` is not installed.
    """
    content = _content(path)
    return _network(content, path)


def _content(path: Path) -> bytes:
    try:
        with open_ordinary(path) as file:
            if os.fstat(file.fileno()).st_size > _MOST_BYTES:
                raise ModelError(f"{path} is larger than 2 GB; save its weights in a file beside it (external data)")
            content = file.read()
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror or error}; check the path and its permissions"
        ) from error
    if not content:
        raise ModelError(f"{path} is empty; export the network again")
    return content


def _network(content: bytes, path: Path) -> OnnxNetwork:
    model = _parsed(content, path)
    opset = _opset(model, path)
    graph = model.graph
    if not graph.node or not graph.output:
        raise ModelError(f"{path} holds no network; {_REMEDY}")
    for what, items in (("operators", graph.node), ("weights", graph.initializer), ("inputs", graph.input)):
        if len(items) > MOST_NODES:
            raise ModelError(f"{path} has {len(items)} {what}; quantkit reads up to {MOST_NODES}")
    if graph.sparse_initializer:
        raise ModelError(f"{path} has sparse weights, which are not read; export it with dense ones")
    _check_names(model, path)
    _check_precision(graph.node, path)
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    if len(tensors) != len(graph.initializer):
        raise ModelError(f"{path} has two weights of the same name; {_REMEDY}")
    # The checker's copy gets shapes where the file has none.
    declared = tuple(_input(each) for each in graph.input)
    _check_without(tensors, model, path)
    outputs = tuple(output.name for output in graph.output)
    needed = _needed(graph.node, outputs)
    read = {name for node in needed for name in node.input} | set(outputs)
    files = Files(path.parent)
    constants = {
        name: array_of(tensor, files, f"{path}: tensor {name!r}") for name, tensor in tensors.items() if name in read
    }
    nodes = tuple(_operators(needed, read, files, path))
    inputs = tuple(each for each in declared if each.name in read and each.name not in tensors)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    return OnnxNetwork(
        nodes, inputs, outputs, constants, opset, metadata, files.digest(content), len(content) + files.size
    )


def _parsed(content: bytes, path: Path) -> Any:
    with using("onnx", "ONNX files"):
        from google.protobuf.message import DecodeError
        from onnx import ModelProto
    if problem := parts_problem(content):
        raise ModelError(f"{path} {problem}; {_REMEDY}")
    try:
        return ModelProto.FromString(content)
    except (DecodeError, ValueError) as error:
        raise ModelError(f"{path} is not a complete ONNX file ({error}); {_REMEDY}") from error


def _opset(model: Any, path: Path) -> int:
    versions = [entry.version for entry in model.opset_import if entry.domain in OWN_DOMAINS]
    if len(versions) != 1:
        raise ModelError(f"{path} does not state the version of its operators (opset); {_REMEDY}")
    if versions[0] not in OPSETS:
        raise ModelError(
            f"{path} has operators of opset {versions[0]}; {OPSETS[0]} to {OPSETS[-1]} are read: "
            "export it with one of these, or convert it with onnx.version_converter"
        )
    return int(versions[0])


def _check_names(model: Any, path: Path) -> None:
    """Check that all names are text: the library returns others as bytes."""
    graph = model.graph
    names = [name for node in graph.node for name in (node.name, node.op_type, node.domain, *node.input, *node.output)]
    names += [each.name for each in (*graph.input, *graph.output, *graph.initializer)]
    names += [each.name for node in graph.node for each in node.attribute]
    names += [text for entry in model.metadata_props for text in (entry.key, entry.value)]
    if wrong := next((name for name in names if not isinstance(name, str)), None):
        raise ModelError(f"{path}: the name {wrong!r} is not UTF-8; {_REMEDY}")


def _check_precision(nodes: Iterable[Any], path: Path) -> None:
    for node in nodes:
        if "Quantize" in node.op_type or "QLinear" in node.op_type or node.op_type in ("ConvInteger", "MatMulInteger"):
            raise ModelError(
                f"{path} is an INT8 network already ({node.name!r} is {node.op_type}); give its FP32 original"
            )


def _check_without(tensors: Mapping[str, Any], model: Any, path: Path) -> None:
    """Run ONNX's checker on all but the weights, which it would copy; ``model`` gets inputs in their place."""
    from onnx import checker, helper

    del model.graph.initializer[:]
    listed = {each.name for each in model.graph.input}
    for name, tensor in tensors.items():
        shape = shape_of(tensor, f"{path}: tensor {name!r}")
        if name not in listed:
            model.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, shape))
    for each in (*model.graph.input, *model.graph.output):
        if each.type.HasField("tensor_type"):
            # Not all exporters write the shapes of outputs, and none is needed.
            each.type.tensor_type.shape.SetInParent()
    try:
        checker.check_model(model)
    except (checker.ValidationError, RuntimeError, ValueError, IndexError, TypeError, MemoryError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"{path} is not a valid ONNX network: {reason}; export it again") from error


def _needed(nodes: Sequence[Any], outputs: Iterable[str]) -> list[Any]:
    """The operators that the outputs need."""
    wanted = set(outputs)
    needed = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            needed.append(node)
            wanted.update(name for name in node.input if name)
    return needed[::-1]


def _operators(nodes: Sequence[Any], read: Container[str], files: Files, path: Path) -> Iterable[OnnxNode]:
    """The operators with unique names: one without a name, or with a name that is taken, gets its first output's.

    Of further outputs, such as the mask of Dropout, those that are not in ``read`` are left out as ONNX does it.
    """
    names = [node.name for node in nodes]
    free = Names(names)
    seen: set[str] = set()
    for node in nodes:
        name = node.name
        if not name or name in seen:
            wanted = next((output for output in node.output if output), node.op_type)
            name = free.take(wanted)
        seen.add(name)
        where = f"{path}: node {name!r} ({node.op_type})"
        attributes = {
            each.name: _attribute(each, files, f"{where}: attribute {each.name!r}") for each in node.attribute
        }
        outputs = (*node.output[:1], *(output if output in read else "" for output in node.output[1:]))
        yield OnnxNode(node.op_type, name, tuple(node.input), outputs, attributes, node.domain)


def _attribute(attribute: Any, files: Files, where: str) -> Attribute:
    kind = attribute.type
    if kind == attribute.FLOAT:
        return float(attribute.f)
    if kind == attribute.INT:
        return int(attribute.i)
    if kind == attribute.STRING:
        return _text(attribute.s, where)
    if kind == attribute.TENSOR:
        return array_of(attribute.t, files, where)
    if kind == attribute.FLOATS:
        return tuple(attribute.floats)
    if kind == attribute.INTS:
        return tuple(attribute.ints)
    if kind == attribute.STRINGS:
        return tuple(_text(each, where) for each in attribute.strings)
    if kind in (attribute.GRAPH, attribute.GRAPHS):
        raise ModelError(
            f"{where} is a network within the network (If, Loop, Scan), which is not read; "
            "export the network without control flow, for instance by tracing"
        )
    raise ModelError(f"{where} is of a kind that is not read (sparse, or a type); export the network without it")


def _text(value: bytes, where: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"{where} is not UTF-8; {_REMEDY}") from error


def _input(proto: Any) -> Input:
    tensor = proto.type.tensor_type
    extents = None
    if tensor.HasField("shape"):
        # Some exporters write 0 or -1 for an open extent.
        values = [each.dim_value if each.HasField("dim_value") else 0 for each in tensor.shape.dim]
        extents = tuple(int(value) if value > 0 else None for value in values)
    return Input(proto.name, extents, tensor.elem_type in _FLOATS, tensor.elem_type in _TOKENS)
