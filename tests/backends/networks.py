"""Small networks as ONNX files, for tests of those who run them."""

from __future__ import annotations

import numpy as np

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.formats.onnx.writing.model import onnx_model
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Graph
from quantkit.lowering.qdq import qdq_network
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.quantization.algorithms.networks import planned

IMAGE = (1, 3, 16, 16)


def float_file(graph: Graph) -> bytes:
    """An FP32 network as an ONNX file."""
    return onnx_model(graph, infer_shapes(graph, {"data": IMAGE})).SerializeToString()


def int8_file(network: QuantizedGraph) -> bytes:
    """A quantized network as an ONNX file."""
    written = qdq_network(network, infer_shapes(float_graph(network.graph), {"data": IMAGE}))
    return onnx_model(written.graph, written.shapes).SerializeToString()


def quantized(graph: Graph, images: np.ndarray, *exclude: str) -> QuantizedGraph:
    """A network, calibrated with the largest values for some images."""
    fused, plan = planned(graph, images, *exclude)
    return QuantizedGraph(fused.graph, plan)
