"""Which tensors of an INT8 symbol hold integers of eight bits, beside the types that MXNet infers."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.shapes import check_runs
from quantkit.backends.mxnet.stock import stock_int8_graph
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.errors import EngineError
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.integer_types import eight_bit_tensors, normalization_problem
from tests.networks import images, residual_v1, residual_v2

CALIBRATED = {"min_calib_range": "-1", "max_calib_range": "1"}
DATA = Tensor("data")


def normalized(*nodes: Node) -> Graph:
    """An INT8 batch normalization of what the last of some operators makes of the input."""
    source = nodes[-1]
    statistics = ("gamma", "beta", "mean", "var")
    inputs = (source.output, *map(Tensor, statistics), *(Tensor(source.name, end) for end in (1, 2)))
    norm = Node("norm", "_contrib_quantized_batch_norm", inputs, CALIBRATED)
    params = {name: np.ones(4, np.float32) for name in statistics}
    return Graph((*nodes, norm), ("data",), (norm.output,), params)


@pytest.mark.parametrize("make", [residual_v1, residual_v2])
def test_mxnet_infers_eight_bits_too(make: object) -> None:
    graph = stock_int8_graph(make(), images(4), "naive")  # type: ignore[operator]
    tensors = sorted(eight_bit_tensors(graph) & {node.output for node in graph.nodes}, key=str)
    part = graph.with_outputs(tuple(tensors)).pruned()
    known = {"data": np.float32, **{name: value.dtype.type for name, value in part.params.items()}}
    symbol = symbol_of(part)
    _, types, _ = symbol.infer_type(**{name: known[name] for name in symbol.list_arguments()})
    assert len(tensors) > 3
    assert {np.dtype(each).name for each in types} <= {"int8", "uint8"}


@pytest.mark.parametrize(
    ("op", "attrs", "certain"),
    [
        ("_contrib_quantize_v2", CALIBRATED, True),
        ("_contrib_quantized_pooling", {"kernel": "(2, 2)"}, False),
        ("_sg_mkldnn_conv", {"quantized": "true", **CALIBRATED}, True),
        ("_sg_mkldnn_conv", {"quantized": "true"}, False),
        ("_sg_mkldnn_conv", CALIBRATED, False),
        ("_sg_mkldnn_conv", {"quantized": "true", **CALIBRATED, "enable_float_output": "true"}, False),
        ("_contrib_quantized_conv", {}, False),
        ("Convolution", {}, False),
    ],
)
def test_a_normalization_must_read_eight_bits(op: str, attrs: dict[str, str], certain: bool) -> None:
    graph = normalized(Node("source", op, (DATA,), attrs))
    problem = normalization_problem(graph)
    assert (problem is None) if certain else "'norm' (_contrib_quantized_batch_norm) must read" in (problem or "")


def test_integers_stay_integers_where_values_are_only_chosen() -> None:
    quantized = Node("quantized", "_contrib_quantize_v2", (DATA,), CALIBRATED)
    pooled = Node("pooled", "_contrib_quantized_pooling", tuple(Tensor("quantized", end) for end in range(3)), {})
    assert normalization_problem(normalized(quantized, pooled)) is None


def test_kept_integers_are_certain() -> None:
    kept = Graph((), (), (), {"w": np.ones(3, np.int8), "b": np.ones(3, np.int32), "f": np.ones(3, np.float32)})
    assert eight_bit_tensors(kept) == {Tensor("w")}


def test_the_engine_is_not_given_floats_to_normalize_as_integers() -> None:
    with pytest.raises(EngineError, match="must read integers of eight bits, which 'source' need not be"):
        check_runs(normalized(Node("source", "Activation", (DATA,), {"act_type": "relu"})), {"data": (1, 4, 2, 2)})
