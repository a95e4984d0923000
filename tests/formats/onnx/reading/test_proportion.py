"""Small files that ask for much are refused, in memory and time that are in proportion to them."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import thread_time

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from quantkit.formats.onnx.reading.network import import_network
from tests.formats.onnx.reading.files import Writer, save
from tests.formats.onnx.reading.hostile import field, network, refused
from tests.processes import environment

pytestmark = pytest.mark.usefixtures("little_memory")


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


@pytest.mark.parametrize("position", [4, 7], ids=["lengths", "peepholes"])
def test_constants_of_a_recurrent_layer_that_repeat_one_number(position: int, tmp_path: Path) -> None:
    """Billions of values, over the batch and not, of which one has to be looked at."""
    w = Writer(17, (5, "N", 3))
    batch = w.op("Slice", w.op("Shape", "x"), np.array([1]), np.array([2]))
    many = {
        4: w.op("ConstantOfShape", w.op("Concat", batch, np.array([2**13]), axis=0)),
        7: w.op("ConstantOfShape", np.array([2**29])),
    }
    data = w.op("Identity", "x")
    for _ in range(4):
        inputs = [data, w.normal(1, 12, 3), w.normal(1, 12, 3), "", "", "", "", ""]
        inputs[position] = many[position]
        _, state = w.op("LSTM", *inputs, count=2, hidden_size=3)
        data = w.op("Concat", data, state, axis=0)
    path = save(w.model(data), tmp_path / "net.onnx")
    began = thread_time()
    if position == 4:
        assert "its sequences have lengths of their own" in refused(path)
    else:
        import_network(path)
    assert thread_time() - began < 1


def test_sides_that_mxnet_counts_wrongly(tmp_path: Path) -> None:
    w = Writer(shape=("N", 1, 4, 4))
    result = w.op(
        "Resize",
        "x",
        "",
        np.array([1, 1, 1, 2**14], np.float32),
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )
    assert "interpolates to sides of 32767 at most" in refused(save(w.model(result), tmp_path / "net.onnx"))


def test_nesting_is_no_bomb(tmp_path: Path) -> None:
    """A graph in an attribute of an operator of a graph and so on, as bytes, which the library would not write."""
    graph = b""
    for _ in range(1000):
        graph = field(1, field(5, field(6, graph)))
    path = tmp_path / "net.onnx"
    path.write_bytes(network().SerializeToString() + field(7, graph))
    assert "not a complete ONNX file (it nests too deep)" in refused(path)


_PEAK_OF_READING = """
import re, sys
from pathlib import Path
from onnx import checker
from quantkit.errors import ModelError
from quantkit.formats.onnx.reading.network import import_network

