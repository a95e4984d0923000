"""Small networks as ONNX files, for tests of those who run them."""

from __future__ import annotations

import numpy as np

from quantkit.emission.mxnet_float import float_graph
from quantkit.emission.mxnet_int8 import int8_graph
from quantkit.emission.onnx_model import onnx_model
from quantkit.emission.qdq import qdq_network
from quantkit.emission.read_int8 import read_int8
from quantkit.engine.execute import infer_shapes
from quantkit.graph.graph import Graph
from tests.recovery.networks import planned

IMAGE = (1, 3, 16, 16)


def float_file(graph: Graph) -> bytes:
    """An FP32 network as an ONNX file."""
    return onnx_model(graph, infer_shapes(graph, {"data": IMAGE})).SerializeToString()


def int8_file(int8: Graph) -> bytes:
    """An emitted INT8 network as an ONNX file."""
    fused, plan = read_int8(int8)
    shapes = infer_shapes(float_graph(fused), {"data": IMAGE})
    network = qdq_network(fused, plan, shapes)
    return onnx_model(network.graph, network.shapes).SerializeToString()


def emitted(graph: Graph, images: np.ndarray, *exclude: str) -> Graph:
    """A network in INT8 for MXNet, calibrated with the largest values for some images."""
    fused, plan = planned(graph, images, *exclude)
    return int8_graph(fused.graph, plan)
