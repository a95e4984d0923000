"""The files that store a bundle's quantized network: the fused network, and how each operator and tensor is quantized.

Together they hold the ``QuantizedGraph`` that was lowered to the bundle's symbol. Parameters that the symbol's file
holds are not stored again. Version 1 held the weights of INT8 LSTM layers beside it all the same, and knew no dense
layers that hand on integers; it is still read, and written where neither is in the network.
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

from quantkit.bundle.file_names import FUSED_PARAMS, FUSED_SYMBOL, QUANTIZATION
from quantkit.bundle.lstm_weights import StoredLstm, biases_and_scales, stored_lstms, with_lstm_weights
from quantkit.calibration.ranges import Range
from quantkit.errors import ModelError, UserError
from quantkit.files.schema import Many, first_fault
from quantkit.files.text import MEBIBYTE, read_bytes, read_text
from quantkit.formats.mxnet import nnvm
from quantkit.formats.mxnet.params import read_params, write_params
from quantkit.fusion.float_symbol import float_graph, fused_graph
from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.int8_draft import StoredWeight
from quantkit.lowering.mxnet_int8 import int8_graph, int8_symbol
from quantkit.quantization.arithmetic import DType
from quantkit.quantization.plan import Decision, QuantizationPlan, TensorDtype, TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph, check_quantized

_LARGEST_FILE = 16 * MEBIBYTE

# Engines store scales as float32, and treat subnormal ones as 0.
_LEAST_SCALE, _LARGEST_SCALE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)

_FORMAT: Literal["quantkit-quantization"] = "quantkit-quantization"

_Version = Literal[1, 2]
_FIRST: _Version = 1
_SECOND: _Version = 2

_Index = Annotated[int, Field(ge=0)]
_Positive = Annotated[FiniteFloat, Field(gt=0)]


@dataclass(frozen=True)
class _Span:
    """A tensor (an output of a node) and the range of its values."""

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
    """The quantization of a tensor: ``real = scale * (integer - zero_point)``; the scale follows from the range."""

    dtype: DType
    scale: _Positive
    zero_point: Literal[0] = 0


@dataclass(frozen=True)
class _Weight:
    """A parameter of the fused network that the symbol's file holds as integers with a scale per channel."""

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
    lstms: Many[StoredLstm] = ()
    format: Literal["quantkit-quantization"] = _FORMAT
    version: _Version = _FIRST
    integer_dense: bool = False


def write_quantized(network: QuantizedGraph, folder: Path) -> Graph:
    """Write a quantized network: the fused network, the parameters that only it has, and the plan.

    Returns:
        The lowered network. Its parameters are not written here, but are needed to read the quantized network.
    """
    symbol = int8_symbol(network)
    (folder / FUSED_SYMBOL).write_bytes(nnvm.serialize(float_graph(network.graph)).encode())
    elsewhere = symbol.graph.params.keys() | symbol.weights.keys()
    own = {name: network.graph.params[name] for name in sorted(network.graph.params.keys() - elsewhere)}
    own.update(biases_and_scales(network, symbol))
    with (folder / FUSED_PARAMS).open("wb") as file:
        write_params(file, own)
    (folder / QUANTIZATION).write_bytes(_text(network.plan, symbol.weights, stored_lstms(symbol)).encode())
    return symbol.graph


def read_quantized(folder: Path, lowered: Graph) -> QuantizedGraph:
    """Read a quantized network; ``lowered`` is the network that it was lowered to.

    Raises:
        ModelError: a file cannot be read or is damaged, files contradict each other, or the network does not lower to
            ``lowered``.
    """
    try:
        network = _read(folder, lowered)
        problem = network_difference(int8_graph(network), lowered)
    # NumPy raises ValueError for weights whose shapes do not match.
    except (OSError, UserError, ValueError) as error:
        raise ModelError(str(error)) from error
    if problem:
        raise ModelError(f"the quantized network does not lower to the stored symbol: {problem}")
    return network


