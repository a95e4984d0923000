"""Symbol files that would have MXNet run code, read beyond arrays or end the process are refused before that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest

from quantkit.errors import EngineError, ModelError
from quantkit.formats.mxnet import nnvm
from quantkit.formats.mxnet.nnvm import LARGEST_SYMBOL
from quantkit.formats.mxnet.symbol_entries import MOST_NODES
from quantkit.ir.allowed_operators import FUSED, OPERATORS
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.tensor_bounds import tensor_problem

VARIABLE = {"op": "null", "name": "data", "inputs": []}


def symbol(op: str, attrs: object = None, inputs: object = 1, name: object = "x", **fields: Any) -> str:
    """A symbol of one operator, whose inputs are so many variables, or are given."""
    count = inputs if isinstance(inputs, int) else 1
    nodes: list[object] = [{**VARIABLE, "name": f"data{each}" if each else "data"} for each in range(count)]
    edges = [[each, 0, 0] for each in range(count)] if isinstance(inputs, int) else inputs
    nodes.append({"op": op, "name": name, "attrs": {} if attrs is None else attrs, "inputs": edges, **fields})
    return json.dumps({"nodes": nodes, "heads": [[count, 0, 0]]})


REFUSED = """
    _Native _NDArray Custom _CustomFunction _CachedOp _CachedOpThreadSafe _FusedOp _NoGradient _TVM_x CaffeOp
    TorchModule
    _cvimread _cvimdecode _imdecode _npi_cvimread _npi_Custom _foreach _while_loop _cond _backward_Convolution
    sgd_update
    _CrossDeviceCopy scatter_nd _scatter_set_nd _contrib_ROIAlign _contrib_dgl_subgraph cast_storage Null nonsense
