from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet import execute
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.execute import MxnetSession, engine_errors, failures, infer_shapes, run
from quantkit.backends.mxnet.stream import outputs_of
from quantkit.errors import EngineError, ModelError
from quantkit.ir.graph import Graph, Node, Tensor
from tests.networks import DATA, Builder, images, residual_v1, residual_v2

pytestmark = pytest.mark.usefixtures("engine")


def test_a_dense_layer_against_numpy() -> None:
    b = Builder()
    graph = b.graph(b.dense("dense", DATA, 768, 10))
    data = images()
    expected = data.reshape(4, -1) @ graph.params["dense_weight"].T + graph.params["dense_bias"]
    np.testing.assert_allclose(run(graph, {"data": data})[0], expected, rtol=1e-4, atol=1e-5)


def test_the_users_environment_does_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(residual_v1(), {"data": images()})[0]
    monkeypatch.setenv("MXNET_SUBGRAPH_BACKEND", "MKLDNN")
    np.testing.assert_array_equal(run(residual_v1(), {"data": images()})[0], expected)
    import os

    assert os.environ["MXNET_SUBGRAPH_BACKEND"] == "MKLDNN"


def test_shapes() -> None:
    shapes = infer_shapes(residual_v1(), {"data": (2, 3, 16, 16)})
    assert shapes[Tensor("pool")] == (2, 16, 1, 1)
    assert shapes[Tensor("dense")] == (2, 10)
    assert shapes[Tensor("conv0_weight")] == (16, 3, 3, 3)


def test_a_shape_that_does_not_fit_is_refused_in_one_line() -> None:
    with pytest.raises(EngineError) as caught:
        infer_shapes(residual_v1(), {"data": (1, 5, 16, 16)})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("outputs", "refused"), [(1, False), (4, True)])
def test_what_lives_at_once_must_fit_into_memory(outputs: int, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four tensors of 16 MiB, one after the other, or all of them to the end."""
    nodes = [Node("t0", "relu", (DATA,))]
    for number in range(1, 4):
        nodes.append(Node(f"t{number}", "_plus_scalar", (nodes[-1].output,), {"scalar": "1"}))
    graph = Graph(tuple(nodes), ("data",), tuple(node.output for node in nodes[-outputs:]))
    monkeypatch.setattr(execute, "available_memory", lambda: (63 if refused else 32) << 20)
    if not refused:
        MxnetSession(graph, {"data": (1, 4, 1024, 1024)})
        return
    with pytest.raises(EngineError, match="its tensors take 64 MiB, and 63 MiB of memory are free"):
        MxnetSession(graph, {"data": (1, 4, 1024, 1024)})


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ModelError, match="frobnicate"):
        run(Graph((Node("x", "frobnicate", (DATA,)),), ("data",), (Tensor("x"),)), {"data": images()})


@pytest.mark.parametrize("position", [3, 4])
@pytest.mark.parametrize("other", ["data", "conv1"])
def test_statistics_that_are_no_parameters_are_refused(position: int, other: str) -> None:
    graph = residual_v2()
    norm = graph.by_name["bn3"]
    inputs = (*norm.inputs[:position], Tensor(other), *norm.inputs[position + 1 :])
    nodes = tuple(replace(node, inputs=inputs) if node is norm else node for node in graph.nodes)
    with pytest.raises(ModelError, match=f"BatchNorm 'bn3' takes its moving mean or variance from '{other}', which is"):
        run(replace(graph, nodes=nodes), {"data": images()})


@pytest.mark.usefixtures("int8_engine")
def test_what_a_failed_operator_leaves_behind_touches_no_freed_memory() -> None:
    # glibc then ends the process where it finds its own marks written over.
    checked = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.backends.mxnet.failing_operator"]
    root = Path(__file__).parents[3]
    ended = subprocess.run(command, cwd=root, env={**os.environ, **checked}, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "20\n"), ended.stderr[-2000:]


def test_a_smaller_last_batch_gives_the_same_results() -> None:
    data = images(5)
    whole = run(residual_v1(), {"data": data})[0]
    parts = [outputs[0] for outputs in outputs_of(residual_v1(), [data[:4], data[4:]], 4)]
    assert [len(part) for part in parts] == [4, 1]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-4, atol=1e-5)


def test_a_larger_batch_than_agreed_is_refused() -> None:
    with pytest.raises(EngineError, match="at most 2"):
        list(outputs_of(residual_v1(), [images(3)], 2))


# As MXNet 1.9 puts them, the C++ stack first, and as 1.6 does, last.
MESSAGES = {
    "\n".join(["Traceback (most recent call last):", '  File "a.cc", line 7', "MXNetError: Check failed: a == b"]): (
        "MXNetError: Check failed: a == b"
    ),
    "[07:00:00] a.cc:7: Check failed: a == b\nStack trace:\n  [bt] (0) libmxnet.so": (
        "[07:00:00] a.cc:7: Check failed: a == b"
    ),
    "of one line": "of one line",
    "": "",
}


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize(
    "kind", ["MXNetError", "AttributeError", "IndexError", "NotImplementedError", "TypeError", "ValueError",
             "MemoryError"],
)  # fmt: skip
def test_each_error_of_the_engine_is_one_line_of_ours(kind: str, message: str) -> None:
    mxnet = load_mxnet()
    error = {each.__name__: each for each in failures()}[kind](message)
    with pytest.raises(EngineError) as caught, engine_errors("do it"):
        raise error
    assert str(caught.value) == f"MXNet {mxnet.__version__} cannot do it: {MESSAGES[message]}"
    assert caught.value.__cause__ is error


def test_every_error_that_the_engine_names_is_expected() -> None:
    """MXNet raises the class of Python's that its message in C++ begins with: those that it has listed."""
    listed = getattr(load_mxnet().base, "error_types", {"MXNetError": load_mxnet().base.MXNetError})
    assert all(issubclass(each, failures()) for each in listed.values())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ModelError("ours"), KeyError("a mistake"), OSError("no file")])
def test_other_errors_stay_what_they_are(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, engine_errors("do it"):
        raise error
    assert caught.value is error