def _read(folder: Path, lowered: Graph) -> QuantizedGraph:
    content = read_bytes(folder / QUANTIZATION, _LARGEST_FILE)
    plan, weights, lstms = _parsed(content)
    # Otherwise duplicate, missing or superfluous entries would pass.
    if _text(plan, weights, lstms).encode() != content:
        raise ModelError(f"{QUANTIZATION} is not as quantkit writes it")
    text = read_text(folder / FUSED_SYMBOL, nnvm.LARGEST_SYMBOL)
    fused = fused_graph(nnvm.parse(text, {**lowered.params, **read_params(folder / FUSED_PARAMS)}))
    inputs = tuple(name for name in fused.inputs if name not in weights)
    if len(inputs) + len(weights) != len(fused.inputs):
        raise ModelError(f"{QUANTIZATION} has weights that are not parameters of the fused network")
    fused = replace(fused, inputs=inputs, params={**fused.params, **_dequantized(weights, lowered.params)})
    network = with_lstm_weights(fused, plan, lstms, lowered.params)
    scales = {**network.weight_scales, **_scales(fused, weights, lowered.params)}
    network = replace(network, weight_scales=scales)
    if nnvm.serialize(float_graph(network.graph)) != text:
        raise ModelError(f"{FUSED_SYMBOL} is not as quantkit writes it")
    origins = {name: decision.origin for name, decision in plan.decisions.items()}
    nodes = tuple(replace(node, origin=origins.get(node.name, ())) for node in fused.nodes)
    network = replace(network, graph=replace(network.graph, nodes=nodes))
    check_quantized(network)
    return network


def network_difference(computed: Graph, stored: Graph) -> str:
    """Where two networks differ; empty if they are the same."""
    # Symbols do not tell which variables are inputs and which are parameters.
    if computed.inputs != stored.inputs:
        return "its inputs differ"
    if nnvm.serialize(computed) != nnvm.serialize(stored):
        return "its operators differ"
    pairs = ((name, value, stored.params[name]) for name, value in computed.params.items())
    name = next((name for name, a, b in pairs if a.dtype != b.dtype or not np.array_equal(a, b)), None)
    return "" if name is None else f"the values of {name!r} differ"


def _text(plan: QuantizationPlan, weights: Mapping[str, StoredWeight], lstms: tuple[StoredLstm, ...]) -> str:
    document = _Document(
        plan.exclude,
        plan.dtype,
        tuple(plan.decisions.values()),
        tuple(_tensor(tensor, form) for tensor, form in plan.tensors.items()),
        tuple(_Span(each.node, each.index, span.low, span.high) for each, span in plan.pre_add_ranges.items()),
        tuple(_Weight(name, stored.integers, stored.scales) for name, stored in weights.items()),
        lstms,
        version=_SECOND if lstms or plan.integer_dense else _FIRST,
        integer_dense=plan.integer_dense,
    )
    values = asdict(document)
    if document.version == _FIRST:
        del values["lstms"], values["integer_dense"]
    return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _tensor(tensor: Tensor, form: TensorQuantization) -> _TensorQuantization:
    span = form.range
    return _TensorQuantization(tensor.node, tensor.index, span.low, span.high, form.dtype, form.params.scale)


def _parsed(content: bytes) -> tuple[QuantizationPlan, Mapping[str, StoredWeight], tuple[StoredLstm, ...]]:
    """The plan, and the fused network's parameters that the lowered network stores as integers, and those of LSTMs."""
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
            raise ModelError(f"{QUANTIZATION}: the scale of {str(each.tensor)!r} does not follow from its range")
        if not _LEAST_SCALE <= each.scale <= _LARGEST_SCALE:
            raise ModelError(f"{QUANTIZATION}: the scale of {str(each.tensor)!r} is not a normal float32 number")
    decisions = {each.node: each for each in document.operators}
    plan = QuantizationPlan(decisions, forms, document.exclude, document.dtype, pre_add_ranges, document.integer_dense)
    weights = {each.name: StoredWeight(each.integers, each.scales) for each in document.weights}
    return plan, weights, document.lstms


def _dequantized(weights: Mapping[str, StoredWeight], params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameters that are stored as integers, as FP32 values."""
    values = {}
    for name, stored in weights.items():
        integers, scales = params.get(stored.integers), params.get(stored.scales)
        if integers is None or scales is None or integers.ndim == 0 or scales.size != len(integers):
            raise ModelError(f"{QUANTIZATION} names no integers and scales that fit {name!r}")
        if not np.isfinite(scales).all() or not (scales > 0).all():
            raise ModelError(
                f"the scales of {name!r}, {stored.scales!r}, are not finite and positive; write the bundle again"
            )
        values[name] = np.asarray(integers * scales.reshape(-1, *(1,) * (integers.ndim - 1)), np.float32)
    return values


def _scales(
    graph: Graph, weights: Mapping[str, StoredWeight], params: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The scale of each channel of the layers whose weights are stored as integers, by node."""
    layers = filter(None, map(fused_layer_of, graph.nodes))
    stored = ((layer.node.name, weights.get(layer.weight.node)) for layer in layers)
    return {name: np.asarray(params[each.scales], np.float32).reshape(-1) for name, each in stored if each is not None}


@cache
def _schema() -> TypeAdapter[_Document]:
    """The validator, made once: making it takes longer than using it."""
    return TypeAdapter(_Document)
