"""Small networks as ONNX files, for tests of those who run them."""

from __future__ import annotations

import numpy as np

from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.emission.mxnet_float import float_graph
from quantkit.emission.mxnet_int8 import int8_graph
from quantkit.emission.onnx_model import onnx_model
from quantkit.emission.qdq import qdq_network
from quantkit.emission.read_int8 import read_int8
from quantkit.engine.execute import infer_shapes, run
from quantkit.fusion.fuse import fuse
from quantkit.graph.graph import Graph, Tensor
from quantkit.quantization.plan import calibration_targets, make_plan

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


def emitted(graph: Graph, images: np.ndarray, exclude: tuple[str, ...] = ()) -> Graph:
    """A network in INT8 for MXNet, calibrated with the largest values of some images."""
    fused = fuse(graph, IMAGE[1:])
    targets = [tensor for tensor in calibration_targets(fused.graph) if tensor != Tensor("data")]
    values = run(float_graph(fused.graph).with_outputs(targets), {"data": images})
    ranges = {str(tensor): Range(float(value.min()), float(value.max())) for tensor, value in zip(targets, values)}
    ranges["data"] = Range(float(images.min()), float(images.max()))
    table = CalibrationTable("minmax", len(images), "test", ranges, "", "")
    return int8_graph(fused.graph, make_plan(fused, table, exclude))
