"""Graphs as symbols of the installed engine."""

from __future__ import annotations

from typing import Any

from quantkit.backends.mxnet.calls import failures, reason
from quantkit.backends.mxnet.capabilities import has_integer_dense, release
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.errors import ModelError
from quantkit.formats.mxnet import nnvm
from quantkit.ir.attribute_bounds import attribute_problem
from quantkit.ir.graph import Graph
from quantkit.ir.operators import auxiliary_inputs

PER_CHANNEL = "channel_wise_quantize"
"""The attribute of MXNet's dense layers that makes them round float weights with a scale for each channel."""


def symbol_of(graph: Graph) -> Any:
    """The graph as an ``mx.sym.Symbol``.

    Raises:
        ModelError: it holds an operator, or a parameter of one, that this engine does not know or must not be given.
    """
    mxnet, version = load_mxnet(), release()
    for node in graph.nodes:
        if node.op == "gather_nd" and version < (1, 9, 0):
            raise ModelError(
                f"node {node.name!r} (gather_nd): MXNet {mxnet.__version__} does not check the places that it reads; "
                "use quantkit[onednn] (mxnet 1.9.1)"
            )
        if node.op == "_contrib_ModulatedDeformableConvolution" and version < (1, 9, 0):
            raise ModelError(
                f"node {node.name!r} ({node.op}): MXNet {mxnet.__version__} has no deformable convolution with a mask; "
                "use quantkit[onednn] (mxnet 1.9.1)"
            )
        if PER_CHANNEL in node.attrs and not has_integer_dense():
            raise ModelError(
                f"node {node.name!r} ({node.op}): MXNet {mxnet.__version__} has no INT8 dense layer that hands on "
                "integers; use quantkit[onednn] (mxnet 1.9.1), or quantize the network with this MXNet"
            )
        if problem := attribute_problem(node.op, node.attrs, len(node.inputs)):
            raise ModelError(f"node {node.name!r} ({node.op}): {problem}")
    # Under the engine's own version it neither upgrades the symbol nor reports that it does.
    try:
        return mxnet.sym.load_json(
            nnvm.serialize_on_one_line(graph, version[0] * 10000 + version[1] * 100 + version[2])
        )
    except failures() as error:
        raise ModelError(f"MXNet {mxnet.__version__} cannot read the network: {reason(error)}") from error


def auxiliary_params(graph: Graph) -> frozenset[str]:
    """The names of the parameters that MXNet treats as auxiliary states.

    Raises:
        ModelError: what should be one is no parameter.
    """
    readers = {tensor.node: node for node in graph.nodes for tensor in auxiliary_inputs(node)}
    if other := sorted(readers.keys() - graph.params.keys()):
        node = readers[other[0]]
        raise ModelError(
            f"{node.op} {node.name!r} takes its moving mean or variance from {other[0]!r}, which is no parameter; "
            "the symbol is damaged or was not exported for inference: export it again"
        )
    return frozenset(readers)
