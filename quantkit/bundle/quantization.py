"""The files that hold a bundle's quantized network: the fused network, and how each operator and tensor is quantized.

Together they are the ``QuantizedGraph`` that was lowered to the bundle's symbol. Parameters that are in the symbol's
own file are not stored again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from quantkit.calibration.ranges import Range
from quantkit.errors import ModelError, UserError
from quantkit.files.schema import Many, first_fault
from quantkit.files.text import MEBIBYTE, read_bytes, read_text
from quantkit.formats.mxnet import nnvm
from quantkit.formats.mxnet.params import read_params, write_params
from quantkit.fusion.float_symbol import float_graph, fused_graph
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.mxnet_int8 import StoredWeight, int8_graph, int8_symbol
from quantkit.quantization.arithmetic import DType
from quantkit.quantization.plan import Decision, Plan, TensorDtype, TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph, check_quantized

FUSED_SYMBOL = "fused-symbol.json"
FUSED_PARAMS = "fused-0000.params"
QUANTIZATION = "quantization.json"

_LARGEST_FILE = 16 * MEBIBYTE

# Engines hold scales as float32, and take subnormal ones for 0.
_LEAST_SCALE, _LARGEST_SCALE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)

_FORMAT: Literal["quantkit-quantization"] = "quantkit-quantization"
_VERSION: Literal[1] = 1

_Index = Annotated[int, Field(ge=0)]
_Positive = Annotated[FiniteFloat, Field(gt=0)]


@dataclass(frozen=True)
class _Span:
    """A tensor (an output of a node), and between which values it lies."""

    node: str
    index: _Index
    low: FiniteFloat
    high: FiniteFloat

    @property
    def tensor(self) -> Tensor:
        return Tensor(self.node, self.index)

    @property
    def range(self) -> Range:
        return Range(self.low, self.high)


@dataclass(frozen=True)
class _TensorQuantization(_Span):
    """The integers of a tensor: ``real = scale * (integer - zero_point)``; the range gives the scale."""

    dtype: DType
    scale: _Positive
    zero_point: Literal[0] = 0


@dataclass(frozen=True)
class _Weight:
    """A parameter of the fused network that the symbol's parameters hold as integers with a scale per channel."""

    name: str
    integers: str
    scales: str
    axis: Literal[0] = 0


@dataclass(frozen=True)
class _Document:
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    exclude: Many[str]
    dtype: TensorDtype
    operators: Many[Decision]
    tensors: Many[_TensorQuantization]
    pre_add_ranges: Many[_Span]
    weights: Many[_Weight]
    format: Literal["quantkit-quantization"] = _FORMAT
    version: Literal[1] = _VERSION


def write_quantized(network: QuantizedGraph, folder: Path) -> Graph:
    """Write a quantized network: the fused network, its own parameters, and the plan.

    Returns:
        What the network is lowered to. Its parameters are not written here, and needed to read the network.
    """
    symbol = int8_symbol(network)
    (folder / FUSED_SYMBOL).write_bytes(nnvm.serialize(float_graph(network.graph)).encode())
    elsewhere = symbol.graph.params.keys() | symbol.weights.keys()
    own = {name: network.graph.params[name] for name in sorted(network.graph.params.keys() - elsewhere)}
    with (folder / FUSED_PARAMS).open("wb") as file:
        write_params(file, own)
    (folder / QUANTIZATION).write_bytes(_text(network.plan, symbol.weights).encode())
    return symbol.graph


def read_quantized(folder: Path, lowered: Graph) -> QuantizedGraph:
    """Read a quantized network; ``lowered`` is what it was lowered to.

    Raises:
        ModelError: a file cannot be read or is damaged, one contradicts another, or the network is lowered to something
            else.
    """
    try:
        network = _read(folder, lowered)
        problem = network_difference(int8_graph(network), lowered)
    # Weights of shapes that do not go together are a ValueError of NumPy's.
    except (OSError, UserError, ValueError) as error:
        raise ModelError(str(error)) from error
    if problem:
        raise ModelError(f"the network is lowered to another one than it says: {problem}")
    return network


