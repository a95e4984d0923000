"""OnnxFile: an INT8 network's ONNX file, with its roundings and layers, and parts of it as separate files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Optional

from quantkit.errors import ModelError
from quantkit.extras import using
from quantkit.formats.onnx.writing.conversion import DYNAMIC_QUANTIZE_LSTM
from quantkit.lowering.onnx_lstm import LstmForm

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

QUANTIZE = "QuantizeLinear"
DEQUANTIZE = "DequantizeLinear"
_RESHAPING = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
LAYERS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
RECURRENT = frozenset({"LSTM", "GRU", "RNN", DYNAMIC_QUANTIZE_LSTM})

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Rounding:
    """A tensor's rounding to integers and back: the names of the tensors before and after it."""

    before: str
    after: str


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """An ONNX network, parsed."""

    model: ModelProto

    @cached_property
    def _producers(self) -> Mapping[str, NodeProto]:
        return {output: node for node in self.model.graph.node for output in node.output}

    def rounding(self, tensor: str) -> Rounding:
        """How a tensor of the fused network is rounded; one end of the rounding has its name, see ``lowering.qdq``.

        A concatenation of rounded parts that nothing rounds is rounded already.

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
        if producer is not None and producer.op_type == "Concat" and self._joins_rounded(producer):
            return Rounding(tensor, tensor)
        raise ModelError(
            f"the ONNX file does not round the tensor {tensor!r}, which is INT8 in MXNet's network: it was not written "
            "by this version of quantkit, or for another network; export it again"
        )

    def _joins_rounded(self, concat: NodeProto) -> bool:
        parts = [self._producers.get(name) for name in concat.input]
        return all(part is not None and part.op_type == DEQUANTIZE for part in parts)

    def _source(self, node: Optional[NodeProto], op: str) -> Optional[NodeProto]:
        """The node that computes the first input of ``node``, if ``node`` is an ``op``."""
        return self._producers.get(node.input[0]) if node is not None and node.op_type == op else None

    @cached_property
    def layers(self) -> Mapping[str, Literal["int8", "fp32"]]:
        """The precision of convolutions, matrix products and recurrent layers in the file, by name."""
        precisions: dict[str, Literal["int8", "fp32"]] = {}
        for node in self.model.graph.node:
            if node.op_type in LAYERS:
                operands = [self._producers.get(name) for name in node.input[:2]]
                integers = all(operand is not None and operand.op_type == DEQUANTIZE for operand in operands)
                precisions[node.name] = "int8" if integers else "fp32"
            elif node.op_type in RECURRENT:
                weights = self._producers.get(node.input[1])
                integers = node.op_type == DYNAMIC_QUANTIZE_LSTM or (
                    weights is not None and weights.op_type == DEQUANTIZE
                )
                precisions[node.name] = "int8" if integers else "fp32"
        return precisions

    @property
    def lstm(self) -> LstmForm:
        """The form of its INT8 LSTM layers."""
        return "dynamic" if any(node.op_type == DYNAMIC_QUANTIZE_LSTM for node in self.model.graph.node) else "qdq"

    def reshaped(self, name: str) -> tuple[str, ...]:
        """The names of the operators after a layer that only reshape its result; engines drop some of them."""
        names = []
        node = next(each for each in self.model.graph.node if each.name == name)
        while len(readers := self._readers.get(node.output[0], ())) == 1 and readers[0].op_type in _RESHAPING:
            node = readers[0]
            names.append(node.name)
        return tuple(names)

    @cached_property
    def _readers(self) -> Mapping[str, Sequence[NodeProto]]:
        readers: dict[str, list[NodeProto]] = {}
        for node in self.model.graph.node:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        return readers

    def part(self, inputs: Mapping[str, Shape], outputs: Sequence[str]) -> bytes:
        """The operators that compute some tensors from others, as a separate file.

        Args:
            inputs: the shapes of tensors, by name; the batch size is left open. Inputs of the network keep their type,
                all others are float32.
            outputs: the names of float32 tensors.

        Raises:
            ModelError: the outputs depend on more than the inputs.
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
        own = {each.name: each.type.tensor_type.elem_type for each in self.model.graph.input}
        model.graph.input.extend(
            helper.make_tensor_value_info(name, own.get(name, TensorProto.FLOAT), ["N", *shape[1:]])
            for name, shape in inputs.items()
        )
        model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs)
        return bytes(model.SerializeToString())


def parse(content: bytes) -> OnnxFile:
    """Parse the bytes of an ONNX file.

    Raises:
        EngineMissing: the package onnx is not installed.
        ModelError: they are not an ONNX file.
    """
    with using("onnx", "looks into ONNX files"):
        from google.protobuf.message import DecodeError
        from onnx import load_model_from_string
    try:
        return OnnxFile(load_model_from_string(content))
    except DecodeError as error:
        raise ModelError(f"this is not an ONNX file ({error}); export it again") from error


def _reads(node: NodeProto, op: str, tensor: str) -> bool:
    return bool(node.op_type == op and node.input[0] == tensor)
