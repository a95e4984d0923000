"""Files that are damaged or contradict themselves: an error that names what and where."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.formats.onnx.reading.files import save
from tests.formats.onnx.reading.hostile import initialiser, network, refused

pytestmark = pytest.mark.usefixtures("little_memory")

Change = Callable[[ModelProto], None]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"a network, in words\n", "not a complete ONNX file|holds no network|does not state the version"),
        (bytes(range(256)) * 40, "not a complete ONNX file|does not state"),
        (network().SerializeToString()[:-200], "not a complete ONNX file"),
        (ModelProto().SerializeToString() or b"\x08\x08", "does not state the version"),
    ],
)
def test_no_onnx_files(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert re.search(told, refused(path))


def test_missing_files(tmp_path: Path) -> None:
    assert "cannot read" in refused(tmp_path / "net.onnx")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "net.onnx")
    assert "not an ordinary file" in refused(tmp_path / "net.onnx")


def _huge(model: ModelProto) -> None:
    initialiser(model).dims[:] = [2**20, 2**20]


def _negative(model: ModelProto) -> None:
    initialiser(model).dims[:] = [-4, -3, 3, 3]


def _none_of_many(model: ModelProto) -> None:
    initialiser(model).dims[:] = [0, 2**62]
    initialiser(model).raw_data = b""


def _short(model: ModelProto) -> None:
    initialiser(model).raw_data = initialiser(model).raw_data[:-1]


def _text(model: ModelProto) -> None:
    initialiser(model).CopyFrom(helper.make_tensor("c1", TensorProto.STRING, [1], [b"no"]))


def _empty(model: ModelProto) -> None:
    initialiser(model).CopyFrom(numpy_helper.from_array(np.zeros((4, 0, 3, 3), np.float32), "c1"))


def _not_a_number(model: ModelProto) -> None:
    initialiser(model, 0).CopyFrom(numpy_helper.from_array(np.full(4, np.nan, np.float32), "c0"))


def _twice(model: ModelProto) -> None:
    model.graph.initializer.append(initialiser(model))


def _cycle(model: ModelProto) -> None:
    model.graph.node[0].input[0] = "t1"


def _nothing(model: ModelProto) -> None:
    model.graph.node[1].input[0] = "nobody"


def _two_producers(model: ModelProto) -> None:
    model.graph.node[1].output[0] = "t0"


def _opset(model: ModelProto) -> None:
    model.opset_import[0].version = 5


def _domain(model: ModelProto) -> None:
    model.graph.node[1].domain = "nobody.knows"
    model.opset_import.append(helper.make_opsetid("nobody.knows", 1))


def _wrong_attribute(model: ModelProto) -> None:
    model.graph.node[0].attribute.append(helper.make_attribute("strides", "two"))


def _long_attribute(model: ModelProto) -> None:
    model.graph.node[0].attribute.append(helper.make_attribute("pads", [2**40] * 4))


def _long_stride(model: ModelProto) -> None:
    model.graph.node[0].attribute.append(helper.make_attribute("strides", [1, 2**63 - 1]))


def _enormous_window(model: ModelProto) -> None:
    """Where the padding follows from the size, every window fits."""
    pool = helper.make_node("MaxPool", ["t0"], ["p"], "pool", kernel_shape=[2**63 - 1, 3], auto_pad="SAME_UPPER")
    model.graph.node.append(pool)
    model.graph.output[0].name = "p"


def _no_such_type(model: ModelProto) -> None:
    initialiser(model).data_type = 77


def _subgraph(model: ModelProto) -> None:
    branch = helper.make_graph(
        [helper.make_node("Neg", ["t0"], ["b"])], "b", [], [helper.make_tensor_value_info("b", 1, None)]
    )
    branch.output[0].type.tensor_type.shape.SetInParent()
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    model.graph.node[1].CopyFrom(
        helper.make_node("If", ["yes"], ["t1"], "choice", then_branch=branch, else_branch=branch)
    )


def _function(model: ModelProto) -> None:
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(
        helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], opsets)
    )
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node[1].CopyFrom(helper.make_node("F", ["t0"], ["t1"], "call", domain="own"))


def _sparse(model: ModelProto) -> None:
    values = numpy_helper.from_array(np.ones(1, np.float32), "sparse")
    places = numpy_helper.from_array(np.zeros(1, np.int64), "places")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4]))


def _two_batches(model: ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    model.graph.input.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 4, 6, 6]))
    model.graph.node[1].CopyFrom(helper.make_node("Add", ["t0", "y"], ["t1"]))


def _integers(model: ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8


def _vectors(model: ModelProto) -> None:
    del model.graph.input[0].type.tensor_type.shape.dim[2:]


def _numbers(model: ModelProto) -> None:
    del model.graph.input[0].type.tensor_type.shape.dim[1:]


def _small(model: ModelProto) -> None:
    for extent in model.graph.input[0].type.tensor_type.shape.dim[2:]:
        extent.dim_value = 2


def _other_features(model: ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[3].dim_value = 9


def _one_output_of_constants(model: ModelProto) -> None:
    model.graph.node.append(helper.make_node("Neg", ["c1"], ["constant"]))
    model.graph.output.append(helper.make_tensor_value_info("constant", TensorProto.FLOAT, [4]))


def _metadata_name(model: ModelProto) -> None:
    model.graph.node[1].name = "relu"
    content = model.SerializeToString().replace(b"relu", b"\xff\xfe\xfd\xfc")
    model.ParseFromString(content)


DAMAGE: dict[str, tuple[Change, str]] = {
    "huge weight": (_huge, "needs 4398046511104 bytes"),
    "negative extents": (_negative, "impossible shape"),
    "extents that no array has": (_none_of_many, "impossible shape"),
    "short weight": (_short, "needs 432 bytes and has 431"),
    "text": (_text, "is text"),
    "empty weight": (_empty, "Conv 'Conv_0'.*missing or empty"),
    "not a number": (_not_a_number, "holds NaN"),
    "weight twice": (_twice, "two weights of the same name"),
    "cycle": (_cycle, "not a valid ONNX network.*t1"),
    "reads what is not there": (_nothing, "not a valid ONNX network.*nobody"),
    "two producers": (_two_producers, "not a valid ONNX network.*t0"),
    "old opset": (_opset, "opset 5; 6 to 24 are read"),
    "other domain": (_domain, "Relu 'relu'.*'nobody.knows'"),
    "attribute of another type": (_wrong_attribute, "strides"),
    "enormous padding": (_long_attribute, "Conv 'Conv_0': its attribute 'pads'"),
    "enormous stride": (_long_stride, "Conv 'Conv_0': its attribute 'strides'"),
    "enormous window": (_enormous_window, "MaxPool 'pool': its window of .9223372036854775807, 3. is"),
    "unknown type": (_no_such_type, "not a valid ONNX network|data type 77"),
    "subgraph": (_subgraph, "node 'choice' .If.*network within the network"),
    "function": (_function, "F 'call'.*'own'.*inline"),
    "sparse weight": (_sparse, "sparse weights"),
    "two batches": (_two_batches, "the first axis of 'x' has 2, that of 'y' 5; export it with the batch"),
    "integers as input": (_integers, "'x' holds other than floating-point"),
    "vectors as input": (_vectors, "input .N, 3.; 1 to 3 axes are read"),
    "numbers as input": (_numbers, "'x' has 1 axes"),
    "too small": (_small, "window of .3, 3. is larger than its input"),
    "other features": (_other_features, "weight for 144 features does not fit input .N, 168."),
    "constant output": (_one_output_of_constants, "'constant' does not depend on the input"),
    "name of other bytes": (_metadata_name, "UTF-8|not a complete"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage(name: str, tmp_path: Path) -> None:
    change, told = DAMAGE[name]
    model = network()
    change(model)
    message = refused(save(model, tmp_path / "net.onnx"))
    assert re.search(told, message), message