def _read(folder: Path, lowered: Graph) -> QuantizedGraph:
    content = read_bytes(folder / QUANTIZATION, _LARGEST_FILE)
    plan, weights = _parsed(content)
    # What is doubled, left out or of no use would pass otherwise.
    if _text(plan, weights).encode() != content:
        raise ModelError(f"{QUANTIZATION} is not as quantkit writes it")
    text = read_text(folder / FUSED_SYMBOL, nnvm.LARGEST_SYMBOL)
    fused = fused_graph(nnvm.parse(text, {**lowered.params, **read_params(folder / FUSED_PARAMS)}))
    inputs = tuple(name for name in fused.inputs if name not in weights)
    if len(inputs) + len(weights) != len(fused.inputs):
        raise ModelError(f"{QUANTIZATION} has weights that are no parameters of the fused network")
    fused = replace(fused, inputs=inputs, params={**fused.params, **_dequantized(weights, lowered.params)})
    if nnvm.serialize(float_graph(fused)) != text:
        raise ModelError(f"{FUSED_SYMBOL} is not as quantkit writes it")
    origins = {name: decision.origin for name, decision in plan.decisions.items()}
    nodes = tuple(replace(node, origin=origins.get(node.name, ())) for node in fused.nodes)
    network = QuantizedGraph(replace(fused, nodes=nodes), plan)
    check_quantized(network)
    return network


def network_difference(made: Graph, found: Graph) -> str:
    """Where two networks differ; empty where they are the same."""
    # Symbols do not tell which variables are inputs and which are parameters.
    if made.inputs != found.inputs:
        return "its inputs are others"
    if nnvm.serialize(made) != nnvm.serialize(found):
        return "its operators are others"
    pairs = ((name, value, found.params[name]) for name, value in made.params.items())
    name = next((name for name, a, b in pairs if a.dtype != b.dtype or not np.array_equal(a, b)), None)
    return "" if name is None else f"the values of {name!r} are others"


def _text(plan: Plan, weights: Mapping[str, StoredWeight]) -> str:
    document = _Document(
        plan.exclude,
        plan.dtype,
        tuple(plan.decisions.values()),
        tuple(_tensor(tensor, form) for tensor, form in plan.tensors.items()),
        tuple(_Span(each.node, each.index, span.low, span.high) for each, span in plan.pre_add_ranges.items()),
        tuple(_Weight(name, stored.integers, stored.scales) for name, stored in weights.items()),
    )
    return json.dumps(asdict(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _tensor(tensor: Tensor, form: TensorQuantization) -> _TensorQuantization:
    span = form.range
    return _TensorQuantization(tensor.node, tensor.index, span.low, span.high, form.dtype, form.params.scale)


def _parsed(content: bytes) -> tuple[Plan, Mapping[str, StoredWeight]]:
    """The plan, and the fused network's parameters that are integers in the lowered one's."""
    try:
        document = _schema().validate_json(content)
    except ValidationError as error:
        where, what = first_fault(error)
        raise ModelError(f"{QUANTIZATION} at {where or 'its beginning'}: {what}") from error
    try:
        forms = {each.tensor: TensorQuantization(each.range, each.dtype) for each in document.tensors}
        pre_add_ranges = {each.tensor: each.range for each in document.pre_add_ranges}
    except UserError as error:
        raise ModelError(f"{QUANTIZATION}: {error}") from error
    for each in document.tensors:
        if forms[each.tensor].params.scale != each.scale:
            raise ModelError(f"{QUANTIZATION}: the scale of {str(each.tensor)!r} is not the one of its range")
        if not _LEAST_SCALE <= each.scale <= _LARGEST_SCALE:
            raise ModelError(f"{QUANTIZATION}: the scale of {str(each.tensor)!r} is no number of float32")
    decisions = {each.node: each for each in document.operators}
    plan = Plan(decisions, forms, document.exclude, document.dtype, pre_add_ranges)
    return plan, {each.name: StoredWeight(each.integers, each.scales) for each in document.weights}


def _dequantized(weights: Mapping[str, StoredWeight], params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameters that are stored as integers, as the FP32 values that these stand for."""
    found = {}
    for name, stored in weights.items():
        integers, scales = params.get(stored.integers), params.get(stored.scales)
        if integers is None or scales is None or integers.ndim == 0 or scales.size != len(integers):
            raise ModelError(f"there are no integers and scales of {name!r}")
        found[name] = np.asarray(integers * scales.reshape(-1, *(1,) * (integers.ndim - 1)), np.float32)
    return found


@cache
def _schema() -> TypeAdapter[_Document]:
    """It takes longer to make than to use."""
    return TypeAdapter(_Document)
