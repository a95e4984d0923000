"""What an ONNX file of an INT8 network says of its tensors and layers, and parts of it as files of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Optional

from quantkit.errors import ModelError
from quantkit.extras import using

if TYPE_CHECKING:
    from onnx import ModelProto

QUANTIZE = "QuantizeLinear"
DEQUANTIZE = "DequantizeLinear"
_RESHAPING = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
LAYERS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Rounding:
    """A tensor's way to integers and back: what is rounded, and the result, by name."""

    before: str
    after: str


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """An ONNX network, parsed."""

    model: ModelProto

    @cached_property
    def _producers(self) -> Mapping[str, Any]:
        return {output: node for node in self.model.graph.node for output in node.output}

    def rounding(self, tensor: str) -> Rounding:
        """How a tensor of the fused network is rounded; its name is that of either end, see ``lowering.qdq``.

        Raises:
            ModelError: the file does not round it.
        """
        producer = self._producers.get(tensor)
        stored = self._source(producer, DEQUANTIZE)
        if stored is not None and stored.op_type == QUANTIZE:
            return Rounding(stored.input[0], tensor)
        quantized = {node.output[0] for node in self.model.graph.node if _reads(node, QUANTIZE, tensor)}
        for node in self.model.graph.node:
            if node.op_type == DEQUANTIZE and node.input[0] in quantized:
                return Rounding(tensor, node.output[0])
        raise ModelError(
            f"the ONNX file does not round the tensor {tensor!r}, which is INT8 in MXNet's network: it was not written "
            "by this version of quantkit, or for another network; export it again"
        )

    def _source(self, node: Optional[Any], op: str) -> Optional[Any]:
        """What computes the first input of ``node``, if that is an ``op``."""
        return self._producers.get(node.input[0]) if node is not None and node.op_type == op else None

    @cached_property
    def layers(self) -> Mapping[str, Literal["int8", "fp32"]]:
        """Convolutions and products by name: whether the file has them compute with integers."""
        found: dict[str, Literal["int8", "fp32"]] = {}
        for node in self.model.graph.node:
            if node.op_type in LAYERS:
                operands = [self._producers.get(name) for name in node.input[:2]]
                integers = all(operand is not None and operand.op_type == DEQUANTIZE for operand in operands)
                found[node.name] = "int8" if integers else "fp32"
        return found

    def reshaped(self, name: str) -> tuple[str, ...]:
        """The operators, by name, that do nothing but give a layer's result another shape; engines drop some."""
        found = []
        node = next(each for each in self.model.graph.node if each.name == name)
        while len(readers := self._readers.get(node.output[0], ())) == 1 and readers[0].op_type in _RESHAPING:
            node = readers[0]
            found.append(node.name)
        return tuple(found)

    @cached_property
    def _readers(self) -> Mapping[str, Sequence[Any]]:
        found: dict[str, list[Any]] = {}
        for node in self.model.graph.node:
            for name in node.input:
                found.setdefault(name, []).append(node)
        return found

    def part(self, inputs: Mapping[str, Shape], outputs: Sequence[str]) -> bytes:
        """What leads from some tensors to others, as a file of its own.

        Args:
            inputs: float32 tensors by name, with their shapes; the batch size is left open.
            outputs: float32 tensors.

        Raises:
            ModelError: they depend on something else besides.
        """
        from onnx import ModelProto, TensorProto, helper

        needed, nodes = set(outputs), []
        for node in reversed(self.model.graph.node):
            if needed.intersection(node.output) - set(inputs):
                nodes.append(node)
                needed.update(node.input)
        constants = [each for each in self.model.graph.initializer if each.name in needed]
        known = {*inputs, *(each.name for each in constants), *(name for node in nodes for name in node.output), ""}
        if missing := sorted(needed - known):
            raise ModelError(f"{outputs[0]!r} depends on {missing[0]!r} besides {', '.join(map(repr, inputs))}")
        model = ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        model.graph.name = "part"
        model.graph.node.extend(reversed(nodes))
        model.graph.initializer.extend(constants)
        model.graph.input.extend(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *shape[1:]]) for name, shape in inputs.items()
        )
        model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs)
        return bytes(model.SerializeToString())


def parse(content: bytes) -> OnnxFile:
    """Read a file's bytes.

    Raises:
        EngineMissing: the package onnx is not installed.
        ModelError: they are no ONNX file.
    """
    with using("onnx", "looks into ONNX files"):
        from google.protobuf.message import DecodeError
        from onnx import load_model_from_string
    try:
        return OnnxFile(load_model_from_string(content))
    except DecodeError as error:
        raise ModelError(f"this is no ONNX file ({error}); export it again") from error


def _reads(node: Any, op: str, tensor: str) -> bool:
    return bool(node.op_type == op and node.input[0] == tensor)