"""


@pytest.mark.parametrize("op", REFUSED.split())
def test_operators_that_may_not_be_in_a_file(op: str) -> None:
    with pytest.raises(ModelError, match=rf"node 1 \('x'\) is the operator '{op}', which is not allowed") as caught:
        nnvm.parse(symbol(op, {"info": "0x4141414141"}), {})
    assert "take it out and export again" in str(caught.value)


def test_the_inside_of_a_fused_operator_is_checked_too() -> None:
    inside = {"nodes": [VARIABLE, {"op": "Custom", "name": "y", "inputs": [[0, 0, 0]]}], "heads": [[1, 0, 0]]}
    with pytest.raises(ModelError, match=r"in the body of 'x', node 1 .* 'Custom'"):
        nnvm.parse(symbol("_sg_mkldnn_conv", inputs=2, subgraphs=[inside]), {})
    nested = json.loads(symbol("_sg_mkldnn_conv", inputs=2, subgraphs=[inside]))
    with pytest.raises(ModelError, match=r"in the body of 'x', node 2 .* '_sg_mkldnn_conv'"):
        nnvm.parse(symbol("_sg_mkldnn_conv", inputs=2, subgraphs=[nested]), {})


@pytest.mark.parametrize("bodies", [[], [{}, {}], {}, None, [None], "x"])
def test_only_fused_operators_have_one_network_inside(bodies: object) -> None:
    with pytest.raises(ModelError):
        nnvm.parse(symbol("_sg_mkldnn_conv", inputs=2, subgraphs=bodies), {})
    inside = {"nodes": [VARIABLE], "heads": [[0, 0, 0]]}
    with pytest.raises(ModelError, match="does not contain 0 networks"):
        nnvm.parse(symbol("relu", subgraphs=[inside]), {})


def test_all_operators_of_the_list_are_the_engine_s(engine: None) -> None:
    from quantkit.benchmark.workers.worker_mxnet import load_mxnet, operator_names

    newer = {"_contrib_BatchNormWithReLU", "_contrib_ModulatedDeformableConvolution"}
    newer |= {"_contrib_quantized_elemwise_mul", "_contrib_quantized_embedding"}
    newer |= {"_contrib_quantize_asym", "_contrib_quantized_rnn"}
    assert OPERATORS.keys() - operator_names(load_mxnet()) <= newer
    assert FUSED.keys() <= OPERATORS.keys()


CONV = {"kernel": "(3, 3)", "num_filter": "4"}
RECURRENT = {"num_layers": "1", "state_size": "4"}
LSTM = {"mode": "lstm", **RECURRENT}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (symbol("Convolution", {**CONV, "num_group": "0"}, 2), "num_group='0' is not from 1"),
        (symbol("Convolution", {**CONV, "stride": "(0, 1)"}, 2), "stride"),
        (symbol("_contrib_quantized_pooling", {"layout": "NHWC"}, 3), "layout='NHWC'"),
        (symbol("_contrib_quantized_pooling", {"kernel": "(2,)"}, 3), "does not pool integers in two or three"),
        (
            symbol("_contrib_quantized_pooling", {"kernel": "(2, 2)", "stride": "None"}, 3),
            "does not pool integers in two or three",
        ),
        (
            symbol("_contrib_quantized_pooling", {"kernel": "(2, 2)", "pad": "None"}, 3),
            "does not pool integers in two or three",
        ),
        (symbol("_contrib_quantized_pooling", {"kernel": "(2, 2)", "pool_type": "sum"}, 3), "pool_type='sum'"),
        (symbol("_contrib_quantized_act", {"act_type": "tanh"}, 3), "act_type='tanh'"),
        (symbol("_contrib_quantized_act", {}, 3), "act_type=''"),
        (symbol("_contrib_quantized_batch_norm", {"axis": "2"}, 7), "axis='2'"),
        (symbol("_contrib_quantize_asym", {}, 1), "no calibrated range"),
        (
            symbol("_contrib_quantize_asym", {"min_calib_range": "0", "max_calib_range": "inf"}, 1),
            "no calibrated range",
        ),
        (symbol("_contrib_quantize_asym", {"min_calib_range": "1", "max_calib_range": "1"}, 1), "no calibrated range"),
        (symbol("_contrib_quantized_rnn", {**LSTM, "mode": "gru"}, 6), "not one LSTM layer"),
        (symbol("_contrib_quantized_rnn", {**LSTM, "num_layers": "2"}, 6), "not one LSTM layer"),
        (symbol("_contrib_quantized_rnn", {**LSTM, "bidirectional": "True"}, 6), "not one LSTM layer"),
        (symbol("_arange", {"stop": "1e38"}, 0), "more values than can be counted"),
        (symbol("_arange", {"start": "-inf", "stop": "5"}, 0), "more values than can be counted"),
        (symbol("_arange", {"start": "1", "stop": "5", "step": "1e-38"}, 0), "more values than can be counted"),
        (symbol("_arange", {"start": "1", "stop": "5", "step": "0"}, 0), "more values than can be counted"),
        (symbol("_arange", {"start": "nan"}, 0), "more values than can be counted"),
        (symbol("_arange", {"start": "0x7p9"}, 0), "more values than can be counted"),
        (symbol("Convolution", {**CONV, "dilate": "(2147483647, 1)"}, 2), "dilate"),
        (symbol("Convolution", {**CONV, "pad": "(9223372036854775807, 2)"}, 2), "pad"),
        (symbol("Convolution", {**CONV, "num_filter": "9" * 10_000}, 2), "num_filter"),
        (symbol("relu", {"info": "0x41"}), "'info' is not allowed"),
        (symbol("relu", {"subgraph_backend": "x"}), "is not allowed"),
        (symbol("relu", {"a b": "x"}), "is not allowed"),
        (symbol("relu", {"a": "x" * 70_000}), "70000 characters"),
        (symbol("relu", {"a": 3}), "is not a string"),
        (symbol("relu", {"a": "x\0y"}), "characters that no attribute has"),
        (symbol("relu", {"a": "\ud800"}), "characters that no attribute has"),
        (symbol("relu", "text"), "attributes are not an object"),
        (symbol("relu", name="x\0y"), "name is not a text"),
        (symbol("relu", name="\ud800"), "name is not a text"),
        (symbol("relu", name="x" * 2000), "name is not a text"),
        (symbol("relu", name=None), "name is not a text"),
        (symbol("_zeros", {"shape": "(2,)", "ctx": "gpu(0)"}, 0), "is not a CPU"),
        (symbol("Concat", {"num_args": "3"}, 2), "num_args"),
        (symbol("BatchNorm", {}, 1), "has 1 inputs instead of 5"),
        (symbol("BatchNorm", {}, 0), "has 0 inputs instead of 5"),
        (symbol("take", {}, 1), "has 1 inputs instead of 2"),
        (symbol("_split_v2", {"indices": "()", "sections": "0"}), "neither into equal"),
        (symbol("_split_v2", {"indices": "(0, 2)", "sections": "2"}), "neither into equal"),
        (symbol("RNN", {"state_size": "4", "num_layers": "99999999", "mode": "gru"}, 3), "num_layers"),
        (
            symbol("RNN", {"state_size": "4", "num_layers": "1", "mode": "lstm", "projection_size": "2"}, 4),
            r"has a projection \(projection_size='2'\), .* GPUs only; train the network .*without one",
        ),
        (symbol("RNN", {**RECURRENT, "mode": "lstmx"}, 4), "the mode 'lstmx'; give it one that .* lstm, gru, rnn_tanh"),
        (symbol("RNN", RECURRENT, 4), "the mode ''; give it one that MXNet has"),
        (symbol("RNN", {**RECURRENT, "mode": "gru"}, 4), "has 4 inputs, .* mode gru it reads 3: .*; correct them, and"),
        (symbol("RNN", LSTM, 3), "has 3 inputs, .* reads 4: data, parameters, state, cell;"),
        (
            symbol("RNN", {**RECURRENT, "mode": "gru", "use_sequence_length": "True"}, 3),
            "reads 4: data, parameters, state, lengths of sequences;",
        ),
        # MXNet makes 4,464 of them.
        (
            symbol("_contrib_BilinearResize2D", {"height": "2", "width": "70000"}),
            "width='70000' is not from 0 to 32767",
        ),
        (symbol("relu", inputs=[[1, 0, 0]]), "not an earlier node"),
        (symbol("relu", inputs=[[-1, 0, 0]]), "not an earlier node"),
        (symbol("relu", inputs=[[1 << 80, 0, 0]]), "not an earlier node"),
        (symbol("relu", inputs=[[0, 1, 0]]), "output 1 of node 0, which has 1"),
        (symbol("relu", inputs=[[0, -1, 0]]), "output -1"),
        (symbol("relu", inputs=[[0.0, 0, 0]]), "no reference"),
        (symbol("relu", inputs=[[True, 0, 0]]), "no reference"),
        (symbol("relu", inputs=[[0]]), "no reference"),
        (symbol("relu", inputs="00"), "not a list"),
        (json.dumps({"nodes": [VARIABLE], "heads": [[5, 0, 0]]}), "not an earlier node"),
        (json.dumps({"nodes": [VARIABLE], "heads": []}), "no output"),
        (json.dumps({"nodes": [VARIABLE] * (MOST_NODES + 1), "heads": [[0, 0, 0]]}), "up to"),
        ('{"nodes": [], "nodes": [], "heads": []}', "occurs twice"),
        ("[" * 1_000_000, "nests too deep"),
        (" " * (LARGEST_SYMBOL + 1), "characters"),
        ('{"nodes": NaN}', "not a finite number"),
    ],
)
def test_fields_are_checked(text: str, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        nnvm.parse(text, {})


def test_as_many_nodes_as_allowed_may_share_a_name() -> None:
    nodes = [VARIABLE, *({"op": "relu", "name": "x", "inputs": [[0, 0, 0]]} for _ in range(MOST_NODES - 1))]
    graph = nnvm.parse(json.dumps({"nodes": nodes, "heads": [[1, 0, 0]]}), {})
    assert [node.name for node in graph.nodes[:3]] == ["x", "x_1", "x_2"]
    assert graph.nodes[-1].name == f"x_{MOST_NODES - 2}"


def test_names_may_not_be_spelled_out_without_end() -> None:
    """MXNet writes them at every edge, and so does what is asked of it."""
    long = {"op": "null", "name": "x" * 1000, "inputs": []}
    nodes = [long, *({"op": "add_n", "name": f"n{number}", "inputs": [[0, 0, 0]] * 100} for number in range(200))]
    for node in nodes[1:]:
        node["attrs"] = {"num_args": "100"}
    with pytest.raises(
        ModelError, match="the names of the inputs of all the symbol's nodes have more than 16777216 characters"
    ):
        nnvm.parse(json.dumps({"nodes": nodes, "heads": [[1, 0, 0]]}), {})
    assert len(nnvm.parse(json.dumps({"nodes": nodes[:160], "heads": [[1, 0, 0]]}), {}).nodes) == 159


def _run(op: str, attrs: dict[str, str], *values: np.ndarray) -> list[np.ndarray]:
    from quantkit.backends.mxnet.execute import MxnetSession

    params = {f"p{index}": value for index, value in enumerate(values)}
    node = Node("x", op, tuple(map(Tensor, params)), attrs)
    return MxnetSession(Graph((node,), (), (node.output,), params), {}).run({})


# Each of these ended the process in mxnet 1.9.1, or wrote beyond its output.
@pytest.mark.parametrize(
    ("op", "attrs", "values", "complaint"),
    [
        ("Reshape", {"shape": "(1,)"}, [np.ones((2, 4, 6, 6), np.float32)], "cannot give"),
        ("where", {}, [np.ones((2, 4, 6, 6)), np.ones((4, 4)), np.ones((4, 4))], "condition of shape"),
        ("elemwise_div", {}, [np.ones(3, np.int32), np.zeros(3, np.int32)], "instead of floating-point"),
        ("broadcast_mod", {}, [np.ones(3, np.uint8), np.zeros(3, np.uint8)], "instead of floating-point"),
        ("_div_scalar", {"scalar": "0"}, [np.ones(3, np.int32)], "instead of floating-point"),
        ("tile", {"reps": "(40000, 40000)"}, [np.ones((1, 1), np.float32)], "holds more than"),
    ],
)
def test_shapes_and_types_that_the_engine_does_not_survive(
    engine: None, op: str, attrs: dict[str, str], values: list[np.ndarray], complaint: str
) -> None:
    with pytest.raises(EngineError, match=complaint):
        _run(op, attrs, *values)


@pytest.mark.parametrize("shape", [(2, 4, 6, 6), (2, 4), (8,)])
def test_sequences_alone_are_quantized_with_a_zero_point(shape: tuple[int, ...]) -> None:
    data = Tensor("data")
    node = Node("quantized", "_contrib_quantize_asym", (data,))
    problem = tensor_problem([node], {data: shape}, {data: np.dtype(np.float32)})
    assert problem is not None and "steps, batch, features" in problem
    assert tensor_problem([node], {data: (3, 2, 5)}, {data: np.dtype(np.float32)}) is None


LSTM_SHAPES = [(3, 2, 5), (4 * 4 * (5 + 4 + 2),), (1, 2, 4), (1, 2, 4), (1,), (1,)]
LSTM_TYPES = [np.uint8, *[np.float32] * 5]


def _lstm_problem(shapes: list[tuple[int, ...]], types: list[type]) -> Optional[str]:
    inputs = tuple(Tensor(f"input{number}") for number in range(6))
    node = Node("lstm", "_contrib_quantized_rnn", inputs, LSTM)
    return tensor_problem([node], dict(zip(inputs, shapes)), dict(zip(inputs, map(np.dtype, types))))


def test_lstm_layers_with_sound_shapes_have_no_problem() -> None:
    assert _lstm_problem(LSTM_SHAPES, LSTM_TYPES) is None


@pytest.mark.parametrize(
    ("position", "shape"),
    [(0, (3, 2)), (0, (3, 2, 6)), (1, (8,)), (1, (11, 16)), (2, (1, 3, 4)), (3, (2, 2, 4)), (4, (2,)), (5, ())],
)
def test_lstm_layers_with_other_shapes_are_refused(position: int, shape: tuple[int, ...]) -> None:
    problem = _lstm_problem([*LSTM_SHAPES[:position], shape, *LSTM_SHAPES[position + 1 :]], LSTM_TYPES)
    assert problem is not None and "cannot read data of shape" in problem


@pytest.mark.parametrize(("position", "dtype"), [(0, np.int8), (0, np.float32), (1, np.float16), (4, np.int32)])
def test_lstm_layers_with_other_types_are_refused(position: int, dtype: type) -> None:
    problem = _lstm_problem(LSTM_SHAPES, [*LSTM_TYPES[:position], dtype, *LSTM_TYPES[position + 1 :]])
    assert problem is not None and "in place of" in problem


def test_the_same_operators_with_sound_shapes_run(engine: None) -> None:
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(_run("Reshape", {"shape": "(3, -1)"}, value)[0], value.reshape(3, 2))
    np.testing.assert_array_equal(_run("where", {}, value % 2, value, -value)[0], np.where(value % 2, value, -value))
    np.testing.assert_array_equal(_run("_div_scalar", {"scalar": "2"}, value)[0], value / 2)


def test_a_graph_that_did_not_come_from_a_file_is_held_to_the_same_bounds(engine: None) -> None:
    with pytest.raises(ModelError, match="num_group"):
        _run("Convolution", {**CONV, "num_group": "0", "no_bias": "True"}, np.ones((1, 1, 9, 9)), np.ones((4, 1, 3, 3)))


def test_a_small_file_cannot_ask_for_endless_random_weights(engine: None, tmp_path: Path) -> None:
    from quantkit.models.load import load_model

    path = tmp_path / "net-symbol.json"
    path.write_text(symbol("FullyConnected", {"num_hidden": "2000000000", "no_bias": "True"}, 2))
    with pytest.raises(ModelError, match="values, more than"):
        load_model(path, weights="random", input_shape=(3, 8, 8))
