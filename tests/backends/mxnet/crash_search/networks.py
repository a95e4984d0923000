"""The networks that the crash search damages."""

from __future__ import annotations

from collections.abc import Iterator

from quantkit.backends.mxnet.support import int8_obstacle
from quantkit.fusion.fused_model import fuse_model
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.models.load import load_model
from quantkit.quantization.algorithms.stage import plan
from quantkit.quantization.calibrate import calibrate
from quantkit.quantization.quantized_graph import QuantizedGraph


def networks() -> Iterator[tuple[str, Graph, tuple[int, ...]]]:
    """Name, network and input shape: those that ship, and where INT8 runs here, their INT8 networks."""
    for name in ("digits_resnet20_v1", "digits_resnet20_v2"):
        model = load_model(name)
        yield name, model.graph, model.input_shape
        if int8_obstacle() is None:
            fused = fuse_model(model, "digits:train")
            table = calibrate(fused, "digits:train", 8)
            network = QuantizedGraph(fused.fused.graph, plan(fused, table))
            yield f"{name} in INT8", int8_graph(network), model.input_shape
