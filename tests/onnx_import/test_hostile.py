"""Files that are damaged, contradict themselves or mean harm: a clear error, within seconds, in bounded memory."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from quantkit.errors import ModelError
from quantkit.onnx_import.construction import Construction
from quantkit.onnx_import.network import import_network
from quantkit.onnx_import.values import Budget
from tests.onnx_import.files import Writer, save
from tests.processes import environment

Change = Callable[[ModelProto], None]

_GIGABYTE = 2**30


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """A limit of three gigabytes beyond what the process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 3 * _GIGABYTE, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def network() -> ModelProto:
    w = Writer(shape=("N", 3, 8, 8))
    data = w.op("Relu", w.conv("x", 3, 4), name="relu")
    return w.model(w.op("Gemm", w.op("Flatten", data), w.normal(5, 144), w.normal(5), transB=1))


def refused(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        import_network(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


def changed(change: Change, folder: Path) -> str:
    model = network()
    change(model)
    return refused(save(model, folder / "net.onnx"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"a network, in words\n", "not a complete ONNX file|holds no network|does not tell the version"),
        (bytes(range(256)) * 40, "not a complete ONNX file|does not tell"),
        (network().SerializeToString()[:-200], "not a complete ONNX file"),
        (ModelProto().SerializeToString() or b"\x08\x08", "does not tell the version"),
    ],
)
def test_no_onnx_files(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert re.search(told, refused(path))


def test_missing_files(tmp_path: Path) -> None:
    assert "cannot read" in refused(tmp_path / "net.onnx")


def initialiser(model: ModelProto, index: int = 1) -> TensorProto:
    """The weight of the convolution, or with 0 its bias."""
    return model.graph.initializer[index]


def _huge(model: ModelProto) -> None:
    initialiser(model).dims[:] = [2**20, 2**20]


def _negative(model: ModelProto) -> None:
    initialiser(model).dims[:] = [-4, -3, 3, 3]


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
    model.opset_import[0].version = 8


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


def _two_inputs(model: ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4, 6, 6]))
    model.graph.node[1].CopyFrom(helper.make_node("Add", ["t0", "y"], ["t1"]))


