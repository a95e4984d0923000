"""The networks that the crash search damages."""

from __future__ import annotations

from collections.abc import Iterator

from quantkit.engine.support import int8_obstacle
from quantkit.graph.graph import Graph
from quantkit.models.load import load_model
from quantkit.pipeline import calibrate, emit, fuse_model, plan


def networks() -> Iterator[tuple[str, Graph, tuple[int, ...]]]:
    """Name, network and input shape: those that ship, and where INT8 runs here, their INT8 networks."""
    for name in ("digits_resnet20_v1", "digits_resnet20_v2"):
        model = load_model(name)
        yield name, model.graph, model.input_shape
        if int8_obstacle() is None:
            fused = fuse_model(model, "digits:train")
            table = calibrate(fused, "digits:train", 8)
            yield f"{name} in INT8", emit(fused, table, plan(fused, table), "digits:train").graph, model.input_shape
