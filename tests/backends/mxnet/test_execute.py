from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet import execute
from quantkit.backends.mxnet.capabilities import release
from quantkit.backends.mxnet.execute import MxnetSession, bound, run
from quantkit.backends.mxnet.stream import outputs_of
from quantkit.errors import EngineError
from quantkit.ir.graph import Graph, Node
from tests.networks import DATA, Builder, images, residual_v1

pytestmark = pytest.mark.usefixtures("engine")


def test_a_dense_layer_against_numpy() -> None:
    b = Builder()
    graph = b.graph(b.dense("dense", DATA, 768, 10))
    data = images()
    expected = data.reshape(4, -1) @ graph.params["dense_weight"].T + graph.params["dense_bias"]
    np.testing.assert_allclose(run(graph, {"data": data})[0], expected, rtol=1e-4, atol=1e-5)


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


@pytest.mark.usefixtures("int8_engine")
def test_what_a_failed_operator_leaves_behind_touches_no_freed_memory() -> None:
    # glibc then ends the process where it finds its own marks written over.
    checked = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.backends.mxnet.failing_operator"]
    root = Path(__file__).parents[3]
    ended = subprocess.run(command, cwd=root, env={**os.environ, **checked}, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "20\n"), ended.stderr[-2000:]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("outlives", [True, False])
def test_a_network_is_bound_anew_after_a_fork_where_it_must(outlives: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if release() < (1, 9, 0) and outlives:
        pytest.skip("needs onednn: MKL-DNN 1.0 ends the process then")
    executors = []
    monkeypatch.setattr(execute, "bound", lambda *given: executors.append(bound(*given)) or executors[-1])
    monkeypatch.setattr(execute, "outlives_forks", lambda: outlives)
    data = images()
    session = MxnetSession(residual_v1(), {"data": data.shape})
    before = session.run({"data": data})[0]
    assert len(executors) == 1
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    np.testing.assert_array_equal(session.run({"data": data})[0], before)
    assert len(executors) == (1 if outlives else 2)


def test_a_smaller_last_batch_gives_the_same_results() -> None:
    data = images(5)
    whole = run(residual_v1(), {"data": data})[0]
    parts = [outputs[0] for outputs in outputs_of(residual_v1(), [data[:4], data[4:]], 4)]
    assert [len(part) for part in parts] == [4, 1]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-4, atol=1e-5)