def _integers(model: ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8


def _vectors(model: ModelProto) -> None:
    del model.graph.input[0].type.tensor_type.shape.dim[2:]


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
    "short weight": (_short, "needs 432 bytes and has 431"),
    "text": (_text, "is text"),
    "empty weight": (_empty, "Conv 'Conv_0'.*missing or empty"),
    "not a number": (_not_a_number, "holds NaN"),
    "weight twice": (_twice, "two weights of the same name"),
    "cycle": (_cycle, "not a valid ONNX network.*t1"),
    "reads what is not there": (_nothing, "not a valid ONNX network.*nobody"),
    "two producers": (_two_producers, "not a valid ONNX network.*t0"),
    "old opset": (_opset, "opset 8; 9 to 21 are read"),
    "other domain": (_domain, "Relu 'relu'.*'nobody.knows'"),
    "attribute of another type": (_wrong_attribute, "strides"),
    "enormous padding": (_long_attribute, "Conv 'Conv_0': its attribute 'pads'"),
    "enormous stride": (_long_stride, "Conv 'Conv_0': its attribute 'strides'"),
    "enormous window": (_enormous_window, "MaxPool 'pool': its window of .9223372036854775807, 3. is"),
    "unknown type": (_no_such_type, "not a valid ONNX network|data type 77"),
    "subgraph": (_subgraph, "node 'choice' .If.*network within the network"),
    "function": (_function, "F 'call'.*'own'.*inline"),
    "sparse weight": (_sparse, "sparse weights"),
    "two inputs": (_two_inputs, "2 inputs .'x', 'y'"),
    "integers as input": (_integers, "'x' holds other than floating-point"),
    "vectors as input": (_vectors, "'x' has 2 axes"),
    "too small": (_small, "window of .3, 3. is larger than its input"),
    "other features": (_other_features, "weight for 144 features does not fit input .N, 168."),
    "constant output": (_one_output_of_constants, "'constant' does not depend on the image"),
    "name of other bytes": (_metadata_name, "UTF-8|not a complete"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage(name: str, tmp_path: Path) -> None:
    change, told = DAMAGE[name]
    message = changed(change, tmp_path)
    assert re.search(told, message), message


@pytest.mark.parametrize(
    "op", ["ConstantOfShape", "Range", "Expand", "Tile", "outer sum", "many", "Pad", "Resize", "batch"]
)
def test_bombs(op: str, tmp_path: Path) -> None:
    """Small files that ask for enormous tensors."""
    w = Writer()
    if op == "ConstantOfShape":
        bomb = w.op("ConstantOfShape", np.array([2**30, 2**30]))
    elif op == "Range":
        bomb = w.op("Range", 0.0, 1e15, 1.0)
    elif op == "Expand":
        bomb = w.op("Expand", 1.0, np.array([2**20, 2**20]))
    elif op == "Tile":
        bomb = w.op("Tile", w.normal(10), np.array([2**40]))
    elif op == "outer sum":
        line = w.op("ConstantOfShape", np.array([2**20]))
        bomb = w.op("Add", line, w.op("Reshape", line, np.array([-1, 1])))
    elif op == "many":
        bomb = w.op("ConstantOfShape", np.array([2**24]))
        for _ in range(40):
            bomb = w.op("Neg", bomb)
    elif op == "batch":
        bomb = w.op("ConstantOfShape", w.op("Slice", w.op("Shape", "x"), np.array([0]), np.array([1])))
    elif op == "Pad":
        bomb = w.op("Pad", "x", np.array([0, 0, 2**40, 0, 0, 0, 0, 0]))
    else:
        bomb = w.op("Resize", "x", "", np.array([1, 1, 1e6, 1e6], np.float32))
    result = bomb if op in ("Pad", "Resize") else w.op("Mul", "x", bomb)
    path = save(w.model(result), tmp_path / "net.onnx")
    message = refused(path)
    assert "cannot be imported" in message
    # Known for what it is, not run into.
    assert "contradicts itself" not in message


def field(number: int, content: bytes) -> bytes:
    """A field of protobuf's with a length."""
    size, length = len(content), b""
    while size > 127:
        size, length = size >> 7, length + bytes([size & 127 | 128])
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def test_nesting_is_no_bomb(tmp_path: Path) -> None:
    """A graph in an attribute of an operator of a graph and so on, as bytes, which the library would not write."""
    graph = b""
    for _ in range(1000):
        graph = field(1, field(5, field(6, graph)))
    path = tmp_path / "net.onnx"
    path.write_bytes(network().SerializeToString() + field(7, graph))
    assert "not a complete ONNX file (it nests too deep)" in refused(path)


_PEAK_OF_READING = """
import resource, sys
from pathlib import Path
from onnx import checker
from quantkit.errors import ModelError
from quantkit.onnx_import.network import import_network

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = peak()
try:
    import_network(Path(sys.argv[1]))
except ModelError as error:
    print(peak() - before, error)
"""


@pytest.mark.parametrize("place", [(7, 1), (7, 5), (7, 1, 5), (7, 1, 1), (7, 1, 5, 11), (14,)])
def test_empty_parts_are_no_bomb(place: tuple[int, ...], tmp_path: Path) -> None:
    """A million operators, weights, attributes, names, graphs or metadata of two bytes each."""
    content = bytes([place[-1] << 3 | 2, 0]) * 2**20
    for number in place[-2::-1]:
        content = field(number, content)
    path = tmp_path / "net.onnx"
    path.write_bytes(network().SerializeToString() + content)
    done = subprocess.run(
        [sys.executable, "-c", _PEAK_OF_READING, path], env=environment(), capture_output=True, text=True, check=True
    )
    kibibytes, _, said = done.stdout.partition(" ")
    assert "has more than 524288 operators, attributes, tensors and names" in said
    assert int(kibibytes) < 20 * 2**10


@pytest.mark.parametrize(
    ("place", "told"), [((7, 1), "50004 operators"), ((7, 5), "50004 weights"), ((7, 11), "50001 inputs")]
)
def test_more_than_any_network_has(place: tuple[int, int], told: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(network().SerializeToString() + field(place[0], field(place[1], b"") * 50_000))
    assert f"has {told}; quantkit reads up to 50000" in refused(path)


def test_a_network_of_ten_thousand_operators(tmp_path: Path) -> None:
    w = Writer(shape=("N", 3, 8, 8))
    data = w.conv("x", 3, 4)
    for _ in range(10_000):
        data = w.op("Neg", data)
    assert len(import_network(save(w.model(data), tmp_path / "net.onnx")).graph.nodes) > 10_000


def outside(model: ModelProto, **entries: str) -> None:
    """Have the first weight lie in another file."""
    tensor = initialiser(model)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)


def test_weights_beside_the_file(tmp_path: Path) -> None:
    model = network()
    inside = import_network(save(model, tmp_path / "inside.onnx"))
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(b"1234" + initialiser(model).raw_data)
    outside(model, location="weights/w.bin", offset="4", length="432")
    found = import_network(save(model, tmp_path / "net.onnx"))
    np.testing.assert_array_equal(found.graph.params["c1"], inside.graph.params["c1"])
    first = found.sha256
    (tmp_path / "weights" / "w.bin").write_bytes(b"1234" + bytes(432))
    assert import_network(tmp_path / "net.onnx").sha256 != first


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"location": "/etc/passwd"}, "only files in the network's own folder"),
        ({"location": "../w.bin"}, "only files in the network's own folder"),
        ({"location": "a/../../w.bin"}, "only files in the network's own folder"),
        ({"location": "link.bin"}, "a link out of the network's folder"),
        ({"location": "folder/w.bin"}, "a link out of the network's folder"),
        ({"location": "gone.bin"}, "missing; put it beside"),
        ({"location": "."}, "missing; put it beside"),
        ({}, "only files in the network's own folder"),
        ({"location": "w.bin", "offset": "8"}, "432 bytes from byte 8 on are not in"),
        ({"location": "w.bin", "offset": "-8"}, "from byte -8 on are not in"),
        ({"location": "w.bin", "length": "431"}, "needs 432 bytes and names 431"),
        ({"location": "w.bin", "offset": "many"}, "the file is damaged"),
    ],
)
def test_weights_elsewhere(entries: dict[str, str], told: str, tmp_path: Path) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    for path in (tmp_path / "w.bin", folder / "w.bin"):
        path.write_bytes(bytes(432))
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "folder").symlink_to(tmp_path)
    model = network()
    outside(model, **entries)
    assert told in refused(save(model, folder / "net.onnx"))


