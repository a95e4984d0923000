"""A network as an ONNX model, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from quantkit.errors import ModelError, UserError
from quantkit.extras import using
from quantkit.formats.onnx.writing.conversion import Conversion, Operator, OpsetTooOld, Shape, name_of, refused
from quantkit.formats.onnx.writing.detection import DETECTION
from quantkit.formats.onnx.writing.elementwise import ELEMENTWISE
from quantkit.formats.onnx.writing.int8_lstm import INT8_LSTM
from quantkit.formats.onnx.writing.layers import LAYERS
from quantkit.formats.onnx.writing.layout import LAYOUT
from quantkit.formats.onnx.writing.recurrent import RECURRENT, holds_tokens, with_flat_parameters
from quantkit.formats.onnx.writing.selection import SELECTION
from quantkit.ir.graph import Graph, Tensor
from quantkit.version import __version__

if TYPE_CHECKING:
    from onnx import ModelProto

CONVERTERS = {**LAYERS, **ELEMENTWISE, **LAYOUT, **SELECTION, **DETECTION, **RECURRENT, **INT8_LSTM}

OPSETS = range(13, 22)

_BATCH = "N"

# The size limit of a protocol buffer message.
_MOST_BYTES = 2**31 - 1


def onnx_model(
    graph: Graph,
    shapes: Mapping[Tensor, Shape],
    opset: Optional[int] = None,
    metadata: Mapping[str, str] | None = None,
) -> ModelProto:
    """The network as an ONNX model, checked by ONNX's checker; nodes, inputs and outputs keep their names.

    Args:
        graph: an unfused FP32 network, or one in QDQ form (see ``lowering.qdq``). Its inputs and outputs have the
            batch as their first axis, which the model leaves open. An input that only embeddings read becomes int64.
        shapes: of all its tensors, for a batch of one.
        opset: the version of ONNX's operators, 13 to 21; None for the oldest that has all of the network's.
        metadata: for the model's metadata entries.

    Raises:
        ModelError: an operator has no ONNX form, or the parameters are too large for one file.
        UserError: the opset is unknown, or the package ``onnx`` is not installed.
    """
    check_opset(opset)
    graph = with_flat_parameters(graph)
    conversion = _in_oldest(graph, shapes) if opset is None else _converted(graph, shapes, opset)
    size = sum(value.nbytes for value in conversion.constants.values())
    if size > _MOST_BYTES:
        raise ModelError(f"the network's {size} bytes of parameters do not fit in one ONNX file, which holds 2 GB")
    return _checked(conversion, metadata or {})


def _in_oldest(graph: Graph, shapes: Mapping[Tensor, Shape]) -> Conversion:
    """The network in the oldest opset that has all of its operators."""
    opset = OPSETS[0]
    while True:
        try:
            return _converted(graph, shapes, opset)
        except OpsetTooOld as error:
            opset = error.opset


def _converted(graph: Graph, shapes: Mapping[Tensor, Shape], opset: int) -> Conversion:
    conversion = Conversion(graph, shapes, opset)
    for node in graph.nodes:
        if node.op not in CONVERTERS:
            raise ModelError(
                f"node {node.name!r} cannot be written as ONNX: there is no converter for the operator {node.op}; "
                "end the network before it, or add a converter to quantkit/formats/onnx/writing"
            )
        CONVERTERS[node.op](conversion, node)
    batch = shapes[Tensor(graph.inputs[0])][0]
    for tensor in graph.outputs:
        producer, first = graph.producer(tensor), shapes[tensor][0]
        if producer is not None and first != batch:
            raise refused(producer, f"as an output it has {first} rows for {batch} in the input")
    return conversion


def check_opset(opset: Optional[int]) -> None:
    """Reject opsets that quantkit does not write.

    Raises:
        UserError: the opset is not one of ``OPSETS``.
    """
    if opset is None:
        return
    if isinstance(opset, bool) or not isinstance(opset, Integral) or opset not in OPSETS:
        raise UserError(f"ONNX opset {opset!r} cannot be written; choose one from {OPSETS[0]} to {OPSETS[-1]}")


def _checked(conversion: Conversion, metadata: Mapping[str, str]) -> ModelProto:
    with using("onnx", "ONNX files"):
        from onnx import checker, helper, numpy_helper
    graph, shapes = conversion.graph, conversion.shapes
    body = helper.make_graph(
        [_node(operator) for operator in conversion.operators],
        "network",
        [_tensor(Tensor(name), shapes, holds_tokens(graph, Tensor(name))) for name in graph.inputs],
        [_tensor(tensor, shapes) for tensor in graph.outputs],
        [numpy_helper.from_array(np.asarray(value, order="C"), name) for name, value in conversion.constants.items()],
    )
    own = helper.make_opsetid("", conversion.opset)
    domains = sorted({operator.domain for operator in conversion.operators} - {""})
    model = helper.make_model(
        body,
        producer_name="quantkit",
        producer_version=__version__,
        opset_imports=[own, *(helper.make_opsetid(domain, 1) for domain in domains)],
        # The oldest format that holds these operators: readers reject newer formats than their own.
        ir_version=helper.find_min_ir_version_for([own]),
    )
    helper.set_model_props(model, dict(metadata))
    checker.check_model(model, full_check=True)
    return model


def _node(operator: Operator) -> Any:
    from onnx import helper

    attributes: dict[str, Any] = dict(operator.attributes)
    domain = operator.domain or None
    return helper.make_node(operator.op, operator.inputs, operator.outputs, operator.name, domain=domain, **attributes)


def _tensor(tensor: Tensor, shapes: Mapping[Tensor, Shape], tokens: bool = False) -> Any:
    from onnx import TensorProto, helper

    kind = TensorProto.INT64 if tokens else TensorProto.FLOAT
    return helper.make_tensor_value_info(name_of(tensor), kind, [_BATCH, *shapes[tensor][1:]])