def peak():
    # ru_maxrss would include the largest RSS of the process that forked this one.
    return int(re.search("VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])

before, said = peak(), "read"
try:
    import_network(Path(sys.argv[1]))
except ModelError as error:
    said = error
print(peak() - before, said)
"""


def _peak_of_reading(path: Path) -> tuple[int, str]:
    """The resident memory in MiB that a process of its own takes to read a file, and what it says of the file."""
    done = subprocess.run(
        [sys.executable, "-c", _PEAK_OF_READING, path], env=environment(), capture_output=True, text=True, check=True
    )
    kibibytes, _, said = done.stdout.partition(" ")
    return int(kibibytes) // 2**10, said


@pytest.mark.parametrize("place", [(7, 1), (7, 5), (7, 1, 5), (7, 1, 1), (7, 1, 5, 11), (14,)])
def test_empty_parts_are_no_bomb(place: tuple[int, ...], tmp_path: Path) -> None:
    """A million operators, weights, attributes, names, graphs or metadata of two bytes each."""
    content = bytes([place[-1] << 3 | 2, 0]) * 2**20
    for number in place[-2::-1]:
        content = field(number, content)
    path = tmp_path / "net.onnx"
    path.write_bytes(network().SerializeToString() + content)
    mebibytes, said = _peak_of_reading(path)
    assert "has more than 524288 operators, attributes, tensors and names" in said
    assert mebibytes < 20


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


def test_as_many_outputs_as_operators_with_the_batch_inside(tmp_path: Path) -> None:
    w = Writer(shape=("N", 3, 2))
    outputs = [w.op("Transpose", "x", perm=[1, 0, 2]) for _ in range(2000)]
    path = save(w.model(*outputs), tmp_path / "net.onnx")
    started = thread_time()
    assert len(import_network(path).graph.outputs) == 2000
    assert thread_time() - started < 2


def test_operators_of_many_steps_have_an_end(tmp_path: Path) -> None:
    """A file of small operators, each of which takes more than two hundred of the engine's."""
    w = Writer(opset=19, shape=("N", 1, 20, 20))
    data = "x"
    for _ in range(1000):
        data = w.op("MaxPool", data, kernel_shape=[8, 16], dilations=[1, 2], auto_pad="SAME_UPPER")
    assert "more than 50000 operators of the engine" in refused(save(w.model(data), tmp_path / "net.onnx"))


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
    assert peak < 2**27


def test_copies_of_one_weight_stay_in_proportion_to_the_file(tmp_path: Path) -> None:
    w = Writer(shape=("N", 1024, 1, 1))
    shared, data = w.normal(1024, 1024), w.op("Flatten", "x")
    for _ in range(200):
        data = w.op("Gemm", data, shared)
    assert "out of proportion" in refused(save(w.model(data), tmp_path / "net.onnx"))


def _filled_weights(layers: int) -> Writer:
    """Dense layers of 64 MiB each, whose weights a small file fills with one number."""
    w = Writer(shape=("N", 4096))
    data = "x"
    for _ in range(layers):
        data = w.op("MatMul", data, w.op("ConstantOfShape", np.array([4096, 4096])))
    return w


def test_weights_that_are_filled_take_no_memory(tmp_path: Path) -> None:
    w = _filled_weights(10)
    path = save(w.model("t19"), tmp_path / "net.onnx")
    params = import_network(path).graph.params
    assert [(value.shape, value.dtype) for value in params.values()] == [((4096, 4096), np.float32)] * 10
    mebibytes, said = _peak_of_reading(path)
    assert (said.strip(), mebibytes < 20) == ("read", True), (said, mebibytes)


def test_filled_weights_have_an_end(tmp_path: Path) -> None:
    w = _filled_weights(11)
    assert "out of proportion" in refused(save(w.model("t21"), tmp_path / "net.onnx"))


def test_filled_weights_that_no_training_produces_take_no_memory_either(tmp_path: Path) -> None:
    w = Writer(shape=("N", 4096))
    value = numpy_helper.from_array(np.array([np.nan], np.float32))
    path = save(
        w.model(w.op("MatMul", "x", w.op("ConstantOfShape", np.array([4096, 2**15]), value=value))), tmp_path / "n"
    )
    mebibytes, said = _peak_of_reading(path)
    assert f"({2**27} of {2**27} values)" in said
    assert mebibytes < 20


def _computed_weights(layers: int) -> Writer:
    """Dense layers of 1 MiB each, whose weights a small file counts."""
    w = Writer(shape=("N", 512))
    data, ends = "x", (np.float32(0), np.float32(2**18), np.float32(1))
    for _ in range(layers):
        data = w.op("MatMul", data, w.op("Reshape", w.op("Range", *ends), np.array([512, 512])))
    return w


@pytest.mark.parametrize(("layers", "told"), [(12, "read"), (13, "out of proportion"), (200, "out of proportion")])
def test_computed_weights_have_an_end(layers: int, told: str, tmp_path: Path) -> None:
    path = save(_computed_weights(layers).model(f"t{3 * layers - 1}"), tmp_path / "net.onnx")
    mebibytes, said = _peak_of_reading(path)
    assert told in said
    assert mebibytes < 64


@pytest.mark.parametrize("scaled", ["alpha", "beta"])
def test_a_filled_weight_is_not_multiplied_before_it_is_paid_for(scaled: str, tmp_path: Path) -> None:
    w = Writer(shape=("N", 1))
    weight, bias = (w.op("ConstantOfShape", np.array(shape)) for shape in ([2**28, 1], [2**28]))
    path = save(w.model(w.op("Gemm", "x", weight, bias, transB=1, **{scaled: 2.0})), tmp_path / "net.onnx")
    mebibytes, said = _peak_of_reading(path)
    assert "out of proportion" in said
    assert mebibytes < 20


def test_smoothing_takes_time_in_proportion_to_the_file(tmp_path: Path) -> None:
    w = Writer(18, shape=("N", 1, 1, 2**17))
    scales = np.array([1, 1, 1, 1e-4], np.float32)
    path = save(w.model(w.op("Resize", "x", "", scales, mode="linear", antialias=1)), tmp_path / "net.onnx")
    assert "it averages 200" in refused(path)