def two_outside(model: ModelProto, first: str, second: str) -> None:
    """The weights and the bias of the convolution at the beginning of two files."""
    outside(model, location=first)
    bias = initialiser(model, 0)
    bias.ClearField("raw_data")
    bias.data_location = TensorProto.EXTERNAL
    bias.external_data.add(key="location", value=second)


@pytest.mark.parametrize("other", ["w.bin", "./w.bin", ".//w.bin", "folder/../w.bin", "soft.bin", "hard.bin"])
def test_one_file_is_not_read_again_and_again_by_any_name(other: str, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(440))
    (tmp_path / "folder").mkdir()
    (tmp_path / "soft.bin").symlink_to("w.bin")
    (tmp_path / "hard.bin").hardlink_to(tmp_path / "w.bin")
    model = network()
    two_outside(model, "w.bin", other)
    assert re.search(
        "tensors overlap|only files in the network's own folder", refused(save(model, tmp_path / "n.onnx"))
    )


def test_tensors_at_the_same_place_share_their_values(tmp_path: Path) -> None:
    """Also where their type has to be converted: a small file cannot become large by naming its bytes often."""
    (tmp_path / "w.bin").write_bytes(np.ones(2**20, np.float16).tobytes())
    w = Writer(shape=("N", 3, 8, 8))
    data = w.op("Relu", w.conv("x", 3, 4))
    for _ in range(400):
        data = w.op("Add", data, w.op("Squeeze", np.zeros(1, np.float32)))
    model = w.model(data)
    for tensor in model.graph.initializer:
        if tensor.dims == [1]:
            tensor.ClearField("raw_data")
            tensor.dims[:], tensor.data_type = [2**20], TensorProto.FLOAT16
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="w.bin")
    tracemalloc.start()
    refused(save(model, tmp_path / "net.onnx"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 2**20


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "w.bin").symlink_to("w.bin")
    model = network()
    outside(model, location="w.bin")
    assert "missing" in refused(save(model, tmp_path / "net.onnx"))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "net.onnx")
    assert "not an ordinary file" in refused(tmp_path / "net.onnx")


def _tiled(w: Writer) -> str:
    """More repeats than the constant has axes."""
    return str(w.op("Tile", np.ones(2, np.float32), np.array([1, 2**30])))


def _expanded(w: Writer) -> str:
    return str(w.op("Expand", np.ones(1, np.float32), np.array([2**15, 2**15])))


def _filled(w: Writer) -> str:
    return str(w.op("ConstantOfShape", np.array([2**28])))


def _ranged(w: Writer) -> str:
    return str(w.op("Range", np.array(0), np.array(2**28), np.array(1)))


def _gathered(w: Writer) -> str:
    indices = w.op("Cast", w.op("ConstantOfShape", np.array([2**20])), to=TensorProto.INT64)
    return str(w.op("Gather", np.ones((2, 2**10), np.float32), indices, axis=0))


def _doubled(w: Writer) -> str:
    data = w.constant(np.ones(2, np.float32))
    for _ in range(40):
        data = w.op("Concat", data, data, axis=0)
    return data


def _listed(w: Writer) -> str:
    """A list of millions of axes, which as Python's integers takes five times its size."""
    long = w.op("Cast", w.op("ConstantOfShape", np.array([2**22])), to=TensorProto.INT64)
    return str(w.op("Reshape", np.ones(1, np.float32), long))


@pytest.mark.parametrize(
    ("fold", "told"),
    [
        (_tiled, "2 repeats for 1 axes"),
        (_expanded, "out of proportion"),
        (_filled, "out of proportion"),
        (_ranged, "out of proportion"),
        (_gathered, "out of proportion"),
        (_doubled, "out of proportion"),
        (_listed, "not a list of integers"),
    ],
)
def test_constants_stay_in_proportion_to_the_file(fold: Callable[[Writer], str], told: str, tmp_path: Path) -> None:
    w = Writer(shape=("N", 3, 8, 8))
    data = w.op("Relu", w.conv("x", 3, 4))
    model = w.model(w.op("Add", data, w.op("ReduceMax", fold(w), keepdims=0)))
    tracemalloc.start()
    assert told in refused(save(model, tmp_path / "net.onnx"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 600 * 2**20


def test_copies_of_one_weight_stay_in_proportion_to_the_file(tmp_path: Path) -> None:
    w = Writer(shape=("N", 1024, 1, 1))
    shared, data = w.normal(1024, 1024), w.op("Flatten", "x")
    for _ in range(200):
        data = w.op("Gemm", data, shared)
    assert "out of proportion" in refused(save(w.model(data), tmp_path / "net.onnx"))


def test_names_for_one_weight_are_not_looked_for_from_the_first_on() -> None:
    asked = 0

    class Counting(set[str]):
        def __contains__(self, name: object) -> bool:
            nonlocal asked
            asked += 1
            return super().__contains__(name)

    state = Construction(17, "x", frozenset(), Counting({"w", "w_2"}), Budget(2**20))
    names = [state.parameter("w", np.ones(1)).node for _ in range(1000)]
    assert names[:3] == ["w_1", "w_3", "w_4"] and len(set(names)) == 1000
    assert asked < 3000


def test_one_file_is_not_read_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(440))
    model = network()
    outside(model, location="w.bin")
    second = initialiser(model, 0)
    second.ClearField("raw_data")
    second.data_location = TensorProto.EXTERNAL
    second.external_data.add(key="location", value="w.bin")
    assert "tensors overlap" in refused(save(model, tmp_path / "net.onnx"))
